"""Medal thresholds from the scores of baselines, in the order that P3 eq. 1 asks for.

Not covered: training the baselines.
"""

from collections.abc import Sequence
from itertools import pairwise

from .table import Rejected

NAMES = ("median", "bronze", "silver", "gold")
# Where between the worst and the best of the distinct scores each threshold lies, by rank.
RANKS = {"median": 0.4, "bronze": 0.6, "silver": 0.8, "gold": 1.0}


def pick_thresholds(dummy: float, scores: Sequence[float], lower_is_better: bool) -> dict[str, float]:
    """Four of the distinct `scores` that beat `dummy`, so that dummy < median < bronze < silver < gold.

    The order runs in the metric's direction, and gold is the best of the scores (a medal is inclusive), so each
    threshold was reached by a program that really ran. SandMLE eq. 1. Rejected where fewer than four are left.
    """
    sign = -1 if lower_is_better else 1
    ladder = sorted({score for score in scores if sign * score > sign * dummy}, key=lambda score: sign * score)
    if len(ladder) < len(NAMES):
        raise Rejected(f"only {len(ladder)} distinct scores beat the dummy, {len(NAMES)} are needed")
    top = len(ladder)
    picked: dict[str, float] = {}
    for name in reversed(NAMES):
        top = min(round(RANKS[name] * (len(ladder) - 1)), top - 1)
        picked[name] = ladder[top]
    return {name: picked[name] for name in NAMES}


def ordered(dummy: float, thresholds: dict[str, float], lower_is_better: bool) -> bool:
    """Whether dummy < median < bronze < silver < gold in the metric's direction. SandMLE eq. 1."""
    sign = -1 if lower_is_better else 1
    steps = [sign * dummy, *(sign * thresholds[name] for name in NAMES)]
    return all(worse < better for worse, better in pairwise(steps))
