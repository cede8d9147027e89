"""A table becomes a draft of a task: a metric, a held-out split, and the bytes of every file but the description.

Not covered: whether the draft is any good (baselines, checks) and its description (describe).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .table import Column, Rejected, Table, csv_bytes, shortest

METRICS = {
    "binary_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss", "auroc"),
    "multiclass_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss"),
    "regression": ("rmse", "mae", "r2"),
}
ID = "id"
TEST_SHARE = (0.25, 0.4)
# Fewer of a class say nothing about a solution.
FEWEST_OF_A_CLASS = 3


@dataclass(frozen=True)
class Draft:
    """One candidate task.

    `train_targets` are the target columns of train.csv; `submission` is that part of the record, whose targets are the
    same columns or, for log_loss, one probability a class. `train` and `test` hold row numbers of the table,
    `test_ids` the ids of the latter. `public` maps file names to bytes.
    """

    table: Table
    metric: str
    train_targets: list[Column]
    submission: dict[str, Any]
    train: list[int]
    test: list[int]
    test_ids: list[str]
    public: dict[str, bytes]
    answers: bytes


def make_draft(table: Table, draws: Any) -> Draft:
    """Draws metric, split and ids with the RandomState `draws`. Rejected when a class is too rare to be split."""
    menu = METRICS[table.problem]
    metric = menu[draws.randint(len(menu))]
    train, test = _split(table, draws)
    ids = _ids(len(train) + len(test), draws)
    targets, cells = _train_targets(table, metric)
    submission = _submission(table, metric, targets, len(test))
    features = [column.name for column in table.features]

    def rows(names: Sequence[str], source: dict[str, list[str]], order: list[int], row_ids: list[str]) -> bytes:
        return csv_bytes([ID, *names], [row_ids, *([source[name][at] for at in order] for name in names)])

    train_ids, test_ids = ids[: len(train)], ids[len(train) :]
    sample = _constant(table, metric, targets, [{name: cells[name][at] for name in cells} for at in train])
    answer_cells = _answer_cells(table, metric, cells)
    return Draft(
        table=table,
        metric=metric,
        train_targets=targets,
        submission=submission,
        train=train,
        test=test,
        test_ids=test_ids,
        public={
            "train.csv": rows([*features, *cells], {**table.cells, **cells}, train, train_ids),
            "test.csv": rows(features, table.cells, test, test_ids),
            "sample_submission.csv": csv_bytes(
                [ID, *submission["target"]], [test_ids, *([value] * len(test) for value in sample)]
            ),
        },
        answers=rows(submission["target"], answer_cells, test, test_ids),
    )


def submission_csv(draft: Draft, predictions: Any) -> bytes:
    """The submission that hands in `predictions`, an array of shape (test rows, labels) or (test rows, targets).

    For a classification they are class probabilities in the order of the table's labels.
    """
    labels = draft.table.labels
    if draft.submission["parse"] == "label":
        columns = [[labels[at] for at in predictions.argmax(axis=1)]]
    elif draft.metric == "auroc":
        columns = [[shortest(round(float(p), 6)) for p in predictions[:, labels.index(draft.table.positive)]]]
    else:
        columns = [[shortest(round(float(value), 6)) for value in column] for column in predictions.T]
    return csv_bytes([ID, *draft.submission["target"]], [draft.test_ids, *columns])


def read_csv(content: bytes, labels: bool = False) -> Any:
    """The DataFrame that a CSV holds; with `labels` every column but the id is text."""
    import io

    import pandas as pd

    header = content.split(b"\n", 1)[0].decode().split(",")
    types = {name: str for name in header if name != ID} if labels else None
    return pd.read_csv(io.BytesIO(content), dtype=types)


def _split(table: Table, draws: Any) -> tuple[list[int], list[int]]:
    """(train rows, test rows), both shuffled, no two rows with the same features; each class in its share in both."""
    seen = set()
    order = []
    for at in draws.permutation(table.rows):
        features = tuple(table.cells[column.name][at] for column in table.features)
        if features not in seen:
            seen.add(features)
            order.append(int(at))
    share = float(draws.uniform(*TEST_SHARE))
    groups: dict[str, list[int]] = {}
    for at in order:
        groups.setdefault(table.cells[table.targets[0].name][at] if table.labels else "", []).append(at)
    test = set()
    for label in sorted(groups):
        count = max(FEWEST_OF_A_CLASS, round(share * len(groups[label])))
        if len(groups[label]) - count < FEWEST_OF_A_CLASS:
            raise Rejected(f"only {len(groups[label])} rows are {label}")
        test.update(groups[label][:count])
    if table.labels and len(groups) < len(table.labels):
        raise Rejected(f"no row is {sorted(set(table.labels) - set(groups))[0]}")
    return [at for at in order if at not in test], [at for at in order if at in test]


def _ids(count: int, draws: Any) -> list[str]:
    """Different six-digit numbers in no order, so that an id tells nothing about its row."""
    return [str(100000 + number) for number in draws.permutation(900000)[:count]]


def _train_targets(table: Table, metric: str) -> tuple[list[Column], dict[str, list[str]]]:
    """The target columns of train.csv and their cells: the table's own, or 0/1 for a binary probability."""
    if metric != "auroc":
        return table.targets, {column.name: table.cells[column.name] for column in table.targets}
    target = table.targets[0]
    column = Column(
        f"is_{table.positive}", f"1 where {target.name} ({target.meaning}) is {table.positive}, else 0", "0 or 1"
    )
    return [column], {column.name: ["1" if cell == table.positive else "0" for cell in table.cells[target.name]]}


def _submission(table: Table, metric: str, targets: list[Column], rows: int) -> dict[str, Any]:
    names = [column.name for column in targets]
    if metric == "log_loss":
        names = [f"prob_{label}" for label in table.labels]
        return {"id": [ID], "target": names, "parse": "number", "range": [0, 1], "row_sum": 1, "rows": rows}
    if metric == "auroc":
        return {"id": [ID], "target": names, "parse": "number", "range": [0, 1], "rows": rows}
    if table.labels:
        return {"id": [ID], "target": names, "parse": "label", "labels": table.labels, "rows": rows}
    return {"id": [ID], "target": names, "parse": "number", "rows": rows}


def _answer_cells(table: Table, metric: str, cells: dict[str, list[str]]) -> dict[str, list[str]]:
    if metric != "log_loss":
        return cells
    truth = cells[table.targets[0].name]
    return {f"prob_{label}": ["1" if cell == label else "0" for cell in truth] for label in table.labels}


def _constant(table: Table, metric: str, targets: list[Column], train: list[dict[str, str]]) -> list[str]:
    """The constant prediction of every submission column: most frequent class, train mean, or uniform probability."""
    if metric == "log_loss":
        return [shortest(round(1 / len(table.labels), 6))] * len(table.labels)
    if metric == "auroc":
        return ["0.5"]
    if table.labels:
        counts = Counter(row[targets[0].name] for row in train)
        return [max(table.labels, key=lambda label: counts[label])]
    return [shortest(round(sum(float(row[column.name]) for row in train) / len(train), 4)) for column in targets]
