"""Forms of submissions: the record's submission part, a constant submission, predictions and answers as CSV.

Arrays of predictions have one row for each row of the test set:

    label, probabilities   (rows, labels)    probabilities of the classes
    probability            (rows, 2)         of the two classes, the positive one last; with tags (rows, tags)
    number                 (rows, columns)
    tagset                 (rows, tags)      probabilities; a tag of 0.5 or more is handed in
    mask                   (rows, units)     probabilities of the pixels, row by row from the top left
    ranked                 (rows, 1)         a larger number ranks higher within its query

Targets `y` have the shape (rows, columns): class numbers, 0 and 1 for tags, relevance and pixels, or numbers.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..grading import metrics
from ..records.task import Parse, SubmissionFormat
from .table import csv_bytes, shortest

KINDS = ("label", "number", "probability", "probabilities", "tagset", "mask", "ranked", "text", "other")
CLASSES = ("label", "probability", "probabilities")
PARSES: dict[str, Parse] = {"label": "label", "tagset": "tagset", "mask": "rle", "ranked": "ranked", "text": "text"}
DECIMALS, MEAN_DECIMALS = 6, 4
TAGS_COLUMN, RANKED_COLUMN = "tags", "ranking"


def form_of(metric: str, reads: Sequence[str], labels: Sequence[str]) -> str:
    """The kind of form (one of KINDS) for a metric that reads cells of the kinds `reads`; `labels`: of the target."""
    known = metrics.METRICS.get(metric)  # none: the metric is code
    if known and known.predicts:
        return known.predicts
    if "label" in reads or (known and known.ordered_classes and labels):
        return "label"
    return "number" if "number" in reads else "other"


def written_as(metric: metrics.Metric) -> str:
    """The kind of form for a metric of classes without an order: where form_of knows none, the kind of cells that it reads."""
    kind = form_of(metric.name, metric.parse, ())
    return metric.parse[0] if kind == "other" else kind


@dataclass(frozen=True)
class Form:
    """How predictions are written.

    `kind` is one of KINDS; `targets` are the target columns of train.csv. `labels` are the classes, the positive one of
    two last, or the tags. `key` is the id's column, `query` the column of a ranking's queries. By default, `parse`, the
    record's word for the cells, is that of PARSES or "number", and `names`, the columns of predictions, are `columns`.
    """

    kind: str
    targets: Sequence[str]
    labels: Sequence[str] = ()
    key: str = "id"
    query: str = ""
    parse: Parse | Literal[""] = ""
    names: Sequence[str] = ()

    @property
    def tags(self) -> bool:
        """Whether several labels may apply to a row."""
        return self.kind in ("tagset", "probability") and len(self.targets) > 1

    @property
    def ids(self) -> str:
        """The id column of a submission: the row's, or the query's where items are ranked."""
        return self.query if self.kind == "ranked" else self.key

    @property
    def columns(self) -> list[str]:
        """The other columns of a submission."""
        if self.names:
            return list(self.names)
        if self.kind == "probabilities" and len(self.targets) == 1:
            return [f"prob_{label}" for label in self.labels]
        return {"tagset": [TAGS_COLUMN], "ranked": [RANKED_COLUMN]}.get(self.kind, list(self.targets))

    def submission(self, rows: int) -> SubmissionFormat:
        """The submission part of a record; `rows` counts rows or, where items are ranked, queries."""
        parse = self.parse or PARSES.get(self.kind, "number")
        part: SubmissionFormat = {"id": [self.ids], "target": self.columns, "parse": parse, "rows": rows}
        if self.kind in ("probability", "probabilities"):
            part["range"] = [0, 1]
        if self.kind == "probabilities":
            part["row_sum"] = 1
        if self.kind == "label" and parse == "label":
            part["labels"] = list(self.labels)
        if self.kind in ("tagset", "mask"):
            part["empty_ok"] = True
        return part

    def constant(self, y: Any, rows: int, metric: str) -> Any:
        """The same prediction for each of `rows` rows, from the training rows' targets `y`.

        The most frequent class or tag, uniform probabilities, the mean, the pixels that are set most often. For a metric
        without a value for constants: the numbers of the rows.
        """
        import numpy as np

        if self.kind == "probabilities":
            return np.full((rows, len(self.labels)), 1 / len(self.labels))
        if self.kind == "probability":
            return np.full((rows, len(self.targets) if self.tags else 2), 0.5)
        if self.kind == "label":
            counts = np.bincount(y[:, 0].astype(int), minlength=len(self.labels))
            return np.tile(np.eye(len(self.labels))[counts.argmax()], (rows, 1))
        shares = y.mean(axis=0)
        if self.kind == "tagset":
            return np.tile(np.where(shares == shares.max(), 1.0, 0.0), (rows, 1))
        if self.kind == "mask":
            return np.tile(np.where(shares >= np.quantile(shares, 0.9), 1.0, 0.0), (rows, 1))
        if self.kind == "ranked":
            return np.zeros((rows, 1))
        if metrics.find(metric).constant_is_undefined:
            return np.tile(np.arange(1.0, rows + 1)[:, None], len(shares))
        digits = [decimals(column, MEAN_DECIMALS) for column in y.T]
        return np.tile([round(float(share), at) for share, at in zip(shares, digits, strict=True)], (rows, 1))

    def csv(self, ids: Sequence[str], predictions: Any, queries: Sequence[str] = ()) -> bytes:
        """The submission of `predictions` for the rows `ids`; `queries` are the rows' queries."""
        if self.kind == "ranked":
            return self._lists(ids, queries, predictions[:, 0])
        if self.kind == "label":
            columns = [[self.labels[code] for code in predictions.argmax(axis=1)]]
        elif self.kind == "tagset":
            columns = [[" ".join(t for t, p in zip(self.labels, row, strict=True) if p >= 0.5) for row in predictions]]
        elif self.kind == "mask":
            columns = [[rle(row >= 0.5) for row in predictions]]
        elif self.kind == "probability" and not self.tags:
            columns = [_numbers(predictions[:, -1])]
        else:
            columns = [_numbers(column, self.kind == "number") for column in predictions.T]
        return csv_bytes([self.ids, *self.columns], [list(ids), *columns])

    def answers(self, ids: Sequence[str], y: Any, cells: Mapping[str, list[str]], queries: Sequence[str] = ()) -> bytes:
        """The answers: numbers as their `cells` have them, everything else as a perfect submission has it."""
        import numpy as np

        if self.kind == "ranked":
            return self._lists(ids, queries, y[:, 0], relevant=True)
        if self.kind in CLASSES and not self.tags:
            return self.csv(ids, np.eye(len(self.labels))[y[:, 0].astype(int)])
        if self.kind != "number":
            return self.csv(ids, y.astype(float))
        grouped = {self.query: list(queries)} if queries else {}
        return csv_bytes([self.key, *cells, *grouped], [list(ids), *cells.values(), *grouped.values()])

    def _lists(self, ids: Sequence[str], queries: Sequence[str], values: Any, relevant: bool = False) -> bytes:
        """A line for each query: the ids of its rows, the highest value first, or only those of a value above 0."""
        import numpy as np

        members: dict[str, list[str]] = {query: [] for query in queries}
        order = range(len(ids)) if relevant else np.argsort(-np.round(values, 9), kind="stable")
        for at in order:
            if values[at] > 0 or not relevant:
                members[queries[at]].append(ids[at])
        return csv_bytes([self.ids, *self.columns], [list(members), [" ".join(each) for each in members.values()]])


def constant_cells(kind: str, labels: Sequence[str], cells: Mapping[str, Sequence[str]]) -> list[str]:
    """The constant prediction of every submission column from training cells by target column, for any kind of form.

    Unlike Form.constant it needs no numbers: of labels and of cells of other kinds it takes the most frequent.
    """
    if kind == "probabilities":
        return [shortest(round(1 / len(labels), DECIMALS))] * len(labels)
    if kind == "probability":
        return ["0.5"] * len(cells)
    if kind == "number":
        columns = [list(map(float, column)) for column in cells.values()]
        return [shortest(round(sum(column) / len(column), decimals(column, MEAN_DECIMALS))) for column in columns]
    return [Counter(sorted(column)).most_common(1)[0][0] for column in cells.values()]


def rle(mask: Any) -> str:
    """Run-length code of a flat 0/1 mask of shape (units,): "start length ...", units counted from 1; "" if empty."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask, dtype=int), [0]])))
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True))


def decimals(values: Iterable[float], usual: int) -> int:
    """The decimals of a column of numbers: the usual ones, and more where the largest number is below 0.1."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return usual + max(0, -1 - math.floor(math.log10(largest))) if largest else usual


def _numbers(values: Any, small: bool = False) -> list[str]:
    """Cells of numbers; small: they may all be so small that the usual decimals would leave nothing."""
    digits = decimals(values, DECIMALS) if small else DECIMALS
    return [shortest(round(float(value), digits)) for value in values]
