"""Which branches are gone on with in a round: the six schedulers of R&D-Agent's release, computed from the graph.

Covered: several different branches for one round. Not covered: which branches are live, and from which of its nodes a
branch goes on (adaptive).
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence

from ....records.errors import ToolError
from ..graph import Graph, Node
from ..paths.greedy import ranked
from ..paths.mcts import puct, rewards

PENALTY = 0.1  # of having all nodes, in units of the normalised best score
Branches = Mapping[int, Sequence[Node]]


def pick(graph: Graph, branches: Sequence[int], count: int, dice: random.Random, name: str) -> list[int]:
    """At most `count` different ones of `branches` (numbers of their drafts), by the scheduler `name`, first choice first.

    ToolError: no such scheduler.
    """
    scheduler = known(name)
    every = graph.branches()
    return scheduler(graph, {number: every[number] for number in sorted(branches)}, dice)[: max(0, count)]


def known(name: str) -> Callable[[Graph, Branches, random.Random], list[int]]:
    """The scheduler of that name: all branches in the order in which it would go on with them. ToolError: there is none."""
    if name not in SCHEDULERS:
        raise ToolError(f"scheduler {name}: known are {', '.join(SCHEDULERS)}")
    return SCHEDULERS[name]


def drawn(weights: Mapping[int, float], count: int, dice: random.Random) -> list[int]:
    """At most `count` different keys, drawn one after the other with a probability proportional to their weights (> 0)."""
    left = dict(weights)
    leaves: list[int] = []
    while left and len(leaves) < count:
        leaves.append(dice.choices(list(left), list(left.values()))[0])
        del left[leaves[-1]]
    return leaves


def chances(graph: Graph, branches: Branches) -> dict[int, float]:
    """The probabilities of the scheduler `probabilistic`: softmax over branches b, at temperature 1, of

        u_b = r_b - PENALTY * n_b / N

    r_b: the reward (mcts.rewards) of the branch's best node among the branches' best nodes, 0 where none works; n_b: nodes
    of the branch; N: of all these branches. The release has the softmax and leaves the potential u to be filled in.
    """
    reward = rewards(graph, [best for best in map(graph.best, branches.values()) if best is not None])
    total = sum(map(len, branches.values()))
    powers = {}
    for number, nodes in branches.items():
        best = graph.best(nodes)
        powers[number] = math.exp((0.0 if best is None else reward[best.number]) - PENALTY * len(nodes) / total)
    whole = sum(powers.values())
    return {number: power / whole for number, power in powers.items()}


def _round_robin(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    """In turn: the branch whose newest node is the oldest comes first."""
    return sorted(branches, key=lambda number: branches[number][-1].number)


def _probabilistic(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    return drawn(chances(graph, branches), len(branches), dice)


def _length(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    """Drawn with weights 1 / (1 + nodes of the branch). Always the shortest would be round-robin once all are as long.

    The release can favour long or short traces; where branches are to stay diverse it is the short ones.
    """
    return drawn({number: 1 / (1 + len(nodes)) for number, nodes in branches.items()}, len(branches), dice)


def _best(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    """The best score first, those without one last. The release counts a trace's improvements instead."""
    bests = [best for best in map(graph.best, branches.values()) if best is not None]
    return list(dict.fromkeys([*(node.branch for node in ranked(graph, bests)), *branches]))


def _random(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    return dice.sample(list(branches), len(branches))


def _mcts(graph: Graph, branches: Branches, dice: random.Random) -> list[int]:
    """The largest U = Q + c P sqrt(N) / (1 + n) first, of equals the older branch.

    c = 1; P = 1 / number of these branches; n: nodes of the branch; N: of all these; Q: mean reward of the branch's nodes
    (mcts.rewards among all nodes of the graph, a failure is 0). The release's reward is 1 for an improvement, else 0.
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
