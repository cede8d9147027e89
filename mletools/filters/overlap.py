"""Which tasks of two sets are the same, or hold the same data, so that who is trained on one knows the other.

Covered: equal ids; renamed copies, by the digests of data and answers; another split of one public table or
competition; another import of one's own table or folder. Not covered: data that were changed, and generated tasks that
are merely alike (mle-filter --tasks finds those).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..records.rollout import Rollout
from ..records.task import Task

Mark = tuple[str, str]  # what two tasks share, in words, and its value


class Overlap(NamedTuple):
    """A task that is known already: its id, the id and file of the known one, and what they share, in words."""

    task: str
    known: str
    file: str
    shared: str

    @property
    def why(self) -> str:
        """`the same id`, or `the same data as wine-1`."""
        return self.shared if self.shared == SAME else f"{self.shared} as {self.known}"


SAME = "the same id"


def task_of(record: Task | Rollout) -> Task:
    """The task of a rollout, or the task that the record is."""
    return record if record["kind"] == "task" else record["task"]


def marks(task: Task) -> Iterator[Mark]:
    """What no other task shares with this one unless both have the same data."""
    yield SAME, task["id"]
    data, provenance, submission = task["data"], task["provenance"], task["submission"]
    for digest, words in ((data["digest"], "the same data"), (data["private_digest"], "the same answers")):
        if digest:
            yield words, digest
    source = provenance["source"]
    if provenance.get("competition"):
        yield "the same competition", provenance["competition"]
    elif provenance.get("answers_public"):
        yield "the same table", source
    elif ":" in source:  # of one's own; the name alone may be that of another table
        yield "the same source", ", ".join([source, *submission["id"], *submission["target"]])


@dataclass
class KnownTasks:
    """Tasks by their marks; of several that share a mark the first counts."""

    _by_mark: dict[Mark, tuple[str, str]] = field(default_factory=dict)

    def add(self, task: Task, file: str) -> None:
        for mark in marks(task):
            self._by_mark.setdefault(mark, (task["id"], file))

    def overlap(self, task: Task) -> Overlap | None:
        """The known task that this one is, or shares its data with."""
        for mark in marks(task):
            if mark in self._by_mark:
                return Overlap(task["id"], *self._by_mark[mark], mark[0])
        return None
