"""Read and write JSON Lines strictly: UTF-8, `\\n`, no NaN or infinity in either direction.

jsonlines does the splitting and the error wrapping; this module gives it a strict `loads` and `dumps`, and remembers
for every record where it came from. Lines end at `\\n` alone: U+2028 and its like are ordinary characters.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import jsonlines

from .errors import ToolError


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
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


class _Counted:
    """The lines of a binary file, with the number and the text of the last one taken."""

    def __init__(self, file: BinaryIO):
        self.file, self.number, self.last = file, 0, b""

    def __iter__(self) -> Iterator[bytes]:
        for line in self.file:
            self.number += 1
            self.last = line
            yield line


def read_lines(file: BinaryIO, source: str) -> Iterator[Line]:
    """Every non-empty line of `file` as a Line, as soon as it has arrived. Bad lines come with `problem` set."""
    counted = _Counted(file)
    reader = jsonlines.Reader(counted, loads=loads)
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
        text = counted.last.decode("utf-8", errors="replace").rstrip("\r\n")
        yield Line(source, counted.number, text, record, problem)


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def read_files(paths: Sequence[str]) -> Iterator[Line]:
    """The lines of all `paths` in order; none or `-` is standard input. ToolError for a file that cannot be read."""
    for path in paths or ["-"]:
        if path == "-":
            with open(0, "rb", closefd=False) as stdin:
                yield from read_lines(stdin, "stdin")
            continue
        with _open(path) as file:
            yield from read_lines(file, path)


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
