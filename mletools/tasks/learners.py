"""Small models on encoded data: one thread, deterministic, several targets at a time.

Every target is a matrix: a column a class (0 and 1, one of them 1 in each row), a tag (0 or 1) or a number. A model is a
function from training data to predictions of the same columns. Not covered: where the features come from (baselines).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

# Of so many folds of the training rows, so many are held out to compare models.
FOLDS, HELD_OUT = 3, 2
# Of so many features one alone is tried.
MOST_ALONE = 6
TREES = 20
STAGES, STEP = 40, 0.15
# A probability is kept this far from 0 and 1, or one sure mistake would outweigh every other row of a log loss.
LEAST_PROBABILITY = 0.02
MOST_DISTANCES = 4_000_000


@dataclass(frozen=True)
class Data:
    """`x` (rows, k) and `y` (rows, columns) to learn from, `test` (test rows, k). `kind`: classes, tags or numbers.

    `balanced`: probabilities count against the share of their class or tag, as if all were as frequent.
    """

    x: Any
    y: Any
    test: Any
    kind: str
    balanced: bool = False

    def only(self, rows: Any, test: Any = None) -> "Data":
        """Some of the rows, and other rows to predict."""
        return replace(self, x=self.x[rows], y=self.y[rows], test=self.test if test is None else test)

    def every(self, step: int) -> "Data":
        """Every step-th row in the order of the target, so that each class keeps its share."""
        import numpy as np

        return self.only(np.sort(self.order[::step]))

    @property
    def order(self) -> Any:
        """The rows in the order of the first target, or of the classes."""
        import numpy as np

        return np.argsort(self.y.argmax(axis=1) if self.kind == "classes" else self.y[:, 0], kind="stable")

    def bounded(self, values: Any) -> Any:
        """Predictions as probabilities, where they are."""
        import numpy as np

        if self.kind == "numbers":
            return values
        values = np.clip(values, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        if self.balanced:
            share = np.clip(self.y.mean(axis=0), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
            others = (1 - values) / (1 - share) if self.kind == "tags" else 0.0
            values = values / share
            values = values / (values + others) if self.kind == "tags" else values
        return values / values.sum(axis=1, keepdims=True) if self.kind == "classes" else values


Model = Callable[[Data, int], Any]


def predict(model: str, data: Data, seed: int = 0) -> Any:
    """Predictions for the test rows, of shape (test rows, columns), of one of MODELS."""
    return data.bounded(MODELS[model](data, seed))


def held_out_folds(data: Data) -> Any:
    """The fold of each row, from 0 on; each fold has its share of every class or of the range of the target."""
    import numpy as np

    fold = np.empty(len(data.y), dtype=int)
    fold[data.order] = np.arange(len(data.y)) % FOLDS
    return fold


def best_by_folds(candidates: Mapping[str, tuple[Data, str]], seed: int, count: int) -> list[str]:
    """The `count` candidates, data and a model each, with the least squared error on HELD_OUT of FOLDS folds."""
    errors = {}
    for name, (data, model) in candidates.items():
        fold, error = held_out_folds(data), 0.0
        scale = data.y.std(axis=0) + 1e-9 if data.kind == "numbers" else 1.0
        for at in range(HELD_OUT):
            out = fold == at
            guesses = data.bounded(MODELS[model](data.only(~out, data.x[out]), seed))
            error += float((((guesses - data.y[out]) / scale) ** 2).mean())
        errors[name] = round(error, 6)
    return sorted(errors, key=lambda name: errors[name])[:count]


def alone(data: Data, seed: int) -> tuple[int, Any]:
    """(the feature, predictions) of a shallow tree on the one that does best on held-out folds.

    Only the MOST_ALONE features whose eighths explain most of the target are tried.
    """
    import numpy as np

    y = (data.y - data.y.mean(axis=0)) / (data.y.std(axis=0) + 1e-9 if data.kind == "numbers" else 1.0)
    explained = np.array([_explained(column, y) for column in data.x.T])
    best = np.argsort(-np.round(explained, 6), kind="stable")[:MOST_ALONE]
    parts = {str(at): replace(data, x=data.x[:, [at]], test=data.test[:, [at]]) for at in best}
    name = best_by_folds({at: (part, "tree") for at, part in parts.items()}, seed, 1)[0]
    return int(name), predict("tree", parts[name], seed)


def _explained(column: Any, y: Any) -> float:
    """The sum of squares of the means of `y`, itself of mean 0, in the eighths of a column."""
    import numpy as np

    codes, distinct = np.unique(column, return_inverse=True)[1], len(np.unique(column))
    codes = codes if distinct <= 8 else codes * 8 // distinct
    counts = np.maximum(np.bincount(codes), 1)
    return sum(float((np.bincount(codes, weights=each) ** 2 / counts).sum()) for each in y.T)


def _tree(depth: int | None) -> Model:
    def model(data: Data, seed: int) -> Any:
        from sklearn.tree import DecisionTreeRegressor

        tree = DecisionTreeRegressor(max_depth=depth, random_state=seed)
        return _matrix(tree.fit(data.x, data.y).predict(data.test))

    return model


def _linear(c: float, alpha: float) -> Model:
    """A logistic regression of strength `c`, of numbers a ridge regression with the penalty `alpha` a row."""

    def model(data: Data, seed: int) -> Any:
        import numpy as np
        from sklearn.linear_model import LogisticRegression, Ridge

        if data.kind == "numbers":
            return _matrix(Ridge(alpha=alpha).fit(data.x, data.y).predict(data.test))
        targets = [data.y.argmax(axis=1)] if data.kind == "classes" else list(data.y.astype(int).T)
        columns = []
        for target in targets:
            seen = np.unique(target)
            values = np.zeros((len(data.test), data.y.shape[1] if data.kind == "classes" else 2))
            if len(seen) == 1:
                values[:, seen] = 1.0
            else:
                fitted = LogisticRegression(C=c, max_iter=200, tol=1e-3).fit(data.x, target)
                values[:, seen] = fitted.predict_proba(data.test)
            columns.append(values)
        return columns[0] if data.kind == "classes" else np.column_stack([values[:, 1] for values in columns])

    return model


def _neighbours(count: int) -> Model:
    """The mean of the nearest rows; of so many test rows that distances cost, fewer rows are looked at."""

    def model(data: Data, seed: int) -> Any:
        import numpy as np
        from scipy.spatial.distance import cdist

        data = data.every(max(1, -(-len(data.x) * len(data.test) // MOST_DISTANCES)))
        nearest = min(max(1, count), max(1, len(data.x) // 2))
        distance = np.round(cdist(data.test, data.x, "sqeuclidean"), 6)
        return data.y[np.argsort(distance, axis=1, kind="stable")[:, :nearest]].mean(axis=1)

    return model


def _forest(extra: bool) -> Model:
    """The mean of TREES trees: on bootstrap samples (Breiman 2001), or `extra` random ones on all rows (Geurts 2006)."""

    def model(data: Data, seed: int) -> Any:
        import numpy as np

        rng = np.random.RandomState(seed)
        x, test = _narrow(data.x), _narrow(data.test)
        total = np.zeros((len(test), data.y.shape[1]))
        share: Any = "sqrt" if data.kind == "classes" else 0.5
        for at in range(TREES):
            rows = slice(None) if extra else rng.randint(len(x), size=len(x))
            total += _grown(x[rows], data.y[rows], extra, seed + at, max_features=share)(test)
        return total / TREES

    return model


def _boosted(data: Data, seed: int) -> Any:
    """Gradient boosting with one tree for all columns a stage, on four fifths of the rows each (Friedman 2002)."""
    import numpy as np

    rng = np.random.RandomState(seed)
    start, scale, step = data.y.mean(axis=0), 1.0, STEP * 6
    if data.kind == "numbers":
        scale, step = data.y.std(axis=0) + 1e-9, STEP
    else:
        share = np.clip(start, 0.01, 0.99)
        start = np.log(share) if data.kind == "classes" else np.log(share / (1 - share))
    x, test = _narrow(data.x), _narrow(data.test)
    fit, out = np.tile(start, (len(x), 1)), np.tile(start, (len(test), 1))
    for stage in range(STAGES):
        rows = rng.permutation(len(x))[: max(2, len(x) * 4 // 5)]
        left = (data.y - _squashed(fit, data.kind)) / scale
        tree = _grown(x[rows], left[rows], False, seed + stage, max_depth=3, max_features="sqrt")
        fit += step * scale * tree(x)
        out += step * scale * tree(test)
    return _squashed(out, data.kind)


def _grown(x: Any, y: Any, extra: bool, seed: int, **settings: Any) -> Callable[[Any], Any]:
    """Predictions of a regression tree; of classes as 0 and 1 its splits are those of the Gini impurity."""
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    kind = ExtraTreeRegressor if extra else DecisionTreeRegressor
    tree = kind(min_samples_leaf=2, random_state=seed, **settings).fit(x, y, check_input=False).tree_
    return lambda rows: tree.predict(rows).reshape(len(rows), -1)


def _narrow(values: Any) -> Any:
    """As sklearn's trees want it without a check."""
    import numpy as np

    return np.ascontiguousarray(values, dtype=np.float32)


def _squashed(values: Any, kind: str) -> Any:
    from scipy.special import expit, softmax

    return values if kind == "numbers" else expit(values) if kind == "tags" else softmax(values, axis=1)


def _matrix(values: Any) -> Any:
    return values.reshape(len(values), -1)


MODELS: dict[str, Model] = {
    "stump": _tree(1),
    "tree": _tree(3),
    "deep_tree": _tree(None),
    "linear_shrunk": _linear(0.01, 200.0),
    "linear": _linear(0.5, 2.0),
    "linear_free": _linear(20.0, 0.05),
    "neighbours": _neighbours(5),
    "many_neighbours": _neighbours(15),
    "forest": _forest(extra=False),
    "extra_trees": _forest(extra=True),
    "boosted": _boosted,
}
