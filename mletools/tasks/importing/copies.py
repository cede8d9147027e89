"""Which tables are copies of those in installed packages, where their answers can be looked up."""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ...sandbox.hidden import find_copies
from ...sandbox.sketches import sketch
from ..table import Rejected
from .options import Candidate
from .sheet import read_sheet

MOST_COMPARED = 32 << 20  # bytes of a table that is compared with those of installed packages


def copies_of(imported: Iterable[Candidate]) -> Iterator[str]:
    """Sentences that tell which tables lie in an installed package too, by their values."""
    tables = {}
    for candidate in imported:
        if candidate.path.is_file() and candidate.path.stat().st_size <= MOST_COMPARED:
            with suppress(Rejected):  # the import says why
                columns = read_sheet(candidate.path).columns
                numbers = [[_number(cell) for cell in cells] for cells in columns.values()]
                told = [column for column in numbers if any(number is not None for number in column)]
                tables[candidate.name] = sketch(list(zip(*told, strict=True)))
    copies: dict[str, list[tuple[bool, str]]] = {}
    for name, file, seen in find_copies(tables):
        copies.setdefault(name, []).append((not seen, file))
    for name, found in copies.items():
        hidden, file = min(found)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        reach = "hidden from programs" if hidden else "programs can read it: run the task where it is not installed"
        yield f"{name}: its answers are public, the same values are in {file}{more} ({reach})"


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
