"""The six schedulers of R&D-Agent's release: which branches continue in a round, computed from the graph.

And what all paths share: rewards, the rule PUCT, draws.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...base.errors import ToolError
from .graph import Graph, Node

PENALTY = 0.1  # of a branch with all nodes, in units of the reward
Branches = Mapping[int, Sequence[Node]]


def pick(graph: Graph, branches: Sequence[int], count: int, rng: random.Random, name: str) -> list[int]:
    """Up to `count` of `branches` (their drafts' numbers), in the order of the scheduler `name`."""
    scheduler = known(name)
    every = graph.branches()
    return scheduler(graph, {number: every[number] for number in sorted(branches)}, rng)[: max(0, count)]


def known(name: str) -> Callable[[Graph, Branches, random.Random], list[int]]:
    """The scheduler of that name, which orders branches. ToolError: there is none."""
    if name not in SCHEDULERS:
        raise ToolError(f"scheduler {name}: known are {', '.join(SCHEDULERS)}")
    return SCHEDULERS[name]


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


def drawn(weights: Mapping[int, float], count: int, rng: random.Random) -> list[int]:
    """Up to `count` different keys, drawn one by one in proportion to the weights (> 0) of the rest."""
    left = dict(weights)
    keys: list[int] = []
    while left and len(keys) < count:
        keys.append(rng.choices(list(left), list(left.values()))[0])
        del left[keys[-1]]
    return keys


def chances(graph: Graph, branches: Branches) -> dict[int, float]:
    """The probabilities of the scheduler `probabilistic`: softmax over branches b, at temperature 1, of

        u_b = r_b - PENALTY * n_b / N

    r_b: the reward (see rewards) of the branch's best node among the branches' best, 0 without a score; n_b: number of
    nodes of the branch; N: of all these branches. The release has the softmax and keys the potential u open.
    """
    reward = rewards(graph, [best for best in map(graph.best, branches.values()) if best is not None])
    total = sum(map(len, branches.values()))
    powers = {}
    for number, nodes in branches.items():
        best = graph.best(nodes)
        powers[number] = math.exp((0.0 if best is None else reward[best.number]) - PENALTY * len(nodes) / total)
    whole = sum(powers.values())
    return {number: power / whole for number, power in powers.items()}


def _round_robin(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    """In turn: first the branch whose newest node is the oldest."""
    return sorted(branches, key=lambda number: branches[number][-1].number)


def _probabilistic(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    return drawn(chances(graph, branches), len(branches), rng)


def _length(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    """Drawn with weights 1 / (1 + nodes of the branch); the release can prefer long or short traces."""
    return drawn({number: 1 / (1 + len(nodes)) for number, nodes in branches.items()}, len(branches), rng)


def _best(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    """The best score first, branches without one last. The release counts a trace's improvements instead."""
    bests = [best for best in map(graph.best, branches.values()) if best is not None]
    return list(dict.fromkeys([*(node.branch for node in graph.ranked(bests)), *branches]))


def _random(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    return rng.sample(list(branches), len(branches))


def _mcts(graph: Graph, branches: Branches, rng: random.Random) -> list[int]:
    """The largest U = Q + c P sqrt(N) / (1 + n) first, of equal ones the older branch.

    c = 1; P = 1 / number of branches; n: nodes of the branch; N: of all branches; Q: mean reward of the branch's nodes
    (rewards in the whole graph; a failure has 0). The release's reward is 1 for an improvement, else 0.
    """
    reward, around = rewards(graph, graph.nodes), sum(map(len, branches.values()))
    merits = {}
    for number, nodes in branches.items():
        value = sum(reward.get(node.number, 0.0) for node in nodes) / len(nodes)
        merits[number] = puct(value, 1 / len(branches), around, len(nodes))
    return sorted(branches, key=lambda number: (-merits[number], number))


SCHEDULERS: dict[str, Callable[[Graph, Branches, random.Random], list[int]]] = {
    "round-robin": _round_robin,
    "probabilistic": _probabilistic,
    "length": _length,
    "best": _best,
    "random": _random,
    "mcts": _mcts,
}
