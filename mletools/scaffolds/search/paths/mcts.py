"""Monte Carlo tree search over programs: the reward of a node, the rule PUCT, and the descent from the root by it.

A step is one node: a program that is made and run is both the expansion and the rollout. Covered: visits and values,
counted anew from the graph each time. Not covered: branches as the arms (schedulers).
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from ..graph import Graph, Node
from ..interfaces import Expansion, Plan
from ..paths.greedy import ranked, repairable


def rewards(graph: Graph, nodes: Iterable[Node]) -> dict[int, float]:
    """{number: reward in (0, 1]} of those with a score: its rank among them, from 1 for the worst, by how many they are.

    Equal scores share the mean of their ranks. Ranks, since one broken score (a log loss of 30) would press all others
    together if the scores themselves were scaled; the worst that works is above 0, which is a failure's reward.
    """
    order = ranked(graph, nodes)[::-1]
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
    """Q + c P sqrt(N) / (1 + n), Q an option's mean reward, P its prior, n its visits, N those of where it is chosen.

    AlphaZero's rule (Silver et al., 2018), with the c of R&D-Agent's MCTS scheduler.
    """
    return value + c * prior * math.sqrt(around) / (1 + visits)


@dataclass(frozen=True)
class Mcts:
    """ML-Master (Liu et al., 2025) and AIRA-MCTS (Toledo et al., 2025), with PUCT in place of their UCT.

    From the root, where N is the number of all nodes, the search goes down to the option with the largest
        U = Q + c P sqrt(N) / (1 + n),
    of equals the first. A node's options are its children that lead to something, and a new child, which ends the
    descent. n: nodes of the option's subtree, itself included, 0 for a new child; Q: their mean reward (see rewards; a
    failure is 0), 0 for a new child; N: nodes of the subtree of where it is chosen; P: 1 / number of options.

    c: weight of exploration. drafts: children of the root; a further one is made only where all lead to nothing.
    children: at most, of a node that works; each is an improvement. debug_depth: repairs in a row; a failed node has one
    child, its repair, and without it leads to nothing. The tree is that of first parents. One node a round; no dice.
    """

    c: float = 1.0
    drafts: int = 3
    children: int = 3
    debug_depth: int = 3

    def select(self, graph: Graph, plan: Plan, dice: random.Random) -> list[Expansion]:
        below: list[list[int]] = [[] for _ in graph.nodes]
        roots: list[int] = []
        for node in graph.nodes:
            (below[node.parents[0]] if node.parents else roots).append(node.number)
        reward = rewards(graph, graph.nodes)
        visits, values = [1] * len(graph), [reward.get(number, 0.0) for number in range(len(graph))]
        fertile = [self._fertile(graph, node, plan, len(below[node.number])) for node in graph.nodes]
        leads = list(fertile)
        for node in reversed(graph.nodes):  # children come after their parents
            if node.parents:
                parent = node.parents[0]
                visits[parent] += visits[node.number]
                values[parent] += values[node.number]
                leads[parent] = leads[parent] or leads[node.number]

        at, around, options = None, len(graph), [number for number in roots if leads[number]]
        room = len(roots) < self.drafts or not options
        while True:
            prior = 1 / (len(options) + room)
            reached, best = None, puct(0.0, prior, around, 0, self.c) if room else -math.inf
            for number in reversed(options):  # of equals the first, and a child before a new one
                merit = puct(values[number] / visits[number], prior, around, visits[number], self.c)
                if merit >= best:
                    reached, best = number, merit
            if reached is None:
                return [_below(graph, at)]
            at, around, room = reached, visits[reached], fertile[reached]
            options = [number for number in below[reached] if leads[number]]

    def _fertile(self, graph: Graph, node: Node, plan: Plan, children: int) -> bool:
        """Whether the node may have a new child."""
        if node.score is None:
            return repairable(graph, node, plan, self.debug_depth)
        return children < self.children


def _below(graph: Graph, at: int | None) -> Expansion:
    if at is None:
        return Expansion("draft")
    return Expansion("debug" if graph[at].score is None else "improve", (at,))
