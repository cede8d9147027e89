"""What the observer knows of a task's data: numbers of rows, and the columns of its tables (see evidence.py).

Read outside the sandbox, once for a task. Not covered: data that are not tables of text; of these only files are counted.
"""

import csv
import functools
import re
from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ..base.csv_files import MISSING
from .evidence import FEW, KEPT, key_of, shares_of
from .facts import ColumnFacts, DataFacts
from .names import words_of

_LARGEST = 8 << 20  # bytes of tables that are read; larger ones are not described
_MOST_COLUMNS = 60
_TABLES = (".csv", ".tsv")
_DELIMITERS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")


def describe(public: Path) -> DataFacts:
    """The task's data in `public`.

    rows: possible numbers of rows of a test prediction, empty where unknown; least: the fewest rows that count as
    training; columns: of the tables to train on, empty where there is anything else to train on.
    """
    return _describe(str(public))


@functools.cache
def _describe(public: str) -> DataFacts:
    rows, others, tables, is_only_tables = set(), [], [], True
    for path in sorted(Path(public).iterdir()):
        is_test = bool(words_of(path.stem) & {"test", "submission", "tests"})
        if path.is_dir():
            count = sum(1 for each in path.rglob("*") if each.is_file())
            is_only_tables = is_only_tables and is_test
        elif path.suffix.lower() in _TABLES:
            count = _records(path) if path.stat().st_size > _LARGEST else len(_rows(path)[1:])
            tables += [] if is_test else [path]
        else:
            is_only_tables = is_only_tables and path.suffix.lower() == ".md"
            continue
        rows.add(count) if is_test else others.append(count)
    size = sum(path.stat().st_size for path in tables)
    columns = [column for path in tables for column in _columns(path)] if is_only_tables and size <= _LARGEST else []
    least = max(2, min(100, max(others, default=0) // 10))
    return {"rows": sorted(rows - {0}), "least": least, "columns": columns}


def _columns(path: Path) -> list[ColumnFacts]:
    """The described columns of a table, of a wide one the first and the last; not its row numbers."""
    columns = list(zip_longest(*_rows(path)[1:], fillvalue=""))
    half = _MOST_COLUMNS // 2
    described = map(_column, columns if len(columns) <= _MOST_COLUMNS else columns[:half] + columns[-half:])
    return [each for each in described if each is not None]


def _rows(path: Path) -> list[list[str]]:
    """The header and the rows of a table, as pandas divides them; none where it is no table."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header = file.readline()
        delimiter = max(_DELIMITERS, key=header.count)
        try:
            rows = [row for row in csv.reader(chain([header], file), delimiter=delimiter) if row]
        except csv.Error:
            return []
    if delimiter != ";":
        return rows
    return [[cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in row] for row in rows]


def _column(texts: Iterable[str]) -> ColumnFacts | None:
    values = [_value(text) for text in texts if text.strip() not in MISSING]
    distinct = len(set(values))
    if distinct < 2 or _are_numbers_of_rows(values):
        return None
    if distinct <= min(FEW, len(values) // 3):
        return {"shares": [round(share, 4) for share in shares_of(values)]}
    keys = sorted({key_of(value) for value in values})
    return {"keys": keys[:KEPT], "last": 0xFFFFFFFF if len(keys) <= KEPT else keys[KEPT - 1]}


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _are_numbers_of_rows(values: list[Any]) -> bool:
    return all(isinstance(value, float) and value == values[0] + at for at, value in enumerate(values))


def _records(path: Path) -> int:
    """The number of records of a large table after its header; line ends in quotes do not count."""
    quotes = records = 0
    last = b"\n"
    with path.open("rb") as file:
        for last in file:
            quotes += last.count(b'"')
            records += quotes % 2 == 0 and last.strip() != b""
    return max(0, records - 1)
