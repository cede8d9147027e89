"""Weights that undo a preference for quick rollouts (RL for MLE agents, section 3.1, eq. 3 and appendix A.2).

Where rollouts are trained on as they finish, and what is slow is not waited for, a solution that takes Dt is seen with a
probability of about p / Dt; a weight of Dt / mean(Dt) makes the gradient that of p again. Where every rollout is waited
for there is nothing to undo, and the same weight is the bias.
"""

from collections.abc import Sequence

from .advantages import mean

MODES = ("off", "mean", "auto")
PARTS = (
    "rollout",
    "execution",
)  # what the weight of a rollout goes by: asking and running, or running its programs alone


def duration_weights(seconds: Sequence[float]) -> list[float]:
    """Each duration over the mean of all (eq. 3); 1 for all where nothing took any time."""
    average = mean(seconds) if seconds else 0.0
    return [value / average for value in seconds] if average > 0 else [1.0] * len(seconds)


def arrival_weights(seconds: Sequence[float], lost: float) -> list[float]:
    """Weights, of mean 1, of rollouts that came out of a group, or a step, of which `lost` never will or come too late.

    A rollout that takes Dt is taken to come with the chance min(1, c / Dt), the paper's law made a probability, and to stand
    for as many as it has such chances against it. c is what makes the rollouts that came stand for all that were begun; where
    none is lost all weights are 1, and the more are lost the more they are those of eq. 3.
    """
    if lost <= 0 or not any(value > 0 for value in seconds):
        return [1.0] * len(seconds)
    begun = len(seconds) + lost
    total = 0.0
    bound = 0.0
    for slower, value in enumerate(sorted(seconds, reverse=True), 1):
        if value <= bound:
            break
        total += value  # of the `slower` slowest, which are the ones that might not have come
        bound = total / (lost + slower)
    return [max(1.0, value / bound) * len(seconds) / begun for value in seconds]
