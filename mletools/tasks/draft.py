"""A table becomes a draft of a task: a metric, a held-out split, and the bytes of every file but the description.

Not covered: whether the draft is any good (baselines, checks) and its description (describe).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .folder import Content
from .forms import Form
from .table import Column, Rejected, Table, csv_bytes, shortest

METRICS = {
    "binary_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss", "auroc"),
    "multiclass_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss"),
    "regression": ("rmse", "mae", "r2"),
}
TEST_SHARE = (0.25, 0.4)
# Fewer of a class say nothing about a solution.
FEWEST_OF_A_CLASS = 3
# What a prediction is: a class, a number, the probability of the positive class, one probability a class, or else.
FORMS = ("label", "number", "probability", "probabilities", "other")
# Metrics that read numbers which are probabilities of a class; the rest of those that read numbers are of regression.
EACH_PROBABILITY = {"auroc", "weighted_auroc", "average_precision", "brier_score", "gini", "probabilistic_f1"}
EACH_PROBABILITY |= {"multilabel_log_loss"}
JOINT_PROBABILITY = {"log_loss", "balanced_log_loss"}
# Numbers in name, but of classes in an order.
GRADES = {"quadratic_weighted_kappa"}


def form_of(metric: str, reads: Sequence[str], labels: Sequence[str]) -> str:
    """Which of FORMS a metric asks for that reads cells of the kinds `reads`, of a target with these labels."""
    if metric in JOINT_PROBABILITY:
        return "probabilities"
    if metric in EACH_PROBABILITY:
        return "probability"
    if "label" in reads or (metric in GRADES and labels):
        return "label"
    return "number" if "number" in reads else "other"


@dataclass(frozen=True)
class TaskDraft:
    """A task before its thresholds and its description, whatever its source.

    `public` are the public files but description.md by name, `answers` the private ones; `submission` and `metric` are
    those parts of the record. `features` are the columns of train.csv and test.csv beside the id, `targets` the target
    columns of train.csv. `y` are the targets of the rows of train.csv in its order, see forms. `train_queries` and
    `test_queries` are the rows' queries of a ranking, else empty. `views` are features as numbers, by the name of the
    view: a pair of train and test, each of shape (rows, k), or (rows, units, k) for a target of units; without any they
    are made from the files. `known` are the predictions for the test rows of one who knows the rule, None if nobody does.
    """

    name: str
    modality: str
    problem: str
    form: Form
    submission: dict[str, Any]
    metric: dict[str, Any]
    public: dict[str, Content]
    answers: Content
    features: list[Column]
    targets: list[Column]
    y: Any
    train_ids: list[str]
    test_ids: list[str]
    train_queries: list[str] = field(default_factory=list)
    test_queries: list[str] = field(default_factory=list)
    views: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    known: Any = None

    @property
    def grading(self) -> dict[str, Any]:
        """What a score needs of the record."""
        return {"submission": self.submission, "metric": self.metric}

    def hand_in(self, predictions: Any) -> bytes:
        """The submission that hands in predictions for the test rows, in their order, see forms.

        Numbers are kept within the range of train.csv, unless they are compared within a query.
        """
        import numpy as np

        if self.form.kind == "number" and not self.test_queries:
            predictions = np.clip(predictions, self.y.min(), self.y.max())
        return self.form.csv(self.test_ids, predictions, self.test_queries)


@dataclass(frozen=True)
class Wanted:
    """What an import asks of its draft instead of drawing it: the metric, the form, and the rows of the split."""

    metric: str
    params: dict[str, Any]
    form: str
    parse: str
    train: list[int]
    test: list[int]


@dataclass(frozen=True)
class Draft:
    """One candidate task.

    `form` is one of FORMS. `train_targets` are the target columns of train.csv; `submission` is that part of the
    record, whose targets are the same columns or one probability a class. `train` and `test` hold row numbers of the
    table, `test_ids` the ids of the latter. `public` maps file names to bytes.
    """

    table: Table
    metric: str
    form: str
    train_targets: list[Column]
    submission: dict[str, Any]
    train: list[int]
    test: list[int]
    test_ids: list[str]
    public: dict[str, bytes]
    answers: bytes
    train_ids: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def grading(self) -> dict[str, Any]:
        """What a score needs of the record."""
        return {"submission": self.submission, "metric": {"name": self.metric, "params": self.params}}

    @property
    def task_draft(self) -> TaskDraft:
        """The draft in the form that all sources share."""
        import numpy as np

        labels = list(self.table.labels)
        if self.form == "probability" and self.table.positive == labels[0]:
            labels.reverse()
        names = [column.name for column in self.train_targets]
        cells = [[self.table.cells[column.name][at] for at in self.train] for column in self.table.targets]
        y = [[float(labels.index(cell)) if labels else float(cell) for cell in column] for column in cells]
        return TaskDraft(
            name=self.table.name,
            modality="tabular",
            problem=self.table.problem,
            form=Form(self.form, names, labels, self.table.id_name),
            submission=self.submission,
            metric=self.grading["metric"],
            public=dict(self.public),
            answers=self.answers,
            features=self.table.features,
            targets=self.train_targets,
            y=np.array(y).T,
            train_ids=self.train_ids,
            test_ids=self.test_ids,
        )


def make_draft(table: Table, rng: Any, wanted: Wanted | None = None) -> Draft:
    """Draws metric, split and ids with the RandomState `draws`, but for what is `wanted`.

    Rejected when a class is too rare to be split.
    """
    if wanted is None:
        menu = METRICS[table.problem]
        metric = menu[rng.randint(len(menu))]
        train, test = _split(table, rng)
        form = form_of(metric, ["label"] if table.labels else ["number"], table.labels)
        wanted = Wanted(metric, {}, form, "label" if form == "label" else "number", train, test)
    train, test, form = wanted.train, wanted.test, wanted.form
    key = table.id_name
    ids = [table.ids[at] for at in (*train, *test)] if table.ids else make_ids(len(train) + len(test), rng)
    targets, cells = _train_targets(table, form)
    names = [column.name for column in targets]
    submission = submission_part([key], names, form, wanted.parse, table.labels, len(test))
    features = [column.name for column in table.features]

    def rows(names: Sequence[str], source: dict[str, list[str]], order: list[int], row_ids: list[str]) -> bytes:
        return csv_bytes([key, *names], [row_ids, *([source[name][at] for at in order] for name in names)])

    train_ids, test_ids = ids[: len(train)], ids[len(train) :]
    sample = constant(form, table.labels, {name: [cells[name][at] for at in train] for name in names})
    answer_cells = answers_of(form, table.labels, submission["target"], cells)
    return Draft(
        table=table,
        metric=wanted.metric,
        params=wanted.params,
        form=form,
        train_targets=targets,
        submission=submission,
        train=train,
        test=test,
        train_ids=train_ids,
        test_ids=test_ids,
        public={
            "train.csv": rows([*features, *cells], {**table.cells, **cells}, train, train_ids),
            "test.csv": rows(features, table.cells, test, test_ids),
            "sample_submission.csv": csv_bytes(
                [key, *submission["target"]], [test_ids, *([value] * len(test) for value in sample)]
            ),
        },
        answers=rows(submission["target"], answer_cells, test, test_ids),
    )


def submission_csv(draft: Draft, predictions: Any) -> bytes:
    """The submission that hands in `predictions`, an array of shape (test rows, labels) or (test rows, targets).

    For a classification they are class probabilities in the order of the table's labels.
    """
    labels = draft.table.labels
    if draft.form == "label":
        columns = [[labels[at] for at in predictions.argmax(axis=1)]]
    elif draft.form == "probability":
        columns = [[shortest(round(float(p), 6)) for p in predictions[:, labels.index(draft.table.positive)]]]
    else:
        columns = [[shortest(round(float(value), 6)) for value in column] for column in predictions.T]
    return csv_bytes([*draft.submission["id"], *draft.submission["target"]], [draft.test_ids, *columns])


def _split(table: Table, rng: Any) -> tuple[list[int], list[int]]:
    """(train rows, test rows), both shuffled, no two rows with the same features; each class in its share in both."""
    seen = set()
    order = []
    for at in rng.permutation(table.rows):
        features = tuple(table.cells[column.name][at] for column in table.features)
        if features not in seen:
            seen.add(features)
            order.append(int(at))
    share = float(rng.uniform(*TEST_SHARE))
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


def make_ids(count: int, rng: Any) -> list[str]:
    """Different numbers of one length in no order, six digits where that is enough: an id tells nothing of its row."""
    least = 100000
    while 9 * least < count:
        least *= 10
    return [str(least + number) for number in rng.permutation(9 * least)[:count]]


def _train_targets(table: Table, form: str) -> tuple[list[Column], dict[str, list[str]]]:
    """The target columns of train.csv and their cells: the table's own, or 0/1 for a binary probability."""
    if form != "probability" or table.labels == ["0", "1"]:
        return table.targets, {column.name: table.cells[column.name] for column in table.targets}
    target = table.targets[0]
    told = f" ({target.meaning})" if target.meaning else ""
    meaning = f"1 where {target.name}{told} is {table.positive}, else 0"
    column = Column(f"is_{table.positive}", meaning, "0 or 1")
    return [column], {column.name: ["1" if cell == table.positive else "0" for cell in table.cells[target.name]]}


def submission_part(
    key: list[str], names: list[str], form: str, parse: str, labels: Sequence[str], rows: int
) -> dict[str, Any]:
    """That part of the record: the ids' and targets' columns and what their cells may hold."""
    if form == "probabilities":
        names = [f"prob_{label}" for label in labels] if len(names) == 1 else names
        return {"id": key, "target": names, "parse": "number", "range": [0, 1], "row_sum": 1, "rows": rows}
    if form == "probability":
        return {"id": key, "target": names, "parse": "number", "range": [0, 1], "rows": rows}
    if parse == "label":
        return {"id": key, "target": names, "parse": "label", "labels": list(labels), "rows": rows}
    return {"id": key, "target": names, "parse": parse, "rows": rows}


def answers_of(
    form: str, labels: Sequence[str], targets: Sequence[str], cells: dict[str, list[str]]
) -> dict[str, list[str]]:
    """The answers' cells by target column; one column a label where probabilities are asked for."""
    if form != "probabilities":
        return cells
    (truth,) = cells.values()
    return {
        name: ["1" if cell == label else "0" for cell in truth] for name, label in zip(targets, labels, strict=True)
    }


def constant(form: str, labels: Sequence[str], cells: dict[str, list[str]]) -> list[str]:
    """The constant prediction of every submission column: most frequent class, train mean, or uniform probability.

    `cells` are those of the training rows by target column.
    """
    if form == "probabilities":
        return [shortest(round(1 / len(labels), 6))] * len(labels)
    if form == "probability":
        return ["0.5"] * len(cells)
    if form == "label":
        counts = [Counter(column) for column in cells.values()]
        return [max(labels, key=lambda label: count[label]) for count in counts]
    return [shortest(round(sum(map(float, column)) / len(column), 4)) for column in cells.values()]
