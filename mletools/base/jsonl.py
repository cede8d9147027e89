"""Read and write JSON Lines strictly: UTF-8, `\\n`, no NaN or infinity in either direction.

jsonlines reads values and wraps errors; this module gives it a strict `loads` and keeps each record's file and line
number. Lines end at `\\n` alone: U+2028 and other Unicode separators are ordinary characters.

A stream is complete when its last line is terminated. A command of ours terminates its last line only when its work is
done (output.py), so a stream whose writer failed or was killed is unterminated; `read_files` raises after its last record.
"""

import json
import math
import os
import re
import select
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar

import jsonlines

from .errors import ToolError
from .streams import descriptor, name_of, readable

JsonObject = dict[str, Any]  # that nobody has checked
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", covariant=True, default=JsonObject)
else:
    R = TypeVar("R", covariant=True)

END = b" }"  # ends each record that a command of ours writes
MOST_DIGITS = 300  # of an integer; a float cannot hold more than 308
_LONG = re.compile(r"[0-9]{301}")


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
    """The value with U+FFFD for unpaired surrogates, which JSON can escape but UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value


def loads(text: str | bytes) -> Any:
    """The JSON value in `text`; ValueError for invalid JSON, NaN, infinity, or nesting that is too deep."""
    text = text if isinstance(text, str) else text.decode("utf-8-sig")
    # `parse_int` is slow: only text with a very long run of digits needs it.
    whole = _whole if _LONG.search(text) else None
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=whole)
        return _mended(value) if "\\ud" in text.lower() else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any) -> str:
    """One line of JSON without its line end; ValueError for NaN and infinity."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    try:
        line.encode()
    except UnicodeEncodeError:
        return dumps(_mended(value))
    return line


@dataclass(frozen=True)
class Line(Generic[R]):
    """One line of input: its record, whose type is known once it is checked, or the problem with it."""

    source: str
    number: int
    text: str
    record: R
    problem: str | None = None

    @property
    def place(self) -> str:
        return f"{self.source}:{self.number}"


class _Lines:
    """The lines of a file, with the number and text of the last one read, and whether that one was terminated."""

    def __init__(self, lines: Iterable[bytes], source: str):
        self._lines, self._source = lines, source
        self.number, self.last, self.ended = 0, b"", True

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            if not self.ended:  # the rest of a line whose record was yielded before its end arrived
                if line.strip():
                    raise ToolError(
                        f"{self._source}:{self.number}: cut off here, and another stream continues the line"
                    )
                self.ended = line.endswith(b"\n")
                continue
            self.number += 1
            self.last, self.ended = line, line.endswith(b"\n")
            yield line


TABLES = (".csv", ".tsv", ".csv.gz", ".parquet", ".xlsx")  # that mle-import reads
PAUSE_MS = 20  # after a closing brace, a pause this long may mean that the record is complete


def reader_left(events: Sequence[tuple[int, int]], output: int | None) -> bool:
    """Whether a poll has found that nobody reads `output`, a pipe's end, any more."""
    return any(which == output and event & (select.POLLERR | select.POLLHUP) for which, event in events)


def _arriving(descriptor: int, output: int | None) -> Iterator[bytes]:
    """The lines of a pipe; a record as soon as it is complete, though its line end comes with the next one.

    BrokenPipeError if nobody reads `output` any more, also while nothing arrives.
    """
    more, either = select.poll(), select.poll()
    more.register(descriptor, select.POLLIN)
    either.register(descriptor, select.POLLIN)
    if output is not None:
        either.register(output, 0)
    parts: list[bytes] = []
    while True:
        if reader_left(either.poll(), output):
            raise BrokenPipeError
        block = os.read(descriptor, 1 << 20)
        if not block:
            break
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
        record: JsonObject = {}
        problem = None
        try:
            record = reader.read(type=dict, skip_empty=True)
        except EOFError:
            return
        except jsonlines.InvalidLineError as error:
            cause = error.__cause__
            problem = str(cause or error.args[0])
            if isinstance(cause, UnicodeDecodeError):
                problem = "not UTF-8"
            elif "does not match requested type" in problem:
                problem = "not a JSON object"
            elif isinstance(cause, json.JSONDecodeError):
                problem = f"not JSON: {cause.msg} at column {cause.pos + 1}"
                if lines.number == 1 and source.endswith(TABLES):
                    problem = f"not JSON but a table: mle-import {shlex.quote(str(source))} --target COLUMN makes a task of it"
        text = lines.last.decode("utf-8", errors="replace").rstrip("\r\n")
        yield Line(source, lines.number, text, record, problem)


def read_lines(file: BinaryIO, source: str) -> Iterator[Line]:
    """Every non-empty line of `file` as a Line; invalid lines, also a torn last one, have `problem` set."""
    return _records(_Lines(file, source), source)


def _read_whole(file: BinaryIO, source: str, output: int | None) -> Iterator[Line]:
    """As read_lines, as the lines arrive; ToolError at the end if the writer of `file` did not finish."""
    regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    lines = _Lines(file if regular else _arriving(file.fileno(), output), source)
    line: Line | None = None
    for line in _records(lines, source):
        if line.problem and not lines.ended:
            raise _cut_off(line, regular)
        yield line
    if line is not None and not lines.ended and lines.last.endswith(END) and line.record.get("lineage"):
        raise _cut_off(line, regular)


def _cut_off(line: Line, regular: bool) -> ToolError:
    if regular:
        hint = "its writer failed, was killed, or is still writing"
        return ToolError(f"{line.place}: the last line has no end: {hint} (if it is complete: echo >> {line.source})")
    hint = "the command that writes it failed or was killed; the records before this point were read"
    return ToolError(f"{line.place}: the stream was cut off: {hint}")


def open_input(path: str) -> BinaryIO:
    """A file, or the descriptor that its path names, opened for reading; ToolError if that is impossible."""
    place = readable(path)
    try:
        return open(place, "rb", closefd=place == path)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def read_files(paths: Sequence[str], output: int | None = None) -> Iterator[Line]:
    """The lines of all `paths` in order; an empty list or `-` is standard input.

    ToolError for an unreadable file, and after the last line of one that its writer did not finish. `output`: the
    descriptor that the reading is for; BrokenPipeError if its reader has left, though a pipe of `paths` is silent.
    """
    for path in paths or ["-"]:
        with open_input(path) as file:
            yield from _read_whole(file, name_of(path, 0), output)


def reads_terminal(path: str) -> bool:
    """Whether a path names standard input, and that is a terminal."""
    return descriptor(path, 0) == 0 and os.isatty(0)
