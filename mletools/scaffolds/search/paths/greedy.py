"""Greedy trees: AIDE's, and KompeteAI's, which also merges branches; and the rule for repairs."""

import random
from dataclasses import dataclass

from ..graph import Graph, Node
from ..interfaces import Expansion, Plan

NO_PROGRAM = ("unanswered", "no_code")  # problems without a program to repair


def repairable(graph: Graph, node: Node, plan: Plan, debug_depth: int) -> bool:
    """Whether the node may be repaired: it has a program, but no score and no children, the plan allows repairs, and
    fewer than `debug_depth` repairs in a row led to it.
    """
    broken = node.score is None and node.problem not in NO_PROGRAM
    return plan.repairs and broken and node.repairs < debug_depth and not graph.children(node.number)


def repair(graph: Graph, plan: Plan, rng: random.Random, probability: float, debug_depth: int) -> Expansion | None:
    """With `probability` the repair of a repairable node, drawn uniformly; None: no repair in this round."""
    failed = [node for node in graph.nodes if repairable(graph, node, plan, debug_depth)]
    if failed and rng.random() < probability:
        return Expansion("debug", (rng.choice(failed).number,))
    return None


@dataclass(frozen=True)
class Greedy:
    """AIDE (Jiang et al., 2025): drafts, then random repairs or an improvement of the best node. One node a round.

    drafts: number of first nodes, working or not. debug_probability: of repairing a failed leaf, if there is one.
    debug_depth: maximum number of repairs in a row. If no node has a score and none is repaired, there is another
    draft.
    """

    drafts: int = 5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if self._drafting(graph):
            return [Expansion("draft")]
        repaired = repair(graph, plan, rng, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        best = graph.best()
        return [Expansion("draft") if best is None else Expansion("improve", (best.number,))]

    def _drafting(self, graph: Graph) -> bool:
        return sum(node.operation == "draft" for node in graph.nodes) < self.drafts


@dataclass(frozen=True)
class GreedyMerge(Greedy):
    """KompeteAI (Kulibaba et al., 2025) as in R&D-Agent's table 1: Greedy with merges of the two best branches.

    merge_every: number of nodes between merges, or between the first `drafts` drafts and the first merge. A merge joins
    the best nodes of the two best branches, the better one first, and waits until two branches have a score. It belongs
    to the branch of its first parent, and is repaired like other nodes.
    """

    merge_every: int = 5

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        if not self._drafting(graph) and self._since(graph) >= self.merge_every:
            bests = graph.branch_bests()
            if len(bests) > 1:
                return [Expansion("merge", (bests[0].number, bests[1].number))]
        return super().select(graph, plan, rng)

    def _since(self, graph: Graph) -> int:
        """Number of nodes after the last merge, or after the first drafts."""
        drafts, since = 0, 0
        for node in graph.nodes:
            drafting = drafts < self.drafts
            drafts += node.operation == "draft"
            since = 0 if drafting or node.operation == "merge" else since + 1
        return since
