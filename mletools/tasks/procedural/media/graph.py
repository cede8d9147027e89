"""Small undirected networks as lists of links: how dense they are in triangles, how they fall into two halves, where
they end, which links are heavy.

A network has a core of two halves, a tail (a chain that ends nowhere) and a side branch of a drawn shape; all of a task
have nearly the same number of nodes and links. Links of the core are moved until counts fit (`grow`). `measure` knows
how such networks are made, never the values. Not covered: a target a node or a link.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components, shortest_path

from ...dataset import Asset
from ...table import csv_bytes, fixed
from ..arrays import Array, Rng
from ..scenario import Scenario
from ..signs import plural
from ..world import Category, DrawDense, Factor, Rendered
from .common import Menu, apply_steps, codes, draw_numbers, measured_places, number_values, pick, row_count, shuffled

MUTATIONS = {
    "dropped_edges": "some links are missing",
    "spurious_edges": "some links are there that should not be",
    "duplicate_edges": "some links are listed several times, in either direction",
    "self_loops": "some nodes are linked to themselves",
    "relabelled_nodes": "some lists write a node's number in several ways",
    "isolated_nodes": "some lists have lines for nodes without a link",
    "stray_parts": "some lists hold links of another network, which is not joined to the sample's own",
    "heavy_weights": "some weights are many times too large; where links had no weight they get one that means nothing",
}
DENSE: dict[str, DrawDense] = {}
TRIANGLES, HUB, CROSSING, TAIL = "graph_triangles", "graph_most_links", "graph_crossing_links", "graph_tail_length"
CROSS_WEIGHT, BUSY_WEIGHT = "graph_crossing_weight", "graph_busy_weight"
SHAPE, ANCHOR, HEAVIEST = "graph_side_branch", "graph_tail_start", "graph_heaviest_link"
SHAPES = RING, STAR, TREE, LOOP = "ring", "star", "tree", "loop"
ANCHORS = AT_BUSIEST, AT_BRANCH, AT_CORE = "busiest node", "side branch", "elsewhere"
PLACES = IN_TAIL, IN_BRANCH, IN_CORE = "tail", "side branch", "core"
NUMBERS: Menu = {
    TRIANGLES: ("triangles", 2, 16, 0),
    HUB: ("links of the busiest node", 6, 10, 0),
    CROSSING: ("links between the two halves", 1, 9, 0),
    TAIL: ("nodes", 2, 6, 0),
    CROSS_WEIGHT: ("times the weight inside the halves", 0.4, 2.5, 2),
    BUSY_WEIGHT: ("rank correlation of a link's weight with the links at its ends", -0.9, 0.9, 2),
}
CATEGORIES = {SHAPE: SHAPES, ANCHOR: ANCHORS, HEAVIEST: PLACES}
WEIGHTS = (CROSS_WEIGHT, BUSY_WEIGHT, HEAVIEST)
LINKS_A_NODE = 1.65
BRANCH = 5
# Links inside a side branch, by nodes counted from its root, and the node at which a tail may start.
BRANCH_LINKS = {
    RING: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
    STAR: [(0, 1), (0, 2), (0, 3), (0, 4)],
    TREE: [(0, 1), (0, 2), (1, 3), (1, 4)],
    LOOP: [(0, 1), (1, 2), (2, 3), (3, 4)],
}
TAIL_NODE = {RING: 2, STAR: 0, TREE: 0, LOOP: 2}
MOVES = 500
# A triangle too many or too few weighs as much against a link of the busiest node too many or too few.
TRIANGLE_COST, HUB_COST = 1, 4
# Two ends and a weight: of a grown network, and as a file gives them ("" where there is none).
Link = tuple[int, int, float]
Line = tuple[str, str, str]
Pair = tuple[int, int]


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Four numbers and one or two categories; where links have weights one or two numbers of these, too."""
    weighted = bool(rng.randint(2))
    names, categories = [TRIANGLES, HUB, CROSSING, TAIL], [SHAPE, ANCHOR]
    if weighted:
        own = [BUSY_WEIGHT] if rng.randint(2) else [CROSS_WEIGHT, BUSY_WEIGHT]
        names, categories = [*shuffled(names, rng)[:3], *own], [*categories, HEAVIEST]
    numbers = draw_numbers(NUMBERS, names, (), rows, rng)
    chosen = shuffled(categories, rng)[: 1 + int(rng.randint(2))]
    return [
        *numbers,
        *(Category(name, CATEGORIES[name], rng.randint(len(CATEGORIES[name]), size=rows)) for name in chosen),
    ]


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
    """One file graphs/ID.csv a sample, spoiled by `mutations` (name: strength between 0 and 1)."""
    wanted = number_values(NUMBERS, factors, (), rng)
    wanted |= {name: codes(factors, name, levels, rng) for name, levels in CATEGORIES.items()}
    nodes = int(rng.randint(26, 30)) + rng.randint(-1, 2, size=row_count(factors))
    weighted = any(factor.name in WEIGHTS for factor in factors)
    typical = float(pick((4, 12, 30), rng))
    lists = []
    for network in grow(nodes, wanted, rng):
        links = apply_steps(STRUCTURE, _weigh(network, typical, rng), mutations, rng)
        lists.append(apply_steps(WRITING, _lines(links, weighted or "heavy_weights" in mutations, rng), mutations, rng))
    weighted = any(line[2] for lines in lists for line in lines)
    header = ["source", "target", "weight"][: 3 if weighted else 2]
    contents = [
        csv_bytes(header, [list(column) for column in zip(*lines, strict=True)][: len(header)]) for lines in lists
    ]
    counts = [len(lines) for lines in lists]
    graph = scenario["graph"]
    node, edge, weight = graph["node"], graph["edge"], graph["weight"]
    notes = [
        f"Each line of a file in `graphs/` is one {edge}: `source` and `target` are the numbers of the {plural(node)} at its "
        f"ends. A file has {min(counts)} to {max(counts)} lines. The {plural(edge)} have no direction, and numbers in different "
        "files have nothing to do with each other."
    ]
    notes += [f"`weight` is the {weight['meaning']} in {weight['unit']}."] if weighted else []
    found = {name: np.array(each, dtype=float if name in NUMBERS else int) for name, each in measure(lists).items()}
    return Rendered(
        assets=[Asset("graph", "the links of the network", "graphs", "csv", contents)],
        plain=plain_features(lists),
        measured=measured_places(factors, found),
        notes=notes,
    )


@dataclass(frozen=True)
class Network:
    """Links between nodes 0..nodes-1 as pairs, of each the part that it lies in and whether it joins the halves, and what
    was wanted of the network."""

    nodes: int
    links: list[Pair]
    parts: list[str]
    crossing: list[bool]
    wanted: Mapping[str, float]


@dataclass(frozen=True)
class _Start:
    """A network before its core is settled: set links, links that may move, and each core node's links from outside."""

    core: int
    half: int
    branch: list[Pair]
    tail: list[Pair]
    free: list[Pair]
    outside: list[int]

    @property
    def cycles(self) -> list[Pair]:
        """A ring through each half, which keeps it in one piece."""
        rest = self.core - self.half
        first = [(at, (at + 1) % self.half) for at in range(self.half)]
        return first + [(self.half + at, self.half + (at + 1) % rest) for at in range(rest)]


def grow(nodes: Array, wanted: Mapping[str, Array], rng: Rng) -> list[Network]:
    """One network for each of `nodes` (rows,), near what is wanted: values of NUMBERS and codes of CATEGORIES, (rows,).

    Node 0 is the busiest of the core; the core comes first, then branch and tail.
    """
    by_row = [{name: values[row] for name, values in wanted.items()} for row in range(len(nodes))]
    starts = [_start(int(count), own, rng) for count, own in zip(nodes, by_row, strict=True)]
    networks = []
    for own, count, start, free in zip(by_row, nodes, starts, _settle(starts, wanted, rng), strict=True):
        inner = [*start.cycles, *free]
        parts = [IN_CORE] * len(inner) + [IN_BRANCH] * len(start.branch) + [IN_TAIL] * len(start.tail)
        crossing = [(one < start.half) != (other < start.half) for one, other in inner]
        crossing += [False] * (len(parts) - len(inner))
        networks.append(Network(int(count), [*inner, *start.branch, *start.tail], parts, crossing, own))
    return networks


def _start(nodes: int, wanted: Mapping[str, float], rng: Rng) -> _Start:
    length, shape = round(wanted[TAIL]), SHAPES[int(wanted[SHAPE])]
    core = nodes - BRANCH - length
    half = core // 2
    # Branch and tail are joined to nodes of one half, never the busiest.
    ends = rng.permutation(range(1, half) if rng.randint(2) else range(half, core))[:3].tolist()
    branch = [(core + one, core + other) for one, other in BRANCH_LINKS[shape]] + [(ends[0], core)]
    if shape == LOOP:
        branch.append((ends[1], core + BRANCH - 1))
    anchor, first = (0, core + TAIL_NODE[shape], ends[2])[int(wanted[ANCHOR])], core + BRANCH
    tail = [(anchor, first), *((first + at, first + at + 1) for at in range(length - 1))]
    outside = [0] * core
    for one, _ in (*branch[len(BRANCH_LINKS[shape]) :], tail[0]):
        if one < core:
            outside[one] += 1
    start = _Start(core, half, branch, tail, [], outside)
    taken = {tuple(sorted(pair)) for pair in start.cycles}
    pairs = shuffled([pair for pair in itertools.combinations(range(core), 2) if pair not in taken], rng)
    crossing = [pair for pair in pairs if pair[0] < half <= pair[1]][: round(wanted[CROSSING])]
    inside = [pair for pair in pairs if (pair[0] < half) == (pair[1] < half)]
    start.free.extend([*crossing, *inside][: round(LINKS_A_NODE * nodes) - len(branch) - len(tail) - core])
    return start


def _settle(starts: Sequence[_Start], wanted: Mapping[str, Array], rng: Rng) -> list[list[Pair]]:
    """The free links of each core after MOVES moves, which are made in all networks at once.

    A move keeps the half of each end, and is kept where it brings triangles and the busiest node's links no further from
    what is wanted.
    """
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
    goal, hub = (np.rint(wanted[name]).astype(int) for name in (TRIANGLES, HUB))

    def cost(triangles: Array, degree: Array) -> Any:
        above = np.maximum(degree[:, 1:] - hub[:, None], 0).sum(axis=1)
        return TRIANGLE_COST * (triangles - goal) ** 2 + HUB_COST * ((degree[:, 0] - hub) ** 2 + above)

    now = cost(triangles, degree)
    for chance, *luck in rng.randint(0, 1 << 30, size=(MOVES, 3, len(rows))):
        at = chance % count
        old = free[rows, at].T
        drawn = zip(old, luck, strict=True)
        new = [np.where(end < half, each % half, half + each % (core - half)) for end, each in drawn]
        joined[rows, old[0], old[1]] = joined[rows, old[1], old[0]] = 0
        lost, won = (np.sum(joined[rows, ends[0]] * joined[rows, ends[1]], axis=1) for ends in (old, new))
        moved = degree.copy()
        for end, change in ((old[0], -1), (old[1], -1), (new[0], 1), (new[1], 1)):
            moved[rows, end] += change
        after = cost(triangles - lost + won, moved)
        kept = (new[0] != new[1]) & (joined[rows, new[0], new[1]] == 0) & (after <= now)
        triangles, now = triangles + np.where(kept, won - lost, 0), np.where(kept, after, now)
        degree = np.where(kept[:, None], moved, degree)
        settled = [np.where(kept, fresh, stale) for fresh, stale in zip(new, old, strict=True)]
        joined[rows, settled[0], settled[1]] = joined[rows, settled[1], settled[0]] = 1
        free[rows, at] = np.array(settled).T
    return [[(one, other) for one, other in free[row, : count[row]].tolist()] for row in rows]


def _weigh(network: Network, typical: float, rng: Rng) -> list[Link]:
    """Weights are ranked by the links at a link's ends as far as wanted, then stretched between the halves; the heaviest
    link lies in the part that is wanted."""
    from scipy.stats import rankdata

    links, wanted = np.array(network.links), network.wanted
    busy = rankdata(np.bincount(links.ravel())[links].sum(axis=1) + rng.uniform(0, 0.5, size=len(links)))
    mixed = wanted[BUSY_WEIGHT] * busy + np.sqrt(1 - wanted[BUSY_WEIGHT] ** 2) * rng.permutation(len(links))
    place = (rankdata(np.round(mixed, 6), method="ordinal") - 1) / (len(links) - 1)
    # There may be one link only between the halves: these differ less, so that one tells what all weigh.
    stretched = (0.9 + 0.2 * place) * wanted[CROSS_WEIGHT]
    weights = typical * np.where(network.crossing, stretched, 0.6 + 0.8 * place)
    part = PLACES[int(wanted[HEAVIEST])]
    own = [at for at, name in enumerate(network.parts) if name == part and not network.crossing[at]]
    weights[pick(own, rng)] = 1.2 * weights.max()
    return [(*pair, round(float(weight), 6)) for pair, weight in zip(network.links, weights, strict=True)]


def _lines(links: Sequence[Link], weighted: bool, rng: Rng) -> list[Line]:
    """The links in a drawn order, either end first, with drawn numbers for the nodes."""
    nodes = sorted({node for link in links for node in link[:2]})
    label = {node: str(1 + at) for node, at in zip(nodes, rng.permutation(len(nodes)), strict=True)}
    lines = []
    for one, other, weight in shuffled(links, rng):
        ends = (label[one], label[other]) if rng.randint(2) else (label[other], label[one])
        lines.append((*ends, fixed(weight, 2) if weighted else ""))
    return lines


def _dropped(links: list[Link], strength: float, rng: Rng) -> list[Link]:
    return [link for link in links if rng.uniform() > 0.01 + 0.04 * strength]


def _spurious(links: list[Link], strength: float, rng: Rng) -> list[Link]:
    nodes = 1 + max(max(link[:2]) for link in links)
    wrong = [rng.permutation(nodes)[:2].tolist() for _ in range(int(rng.randint(1, 2 + round(2 * strength))))]
    return [*links, *((one, other, pick(links, rng)[2]) for one, other in wrong)]


def _stray(links: list[Link], strength: float, rng: Rng) -> list[Link]:
    """A second network of four to seven nodes in some of the files: a drawn tree and one link more."""
    if rng.uniform() > 0.3 + 0.5 * strength:
        return links
    first, size = 1 + max(max(link[:2]) for link in links), int(rng.randint(4, 8))
    pairs = {(int(rng.randint(at)), at): None for at in range(1, size)} | {(0, size - 1): None}
    return [*links, *((first + one, first + other, pick(links, rng)[2]) for one, other in pairs)]


def _heavy(lines: list[Line], strength: float, rng: Rng) -> list[Line]:
    wrong = rng.uniform(size=len(lines)) < 0.02 + 0.06 * strength
    return [
        (one, other, fixed(float(weight) * int(rng.randint(10, 40)), 2) if bad else weight)
        for (one, other, weight), bad in zip(lines, wrong, strict=True)
    ]


def _repeated(lines: list[Line], strength: float, rng: Rng) -> list[Line]:
    copies = [line for line in lines if rng.uniform() < 0.05 + 0.3 * strength]
    swapped = [(other, one, weight) if rng.randint(2) else (one, other, weight) for one, other, weight in copies]
    return shuffled([*lines, *swapped], rng)


def _looped(lines: list[Line], strength: float, rng: Rng) -> list[Line]:
    picked = [pick(lines, rng) for _ in range(int(rng.randint(1, 3 + round(5 * strength))))]
    return shuffled([*lines, *((one, one, weight) for one, _, weight in picked)], rng)


def _isolated(lines: list[Line], strength: float, rng: Rng) -> list[Line]:
    """Lines that name one node only, with numbers that no other line has."""
    last, count = max(int(end) for line in lines for end in line[:2]), int(rng.randint(0, 2 + round(5 * strength)))
    return shuffled([*lines, *((str(last + 1 + at), "", "") for at in range(count))], rng)


def _relabelled(lines: list[Line], strength: float, rng: Rng) -> list[Line]:
    if rng.uniform() > 0.3 + 0.6 * strength:
        return lines

    def write(end: str) -> str:
        changed = end and rng.uniform() < 0.15 + 0.35 * strength
        return pick(("n{}", "{:03d}", "{}.0", "N-{}"), rng).format(int(end)) if changed else end

    return [(write(one), write(other), weight) for one, other, weight in lines]


STRUCTURE: dict[str, Callable[[list[Link], float, Rng], list[Link]]] = {
    "dropped_edges": _dropped,
    "spurious_edges": _spurious,
    "stray_parts": _stray,
}
WRITING: dict[str, Callable[[list[Line], float, Rng], list[Line]]] = {
    "heavy_weights": _heavy,
    "duplicate_edges": _repeated,
    "self_loops": _looped,
    "isolated_nodes": _isolated,
    "relabelled_nodes": _relabelled,
}


# What lists of links tell: counts that anyone makes (`plain_features`), and the properties a network was grown for.
#
# `measure` knows the names of the factors and how such networks are made, never their values. A network is a matrix of
# weights, (nodes, nodes), 0 where there is no link.

# A weight so many times the middle one is a slip.
FAR_TOO_HEAVY = 6.0
# So many nodes with two links in a row do not come about by chance.
CHAIN = 4


def plain_features(lists: Sequence[Sequence[Line]]) -> Array:
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


def _read(lines: Sequence[Line]) -> Array:
    """The network without links of a node to itself; a node's number is the number in its name."""
    number = {end: int(float(re.sub(r"^\D+", "", end))) for line in lines for end in line[:2] if end}
    size = 1 + max(number.values())
    links = np.zeros((size, size))
    for one, other, weight in lines:
        if one and other and number[one] != number[other] and not links[number[one], number[other]]:
            links[number[one], number[other]] = links[number[other], number[one]] = float(weight or 1)
    middle = np.median(links[links > 0])
    return np.where(links < FAR_TOO_HEAVY * middle, links, middle)


def _largest(links: Array) -> Array:
    """The part of the network with most nodes that hang together."""
    label = connected_components(links, directed=False)[1]
    keep = np.flatnonzero(label == np.bincount(label).argmax())
    return links[np.ix_(keep, keep)]


@dataclass(frozen=True)
class _Parts:
    """A network taken apart: its weights and links, (nodes, nodes); masks (nodes,) of the tail, the branch, the core and
    the core's first half; the node at which the tail starts (-1: none), and the branch's shape."""

    weights: Array
    joined: Array
    tail: Array
    branch: Array
    core: Array
    half: Array
    anchor: int
    shape: str


def _take_apart(weights: Array) -> _Parts:
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


def _walk(joined: Array, degree: Array, node: int) -> tuple[list[int], int]:
    """The nodes from an end up to where the network branches, and the node there (-1: none)."""
    walked = [node]
    while True:
        onward = [int(each) for each in np.flatnonzero(joined[walked[-1]]) if each not in walked[-2:]]
        if len(onward) != 1 or degree[onward[0]] != 2:
            return walked, onward[0] if len(onward) == 1 else -1
        walked.append(onward[0])


def split_halves(joined: Array, nodes: Array) -> Array:
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


def _rank_correlation(one: Array, other: Array) -> float:
    """Spearman's, 0 where either is constant."""
    from scipy.stats import rankdata

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
