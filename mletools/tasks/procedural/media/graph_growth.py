"""Grows networks: the parts that are set from the start, then links inside the core that are moved until counts fit.

Moves keep the number of links and of links between the halves; one is kept where it brings triangles and the degree of
the busiest node no further from what is wanted. Integer arithmetic throughout. Not covered: weights and files
(graph_files).
"""

import itertools
from dataclasses import dataclass
from typing import Any

from .graph_plan import ANCHOR, BRANCH, CROSSING, HUB, LOOP, RING, SHAPE, SHAPES, STAR, TAIL, TREE, TRIANGLES, GraphPlan

MOVES = 500
# A triangle too many or too few weighs as much against a link of the busiest node too many or too few.
TRIANGLE_COST, HUB_COST = 1, 4
# Links inside a side branch, by nodes counted from its root.
BRANCH_LINKS = {
    RING: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
    STAR: [(0, 1), (0, 2), (0, 3), (0, 4)],
    TREE: [(0, 1), (0, 2), (1, 3), (1, 4)],
    LOOP: [(0, 1), (1, 2), (2, 3), (3, 4)],
}
# The node of a side branch at which a tail may start.
TAIL_NODE = {RING: 2, STAR: 0, TREE: 0, LOOP: 2}


@dataclass(frozen=True)
class Network:
    """Links between nodes 0..nodes-1 as pairs, of each the part that it lies in, and whether it joins the halves."""

    nodes: int
    links: list[tuple[int, int]]
    parts: list[str]
    crossing: list[bool]


@dataclass(frozen=True)
class _Start:
    """A network before its core is settled: set links, links that may move, and each core node's links from outside."""

    core: int
    half: int
    branch: list[tuple[int, int]]
    tail: list[tuple[int, int]]
    free: list[tuple[int, int]]
    outside: list[int]

    @property
    def cycles(self) -> list[tuple[int, int]]:
        """A ring through each half, which keeps it in one piece."""
        first = [(at, (at + 1) % self.half) for at in range(self.half)]
        rest = self.core - self.half
        return first + [(self.half + at, self.half + (at + 1) % rest) for at in range(rest)]


def grow(plan: GraphPlan, rng: Any) -> list[Network]:
    """One network a sample. Node 0 is the busiest of the core; the core comes first, then branch and tail."""
    starts = [_start(plan, row, rng) for row in range(len(plan.nodes))]
    cores = _settle(plan, starts, rng)
    networks = []
    for row, (start, free) in enumerate(zip(starts, cores, strict=True)):
        inner = [*start.cycles, *free]
        parts = ["core"] * len(inner) + ["side branch"] * len(start.branch) + ["tail"] * len(start.tail)
        crossing = [(one < start.half) != (other < start.half) for one, other in inner]
        crossing += [False] * (len(parts) - len(inner))
        networks.append(Network(int(plan.nodes[row]), [*inner, *start.branch, *start.tail], parts, crossing))
    return networks


def _start(plan: GraphPlan, row: int, rng: Any) -> _Start:
    wanted = {name: values[row] for name, values in plan.wanted.items()}
    length, shape = round(wanted[TAIL]), SHAPES[wanted[SHAPE]]
    core = int(plan.nodes[row]) - BRANCH - length
    half = core // 2
    # Where branch and tail are joined to: nodes of one half, never the busiest.
    side = list(range(1, half)) if rng.randint(2) else list(range(half, core))
    ends = [side[at] for at in rng.permutation(len(side))[:3]]
    branch = [(core + one, core + other) for one, other in BRANCH_LINKS[shape]] + [(ends[0], core)]
    if shape == LOOP:
        branch.append((ends[1], core + BRANCH - 1))
    anchor = (0, core + TAIL_NODE[shape], ends[2])[wanted[ANCHOR]]
    first = core + BRANCH
    tail = [(anchor, first), *((first + at, first + at + 1) for at in range(length - 1))]
    outside = [0] * core
    for one, _ in (*branch[len(BRANCH_LINKS[shape]) :], tail[0]):
        if one < core:
            outside[one] += 1
    set_links = len(branch) + len(tail)
    start = _Start(core, half, branch, tail, [], outside)
    taken = {tuple(sorted(pair)) for pair in start.cycles}
    pairs = [pair for pair in itertools.combinations(range(core), 2) if pair not in taken]
    pairs = [pairs[at] for at in rng.permutation(len(pairs))]
    crossing = [pair for pair in pairs if pair[0] < half <= pair[1]][: round(wanted[CROSSING])]
    inside = [pair for pair in pairs if (pair[0] < half) == (pair[1] < half)]
    start.free.extend([*crossing, *inside][: int(plan.links[row]) - set_links - core])
    return start


def _settle(plan: GraphPlan, starts: list[_Start], rng: Any) -> list[list[tuple[int, int]]]:
    """The free links of each core after all moves, which are made in all networks at once."""
    import numpy as np

    rows = np.arange(len(starts))
    size = max(start.core for start in starts)
    joined = np.zeros((len(rows), size, size), dtype=np.int32)
    degree = np.zeros((len(rows), size), dtype=np.int64)
    count = np.array([len(start.free) for start in starts])
    free = np.zeros((len(rows), count.max(), 2), dtype=np.int64)
    for row, start in enumerate(starts):
        ends = np.array([*start.cycles, *start.free]).T
        joined[row, ends[0], ends[1]] = joined[row, ends[1], ends[0]] = 1
        degree[row, : start.core] = joined[row, : start.core].sum(axis=1) + start.outside
        free[row, : count[row]] = start.free
    half, core = (np.array([getattr(start, name) for start in starts]) for name in ("half", "core"))
    triangles = np.einsum("rij,rjk,rki->r", joined, joined, joined, optimize=True) // 6
    wanted, hub = (np.rint(plan.wanted[name]).astype(int) for name in (TRIANGLES, HUB))
    cost = _cost(triangles - wanted, degree, hub)
    for chance, *other in rng.randint(0, 1 << 30, size=(MOVES, 3, len(rows))):
        at = chance % count
        old, new = (
            free[rows, at].T,
            [_node(end, luck, half, core) for end, luck in zip(free[rows, at].T, other, strict=True)],
        )
        joined[rows, old[0], old[1]] = joined[rows, old[1], old[0]] = 0
        lost, won = (np.sum(joined[rows, ends[0]] * joined[rows, ends[1]], axis=1) for ends in (old, new))
        moved = degree.copy()
        for end, change in ((old[0], -1), (old[1], -1), (new[0], 1), (new[1], 1)):
            moved[rows, end] += change
        after = _cost(triangles - lost + won - wanted, moved, hub)
        kept = (new[0] != new[1]) & (joined[rows, new[0], new[1]] == 0) & (after <= cost)
        triangles, cost = triangles + np.where(kept, won - lost, 0), np.where(kept, after, cost)
        degree = np.where(kept[:, None], moved, degree)
        settled = [np.where(kept, fresh, stale) for fresh, stale in zip(new, old, strict=True)]
        joined[rows, settled[0], settled[1]] = joined[rows, settled[1], settled[0]] = 1
        free[rows, at] = np.array(settled).T
    return [[(int(one), int(other)) for one, other in free[row, : count[row]]] for row in rows]


def _cost(off: Any, degree: Any, hub: Any) -> Any:
    """(rows,) ints: how far the triangles, the busiest node and any node that is busier are from what is wanted."""
    import numpy as np

    above = np.maximum(degree[:, 1:] - hub[:, None], 0).sum(axis=1)
    return TRIANGLE_COST * off**2 + HUB_COST * ((degree[:, 0] - hub) ** 2 + above)


def _node(end: Any, luck: Any, half: Any, core: Any) -> Any:
    """A drawn node of the half that `end` lies in, (rows,)."""
    import numpy as np

    return np.where(end < half, luck % half, half + luck % (core - half))
