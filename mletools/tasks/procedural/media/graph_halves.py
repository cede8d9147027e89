"""Splits a network into two halves of equal size that few links join (Kernighan & Lin, 1970, exchanges of one pair).

Not covered: more than two groups, unequal ones.
"""

from collections.abc import Container, Sequence

STARTS, ROUNDS = 8, 12


def split_halves(neighbours: Sequence[Container[int]], nodes: Sequence[int]) -> set[int]:
    """One of the halves; from several starts, the nodes nearest to one of them, pairs change sides while this helps."""
    import numpy as np

    count = len(nodes)
    if count < 4:
        return set(nodes[: count // 2])
    joined = np.array([[other in own for other in nodes] for own in neighbours], dtype=np.int64)
    reach = joined + 2 * np.eye(count, dtype=np.int64)
    near = reach @ reach @ reach
    starts = np.unique(np.linspace(0, count - 1, STARTS).astype(int))
    order = np.argsort(-near[starts], axis=1, kind="stable")
    side = -np.ones((len(starts), count), dtype=np.int64)
    np.put_along_axis(side, order[:, : count // 2], 1, axis=1)
    rows = np.arange(len(starts))
    for _ in range(ROUNDS):
        # What a node would gain by changing sides: its links across, less those on its own side.
        gain = -side * (side @ joined)
        both = gain[:, :, None] + gain[:, None, :] - 2 * joined[None]
        both = np.where((side[:, :, None] > 0) & (side[:, None, :] < 0), both, -1)
        best = both.reshape(len(starts), -1).argmax(axis=1)
        one, other = best // count, best % count
        helps = both[rows, one, other] > 0
        if not helps.any():
            break
        side[rows[helps], one[helps]] = -1
        side[rows[helps], other[helps]] = 1
    across = ((side @ joined) * side).sum(axis=1)
    return {nodes[int(at)] for at in np.flatnonzero(side[across.argmax()] > 0)}
