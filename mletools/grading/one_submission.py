"""Grades one submission file on a task, without a rollout: a record in a pipe, lines for people on a terminal."""

import textwrap
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SubmissionOptions:
    """Which file is graded, and on which task."""

    submission: str | None = option(
        "Grade this CSV instead of rollouts.", kind="existing file", metavar="FILE", machine=True
    )
    task: str | None = option(
        "The file with the submission's task.", kind="existing file", metavar="TASKS", machine=True
    )
    id: str | None = option(
        "The task's id, or how it begins; needed where TASKS holds several.", metavar="ID", machine=True
    )

    def check(self, files: Any) -> None:
        """OptionError: --submission needs --task and no FILES, and the others need it."""
        if self.submission is None:
            if self.task is not None or self.id is not None:
                raise OptionError("--task and --id are about --submission")
        elif self.task is None:
            raise OptionError("--submission needs --task, the file with its task")
        elif files:
            raise OptionError(f"--submission grades one file; {files[0]} would be read as rollouts")


def grade_submission(run: Run, grader: Grader, options: SubmissionOptions) -> None:
    """Write the verdict: to a terminal lines for people, else a record. ToolError: no such task, or the metric fails."""
    assert options.submission is not None and options.task is not None
    run.open()
    task = _task(run, options.task, options.id or "")
    with open(options.submission, "rb") as file:  # of one that is too large no more is read than shows it
        content = file.read(grader.most_bytes(task) + 1)
    verdict = grader.verdict(task, lambda: content)
    if room := run.terminal_columns:
        run.emit_text("\n".join(lines(task["id"], verdict, room)) + "\n")
        run.counts["valid" if verdict["valid"] else "invalid"] += 1
        return
    record = {"kind": "verdict", "version": 1, "id": content_id(task["id"], verdict["digest"]), "lineage": []}
    run.emit({**record, "task": task["id"], "submission": options.submission, **verdict})


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


def lines(task: str, verdict: Graded, room: int = 80) -> list[str]:
    """The verdict for people, in `room` columns."""
    arrow = "lower is better" if verdict["lower_is_better"] else "higher is better"
    found = [("task", task), ("metric", f"{verdict['metric']}, {arrow}")]
    if not verdict["valid"]:
        return _aligned([*found, ("valid", "no"), ("reason", verdict["reason"] or "")], room)
    found += [("valid", "yes"), ("score", f"{verdict['score']:g}")]
    if verdict["thresholds"]:
        steps = ", ".join(f"{name} {value:g}" for name, value in verdict["thresholds"].items())
        median = "above the median" if verdict["above_median"] else "not above the median"
        found += [("medal", verdict["medal"] or f"none, {median}"), ("thresholds", steps)]
    if verdict["teams"]:
        found.append(("place", f"{verdict['position']} among {verdict['teams']} teams"))
    if verdict["human_rank"] is not None:
        found.append(("human rank", f"{verdict['human_rank']:.3f} ({verdict['human_rank_rule']})"))
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
