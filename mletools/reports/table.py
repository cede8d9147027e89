"""A report's table: cells under their header, for a terminal, for the page, and the formats of its numbers."""

import decimal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.columns import GAP, blocks, middle_cut
from ..base.csv_files import csv_text
from ..base.visible import visible_line
from .summary import RATES

Record = dict[str, Any]
Column = tuple[str, str | Callable[[Record], str | float | None], str]  # name, field or function of a record, format
NONE = "-"
FORMATS = ("text", "markdown", "csv")
LONG = 1e9
SHORTEST_KEY = 12  # characters of a name that is cut


def number(value: float | None, form: str = ".3f") -> str:
    """The formatted value; `-` for None. Percentages are rounded half up: 12.5 is 13, and 37.5 is 38; from LONG on values
    have powers of ten.
    """
    if value is None:
        return NONE
    if form.endswith("f") and abs(value) >= LONG:
        form = form[: form.index(".")] + ".4g"
    if not form.endswith("%"):
        return format(value, form)
    with decimal.localcontext(rounding=decimal.ROUND_HALF_UP):
        return format(decimal.Decimal(repr(float(value))), form)


def form_of(quantity: str) -> str:
    """The format of a quantity of runs.QUANTITIES."""
    return ".1%" if quantity in RATES else {"normalised": ".1f", "score": ".4g"}.get(quantity, ".3f")


def interval(ends: Sequence[float] | None, form: str = ".3f") -> str:
    """`0.100 to 0.200`; `-` for None."""
    return NONE if ends is None else " to ".join(number(end, form) for end in ends)


@dataclass(frozen=True)
class Table:
    """Cells under their header.

    left: the columns that are aligned to the left, the others to the right; title: on the page; rule: below the header.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left: Sequence[str] = ("task", "set")
    title: str = ""
    rule: bool = True

    @classmethod
    def of(cls, records: Iterable[Record], columns: Sequence[Column], left: Sequence[str], title: str) -> "Table":
        """One row per record."""

        def cell(record: Record, value: Any, form: str) -> str:
            value = value(record) if callable(value) else record[value]
            return value if isinstance(value, str) else number(value, form)

        rows = [[cell(record, value, form) for _, value, form in columns] for record in records]
        return cls([name for name, _, _ in columns], rows, left, title)

    def text(self, form: str = "text") -> str:
        """The table in one of FORMATS, without a final line break; what would steer a terminal is spelled out."""
        from tabulate import tabulate

        header, *rows = [[visible_line(cell) for cell in row] for row in (self.header, *self.rows)]
        if form == "csv":
            return csv_text((header, *rows)).removesuffix("\n")
        align = ["left" if name in self.left else "right" for name in self.header]
        if form == "markdown":
            header, *rows = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
            return str(tabulate(rows, header, tablefmt="pipe", disable_numparse=True, colalign=align))
        rules = [["-" * max(map(len, column)) for column in zip(header, *rows, strict=True)]] if self.rule else []
        return str(tabulate([header, *rules, *rows], tablefmt="plain", disable_numparse=True, colalign=align))

    def fitting(self, room: int) -> list["Table"]:
        """The table in parts that are at most `room` wide: each has the first columns, if they are `left` ones.

        Where these need more than half of the room, their cells are cut in the middle, as are heads of other columns.
        """
        columns = [[visible_line(cell) for cell in column] for column in zip(self.header, *self.rows, strict=True)]
        keys = next((at for at, name in enumerate(self.header) if name not in self.left), len(columns))
        widths = [max(map(len, column)) for column in columns]
        if sum(widths) + GAP * (len(widths) - 1) <= room:
            return [self]
        for at in range(keys):
            most = max(SHORTEST_KEY, room // 2 - sum(widths[:keys]) + widths[at])
            columns[at] = [middle_cut(cell, most) for cell in columns[at]]
            widths[at] = max(map(len, columns[at]))
        for at in range(keys, len(columns)):  # names of sets may stand in the header
            columns[at][0] = middle_cut(columns[at][0], room - sum(widths[:keys]) - GAP * keys)
            widths[at] = max(map(len, columns[at]))
        header, *rows = zip(*columns, strict=True)
        cut = replace(self, header=header, rows=rows)
        return [cut._columns(part) for part in blocks(header, widths, keys, room)]

    def filled(self) -> "Table":
        """Without the columns in which no row has a value."""
        numbers = range(len(self.header))
        return self._columns([at for at in numbers if any(row[at] not in (NONE, "", []) for row in self.rows)])

    def _columns(self, numbers: Sequence[int]) -> "Table":
        header, *rows = ([row[at] for at in numbers] for row in (self.header, *self.rows))
        return replace(self, header=header, rows=rows)


def document(tables: Sequence[Table], notes: Sequence[str], form: str = "text", room: int | None = None) -> str:
    """The tables, an empty line apart, and the notes; csv has no notes. `room`: columns of a terminal."""
    import textwrap

    notes = [visible_line(note) for note in notes]
    if room is not None and form == "text":
        tables = [part for table in tables for part in table.fitting(room)]
        notes = [textwrap.fill(note, room, subsequent_indent="  ", break_on_hyphens=False) for note in notes]
    parts = [table.text(form) for table in tables]
    if notes and form != "csv":
        parts.append("\n".join(f"- {note}" if form == "markdown" else note for note in notes))
    return "\n\n".join(parts)
