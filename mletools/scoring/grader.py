"""Grades rollouts: a verdict on each submission, and its reward."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..grading import check_task, grade, rewards, standing
from ..grading.options import GradingOptions, read_weights
from ..records.errors import RecordError
from ..records.ids import bytes_digest
from ..tasks.private_data import check_data, inside, task_folder
from .code_metrics import CodeMetrics


@dataclass(frozen=True)
class Grader:
    """Adds `grade` and `reward` to rollouts whose submissions and tasks' folders lie below `data`.

    RecordError: the files are not those of the record, or the metric fails. It can be pickled.
    """

    data: Path
    options: GradingOptions
    code_metrics: CodeMetrics

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._graded(rollout)
        except OverflowError as error:  # JSON has whole numbers that no float can hold
            raise RecordError(f"a number in the record is too large: {error}") from error

    def _graded(self, rollout: dict[str, Any]) -> dict[str, Any]:
        if "execution" not in rollout:
            raise RecordError('no "execution": was this written by mle-sandbox?')
        task, submission = rollout["task"], rollout["execution"]["submission"]
        if submission is None:
            graded = self.verdict(task, None, _why_no_submission(rollout["execution"]))
        else:
            graded = self.verdict(task, lambda: self._content(submission))
        value, rule = self._reward(rollout, graded)
        return {**rollout, "grade": {**graded, "reward": rule}, "reward": value}

    def verdict(
        self, task: Mapping[str, Any], content: Callable[[], bytes] | None, reason: str | None = None
    ) -> dict[str, Any]:
        """The fields of records.types.Grade but for the reward; without `content` invalid for `reason`.

        RecordError: the task's folder is not that of the record, or the metric fails.
        """
        folder = task_folder(self.data, task)
        check_task(task)
        check_data(folder, task)
        if content is None:
            verdict, digest = standing(task, folder, None, reason, self.options.human_rank), None
        else:
            submission = content()
            digest = bytes_digest(submission)
            verdict = grade(
                task,
                folder,
                submission,
                rank_rule=self.options.human_rank,
                run_code=self.code_metrics,
                max_bytes=self.options.max_submission << 20,
            )
        metric = task["metric"]
        return {
            **verdict.as_record(),
            "metric": metric.get("name") or metric["file"],
            "lower_is_better": metric["lower_is_better"],
            "digest": digest,
        }

    def _content(self, submission: dict[str, Any]) -> bytes:
        path = inside(self.data, submission["file"], "execution.submission.file")
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
            raise RecordError(f"{path}: is no file of mle-sandbox's")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}; is --data the folder that mle-sandbox wrote to?") from None
        if bytes_digest(content) != submission["digest"]:
            raise RecordError(f"{path}: is not the submission that mle-sandbox took out (its digest differs)")
        return content

    def _reward(self, rollout: dict[str, Any], graded: dict[str, Any]) -> tuple[float | None, dict[str, Any]]:
        """The reward, and the rule with what it read beside the verdict."""
        options, score, lower = self.options, graded["score"], graded["lower_is_better"]
        well_formed = rollout["stop_reason"] == "finished"
        scale: dict[str, Any] = {}
        if options.scale_score == "thresholds":
            score, lower, scale = _scaled(score, graded["thresholds"]), False, {"scale": "thresholds"}
        if options.reward == "raw":
            return rewards.raw(score, lower), {"rule": "raw", **scale}
        if options.reward == "partial-credit":
            failure, markers = options.failure_reward, len(rollout["execution"]["markers"])
            value = rewards.partial_credit(score, lower, markers, failure, options.marker_credit)
            clamped = score is not None and value != rewards.raw(score, lower)
            how = {"rule": "partial-credit", "failure": failure, "markers": markers, "clamped": clamped}
            return value, {**how, **scale}
        if options.reward == "human-rank":
            if graded["teams"] is None:
                raise RecordError("--reward human-rank: the task has no leaderboard")
            return rewards.human_rank(graded["human_rank"]), {"rule": "human-rank"}
        if options.reward == "improvement":
            previous = rollout.get("state", {}).get("score")
            value = rewards.improvement(score, previous, lower, well_formed)
            return value, {"rule": "improvement", "previous": previous, "well_formed": well_formed}
        rate, weights = rollout.get("format_rate", 1.0 if well_formed else 0.0), read_weights(options.milestone)
        value = rewards.milestone(rate, graded["valid"], graded["above_median"], graded["medal"], weights)
        return value, {"rule": "milestone", "format_rate": rate}


def _scaled(score: float | None, thresholds: dict[str, float] | None) -> float | None:
    """The score on the scale of the thresholds. RecordError: there are none, or they are equal."""
    if thresholds is None:
        raise RecordError("--scale-score thresholds: the task has neither thresholds nor a leaderboard")
    try:
        return rewards.scaled(score, thresholds["median"], thresholds["gold"])
    except ValueError as error:
        raise RecordError(f"--scale-score thresholds: {error}") from None


def _why_no_submission(execution: dict[str, Any]) -> str:
    if execution["status"] == "no_code":
        return "the answer holds no single code block"
    problem = execution["submission_problem"] or "no submission.csv"
    return (
        problem if execution["status"] == "ok" else f"{problem} (the program ended with status {execution['status']})"
    )
