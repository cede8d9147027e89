"""What lists of links tell: counts that anyone makes (`plain_features`), and the properties a network was grown for.

`measure` knows the names of the factors and how such networks are made, never their values. A network is a matrix of
weights, (nodes, nodes), 0 where there is no link. Not covered: growing and writing networks (graph).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path

from .graph import (
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
    RING,
    SHAPE,
    SHAPES,
    STAR,
    TAIL,
    TREE,
    TRIANGLES,
    Line,
)

# A weight so many times the middle one is a slip.
FAR_TOO_HEAVY = 6.0
# So many nodes with two links in a row do not come about by chance.
CHAIN = 4


def plain_features(lists: Sequence[Sequence[Line]]) -> Any:
    """Floats of shape (rows, 21), from names as they stand and without links of a node to itself."""
    return np.round(np.array([_counts(lines) for lines in lists], dtype=float), 6)


def _counts(lines: Sequence[Line]) -> list[float]:
    names = sorted({end for line in lines for end in line[:2]})
    index = {name: at for at, name in enumerate(names)}
    one, other = (np.array([index[line[at]] for line in lines]) for at in (0, 1))
    weights = np.array([float(line[2] or 0) for line in lines])
    joined, heavy = np.zeros((2, len(names), len(names)))
    joined[one, other] = joined[other, one] = 1
    heavy[one, other] = heavy[other, one] = weights
    np.fill_diagonal(joined, 0)
    np.fill_diagonal(heavy, 0)
    degree, strength = joined.sum(axis=1), heavy.sum(axis=1)
    rising, triangles = np.sort(degree), float(((joined @ joined) * joined).sum()) / 6
    away = shortest_path(joined, unweighted=True)
    away = away[np.isfinite(away) & (away > 0)]
    return [
        *(len(names), len(lines), degree.sum() / 2, degree.std(), rising[-1], rising[-2]),
        *(float(np.sum(degree == count)) for count in (1, 2, 3)),
        *(triangles, 3 * triangles / max(1.0, float(degree @ (degree - 1)) / 2), away.max(), away.mean()),
        # The second smallest eigenvalue of the Laplacian is small where a network nearly falls apart.
        np.linalg.eigvalsh(np.diag(degree) - joined)[1],
        *(weights.mean(), weights.std(), weights.min(), weights.max(), np.median(weights)),
        *(strength.max(), strength.std()),
    ]


def measure(lists: Sequence[Sequence[Line]]) -> dict[str, list[float]]:
    """Each factor's value in its unit, or code of its level, by the factor's name: one of each list of links."""
    rows = [_measured(_take_apart(_largest(_read(lines)))) for lines in lists]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _read(lines: Sequence[Line]) -> Any:
    """The network without links of a node to itself; a node's number is the number in its name."""
    number = {end: int(float(re.sub(r"^\D+", "", end))) for line in lines for end in line[:2] if end}
    size = 1 + max(number.values())
    links = np.zeros((size, size))
    for one, other, weight in lines:
        if one and other and number[one] != number[other] and not links[number[one], number[other]]:
            links[number[one], number[other]] = links[number[other], number[one]] = float(weight or 1)
    middle = np.median(links[links > 0])
    return np.where(links < FAR_TOO_HEAVY * middle, links, middle)


def _largest(links: Any) -> Any:
    """The part of the network with most nodes that hang together."""
    label = connected_components(links, directed=False)[1]
    keep = np.flatnonzero(label == np.bincount(label).argmax())
    return links[np.ix_(keep, keep)]


@dataclass(frozen=True)
class _Parts:
    """A network taken apart: its weights and links, (nodes, nodes); masks (nodes,) of the tail, the branch, the core and
    the core's first half; the node at which the tail starts (-1: none), and the branch's shape."""

    weights: Any
    joined: Any
    tail: Any
    branch: Any
    core: Any
    half: Any
    anchor: int
    shape: str


def _take_apart(weights: Any) -> _Parts:
    joined = (weights > 0).astype(int)
    size, degree = len(joined), joined.sum(axis=1)
    tails = [_walk(joined, degree, int(node)) for node in np.flatnonzero(degree == 1)]
    tail, anchor = max(tails, key=lambda each: len(each[0]), default=([], -1))
    rest = np.ones(size, dtype=bool)
    rest[tail] = False
    within = joined * rest * rest[:, None]
    leaves, core = rest & (within.sum(axis=1) == 1), rest.copy()
    # What vanishes when ends are cut off again and again is a branch.
    while (ends := core & ((within * core).sum(axis=1) <= 1)).any():
        core &= ~ends
    pendant, inner = rest & ~core, joined * core * core[:, None]
    # The most nodes in a row with two links each.
    pairs = np.flatnonzero(core & (inner.sum(axis=1) == 2))
    label = connected_components(inner[np.ix_(pairs, pairs)], directed=False)[1]
    chain = pairs[label == np.bincount(label).argmax()] if len(pairs) else pairs
    shape, branch = TREE, pendant
    if len(chain) >= CHAIN or not leaves.any():
        branch = np.zeros(size, dtype=bool)
        branch[chain] = True
        outside = np.flatnonzero((inner[chain].sum(axis=0) > 0) & ~branch)
        shape = RING if len(outside) == 1 else LOOP
        if shape == RING:
            branch[outside] = True
    elif within[leaves].sum(axis=0).max() >= 3:
        shape = STAR
    core = core & ~branch
    half = np.zeros(size, dtype=bool)
    half[split_halves(joined, np.flatnonzero(core))] = True
    return _Parts(weights, joined, np.isin(np.arange(size), tail), branch, core, half, anchor, shape)


def _walk(joined: Any, degree: Any, node: int) -> tuple[list[int], int]:
    """The nodes from an end up to where the network branches, and the node there (-1: none)."""
    walked = [node]
    while True:
        onward = [int(each) for each in np.flatnonzero(joined[walked[-1]]) if each not in walked[-2:]]
        if len(onward) != 1 or degree[onward[0]] != 2:
            return walked, onward[0] if len(onward) == 1 else -1
        walked.append(onward[0])


def split_halves(joined: Any, nodes: Any) -> Any:
    """Half of `nodes`, with few links to the other half: a cut by each of the Laplacian's first eigenvectors, after which
    pairs change sides while this helps (Kernighan and Lin, 1970)."""
    count = len(nodes)
    if count < 4:
        return nodes[: count // 2]
    own = joined[np.ix_(nodes, nodes)]
    axes = np.linalg.eigh(np.diag(own.sum(axis=1)) - own)[1]
    best, fewest = nodes, np.inf
    for axis in (1, 2, 3):
        side = -np.ones(count, dtype=int)
        # An eigenvector's sign is arbitrary.
        along = axes[:, axis] * np.sign(axes[np.abs(axes[:, axis]).argmax(), axis])
        side[np.argsort(np.round(along, 6), kind="stable")[: count // 2]] = 1
        while True:
            # What a node would gain by changing sides: its links across, less those on its own side.
            gain = -side * (own @ side)
            both = np.where((side > 0)[:, None] & (side < 0), gain[:, None] + gain - 2 * own, -1)
            if both.max() <= 0:
                break
            one, other = np.unravel_index(both.argmax(), both.shape)
            side[[one, other]] = -1, 1
        across = -(side @ own @ side)
        if across < fewest:
            best, fewest = nodes[side > 0], across
    return best


def _measured(parts: _Parts) -> dict[str, float]:
    weights, joined, core = parts.weights, parts.joined, parts.core
    degree = joined.sum(axis=1)
    busiest = int(np.where(core, degree, -1).argmax())
    one, other = np.nonzero(np.triu(joined))
    weight = weights[one, other]
    inside = core[one] & core[other]
    across = inside & (parts.half[one] != parts.half[other])
    cross_weight = 1.0
    if across.any() and (inside & ~across).any():
        cross_weight = weight[across].mean() / weight[inside & ~across].mean()
    heaviest = [one[weight.argmax()], other[weight.argmax()]]
    place = IN_TAIL if parts.tail[heaviest].any() else IN_BRANCH if parts.branch[heaviest].any() else IN_CORE
    anchor = AT_BRANCH if parts.anchor >= 0 and parts.branch[parts.anchor] else AT_CORE
    return {
        TRIANGLES: np.trace(joined @ joined @ joined) / 6,
        HUB: degree[busiest] if core.any() else 0,
        CROSSING: across.sum(),
        TAIL: parts.tail.sum(),
        CROSS_WEIGHT: cross_weight,
        BUSY_WEIGHT: _rank_correlation(weight[~across], (degree[one] + degree[other])[~across]),
        SHAPE: SHAPES.index(parts.shape),
        ANCHOR: ANCHORS.index(AT_BUSIEST if core.any() and parts.anchor == busiest else anchor),
        HEAVIEST: PLACES.index(place),
    }


def _rank_correlation(one: Any, other: Any) -> float:
    """Spearman's, 0 where either is constant."""
    from scipy.stats import rankdata

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
