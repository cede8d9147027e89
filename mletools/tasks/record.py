"""The last steps of every task, made or imported: thresholds from baselines, digests, the folder, the record.

Not covered: where the files come from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..grading import score_bytes
from ..records.ids import content_id
from .baselines import libraries, make_board
from .draft import TaskDraft
from .folder import Content, content_digest, private_files, write_folder
from .soundness.case import Case
from .thresholds import pick_thresholds
from .tree import listed


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
    grading: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @property
    def files(self) -> dict[str, Content]:
        """The contents of the task's folder by name, public/description.md among them."""
        public: dict[str, Content] = {**self.public, "description.md": self.description.encode()}
        return {**{f"public/{name}": content for name, content in public.items()}, **self.private}

    def case(self, score: Callable[[bytes], float]) -> Case:
        """What the checks look at; `score` is that of a submission."""
        record = {"description": self.description, "provenance": self.provenance, **self.grading}
        return Case(record, self.files, score)


def rate(
    draft: TaskDraft, seed: int, lower_is_better: bool
) -> tuple[list[dict[str, Any]], dict[str, float], dict[str, str]]:
    """(baselines with their scores, thresholds out of these, the libraries they depend on). Rejected without enough."""
    board = make_board(draft, partial(score_bytes, draft.grading, draft.answers), seed)
    dummy = board.ladder[0]["score"]
    thresholds = pick_thresholds(dummy, [score for _, score in board.teams], lower_is_better)
    return board.baselines, thresholds, libraries()


def finish(
    parts: Parts, data: Path, identity: tuple[Any, ...], check: Callable[[Mapping[str, Any]], None] | None = None
) -> dict[str, Any]:
    """Writes the folder of a task below `data` and returns its record, with an empty lineage.

    The id is made of `identity` and the digest of the files; `check` sees the record before anything is written.
    OSError when a file cannot be read, ToolError when the folder cannot be written.
    """
    record = record_of(parts, identity)
    if check is not None:
        check(record)
    write_folder(data / record["data"]["dir"], parts.files)
    return record


def record_of(parts: Parts, identity: tuple[Any, ...], task: str = "", folder: str = "") -> dict[str, Any]:
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
        "provenance": dict(parts.provenance),
    }
