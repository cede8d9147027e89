"""CSV tables of a task's folder: read into columns, thinned without a change to the lines that stay, mixed.

Not covered: which rows go where and into sample submissions (made).
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...base.csv_files import CsvError, read_columns
from ..table import Rejected, csv_bytes
from .rows import Key, canonical, canonical_key, rows_of
from .split import place

MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Table:
    """A CSV file: its cells by column, at least one row."""

    columns: dict[str, list[str]]

    def keys(self, names: Sequence[str]) -> list[Key]:
        """The cells of some columns, row by row."""
        return list(zip(*(self.columns[name] for name in names), strict=True))


def read_bytes(path: Path) -> bytes:
    """A file's content. Rejected where it is too large to be held, FileNotFoundError where it is not there."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Rejected(f"{path.name} has {path.stat().st_size} bytes; at most {MOST_BYTES} are read")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror}") from None


def read_table(path: Path) -> tuple[Table, bytes]:
    """(a CSV file's table, its content). Rejected where it is none."""
    content = read_bytes(path)
    try:
        return Table(read_columns(content)), content
    except CsvError as error:
        raise Rejected(f"{path.name}: {error}") from None


def with_ids(train: Table, ids: Sequence[str], others: Sequence[Key]) -> Table:
    """train.csv with ids: numbers that follow those of the test set, where it has none. Rejected where they are texts."""
    missing = [name for name in ids if name not in train.columns]
    if not missing:
        return train
    if len(ids) > 1 or not all(canonical(cell).lstrip("-").isdigit() for (cell,) in others):
        raise Rejected(f"train.csv has no column {missing[0]!r}, the id of the submission")
    first = max(int(canonical(cell)) for (cell,) in others) + 1
    rows = len(next(iter(train.columns.values())))
    return Table({ids[0]: [str(first + at) for at in range(rows)], **train.columns})


def thinned(content: bytes, out: set[int]) -> bytes:
    """A CSV file without the rows of these numbers and without empty lines; its other bytes are as they were."""
    rows = (text for cells, text in rows_of(content) if cells)
    texts = [next(rows), *(text for at, text in enumerate(rows) if at not in out)]
    bom = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    return bom + "".join(texts).encode()


def mixed(table: Table, ids: Sequence[str], seed: str, keep_order: bool) -> bytes:
    """The CSV of the rows in the order of a digest of their ids.

    Rows that share an id stand in the order of their cells' digest, or as they were where `keep_order`.
    """
    places = [place_of(seed, canonical_key(key)) for key in table.keys(ids)]
    order = list(range(len(places)))
    if not keep_order and len(set(places)) < len(places):
        rows = list(zip(*table.columns.values(), strict=True))
        order.sort(key=lambda at: place(*rows[at]))
    order.sort(key=lambda at: places[at])
    names = list(table.columns)
    return csv_bytes(names, [[table.columns[name][at] for at in order] for name in names])


def place_of(seed: str, key: Key) -> bytes:
    """Where the rows of a canonical id stand in test.csv and in the sample of a view."""
    return place(seed, "order", *key)
