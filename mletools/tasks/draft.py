"""TaskDraft: a task before its thresholds and its description; and how a data set becomes one.

A data set is split, its rows get ids, its files their names. Not covered: whether the draft is any good (soundness).
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from ..base.errors import RecordError, ToolError
from ..grading import SCORE_DECIMALS, answer_spec, metrics, score_bytes
from ..records.task import MetricSpec, Parse, Scoring, SubmissionFormat
from .dataset import Dataset, Features, Target
from .forms import Form, form_of
from .table import Column, Rejected, Table, csv_bytes

if TYPE_CHECKING:
    from .procedural.dna import Dna

METRICS = {
    "binary_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss", "auroc"),
    "multiclass_classification": ("accuracy", "balanced_accuracy", "f1_macro", "log_loss"),
    "regression": ("rmse", "mae", "r2"),
}
TEST_SHARE = (0.25, 0.4)
# With fewer rows of a class in train.csv or in the test, a score is chance.
MIN_CLASS_ROWS = 3
SMALL_ERROR = 1e-3  # of a sample submission: five decimals have not even three digits of it
MOST_DECIMALS = 17
CLASSIFICATION = ("binary_classification", "multiclass_classification")


@dataclass(frozen=True)
class TaskDraft:
    """A task before its thresholds and its description, whatever its source.

    `public` are the public files but description.md by name, `answers` the private ones; `submission` and `metric` are
    those parts of the record. `features` are the columns of train.csv and test.csv beside the id, `targets` the target
    columns of train.csv. `y` are the targets of the rows of train.csv in its order, see forms. `train_queries` and
    `test_queries` are the rows' queries of a ranking, else empty. `views` are features as numbers, by the name of the
    view: a pair of train and test, each of shape (rows, k), or (rows, units, k) for a target of units; without any they
    are made from the files. `known` are the predictions for the test rows of one who knows the rule, None if nobody does.
    `dataset` is what the description tells of, None where the source has a description. `origin` is for the record's provenance.
    """

    name: str
    modality: str
    problem: str
    form: Form
    submission: SubmissionFormat
    metric: MetricSpec
    public: dict[str, bytes]
    answers: bytes
    features: list[Column]
    targets: list[Column]
    y: Any
    test_ids: list[str]
    train_queries: list[str] = field(default_factory=list)
    test_queries: list[str] = field(default_factory=list)
    views: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    known: Any = None
    dataset: Dataset | None = None
    origin: Mapping[str, object] = field(default_factory=dict)

    @property
    def grading(self) -> Scoring:
        """What a score needs of the record."""
        return {"submission": self.submission, "metric": self.metric}

    @property
    def rows(self) -> tuple[int, int]:
        """Number of rows of train.csv and of the test."""
        return len(self.y), len(self.test_ids)

    def hand_in(self, predictions: Any) -> bytes:
        """The submission that hands in predictions for the test rows, in their order, see forms.

        Numbers are kept within the range of train.csv, unless they are compared within a query.
        """
        import numpy as np

        if self.form.kind == "number" and not self.test_queries:
            predictions = np.clip(predictions, self.y.min(), self.y.max())
        return self.form.csv(self.test_ids, predictions, self.test_queries)


@dataclass(frozen=True)
class Question:
    """What a draft asks for: the record's metric part, the form of the predictions, the record's word for their cells."""

    metric: MetricSpec
    form: str
    parse: Parse | Literal[""] = ""


def draft_world(dataset: Dataset, rng: Any) -> TaskDraft:
    """The draft of a drawn data set, as its DNA asks for. Rejected when a class is too rare to be split."""
    dna, target = cast("Dna", dataset.origin["dna"]), dataset.target
    known = metrics.find(dna["metric"])
    metric: MetricSpec = {
        "name": known.name,
        "params": {**dna["params"], **dataset.params},
        "lower_is_better": known.lower_is_better,
    }
    if dna["form"] == "number" and target.groups:
        metric["group"] = str(dataset.origin["query_column"])
    if dna["form"] == "number" and len(target.columns) > 1:
        metric["columns"] = "flat"
    test = _held_out(dataset, dna["test_share"], rng, target.groups)
    parse: Parse | Literal[""] = "number" if known.ordered_classes else ""
    return make_draft(dataset, Question(metric, dna["form"], parse), test, rng)


def draft_table(table: Table, rng: Any) -> TaskDraft:
    """The draft of a table, with a drawn metric unless the table has one. Rejected when a class is too rare to be split."""
    menu = METRICS[table.problem]
    name = table.metric or menu[rng.randint(len(menu))]
    kind = form_of(name, ["label"] if table.labels else ["number"], table.labels)
    question = Question({"name": name, "params": {}, "lower_is_better": metrics.lower_is_better(name)}, kind)
    dataset, share = dataset_of(table), float(rng.uniform(*TEST_SHARE))
    if table.times:
        # No period is divided: the test begins with the first rows of one.
        begin = max(sorted(table.times)[round((1 - share) * table.rows)], min(table.times) + 1)
        return make_draft(dataset, question, [at for at in range(table.rows) if table.times[at] >= begin], rng)
    return make_draft(dataset, question, _held_out(dataset, share, rng, table.groups or twins(table)), rng)


def dataset_of(table: Table) -> Dataset:
    """The table as a data set without a known rule. Of two labels the positive one becomes the last."""
    import numpy as np

    labels = list(table.labels)
    if len(labels) == 2 and table.positive == labels[0]:
        labels.reverse()
    cells = {column.name: table.cells[column.name] for column in table.targets}
    y = [[float(labels.index(cell)) if labels else float(cell) for cell in column] for column in cells.values()]
    features = {column.name: table.cells[column.name] for column in table.features}
    return Dataset(
        name=table.name,
        title=table.title,
        context=[table.context],
        sample={"one": "row", "many": "rows"},
        modality="tabular",
        features=[Features(table.features, features)],
        target=Target(table.problem, table.targets, cells, np.array(y).T, labels=labels),
        origin=table.origin,
    )


def twins(table: Table) -> list[Hashable]:
    """The features of each row: rows that share them all must not be parted."""
    cells = [table.cells[column.name] for column in table.features]
    return list(zip(*cells, strict=True)) if cells else list(range(table.rows))


def _held_out(dataset: Dataset, share: float, rng: Any, groups: Sequence[Hashable]) -> list[int]:
    target = dataset.target
    strata = [target.labels[int(code)] for code in target.y[:, 0]] if target.problem in CLASSIFICATION else []
    if strata and len(set(strata)) < len(target.labels):
        raise Rejected("split: a class has no row")
    return held_out(range(len(target.y)), share, rng, strata, groups, dataset.tilt, MIN_CLASS_ROWS)


def held_out(
    rows: Sequence[int],
    share: float,
    rng: Any,
    strata: Sequence[str] = (),
    groups: Sequence[Hashable] = (),
    weights: Any = None,
    least: int = 1,
) -> list[int]:
    """The test rows, sorted: about `share` of each stratum, and no group both in the test and outside of it.

    `strata`, `groups` and `weights` are by row number, empty or None for one stratum, single rows and equal weights; a
    row of a higher weight comes earlier into the test. A stratum of two groups or more has rows on both sides. Rejected
    when a stratum has fewer than `least` rows on a side.
    """
    import numpy as np

    order = rng.permutation(len(rows))
    if weights is not None:
        chances = np.round(np.asarray(weights)[list(rows)], 6)
        order = rng.choice(len(rows), size=len(rows), replace=False, p=chances / chances.sum())
    units: dict[Hashable, list[int]] = {}
    for at in order:
        row = rows[int(at)]
        units.setdefault(groups[row] if len(groups) else ("row", row), []).append(row)
    layers: dict[str, list[list[int]]] = {}
    for unit in units.values():
        layers.setdefault(strata[unit[0]] if len(strata) else "", []).append(unit)
    test: list[int] = []
    for name in sorted(layers):
        layer, taken = layers[name], 0
        wanted = max(least, round(share * sum(map(len, layer))))
        for unit in layer[:-1]:
            if taken >= wanted:
                break
            test.extend(unit)
            taken += len(unit)
    names = [strata[row] if len(strata) else "" for row in rows]
    total, held = Counter(names), Counter(strata[row] if len(strata) else "" for row in test)
    for name in total if least > 1 else ():
        if min(held[name], total[name] - held[name]) < least:
            raise Rejected(f"split: only {total[name]} rows are {name or 'there'}")
    return sorted(test)


def make_draft(
    dataset: Dataset, question: Question, test: Sequence[int], rng: Any, key: str = "id", ids: Sequence[str] = ()
) -> TaskDraft:
    """The draft that holds out the rows `test`; the files' rows are shuffled. `ids` in the column `key` are drawn if empty."""
    target, out = dataset.target, set(test)
    order = [int(at) for at in rng.permutation(len(target.y))]
    train, test = [at for at in order if at not in out], [at for at in order if at in out]
    ids = list(ids) or make_ids(len(order), rng)
    targets, truth = _train_targets(target, question.form)
    query = str(dataset.origin["query_column"]) if target.groups else ""
    form = Form(question.form, [column.name for column in targets], target.labels, key, query, question.parse)
    columns, cells = _features(dataset, ids)
    train_ids, test_ids = [ids[at] for at in train], [ids[at] for at in test]
    queries = [[target.groups[at] for at in part] if target.groups else [] for part in (train, test)]
    constant = form.constant(target.y[train], len(test), question.metric["name"])
    public: dict[str, bytes] = {
        "train.csv": _csv(key, train_ids, {**cells, **truth}, train),
        "test.csv": _csv(key, test_ids, cells, test),
        **_side_tables(dataset, key, ids, rng),
        **_assets(dataset, ids),
        "sample_submission.csv": form.csv(test_ids, constant, queries[1]),
    }
    views = {"plain": dataset.plain, "right": dataset.right}
    draft = TaskDraft(
        name=dataset.name,
        modality=dataset.modality,
        problem=target.problem,
        form=form,
        submission=form.submission(len(set(queries[1])) if form.kind == "ranked" else len(test)),
        metric=question.metric,
        public=public,
        answers=form.answers(test_ids, target.y[test], _picked(target.cells, test), queries[1]),
        features=columns,
        targets=targets,
        y=target.y[train],
        test_ids=test_ids,
        train_queries=queries[0],
        test_queries=queries[1],
        views={name: (view[train], view[test]) for name, view in views.items() if view is not None},
        known=None if target.known is None else target.known[test],
        dataset=dataset,
        origin=dataset.origin,
    )
    return replace(draft, metric=with_decimals(draft.grading, draft.answers, draft.public["sample_submission.csv"]))


def with_decimals(grading: Scoring, answers: bytes, sample: bytes) -> MetricSpec:
    """The metric; where the sample submission's error is small, with as many decimals as leave it SCORE_DECIMALS digits."""
    metric = grading["metric"]
    if metrics.find(metric["name"]).best != 0 or "score_round" in metric:
        return metric
    try:
        metrics.check(metric, grading["submission"]["parse"], answer_spec(grading)["parse"])
        error = score_bytes(grading, answers, sample)
    except (ValueError, RecordError, ToolError):  # what comes later says why
        return metric
    if not 0 < error < SMALL_ERROR:
        return metric
    return {**metric, "score_round": min(MOST_DECIMALS, SCORE_DECIMALS - 1 - math.floor(math.log10(error)))}


def make_ids(count: int, rng: Any) -> list[str]:
    """Different numbers of one length in no order, six digits where that is enough: an id tells nothing of its row."""
    least = 100000
    while 9 * least < count:
        least *= 10
    if 2 * count > least:
        return [str(least + number) for number in rng.permutation(9 * least)[:count]]
    ids: dict[str, None] = {}
    while len(ids) < count:
        ids.update(dict.fromkeys(map(str, rng.randint(least, 10 * least, size=count))))
    return list(ids)[:count]


def _csv(key: str, ids: Sequence[str], cells: Mapping[str, Sequence[str]], rows: Sequence[int]) -> bytes:
    return csv_bytes([key, *cells], [list(ids), *_picked(cells, rows).values()])


def _picked(cells: Mapping[str, Sequence[str]], rows: Sequence[int]) -> dict[str, list[str]]:
    return {name: [column[at] for at in rows] for name, column in cells.items()}


def _train_targets(target: Target, kind: str) -> tuple[list[Column], dict[str, list[str]]]:
    """The target columns of train.csv and all their cells: 1 for the last of two labels where its probability is asked."""
    if kind != "probability" or target.problem not in CLASSIFICATION:
        return target.columns, target.cells
    (column,) = target.columns
    meaning = f"1 if {target.event or f'{column.meaning or column.name} is {target.labels[-1]}'}, else 0"
    return [Column(column.name, meaning, "0 or 1")], {column.name: [str(int(code)) for code in target.y[:, 0]]}


def _features(dataset: Dataset, ids: Sequence[str]) -> tuple[list[Column], dict[str, list[str]]]:
    """The feature columns and all their cells: the query, columns of tables, paths of files."""
    columns, cells = [], {}
    if dataset.target.groups:
        query = Column(str(dataset.origin["query_column"]), str(dataset.origin["query_meaning"]), number=False)
        columns, cells = [query], {query.name: dataset.target.groups}
    for shown in dataset.features:
        columns += shown.columns
        cells.update({column.name: shown.cells[column.name] for column in shown.columns})
        for asset in shown.assets:
            columns.append(Column(asset.column, f"file: {asset.meaning}", number=False))
            cells[asset.column] = [f"{asset.folder}/{name}.{asset.ending}" for name in ids]
    return columns, cells


def _side_tables(dataset: Dataset, key: str, ids: Sequence[str], rng: Any) -> dict[str, bytes]:
    """The side tables, their lines shuffled."""
    files = {}
    for side in dataset.sides:
        lines = [(name, *line) for name, of_row in zip(ids, side.rows, strict=True) for line in of_row]
        lines = [lines[at] for at in rng.permutation(len(lines))]
        header = [key, *(column.name for column in side.columns)]
        files[side.name] = csv_bytes(header, [list(column) for column in zip(*lines, strict=True)])
    return files


def _assets(dataset: Dataset, ids: Sequence[str]) -> dict[str, bytes]:
    return {
        f"{asset.folder}/{name}.{asset.ending}": content
        for shown in dataset.features
        for asset in shown.assets
        for name, content in zip(ids, asset.contents, strict=True)
    }
