"""mle-grade: score each submission, and turn the verdict into a reward."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..grading import Verdict, grade, rewards
from ..grading.metrics import METRICS
from ..records.errors import RecordError, ToolError
from ..records.ids import bytes_digest
from ..tasks import data_digest

REWARDS = ("milestone", "partial-credit", "raw")


@dataclass(frozen=True)
class Grader:
    """Grades rollouts; a class, so that it travels to worker processes."""

    data: Path
    reward: str
    failure_reward: float

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        if "execution" not in rollout:
            raise RecordError('no "execution": was this written by mle-sandbox?')
        task, submission = rollout["task"], rollout["execution"]["submission"]
        folder = self.data / task["data"]["dir"]
        _check_data(folder, tuple(task["data"]["public"]), task["answers"], task["data"]["digest"])
        if submission is None:
            verdict = Verdict(False, _why_no_submission(rollout["execution"]))
        else:
            verdict = grade(task, folder, self._content(submission))
        graded = {
            **verdict.as_record(),
            "metric": task["metric"]["name"],
            "lower_is_better": task["metric"]["lower_is_better"],
            "digest": submission["digest"] if submission else None,
        }
        value, how = self._reward(rollout, graded)
        return {**rollout, "grade": {**graded, "reward": how}, "reward": value}

    def _content(self, submission: dict[str, Any]) -> bytes:
        path = self.data / submission["file"]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}; is --data the folder that mle-sandbox wrote to?") from None
        if bytes_digest(content) != submission["digest"]:
            raise RecordError(f"{path}: is not the submission that mle-sandbox took out (its digest differs)")
        return content

    def _reward(self, rollout: dict[str, Any], graded: dict[str, Any]) -> tuple[float | None, dict[str, Any]]:
        score, lower = graded["score"], graded["lower_is_better"]
        if self.reward == "raw":
            return rewards.raw(score, lower), {"rule": "raw"}
        if self.reward == "partial-credit":
            markers = len(rollout["execution"]["markers"])
            value = rewards.partial_credit(score, lower, markers, self.failure_reward)
            clamped = score is not None and value != rewards.raw(score, lower)
            return value, {
                "rule": "partial-credit",
                "failure": self.failure_reward,
                "markers": markers,
                "clamped": clamped,
            }
        rate = 1.0 if rollout["stop_reason"] == "finished" else 0.0
        value = rewards.milestone(rate, graded["valid"], graded["above_median"], graded["medal"])
        return value, {"rule": "milestone", "format_rate": rate}


@functools.lru_cache(maxsize=1024)
def _check_data(folder: Path, public: tuple[str, ...], answers: str, digest: str) -> None:
    """RecordError unless the task's files are those that the record was made with."""
    try:
        found = data_digest(folder, list(public), answers)
    except OSError as error:
        raise RecordError(
            f"{error.filename}: {error.strerror}; is --data the folder that mle-gen-task wrote to?"
        ) from None
    if found != digest:
        raise RecordError(f"{folder}: the files are not those of the task record (digest differs)")


def _why_no_submission(execution: dict[str, Any]) -> str:
    if execution["status"] == "no_code":
        return "the answer holds no single code block"
    problem = execution["submission_problem"] or "no submission.csv"
    return (
        problem if execution["status"] == "ok" else f"{problem} (the program ended with status {execution['status']})"
    )


def _list_metrics(context: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from tabulate import tabulate

        rows = [
            (name, "lower" if m.lower_is_better else "higher", m.needs, m.definition) for name, m in METRICS.items()
        ]
        click.echo(tabulate(rows, headers=["metric", "better", "predictions", "definition"]))
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
    "--list-metrics",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_metrics,
    help="Print the metrics and exit.",
)
def main(run: cli.Run, reward: str, failure_reward: float) -> None:
    """Score the submissions of FILES (rollouts that mle-sandbox ran), and reward them.

    A bad submission is a verdict with a reason. A submission whose digest is not the recorded one, or a task folder that
    is not the recorded one, is an error.

    \b
    milestone       0.1 format + 0.2 valid + 0.1 median + 0.4 bronze + 0.1 silver + 0.1 gold (SandMLE)
    partial-credit  the score, its sign flipped when lower is better; without one -10 + 0.1 a report (RL for MLE agents)
    raw             the score, its sign flipped when lower is better; null without one

    Streams.

    \b
    Examples:
      mle-grade executed.jsonl -o graded.jsonl
      mle-sandbox rollouts.jsonl | mle-grade --reward raw | jq .reward
    """
    grader = Grader(run.data, reward, failure_reward)

    def count(rollout: dict[str, Any]) -> None:
        run.counts["valid" if rollout["grade"]["valid"] else "invalid"] += 1
        if rollout["grade"]["reward"].get("clamped"):
            run.counts["rewards raised to the best failure's, set --failure-reward lower"] += 1

    run.each(grader, "rollout", processes=True, watch=count)


__all__ = ["Grader", "ToolError", "main"]
