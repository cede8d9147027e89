"""Whether values that a program trains on are rows of the task's data.

Part of `observer`, and like it standard library only. `tables.py` describes the columns of the task's tables: the shares
of the values of a column with few values, a sample of the values of any other. Neither renaming values nor taking
some of the rows changes the first; the second is also looked for behind log, log1p and square root.
Covered: rows that are too few, constant, or whose columns all have other values or other shares than every column.
Not covered: data without tables; a column made up with the shares of a real one.
"""

from __future__ import annotations

import math
import struct
import zlib
from itertools import zip_longest
from typing import Any, NamedTuple

from .facts import ColumnFacts

_ROWS, _COLUMNS, _ENTRIES = 2000, 15, 300  # looked at, of a table; of a text
FEW = 30  # values of a column that is described by their shares
KEPT = 256  # values of any other column
_INVERSES = (lambda v: v, math.expm1, math.exp, lambda v: v * v)


def key_of(value: Any) -> int:
    """A number for a value that is the same for equal numbers, as 32-bit floats, and equal texts."""
    try:
        return zlib.crc32(struct.pack("<f", float(value) + 0.0))
    except (TypeError, ValueError, OverflowError, struct.error):
        return zlib.crc32(str(value)[:_ENTRIES].encode("utf-8", "replace"))


def shares_of(values: list[Any]) -> list[float]:
    """The shares of the values, the largest first."""
    counts: dict[Any, int] = {}
    for value in values:  # not a Counter, whose methods a program can replace
        counts[value] = counts.get(value, 0) + 1
    return sorted((count / len(values) for count in counts.values()), reverse=True)


class Column(NamedTuple):
    """What is known of a column: its shares, or a sample of its keys and the last of them that is in the sample."""

    shares: list[float]
    keys: frozenset[int]
    last: int


def described(columns: list[ColumnFacts]) -> list[Column]:
    """The columns that tables.py describes."""
    return [Column(each.get("shares", []), frozenset(each.get("keys", ())), each.get("last", -1)) for each in columns]


class Rows:
    """Rows that a program trains on, in one call or many: the first columns of some rows."""

    def __init__(self) -> None:
        self.count = self.judged = 0
        self.columns: list[list[Any]] = []

    def add(self, value: Any) -> None:
        """Add rows: an array, a table, a tensor, a list; anything else adds none."""
        count, columns = columns_of(value)
        if not columns:
            return
        if len(columns) != len(self.columns):
            self.count, self.judged, self.columns = 0, 0, [[] for _ in columns]
        self.count += count
        for mine, new in zip(self.columns, columns, strict=True):
            mine += new[: max(0, _ROWS - len(mine))]

    def varies(self) -> bool:
        return any(len(set(each)) > 1 for each in self.columns)

    def is_new(self) -> bool:
        """Whether there are more rows, and twice as many, as when this was last asked."""
        is_new = self.count >= 2 * self.judged
        self.judged = self.count if is_new else self.judged
        return is_new

    def are_of(self, columns: list[Column]) -> bool:
        """Whether a column has the values, or the shares of values, of one of `columns`."""
        return any(_is_like(values, columns) for values in self.columns)


def columns_of(value: Any) -> tuple[int, list[list[Any]]]:
    """The number of rows, and some columns of some rows, without missing values; (0, []) for anything without rows."""
    if type(value) in (list, tuple):
        if value and type(value[0]) in (list, tuple):
            value = [list(each[:_COLUMNS]) for each in value[:: 1 + len(value) // _ROWS]], len(value)
            return value[1], _clean(zip_longest(*value[0]))
        return len(value), _clean([[_plain(each) for each in value[:: 1 + len(value) // _ROWS]]])
    shape = getattr(value, "shape", None)
    if not shape or not hasattr(type(value), "__getitem__"):
        return 0, []
    count = int(shape[0])
    if hasattr(value, "tocsr"):
        some = value.tocsr()[:: 1 + count // _ROWS]  # of each row the sum, and where the largest value is
        pairs = [each.tolist() for each in (some.sum(axis=1), some.argmax(axis=1))]
        return count, _clean([each[0] if isinstance(each, list) else each for each in column] for column in pairs)
    some = value[:: 1 + count // (_ROWS if len(shape) < 3 else 50)]
    some = some.to_numpy() if hasattr(some, "to_numpy") else some
    if len(shape) == 1:
        return count, _clean([some.tolist()])
    while len(some.shape) > 2:
        some = some[:, some.shape[1] // 2]
    some = some[:, :: 1 + some.shape[1] // _COLUMNS]
    return count, _clean(zip(*some.tolist(), strict=True))


def _clean(columns: Any) -> list[list[Any]]:
    kept = (str, int, float, bool)
    return [[each for each in column if isinstance(each, kept) and each == each] for column in columns]


def _plain(value: Any) -> Any:
    """A number for a library's number; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _is_like(values: list[Any], columns: list[Column]) -> bool:
    """Whether values could be some of a column's rows, perhaps under other names; see the module."""
    if len(values) < 2:
        return False
    shares = shares_of(values)
    if 2 <= len(shares) <= min(FEW, len(values) // 3):  # fewer rows have any shares
        tolerance = 0.05 + 0.5 * math.sqrt(len(shares) / len(values))
        for each in columns:
            apart = sum(abs(a - b) for a, b in zip_longest(shares, each.shares, fillvalue=0.0)) / 2
            if each.shares and apart <= tolerance:
                return True
    if len(shares) < min(4, len(values)):
        return False
    for inverse in _INVERSES if isinstance(values[0], float) else _INVERSES[:1]:
        try:
            keys = [key_of(inverse(each)) for each in set(values)]
        except (ValueError, OverflowError, TypeError):
            continue
        for each in columns:
            sampled = [key for key in keys if key <= each.last]
            if len(sampled) >= min(3, len(values)) and sum(key in each.keys for key in sampled) >= 0.9 * len(sampled):
                return True
    return False
