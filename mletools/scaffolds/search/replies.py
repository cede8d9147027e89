"""JSON in a model's answer: after its reasoning, alone, in a fence, or with words around it.

Covered: fenced or not, of several values the longest, a list that an object is wrapped around. Not covered: mending what
is broken.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from ..answers import after_thinking

MOST_TRIED = 200  # brackets of a text from which a value is tried to be read
MOST_READ = 3  # times as many characters as the text has; a bracket may be read to the end of the text in vain
_OPENING = re.compile(r"[\[{]")
_FENCE = re.compile(r"```(?:json)?[ \t]*$", re.MULTILINE)


def json_in(text: str, kind: type) -> Any:
    """The longest value of `kind` (dict or list) in an answer. ValueError, in words for the model, where there is none.

    Values in fences come first; a list may be the only one that an object holds.
    """
    answer = after_thinking(text)
    for part in [*_fenced(answer), answer]:
        values = list(_values(part))
        sized = [(size, value) for size, value in values if isinstance(value, kind)]
        if not sized and kind is list:
            sized = [(size, lists[0]) for size, value in values if len(lists := _lists_in(value)) == 1]
        if sized:
            return max(sized, key=lambda each: each[0])[1]
    raise ValueError(f"your answer holds no JSON {'object' if kind is dict else 'list'} that can be read")


def _fenced(text: str) -> Iterator[str]:
    """What stands in fences and may be JSON: from one at a line's end to the next one that begins a line."""
    begin: int | None = None
    at = 0
    for line in text.split("\n"):
        if begin is not None and line.lstrip(" \t").startswith("```"):
            if _OPENING.search(text, begin, at):
                yield text[begin : at - 1]
            begin = None
        elif begin is None and _FENCE.search(line):
            begin = at + len(line) + 1
        at += len(line) + 1


def _lists_in(value: Any) -> list[Any]:
    return [each for each in value.values() if isinstance(each, list)] if isinstance(value, dict) else []


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """(length in characters, value) of each JSON object and list in a text, but for those inside others."""
    decoder = json.JSONDecoder(strict=False)
    at, left = 0, MOST_READ * len(text)
    for _ in range(MOST_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None or left < 0:
            return
        at = opening.start()
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            left -= (error.pos if isinstance(error, json.JSONDecodeError) else len(text)) - at
            at += 1
            continue
        yield end - at, found
        at = end


def text_of(answer: dict[str, Any], name: str, most: int = 2000) -> str:
    """A field that has to be text, and not empty; cut at `most` characters. ValueError, in words, where it is not."""
    value = answer.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{name}" has to be a text')
    # JSON can escape halves of surrogate pairs, which no file holds
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()[:most]


def number_of(answer: dict[str, Any], name: str) -> float:
    """A field that has to be a finite number. ValueError, in words, where it is not."""
    value = answer.get(name)
    try:
        number = float("nan" if isinstance(value, bool) or not isinstance(value, (int, float)) else value)
    except OverflowError:
        number = float("inf")
    if not math.isfinite(number):
        raise ValueError(f'"{name}" has to be a number')
    return number
