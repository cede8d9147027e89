"""What the networks of one task are made of: the factors, the sizes, the parts whose nodes are set from the start.

A network has a core of two halves, a tail (a chain of nodes that ends nowhere) and a side branch of a drawn shape.
Not covered: links inside the core (graph_growth).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..world import Category, Number

TRIANGLES, HUB, CROSSING, TAIL = "graph_triangles", "graph_most_links", "graph_crossing_links", "graph_tail_length"
CROSS_WEIGHT, BUSY_WEIGHT = "graph_crossing_weight", "graph_busy_weight"
SHAPE, ANCHOR, HEAVIEST = "graph_side_branch", "graph_tail_start", "graph_heaviest_link"
RING, STAR, TREE, LOOP = "ring", "star", "tree", "loop"
SHAPES = (RING, STAR, TREE, LOOP)
AT_BUSIEST, AT_BRANCH, AT_CORE = "busiest node", "side branch", "elsewhere"
ANCHORS = (AT_BUSIEST, AT_BRANCH, AT_CORE)
IN_TAIL, IN_BRANCH, IN_CORE = "tail", "side branch", "core"
PLACES = (IN_TAIL, IN_BRANCH, IN_CORE)
# Lowest and highest value of a number, its unit and decimals.
RANGES = {
    TRIANGLES: (2, 16, "triangles", 0),
    HUB: (6, 10, "links of the busiest node", 0),
    CROSSING: (1, 9, "links between the two halves", 0),
    TAIL: (2, 6, "nodes", 0),
    CROSS_WEIGHT: (0.4, 2.5, "times the weight inside the halves", 2),
    BUSY_WEIGHT: (-0.9, 0.9, "rank correlation of a link's weight with the links at its ends", 2),
}
BRANCH = 5
UNITS = ("points", "tenths of a unit", "%")


@dataclass(frozen=True)
class GraphPlan:
    """One task's choices: factors by name, and by row what each network is to have, drawn where no factor says it.

    `nodes`, `links` and every array in `wanted` have the shape (rows,): numbers in their own unit, codes of levels.
    """

    factors: dict[str, Number | Category]
    weighted: bool
    unit: str
    typical: float
    nodes: Any
    links: Any
    wanted: dict[str, Any]


def draw_factors(rows: int, rng: Any) -> list[Number | Category]:
    """Four numbers and one or two categories; six numbers at most and one more category where links have weights."""
    weighted = bool(rng.randint(2))
    numbers = [TRIANGLES, HUB, CROSSING, TAIL]
    categories = [(SHAPE, SHAPES), (ANCHOR, ANCHORS)]
    if weighted:
        own = [CROSS_WEIGHT, BUSY_WEIGHT][: 1 + int(rng.randint(2))] if rng.randint(2) else [BUSY_WEIGHT]
        numbers = [*_shuffled(numbers, rng)[:3], *own]
        categories.append((HEAVIEST, PLACES))
    found: list[Number | Category] = [
        Number(name, unit, low, high, decimals, _place(rows, rng))
        for name, (low, high, unit, decimals) in ((name, RANGES[name]) for name in numbers)
    ]
    for name, levels in _shuffled(categories, rng)[: 1 + int(rng.randint(2))]:
        found.append(Category(name, levels, rng.randint(len(levels), size=rows)))
    return found


def _place(rows: int, rng: Any) -> Any:
    import numpy as np

    place = rng.uniform(size=rows) if rng.randint(2) else np.clip(rng.normal(0.5, 0.25, size=rows), 0, 1)
    return np.round(place, 6)


def make_plan(factors: Sequence[Number | Category], rng: Any) -> GraphPlan:
    """Sizes of all networks, and what each is to have."""
    import numpy as np

    by_name = {factor.name: factor for factor in factors}
    rows = len(factors[0].place if isinstance(factors[0], Number) else factors[0].code)
    wanted = {}
    for name, (low, high, _, _) in RANGES.items():
        factor = by_name.get(name)
        place = factor.place if isinstance(factor, Number) else np.round(rng.uniform(0.2, 0.8, size=rows), 6)
        wanted[name] = np.round(low + place * (high - low), 6)
    for name, levels in ((SHAPE, SHAPES), (ANCHOR, ANCHORS), (HEAVIEST, PLACES)):
        factor = by_name.get(name)
        wanted[name] = factor.code if isinstance(factor, Category) else rng.randint(len(levels), size=rows)
    nodes = int(rng.randint(26, 30)) + rng.randint(-1, 2, size=rows)
    return GraphPlan(
        factors=by_name,
        weighted=any(name in by_name for name in (CROSS_WEIGHT, BUSY_WEIGHT, HEAVIEST)),
        unit=UNITS[rng.randint(len(UNITS))],
        typical=float((4, 12, 30)[rng.randint(3)]),
        nodes=nodes,
        links=np.round(1.65 * nodes).astype(int),
        wanted=wanted,
    )


def _shuffled(items: Sequence[Any], rng: Any) -> list[Any]:
    return [items[at] for at in rng.permutation(len(items))]
