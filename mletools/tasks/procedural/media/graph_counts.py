"""Counts that anyone makes of a list of links: nodes, links, degrees, distances, weights.

Not covered: the properties that a network was grown for (graph_measures).
"""

from collections.abc import Sequence
from typing import Any

from .graph_files import Line


def quick_numbers(lists: Sequence[Sequence[Line]]) -> Any:
    """Floats of shape (rows, 21), from names as they stand and without links of a node to itself."""
    import numpy as np

    return np.round(np.array([_numbers(lines) for lines in lists], dtype=float), 6)


def _numbers(lines: Sequence[Line]) -> list[float]:
    import numpy as np

    names = sorted({end for line in lines for end in line[:2]})
    index = {name: at for at, name in enumerate(names)}
    one, other = (np.array([index[line[at]] for line in lines]) for at in (0, 1))
    weights = np.array([float(line[2] or 0) for line in lines])
    joined, heavy = np.zeros((2, len(names), len(names)))
    joined[one, other] = joined[other, one] = 1
    heavy[one, other] = heavy[other, one] = weights
    joined[range(len(names)), range(len(names))] = heavy[range(len(names)), range(len(names))] = 0
    degree, strength = joined.sum(axis=1), heavy.sum(axis=1)
    rising = np.sort(degree)
    triangles = float(((joined @ joined) * joined).sum()) / 6
    furthest, mean = _distances(joined)
    # The second smallest eigenvalue is small where a network nearly falls apart.
    falling_apart = np.linalg.eigvalsh(np.diag(degree) - joined)[1]
    return [
        *(len(names), len(lines), degree.sum() / 2, degree.std(), rising[-1], rising[-2]),
        *(float(np.sum(degree == count)) for count in (1, 2, 3)),
        *(triangles, 3 * triangles / max(1.0, float(degree @ (degree - 1)) / 2)),
        *(furthest, mean, falling_apart),
        *(weights.mean(), weights.std(), weights.min(), weights.max(), np.median(weights)),
        *(strength.max(), strength.std()),
    ]


def _distances(joined: Any) -> tuple[int, float]:
    """The largest and the mean number of links between two nodes, of those that a path joins."""
    import numpy as np

    reached = np.eye(len(joined), dtype=bool)
    steps, total, pairs = 0, 0, 0
    while True:
        further = (reached @ joined > 0) & ~reached
        found = int(further.sum())
        if not found:
            return steps, total / max(1, pairs)
        steps, pairs = steps + 1, pairs + found
        total += steps * found
        reached |= further
