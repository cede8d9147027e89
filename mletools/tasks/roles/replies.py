"""Reads what a model replied: one JSON value, one Python program, one Markdown page.

Covered: a reasoning model's <think> part, fences around what was asked for, words before and after. Not covered: whether
the content is any good.
"""

import json
import math
import re
from typing import Any

from ...base.jsonl import loads
from ...base.programs import parse_program
from .asking import Faulty

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_OPENING = re.compile(r"[\[{]")
MOST_TRIED = 200  # brackets at which reading a value is tried
MOST_REPLY = 400_000  # characters
MOST_CODE = 60_000


def spoken(reply: str) -> str:
    """The reply without the thinking ahead of it. Faulty where the thinking never ended."""
    rest = reply.rpartition("</think>")[2].strip()
    if rest.startswith("<think>"):
        raise Faulty("the reply holds thoughts and no answer: end them with </think>, then answer")
    if not rest:
        raise Faulty("the reply is empty")
    if len(rest) > MOST_REPLY:
        raise Faulty(f"the reply has {len(rest)} characters; at most {MOST_REPLY} are read")
    return rest


def _blocks(text: str) -> tuple[list[tuple[str, str]], bool]:
    """([(language in small letters, content)] of the fenced blocks, whether the last one is never closed)."""
    found: list[tuple[str, str]] = []
    mark, language = "", ""
    inside: list[str] = []
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if not mark:
            if fence and "`" not in fence[2]:
                mark, language, inside = fence[1], fence[2].strip().partition(" ")[0].lower(), []
        elif fence and fence[1].startswith(mark) and not fence[2].strip():
            found.append((language, "\n".join(inside)))
            mark = ""
        else:
            inside.append(line)
    return found, bool(mark)


def json_of(reply: str, kind: type) -> Any:
    """The longest JSON object (`kind` dict) or list in a reply, the last fence's first. Faulty where there is none.

    A list may be the only one of an object. "reasoning" of an object, which servers are asked for, is left out.
    """
    text = spoken(reply)
    wanted, opening, closing = ("object", "{", "}") if kind is dict else ("list", "[", "]")
    blocks = [content for language, content in _blocks(text)[0] if language in ("", "json", "jsonc", "json5")]
    for source in (*reversed(blocks), text):
        value = _as_kind(_longest(source), kind)
        if value is not None:
            return value
    source = blocks[-1] if blocks else text
    begin, end = source.find(opening), source.rfind(closing)
    if begin < 0 or end < begin:
        raise Faulty(f"the reply holds no JSON {wanted}")
    try:
        loads(source[begin : end + 1])
    except ValueError as error:
        raise Faulty(f"the reply is no valid JSON {wanted}: {error}") from None
    raise Faulty(f"the reply is no JSON {wanted}")


def _longest(text: str) -> Any:
    """The longest of the outermost JSON objects and lists; None: there is none, or a longer one is broken."""
    decoder, at, best, broken, value = json.JSONDecoder(), 0, 0, 0, None
    for _ in range(MOST_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None:
            break
        begin, at = opening.start(), opening.end()
        try:
            _, end = decoder.raw_decode(text, begin)
            if end - begin > best:
                value, best = loads(text[begin:end]), end - begin
            at = end
        except json.JSONDecodeError as error:
            broken = max(broken, error.pos - begin)
        except (ValueError, RecursionError):
            broken = len(text)
    return value if best > broken else None


def _as_kind(value: Any, kind: type) -> Any:
    """A value of the kind: itself, without its "reasoning", or the only list in an object; else None."""
    if isinstance(value, dict) and kind is list:
        lists = [each for each in value.values() if isinstance(each, list)]
        return lists[0] if len(lists) == 1 else None
    if isinstance(value, dict) and kind is dict:
        return {name: each for name, each in value.items() if name != "reasoning"}
    return value if isinstance(value, kind) else None


def code_of(reply: str) -> str:
    """The one Python program in a reply, ending in a newline. Faulty: none, several, or one with a syntax error."""
    text = spoken(reply)
    fenced, unclosed = _blocks(text)
    blocks = [content for language, content in fenced if language in ("", "py", "python", "python3")]
    if unclosed or (fenced and not blocks):
        raise Faulty("the block of code is never closed, or is not marked as Python")
    if len(blocks) > 1:
        raise Faulty(f"the reply holds {len(blocks)} blocks of code: give the whole script in one block")
    code = (blocks[0] if blocks else text).strip() + "\n"
    if len(code) > MOST_CODE:
        raise Faulty(f"the script has {len(code)} characters; at most {MOST_CODE} are accepted")
    try:
        code.encode()
        parse_program(code)
    except SyntaxError as error:
        raise Faulty(f"the script is not Python: line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Faulty(f"the script is not Python: {error}") from None
    return code


def page_of(reply: str) -> str:
    """The Markdown page in a reply, without a fence around the whole of it."""
    text = spoken(reply)
    first, _, rest = text.partition("\n")
    fence = _FENCE.fullmatch(first)
    whole = (
        fence and fence[2].strip().lower() in ("", "markdown", "md") and rest.rpartition("\n")[2].strip() == fence[1]
    )
    return (rest.rpartition("\n")[0] if whole else text).strip() + "\n"


def finite(value: Any) -> float | None:
    """A JSON value as a float, None where it is no number or one that no float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
