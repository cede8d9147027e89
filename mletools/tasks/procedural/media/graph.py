"""Small undirected networks as lists of links: how dense they are in triangles, how they fall into two halves, where
they end.

All networks of a task have nearly the same number of nodes and links. Parts: the factors and the parts of a network
(graph_plan), how one is grown towards its numbers (graph_growth), the files and what spoils them (graph_files), what
can be counted and measured in these (graph_counts, graph_measures). Not covered: the rule and the target; a target a
node or a link.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..world import Asset, Category, Number, Rendered
from .graph_counts import quick_numbers
from .graph_files import link_lists, list_bytes
from .graph_growth import grow
from .graph_measures import measure
from .graph_plan import draw_factors, make_plan

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
DENSE: dict[str, Any] = {}


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five to seven properties of a network, two of them of its weights where links have weights."""
    return draw_factors(rows, rng)


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """One file graphs/ID.csv a sample, spoiled by `mutations` (name: strength between 0 and 1)."""
    plan = make_plan(factors, rng)
    lists = link_lists(plan, grow(plan, rng), mutations, rng)
    node, edge = scenario["graph"]["node"], scenario["graph"]["edge"]
    notes = [f"Each line of such a file is one {edge}: its two numbers are those of its ends; each {node} has its own."]
    weighted = any(line[2] for lines in lists for line in lines)
    if weighted:
        notes.append(f"The column weight is the weight of the {edge} in {plan.unit}.")
    notes.append("A link has no direction, and numbers in different files have nothing to do with each other.")
    return Rendered(
        assets=[
            Asset("graph", "the links of the network", "graphs", "csv", [list_bytes(each, weighted) for each in lists])
        ],
        plain=quick_numbers(lists),
        measured=measure(plan, lists),
        notes=notes,
    )
