"""mle-grade: score each submission, and turn the verdict into a reward."""

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..grading import HUMAN_RANKS, MAX_BYTES, check_task, grade, metrics, rewards, standing
from ..records.errors import RecordError
from ..records.ids import bytes_digest
from ..sandbox import BACKENDS, Limits
from ..tasks.private_data import check_data, inside, task_folder
from .metric_box import CodeBox, opened

REWARDS = ("milestone", "partial-credit", "raw", "human-rank", "improvement")
WEIGHTS = {"dense": rewards.MilestoneWeights(), "sparse": rewards.SPARSE}


@dataclass(frozen=True)
class Grader:
    """Grades rollouts; a class, so that it travels to worker processes."""

    data: Path
    reward: str
    failure_reward: float
    marker_credit: float
    weights: rewards.MilestoneWeights
    rank_rule: str
    max_bytes: int
    code_box: CodeBox

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._graded(rollout)
        except OverflowError as error:  # JSON has whole numbers that no float can hold
            raise RecordError(f"a number in the record is too large: {error}") from error

    def _graded(self, rollout: dict[str, Any]) -> dict[str, Any]:
        if "execution" not in rollout:
            raise RecordError('no "execution": was this written by mle-sandbox?')
        task, submission = rollout["task"], rollout["execution"]["submission"]
        folder = task_folder(self.data, task)
        check_task(task)
        check_data(folder, task)
        if submission is None:
            verdict = standing(task, folder, None, _why_no_submission(rollout["execution"]), self.rank_rule)
        else:
            verdict = grade(
                task,
                folder,
                self._content(submission),
                rank_rule=self.rank_rule,
                run_code=self.code_box,
                max_bytes=self.max_bytes,
            )
        metric = task["metric"]
        graded = {
            **verdict.as_record(),
            "metric": metric.get("name") or metric["file"],
            "lower_is_better": metric["lower_is_better"],
            "digest": submission["digest"] if submission else None,
        }
        value, how = self._reward(rollout, graded)
        return {**rollout, "grade": {**graded, "reward": how}, "reward": value}

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
        score, lower = graded["score"], graded["lower_is_better"]
        well_formed = rollout["stop_reason"] == "finished"
        if self.reward == "raw":
            return rewards.raw(score, lower), {"rule": "raw"}
        if self.reward == "partial-credit":
            markers = len(rollout["execution"]["markers"])
            value = rewards.partial_credit(score, lower, markers, self.failure_reward, self.marker_credit)
            clamped = score is not None and value != rewards.raw(score, lower)
            return value, {
                "rule": "partial-credit",
                "failure": self.failure_reward,
                "markers": markers,
                "clamped": clamped,
            }
        if self.reward == "human-rank":
            if graded["teams"] is None:
                raise RecordError("--reward human-rank: the task has no leaderboard")
            return rewards.human_rank(graded["human_rank"]), {"rule": "human-rank"}
        if self.reward == "improvement":
            previous = rollout.get("state", {}).get("score")
            value = rewards.improvement(score, previous, lower, well_formed)
            return value, {"rule": "improvement", "previous": previous, "well_formed": well_formed}
        rate = rollout.get("format_rate", 1.0 if well_formed else 0.0)
        value = rewards.milestone(rate, graded["valid"], graded["above_median"], graded["medal"], self.weights)
        return value, {"rule": "milestone", "format_rate": rate}


def _why_no_submission(execution: dict[str, Any]) -> str:
    if execution["status"] == "no_code":
        return "the answer holds no single code block"
    problem = execution["submission_problem"] or "no submission.csv"
    return (
        problem if execution["status"] == "ok" else f"{problem} (the program ended with status {execution['status']})"
    )


def _weights(value: str) -> rewards.MilestoneWeights:
    """What --milestone says. click.BadParameter otherwise."""
    if value in WEIGHTS:
        return WEIGHTS[value]
    try:
        given = {name.strip(): float(number) for name, number in (part.split("=") for part in value.split(","))}
        return replace(WEIGHTS["dense"], **given)
    except (TypeError, ValueError):
        names = ", ".join(asdict(WEIGHTS["dense"]))
        told = f"{value!r} is not dense, sparse, or NAME=NUMBER,... with names out of {names}"
        raise click.BadParameter(told, param_hint="--milestone") from None


def _list_metrics(context: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        for found in sorted(metrics.METRICS.values(), key=lambda each: each.name):
            click.echo(found.described())
        context.exit()


@cli.command("mle-grade", jobs=True, data=True)
@click.option(
    "--reward",
    type=click.Choice(REWARDS),
    default="milestone",
    show_default=True,
    help="How the verdict becomes a reward.",
)
@click.option(
    "--failure-reward",
    type=float,
    default=rewards.FAILURE,
    show_default=True,
    help="partial-credit: the reward of a total failure.",
)
@click.option(
    "--marker-credit",
    type=click.FloatRange(0),
    default=rewards.MARKER_CREDIT,
    show_default=True,
    help="partial-credit: what a failure earns for each report that arrived.",
)
@click.option(
    "--milestone",
    default="dense",
    show_default=True,
    metavar="WEIGHTS",
    help="milestone: dense, sparse (0.1 format + 0.9 gold), or changes such as gold=0.3,bronze=0.2.",
)
@click.option(
    "--human-rank",
    type=click.Choice(HUMAN_RANKS),
    default="dojo",
    show_default=True,
    help="Place p of N teams: dojo (N - p + 1) / N, mean of public and private board; mle-rl 1 - p / N.",
)
@click.option(
    "--max-submission",
    type=click.IntRange(1),
    default=MAX_BYTES >> 20,
    show_default=True,
    metavar="MB",
    help="A larger file is invalid.",
)
@click.option(
    "--backend",
    type=click.Choice([*BACKENDS, "auto"]),
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    cls=cli.MachineOption,
    help="Metrics that are code: the sandbox they run in.",
)
@click.option(
    "--metric-timeout",
    type=float,
    default=300.0,
    show_default=True,
    metavar="S",
    cls=cli.MachineOption,
    help="Metrics that are code: wall seconds for one.",
)
@click.option(
    "--metric-memory",
    type=click.IntRange(64),
    default=4096,
    show_default=True,
    metavar="MB",
    cls=cli.MachineOption,
    help="Metrics that are code: memory of one.",
)
@click.option(
    "--list-metrics",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_metrics,
    help="Print the metrics and exit.",
)
def main(
    run: cli.Run,
    reward: str,
    failure_reward: float,
    marker_credit: float,
    milestone: str,
    human_rank: str,
    max_submission: int,
    backend: str,
    metric_timeout: float,
    metric_memory: int,
) -> None:
    """Score the submissions of FILES (rollouts that mle-sandbox ran), place them among thresholds or teams, reward them.

    A bad submission is a verdict with a reason. A submission whose digest is not the recorded one, a task folder that
    is not the recorded one, or a metric that fails is an error. Metrics that are code run in a sandbox of their own.

    \b
    milestone       0.1 format + 0.2 valid + 0.1 median + 0.4 bronze + 0.1 silver + 0.1 gold (SandMLE)
    partial-credit  the score, its sign flipped when lower is better; without one -10 + 0.1 a report
                    (RL for MLE agents)
    raw             the score, its sign flipped when lower is better; null without one
    human-rank      the share of a leaderboard's teams left behind; null without a valid submission
                    (MLE-RL)
    improvement     +1 better than the state it began from, 0 not better or invalid, -1 bad format
                    (MLE-Ideator)

    Streams.

    \b
    Examples:
      mle-grade executed.jsonl -o graded.jsonl
      mle-sandbox rollouts.jsonl | mle-grade --reward raw | jq .reward
    """
    box = CodeBox(backend, Limits(wall_s=metric_timeout, memory_mb=metric_memory))
    grader = Grader(
        run.data, reward, failure_reward, marker_credit, _weights(milestone), human_rank, max_submission << 20, box
    )

    def count(rollout: dict[str, Any]) -> None:
        run.counts["valid" if rollout["grade"]["valid"] else "invalid"] += 1
        if rollout["grade"]["reward"].get("clamped"):
            run.counts["rewards raised to the best failure's, set --failure-reward lower"] += 1

    with opened:
        run.each(grader, "rollout", processes=True, watch=count)
