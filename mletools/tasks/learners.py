"""What learns: scikit-learn's models by a name, trained on encoded data on one thread, deterministic.

Not covered: where the features come from (baselines for tables, procedural.board for the others).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FOLDS = 3
# A probability is kept this far from 0 and 1, or one sure mistake would outweigh every other row of a log loss.
LEAST_PROBABILITY = 0.02
Make = Callable[[], Any]


@dataclass(frozen=True)
class Arrays:
    """Encoded data: `x` (train rows, encoded columns), `y` (train rows, targets; class numbers), `test` like `x`."""

    x: Any
    y: Any
    test: Any
    labels: int
    balanced: bool


def models(arrays: Arrays, seed: int) -> dict[str, Make]:
    """Fresh models for the data by their names, simple ones first."""
    return {
        "stump": _tree(arrays, seed, depth=1),
        "linear_shrunk": _linear(arrays, 0.01, float(len(arrays.x))),
        "tree": _tree(arrays, seed, depth=3),
        "deep_tree": _tree(arrays, seed, depth=None),
        "neighbours": _neighbours(arrays, 5),
        "many_neighbours": _neighbours(arrays, 15),
        "linear": _linear(arrays, 0.5, 2.0),
        "linear_free": _linear(arrays, 20.0, 0.05),
        "forest": _forest(arrays, seed),
        "extra_trees": _extra_trees(arrays, seed),
        "boosted": _boosted(arrays, seed),
    }


def fit_predict(arrays: Arrays, make: Make, rows: Any = None, test: Any = None) -> Any:
    """Predictions for `test` (default: the test rows) of a fresh model trained on `rows` (default: all)."""
    import numpy as np

    x, y = (arrays.x, arrays.y) if rows is None else (arrays.x[rows], arrays.y[rows])
    test = arrays.test if test is None else test
    if not arrays.labels:
        return np.column_stack([make().fit(x, y[:, at]).predict(test) for at in range(y.shape[1])])
    model = make().fit(x, y[:, 0])
    probabilities = np.zeros((len(test), arrays.labels))
    probabilities[:, model.classes_] = model.predict_proba(test)
    kept = np.clip(probabilities, LEAST_PROBABILITY, None)
    return kept / kept.sum(axis=1, keepdims=True)


def best_by_folds(candidates: Mapping[str, tuple[Arrays, Make]]) -> list[str]:
    """The two candidates, data and a model each, with the least squared error on held-out folds of the training rows.

    All share the rows and their targets.
    """
    import numpy as np

    arrays = next(iter(candidates.values()))[0]
    order = np.argsort(arrays.y[:, 0], kind="stable")
    fold = np.empty(len(order), dtype=int)
    fold[order] = np.arange(len(order)) % FOLDS
    scale = 1.0 if arrays.labels else np.maximum(arrays.y.std(axis=0), 1e-9)
    truth = np.eye(arrays.labels)[arrays.y[:, 0]] if arrays.labels else arrays.y / scale
    errors = {}
    for name, (own, make) in candidates.items():
        guesses = np.zeros(truth.shape)
        for at in range(FOLDS):
            guesses[fold == at] = fit_predict(own, make, fold != at, own.x[fold == at]) / scale
        errors[name] = float(((guesses - truth) ** 2).mean())
    return sorted(errors, key=lambda name: errors[name])[:2]


def every(arrays: Arrays, step: int) -> Arrays:
    """Every step-th training row in the order of the target, so that each class keeps its share."""
    import numpy as np

    rows = np.sort(np.argsort(arrays.y[:, 0], kind="stable")[::step])
    return Arrays(arrays.x[rows], arrays.y[rows], arrays.test, arrays.labels, arrays.balanced)


def _weights(arrays: Arrays) -> dict[str, Any]:
    return {"class_weight": "balanced"} if arrays.labels and arrays.balanced else {}


def _tree(arrays: Arrays, seed: int, depth: int | None) -> Make:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if arrays.labels else DecisionTreeRegressor
    return lambda: kind(max_depth=depth, random_state=seed, **_weights(arrays))


def _linear(arrays: Arrays, c: float, alpha: float) -> Make:
    """A linear model; a small `c` (classes) and a large `alpha` (numbers) pull it towards the constant."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if arrays.labels:
        return lambda: LogisticRegression(C=c, max_iter=300, **_weights(arrays))
    return lambda: Ridge(alpha=alpha)


def _neighbours(arrays: Arrays, count: int) -> Make:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsClassifier if arrays.labels else KNeighborsRegressor
    return lambda: kind(n_neighbors=max(1, min(count, len(arrays.x) // 2)))


def _extra_trees(arrays: Arrays, seed: int) -> Make:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    if arrays.labels:
        return lambda: ExtraTreesClassifier(40, min_samples_leaf=2, random_state=seed, n_jobs=1, **_weights(arrays))
    return lambda: ExtraTreesRegressor(40, min_samples_leaf=2, random_state=seed, n_jobs=1)


def _forest(arrays: Arrays, seed: int) -> Make:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if arrays.labels:
        return lambda: RandomForestClassifier(30, min_samples_leaf=2, random_state=seed, n_jobs=1, **_weights(arrays))
    return lambda: RandomForestRegressor(30, min_samples_leaf=2, max_features=0.6, random_state=seed, n_jobs=1)


def _boosted(arrays: Arrays, seed: int) -> Make:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if arrays.labels else GradientBoostingRegressor
    # One tree a class is grown at each of the stages.
    stages = max(12, 75 // arrays.labels) if arrays.labels > 2 else 50
    return lambda: kind(n_estimators=stages, max_depth=3, subsample=0.8, max_features="sqrt", random_state=seed)
