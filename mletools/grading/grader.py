"""Grades rollouts: a verdict on each submission, its reward, whether rewards leave a signal; ranks of other scores."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import RecordError, data_advice
from ..base.ids import bytes_digest
from ..records.rollout import Execution, Graded, HumanRank, RankRule, RewardRule, Rollout, SubmissionFile
from ..records.sample import submission_mb
from ..records.task import Task, Thresholds
from . import RunCode, check_task, grade, ranked_on, rewards, standing
from .options import GradingOptions, read_weights
from .private_data import check_data, inside, task_folder

ADVICE = "mle-grade --scale-score thresholds brings scores to one scale, a lower --failure-reward leaves room for them"


@dataclass(frozen=True)
class Grader:
    """Adds `grade` and `reward` to rollouts whose submissions and tasks' folders lie below `data`.

    RecordError: the files are not those of the record, or the metric fails. It can be pickled.
    """

    data: Path
    options: GradingOptions
    code_metrics: RunCode

    def __call__(self, rollout: Rollout) -> Rollout:
        try:
            return self._graded(rollout)
        except OverflowError as error:  # JSON has whole numbers that no float can hold
            raise RecordError(f"a number in the record is too large: {error}") from error

    def _graded(self, rollout: Rollout) -> Rollout:
        if "execution" not in rollout:
            raise RecordError('no "execution": was this written by mle-sandbox?')
        task, submission = rollout["task"], rollout["execution"]["submission"]
        if submission is None:
            graded = self.verdict(task, None, _why_no_submission(rollout["execution"]))
        else:
            graded = self.verdict(task, lambda: self._content(submission))
        value, rule = self._reward(_Work.of(rollout), graded)
        return {**rollout, "grade": {**graded, "reward": rule}, "reward": value}

    def verdict(self, task: Task, content: Callable[[], bytes] | None, reason: str | None = None) -> Graded:
        """The fields of records.rollout.Grade but for the reward; without `content` invalid for `reason`.

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
                max_bytes=self.most_bytes(task),
            )
        metric = task["metric"]
        return {
            **verdict.as_record(),
            "metric": metric.get("name") or metric["file"],
            "lower_is_better": metric["lower_is_better"],
            "digest": digest,
        }

    def most_bytes(self, task: Task) -> int:
        """A larger submission to `task` is invalid."""
        return submission_mb(task_folder(self.data, task) / "public", self.options.max_submission) << 20

    def _content(self, submission: SubmissionFile) -> bytes:
        path = inside(self.data, submission["file"], "execution.submission.file")
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
            raise RecordError(f"{path}: is no file of mle-sandbox's")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}; {data_advice('mle-sandbox wrote to')}") from None
        if bytes_digest(content) != submission["digest"]:
            raise RecordError(f"{path}: is not the submission that mle-sandbox took out (its digest differs)")
        return content

    def _reward(self, work: "_Work", graded: Graded) -> tuple[float | None, RewardRule]:
        """The reward, and the rule with what it read beside the verdict."""
        options, score, lower = self.options, graded["score"], graded["lower_is_better"]
        scale: RewardRule = {}
        if options.scale_score == "thresholds":
            score, lower, scale = _scaled(score, graded["thresholds"]), False, {"scale": "thresholds"}
        if options.reward == "raw":
            return rewards.raw(score, lower), {"rule": "raw", **scale}
        if options.reward == "partial-credit":
            failure = options.failure_reward
            value = rewards.partial_credit(score, lower, work.markers, failure, options.marker_credit)
            clamped = score is not None and value != rewards.raw(score, lower)
            return value, {
                "rule": "partial-credit",
                "failure": failure,
                "markers": work.markers,
                "clamped": clamped,
                **scale,
            }
        if options.reward == "human-rank":
            if graded["human_rank_rule"] is None:
                raise RecordError("--reward human-rank: the task has no leaderboard")
            # the share of human teams beaten (MLE-RL, section 4.2); None where invalid, which MLE-RL leaves out of the loss
            return graded["human_rank"], {"rule": "human-rank"}
        if options.reward == "improvement":
            if not work.comparable:
                raise RecordError(
                    "--reward improvement: state has no score to compare with, but a validation score alone"
                )
            improved = rewards.improvement(score, work.previous, lower, work.well_formed, work.asked)
            return improved, {"rule": "improvement", "previous": work.previous, "well_formed": work.well_formed}
        weights = read_weights(options.milestone)
        value = rewards.milestone(work.format_rate, graded["valid"], graded["above_median"], graded["medal"], weights)
        return value, {"rule": "milestone", "format_rate": work.format_rate}

    def reward_alone(self, graded: Graded) -> float | None:
        """The reward of a submission that no rollout of ours handed in: in form, without reports or an earlier score.

        RecordError as for a rollout.
        """
        return self._reward(_Work(), graded)[0]


@dataclass(frozen=True)
class _Work:
    """What a reward reads of the work that a submission came out of; the defaults: nothing is known of it."""

    well_formed: bool = True
    format_rate: float = 1.0
    markers: int = 0
    previous: float | None = None
    comparable: bool = True
    asked: bool = True

    @staticmethod
    def of(rollout: Rollout) -> "_Work":
        """An idea, or a step of a search, is well formed only if it is whole; work in turns may end by any bound.

        RecordError: there are more reports than exist.
        """
        if (markers := len({*rollout["execution"]["markers"]})) > rewards.MARKER_COUNT:
            raise RecordError(
                f"execution.markers: {markers} different reports, of which there are {rewards.MARKER_COUNT}"
            )
        ended = rollout["stop_reason"]
        is_idea = rollout["scaffold"] == "idea" or "step" in rollout
        return _Work(
            ended == "finished" if is_idea else ended != "format",
            rollout.get("format_rate", 1.0 if ended == "finished" else 0.0),
            markers,
            rollout.get("state", {}).get("score"),
            "score" in rollout.get("state", {"score": None}),
            not (is_idea and ended == "context") and "refused" not in (rollout.get("implementer") or {}),
        )


def _scaled(score: float | None, thresholds: Thresholds | None) -> float | None:
    """The score on the scale of the thresholds. RecordError: there are none, or they are equal."""
    if thresholds is None:
        raise RecordError("--scale-score thresholds: the task has neither thresholds nor a leaderboard")
    try:
        return rewards.scaled(score, thresholds["median"], thresholds["gold"])
    except ValueError as error:
        raise RecordError(f"--scale-score thresholds: {error}") from None


def _why_no_submission(execution: Execution) -> str:
    if execution["status"] == "no_code":
        return "the answer holds no single code block"
    problem = execution["submission_problem"] or "no submission.csv"
    return (
        problem if execution["status"] == "ok" else f"{problem} (the program ended with status {execution['status']})"
    )


@dataclass
class Signal:
    """Whether graded rollouts whose rewards were clamped leave a policy anything to learn from: feed them with `add`.

    Holds a few numbers per task and per incomplete group; a group of traces is complete at the end.

    A group has no signal if all its rewards are equal and some were clamped; a task's scores have none if all its valid
    rollouts, at least two, were clamped.
    """

    _open: dict[str, list[tuple[float | None, bool]]] = field(default_factory=dict)
    _groups: int = 0
    _equal: int = 0
    _tasks: dict[str, tuple[int, int]] = field(default_factory=dict)  # (valid rollouts, clamped ones)

    def add(self, rollout: Rollout) -> None:
        clamped = bool(rollout["grade"]["reward"].get("clamped"))
        valid, before = self._tasks.get(rollout["task"]["id"], (0, 0))
        self._tasks[rollout["task"]["id"]] = (valid + rollout["grade"]["valid"], before + clamped)
        group = self._open.setdefault(rollout["group"], [])
        group.append((rollout["reward"], clamped))
        if "trace" not in rollout and len(group) >= rollout["group_size"]:
            self._close(self._open.pop(rollout["group"]))

    def _close(self, group: list[tuple[float | None, bool]]) -> None:
        if len(group) > 1:
            self._groups += 1
            equal = len({reward for reward, _ in group}) == 1
            self._equal += equal and any(clamped for _, clamped in group)

    def warnings(self) -> Iterator[str]:
        """What clamping has cost, in words; call it once, at the end."""
        for group in self._open.values():
            self._close(group)
        lost = sum(1 < valid == clamped for valid, clamped in self._tasks.values())
        if lost:
            yield (
                f"{lost} of {len(self._tasks)} tasks: every valid score was raised to the best failure's reward, so "
                f"scores make no difference; {ADVICE}"
            )
        if self._equal:
            yield f"{self._equal} of {self._groups} groups have no signal: their rewards were clamped and are all equal"


@dataclass(frozen=True)
class HumanRanks:
    """How many of a leaderboard's teams a score beats that mle-grade has not ranked; tasks' folders lie below `data`."""

    data: Path

    def __call__(self, task: Task, score: float, rule: RankRule = "dojo") -> HumanRank:
        """{human_rank, human_rank_rule}, None both without a leaderboard. RecordError: the folder is not the task's."""
        if not ranked_on(task, rule):
            return {"human_rank": None, "human_rank_rule": None}
        folder = task_folder(self.data, task)
        check_data(folder, task)
        verdict = standing(task, folder, score, None, rule)
        return {"human_rank": verdict.human_rank, "human_rank_rule": rule}
