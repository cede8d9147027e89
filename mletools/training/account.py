"""What a session of training did, in words for people: loss and reward at its ends, what was left out and why, the policy."""

from collections.abc import Mapping
from pathlib import Path

from ..records.training import StepResult

# By the reason that the counts of a run have (group_buffer, sft); `masked_` has what was masked behind it.
REASONS = {
    "lone": "without another rollout of the group",
    "no_spread": "in groups of equal rewards (--equal-groups)",
    "stale": "older than --max-staleness",
    "too_long": "longer than the model's context",
    "no_loss": "without tokens that carry loss",
    "filtered": "dropped by mle-filter",
    "no_reward": "without a reward",
    "extreme_reward": "with a reward too large to compute with",
    "trained": "trained on before",
    "repeated": "given before",
    "of_another_run": "of a policy that this run has not reached",
}


def account(first: StepResult, last: StepResult, steps: int, policy: Path | None) -> str:
    """One line about a session of so many steps. policy: the folder of the last checkpoint, None: there is none."""
    parts = [f"{steps} step{'s' if steps > 1 else ''}, to step {last['step']}"]
    for name, ends in (
        ("loss", (first["loss"], last["loss"])),
        ("reward", (first["reward_mean"], last["reward_mean"])),
    ):
        if ends[0] is not None and ends[1] is not None:
            parts.append(f"{name} {ends[0]:.4g}" if steps == 1 else f"{name} {ends[0]:.4g} first, {ends[1]:.4g} last")
    parts.append(f"the policy is in {policy}" if policy else "no checkpoint was due")
    return "; ".join(parts)


def left_out(dropped: Mapping[str, int]) -> str:
    """One line about the rollouts that were not trained on, by reason; "" where there are none."""
    parts = []
    for reason, count in dropped.items():
        masked = reason.removeprefix("masked_")
        text = f"masked as {masked.replace('_', ' ')} (--mask)" if masked != reason else REASONS.get(reason, reason)
        if count:
            parts.append(f"{count} {text}")
    return f"not trained on: {', '.join(parts)}" if parts else ""
