"""CSV files that a script wrote: read into columns of text, written back from them.

Covered: UTF-8, one header of plain names, rows of one width, few enough of both. Not covered: what the cells mean.
"""

import codecs
from dataclasses import dataclass

from ...records.csv_files import CsvError, read_rows
from ..table import csv_bytes
from .asking import Faulty
from .specification import COLUMN

MOST_COLUMNS = 60
MOST_ROWS = 400
MOST_CELL = 20_000  # characters


@dataclass(frozen=True)
class Sheet:
    """A table: the cells of each column as text, in the order of the file."""

    header: list[str]
    cells: dict[str, list[str]]

    @property
    def rows(self) -> int:
        return len(self.cells[self.header[0]])

    def with_cells(self, changed: dict[str, list[str]]) -> bytes:
        """The CSV file with other cells in some columns."""
        cells = {**self.cells, **changed}
        return csv_bytes(self.header, [cells[name] for name in self.header])

    def picked(self, order: list[int]) -> bytes:
        """The CSV file with these rows, in this order."""
        return csv_bytes(self.header, [[self.cells[name][at] for at in order] for name in self.header])


def read_sheet(name: str, content: bytes) -> Sheet:
    """The table in the bytes of the file `name`. Faulty says what is wrong with it."""
    if b"\0" in content or content.startswith(codecs.BOM_UTF8):
        raise Faulty(f"{name} holds NUL bytes or a byte order mark: write plain UTF-8")
    try:
        rows = list(read_rows(content))
    except CsvError as error:
        raise Faulty(f"{name} is {error}") from None
    if not rows or not rows[0]:
        raise Faulty(f"{name} has no header")
    header, *body = rows
    odd = next((column for column in header if not COLUMN.fullmatch(column)), None)
    if odd is not None:
        told = "write no index column" if not odd else "a letter, then letters, digits and _, at most 40"
        raise Faulty(f"{name}: the column name {odd[:80]!r} is refused: {told}")
    if len(set(header)) < len(header) or len(header) > MOST_COLUMNS:
        raise Faulty(f"{name} must have different columns, and at most {MOST_COLUMNS} of them")
    if not body or len(body) > MOST_ROWS:
        raise Faulty(f"{name} has {len(body)} rows")
    for at, row in enumerate(body, 2):
        if len(row) != len(header):
            raise Faulty(f"{name}: row {at} has {len(row)} cells, the header has {len(header)}")
        if any(len(cell) > MOST_CELL for cell in row):
            raise Faulty(f"{name}: row {at} has a cell of more than {MOST_CELL} characters: long texts go into docs/")
    return Sheet(header, {column: list(cells) for column, cells in zip(header, zip(*body, strict=True), strict=True)})
