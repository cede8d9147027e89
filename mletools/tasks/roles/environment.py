"""The files that a generator script left: checked against the specification, and sorted into public and private.

Every fault is told in words that the writer of the script can act on. Not covered: leaks and learnability, which the
checks of every source find; running the script (developer).
"""

import codecs
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ...base.csv_files import CsvError, read_rows
from ...base.jsonl import loads
from ...records.task import Grading, Thresholds
from ..table import csv_bytes
from ..thresholds import NAMES, Threshold, ordered
from .asking import Faulty
from .replies import finite
from .specification import COLUMN, MOST_LABELS, Specification, submission_of

TRAIN, TEST, SAMPLE, ANSWERS, CEILING = TABLES = (
    "train.csv",
    "test.csv",
    "sample_submission.csv",
    "answer.csv",
    "ceiling_submission.csv",
)
SUBMISSIONS = (SAMPLE, ANSWERS, CEILING)
DUMMY, PERFECT = "the sample submission", "the answers"
# The submissions that the script itself left: {what faults call it: its file}.
HANDED_IN = {DUMMY: SAMPLE, PERFECT: ANSWERS, CEILING: CEILING}
THRESHOLDS = "threshold.json"
SECRET = (ANSWERS, CEILING, THRESHOLDS)
FOLDERS = ("images/", "audio/", "docs/", "graphs/")
NEEDED_FOLDER = {"image": "images/", "audio": "audio/"}
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".wav": b"RIFF"}
SHARE_OFF = 0.1  # of the asked number of samples, that a script may be off
TEST_SHARE = (0.15, 0.3)  # of the training rows
MOST_COLUMNS = 60
MOST_ROWS = 400
MOST_CELL = 20_000  # characters
_DECIMALS = 5


@dataclass(frozen=True)
class Sheet:
    """A table: the cells of each column as text, in the order of the file."""

    header: list[str]
    cells: dict[str, list[str]]

    @property
    def rows(self) -> int:
        return len(self.cells[self.header[0]])

    def with_cells(self, changed: dict[str, list[str]]) -> bytes:
        """The CSV file with other cells in some columns."""
        cells = {**self.cells, **changed}
        return csv_bytes(self.header, [cells[name] for name in self.header])

    def picked(self, order: list[int]) -> bytes:
        """The CSV file with these rows, in this order."""
        return csv_bytes(self.header, [[self.cells[name][at] for at in order] for name in self.header])


@dataclass(frozen=True)
class Environment:
    """The data of a task: all files by name, the tables among them read; `thresholds` are the script's own, rounded."""

    sheets: dict[str, Sheet]
    labels: list[str]
    thresholds: Thresholds
    files: dict[str, bytes]

    @property
    def answers(self) -> Sheet:
        return self.sheets[ANSWERS]

    @property
    def public(self) -> dict[str, bytes]:
        """By name below public/."""
        return {name: content for name, content in self.files.items() if name not in SECRET}

    def grading(self, wanted: Specification) -> Grading:
        """The record's submission, metric, answers and thresholds, for a metric that has a name."""
        return {
            "submission": submission_of(wanted.form, wanted.key, wanted.targets, self.labels, self.answers.rows),
            "metric": {"name": wanted.metric, "params": {}, "lower_is_better": wanted.lower_is_better},
            "answers": f"private/{ANSWERS}",
            "thresholds": self.thresholds,
        }


def read_environment(files: Mapping[str, bytes], wanted: Specification) -> Environment:
    """The environment in the files of a script. Faulty with the first thing that is wrong."""
    for name in (*TABLES, THRESHOLDS):
        if name not in files:
            raise Faulty(f"the script left no {name}")
    for name in sorted(files):
        if name not in (*TABLES, THRESHOLDS) and not name.startswith(FOLDERS):
            raise Faulty(
                f"{name} has no place here: besides {', '.join(TABLES)} and {THRESHOLDS}, {', '.join(FOLDERS)} only"
            )
    sheets = {name: read_sheet(name, files[name]) for name in TABLES}
    _columns(sheets, wanted)
    _rows(sheets, wanted)
    labels = _cells(sheets, wanted)
    _assets(files, [sheets[TRAIN], sheets[TEST]], wanted)
    if rows_of(sheets[SAMPLE]) == rows_of(sheets[ANSWERS]):
        raise Faulty(f"{SAMPLE} holds the answers: fill it with dummy predictions")
    return Environment(sheets, labels, _thresholds(files[THRESHOLDS], wanted), dict(files))


def read_sheet(name: str, content: bytes) -> Sheet:
    """The table in the bytes of the file `name`. Faulty says what is wrong with it."""
    if b"\0" in content or content.startswith(codecs.BOM_UTF8):
        raise Faulty(f"{name} holds NUL bytes or a byte order mark: write plain UTF-8")
    try:
        rows = list(read_rows(content))
    except CsvError as error:
        raise Faulty(f"{name} is {error}") from None
    if not rows or not rows[0]:
        raise Faulty(f"{name} has no header")
    header, *body = rows
    odd = next((column for column in header if not COLUMN.fullmatch(column)), None)
    if odd is not None:
        told = "write no index column" if not odd else "a letter, then letters, digits and _, at most 40"
        raise Faulty(f"{name}: the column name {odd[:80]!r} is refused: {told}")
    if len(set(header)) < len(header) or len(header) > MOST_COLUMNS:
        raise Faulty(f"{name} must have different columns, and at most {MOST_COLUMNS} of them")
    if not body or len(body) > MOST_ROWS:
        raise Faulty(f"{name} has {len(body)} rows")
    for at, row in enumerate(body, 2):
        if len(row) != len(header):
            raise Faulty(f"{name}: row {at} has {len(row)} cells, the header has {len(header)}")
        if any(len(cell) > MOST_CELL for cell in row):
            raise Faulty(f"{name}: row {at} has a cell of more than {MOST_CELL} characters: long texts go into docs/")
    return Sheet(header, {column: list(cells) for column, cells in zip(header, zip(*body, strict=True), strict=True)})


def rows_of(sheet: Sheet, without: str = "") -> set[tuple[str, ...]]:
    """The different rows of a sheet, without one of its columns."""
    return set(zip(*(sheet.cells[name] for name in sheet.header if name != without), strict=True))


def _columns(sheets: Mapping[str, Sheet], wanted: Specification) -> None:
    train, test = sheets[TRAIN], sheets[TEST]
    for name, sheet in ((TRAIN, train), (TEST, test)):
        if sheet.header[0] != wanted.key:
            raise Faulty(f"the first column of {name} must be {wanted.key}, not {sheet.header[0]}")
    for target in wanted.targets:
        if target not in train.header:
            raise Faulty(f"train.csv has no column {target}, the target")
    features = [name for name in train.header if name not in wanted.targets]
    if test.header != features:
        raise Faulty(
            f"test.csv must have the columns of train.csv but for the target, in their order: {', '.join(features)};"
            f" it has {', '.join(test.header)}"
        )
    if len(features) < 2:
        raise Faulty("there is no column to learn from beside the id")
    right = [wanted.key, *wanted.columns]
    for name in SUBMISSIONS:
        if sheets[name].header != right:
            raise Faulty(f"{name} must have the columns {', '.join(right)}, not {', '.join(sheets[name].header)}")


def _rows(sheets: Mapping[str, Sheet], wanted: Specification) -> None:
    train, test = sheets[TRAIN], sheets[TEST]
    total = train.rows + test.rows
    if abs(total - wanted.rows) > SHARE_OFF * wanted.rows:
        raise Faulty(f"train.csv and test.csv have {total} rows together, {wanted.rows} are asked for")
    low, high = TEST_SHARE
    if not low * train.rows <= test.rows <= high * train.rows:
        raise Faulty(f"test.csv has {test.rows} rows and train.csv {train.rows}: a fifth as many are asked for")
    ids = {name: sheet.cells[wanted.key] for name, sheet in sheets.items()}
    for name, cells in ids.items():
        if len(set(cells)) < len(cells) or "" in cells:
            raise Faulty(f"{name}: the column {wanted.key} must name every row, no two alike")
    if set(ids[TRAIN]) & set(ids[TEST]):
        raise Faulty("train.csv and test.csv share ids")
    for name in SUBMISSIONS:
        if set(ids[name]) != set(ids[TEST]):
            raise Faulty(f"the ids of {name} do not match those of test.csv")
    features = [name for name in test.header if name != wanted.key]
    known = set(zip(*(train.cells[name] for name in features), strict=True))
    shared = known & rows_of(test, wanted.key)
    if shared:
        raise Faulty(f"{len(shared)} row(s) of test.csv have the very features of a row of train.csv")


def _cells(sheets: Mapping[str, Sheet], wanted: Specification) -> list[str]:
    """Checks targets, answers and predictions; the labels of the target, of those forms that have any."""
    train, answers = sheets[TRAIN], sheets[ANSWERS]
    for name, columns in ((TRAIN, wanted.targets), *((name, wanted.columns) for name in SUBMISSIONS)):
        for column in columns:
            if wanted.form not in ("text", "tagset") and "" in sheets[name].cells[column]:
                raise Faulty(f"{name} has empty cells in {column}")
    truth = answers.cells[wanted.columns[0]]
    labels = sorted(set(train.cells[wanted.targets[0]]))
    if len(set(truth)) < 2:
        raise Faulty(f"all answers are the same, {truth[0]!r}: there is nothing to tell apart")
    if wanted.form in ("label", "probabilities"):
        if wanted.labels and not set(labels) <= set(wanted.labels):
            raise Faulty(
                f"train.csv has labels {', '.join(labels[:20])}; the specification has {', '.join(wanted.labels)}"
            )
        if len(labels) > MOST_LABELS:
            raise Faulty(f"the target has {len(labels)} labels; at most {MOST_LABELS} are accepted")
        known = labels if wanted.form == "label" else wanted.labels
        if wanted.form == "probabilities" and labels != sorted(known):
            raise Faulty("every label must stand in train.csv")
        for name in SUBMISSIONS if wanted.form == "label" else ():
            strange = sorted(set(sheets[name].cells[wanted.columns[0]]) - set(labels))
            if strange:
                raise Faulty(f"{name} has a label {strange[0]!r} that train.csv has not")
        labels = list(known)
    if wanted.form in ("number", "probability", "probabilities"):
        _numbers(sheets, wanted)
    return labels if wanted.form in ("label", "probabilities") else []


def _numbers(sheets: Mapping[str, Sheet], wanted: Specification) -> None:
    def values(name: str, columns: list[str]) -> list[list[float]]:
        try:
            found = [[float(cell) for cell in sheets[name].cells[column]] for column in columns]
        except ValueError as error:
            raise Faulty(f"{name}: {error}") from None
        if not all(math.isfinite(value) for column in found for value in column):
            raise Faulty(f"{name} has a number that is not finite")
        return found

    told = {name: values(name, wanted.columns) for name in SUBMISSIONS}
    if wanted.form == "number":
        values(TRAIN, wanted.targets)
        return
    truth = told[ANSWERS] + (values(TRAIN, wanted.targets) if wanted.form == "probability" else [])
    if any(value not in (0, 1) for column in truth for value in column):
        raise Faulty(f"the answers must be 0 or 1 in {', '.join(wanted.columns)}")
    for name, table in told.items():
        if any(not 0 <= value <= 1 for column in table for value in column):
            raise Faulty(f"{name} must hold probabilities from 0 to 1")
        if wanted.form == "probabilities" and any(abs(sum(row) - 1) > 1e-3 for row in zip(*table, strict=True)):
            raise Faulty(f"{name}: the columns {', '.join(wanted.columns)} must sum to 1 in every row")


def _assets(files: Mapping[str, bytes], tables: list[Sheet], wanted: Specification) -> None:
    names = [name for name in files if name.startswith(FOLDERS)]
    needed = NEEDED_FOLDER.get(wanted.modality)
    if needed and not any(name.startswith(needed) for name in names):
        raise Faulty(f"a task of {wanted.modality}s needs files in {needed}")
    for name in sorted(names):
        ending = re.sub(r".*(?=\.)", "", name).lower()
        if not files[name] or not files[name].startswith(SIGNATURES.get(ending, b"")):
            raise Faulty(f"{name} is empty or not the kind of file that its name says")
    for sheet in tables:
        for column in sheet.header:
            lost = next((cell for cell in sheet.cells[column] if cell.startswith(FOLDERS) and cell not in files), None)
            if lost is not None:
                raise Faulty(f"column {column} names {lost[:200]!r}, which the script did not write")


def _thresholds(content: bytes, wanted: Specification) -> Thresholds:
    try:
        value = loads(content)
    except ValueError as error:
        raise Faulty(f"{THRESHOLDS} is not JSON: {error}") from None
    numbers: dict[Threshold, float] = {}
    for name in NAMES:
        number = finite(value.get(f"{name}_threshold")) if isinstance(value, dict) else None
        if number is None:
            raise Faulty(f"{THRESHOLDS} has no number {name}_threshold")
        numbers[name] = round(number, _DECIMALS)
    found = cast(Thresholds, numbers)
    sign = -1 if wanted.lower_is_better else 1
    below = found["median"] - sign  # whatever is worse than the median: the dummy has no score yet
    if not ordered(below, found, wanted.lower_is_better):
        told = ", ".join(f"{name} {found[name]:g}" for name in NAMES)
        raise Faulty(f"the thresholds are not strictly ordered from median to gold ({wanted.direction}): {told}")
    return found
