"""JSON that a model wrote with faults, repaired by json-repair within bounds that keep the time linear.

Covered: commas, comments, Python literals, single quotes, inner quotes, words around a value, missing brackets at the
very end. Not covered: a value that ends within a string or after a comma, since it was cut; deep or very long values.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

MOST_DEPTH = 20  # brackets within brackets
MOST_REPAIRS = 3  # values that are repaired in one text
MOST_STARTS = 40  # brackets at which a value may begin
MOST_SIZE = 20_000  # characters of a value
MOST_MARKS = 1_000  # quotes and brackets of a value: json-repair takes the square of their number
MOST_OPENED = 100  # opening brackets of a value, also those within its strings
MOST_READ = 3  # times the characters of the text; a search may run to the end of the text in vain
MARKS = "\"'\u201c\u201d[]{}()`"
_OPENING = re.compile(r"[\[{]")
_MARK = re.compile(r"""["'\[\]{}#]|//|/\*""")
_STRING_END = {quote: re.compile(rf"\\.|{quote}(?=\s{{0,200}}(?:[,:}}\]#/]|\Z))", re.DOTALL) for quote in ("'", '"')}
_COMMENT = re.compile(r"#|//|/\*")
_WORD = re.compile(r"\w")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_COMMENT_END = {"#": re.compile(r"\n|\Z"), "//": re.compile(r"\n|\Z"), "/*": re.compile(r"\*/")}
_COMPLETE = re.compile(r"""["'\]}]|[:,\[]\s*(?:[Tt]rue|[Ff]alse|null|None|-?[0-9][0-9.eE+-]*)""")
_KEY = re.compile(r"[A-Za-z_][\w /-]{0,40}")


def repaired_values(text: str) -> Iterator[tuple[int, Any]]:
    """(length in characters, value) of each outermost JSON object and list in a text, repaired."""
    at, budget, repairs = 0, MOST_READ * len(text), 0
    for _ in range(MOST_STARTS):
        opening = _OPENING.search(text, at)
        if opening is None or budget < 0 or repairs == MOST_REPAIRS:
            return
        at = opening.start()
        end, complete = _extent(text, at)
        budget -= end - at
        if not complete:
            at += 1
            continue
        part = text[at:end]
        if sum(map(part.count, MARKS)) > MOST_MARKS or sum(map(part.count, "[{(")) > MOST_OPENED:
            return
        repairs += 1
        value = _repaired(part)
        if isinstance(value, (dict, list)) and value and _plausible(value) and _keeps_words(part, value):
            yield end - at, value
        at = end


def _extent(text: str, begin: int) -> tuple[int, bool]:
    """(end, complete) of the value that begins with a bracket; missing brackets at the end of the text are forgiven."""
    expected: list[str] = []
    at = begin
    while (match := _MARK.search(text, at)) is not None:
        mark, at = match.group(), match.end()
        if at - begin > MOST_SIZE:
            return at, False
        if mark in "[{":
            expected.append("]" if mark == "[" else "}")
            if len(expected) > MOST_DEPTH:
                return at, False
        elif mark in "]}":
            if mark not in expected:
                return at, False
            while expected.pop() != mark:
                pass
            if not expected:
                return at, True
        elif mark in _COMMENT_END:
            comment = _COMMENT_END[mark].search(text, at)
            if comment is None:
                return len(text), False
            at = comment.end()
        else:
            closing = _string_end(text, at, mark)
            if closing is None:
                return len(text), False
            at = closing
    rest = text.rstrip()
    last = max(begin, *(rest.rfind(mark, begin) for mark in ",:["))
    complete = rest[-1] in "\"']}" or _COMPLETE.fullmatch(rest, last) is not None
    return len(text), complete and len(text) - begin <= MOST_SIZE


def _string_end(text: str, begin: int, quote: str) -> int | None:
    """The end of a string: a quote before a comma, colon, bracket or comment; other quotes belong to the string."""
    for match in _STRING_END[quote].finditer(text, begin, begin + MOST_SIZE):
        if match.group() == quote:
            return match.end()
    return None


def _repaired(text: str) -> object:
    from json_repair import repair_json

    try:
        return repair_json(text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def _plausible(value: object) -> bool:
    """Whether all names of objects look like names: a text that was split at its inner quotes has others."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _KEY.fullmatch(name) and _plausible(value[name]) for name in value)
    return all(map(_plausible, value)) if isinstance(value, list) else True


def _keeps_words(text: str, value: object) -> bool:
    """Whether the repair lost no word: json-repair drops text between inner quotes. Not known of a text with comments."""
    if _COMMENT.search(text):
        return True
    before, after = (_ESCAPE.sub("", part) for part in (text, json.dumps(value, ensure_ascii=False)))
    return len(_WORD.findall(after)) >= len(_WORD.findall(before))
