"""Lists of links as files: weights, shuffled node numbers, and what spoils a list.

Not covered: growing networks (graph_growth), reading the lists again (graph_measures).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...table import csv_bytes, fixed
from .graph_growth import Network
from .graph_plan import BUSY_WEIGHT, CROSS_WEIGHT, HEAVIEST, PLACES, GraphPlan

# The two ends and the weight, as the file gives them; "" where there is none.
Line = tuple[str, str, str]
Raw = list[tuple[int, int, float]]
LABELS = ("n{}", "{:03d}", "{}.0", "N-{}")


def link_lists(
    plan: GraphPlan, networks: Sequence[Network], mutations: Mapping[str, float], rng: Any
) -> list[list[Line]]:
    """The lines of each file, spoiled by `mutations`; weights are "" where links have none."""
    lists = []
    for row, network in enumerate(networks):
        weights = _weights(plan, row, network, rng)
        raw = [(*pair, float(weight)) for pair, weight in zip(network.links, weights, strict=True)]
        for name, change in STRUCTURE.items():
            if name in mutations:
                raw = change(raw, mutations[name], rng)
        lines = _lines(raw, plan.weighted or "heavy_weights" in mutations, rng)
        for name, write in WRITING.items():
            if name in mutations:
                lines = write(lines, mutations[name], rng)
        lists.append(lines)
    return lists


def list_bytes(lines: Sequence[Line], weighted: bool) -> bytes:
    """The file: source,target, and the weight where links have one."""
    header = ["source", "target", "weight"][: 3 if weighted else 2]
    return csv_bytes(header, [list(column) for column in zip(*lines, strict=True)][: len(header)])


def _weights(plan: GraphPlan, row: int, network: Network, rng: Any) -> Any:
    """Ranked by the links at a link's ends as far as wanted, then stretched between the halves; one is the heaviest."""
    import numpy as np

    links = np.array(network.links)
    degree = np.bincount(links.ravel())
    busy = degree[links].sum(axis=1)
    rank = np.argsort(np.argsort(busy + rng.uniform(0, 0.5, size=len(links)), kind="stable"), kind="stable")
    bond = plan.wanted[BUSY_WEIGHT][row]
    luck = rng.permutation(len(links))
    mixed = np.round(bond * rank + np.sqrt(1 - bond**2) * luck, 6)
    place = np.argsort(np.argsort(mixed, kind="stable"), kind="stable") / (len(links) - 1)
    weights = plan.typical * (0.6 + 0.8 * place)
    crossing = np.array(network.crossing)
    # There may be one link only between the halves: these differ less, so that one tells what all weigh.
    stretched = plan.typical * (0.9 + 0.2 * place) * plan.wanted[CROSS_WEIGHT][row]
    weights = np.where(crossing, stretched, weights)
    part = PLACES[plan.wanted[HEAVIEST][row]]
    own = [
        at for at, (name, across) in enumerate(zip(network.parts, crossing, strict=True)) if name == part and not across
    ]
    weights[own[rng.randint(len(own))]] = 1.2 * weights.max()
    return np.round(weights, 6)


def _lines(raw: Raw, weighted: bool, rng: Any) -> list[Line]:
    """The links in a drawn order, either end first, with drawn numbers for the nodes."""
    nodes = sorted({node for one, other, _ in raw for node in (one, other)})
    label = {node: str(1 + at) for node, at in zip(nodes, rng.permutation(len(nodes)), strict=True)}
    lines = []
    for at in rng.permutation(len(raw)):
        one, other, weight = raw[at]
        ends = (label[one], label[other]) if rng.randint(2) else (label[other], label[one])
        lines.append((*ends, fixed(weight, 2) if weighted else ""))
    return lines


def _dropped(raw: Raw, strength: float, rng: Any) -> Raw:
    gone = rng.uniform(size=len(raw)) < 0.01 + 0.04 * strength
    return [link for link, out in zip(raw, gone, strict=True) if not out]


def _spurious(raw: Raw, strength: float, rng: Any) -> Raw:
    nodes = 1 + max(max(link[:2]) for link in raw)
    found = list(raw)
    for _ in range(int(rng.randint(1, 2 + round(2 * strength)))):
        one, other = (int(at) for at in rng.permutation(nodes)[:2])
        found.append((one, other, raw[rng.randint(len(raw))][2]))
    return found


def _stray(raw: Raw, strength: float, rng: Any) -> Raw:
    """A second network of four to seven nodes in some of the files: a drawn tree and one link more."""
    if rng.uniform() > 0.3 + 0.5 * strength:
        return raw
    first, size = 1 + max(max(link[:2]) for link in raw), int(rng.randint(4, 8))
    pairs = [(int(rng.randint(at)), at) for at in range(1, size)] + [(0, size - 1)]
    extra = [(first + one, first + other, raw[rng.randint(len(raw))][2]) for one, other in dict.fromkeys(pairs)]
    return [*raw, *extra]


def _heavy(lines: list[Line], strength: float, rng: Any) -> list[Line]:
    wrong = rng.uniform(size=len(lines)) < 0.02 + 0.06 * strength
    return [
        (one, other, fixed(float(weight) * int(rng.randint(10, 40)), 2) if bad else weight)
        for (one, other, weight), bad in zip(lines, wrong, strict=True)
    ]


def _repeated(lines: list[Line], strength: float, rng: Any) -> list[Line]:
    share = 0.05 + 0.3 * strength
    copies = [line for line in lines if rng.uniform() < share]
    turned = [(other, one, weight) if rng.randint(2) else (one, other, weight) for one, other, weight in copies]
    return _mixed([*lines, *turned], rng)


def _looped(lines: list[Line], strength: float, rng: Any) -> list[Line]:
    picked = [lines[rng.randint(len(lines))] for _ in range(int(rng.randint(1, 3 + round(5 * strength))))]
    return _mixed([*lines, *((one, one, weight) for one, _, weight in picked)], rng)


def _isolated(lines: list[Line], strength: float, rng: Any) -> list[Line]:
    """Lines that name one node only, with numbers that no other line has."""
    last = max(int(end) for line in lines for end in line[:2])
    count = int(rng.randint(0, 2 + round(5 * strength)))
    return _mixed([*lines, *((str(last + 1 + at), "", "") for at in range(count))], rng)


def _relabelled(lines: list[Line], strength: float, rng: Any) -> list[Line]:
    def write(end: str) -> str:
        if not end or rng.uniform() > 0.15 + 0.35 * strength:
            return end
        return LABELS[rng.randint(len(LABELS))].format(int(end))

    if rng.uniform() > 0.3 + 0.6 * strength:
        return lines
    return [(write(one), write(other), weight) for one, other, weight in lines]


def _mixed(lines: list[Line], rng: Any) -> list[Line]:
    return [lines[at] for at in rng.permutation(len(lines))]


STRUCTURE: dict[str, Callable[[Raw, float, Any], Raw]] = {
    "dropped_edges": _dropped,
    "spurious_edges": _spurious,
    "stray_parts": _stray,
}
WRITING: dict[str, Callable[[list[Line], float, Any], list[Line]]] = {
    "heavy_weights": _heavy,
    "duplicate_edges": _repeated,
    "self_loops": _looped,
    "isolated_nodes": _isolated,
    "relabelled_nodes": _relabelled,
}
