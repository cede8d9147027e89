"""Which tasks of two sets are the same, or hold the same data, so that who is trained on one knows the other.

Covered: equal ids; renamed copies, by the digests of data and answers; another split of one public table or
competition; another import of one's own table or folder. Not covered: data that were changed, and generated tasks that
are merely alike (mle-filter --tasks finds those).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


def task_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task of a rollout, or the task that the record is."""
    task: Mapping[str, Any] = record if record["kind"] == "task" else record["task"]
    return task


def marks(task: Mapping[str, Any]) -> Iterator[Mark]:
    """What no other task shares with this one unless both have the same data."""
    yield SAME, task["id"]
    data, provenance = task.get("data") or {}, task.get("provenance") or {}
    for name, words in (("digest", "the same data"), ("private_digest", "the same answers")):
        if data.get(name):
            yield words, data[name]
    source = str(provenance.get("source", ""))
    if provenance.get("competition"):
        yield "the same competition", str(provenance["competition"])
    elif provenance.get("answers_public"):
        yield "the same table", source
    elif ":" in source:  # of one's own; the name alone may be that of another table
        submission = task.get("submission") or {}
        columns = [*submission.get("id", ()), *submission.get("target", ())]
        yield "the same source", ", ".join([source, *columns])


@dataclass
class KnownTasks:
    """Tasks by their marks; of several that share a mark the first counts."""

    _by_mark: dict[Mark, tuple[str, str]] = field(default_factory=dict)

    def add(self, task: Mapping[str, Any], file: str) -> None:
        for mark in marks(task):
            self._by_mark.setdefault(mark, (task["id"], file))

    def overlap(self, task: Mapping[str, Any]) -> Overlap | None:
        """The known task that this one is, or shares its data with."""
        for mark in marks(task):
            if mark in self._by_mark:
                return Overlap(task["id"], *self._by_mark[mark], mark[0])
        return None
