"""Holds out rows of somebody's table, and makes the draft that baselines are trained on.

Not covered: the draws of tables that are made here (draft).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from ...grading import metrics
from ...records.task import Scoring
from ..baselines import MOST_TRAINED_ON
from ..draft import TaskDraft
from ..forms import Form, constant_cells, form_of
from ..record import Parts
from ..table import MISSING, Column, Rejected
from .columns import Columns, features_of, is_number, labels_of, read_columns, written
from .declare import MOST_LABELS

MOST_BASELINE_BYTES = 200 << 20


def complete_rows(columns: Columns, targets: Sequence[str], missing: AbstractSet[str]) -> list[int]:
    """The rows whose targets are all there; `missing` are cells without one."""
    rows = zip(*(columns[name] for name in targets), strict=True)
    return [at for at, cells in enumerate(rows) if missing.isdisjoint(cells)]


def strata_of(columns: Columns, targets: Sequence[str], rows: Sequence[int], form: str) -> Sequence[str]:
    """The stratum of each row: its label, where there is one target of few labels among `rows`; else none."""
    if form == "number" or len(targets) != 1 or len({columns[targets[0]][at] for at in rows}) > MOST_LABELS:
        return []
    return columns[targets[0]]


def equal_rows(
    features: Sequence[Hashable], targets: Iterable[Sequence[str]], rows: Sequence[int]
) -> tuple[Sequence[Hashable], list[str]]:
    """(the group of each row, what to tell): of `rows`, those that share all features and all targets stay together.

    `features` are all features of each row, `targets` its columns. Where rows of the same features have other targets, as
    in a trial of few doses, rows are drawn one by one: there are no groups.
    """
    counts = Counter(features[at] for at in rows)
    several = [count for count in counts.values() if count > 1]
    if not several:
        return features, []
    known = list(zip(*targets, strict=True))
    if len({(features[at], known[at]) for at in rows}) > len(counts):
        return [], ["rows with the same features have different targets: rows are held out one by one"]
    counted = "a group" if len(several) == 1 else f"{len(several)} groups"
    return features, [f"{sum(several)} rows are in {counted} of equal rows: those of a group stay together"]


def draft_of(
    train: Columns,
    test: Columns,
    targets: Sequence[str],
    form: str,
    given: Scoring,
    answers: bytes,
    missing: AbstractSet[str],
) -> TaskDraft:
    """The draft for baselines: features are the columns of both tables. Rejected where none can be trained.

    `targets` are columns of `train`, `missing` their cells without a value; `given` is the grading part of the record.
    """
    import numpy as np

    if form == "other":
        raise Rejected(f"baselines do not predict {given['submission']['parse']}")
    absent = [name for name in targets if name not in train]
    if absent:
        raise Rejected(f"train.csv has no column {absent[0]!r}")
    if form != "number" and len(targets) > 1:
        raise Rejected("baselines predict one column of labels only")
    (key,) = given["submission"]["id"] if len(given["submission"]["id"]) == 1 else [""]
    if key not in test:
        raise Rejected("test.csv has no id column")
    rows = complete_rows(train, targets, missing)
    rows = rows[:: max(1, -(-len(rows) // MOST_TRAINED_ON))]
    cells = {name: [train[name][at] for at in rows] for name in targets}
    if not rows or (form == "number" and not all(map(is_number, cells.values()))):
        raise Rejected("the targets in train.csv are no numbers")
    labels = [] if form == "number" else labels_of(cells[targets[0]])
    if labels and form == "probabilities":
        if set(labels) != set(given["submission"]["target"]):
            raise Rejected("train.csv has other labels than the submission has columns")
        labels = list(given["submission"]["target"])
    if labels and (len(labels) < 2 or len(labels) > MOST_LABELS or (form == "probability" and len(labels) > 2)):
        raise Rejected(f"column {targets[0]!r} of train.csv has {len(labels)} labels")
    shared = {name: train[name] for name in test if name in train}
    features = features_of(shared, [key, *targets])
    names = [column.name for column in features]
    y = [[float(labels.index(cell)) if labels else float(cell) for cell in column] for column in cells.values()]
    return TaskDraft(
        name="",
        modality="",
        problem="",
        form=Form(form, list(targets), labels, key, names=given["submission"]["target"]),
        submission=given["submission"],
        metric=given["metric"],
        public={
            "train.csv": written(train, [*names, *targets], rows),
            "test.csv": written(test, names),
            "sample_submission.csv": constant_file(
                given["metric"]["name"], form, labels, cells, test[key], [key, *given["submission"]["target"]]
            ),
        },
        answers=answers,
        features=features,
        targets=[Column(name, "") for name in targets],
        y=np.array(y).T,
        test_ids=test[key],
    )


def constant_file(
    metric: str,
    form: str,
    labels: Sequence[str],
    cells: Mapping[str, Sequence[str]],
    ids: Sequence[str],
    header: Sequence[str],
) -> bytes:
    """A submission with the columns `header`, the id first, that predicts a constant of the training `cells`.

    For a metric without a value for constants: the numbers of the rows.
    """
    if form == "number" and metrics.find(metric).constant_is_undefined:
        numbers = [str(at) for at in range(1, len(ids) + 1)]
        return written({header[0]: ids, **dict.fromkeys(header[1:], numbers)}, header)
    values = constant_cells(form, labels, cells)
    constant = {name: [value] * len(ids) for name, value in zip(header[1:], values, strict=True)}
    return written({header[0]: ids, **constant}, header)


def draft_of_parts(parts: Parts, target: str | None) -> TaskDraft:
    """The draft for baselines out of train.csv and test.csv among a task's public files. Rejected where they are not.

    `target` is the column of labels in train.csv, where the submission has one column a class.
    """
    given = parts.grading
    if "file" in given["metric"]:
        raise Rejected("its metric is code")
    if set(given["metric"]) - {"name", "params", "lower_is_better", "score_round"} or any(
        key.startswith("answer_") for key in given
    ):
        raise Rejected("baselines are made where answers and predictions look alike")
    for name in ("train.csv", "test.csv"):
        if name not in parts.public:
            raise Rejected(f"there is no {name}")
    tables = []
    for name in ("train.csv", "test.csv"):
        path = parts.public[name]
        if isinstance(path, bytes) or path.stat().st_size > MOST_BASELINE_BYTES:
            raise Rejected(f"{name} has more than {MOST_BASELINE_BYTES >> 20} MB")
        tables.append(read_columns(path))
    train, test = tables
    form = form_of(given["metric"]["name"], [given["submission"]["parse"]], ())
    targets = given["submission"]["target"]
    if form == "probabilities" and len(targets) == 1:
        form = "probability"
    answers = parts.private[given["answers"]]
    content = answers.read_bytes() if isinstance(answers, Path) else answers
    named = [target] if form == "probabilities" and target else targets
    if metrics.find(given["metric"]["name"]).ordered_classes:
        form = "label"
    missing = MISSING - {*given["submission"].get("labels", targets)}
    return draft_of(train, test, named, form, given, content, missing)
