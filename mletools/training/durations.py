"""Weights that undo a preference for quick rollouts (RL for MLE agents, section 3.1, eq. 3 and appendix A.2).

Where rollouts are trained on as they finish, and what is slow is not waited for, a solution that takes Dt is seen with a
probability of about p / Dt; a weight of Dt / mean(Dt) makes the gradient that of p again. Where every rollout is waited
for there is nothing to undo, and the same weight is the bias.
"""

from collections.abc import Sequence

from .advantages import mean

MODES = ("off", "mean", "auto")


def duration_weights(seconds: Sequence[float], highest: float | None = None) -> list[float]:
    """Each duration over the mean of all, at most `highest`; 1 for all where nothing took any time."""
    average = mean(seconds) if seconds else 0.0
    if average <= 0:
        return [1.0] * len(seconds)
    weights = [value / average for value in seconds]
    return weights if highest is None else [min(weight, highest) for weight in weights]


def weighs(mode: str, lost: int) -> bool:
    """Whether a step is weighted by duration. lost: rollouts of its groups that were begun and will never come.

    `auto` weights where some were left behind for good. Rollouts that are late but still to come are no reason: each is
    trained on once, when it is there.
    """
    return mode == "mean" or (mode == "auto" and lost > 0)
