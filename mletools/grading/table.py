"""Read untrusted CSV text into columns of cells, in bounded time and memory, or reject it with a reason.

Reads only the columns needed, and bounds the rows and the cells of a row. Text only: no pickles, no compression, no
formulas. Not covered: the meaning of cells (parsing), grouping and order of rows (submission, answers).
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ..base.csv_files import CsvError, decoded, read_rows
from .parsing import shown

MAX_COLUMNS = 20_000
MAX_COMMAS = 1_000_000  # of one row, including those inside cells
BLOCK_CELLS = 100_000
# What people hand in for CSV, by its first bytes.
OTHER_FILES = {
    b"\x1f\x8b": "compressed with gzip",
    b"PK\x03\x04": "a ZIP archive, or an Excel file",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"PAR1": "a Parquet file",
    b"\xff\xfe": "in UTF-16",
    b"\xfe\xff": "in UTF-16",
}


class Invalid(ValueError):
    """The submission cannot be graded; the message tells the agent why."""


def listed(names: Sequence[str]) -> str:
    """Column names as quoted in messages."""
    return ", ".join(shown(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")


def read_table(
    content: bytes, names: Sequence[str] | None = None, most: int | None = None
) -> tuple[list[str], dict[str, list[str]]]:
    """(all column names, the cells of the columns `names`, default all). Invalid: not CSV, or more than `most` rows."""
    if not content.strip():
        raise Invalid("the file is empty")
    for begins, what in OTHER_FILES.items():
        if content.startswith(begins):
            raise Invalid(f"the file is {what}: it must be plain CSV text in UTF-8")
    if b"\0" in content:
        raise Invalid("the file holds NUL bytes: it must be CSV text")
    try:
        text = decoded(content)
        # A row of millions of cells would fill the memory before its cells can be counted.
        narrow = _Narrow(text) if content.count(b",") > MAX_COMMAS else None
        lines = read_rows(narrow or text)
        header = next(lines, [])
        _check_header(header, names)
        with _no_garbage_collection():
            rows = narrow.rows(lines) if narrow else lines
            return header, _columns(rows, header, header if names is None else names, most)
    except CsvError as error:
        raise Invalid(f"the file is {error}") from None


class _Narrow:
    """The lines of a text, for read_rows; Invalid where a row has more than MAX_COMMAS commas."""

    def __init__(self, text: Iterable[str]):
        self._text, self._commas = text, 0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._text, 1):
            self._commas += line.count(",")
            if self._commas > MAX_COMMAS:
                raise Invalid(f"line {number} belongs to a row of more than {MAX_COMMAS} commas")
            yield line

    def rows(self, reader: Iterable[list[str]]) -> Iterator[list[str]]:
        """The rows of `reader`, which reads these lines; the count of commas restarts with each row."""
        for row in reader:
            self._commas = 0
            yield row


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, which would take a third of the time on a million new cells."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_header(header: Sequence[str], expected: Sequence[str] | None) -> None:
    if not "".join(header).strip():
        raise Invalid("the first line is empty: it must name the columns")
    if len(header) > MAX_COLUMNS:
        raise Invalid(f"the first line names more than {MAX_COLUMNS} columns")
    names = set(header)
    if len(names) < len(header):
        seen: set[str] = set()
        duplicate = next(name for name in header if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        if expected is None or duplicate in expected:
            raise Invalid(f"column {shown(duplicate)} appears twice")
    for name in expected or ():
        if name not in names:
            other = next(
                (each for each in (";", "\t", "|") if len(header) == 1 and name in header[0].split(each)), None
            )
            hint = f": its cells are separated by {other!r}, and must be by commas" if other else ""
            raise Invalid(f"column {name!r} is missing; the columns are {listed(header)}{hint}")


def _columns(lines: Any, header: Sequence[str], names: Sequence[str], most: int | None) -> dict[str, list[str]]:
    """The cells of the columns `names`, read in blocks so that other cells are soon freed."""
    width, count, empty = len(header), 0, 0
    cells_of: dict[str, list[str]] = {name: [] for name in names}
    columns_at = [(cells_of[name], header.index(name)) for name in names]
    while block := list(islice(lines, 1 + BLOCK_CELLS // width)):
        widths = set(map(len, block))
        if widths != {width}:
            rows = len(block)
            block = [row for row in block if row]
            empty += rows - len(block)
            for at, row in enumerate(block):
                if len(row) != width:
                    raise Invalid(f"row {count + at + 1} has {len(row)} cells, the first line has {width}")
        count += len(block)
        if most is not None and count > most:
            raise Invalid(f"there are more than {most} rows")
        if most is not None and empty > most + BLOCK_CELLS:
            raise Invalid(f"there are more than {empty} empty lines")
        columns = list(zip(*block, strict=True))
        if columns:
            for cells, at in columns_at:
                cells.extend(columns[at])
    return cells_of
