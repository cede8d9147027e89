"""Small models on the columns of train.csv and test.csv, for tasks whose record has no baselines.

Not covered: targets that are lists, masks or texts, and rows without columns.
"""

import warnings
from dataclasses import dataclass
from typing import Any

from ...records.csv_files import read_rows
from ..table import csv_bytes, shortest
from .outcome import Skipped
from .targets import number
from .view import View

MOST_COLUMNS = 200
MOST_TRAINED_ON = 2000
MOST_LEVELS = 50
# A sure mistake would outweigh every other row of a log loss.
LEAST_PROBABILITY = 0.02
MOST_SINGLE = 6
FOLDS = 3


@dataclass(frozen=True)
class Arrays:
    """`x` and `test` of shape (rows, columns), named `names`, one column a feature; `y` of shape (rows, targets).

    `labels` are the class names of a classification, in the order of `y`'s codes; `form` is one of those of draft.
    """

    names: list[str]
    x: Any
    test: Any
    y: Any
    labels: list[str]
    form: str


def arrays_of(view: View) -> Arrays:
    """The tables as numbers: categories by how often they are, gaps as the median. Skipped where there are none."""
    import numpy as np

    names = [name for name in view.features if name in view.train][:MOST_COLUMNS]
    if not names:
        raise Skipped("the tables have no columns to learn from")
    y, labels, form = _targets(view)
    rows = np.flatnonzero(~np.isnan(y).any(axis=1))
    rows = rows[:: max(1, -(-len(rows) // MOST_TRAINED_ON))]
    if len(rows) < 2 * FOLDS:
        raise Skipped("too few rows of train.csv have a target")
    x, test, kept = [], [], []
    for name in names:
        one, other = _encoded([view.train[name][at] for at in rows], view.test[name])
        if one is not None:
            x.append(one)
            test.append(other)
            kept.append(name)
    if not kept:
        raise Skipped("the tables have no columns to learn from")
    return Arrays(kept, np.column_stack(x), np.column_stack(test), y[rows], labels, form)


def _encoded(train: list[str], test: list[str]) -> tuple[Any, Any]:
    """(train, test) of one column, (None, None) where it says nothing or has too many levels."""
    import numpy as np

    values, others = (np.array([number(cell) for cell in cells]) for cells in (train, test))
    if np.isfinite(values).sum() * 2 < sum(cell != "" for cell in train):
        counts = {cell: train.count(cell) for cell in sorted(set(train))} if len(set(train)) <= MOST_LEVELS else {}
        order = {cell: float(at) for at, cell in enumerate(sorted(counts, key=lambda cell: counts[cell]))}
        values, others = (np.array([order.get(cell, np.nan) for cell in cells]) for cells in (train, test))
    known = values[np.isfinite(values)]
    if len(known) < 2 or (known == known[0]).all():
        return None, None
    middle = np.median(known)
    return np.where(np.isfinite(values), values, middle), np.where(np.isfinite(others), others, middle)


def _targets(view: View) -> tuple[Any, list[str], str]:
    """(codes or numbers of shape (train rows, targets), labels, form). Skipped where they are something else."""
    import numpy as np

    from ..forms import form_of

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


def predictions(table: Arrays) -> dict[str, Any]:
    """Of a linear model and of a forest: class probabilities (test rows, labels), or numbers (test rows, targets)."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    sizes = {"n_estimators": 30, "min_samples_leaf": 2, "random_state": 0, "n_jobs": 1}
    linear: Any = LogisticRegression(C=0.5, max_iter=300) if table.labels else Ridge(2.0)
    forest: Any = RandomForestClassifier(**sizes) if table.labels else RandomForestRegressor(**sizes)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "a linear model": _fitted(make_pipeline(StandardScaler(), linear), table, table.x, table.y, table.test),
            "a forest": _fitted(forest, table, table.x, table.y, table.test),
        }


def _fitted(model: Any, table: Arrays, x: Any, y: Any, test: Any) -> Any:
    import numpy as np

    if not table.labels:
        return np.column_stack([model.fit(x, y[:, at]).predict(test) for at in range(y.shape[1])])
    fitted = model.fit(x, y[:, 0].astype(int)) if len(np.unique(y[:, 0])) > 1 else None
    found = np.zeros((len(test), len(table.labels)))
    if fitted is None:
        found[:, int(y[0, 0])] = 1.0
    else:
        found[:, fitted.classes_] = fitted.predict_proba(test)
    found = np.clip(found, LEAST_PROBABILITY, None)
    return found / found.sum(axis=1, keepdims=True)


def single(table: Arrays) -> tuple[str, Any]:
    """(column, predictions) of a tree of depth 3 on the one column that does best on folds of train.

    Only the MOST_SINGLE columns whose eighths explain most of the target are tried on folds.
    """
    import numpy as np
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from threadpoolctl import threadpool_limits

    kind = DecisionTreeClassifier if table.labels else DecisionTreeRegressor
    model = kind(max_depth=3, min_samples_leaf=2, random_state=0)
    spread = np.where(table.y.std(axis=0) > 0, table.y.std(axis=0), 1)
    truth = np.eye(len(table.labels))[table.y[:, 0].astype(int)] if table.labels else table.y / spread
    fold = np.empty(len(truth), dtype=int)
    fold[np.argsort(table.y[:, 0], kind="stable")] = np.arange(len(truth)) % FOLDS
    explained = [_explained(table.x[:, at], truth) for at in range(len(table.names))]
    errors = {}
    with threadpool_limits(1):
        for at in np.argsort(-np.array(explained), kind="stable")[:MOST_SINGLE]:
            column, error = table.x[:, [at]], 0.0
            for part in range(FOLDS):
                inside, out = fold != part, fold == part
                guess = _fitted(model, table, column[inside], table.y[inside], column[out])
                error += float(((guess / (1 if table.labels else spread) - truth[out]) ** 2).sum())
            errors[at] = round(error, 6)
        best = min(errors, key=lambda at: errors[at])
        return table.names[best], _fitted(model, table, table.x[:, [best]], table.y, table.test[:, [best]])


def _explained(column: Any, truth: Any) -> float:
    """The sum of squares of the truth's means in the eighths of a column."""
    import numpy as np

    distinct, codes = np.unique(column, return_inverse=True)
    codes = codes if len(distinct) <= 8 else codes * 8 // len(distinct)
    counts = np.maximum(np.bincount(codes), 1)
    middle = truth - truth.mean(axis=0)
    return round(sum(float((np.bincount(codes, weights=each) ** 2 / counts).sum()) for each in middle.T), 9)


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
