"""Read untrusted CSV text into columns of cells, in bounded time and memory, or say what is wrong with it.

Only the wanted columns are kept, and no more rows than allowed are looked at, nor a row of more cells than any table has.
Text only: no pickles, no compression, no formulas. Not covered: what the cells mean (parsing), and which rows belong together (submission, answers).
"""

import csv
import gc
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from .parsing import shown

MAX_COLUMNS = 20_000
MAX_COMMAS = 1_000_000  # of one row, those inside its cells among them
BLOCK_CELLS = 100_000


class Invalid(ValueError):
    """The submission cannot be graded; the message tells the agent why."""


LARGEST_CELL = 1 << 30  # bytes; what is read is bounded by the size of the content


def listed(names: Sequence[str]) -> str:
    """Columns as messages quote them."""
    return ", ".join(shown(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")


def read_table(
    content: bytes, wanted: Sequence[str] | None = None, most: int | None = None
) -> tuple[list[str], dict[str, list[str]]]:
    """(all column names, the cells of the wanted columns, default all). Invalid: no CSV, or more than `most` rows."""
    if not content.strip():
        raise Invalid("the file is empty")
    if b"\0" in content:
        raise Invalid("the file holds NUL bytes: it must be CSV text")
    csv.field_size_limit(LARGEST_CELL)  # of the whole process, so it stays: other threads may be reading
    try:
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        # A row of millions of cells would fill the memory before anybody could count them.
        narrow = _Narrow(text) if content.count(b",") > MAX_COMMAS else None
        lines = csv.reader(narrow or text, strict=True)
        header = next(lines)
        _check_header(header, wanted)
        with _uncollected():
            rows = narrow.rows(lines) if narrow else lines
            return header, _columns(rows, header, header if wanted is None else wanted, most)
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text") from None
    except csv.Error as error:
        raise Invalid(f"the file is not CSV: line {lines.line_num}: {error}") from None


class _Narrow:
    """The lines of a text, for a csv.reader; Invalid where a row of it holds more than MAX_COMMAS commas."""

    def __init__(self, text: Iterable[str]):
        self._text, self._commas = text, 0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._text, 1):
            self._commas += line.count(",")
            if self._commas > MAX_COMMAS:
                raise Invalid(f"line {number} belongs to a row of more than {MAX_COMMAS} commas")
            yield line

    def rows(self, reader: Iterable[list[str]]) -> Iterator[list[str]]:
        """The rows of `reader`, which reads these lines: each may hold so many commas anew."""
        for row in reader:
            self._commas = 0
            yield row


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which would go through a million fresh cells again and again: a third of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _check_header(header: Sequence[str], wanted: Sequence[str] | None) -> None:
    if not "".join(header).strip():
        raise Invalid("the first line is empty: it must name the columns")
    if len(header) > MAX_COLUMNS:
        raise Invalid(f"the first line names more than {MAX_COLUMNS} columns")
    names = set(header)
    if len(names) < len(header):
        seen: set[str] = set()
        twice = next(name for name in header if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        if wanted is None or twice in wanted:
            raise Invalid(f"column {shown(twice)} appears twice")
    for name in wanted or ():
        if name not in names:
            raise Invalid(f"column {name!r} is missing; the columns are {listed(header)}")


def _columns(lines: Any, header: Sequence[str], wanted: Sequence[str], most: int | None) -> dict[str, list[str]]:
    """The cells of the wanted columns, read in blocks so that those of others are soon let go."""
    width, count, empty = len(header), 0, 0
    found: dict[str, list[str]] = {name: [] for name in wanted}
    places = [(found[name], header.index(name)) for name in wanted]
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
            for cells, at in places:
                cells.extend(columns[at])
    return found
