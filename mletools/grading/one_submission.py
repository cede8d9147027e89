"""Grades one submission file on a task, without a rollout: a record in a pipe, human-readable lines on a terminal.

For graders that others call, the verdict as numbers in a file: there a file that is missing, or is no plain file, is what
an agent left, not an error.
"""

import json
import math
import os
import stat
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import OptionError, ToolError
from ..base.ids import content_id
from ..base.options import option
from ..base.visible import visible_line
from ..records.rollout import Graded
from ..records.task import Task
from ..run import Run
from .grader import Grader

MOST_NAMED = 10  # ids in an error message
REWARDS_ALONE = ("milestone", "human-rank")  # rules that need no rollout and are finite
MEDALS = {None: 0, "bronze": 1, "silver": 2, "gold": 3}


@dataclass(frozen=True)
class SubmissionOptions:
    """Which file is graded, and on which task."""

    submission: str | None = option("Grade this CSV instead of rollouts.", kind="path", metavar="FILE", machine=True)
    task: str | None = option(
        "File with the task of the submission.", kind="existing file", metavar="TASKS", machine=True
    )
    id: str | None = option(
        "Id of the task, or its beginning. Needed where TASKS holds several.", metavar="ID", machine=True
    )

    reward_json: str | None = option(
        "Also write the verdict as a flat JSON object of finite numbers: reward, valid, above_median, medal (0 none "
        "to 3 gold), and score and human_rank where they exist. A missing submission then counts as invalid.",
        kind="output file",
        metavar="FILE",
        machine=True,
    )

    def check(self, files: Any, reward: str) -> None:
        """OptionError: --submission needs --task and no FILES, and the others need it; `reward` is the rule's name."""
        if self.submission is None:
            if self.task is not None or self.id is not None or self.reward_json is not None:
                raise OptionError("--task, --id and --reward-json are about --submission")
        elif self.reward_json is not None and reward not in REWARDS_ALONE:
            raise OptionError(f"--reward-json needs --reward {' or '.join(REWARDS_ALONE)}, which every submission has")
        elif self.task is None:
            raise OptionError("--submission needs --task, the file with its task")
        elif files:
            raise OptionError(f"--submission grades one file; {files[0]} would be read as rollouts")

    def check_file(self) -> None:
        """OptionError: the file is not there. With --reward-json that is what an agent left."""
        if self.submission is not None and self.reward_json is None and not os.path.isfile(self.submission):
            raise OptionError(f"--submission: {self.submission} does not exist, or is no file")


def grade_submission(run: Run, grader: Grader, options: SubmissionOptions) -> None:
    """Write the verdict: to a terminal human-readable lines, else a record. ToolError: no such task, or the metric fails."""
    assert options.submission is not None and options.task is not None
    run.open()
    task = _task(run, options.task, options.id or "")
    content, problem = _content(options, grader.most_bytes(task) + 1)
    verdict = grader.verdict(task, None if content is None else lambda: content, problem)
    reward = grader.reward_alone(verdict)
    if options.reward_json is not None:
        Path(options.reward_json).write_text(json.dumps(numbers(verdict, reward)) + "\n")
    if room := run.terminal_columns:
        run.emit_text("\n".join(lines(task, verdict, room)) + "\n")
        run.counts["valid" if verdict["valid"] else "invalid"] += 1
        return
    record = {"kind": "verdict", "version": 1, "id": content_id(task["id"], verdict["digest"] or ""), "lineage": []}
    run.emit({**record, "task": task["id"], "submission": options.submission, **verdict, "reward": reward})


def _content(options: SubmissionOptions, most: int) -> tuple[bytes | None, str | None]:
    """The first bytes of the file, which of one that is too large show it; or why there is none."""
    assert options.submission is not None
    if options.reward_json is None:
        with open(options.submission, "rb") as file:
            return file.read(most), None
    # An agent left it: a link could lead to the answers, a pipe could wait for ever.
    try:
        number = os.open(options.submission, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return None, f"no submission.csv ({error.strerror})"
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None, "submission.csv is no plain file"
    with open(number, "rb") as file:
        return file.read(most), None


def numbers(verdict: Graded, reward: float | None) -> dict[str, float]:
    """The verdict as finite numbers; what it has no number for is left out, but the reward, which then is 0."""
    found = {
        "reward": reward or 0.0,
        "valid": float(verdict["valid"]),
        "above_median": float(verdict["above_median"]),
        "medal": float(MEDALS[verdict["medal"]]),
        "score": verdict["score"],
        "human_rank": verdict["human_rank"],
    }
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def _task(run: Run, path: str, begins: str) -> Task:
    ids = []
    chosen: dict[str, Task] = {}
    for line in run.lines("task", files=(path,)):
        ids.append(line.record["id"])
        if line.record["id"].startswith(begins):
            chosen[line.record["id"]] = line.record
    if begins in chosen:
        return chosen[begins]
    if len(chosen) == 1:
        return next(iter(chosen.values()))
    named = "\n  ".join([*(list(chosen) or ids)[:MOST_NAMED], *(["..."] if len(chosen or ids) > MOST_NAMED else [])])
    if not chosen:
        raise ToolError(f"{path}: no task begins with {begins!r}; there are\n  {named}")
    what = f" that begin with {begins!r}" if begins else ""
    raise ToolError(f"{path}: holds {len(chosen)} tasks{what}; choose one with --id:\n  {named}")


def lines(task: Task, verdict: Graded, room: int = 80) -> list[str]:
    """The verdict, human-readable, in `room` columns."""
    arrow = "lower is better" if verdict["lower_is_better"] else "higher is better"
    baselines = bool(task["provenance"].get("baselines"))  # whose scores stand for people's
    found = [("task", task["id"]), ("metric", f"{verdict['metric']}, {arrow}")]
    if not verdict["valid"]:
        return _aligned([*found, ("valid", "no"), ("reason", verdict["reason"] or "")], room)
    found += [("valid", "yes"), ("score", f"{verdict['score']:g}")]
    if verdict["thresholds"]:
        steps = ", ".join(f"{name} {value:g}" for name, value in verdict["thresholds"].items())
        median = "above the median" if verdict["above_median"] else "not above the median"
        medal = verdict["medal"] or f"none, {median}"
        found += [("medal", medal), ("thresholds", steps + (" (of trained baselines)" if baselines else ""))]
    if verdict["teams"]:
        what = "trained baselines" if baselines else "teams"
        found.append(("place", f"{verdict['position']} among {verdict['teams']} {what}"))
    if verdict["human_rank"] is not None:
        rule = verdict["human_rank_rule"]
        found.append(("human rank", f"{verdict['human_rank']:.3f} ({rule}{', among baselines' if baselines else ''})"))
    return _aligned(found, room)


def _aligned(rows: list[tuple[str, str]], room: int) -> list[str]:
    """Names and values, long values folded below their beginning."""
    width = max(len(name) for name, _ in rows)
    return [
        textwrap.fill(
            visible_line(value), room, initial_indent=f"{name:{width}}  ", subsequent_indent=" " * (width + 2)
        )
        for name, value in rows
    ]
