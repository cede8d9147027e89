"""Read and write JSON Lines strictly: UTF-8, `\\n`, no NaN or infinity in either direction.

jsonlines does the splitting and the error wrapping; this module gives it a strict `loads` and `dumps`, and remembers
for every record where it came from. Lines end at `\\n` alone: U+2028 and its like are ordinary characters.

A stream is whole when its last line has an end: a command of ours writes the end of its last line when it has done its work
(output.py), so a stream whose writer failed or was killed ends without one. `read_files` says so after the last record.
"""

import json
import math
import os
import re
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import jsonlines

from .errors import ToolError

END = b" }"  # of each record that a command of ours writes
MOST_DIGITS = 300  # of a whole number: no float holds one of more than 308
_LONG, _LONG_BYTES = re.compile(r"[0-9]{301}"), re.compile(rb"[0-9]{301}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:20]}... is too large for a number")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _mended(value: Any) -> Any:
    """The value with U+FFFD for every half of a surrogate pair: it can be escaped in JSON, but is no text."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value


def loads(text: str | bytes) -> Any:
    """The JSON value in `text`; ValueError for bad JSON, NaN, infinity, or nesting too deep to read."""
    try:
        # only a line that may hold such a number pays for having each one looked at
        long = (_LONG if isinstance(text, str) else _LONG_BYTES).search(text)  # type: ignore[arg-type]
        whole = _whole if long else None
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=whole)
        escaped = "\\ud" in (text if isinstance(text, str) else text.decode()).lower()
        return _mended(value) if escaped else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any) -> str:
    """One line of JSON without its line end; ValueError for NaN and infinity."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(_mended(value), ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    return line


@dataclass(frozen=True)
class Line:
    """One line of input: the record in it, or the reason why there is none."""

    source: str
    number: int
    text: str
    record: dict[str, Any]
    problem: str | None = None

    @property
    def place(self) -> str:
        return f"{self.source}:{self.number}"


class _Lines:
    """The lines of a file, with the number and the text of the last one taken, and whether that one had its end."""

    def __init__(self, lines: Iterable[bytes], source: str):
        self._lines, self._source = lines, source
        self.number, self.last, self.ended = 0, b"", True

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            if not self.ended:  # a record was given before its line had an end: here it is
                if line.strip():
                    raise ToolError(
                        f"{self._source}:{self.number}: cut off here, and another stream goes on in its line"
                    )
                self.ended = line.endswith(b"\n")
                continue
            self.number += 1
            self.last, self.ended = line, line.endswith(b"\n")
            yield line


PAUSE_MS = 20  # a writer that pauses so long behind a closing brace may have finished a record


def _arriving(descriptor: int) -> Iterator[bytes]:
    """The lines of a pipe; a record as soon as it is there, though the end of its line comes with the next one."""
    more = select.poll()
    more.register(descriptor, select.POLLIN)
    parts: list[bytes] = []
    while block := os.read(descriptor, 1 << 20):
        *lines, rest = block.split(b"\n")
        for line in lines:
            yield b"".join([*parts, line, b"\n"])
            parts.clear()
        if rest:
            parts.append(rest)
        if rest.endswith(b"}") and not more.poll(PAUSE_MS) and _is_value(begun := b"".join(parts)):
            yield begun
            parts.clear()
    if parts:
        yield b"".join(parts)


def _is_value(text: bytes) -> bool:
    try:
        loads(text)
    except ValueError:
        return False
    return True


def _records(lines: _Lines, source: str) -> Iterator[Line]:
    reader = jsonlines.Reader(lines, loads=loads)
    while True:
        record: dict[str, Any] = {}
        problem = None
        try:
            record = reader.read(type=dict, skip_empty=True)
        except EOFError:
            return
        except jsonlines.InvalidLineError as error:
            problem = str(error.__cause__ or error.args[0])
            if isinstance(error.__cause__, UnicodeDecodeError):
                problem = "not UTF-8"
            elif "does not match requested type" in problem:
                problem = "not a JSON object"
            elif isinstance(error.__cause__, json.JSONDecodeError):
                problem = f"not JSON: {error.__cause__.msg} at column {error.__cause__.pos + 1}"
        text = lines.last.decode("utf-8", errors="replace").rstrip("\r\n")
        yield Line(source, lines.number, text, record, problem)


def read_lines(file: BinaryIO, source: str) -> Iterator[Line]:
    """Every non-empty line of `file` as a Line. Bad lines come with `problem` set, a torn last one too."""
    return _records(_Lines(file, source), source)


def _read_whole(file: BinaryIO, source: str) -> Iterator[Line]:
    """As read_lines, as the lines arrive; ToolError at the end where the writer of `file` did not finish."""
    regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    lines = _Lines(file if regular else _arriving(file.fileno()), source)
    last: Line | None = None
    for line in _records(lines, source):
        if line.problem and not lines.ended:
            raise _cut_off(line, regular)
        last = line
        yield line
    if last is not None and not lines.ended and lines.last.endswith(END) and last.record.get("lineage"):
        raise _cut_off(last, regular)


def _cut_off(line: Line, regular: bool) -> ToolError:
    if regular:
        hint = "what wrote this file failed, was killed, or is still writing"
        return ToolError(f"{line.place}: the last line has no end: {hint} (if it is whole: echo >> {line.source})")
    hint = "the command that writes it failed or was killed; what it had written until then was read"
    return ToolError(f"{line.place}: the stream was cut off: {hint}")


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def read_files(paths: Sequence[str]) -> Iterator[Line]:
    """The lines of all `paths` in order; none or `-` is standard input.

    ToolError for a file that cannot be read, and behind the last line of one that its writer did not finish.
    """
    for path in paths or ["-"]:
        if path == "-":
            with open(0, "rb", closefd=False) as stdin:
                yield from _read_whole(stdin, "stdin")
            continue
        with _open(path) as file:
            yield from _read_whole(file, path)


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
