"""The numbers that research goes by: the interaction kernel between hypotheses, their weights, and draws by weight.

R&D-Agent (appendix D.3, equations 1 and 2, and its released code). Pure functions. Not covered: which nodes and
hypotheses they are applied to (memory, reasoning).
"""

import math
import random
from collections.abc import Mapping, Sequence

from .interfaces import AXES

GAMMA = math.log(2) / 30  # the released code's: similarity counts half on a path of 30 nodes
BOUND = 2.0


def potential(
    similarity: float, length: int, delta: float, alpha: float = 1.0, beta: float = 1.0, gamma: float = GAMMA
) -> float:
    """U = alpha * S * exp(-gamma * L) + beta * tanh(Delta), clipped to [-2, 2] (equation 1).

    similarity: S, a cosine in [-1, 1]. length: L, the nodes on the path that is gone on with. delta: how much better
    the earlier node's score is than the best of the current branch, in the metric's own unit, negative where it is
    worse: score_j - best, or best - score_j where lower is better. The paper's equation 2 takes the best of the current
    branch less the best of all, which is never positive and the same for all earlier nodes; the released code compares
    each node with the current branch, and so does this. Where the branch has no score there is no delta: beta = 0.
    """
    return max(-BOUND, min(BOUND, alpha * similarity * math.exp(-gamma * length) + beta * math.tanh(delta)))


def probabilities(potentials: Sequence[float]) -> list[float]:
    """exp(U_j) / sum_k exp(U_k) (equation 1)."""
    if not potentials:
        return []
    top = max(potentials)
    powers = [math.exp(each - top) for each in potentials]
    return [power / sum(powers) for power in powers]


def draw(weights: Sequence[float], number: int, dice: random.Random) -> list[int]:
    """Up to `number` distinct places, one after the other, each in proportion to its weight among those that are left.

    What weighs 0 is never drawn; where all do, all weigh the same.
    """
    left = [place for place, weight in enumerate(weights) if weight > 0]
    weigh = list(weights) if left else [1.0] * len(weights)
    left = left or list(range(len(weights)))
    chosen: list[int] = []
    while left and len(chosen) < number:
        chosen.append(dice.choices(left, [weigh[place] for place in left])[0])
        left.remove(chosen[-1])
    return chosen


def weighted(scores: Mapping[str, float]) -> float:
    """A hypothesis's scores on AXES as one: from 1 to 10, since the weights add up to 1."""
    return sum(weight * scores[axis] for axis, weight in AXES.items())


def scen_prob_multiplier(sota: int, fail: int) -> int:
    """How often, of 3, a challenge seen in the scenario counts; one seen in feedback counts the rest. From 3 down to 0.

    max(0, 3 - ((3 * sota + 2 * fail) // 2) // 4), as in the released code (DSProposalV2ExpGen.identify_problem): the
    longer a branch is worked on, the more its own results say. sota: experiments of the branch that were better than
    all before them in it; fail: its others, those that ran but were no better among them.
    """
    return max(0, 3 - ((3 * sota + 2 * fail) // 2) // 4)
