"""Numbers that say what a rollout is worth: the top share's threshold, the running mean (MLE-RL, section 4.1).

Pure arithmetic, each checked by hand in the tests.
"""

import math
from collections.abc import Iterable, Sequence

DIGITS = 10  # 0.51 - 0.5 is to be 0.01
SLACK = 1e-12


def top_threshold(rewards: Iterable[float], share: float) -> float:
    """The least reward in the best `share` of the rewards (tau_abs), 0 < share <= 1; ValueError on none.

    The best ceil(share n) of n count, one at least. Those equal to the last of them lie in the share too: to take some
    and not others would be a matter of arrival alone. So more than `share` can be kept.
    """
    ordered = sorted(rewards, reverse=True)
    if not ordered:
        raise ValueError("the best of nothing")
    return ordered[max(1, math.ceil(share * len(ordered) - SLACK)) - 1]


def normalised(reward: float, window: Sequence[float], sigmas: float = 2.0) -> float:
    """r - mean(H'), H' the rewards of the window H not less than mean(H) - sigmas sd(H); ValueError on an empty window.

    sd has the denominator n: the window is all there is, not a sample, and it is defined for a window of one. At 2
    sigmas one low reward among up to 5 is never pruned; among 6 or more it can be.
    """
    if not window:
        raise ValueError("the mean of nothing")
    mean = math.fsum(window) / len(window)
    sd = math.sqrt(math.fsum((each - mean) ** 2 for each in window) / len(window))
    near = [each for each in window if each >= mean - sigmas * sd - SLACK]
    return difference(reward, math.fsum(near) / len(near))


def difference(one: float, other: float) -> float:
    """one - other, without the last digits that come from binary fractions."""
    return round(one - other, DIGITS) + 0.0
