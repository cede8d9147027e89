"""Parts of a report's tables: aligned columns, formatted numbers, names of quantities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .means import RATES
from .show.visible import visible_line

Record = dict[str, Any]
OVERALL = {
    "valid": "valid",
    "above_median": "above median",
    "bronze": "bronze",
    "silver": "silver",
    "gold": "gold",
    "medal": "any medal",
    "reward": "reward",
    "score": "score",
    "human_rank": "human rank",
    "normalised": "normalised score",
}
NAMES = {  # of the quantities that sets are compared by
    "medal": "medals",
    "valid": "valid submissions",
    "reward": "reward",
    "normalised": "normalised score",
    "human-rank": "human rank",
    "score": "score",
}
HANDLING = {"invalid": "counted as invalid", "ignore": "left out", "error": "an error"}


def number(value: float | None, form: str = ".3f") -> str:
    """The formatted value; `-` for None."""
    return "-" if value is None else format(value, form)


def form_of(quantity: str) -> str:
    """The format of a quantity of runs.QUANTITIES."""
    return ".1%" if quantity in RATES else {"normalised": ".1f", "score": ".4g"}.get(quantity, ".3f")


def interval(ends: Sequence[float] | None, form: str = ".3f") -> str:
    """`0.100 to 0.200`; `-` for None."""
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"


@dataclass(frozen=True)
class Table:
    """Cells under their header; str() is text with a rule below the header.

    left: the columns that are aligned to the left, the others to the right; title: on the page.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ("task", "set")
    title: str = ""

    def __str__(self) -> str:
        from tabulate import tabulate

        align = ["left" if name in self.left else "right" for name in self.header]
        cells = [[visible_line(cell) for cell in row] for row in (self.header, *self.rows)]  # names come from records
        rules = ["-" * max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [cells[0], rules, *cells[1:]]
        return str(tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=align))


def each(rows: Sequence[Record], words: Callable[[Record], str]) -> str:
    """`3 of 24 (before), 0 of 24 (after)`; set names only if there are several."""
    return ", ".join(f"{words(row)} ({visible_line(row['set'])})" if len(rows) > 1 else words(row) for row in rows)
