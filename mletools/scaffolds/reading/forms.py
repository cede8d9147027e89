"""Programs in other frames than a fenced block of their own: quoted, glued to words, in tags, JSON, a shell's command.

Only the frame is rewritten, as one fenced block of Python; the program stays as it is. In linear time.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence

from ..messages import fenced
from .calls import first_call
from .text import read_json

PYTHON = {"python", "python3", "py"}
PROGRAM_NAMES = ("code", "program", "solution", "script")  # of a JSON field or an argument that holds a program
_BOX = re.compile(r"<\|(?:begin|end)_of_box\|>")  # GLM frames an answer so
_QUOTED = re.compile(r"(?m)^[ \t]*>[ \t]?")
_QUOTED_FENCE = re.compile(r"(?m)^[ \t]*>[ \t]?(?:```|~~~)")
_TAGS = re.compile(
    r"<pre>\s*<code(?P<html>[^<>\n]*)>|<(?P<tag>code|python|program|solution|answer|script)>"
    r"|<(?P<artifact>antArtifact)\s[^<>\n]*>|\[(?P<bracket>PYTHON|CODE)\]"
)
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
    """The only part in tags that is code; HTML's entities are read where HTML frames it."""
    opening = _TAGS.search(text)
    if opening is None or _TAGS.search(text, opening.end()):
        return None
    name = opening["tag"] or opening["artifact"] or "code"
    closing = f"[/{opening['bracket']}]" if opening["bracket"] else f"</{name}>"
    inside, closed, _ = text[opening.end() :].partition(closing)
    if not closed or "```" in inside:
        return None
    return text[: opening.start()] + _fenced(html.unescape(inside) if opening["html"] is not None else inside)


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
    """The program in an object that is the whole text, or the only block."""
    body = text if text.lstrip().startswith("{") else blocks[0][1] if len(blocks) == 1 else ""
    if not body.lstrip().startswith("{"):
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
    if not isinstance(value, dict):
        return None
    codes = [code for name in PROGRAM_NAMES if isinstance(code := value.get(name), str)]
    return _fenced(codes[0]) if len(codes) == 1 else None


def _after_preamble(text: str) -> str | None:
    """A program without a fence, from its first import to the end of the text; what is ahead of it are words."""
    start = _IMPORT.search(text)
    if start is None or "```" in text:
        return None
    return text[: start.start()] + _fenced(text[start.start() :])
