"""The places that a record names: its task's id, which folders and files are named after, and paths below --data.

Records may come from a stranger. Every record is checked when it is read (schema). Not covered: links on the disk.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from ..base.errors import RecordError
from ..base.output import AnyRecord
from .rollout import Rollout, Turn
from .task import Grading, Task

LONGEST_ID = 200  # bytes: a file system takes names of 255


def check_inside(name: str, what: str) -> str:
    """`name`, a path relative to some folder. RecordError where it leads elsewhere, or could not be shown."""
    if os.path.isabs(name) or ".." in name.split("/") or not name.isprintable():
        raise RecordError(f"{what} is {name[:200]!r}, which is no path inside --data")
    return name


def check_id(name: str, what: str) -> None:
    """RecordError where an id cannot be the name of a file."""
    if "/" in name or name in (".", "..") or not name.isprintable() or len(name.encode()) > LONGEST_ID:
        raise RecordError(
            f"{what} is {name[:200]!r}, which files cannot be named after: at most {LONGEST_ID} bytes, without '/' and "
            "invisible characters"
        )


def check_places(record: AnyRecord) -> None:
    """RecordError where a task or a rollout that follows its schema names a place outside --data."""
    own, prefix = (record, "") if record.get("kind") == "task" else (record.get("task"), "task.")
    if isinstance(own, Mapping):
        task = cast(Task, own)
        if "id" in task:
            check_id(task["id"], f"{prefix}id")
        for what, name in _paths(task):
            check_inside(name, f"{prefix}{what}")
        for number, name in enumerate(task.get("data", {}).get("public", ())):
            if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
                raise RecordError(f"{prefix}data.public.{number} is {name[:200]!r}, which is no path inside the folder")
    if record.get("kind") == "rollout":
        for what, name in _submissions(cast(Rollout, record)):
            check_inside(name, what)


def _paths(task: Task) -> Iterator[tuple[str, str]]:
    """(field, path) of the folder of a task and of its files that no agent sees."""
    if "dir" in task.get("data", {}):
        yield "data.dir", task["data"]["dir"]
    for name in ("answers", "leaderboard", "public_leaderboard"):
        if name in task:
            yield name, task[name]
    metric = task.get("metric", {})
    if "file" in metric:
        yield "metric.file", metric["file"]
    for number, name in enumerate(metric.get("files", ())):
        yield f"metric.files.{number}", name


def _submissions(record: Rollout) -> Iterator[tuple[str, str]]:
    """(field, path) of the submissions that a rollout and its turns have."""
    holders: list[tuple[str, Rollout | Turn]] = [("", record)]
    holders += [(f"turns.{number}.", turn) for number, turn in enumerate(record["turns"])]
    for prefix, holder in holders:
        execution = holder.get("execution")
        if execution and (kept := execution.get("submission")):
            yield f"{prefix}execution.submission.file", kept["file"]
        if prefix and (own := cast(Turn, holder).get("submission")):
            yield f"{prefix}submission.file", own["file"]


GradedWith = Literal["answers", "leaderboard", "public_leaderboard"]
GRADED_WITH: tuple[GradedWith, ...] = ("answers", "leaderboard", "public_leaderboard")


def private_files(task: Grading) -> list[str]:
    """The files of a task's folder that grading reads, relative to it."""
    metric = task["metric"]
    named = [task[key] for key in GRADED_WITH if key in task]
    code = [metric["file"], *metric.get("files", [])] if "file" in metric else []
    return sorted({*named, *code})
