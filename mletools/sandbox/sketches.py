"""Sketches of tables: short sequences of numbers by which a copy of a table is known in a file of any format.

A sequence holds neighbouring cells of a row, or a column's cells of successive rows. It is found where its values stand
in a stream of numbers at equal distances, so in tables by rows, by columns and in plain lists, with other columns or
rows beside. Covered: copies with fewer rows or columns, in another order of one of the two. Not covered: scaled values,
copies with both orders changed, tables of words alone.
"""

import bisect
import itertools
import math
import random
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

Values = tuple[float, ...]
Sketch = list[Values]

_SEQUENCES = 10  # by rows, and as many by columns
_LENGTHS = (3, 12)
_GOLDEN = (5**0.5 - 1) / 2
_WEIGHT = 8.0  # of a sequence: about the decimal digits that chance would have to hit
_MOST_PLACES = 2000  # of a table that are tried
_MOST_PLACES_OF_ONE = 20_000  # of a value in a stream that are tried
_FAR = 64  # most numbers between two values of a sequence
_LEAST_FOUND, _SHARE_FOUND = 3, 0.2


def canonical(value: float) -> str:
    """The text of a number, alike for single and double precision."""
    return f"{value:.6g}"


def hashed(values: Iterable[Any], kind: str) -> set[int]:
    """Hashes of 32 bits of the values of a stream (see Sketches.found), the same in every process."""
    different = set(values)
    if kind == "text":
        return {zlib.crc32(value.encode()) for value in different}
    return {hash(value) & 0xFFFFFFFF for value in different if value == value}  # each NaN would differ


def _weight(value: float) -> float:
    digits = canonical(abs(value)).partition("e")[0].replace(".", "").strip("0")
    return len(digits) if len(digits) > 1 else len(digits) / 2


def _tells(values: Sequence[float]) -> bool:
    """Whether a sequence is rare: enough digits, and neither rising nor falling as years and counters do."""
    pairs = list(itertools.pairwise(values))
    turns = any(a < b for a, b in pairs) and any(a > b for a, b in pairs)
    return turns and len(set(values)) >= _LENGTHS[0] and sum(map(_weight, set(values))) >= _WEIGHT


def _shortest(values: Sequence[float | None]) -> Values | None:
    """The shortest telling sequence at the beginning of `values`; None: there is none, or a value is missing."""
    for length in range(_LENGTHS[0], min(_LENGTHS[1], len(values)) + 1):
        if values[length - 1] is None:
            return None
        head = tuple(value for value in values[:length] if value is not None)
        if len(head) == length and _tells(head):
            return head
    return None


def sketch(rows: Sequence[Sequence[float | None]]) -> Sketch:
    """The sketch of a table of numbers; None is a missing cell. Empty if nothing in it is rare enough."""
    draw = random.Random(len(rows))
    starts = sorted(range(len(rows)), key=lambda row: row * _GOLDEN % 1)  # any first part of them is spread over all
    width = max(map(len, rows), default=0)
    columns = [[row[number] if number < len(row) else None for row in rows] for number in range(width)]
    draw.shuffle(columns)
    firsts = (draw.randrange(max(1, len(rows[at]) - _LENGTHS[0] + 1)) for at in starts)
    by_row = _telling(rows[at][first:] for at, first in zip(starts, firsts, strict=True))
    by_column = _telling(
        column[at : at + _LENGTHS[1]] for at, column in zip(starts, itertools.cycle(columns), strict=False)
    )
    return by_row + by_column


def _telling(places: Iterable[Sequence[float | None]]) -> Sketch:
    """The first _SEQUENCES different telling sequences that begin at the places."""
    found: dict[Values, None] = {}
    for cells in itertools.islice(places, _MOST_PLACES):
        values = _shortest(cells)
        if values is not None:
            found[values] = None
        if len(found) == _SEQUENCES:
            break
    return list(found)


def is_telling(found: Sketch) -> bool:
    """Whether a table can be told by this sketch."""
    return len(found) >= _LEAST_FOUND


class Sketches:
    """Sketches of tables by name, ready to be found in streams of numbers."""

    def __init__(self, tables: Mapping[str, Iterable[Sequence[float]]]) -> None:
        self._tables = {name: [tuple(map(float, values)) for values in found] for name, found in tables.items()}
        self._vocabularies: dict[str, set[Any]] = {}
        self._encoded: dict[str, dict[str, list[tuple[Any, ...]]]] = {}

    def found(self, stream: Sequence[Any], kind: str) -> set[str]:
        """The names of the tables in a stream; `kind` is "text" (see canonical) or a struct format of its numbers."""
        present = self._vocabulary(kind).intersection(stream)
        possible: dict[str, list[tuple[Any, ...]]] = {}
        for name, sequences in self._in(kind).items():
            able = [values for values in sequences if present.issuperset(values)]
            if len(able) >= _needed(sequences):
                possible[name] = able
        places: dict[Any, list[int]] = {
            value: [] for sequences in possible.values() for values in sequences for value in values
        }
        if possible:
            for place, value in enumerate(stream):
                if value in places:
                    places[value].append(place)
        return {
            name
            for name, sequences in possible.items()
            if _is_found(stream, sequences, places, _needed(self._in(kind)[name]))
        }

    def may_stand_in(self, values: set[int]) -> bool:
        """Whether streams of values with these hashes (see `hashed`) may hold one of the tables."""
        return any(
            sum(any(hashes <= values for hashes in sequence) for sequence in table) >= _LEAST_FOUND
            for table in self._hashes
        )

    @cached_property
    def _hashes(self) -> list[list[list[set[int]]]]:
        """Of each table's sequences the hashes of their values as text, and in both precisions (whole numbers are equal)."""
        return [
            [
                [hashed(encoded, kind) for kind in ("text", "d", "f") if (encoded := _encode(values, kind)) is not None]
                for values in sequences
            ]
            for sequences in self._tables.values()
        ]

    def _vocabulary(self, kind: str) -> set[Any]:
        if kind not in self._vocabularies:
            everything = self._in(kind).values()
            self._vocabularies[kind] = {value for sequences in everything for values in sequences for value in values}
        return self._vocabularies[kind]

    def _in(self, kind: str) -> Mapping[str, list[tuple[Any, ...]]]:
        """The sequences in the values of such streams."""
        if kind not in self._encoded:
            self._encoded[kind] = {}
            for name, sequences in self._tables.items():
                encoded = [values for sequence in sequences if (values := _encode(sequence, kind)) is not None]
                if is_telling(encoded):
                    self._encoded[kind][name] = encoded
        return self._encoded[kind]


def _needed(sequences: Sequence[tuple[Any, ...]]) -> int:
    """How many of a table's sequences tell it."""
    return max(_LEAST_FOUND, round(_SHARE_FOUND * len(sequences)))


def _encode(values: Values, kind: str) -> tuple[Any, ...] | None:
    """The values as such a stream holds them; None: it cannot."""
    if kind == "text":
        return tuple(map(canonical, values))
    if not all(map(math.isfinite, values)):
        return None
    if kind in "df":
        return struct.unpack(f"{len(values)}{kind}", struct.pack(f"{len(values)}{kind}", *values))
    top = 1 << (8 * struct.calcsize(kind) - 1)
    return tuple(map(int, values)) if all(value == int(value) and abs(value) < top for value in values) else None


def _is_found(
    stream: Sequence[Any], sequences: list[tuple[Any, ...]], places: Mapping[Any, list[int]], needed: int
) -> bool:
    """Whether `needed` of the sequences stand in the stream at equal distances."""
    for number, values in enumerate(sequences):
        needed -= _stands(stream, values, places)
        if needed == 0 or needed > len(sequences) - number - 1:
            break
    return needed == 0


def _stands(stream: Sequence[Any], values: tuple[Any, ...], places: Mapping[Any, list[int]]) -> bool:
    """Whether the values stand in the stream at equal distances, judged from where the rarest two of them are."""
    rare, other = sorted(range(len(values)), key=lambda number: len(places[values[number]]))[:2]
    if values[rare] == values[other]:
        other = next(number for number in range(len(values)) if values[number] != values[rare])
    apart = other - rare
    others = places[values[other]]
    for place in places[values[rare]][:_MOST_PLACES_OF_ONE]:
        near, far = sorted((place + (1 if apart > 0 else -1), place + _FAR * apart))
        for second in others[bisect.bisect_left(others, near) : bisect.bisect_right(others, far)]:
            step, rest = divmod(second - place, apart)
            first = place - step * rare
            if rest or first < 0 or first + step * (len(values) - 1) >= len(stream):
                continue
            if all(stream[first + step * number] == value for number, value in enumerate(values)):
                return True
    return False
