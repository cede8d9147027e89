"""Monte Carlo tree search over programs: rewards of nodes, the rule PUCT, and the descent from the root.

A node is both the expansion and the rollout of a step. Visits and values are computed from the graph each time.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from ..graph import Graph, Node
from ..interfaces import Expansion, Plan
from .greedy import repairable


def rewards(graph: Graph, nodes: Iterable[Node]) -> dict[int, float]:
    """{number: reward in (0, 1]} of nodes with a score: rank, from 1 for the worst, divided by their number.

    Equal scores share their mean rank. Scaled scores would depend on outliers (a log loss of 30). A failure has reward
    0.
    """
    order = graph.ranked(nodes)[::-1]
    values: dict[int, float] = {}
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and order[end].score == order[start].score:
            end += 1
        mean = (start + 1 + end) / 2  # of the ranks start + 1 .. end
        values.update({node.number: mean / len(order) for node in order[start:end]})
        start = end
    return values


def puct(value: float, prior: float, around: int, visits: int, c: float = 1.0) -> float:
    """Q + c P sqrt(N) / (1 + n): mean reward Q, prior P and visits n of an option, visits N of its parent.

    AlphaZero's rule (Silver et al., 2018), with the c of R&D-Agent's MCTS scheduler.
    """
    return value + c * prior * math.sqrt(around) / (1 + visits)


@dataclass(frozen=True)
class Mcts:
    """ML-Master (Liu et al., 2025) and AIRA-MCTS (Toledo et al., 2025), with PUCT in place of their UCT.

    From the root, whose N is the number of all nodes, the search descends to the option with the largest
        U = Q + c P sqrt(N) / (1 + n),
    of equal ones the first. A node's options are its open children, and a new child, which ends the descent. A child is
    open if its subtree can get a new node. n: size of the option's subtree, 0 for a new child; Q: its mean reward (see
    rewards), 0 for a new child; N: size of the parent's subtree; P: 1 / number of options.

    c: weight of exploration. drafts: children of the root; more only if none is open. children: maximum number of
    improvements of a node with a score. debug_depth: maximum number of repairs in a row; a failed node has one child,
    its repair. The tree is that of first parents. One node a round; no randomness.
    """

    c: float = 1.0
    drafts: int = 3
    children: int = 3
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, rng: random.Random) -> list[Expansion]:
        below: list[list[int]] = [[] for _ in graph.nodes]
        roots: list[int] = []
        for node in graph.nodes:
            (below[node.parents[0]] if node.parents else roots).append(node.number)
        reward = rewards(graph, graph.nodes)
        visits, values = [1] * len(graph), [reward.get(number, 0.0) for number in range(len(graph))]
        expandable = [self._expandable(graph, node, plan, len(below[node.number])) for node in graph.nodes]
        is_open = list(expandable)
        for node in reversed(graph.nodes):  # children come after their parents
            if node.parents:
                parent = node.parents[0]
                visits[parent] += visits[node.number]
                values[parent] += values[node.number]
                is_open[parent] = is_open[parent] or is_open[node.number]

        at, around, options = None, len(graph), [number for number in roots if is_open[number]]
        may_expand = len(roots) < self.drafts or not options
        while True:
            prior = 1 / (len(options) + may_expand)
            reached, best = None, puct(0.0, prior, around, 0, self.c) if may_expand else -math.inf
            for number in reversed(options):  # of equal ones the first, and a child before a new one
                merit = puct(values[number] / visits[number], prior, around, visits[number], self.c)
                if merit >= best:
                    reached, best = number, merit
            if reached is None:
                return [_below(graph, at)]
            at, around, may_expand = reached, visits[reached], expandable[reached]
            options = [number for number in below[reached] if is_open[number]]

    def _expandable(self, graph: Graph, node: Node, plan: Plan, children: int) -> bool:
        """Whether the node may get a new child."""
        if node.score is None:
            return repairable(graph, node, plan, self.debug_depth)
        return children < self.children


def _below(graph: Graph, at: int | None) -> Expansion:
    if at is None:
        return Expansion("draft")
    return Expansion("debug" if graph[at].score is None else "improve", (at,))
