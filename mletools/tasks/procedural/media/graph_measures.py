"""The properties of a network, measured in its list of links.

`measure` knows the names of the factors and how such networks are made, never their values; all counting is in
integers. Not covered: quick counts
(graph_counts); growing and writing networks.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..world import Category
from .graph_files import Line
from .graph_halves import split_halves
from .graph_plan import (
    ANCHOR,
    ANCHORS,
    AT_BRANCH,
    AT_BUSIEST,
    AT_CORE,
    BUSY_WEIGHT,
    CROSS_WEIGHT,
    CROSSING,
    HEAVIEST,
    HUB,
    IN_BRANCH,
    IN_CORE,
    IN_TAIL,
    LOOP,
    PLACES,
    RANGES,
    RING,
    SHAPE,
    SHAPES,
    STAR,
    TAIL,
    TREE,
    TRIANGLES,
    GraphPlan,
)

# A weight so many times the middle one is a slip.
FAR_TOO_HEAVY = 6.0
# So many nodes with two links in a row do not come about by chance.
CHAIN = 4
Links = dict[int, dict[int, float]]


@dataclass(frozen=True)
class _Parts:
    """A network taken apart: its links, the tail from its end to the node where it starts, the branch, the core."""

    links: Links
    tail: list[int]
    anchor: int
    shape: str
    branch: set[int]
    core: list[int]


def measure(plan: GraphPlan, lists: Sequence[Sequence[Line]]) -> dict[str, Any]:
    """Of each factor what the files tell: places of shape (rows,), or codes of levels."""
    import numpy as np

    found: dict[str, Any] = {name: [] for name in plan.factors}
    for lines in lists:
        parts = _take_apart(_largest(_read(lines)))
        half = split_halves([parts.links[node] for node in parts.core], parts.core)
        for name in plan.factors:
            found[name].append(MEASURES[name](parts, half))
    for name, values in found.items():
        if isinstance(plan.factors[name], Category):
            found[name] = np.array(values)
            continue
        low, high = RANGES[name][:2]
        found[name] = np.round(np.clip((np.array(values, dtype=float) - low) / (high - low), 0, 1), 6)
    return found


def _read(lines: Sequence[Line]) -> Links:
    """Each link once, without those of a node to itself; a node's number is the number in its name."""
    import numpy as np

    weights: dict[tuple[int, int], float] = {}
    for one, other, weight in lines:
        ends = [int(float(re.sub(r"^[^\d]+", "", end))) for end in (one, other) if end]
        if len(set(ends)) == 2:
            weights.setdefault((min(ends), max(ends)), float(weight or 1))
    middle = float(np.median(list(weights.values())))
    links: Links = {}
    for (first, second), found in weights.items():
        value = found if found < FAR_TOO_HEAVY * middle else middle
        links.setdefault(first, {})[second] = value
        links.setdefault(second, {})[first] = value
    return links


def _largest(links: Links) -> Links:
    best: set[int] = set()
    seen: set[int] = set()
    for node in links:
        if node in seen:
            continue
        reached, open_ends = {node}, [node]
        while open_ends:
            fresh = [other for other in links[open_ends.pop()] if other not in reached]
            reached.update(fresh)
            open_ends += fresh
        seen |= reached
        best = max(best, reached, key=len)
    return {node: others for node, others in links.items() if node in best}


def _take_apart(links: Links) -> _Parts:
    degree = {node: len(others) for node, others in links.items()}
    tails = [_walk(links, degree, node) for node in sorted(links) if degree[node] == 1]
    tail, anchor = max(tails, key=lambda each: len(each[0]), default=([], -1))
    rest = {
        node: {other for other in others if other not in tail} for node, others in links.items() if node not in tail
    }
    leaves = [node for node in sorted(rest) if len(rest[node]) == 1]
    pendant = _peel(rest)
    core = {node: others - pendant for node, others in rest.items() if node not in pendant}
    chain, ends = _longest_chain(core)
    shape, branch = TREE, pendant
    if len(chain) >= CHAIN or not leaves:
        shape = RING if len(set(ends)) == 1 else LOOP
        branch = set(chain) | (set(ends) if shape == RING else set())
    elif max(Counter(other for leaf in leaves for other in rest[leaf]).values()) >= 3:
        shape = STAR
    return _Parts(links, tail, anchor, shape, branch, [node for node in sorted(core) if node not in branch])


def _walk(links: Links, degree: dict[int, int], node: int) -> tuple[list[int], int]:
    """The nodes from an end up to where the network branches, and the node there."""
    walked, last = [node], -1
    while True:
        onward = [other for other in links[walked[-1]] if other != last]
        if not onward:
            return walked, -1
        last = walked[-1]
        if degree[onward[0]] != 2:
            return walked, onward[0]
        walked.append(onward[0])


def _peel(links: dict[int, set[int]]) -> set[int]:
    """The nodes that vanish when ends are cut off again and again."""
    left = {node: set(others) for node, others in links.items()}
    ends = [node for node, others in left.items() if len(others) <= 1]
    gone: set[int] = set()
    while ends:
        node = ends.pop()
        gone.add(node)
        for other in left[node]:
            left[other].discard(node)
            if len(left[other]) == 1 and other not in gone:
                ends.append(other)
        left[node] = set()
    return gone


def _longest_chain(links: dict[int, set[int]]) -> tuple[list[int], list[int]]:
    """The most nodes in a row with two links each, and the nodes at both ends of the row."""
    best: tuple[list[int], list[int]] = ([], [])
    for node in links:
        if len(links[node]) != 2 or node in best[0]:
            continue
        row, ends = [node], []
        for start in sorted(links[node]):
            last, here = node, start
            while len(links[here]) == 2 and here not in row:
                row.append(here)
                last, here = here, next(other for other in links[here] if other != last)
            ends.append(here)
        best = max(best, (row, ends), key=lambda each: len(each[0]))
    return best


def _triangles(parts: _Parts, half: set[int]) -> float:
    links = parts.links
    return sum(len(links[one].keys() & links[other].keys()) for one in links for other in links[one]) / 6


def _busiest(parts: _Parts) -> int:
    """The core's node with most links."""
    return max(parts.core, key=lambda node: (len(parts.links[node]), -node), default=-1)


def _crossing(parts: _Parts, half: set[int]) -> list[float]:
    """The weights of the core's links between its halves."""
    core = set(parts.core)
    return [weight for one in half for other, weight in parts.links[one].items() if other in core and other not in half]


def _cross_weight(parts: _Parts, half: set[int]) -> float:
    core = set(parts.core)
    across = _crossing(parts, half)
    inside = [
        weight
        for one in core
        for other, weight in parts.links[one].items()
        if other in core and (one in half) == (other in half)
    ]
    if not across or not inside:
        return 1.0
    return (sum(across) / len(across)) / (sum(inside) / len(inside))


def _busy_weight(parts: _Parts, half: set[int]) -> float:
    """Spearman's rank correlation of a link's weight with the links at its ends, without links between the halves."""
    import numpy as np
    from scipy.stats import rankdata

    links, core = parts.links, set(parts.core)
    pairs = [
        (weight, len(links[one]) + len(links[other]))
        for one in sorted(links)
        for other, weight in links[one].items()
        if one < other and not (one in core and other in core and (one in half) != (other in half))
    ]
    if any(len(set(values)) < 2 for values in zip(*pairs, strict=True)) or not pairs:
        return 0.0
    weight, ends = (rankdata(values) for values in zip(*pairs, strict=True))
    return float(np.corrcoef(weight, ends)[0, 1])


def _anchor(parts: _Parts, half: set[int]) -> int:
    if parts.anchor in parts.branch:
        return ANCHORS.index(AT_BRANCH)
    return ANCHORS.index(AT_BUSIEST if parts.anchor == _busiest(parts) else AT_CORE)


def _heaviest(parts: _Parts, half: set[int]) -> int:
    pairs = [(weight, one, other) for one in sorted(parts.links) for other, weight in parts.links[one].items()]
    _, one, other = max(pairs)
    if {one, other} & set(parts.tail):
        return PLACES.index(IN_TAIL)
    return PLACES.index(IN_BRANCH if {one, other} & parts.branch else IN_CORE)


MEASURES: dict[str, Callable[[_Parts, set[int]], float]] = {
    TRIANGLES: _triangles,
    HUB: lambda parts, half: len(parts.links[_busiest(parts)]) if parts.core else 0,
    CROSSING: lambda parts, half: len(_crossing(parts, half)),
    TAIL: lambda parts, half: len(parts.tail),
    CROSS_WEIGHT: _cross_weight,
    BUSY_WEIGHT: _busy_weight,
    SHAPE: lambda parts, half: SHAPES.index(parts.shape),
    ANCHOR: _anchor,
    HEAVIEST: _heaviest,
}
