"""Submissions to a task that are known to be good: they tell a metric that fails on a file from one that is broken.

Covered: the sample submission among the public files, the answers where they have the form of a submission. In a
validation view the sample has rows of the test set, too, which are left out. Not covered: how they score.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..base.csv_files import CsvError, read_columns
from ..base.errors import ToolError
from ..records.sample import is_sample
from ..records.task import Grading, Task
from .folder import Content
from .importing import columns as tables
from .importing.columns import written
from .table import Rejected
from .validation.rows import ids_of, without

MOST_BYTES = 64 << 20  # of a file that is read here
SAMPLE, ANSWERS = "the sample submission", "the answers"


def sample_of(folder: Path) -> bytes | None:
    """The sample submission of the task in `folder`, None where there is none. ToolError: it cannot be read."""
    public = folder / "public"
    names = sorted(path.name for path in public.iterdir() if is_sample(path.name)) if public.is_dir() else []
    return bytes_up_to_limit(public / names[0]) if names else None


def bytes_up_to_limit(path: Path) -> bytes | None:
    """The bytes of a file, None where it is too large. ToolError: it cannot be read."""
    try:
        return path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def submissions(task: Task, folder: Path) -> Iterator[tuple[str, bytes]]:
    """(what it is, its bytes) of each submission that any metric of this task ought to score."""
    sample, answers = sample_of(folder), bytes_up_to_limit(folder / task["answers"])
    if sample is not None:
        answered = sample if answers is None else _answered(sample, answers, task["submission"]["id"])
        for each in dict.fromkeys((answered, sample)):
            yield SAMPLE, each
    if answers is not None:
        try:
            content = perfect_submission(task, answers)
        except (CsvError, Rejected):
            return
        if content is not None:
            yield ANSWERS, content


def _answered(sample: bytes, answers: bytes, ids: list[str]) -> bytes:
    """The rows of the sample whose ids the answers have; all of it where the answers do not tell."""
    try:
        columns = read_columns(answers)
    except CsvError:
        return sample
    if not set(ids) <= columns.keys():
        return sample
    known = ids_of(list(zip(*(columns[name] for name in ids), strict=True)))
    return without(sample, ids, lambda key: key not in known, len(sample))


def perfect_submission(given: Grading, answers: Content) -> bytes | None:
    """The submission that hands in the answers as the grader compares them, None where the two look different."""
    submission = given["submission"]
    theirs = given.get("answer_target", submission["target"])
    differ = [key for key in given if key.startswith("answer_") and key != "answer_target"]
    if differ or submission.get("several_rows") or len(theirs) != len(submission["target"]):
        return None
    columns = tables.read_columns(answers) if isinstance(answers, Path) else read_columns(answers)
    for name in (*submission["id"], *theirs):
        if name not in columns:
            raise Rejected(f"the answers have no column {name!r}; they have {', '.join(map(repr, list(columns)[:10]))}")
    cells = {name: columns[name] for name in submission["id"]}
    for name, source in zip(submission["target"], theirs, strict=True):
        # rows that do not count may have no answer; a submission needs some prediction
        filler = "" if submission.get("empty_ok") else next((cell for cell in columns[source] if cell), "")
        cells[name] = [cell or filler for cell in columns[source]]
    if "row_sum" in submission:
        _as_shares(cells, submission["target"], submission["row_sum"])
    return written(cells, list(cells))


def _as_shares(cells: dict[str, list[str]], names: Sequence[str], total: float) -> None:
    """The targets of each row made to sum to `total`, in place: answers may be votes where shares of them are predicted."""
    for at, row in enumerate(zip(*(cells[name] for name in names), strict=True)):
        try:
            values = [float(cell) for cell in row]
            shares = [total * value / sum(values) for value in values]
        except (ValueError, ZeroDivisionError):
            continue  # grading says what is wrong with it
        for name, share in zip(names, shares, strict=True):
            cells[name][at] = repr(share)
