"""The last steps of every task, made or imported: thresholds from baselines, digests, the folder, the record.

Not covered: where the files come from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from ..base.ids import content_id
from ..grading import score_bytes
from ..records.task import Baseline, Grading, Provenance, Task, Thresholds
from .baselines import libraries, make_board
from .draft import TaskDraft
from .folder import Content, content_digest, private_files, write_folder
from .soundness.case import Case, Checked
from .thresholds import pick_thresholds
from .tree import listed


class Cost(TypedDict):
    """The replies of a model, and what they cost; a sum is None where one of its parts is not known."""

    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    usd: float | None


class AttemptNote(TypedDict):
    """An attempt of a model in a role, and why its reply could not be used (None: it could)."""

    role: str
    attempt: int
    error: str | None


class Origin(Provenance, total=False):
    """The provenance of a task, with what only its maker notes there."""

    index: int
    attempt: int
    trained_with: dict[str, str]
    answers_from: str
    held_out: int
    of_rows: int
    positive: str
    left_out: list[str]
    rows_without_target: int
    read_as: list[str]
    seed_task: str
    specification: dict[str, object]
    attempts: list[AttemptNote]
    cost: Cost
    cost_by_role: dict[str, Cost]
    seed_cost: Cost


@dataclass(frozen=True)
class Parts:
    """A task that is not yet on disk.

    `public` are contents by name below public/, `private` by name below the task's folder (private/answers.csv);
    `grading` holds the record's submission, metric, answers and what goes with them.
    """

    name: str
    description: str
    modality: str
    problem: str
    public: Mapping[str, Content]
    private: Mapping[str, Content]
    grading: Grading
    provenance: Origin

    @property
    def files(self) -> dict[str, Content]:
        """The contents of the task's folder by name, public/description.md among them."""
        public: dict[str, Content] = {**self.public, "description.md": self.description.encode()}
        return {**{f"public/{name}": content for name, content in public.items()}, **self.private}

    def case(self, score: Callable[[bytes], float]) -> Case:
        """What the checks look at; `score` is that of a submission."""
        record: Checked = {"description": self.description, "provenance": self.provenance, **self.grading}
        return Case(record, self.files, score)


def rate(draft: TaskDraft, seed: int, lower_is_better: bool) -> tuple[list[Baseline], Thresholds, dict[str, str]]:
    """(baselines with their scores, thresholds out of these, the libraries they depend on). Rejected without enough."""
    board = make_board(draft, partial(score_bytes, draft.grading, draft.answers), seed)
    dummy = board.ladder[0]["score"]
    thresholds = pick_thresholds(dummy, [score for _, score in board.teams], lower_is_better)
    return board.baselines, thresholds, libraries()


def finish(
    parts: Parts, data: Path, identity: tuple[str | int, ...], check: Callable[[Task], None] | None = None
) -> Task:
    """Writes the folder of a task below `data` and returns its record, with an empty lineage.

    The id is made of `identity` and the digest of the files; `check` sees the record before anything is written.
    OSError when a file cannot be read, ToolError when the folder cannot be written.
    """
    record = record_of(parts, identity)
    if check is not None:
        check(record)
    write_folder(data / record["data"]["dir"], parts.files)
    return record


def record_of(parts: Parts, identity: tuple[str | int, ...], task: str = "", folder: str = "") -> Task:
    """The record of a task, with an empty lineage.

    The id is `task`, or made of `identity` and the digest of the files; `folder`, relative to --data, is by default
    named after the id. OSError when a file cannot be read.
    """
    files = parts.files
    public = [name.removeprefix("public/") for name in files if name.startswith("public/")]
    answers = parts.grading["answers"]
    digest = content_digest({name: files[name] for name in files if name.startswith("public/") or name == answers})
    task = task or f"{parts.name}-{content_id(*identity, digest)}"
    return {
        "kind": "task",
        "version": 1,
        "id": task,
        "lineage": [],
        "name": parts.name,
        "description": parts.description,
        "modality": parts.modality,
        "problem": parts.problem,
        "data": {
            "dir": folder or f"tasks/{task}",
            "public": listed(public),
            "digest": digest,
            "private_digest": content_digest({name: files[name] for name in private_files(parts.grading)}),
        },
        **parts.grading,
        "provenance": parts.provenance.copy(),
    }
