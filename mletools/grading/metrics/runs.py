"""Interval arithmetic for masks and spans: the runs of many rows at once, never unfolded into pixels or characters.

Not covered: the order in which a mask's pixels are counted; it does not matter to counts, only to distances (masks3d).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

# No image and no text is longer. With it the rows of any submission fit on one line of 64-bit positions.
MOST = 2**40


@dataclass(frozen=True)
class Runs:
    """Stretches [start, stop) of rows: whole-number arrays of shape (runs,), positions from 0, rows ascending."""

    row: Any
    start: Any
    stop: Any


def flatten(cells: Sequence[Sequence[tuple[int, int]]]) -> tuple[Any, Any, Any]:
    """Row, first and second number of every pair of every cell, int64 arrays of shape (pairs,).

    Numbers beyond MOST become MOST + 1 or -MOST - 1, which every check of a position refuses.
    """
    import numpy as np

    counts = np.fromiter(map(len, cells), dtype=np.int64, count=len(cells))
    numbers = chain.from_iterable(chain.from_iterable(cells))
    try:
        flat = np.fromiter(numbers, dtype=np.int64, count=2 * int(counts.sum()))
    except OverflowError:
        bounded = (max(-MOST - 1, min(MOST + 1, number)) for number in chain.from_iterable(chain.from_iterable(cells)))
        flat = np.fromiter(bounded, dtype=np.int64, count=2 * int(counts.sum()))
    flat = np.clip(flat, -MOST - 1, MOST + 1)
    return np.repeat(np.arange(len(cells)), counts), flat[0::2], flat[1::2]


def offsets(rows: int, *many: Runs) -> Any:
    """Where each row starts when the rows are laid one behind the other on a line, with a gap between them."""
    import numpy as np

    width = np.zeros(rows, dtype=np.int64)
    for runs in many:
        np.maximum.at(width, runs.row, runs.stop)
    return np.cumsum(width + 1) - width - 1


def merged(runs: Runs, rows: int) -> Runs:
    """The same positions in disjoint runs that do not touch, sorted by row and start. Empty runs may stay."""
    import numpy as np

    if not len(runs.row):
        return runs
    origin = offsets(rows, runs)[runs.row]
    start, stop = runs.start + origin, runs.stop + origin
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    last = np.append(first[1:], len(start)) - 1
    origin = origin[order][first]
    return Runs(runs.row[order][first], start[first] - origin, reach[last] - origin)


def sizes(runs: Runs, rows: int) -> Any:
    """The number of positions in each row's merged runs, floats of shape (rows,), exact."""
    import numpy as np

    return np.bincount(runs.row, weights=runs.stop - runs.start, minlength=rows)


def overlap(truth: Runs, guess: Runs, rows: int) -> tuple[Any, Any, Any]:
    """Intersection size of truth and guess for each row; a position in several runs counts once."""
    import numpy as np

    truth, guess = merged(truth, rows), merged(guess, rows)
    origin = offsets(rows, truth, guess)
    line = Runs(guess.row, guess.start + origin[guess.row], guess.stop + origin[guess.row])
    at = origin[truth.row]
    common = _covered(line, truth.stop + at) - _covered(line, truth.start + at)
    return np.bincount(truth.row, weights=common, minlength=rows), sizes(truth, rows), sizes(guess, rows)


def _covered(line: Runs, at: Any) -> Any:
    """Number of positions before each of `at` that lie in the disjoint runs of `line`."""
    import numpy as np

    if not len(line.start):
        return np.zeros(len(at), dtype=np.int64)
    before = np.append(0, np.cumsum(line.stop - line.start))
    index = np.searchsorted(line.start, at, side="right")
    unreached = np.maximum(line.stop[index - 1] - at, 0)  # of the run that `at` stands in
    return np.where(index > 0, before[index] - unreached, 0)
