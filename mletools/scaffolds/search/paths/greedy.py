"""Greedy trees: AIDE's, which goes on from the best node, and KompeteAI's, which also merges branches.

Covered: what all paths share, which is the order of nodes by their score and whether a failed node may be repaired.
Not covered: how a program is repaired or how two are merged (coding).
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from ..graph import Graph, Node
from ..interfaces import Expansion, Plan

NO_PROGRAM = ("unanswered", "no_code")  # problems that leave nothing to repair


def ranked(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Those with a score, best first, of equals the one that was made first."""
    return sorted(graph.good(nodes), key=lambda node: (-graph.gain(node.score or 0.0, 0.0), node.number))


def repairable(graph: Graph, node: Node, plan: Plan, debug_depth: int) -> bool:
    """Whether the operation debug may take the node up: it has a program but no score and no children, the plan allows
    repairs, and fewer than `debug_depth` repairs in a row led to it.
    """
    broken = node.score is None and node.problem not in NO_PROGRAM
    return plan.repairs and broken and node.repairs < debug_depth and not graph.children(node.number)


def repair(graph: Graph, plan: Plan, dice: random.Random, probability: float, debug_depth: int) -> Expansion | None:
    """With `probability` the debug of a repairable node, each of them as likely; None: no repair in this round."""
    failed = [node for node in graph.nodes if repairable(graph, node, plan, debug_depth)]
    if failed and dice.random() < probability:
        return Expansion("debug", (dice.choice(failed).number,))
    return None


def branch_bests(graph: Graph) -> list[Node]:
    """The best node of each branch that has one with a score, best first."""
    bests = (graph.best(nodes) for nodes in graph.branches().values())
    return ranked(graph, (best for best in bests if best is not None))


@dataclass(frozen=True)
class Greedy:
    """AIDE (Jiang et al., 2025): drafts, then repairs by chance, else an improvement of the best node.

    drafts: made first, one a round, whether they work or not. debug_probability: of repairing a failed leaf, drawn from
    all of them, in a round where there is one. debug_depth: repairs in a row, after which a leaf is left alone. Where no
    node works and none is repaired there is another draft. One node a round.
    """

    drafts: int = 5
    debug_probability: float = 0.5
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        if self._drafting(graph):
            return [Expansion("draft")]
        repaired = repair(graph, plan, dice, self.debug_probability, self.debug_depth)
        if repaired is not None:
            return [repaired]
        best = graph.best()
        return [Expansion("draft") if best is None else Expansion("improve", (best.number,))]

    def _drafting(self, graph: Graph) -> bool:
        return sum(node.operation == "draft" for node in graph.nodes) < self.drafts


@dataclass(frozen=True)
class GreedyMerge(Greedy):
    """KompeteAI (Kulibaba et al., 2025) as R&D-Agent's table 1 has it, a tree with merging: Greedy, and merges between.

    merge_every: nodes that are made after the last of the first `drafts` drafts, or after the last merge, before the next
    merge. It is of the best nodes of the two branches whose best scores are the best, the better one first, and waits
    until two branches work. A merge is a node of its first parent's branch, and is repaired as any other.
    """

    merge_every: int = 5

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        if not self._drafting(graph) and self._since(graph) >= self.merge_every:
            bests = branch_bests(graph)
            if len(bests) > 1:
                return [Expansion("merge", (bests[0].number, bests[1].number))]
        return super().select(graph, plan, dice)

    def _since(self, graph: Graph) -> int:
        """Nodes after the last merge, or after the drafts where there was none."""
        drafts, since = 0, 0
        for node in graph.nodes:
            drafting = drafts < self.drafts
            drafts += node.operation == "draft"
            since = 0 if drafting or node.operation == "merge" else since + 1
        return since
