"""What the checks of a task are given: its record, its files, and two ways to try it out.

Not covered: how a score comes about and where a solution runs, which are arguments.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...base.errors import RecordError, ToolError, data_advice
from ...records.task import Grading, Provenance, Task
from ..folder import Content, content_digest, private_files
from ..table import Rejected
from ..tree import files_below, spelled_out


class Checked(Grading):
    """What the checks read of a task's record."""

    description: str
    provenance: Provenance


class Skipped(Exception):
    """The check does not apply to this task; the text says why."""


@dataclass(frozen=True)
class Trial:
    """A standard solution ran: how it ended ("ok" or what went wrong), its score (None without one), its seconds."""

    status: str
    score: float | None
    reason: str
    duration_s: float
    limit_s: float


class Trials(Protocol):
    """Runs standard solutions in a sandbox; see tasks.trials."""

    def can_solve(self, task: Task) -> bool:
        """Whether there is a standard solution for a task."""
        ...

    def __call__(
        self,
        task: Task,
        public: Mapping[str, bytes],
        answers: bytes,
        score: Callable[[bytes], float] | None = None,
    ) -> Trial:
        """How a run on the public files ended; its score by `score`, else by the task's named metric."""
        ...


@dataclass(frozen=True)
class Case:
    """A task before its checks.

    `files` are all files of the task's folder by name ("public/train.csv", "private/answers.csv"). `score` is that of a
    submission's bytes, ValueError where it has none. `trial` runs a standard solution in a sandbox, None: not tried.
    """

    task: Checked
    files: Mapping[str, Content]
    score: Callable[[bytes], float]
    trial: Callable[[], Trial] | None = None


def read_case(task: Task, data: Path, score: Callable[[bytes], float]) -> Case:
    """The case of a task whose folder lies below `data`; links that lead out of the folder are not followed.

    RecordError when a file is missing, public/ holds a hidden one, or the folder is not the recorded one.
    """
    folder = data / task["data"]["dir"]
    advice = data_advice()
    if not folder.is_dir():
        raise RecordError(f"{folder}: no such folder; {advice}")
    try:
        files = files_below(folder, folder)
        files_below(folder / "public", folder, in_place=True)
        public = [f"public/{name}" for name in spelled_out(folder / "public", task["data"]["public"])]
        graded = private_files(task)
        missing = [name for name in (*public, *graded) if name not in files]
        if missing:
            raise RecordError(f"{folder / missing[0]}: no such file; {advice}")
        for key, digest, names in (
            ("digest", task["data"]["digest"], [*public, task["answers"]]),
            ("private_digest", task["data"]["private_digest"], graded),
        ):
            if content_digest({name: files[name] for name in names}) != digest:
                raise RecordError(
                    f"{folder}: the files are not those of the task record (data.{key} differs); {advice}"
                )
    except Rejected as rejected:
        raise RecordError(f"{folder}: {rejected.reason}; {advice}") from None
    except OSError as error:
        raise ToolError(f"{error.filename or folder}: {error.strerror}") from error
    return Case(task, dict(files), score)
