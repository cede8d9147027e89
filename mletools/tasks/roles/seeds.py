"""Seed tasks: records of any source with their public files, in the likeness of which others are made.

Not covered: what of them a model is shown (strategist). Private files are never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ...base.errors import RecordError, ToolError
from ...base.jsonl import read_files
from ...records import schema
from ...records.task import Task
from ..tree import spelled_out


@dataclass(frozen=True)
class Seed:
    """A task to take after, and its public files by name."""

    task: Task
    files: dict[str, Path]


def read_seeds(paths: Sequence[str], data: Path) -> list[Seed]:
    """The tasks in files of records, or in the *.jsonl files of folders; one that comes again is left out.

    Their folders lie beside the file of records or below `data`. ToolError names what is missing or no task.
    """
    found: dict[str, Seed] = {}
    for path in map(Path, paths):
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise ToolError(f"{path}: no *.jsonl file of task records in it")
        for line in read_files([str(file) for file in files]):
            problem = line.problem
            if problem is None and path.is_dir() and line.record.get("kind") != "task":
                continue  # a folder may hold what became of the tasks, too
            if problem is None:
                try:
                    schema.check(line.record, "task")
                except RecordError as error:
                    problem = str(error)
            if problem is not None:
                raise ToolError(f"{line.place}: {problem}")
            task = cast(Task, line.record)
            if task["id"] not in found:
                found[task["id"]] = Seed(task, _public_files(task, line.place, files[0].parent, data))
    if not found:
        raise ToolError(f"--seeds: no task in {', '.join(paths)}")
    return list(found.values())


def _public_files(task: Task, place: str, beside: Path, data: Path) -> dict[str, Path]:
    for root in (beside, data):
        public = root / task["data"]["dir"] / "public"
        if public.is_dir():
            names = spelled_out(public, task["data"]["public"])
            return {name: public / name for name in names if (public / name).is_file()}
    raise ToolError(f"{place}: the task's folder {task['data']['dir']} lies neither in {beside} nor in {data}")
