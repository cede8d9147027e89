"""Texts whose characters are not what they look like: invisible ones, blanks of other widths, HTML's entities, quotes.

A program that Python reads stays as it is, whatever it holds. Not covered: any fault that a person would see.
"""

import html
import re
from collections.abc import Iterator

from .text import parsed, without_fence

# Byte order marks, zero-width characters, soft hyphens; blanks and line ends that Python does not take for any.
_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u200c\u200d\u2060\u00ad"))
_BLANKS = dict.fromkeys(map(ord, "\u00a0\u2007\u202f\u3000\u2002\u2003\u2009"), " ")
_LINE_ENDS = dict.fromkeys(map(ord, "\u2028\u2029\x85"), "\n")
_AS_SEEN = {**_INVISIBLE, **_BLANKS, **_LINE_ENDS}
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_FENCES = str.maketrans({"\uff40": "`", "\uff5e": "~"})
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_LANGUAGE_LINE = re.compile(r"\s*(?:i?python[\d.]*|py3?|[\w./-]{1,80}\.py)[ \t]*:?[ \t]*\r?\n", re.IGNORECASE)


def undisguised(text: str) -> Iterator[tuple[str, str]]:
    """(rule, the text as a person sees it) for each disguise that a text has, and for both together."""
    seen = text.translate(_AS_SEEN).translate(_FENCES)
    if seen != text:
        yield "invisible_characters", seen
    if (quoted := seen.translate(_QUOTES)) != seen:
        yield "typographic_quotes", quoted
    if _ENTITY.search(text):
        yield "html_entities", html.unescape(text)
        if seen != text:
            yield "html_entities", html.unescape(seen)


def plain_program(code: str) -> tuple[str, str | None]:
    """(a program as a person sees it, the rule) where that is Python and the text is not; else (the text, None).

    A first line that only names the language or the file is no part of a program.
    """
    line = _LANGUAGE_LINE.match(code)
    if line and parsed(code[line.end() :]) is not None:
        return code[line.end() :], "language"
    if parsed(code) is not None:
        return code, None
    if code.lstrip().startswith(("```", "~~~")) and parsed(inside := without_fence(code)) is not None:
        return inside, "fence_in_tag"
    for rule, seen in undisguised(code):
        if parsed(seen) is not None:
            return seen, rule
    return code, None
