"""Grading: read a submission safely, score it, compare it with thresholds, turn it into a reward.

Covered: declarative tabular tasks (records of kind task). A bad submission is a verdict with a reason; a broken answers
file or a failing metric is an error of the tool. Not covered yet: leaderboards, human rank, metrics given as code.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import metrics
from .submission import Invalid, read_answers, read_submission

SCORE_DECIMALS = 5


@dataclass(frozen=True)
class Verdict:
    """What the grader says of one submission. score: rounded to 5 decimals, None when invalid."""

    valid: bool
    reason: str | None = None
    score: float | None = None
    medal: str | None = None
    above_median: bool = False

    def as_record(self) -> dict[str, Any]:
        return asdict(self)


def better(score: float, threshold: float, lower_is_better: bool) -> bool:
    """Whether `score` is strictly better than `threshold`."""
    return score < threshold if lower_is_better else score > threshold


def medal(score: float, thresholds: Mapping[str, float], lower_is_better: bool) -> str | None:
    """The best medal whose threshold `score` reaches; reaching is enough (MLE-bench: medals are inclusive)."""
    for name in ("gold", "silver", "bronze"):
        if not better(thresholds[name], score, lower_is_better):
            return name
    return None


def grade(task: Mapping[str, Any], folder: Path, content: bytes) -> Verdict:
    """Grade the bytes of a submission against the answers of `task`, whose data lie in `folder`.

    ToolError or another exception means that the tool or the task is broken, never that the submission is bad.
    """
    answers = read_answers(str(folder / task["answers"]), task["submission"])
    try:
        submission = read_submission(content, task["submission"], answers)
    except Invalid as invalid:
        return Verdict(False, str(invalid))
    metric = task["metric"]
    try:
        score = metrics.score(metric["name"], metric["params"], answers, submission, task["submission"]["target"])
    except metrics.Undefined as undefined:
        return Verdict(False, f"{metric['name']} is undefined for these predictions: {undefined}")
    if not math.isfinite(score):
        return Verdict(False, f"{metric['name']} of these predictions is not a finite number")
    score = round(score, SCORE_DECIMALS)
    thresholds = task.get("thresholds")
    if thresholds is None:
        return Verdict(True, None, score)
    lower = metric["lower_is_better"]
    return Verdict(True, None, score, medal(score, thresholds, lower), better(score, thresholds["median"], lower))
