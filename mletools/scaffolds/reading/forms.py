"""Programs in other frames than a fenced block of their own: quoted, glued to words, in tags, JSON, a shell's command.

Only the frame is rewritten, as one fenced block of Python; the program stays as it is. In linear time.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from ..messages import fenced
from .calls import first_call
from .text import OTHER_NAMES, parsed, read_json

PYTHON = {"python", "python3", "py"}
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")  # GLM frames an answer so
_QUOTED = re.compile(r"(?m)^[ \t]*>[ \t]?")
_QUOTED_FENCE = re.compile(r"(?m)^[ \t]*>[ \t]?(?:```|~~~)")
_TAGS = re.compile(
    r"<pre>\s*<code(?P<html>[^<>\n]*)>|<(?P<tag>code|python|program|solution|answer|script|source)(?:\s[^<>\n]{0,80})?>"
    r"|<(?P<artifact>antArtifact)\s[^<>\n]*>|\[(?P<bracket>PYTHON|CODE)\]"
    r"|\\begin\{(?P<latex>verbatim|lstlisting|minted)\}(?:\[[^\]\n]{0,80}\])?(?:\{python\})?"
)
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*?)\]\]>\s*\Z", re.DOTALL)
_QUOTES = re.compile(
    r"(?ms)^(?:'{3}|\"{3}|\u2018{3}|\u201c{3})(?:python|py)[ \t]*\n(.*?)^(?:'{3}|\"{3}|\u2019{3}|\u201d{3})[ \t]*$"
)
_MOST_TAGS, _MOST_DEPTH = 8, 4
_HERE_DOCUMENT = re.compile(r"cat\s*>\s*(?P<file>[\w./-]+\.py)\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)")
_BEFORE = re.compile(r"(?:#.*|cd [\w./-]+|mkdir (?:-p )?[\w./-]+)?")
_IMPORT = re.compile(r"(?m)^(?:import|from) \w")
_SHELLS = {"", "bash", "sh", "shell", "console", "zsh"}


def forms(text: str, blocks: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(rule, the text with its program in a fenced block) for each form that the text may have.

    blocks: (language, content) of the closed fenced blocks in it.
    """
    ways: tuple[tuple[str, Callable[[], str | None]], ...] = (
        ("end_of_turn", lambda: _BOX.sub("\n", text)),
        ("quoted_fence", lambda: _QUOTED.sub("", text) if _QUOTED_FENCE.search(text) else None),
        ("fence_in_line", lambda: _apart(text) if "```" in text else None),
        ("code_tags", lambda: _out_of_tags(text)),
        ("other_fence", lambda: _out_of_quotes(text)),
        ("here_document", lambda: _out_of_shell(blocks)),
        ("in_json", lambda: _out_of_json(text, blocks)),
        ("tool_call", lambda: _out_of_call(text)),
        ("no_fence", lambda: _after_preamble(text)),
    )
    for rule, way in ways:
        rewritten = way()
        if rewritten is not None and rewritten != text:
            yield rule, rewritten


def _fenced(code: str) -> str:
    return f"\n{fenced(code.strip(chr(10)), 'python')}\n"


def _apart(text: str) -> str:
    """Words ahead of an opening fence, and behind a closing one, on lines of their own."""
    lines: list[str] = []
    is_open = False
    for line in text.split("\n"):
        words_end = 0 if is_open else _fence_at_end(line)
        if line[:words_end].strip():
            lines += [line[:words_end], line[words_end:]]
            is_open = True
        elif line.startswith("```"):
            words = line.lstrip("`")
            if is_open and words[:1].isspace() and words.strip():
                lines += [line[: len(line) - len(words)], words]
            else:
                lines.append(line)
            is_open = not is_open
        else:
            lines.append(line)
    return "\n".join(lines)


def _fence_at_end(line: str) -> int:
    """Where the fence begins that opens a block of Python at the end of a line; 0 without one."""
    language = line.rpartition("`")[2]
    words = line[: len(line) - len(language)].rstrip("`")
    opens = language.strip().lower() in PYTHON and len(line) - len(language) - len(words) >= 3
    return len(words) if opens and "`" not in words else 0


def _out_of_tags(text: str) -> str | None:
    """The only part in tags that is code, the innermost; HTML's entities are read where HTML frames it."""
    found: dict[str, str] = {}
    openings = list(islice(_TAGS.finditer(text), _MOST_TAGS + 1))
    for opening in openings if len(openings) <= _MOST_TAGS else ():
        name = opening["tag"] or opening["artifact"] or "code"
        closing = f"[/{opening['bracket']}]" if opening["bracket"] else f"</{name}>"
        closing = f"\\end{{{opening['latex']}}}" if opening["latex"] else closing
        inside, closed, _ = text[opening.end() :].partition(closing)
        if not closed or "```" in inside:
            continue
        if cdata := _CDATA.match(inside):
            inside = cdata[1]
        inside = html.unescape(inside) if opening["html"] is not None else inside
        if len(openings) == 1 or parsed(inside) is not None:
            found[inside.strip()] = text[: opening.start()] + _fenced(inside)
    return next(iter(found.values())) if len(found) == 1 else None


def _out_of_quotes(text: str) -> str | None:
    """The only part between three quotation marks, the first of which name the language."""
    parts = list(islice(_QUOTES.finditer(text), 2))
    return text[: parts[0].start()] + _fenced(parts[0][1]) if len(parts) == 1 else None


def _out_of_shell(blocks: Sequence[tuple[str, str]]) -> str | None:
    """The program that the only block, of shell commands, writes to a file and at most runs."""
    if len(blocks) != 1 or blocks[0][0] not in _SHELLS:
        return None
    lines = [line.strip() for line in blocks[0][1].split("\n")]
    at = next((i for i, line in enumerate(lines) if not _BEFORE.fullmatch(line)), len(lines))
    here = _HERE_DOCUMENT.fullmatch(lines[at]) if at < len(lines) else None
    if here is None or here["end"] not in lines[at + 1 :]:
        return None
    end = lines.index(here["end"], at + 1)
    file = here["file"].removeprefix("./")
    runs = {"", *(f"{python} {path}" for python in ("python", "python3") for path in (file, "./" + file))}
    if any(line not in runs and not line.startswith("#") for line in lines[end + 1 :]):
        return None
    return _fenced("\n".join(blocks[0][1].split("\n")[at + 1 : end]))


def _out_of_json(text: str, blocks: Sequence[tuple[str, str]]) -> str | None:
    """The program in an object or a list that is the whole text, or the only block."""
    begins = ("{", "[")
    body = text if text.lstrip().startswith(begins) else blocks[0][1] if len(blocks) == 1 else ""
    if not body.lstrip().startswith(begins):
        return None
    try:
        return _program_of(read_json(body)[0])
    except ValueError:
        return None


def _out_of_call(text: str) -> str | None:
    """The program in the only tool call. No tool was offered, so whatever its name is, the call is the answer."""
    call, further = first_call(text, lambda name: True)
    if call is None or further is not None or not call.closed:
        return None
    try:
        return _program_of(read_json(call.arguments)[0] if isinstance(call.arguments, str) else call.arguments)
    except ValueError:
        return None


def _program_of(value: object) -> str | None:
    """The only program in a value of JSON: a text, or a list of its lines, under one of the usual names, at any depth."""
    codes = dict.fromkeys(_programs(value, 0))
    if len(codes) != 1:
        return None
    [code] = codes
    return code if "```" in code else _fenced(code)


def _programs(value: object, depth: int) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _programs(item, depth + 1)
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        lines = isinstance(item, list) and item and all(isinstance(line, str) for line in item)
        if isinstance(item, str) and name == "arguments" and item.lstrip().startswith("{"):  # a call of the protocol
            with suppress(ValueError):
                yield from _programs(read_json(item)[0], depth + 1)
        elif not isinstance(item, str) and not lines:
            yield from _programs(item, depth + 1)
        elif name.lower() in OTHER_NAMES["code"] or name.endswith(".py"):
            yield item if isinstance(item, str) else "\n".join(line.rstrip("\n") for line in item)


def _after_preamble(text: str) -> str | None:
    """A program without a fence, from its first import to the end of the text; what is ahead of it are words."""
    start = _IMPORT.search(text)
    if start is None or "```" in text:
        return None
    return text[: start.start()] + _fenced(text[start.start() :])
