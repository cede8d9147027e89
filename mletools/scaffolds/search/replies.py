"""JSON in a model's answer: after its reasoning, alone, in a fence, or with words around it.

Covered: fenced or not, of several values the longest, a list that an object is wrapped around. Not covered: mending what
is broken.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from mletools.scaffolds.answers import after_thinking

MOST_TRIED = 200  # brackets of a text from which a value is tried to be read
_OPENING = re.compile(r"[\[{]")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


def json_in(text: str, kind: type) -> Any:
    """The longest value of `kind` (dict or list) in an answer. ValueError, in words for the model, where there is none.

    Values in fences come first; a list may be the only one that an object holds.
    """
    said = after_thinking(text)
    for part in [*_FENCED.findall(said), said]:
        found = [(size, value) for size, value in _values(part) if isinstance(value, kind)]
        if not found and kind is list:
            found = [(size, lists[0]) for size, value in _values(part) if len(lists := _lists_in(value)) == 1]
        if found:
            return max(found, key=lambda each: each[0])[1]
    raise ValueError(f"your answer holds no JSON {'object' if kind is dict else 'list'} that can be read")


def _lists_in(value: Any) -> list[Any]:
    return [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else []


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """(length in characters, value) of each JSON object and list in a text, but for those inside others."""
    decoder = json.JSONDecoder(strict=False)
    at = 0
    for _ in range(MOST_TRIED):  # each try may read to the end of the text
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        at = opening.start()
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield end - at, found
        at = end


def text_of(found: dict[str, Any], name: str, most: int = 2000) -> str:
    """A field that has to be text, and not empty; cut at `most` characters. ValueError, in words, where it is not."""
    value = found.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{name}" has to be a text')
    # JSON can escape halves of surrogate pairs, which no file holds
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()[:most]


def number_of(found: dict[str, Any], name: str) -> float:
    """A field that has to be a finite number. ValueError, in words, where it is not."""
    value = found.get(name)
    try:
        number = float("nan" if isinstance(value, bool) or not isinstance(value, (int, float)) else value)
    except OverflowError:
        number = float("inf")
    if not math.isfinite(number):
        raise ValueError(f'"{name}" has to be a number')
    return number
