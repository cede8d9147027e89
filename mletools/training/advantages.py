"""How much better a rollout did than the others of its group. Pure arithmetic on rewards; no tensors."""

import math
from collections.abc import Sequence

EPS = 1e-4


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; ValueError on none."""
    if not values:
        raise ValueError("the mean of nothing")
    return math.fsum(values) / len(values)


def sample_std(values: Sequence[float]) -> float | None:
    """Standard deviation with the n - 1 denominator (ddof = 1), as TRL and verl compute it; None below two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def group_advantages(rewards: Sequence[float], scale: bool = True, eps: float = EPS) -> list[float] | None:
    """Group-relative advantages, one per reward: (r - mean) / (std + eps), or r - mean with scale=False.

    GRPO (DeepSeekMath, Eq. in section 4.1.2; MLE-Ideator, App. A.2) with the std of `sample_std`; scale=False is the
    form of Dr. GRPO. None for a group that teaches nothing: fewer than two rewards, or all of them equal. A lone
    rollout must not keep its raw reward as its advantage.
    """
    spread = sample_std(rewards)
    if spread is None or max(rewards) == min(rewards):
        return None
    centre = mean(rewards)
    return [(reward - centre) / (spread + eps) if scale else reward - centre for reward in rewards]
