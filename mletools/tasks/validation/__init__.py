"""The validation view of a task: some of its training rows become rows to predict, graded and shown in a test score's place.

One run of a program on the view predicts both the test rows and the validation rows; a submission is taken apart by ids,
and each part is graded alone. A task can have several views, each with validation rows of its own. Covered: tasks whose
labels lie in a public table (labelled, answers), the files that their rows name (media). Not covered: other labels, rows that share all features but not an id (split), and
hiding from an agent that knows the task's public files which of the rows are which: it never has the labels of either,
but for those that another view of the task has in its train.csv.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import RecordError, data_advice
from ...records.places import GRADED_WITH
from ...records.task import Task
from ..folder import data_digest, private_digest, private_files, write_folder
from ..table import Rejected
from ..tree import listed, spelled_out
from .made import made_of
from .rows import Ids, ids_of, without

ANSWERS = "private/validation.csv"
ADVICE = "give --validation 0 to work without a validation score, or --reveal-test"
MOST_TRIED = 16 << 20  # bytes of tables and archives that validation_problem reads
SELECTION, WITHIN = "selection", "within"  # parts of a SplitView
_PART = re.compile("[a-z]+")


class NoValidation(RecordError):
    """No rows of a task can be held out; `reason` says why."""

    def __init__(self, task: str, reason: str):
        super().__init__(f"task {task}: no validation rows can be held out: {reason}: {ADVICE}")
        self.reason = reason


@dataclass(frozen=True)
class View:
    """A task's validation view on disk.

    `public` is what a sandbox shows as ./input. `task` is a record to grade validation predictions with, whose answers
    lie below `folder`; it has the task's thresholds and no leaderboard. `rows` counts the validation rows, or the groups
    where the submission has a row a group; the other fields are the ids and rows of the two answers files.
    """

    public: Path
    folder: Path
    task: Task
    rows: int
    validation_ids: Ids
    validation_rows: int
    test_ids: Ids
    test_rows: int

    def validation_part(self, content: bytes) -> bytes:
        """A submission without the rows of the test set, to be graded against `task`; other bytes stay as they are."""
        return without(content, self.task["submission"]["id"], self.test_ids.__contains__, self._most_rows)

    def test_part(self, content: bytes) -> bytes:
        """A submission without the validation rows, to be graded against the original task."""
        return without(content, self.task["submission"]["id"], self.validation_ids.__contains__, self._most_rows)

    @property
    def _most_rows(self) -> int:
        """A submission of more rows has too many in each part, by the graders' rule: it need not be taken apart."""
        spec = self.task["submission"]
        times = 1000 if spec.get("several_rows") or spec.get("extra_rows") == "ignore" else 2
        return times * (self.validation_rows + self.test_rows)


@dataclass(frozen=True)
class SplitView(View):
    """A view within a view: programs see neither the validation rows nor those of `outer`, the selection rows, and predict
    both with the test rows. The other fields are those of the inner view, whose test rows are the selection rows.
    """

    outer: View

    def validation_part(self, content: bytes) -> bytes:
        """See View."""
        return self._without(content, self.outer.test_ids, self.test_ids)

    def selection_part(self, content: bytes) -> bytes:
        """A submission with the selection rows alone, to be graded against `outer.task`."""
        return self._without(content, self.outer.test_ids, self.validation_ids)

    def test_part(self, content: bytes) -> bytes:
        """See View."""
        return self._without(content, self.test_ids, self.validation_ids)

    def _without(self, content: bytes, *ids: Ids) -> bytes:
        most = self._most_rows + self.outer._most_rows
        return without(content, self.task["submission"]["id"], lambda key: any(key in each for each in ids), most)


def split_view(task: Task, data: Path, fraction: float = 0.2) -> SplitView:
    """The view of `task` with selection rows held out, as many as validation_view would, and of the others the validation
    rows, the same share of them. NoValidation, ToolError: as validation_view.
    """
    outer = validation_view(task, data, fraction, SELECTION)
    return SplitView(**vars(validation_view(outer.task, data, fraction, WITHIN)), outer=outer)


def validation_view(task: Task, data: Path, fraction: float = 0.2, part: str = "") -> View:
    """The view of `task`, whose folder lies below `data`, with about `fraction` of its training rows or groups held out.

    Which ones depends on the task's id and on `part` alone. A part with a name, in small letters, holds out as many of
    each stratum as the one without, and none of its rows where a stratum has enough others (which half of it or less
    held out leaves); parts of different names may share rows. A view is written to data/views once; another call, also
    of another process at the same time, finds it. NoValidation where the task has no such view, ToolError where the
    folder cannot be written.
    """
    if part and not _PART.fullmatch(part):
        raise RecordError(f"a part of the validation rows is named in small letters, not {part!r}")
    if not 0 < fraction < 1:
        raise RecordError(f"the fraction of validation rows must lie between 0 and 1, not {fraction:g}")
    origin = data / task["data"]["dir"]
    try:
        public = spelled_out(origin / "public", task["data"]["public"])
        made = made_of(task, origin, public, fraction, part)
        shown = sorted({*public, *made.public} - made.gone)
        kept = [name for name in private_files(task) if name not in _left_out(task)]
        files = {
            **{f"public/{name}": made.public.get(name, origin / "public" / name) for name in shown},
            **{name: origin / name for name in kept},
            ANSWERS: made.answers,
        }
        place = f"views/{task['id']}-{fraction:g}{'-' if part else ''}{part}"
        write_folder(data / place, files)
    except Rejected as rejected:
        raise NoValidation(str(task["id"]), rejected.reason) from None
    except FileNotFoundError as error:
        raise RecordError(f"task {task['id']}: {error.filename}: {error.strerror}; {data_advice()}") from None
    folder = data / place
    record = task.copy()
    record.pop("leaderboard", None)
    record.pop("public_leaderboard", None)
    record["answers"], record["submission"] = ANSWERS, {**task["submission"], "rows": made.rows}
    record["data"] = {
        "dir": place,
        "public": listed(shown) if made.gone else list(task["data"]["public"]),
        "digest": data_digest(folder, shown, ANSWERS),
        "private_digest": private_digest(folder, record),
    }
    ours, theirs = made.validation_keys, made.test_keys
    return View(folder / "public", folder, record, made.rows, ids_of(ours), len(ours), ids_of(theirs), len(theirs))


def validation_problem(task: Task, data: Path) -> str | None:
    """Why the task has no validation view, without writing one; None: it has one, or is too large to be tried here."""
    origin = data / task["data"]["dir"]
    public = spelled_out(origin / "public", task["data"]["public"])
    read = [name for name in public if name.lower().endswith((".csv", ".zip"))]
    if sum((origin / "public" / name).stat().st_size for name in read) > MOST_TRIED:
        return None
    try:
        made_of(task, origin, public, 0.2)
    except Rejected as rejected:
        return rejected.reason
    return None


def _left_out(task: Task) -> set[str]:
    """The private files that a view has not: the answers to the test set and the leaderboards."""
    return {task[key] for key in GRADED_WITH if key in task}


__all__ = ["NoValidation", "SplitView", "View", "split_view", "validation_problem", "validation_view"]
