"""Small models on the columns of train.csv and test.csv, for tasks whose record has no baselines.

Not covered: targets that are lists, masks or texts, and rows without columns.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.csv_files import read_rows
from ..baselines import MOST_LEVELS, MOST_TRAINED_ON, numeric, one_thread, scaled
from ..forms import form_of
from ..learners import FOLDS, Data, alone, predict
from ..table import csv_bytes, shortest
from .case import Skipped
from .targets import number
from .view import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_COLUMNS = 200


@dataclass(frozen=True)
class Arrays:
    """`data` has one column a feature, named `names`; `labels` are the classes, in the order of the columns of its y."""

    names: list[str]
    data: Data
    labels: list[str]
    form: str


def arrays_of(view: View) -> Arrays:
    """The tables as numbers: categories by how often they are, gaps as the median. Skipped where there are none."""
    import numpy as np

    y, labels, form = _targets(view)
    rows = np.flatnonzero(~np.isnan(y).any(axis=1))
    rows = rows[:: max(1, -(-len(rows) // MOST_TRAINED_ON))]
    if len(rows) < 2 * FOLDS:
        raise Skipped("too few rows of train.csv have a target")
    names = [name for name in view.features if name in view.train][:MOST_COLUMNS]
    pairs = {name: _encoded([view.train[name][at] for at in rows], view.test[name]) for name in names}
    pairs = {name: pair for name, pair in pairs.items() if pair[0].size and np.ptp(pair[0]) > 0}
    if not pairs:
        raise Skipped("the tables have no columns to learn from")
    y = np.eye(len(labels))[y[rows, 0].astype(int)] if labels else y[rows]
    x, test = scaled(*(np.column_stack(part) for part in zip(*pairs.values(), strict=True)))
    return Arrays(list(pairs), Data(x, y, test, "classes" if labels else "numbers"), labels, form)


def _encoded(train: list[str], test: list[str]) -> tuple[Any, Any]:
    """(train, test) of one column, empty where it says nothing or has too many levels."""
    import pandas as pd

    one, other = pd.Series(train, dtype=object), pd.Series(test, dtype=object)
    if 2 * pd.to_numeric(one, errors="coerce").notna().sum() < (one != "").sum():
        counts = one.value_counts().sort_index().sort_values(kind="stable")
        places = {cell: at for at, cell in enumerate(counts.index)} if len(counts) <= MOST_LEVELS else {}
        one, other = one.map(places), other.map(places)
    return numeric(one, other)


def _targets(view: View) -> tuple[Any, list[str], str]:
    """(codes or numbers of shape (train rows, targets), labels, form). Skipped where they are something else."""
    import numpy as np

    names, parse = view.spec["target"], view.spec["parse"]
    form = form_of(view.task["metric"].get("name", ""), [parse], view.spec.get("labels", []))
    if parse not in ("number", "label"):
        raise Skipped(f"no model is trained for predictions of parse {parse}")
    if all(name in view.train for name in names):
        cells = [view.train[name] for name in names]
        if parse == "number" and form != "probabilities":
            return np.array([[number(cell) for cell in column] for column in cells]).T, [], "number"
        if len(names) == 1:
            labels = [str(label) for label in view.spec.get("labels", sorted(set(cells[0])))]
            return _coded(cells[0], labels), labels, "label" if parse == "label" else "probabilities"
    extra = [name for name in view.train if name not in view.test and name not in view.ids]
    for name in extra if parse == "number" and len(names) > 1 else []:
        found = {
            cell: [each for each in names if each == cell or each.endswith(f"_{cell}")]
            for cell in set(view.train[name])
        }
        if all(found.values()):
            called = [min(found[cell], key=len) for cell in view.train[name]]
            return _coded(called, list(names)), list(names), "probabilities"
    raise Skipped("train.csv does not hold the targets as the submission has them")


def _coded(cells: list[str], labels: list[str]) -> Any:
    import numpy as np

    place = {label: float(at) for at, label in enumerate(labels)}
    return np.array([[place.get(cell, np.nan)] for cell in cells])


def predictions(table: Arrays) -> "dict[str, NDArray[np.float64]]":
    """Of a linear model and of a forest: class probabilities (test rows, labels), or numbers (test rows, targets)."""
    with one_thread():
        return {f"a {name} model": predict(name, table.data) for name in ("linear", "forest")}


def single(table: Arrays) -> tuple[str, Any]:
    """(column, predictions) of a shallow tree on the one column that does best on folds of train."""
    with one_thread():
        at, values = alone(table.data, 0)
    return table.names[at], values


def submission_of(view: View, table: Arrays, values: Any) -> bytes:
    """The submission with these predictions, rows as in test.csv; of probabilities the columns that are asked for."""
    names = view.spec["target"]
    if table.form == "label":
        columns = [[table.labels[at] for at in values.argmax(axis=1)]]
    else:
        order = (
            [table.labels.index(name) for name in names] if table.labels and set(names) <= set(table.labels) else None
        )
        chosen = values if order is None else values[:, order]
        columns = [[shortest(round(float(value), 6)) for value in _bounded(view, column)] for column in chosen.T]
    ids = [view.test[name] if name in view.test else view.sample[name] for name in view.ids]
    return csv_bytes([*view.ids, *names], [*ids, *columns[: len(names)]])


def _bounded(view: View, column: Any) -> Any:
    low, high = view.spec.get("range", [None, None])
    if low is None and high is None:
        return column
    return column.clip(low, high)


def shuffled(submission: bytes, ids: int, times: int) -> list[bytes]:
    """The submission with its predictions in other orders; its first `ids` columns stay."""
    import numpy as np

    header, *rows = read_rows(submission)
    rng = np.random.RandomState(0)
    found = []
    for _ in range(times):
        order = rng.permutation(len(rows))
        mixed = [[*row[:ids], *rows[at][ids:]] for row, at in zip(rows, order, strict=True)]
        found.append(csv_bytes(header, [list(column) for column in zip(*mixed, strict=True)]))
    return found
