"""One chain of programs: the paths of MLE-STAR, and of R&D-Agent's ablation without parallel exploration.

Not covered: MLE-STAR's choice of the block of code to change (reasoning and coding decide what is changed).
"""

import random
from dataclasses import dataclass

from ..graph import Graph
from ..interfaces import Expansion, Plan
from ..paths.greedy import repairable


@dataclass(frozen=True)
class Chain:
    """MLE-STAR (Nam et al., 2025) as R&D-Agent's table 1 has it: a draft, then always a step from the newest node.

    debug_depth: repairs in a row of a newest node that failed, where the plan allows repairs. After them, or without
    them, the newest node that works is improved again; where none works there is another draft. One node a round. The
    newest node is gone on from even where an earlier one is better.
    """

    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        if graph.nodes and repairable(graph, graph.nodes[-1], plan, self.debug_depth):
            return [Expansion("debug", (graph.nodes[-1].number,))]
        for node in reversed(graph.nodes):
            if node.score is not None:
                return [Expansion("improve", (node.number,))]
        return [Expansion("draft")]
