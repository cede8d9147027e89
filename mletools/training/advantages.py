"""Advantages: rewards minus baselines, scaled. Pure arithmetic; no tensors."""

import math
from collections.abc import Mapping, Sequence

from ..base.errors import RecordError

EPS = 1e-4
BASELINES = ("group", "leave-one-out", "batch", "none")
SCALES = ("group", "batch", "mean", "none")
# What fits a baseline that needs no group, the usual one first. A lone rollout, a group of equal rewards and, without a
# baseline, a step of equal rewards have no spread: there advantages would be divided by EPS alone.
SCALES_OF = {"batch": ("batch", "none"), "none": ("none",)}


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


def has_reward_spread(rewards: Sequence[float]) -> bool:
    """True if a group has two or more rewards that are not all equal."""
    return len(rewards) > 1 and max(rewards) != min(rewards)


def advantages(
    groups: Mapping[str, Sequence[float]],
    baseline: str = "group",
    scale: str = "group",
    known: Mapping[str, Sequence[float]] | None = None,
    eps: float = EPS,
) -> dict[str, list[float] | None]:
    """The advantages of a step's rollouts, group by group: (reward - baseline) / (spread + eps).

    groups: the rewards of the step's rollouts. known: all rewards of these groups that have come so far, where the step
    holds only some of them (default: the step's own); a group's baseline and spread are over these.

    baseline: `group` the group's mean (GRPO; DeepSeekMath, section 4.1.2; MLE-Ideator, App. A.2), `leave-one-out` the
    mean of its others (RLOO; Ahmadian et al. 2024, eq. 5), `batch` the mean of the whole step, `none` 0 (MLE-RL, eq. 1,
    where a filter has taken a running mean off). scale: divide by the standard deviation (`sample_std`) of the group, of
    the batch (where that has none, because the step holds equal rewards of groups that differ, of all known rewards), by
    the mean reward of the group (MaxRL, arXiv 2602.02710: a rare success weighs more), or by nothing (Dr. GRPO, section 3.2).

    RecordError: a negative reward, where advantages are divided by means.

    None for a group without reward spread: its own baseline, and fewer than two rewards known, or all of them equal. A
    lone rollout must not keep its raw reward as its advantage.
    """
    known = known or groups
    batch = [reward for rewards in groups.values() for reward in rewards]
    differ = batch if has_reward_spread(batch) else [reward for name in groups for reward in known[name]]
    spread_of_step = sample_std(differ)
    group_advantages: dict[str, list[float] | None] = {}
    for name, rewards in groups.items():
        peers = known[name]
        within = baseline in ("group", "leave-one-out")
        if (within and not has_reward_spread(peers)) or not rewards:
            group_advantages[name] = None
            continue
        if scale == "mean" and min(peers) < 0:
            raise RecordError(
                f"--scale-rewards mean is for rewards of 0 or more, and one of the group {name} is {min(peers):g}"
            )
        spread = {"group": sample_std(peers), "batch": spread_of_step, "mean": mean(peers), "none": None}[scale]
        divisor = 1.0 if scale == "none" else (spread or 0.0) + eps
        group_advantages[name] = [(reward - _baseline(reward, peers, batch, baseline)) / divisor for reward in rewards]
    return group_advantages


def _baseline(reward: float, peers: Sequence[float], batch: Sequence[float], which: str) -> float:
    if which == "group":
        return mean(peers)
    if which == "leave-one-out":
        return (math.fsum(peers) - reward) / (len(peers) - 1)
    return mean(batch) if which == "batch" else 0.0
