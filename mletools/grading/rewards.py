"""Rewards: one pure function each, from the grader's verdict to a number, or None where the rule has none.

All take plain values, so that tests can check them by hand. `mle-grade --reward` selects one.
"""

from dataclasses import dataclass

from .leaderboard import better

FAILURE = -10.0
MARKER_CREDIT = 0.1
MARKER_COUNT = 7


@dataclass(frozen=True)
class MilestoneWeights:
    """Increments of the milestone reward: tiers are cumulative (SandMLE; the values of its released code)."""

    format: float = 0.1
    valid: float = 0.2
    median: float = 0.1
    bronze: float = 0.4
    silver: float = 0.1
    gold: float = 0.1


# The ablation with no reward between a well-formed answer and a gold medal (SandMLE, table 4).
SPARSE = MilestoneWeights(format=0.1, valid=0.0, median=0.0, bronze=0.0, silver=0.0, gold=0.9)


def raw(score: float | None, lower_is_better: bool) -> float | None:
    """The score with its sign flipped when lower is better; None without a valid score."""
    if score is None:
        return None
    return -score if lower_is_better else score


def scaled(score: float | None, median: float, gold: float) -> float | None:
    """(score - median) / (gold - median): 0 at the task's median threshold, 1 at its gold one, higher is better.

    The same for every metric and direction, and not bounded; None without a valid score. ValueError: the thresholds are
    equal. Ours: RL for MLE agents rewards the plain score.
    """
    if median == gold:
        raise ValueError(f"the thresholds of median and gold are equal ({gold:g})")
    return None if score is None else (score - median) / (gold - median)


def partial_credit(
    score: float | None,
    lower_is_better: bool,
    markers: int,
    failure: float = FAILURE,
    credit: float = MARKER_CREDIT,
) -> float:
    """Partial credit (RL for MLE agents, section 3.2).

    Without a valid score: failure + credit for each of the 7 markers reached. With one: the raw reward, but no less
    than the best failure; otherwise an unbounded metric could make failing pay.
    """
    if not 0 <= markers <= MARKER_COUNT:
        raise ValueError(f"markers must be 0 to {MARKER_COUNT}, not {markers}")
    value = raw(score, lower_is_better)
    if value is None:
        return failure + credit * markers
    return max(value, failure + credit * MARKER_COUNT)


def milestone(
    format_rate: float,
    valid: bool,
    above_median: bool,
    medal: str | None,
    weights: MilestoneWeights = MilestoneWeights(),
) -> float:
    """0.1 format rate + .2 valid + .1 median + .4 bronze + .1 silver + .1 gold, cumulative (SandMLE, section 4.3).

    format_rate: share of the policy's turns in the required format, 0 to 1. A medal implies the median.
    """
    tier = {None: 0, "bronze": 1, "silver": 2, "gold": 3}[medal]
    total = weights.format * format_rate
    total += weights.valid if valid else 0.0
    total += weights.median if above_median or tier else 0.0
    total += weights.bronze if tier >= 1 else 0.0
    total += weights.silver if tier >= 2 else 0.0
    total += weights.gold if tier >= 3 else 0.0
    return round(total, 10)


def improvement(
    score: float | None, previous: float | None, lower_is_better: bool, well_formed: bool, asked: bool = True
) -> float | None:
    """+1 for a strictly better score, 0 for another or none, -1 for a bad format (MLE-Ideator, equation 1).

    previous: the previous score, None where there was no valid one; then any valid score is better. asked: False where
    the ideator or the implementer could not be asked, for the question exceeds its context: that is no idea's fault, and
    the result is None.
    """
    if not asked:
        return None
    if not well_formed:
        return -1.0
    if score is None:
        return 0.0
    if previous is None:
        return 1.0
    return 1.0 if better(score, previous, lower_is_better) else 0.0
