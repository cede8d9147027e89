"""Rows of CSV text with the very text of each, ids as graders compare them, and a submission without some of its rows.

Everything here is linear in the bytes and keeps one row at a time. Not covered: what the cells mean.
"""

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...base.csv_files import CsvError, decoded, read_rows
from ...grading.answers import all_numbers
from ...grading.parsing import canonical_label

Key = tuple[str, ...]
BATCH = 1000
# Graders read no more empty lines than this beside twice the rows.
EMPTY_LINES = 100_000


def rows_of(content: bytes) -> Iterator[tuple[list[str], str]]:
    """(cells, text) of each row of a CSV file, the header first; the texts together are the file but for its BOM.

    CsvError where it is none.
    """
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in decoded(content):
            taken.append(line)
            yield line

    for cells in read_rows(lines()):
        yield cells, taken[0] if len(taken) == 1 else "".join(taken)
        taken.clear()


def canonical(cell: str) -> str:
    """An id as text; numbers as in grading, so that 007 and 7.0 are one id."""
    text = cell.strip()
    try:
        float(text)
    except ValueError:
        return text
    return canonical_label(text)


def canonical_key(key: Key) -> Key:
    return tuple(map(canonical, key))


@dataclass(frozen=True)
class Ids:
    """The ids of an answers file; `numeric` says of each id column whether its cells compare as numbers."""

    numeric: tuple[bool, ...]
    keys: frozenset[Key]

    def __contains__(self, key: Key) -> bool:
        if key in self.keys:
            return True
        return any(self.numeric) and self._compared(key) in self.keys

    def _compared(self, key: Key) -> Key:
        return tuple(canonical(cell) if number else cell for cell, number in zip(key, self.numeric, strict=True))


def ids_of(keys: Sequence[Key]) -> Ids:
    """The ids of the answers whose rows have these id cells, at least one row."""
    numeric = tuple(all_numbers(cells) for cells in zip(*keys, strict=True))
    bare = Ids(numeric, frozenset())
    return Ids(numeric, frozenset(bare._compared(key) for key in keys))


def without(content: bytes, columns: Sequence[str], drop: Callable[[Key], bool], most: int) -> bytes:
    """A submission without the rows whose ids, the cells of `columns`, `drop` names; all other bytes stay.

    What is no CSV file, has not each of the columns once, or has more than `most` rows (or that and EMPTY_LINES of empty
    ones) comes back as it is; a row of another width than the header stays.
    """
    if b"\0" in content:
        return content
    try:
        return _without(content, columns, drop, most)
    except CsvError:
        return content


def _without(content: bytes, columns: Sequence[str], drop: Callable[[Key], bool], most: int) -> bytes:
    out = io.BytesIO()
    if content.startswith(codecs.BOM_UTF8):
        out.write(codecs.BOM_UTF8)
    rows = rows_of(content)
    header, text = next(rows, ([], ""))
    if any(header.count(name) != 1 for name in columns):
        return content
    places, width = [header.index(name) for name in columns], len(header)
    kept, full, empty = [text], 0, 0
    for cells, text in rows:
        full, empty = (full + 1, empty) if cells else (full, empty + 1)
        if full > most or empty > most + EMPTY_LINES:
            return content
        if len(cells) != width or not drop(tuple([cells[at] for at in places])):
            kept.append(text)
        if len(kept) == BATCH:
            out.write("".join(kept).encode())
            kept.clear()
    out.write("".join(kept).encode())
    return out.getvalue()
