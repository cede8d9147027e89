"""The validation score of what a run handed in beside its test score, by how many scores its agent was shown.

Who sees many scores on few rows can fit these rows: the gap then grows with the number of scores. Covered: agents in
turns and searches whose feedback came from validation rows. Not covered: --reveal-test, where both scores are one;
scores that a program works out by itself; a score that a trace was told of the solution it began with.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from ..records.report import ValidationGap
from ..records.rollout import Rollout
from .statistics import mean, sem

BOUNDS = (0, 1, 2, 4, 8, 16)  # the smallest number of scores in each class


class Gap(NamedTuple):
    """scores: how many the agent was shown. gap: validation less test score, positive where validation is the better one,
    as a share of the way from the task's median to gold; None: there is no such way. better: validation is.
    """

    scores: int
    gap: float | None
    better: bool


def gap_of(rollout: Rollout) -> Gap | None:
    """The Gap of a graded rollout; None: it has not both scores, or was shown the test's."""
    grade, validation = rollout["grade"], rollout.get("validation")
    score, validated = grade["score"], validation["score"] if validation else None
    if not grade["valid"] or score is None or validated is None or rollout.get("reveal_test"):
        return None
    shown = sum("shown_score" in turn for turn in rollout["turns"])
    sign, difference = -1 if grade["lower_is_better"] else 1, validated - score
    thresholds = grade.get("thresholds")
    way = sign * (thresholds["gold"] - thresholds["median"]) if thresholds else 0.0
    gap = sign * difference / way if way > 0 else math.nan
    return Gap(shown, gap if math.isfinite(gap) else None, sign * difference > 0)


def by_scores(gaps: Iterable[Gap]) -> list[ValidationGap]:
    """A row for each class of BOUNDS with runs; gap_mean and gap_sem are over those with a gap."""
    classes: dict[int, list[Gap]] = {}
    for each in gaps:
        classes.setdefault(max(bound for bound in BOUNDS if bound <= each.scores), []).append(each)
    rows: list[ValidationGap] = []
    for bound, of in sorted(classes.items()):
        known = [each.gap for each in of if each.gap is not None]
        rows.append(
            {
                "scores": _words(bound),
                "rollouts": len(of),
                "gap_mean": mean(known),
                "gap_sem": sem(known),
                "validation_better": sum(each.better for each in of) / len(of),
            }
        )
    return rows


def _words(bound: int) -> str:
    following = next((other for other in BOUNDS if other > bound), None)
    if following is None:
        return f"{bound} and more"
    return str(bound) if following == bound + 1 else f"{bound} to {following - 1}"
