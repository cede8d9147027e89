"""One chain of programs: the paths of MLE-STAR, and of R&D-Agent's ablation without parallel exploration."""

import random
from dataclasses import dataclass

from ..graph import Graph
from ..interfaces import Expansion, Plan
from .greedy import repairable


@dataclass(frozen=True)
class Chain:
    """MLE-STAR (Nam et al., 2025) as in R&D-Agent's table 1: a draft, then always a step from the newest node.

    A failed newest node is repaired, if the plan allows it, up to `debug_depth` times in a row. Otherwise the newest
    node with a score is improved, even if an earlier one is better; without one there is another draft. One node a
    round. Not covered: MLE-STAR's choice of the code block to change.
    """

    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if graph.nodes and repairable(graph, graph.nodes[-1], plan, self.debug_depth):
            return [Expansion("debug", (graph.nodes[-1].number,))]
        for node in reversed(graph.nodes):
            if node.score is not None:
                return [Expansion("improve", (node.number,))]
        return [Expansion("draft")]
