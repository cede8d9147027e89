"""Grading: read a submission safely, score it, compare it with thresholds or teams, compute a reward.

An invalid submission is a verdict with a reason. A broken answers file and a metric that does not suit the task or
fails are errors of the tool. Not covered: running metrics that are code; the caller of `grade` runs them in a sandbox.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..base.errors import RecordError, ToolError
from ..base.human_rank import RULES as HUMAN_RANKS
from ..base.human_rank import human_rank
from ..records.places import GradedWith
from ..records.rollout import Medal, Standing
from ..records.task import Grading, MetricSpec, Scoring, SubmissionFormat, Task, Thresholds
from . import code, metrics, rewards
from .answers import ALL_COLUMNS, Answers, answer_spec, parse_answers, read_answers
from .leaderboard import (
    Leaderboard,
    better,
    check_direction,
    check_thresholds,
    medal,
    medal_rows,
    read_leaderboard,
)
from .metrics.registry import Inputs
from .parsing import JOINED
from .submission import MAX_BYTES, read_submission
from .table import Invalid

SCORE_DECIMALS = 5
# {key of task.submission: the kinds of cells that it applies to}.
APPLIES_TO = {
    "range": ("number",),
    "row_sum": ("number",),
    "row_sum_within": ("number",),
    "labels": ("label", "tokens", "tagset", "ranked"),
    "items": ("tokens", "tagset", "ranked"),
    "fields": ("boxes",),
    "missing_as": ("label", "text", "tokens", "tagset", "ranked"),
}
# Runs a metric that is code: (task, its folder, the submission) -> score. Invalid where the metric rejects it or fails on
# it alone.
RunCode = Callable[[Task, Path, bytes], float]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one submission.

    score: rounded, None when invalid. thresholds: the task's, or the leaderboard's. position and teams refer to the
    private leaderboard, None without one; human_rank follows human_rank_rule, both None without a leaderboard
    that the rule takes. metric_error: how a metric that
    is code fails on this submission alone, which makes it invalid; not for agents, as it may quote answers.
    """

    valid: bool
    reason: str | None = None
    score: float | None = None
    medal: Medal | None = None
    above_median: bool = False
    thresholds: Thresholds | None = None
    position: int | None = None
    teams: int | None = None
    public_position: int | None = None
    public_teams: int | None = None
    human_rank: float | None = None
    human_rank_rule: str | None = None
    normalised_score: float | None = None
    metric_error: str | None = None

    def as_record(self) -> Standing:
        """The fields by name; `metric_error` only where there is one."""
        record = asdict(self)
        if self.metric_error is None:
            del record["metric_error"]
        return cast(Standing, record)


def grade(
    task: Task,
    folder: Path,
    content: bytes,
    *,
    rank_rule: str = "dojo",
    run_code: RunCode | None = None,
    max_bytes: int = MAX_BYTES,
) -> Verdict:
    """Grade the bytes of a submission to `task`, whose data are in `folder`.

    An exception means that the tool or the task is broken, never that the submission is invalid.
    """
    try:
        if "file" in task["metric"]:
            if run_code is None:
                raise ToolError("the task's metric is code, which needs a sandbox")
            if len(content) > max_bytes:
                raise Invalid(f"the file has {len(content)} bytes; at most {max_bytes} are read")
            score = run_code(task, folder, content)
        else:
            answers = read_answers(str(folder / task["answers"]), task, _columns(task["metric"]))
            score = _score(task, answers, content, max_bytes)
    except Invalid as invalid:
        verdict = standing(task, folder, None, str(invalid), rank_rule)
        return replace(verdict, metric_error=invalid.error if isinstance(invalid, code.FailsOnThisFile) else None)
    return standing(task, folder, score, None, rank_rule)


def score_bytes(task: Scoring, answers: bytes, submission: bytes) -> float:
    """The unrounded score of a submission, both as bytes of CSV files.

    Invalid (a ValueError) for an invalid submission, ToolError for broken answers.
    """
    parsed = parse_answers(answers, answer_spec(task), task["metric"].get("where", []), _columns(task["metric"]))
    return _score(task, parsed, submission, MAX_BYTES)


def _columns(metric: MetricSpec) -> list[str]:
    """The columns of the answers that the metric needs beside the targets."""
    if "extra" in metrics.find(metric["name"]).inputs:
        return [ALL_COLUMNS]
    columns = [metric[name] for name in ("group", "weight") if name in metric]
    return [each if isinstance(each, str) else each["column"] for each in columns]


def _score(task: Scoring, answers: Answers, content: bytes, max_bytes: int) -> float:
    spec, metric = task["submission"], task["metric"]
    guess, truth = read_submission(content, spec, answers, max_bytes), answers.truth
    if answers.counts is not None:
        guess, truth = guess[answers.counts], truth[answers.counts]
    try:
        score = metrics.score(metric, truth, guess, _inputs(spec, metric, answers))
    except metrics.Undefined as undefined:
        raise Invalid(f"{metric['name']} is undefined for these predictions: {undefined}") from None
    except metrics.TooExpensive as error:
        raise Invalid(f"{metric['name']} is too expensive to compute for these predictions: {error}") from None
    if not math.isfinite(score):
        raise Invalid(f"{metric['name']} of these predictions is not a finite number")
    return score


def _inputs(spec: SubmissionFormat, metric: MetricSpec, answers: Answers) -> Inputs:
    import numpy as np

    counts = slice(None) if answers.counts is None else answers.counts

    def column(name: str) -> Any:
        return np.array(answers.columns[name], dtype=object)[counts]

    inputs: Inputs = {"names": spec["target"], "weight": None, "group": None}
    if "group" in metric:
        inputs["group"] = _groups(column, metric["group"])
    if "weight" in metric:
        inputs["weight"] = _weights(column, metric["weight"])
    if "extra" in metrics.find(metric["name"]).inputs:
        inputs["extra"] = {name: column(name) for name in answers.columns}
    return inputs


def _groups(column: Callable[[str], Any], group: Any) -> Any:
    import re

    import numpy as np

    if isinstance(group, str):
        return column(group)
    pattern = re.compile(group["pattern"])
    matches = [pattern.search(cell) for cell in column(group["column"])]
    if None in matches:
        raise ToolError(f"metric.group: {group['pattern']!r} does not match every cell of column {group['column']!r}")
    return np.array([match[1] for match in matches if match], dtype=object)


def _weights(column: Callable[[str], Any], weight: Any) -> Any:
    import numpy as np

    name = weight if isinstance(weight, str) else weight["column"]
    cells = column(name)
    values = {} if isinstance(weight, str) else weight["values"]
    try:
        weights = np.array([float(values[cell] if values else cell) for cell in cells])
    except (KeyError, ValueError) as error:
        raise ToolError(f"metric.weight: column {name!r} has a cell that is not a weight: {error}") from None
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ToolError(f"metric.weight: the weights in column {name!r} must be finite, not negative, and not all 0")
    return weights


def standing(task: Task, folder: Path, score: float | None, reason: str | None, rank_rule: str = "dojo") -> Verdict:
    """The verdict on a score (None: invalid), rounded and compared with thresholds and teams."""
    lower = task["metric"]["lower_is_better"]

    def board(name: GradedWith) -> Leaderboard | None:
        return read_leaderboard(str(folder / task[name]), lower) if name in task else None

    private, public = board("leaderboard"), board("public_leaderboard")
    by_name = {"leaderboard": private, "public_leaderboard": public}
    ranking = [found for name in ranked_on(task, rank_rule) if (found := by_name[name]) is not None]
    thresholds = task.get("thresholds") or (private.thresholds if private else None)
    invalid = Verdict(
        False,
        reason,
        thresholds=thresholds,
        teams=len(private.scores) if private else None,
        public_teams=len(public.scores) if public else None,
        human_rank_rule=rank_rule if ranking else None,
    )
    if score is None:
        return invalid
    score = rounded(score, task["metric"])
    return replace(
        invalid,
        valid=True,
        reason=None,
        score=score,
        medal=medal(score, thresholds, lower) if thresholds else None,
        above_median=better(score, thresholds["median"], lower) if thresholds else False,
        position=private.position(score) if private else None,
        public_position=public.position(score) if public else None,
        human_rank=_human_rank(score, ranking, rank_rule) if ranking else None,
        normalised_score=private.normalised(score) if private else None,
    )


def rounded(score: float, metric: MetricSpec) -> float:
    """The score with the decimals that the task gives it."""
    return float(round(score, int(metric.get("score_round", SCORE_DECIMALS))))


def ranked_on(task: Task, rule: str) -> list[GradedWith]:
    """The task's leaderboards of which a human rank is taken; none: it has no human rank."""
    boards: tuple[GradedWith, ...] = ("leaderboard",) if rule == "mle-rl" else ("leaderboard", "public_leaderboard")
    return [name for name in boards if name in task]


def _human_rank(score: float, boards: list[Leaderboard], rule: str) -> float:
    """The mean over the leaderboards."""
    return sum(human_rank(board.position(score), len(board.scores), rule) for board in boards) / len(boards)


def check_task(task: Grading) -> None:
    """RecordError unless the grading part of a task record is consistent. Reads no file."""
    metric = task["metric"]
    if "thresholds" in task:
        check_thresholds(task["thresholds"], metric["lower_is_better"])
    if "file" in metric:
        return
    spec = answer_spec(task)
    metrics.check(metric, task["submission"]["parse"], spec["parse"])
    if len(spec["target"]) != len(task["submission"]["target"]) and metrics.find(metric["name"]).columns == "each":
        raise RecordError(
            f"answer_target names {len(spec['target'])} columns for the {len(task['submission']['target'])} of "
            "submission.target"
        )
    for name, kinds in APPLIES_TO.items():
        if name in task["submission"] and task["submission"]["parse"] not in kinds:
            raise RecordError(f"submission.{name} applies to parse {', '.join(kinds)} only")
    for part, name in ((task["submission"], "submission.several_rows"), (spec, "answer_several_rows")):
        if part.get("several_rows") and part["parse"] not in JOINED:
            raise RecordError(f"{name} applies to parse {', '.join(sorted(JOINED))} only")
    if task["submission"]["parse"] == "boxes" and "fields" not in task["submission"]:
        raise RecordError("submission.parse boxes needs submission.fields, the items of one box in their order")


__all__ = [
    "HUMAN_RANKS",
    "MAX_BYTES",
    "SCORE_DECIMALS",
    "Invalid",
    "Leaderboard",
    "RunCode",
    "Verdict",
    "answer_spec",
    "better",
    "check_direction",
    "check_task",
    "check_thresholds",
    "code",
    "grade",
    "human_rank",
    "medal",
    "medal_rows",
    "metrics",
    "parse_answers",
    "ranked_on",
    "read_leaderboard",
    "rewards",
    "rounded",
    "score_bytes",
    "standing",
]
