"""The mean, or the majority, of several submissions of one task. Not covered: weights, models in common."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from ...base.csv_files import csv_text
from .replies import finite


def combined(contents: Sequence[bytes], ids: Sequence[str], regression: bool) -> bytes | None:
    """One submission of several, the best first: the mean where all cells of a column are numbers, else what most say.

    Whole numbers are labels, unless the task is a `regression`; of equal counts the first submission's counts. None: they
    are not tables with the same columns and the same ids, each once.
    """
    tables = [_table(content, ids) for content in contents]
    header, first = tables[0] if tables and tables[0] is not None else ([], {})
    if not header or any(table is None or table[0] != header or table[1].keys() != first.keys() for table in tables):
        return None
    rows = [[table[1][key] for table in tables if table is not None] for key in first]
    columns = []
    for at, name in enumerate(header):
        cells = [[cells[at] for cells in row] for row in rows]
        columns.append([each[0] for each in cells] if name in ids else _joined(cells, regression))
    return csv_text([header, *zip(*columns, strict=True)]).encode()


def _joined(cells: Sequence[Sequence[str]], regression: bool) -> list[str]:
    numbers = [[finite(cell) for cell in row] for row in cells]
    known = [[number for number in row if number is not None] for row in numbers]
    if all(len(row) == len(whole) for row, whole in zip(known, numbers, strict=True)):
        whole_numbers = all(number.is_integer() for row in known for number in row)
        if regression or not whole_numbers:
            return [repr(fmean(row)) for row in known]
    counts = [Counter(row) for row in cells]  # keeps the order, so the first of equal ones is the best submission's
    return [each.most_common(1)[0][0] for each in counts]


def _table(content: bytes, ids: Sequence[str]) -> tuple[list[str], dict[tuple[str, ...], list[str]]] | None:
    """(header, {id: cells}); None: no table, or ids that are not there or repeat."""
    try:
        header, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    except (ValueError, csv.Error):
        return None
    rows = [row for row in rows if row]
    if any(header.count(name) != 1 for name in ids) or any(len(row) != len(header) for row in rows):
        return None
    places = [header.index(name) for name in ids]
    found = {tuple(row[at] for at in places): row for row in rows}
    return (header, found) if len(found) == len(rows) and rows else None
