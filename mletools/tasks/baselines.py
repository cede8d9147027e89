"""Baselines that are really trained on train.csv and scored on the held-out answers, from a constant to an ensemble.

They read the files that a solver gets, run on one thread and are deterministic. Not covered: other data than tables,
and which of the scores become thresholds (thresholds).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .draft import Draft, read_csv, submission_csv
from .table import Rejected

# score(metric name, its params, answers, submission, target columns); both frames hold the ids in one order and, for
# labels, text. It raises ValueError where the metric is undefined.
Score = Callable[[str, dict[str, Any], Any, Any, Sequence[str]], float]
SCORE_ROUND = 5
FOLDS = 3
# A probability is kept this far from 0 and 1, or one sure mistake would outweigh every other row of a log loss.
LEAST_PROBABILITY = 0.02


@dataclass(frozen=True)
class Arrays:
    """Encoded data: `x` (train rows, encoded columns), `y` (train rows, targets; class numbers), `test` like `x`."""

    x: Any
    y: Any
    test: Any
    labels: int
    balanced: bool


def ladder(draft: Draft, score: Score, seed: int) -> list[dict[str, Any]]:
    """[{name, score}] of every baseline, the dummy (the sample submission) first; scores rounded to SCORE_ROUND.

    Rejected when the metric is undefined for one of them, which lies in the answers.
    """
    from threadpoolctl import threadpool_limits

    scores = [{"name": "dummy", "score": score_of(draft, draft.public["sample_submission.csv"], score)}]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = encode(draft)
        predictions = train_all(arrays, seed)
    for name, values in predictions.items():
        scores.append({"name": name, "score": score_of(draft, submission_csv(draft, values), score)})
    return scores


def libraries() -> dict[str, str]:
    """The versions that the scores of the baselines may depend on."""
    import numpy as np
    import sklearn

    return {"numpy": np.__version__, "scikit-learn": sklearn.__version__}


def score_of(draft: Draft, submission: bytes, score: Score) -> float:
    """The rounded score of a submission's bytes, read back the way a grader would. Rejected where it is undefined."""
    import math

    labels = draft.submission["parse"] == "label"
    answers, handed_in = read_csv(draft.answers, labels), read_csv(submission, labels)
    try:
        value = float(score(draft.metric, {}, answers, handed_in, draft.submission["target"]))
    except ValueError as error:
        raise Rejected(f"{draft.metric} is undefined: {error}") from error
    if not math.isfinite(value):
        raise Rejected(f"{draft.metric} is {value}")
    return round(value, SCORE_ROUND)


def encode(draft: Draft) -> Arrays:
    """Numbers filled with the median and scaled, categories as one column a level, all learnt from train.csv alone."""
    import numpy as np
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    train, test = read_csv(draft.public["train.csv"]), read_csv(draft.public["test.csv"])
    numbers = [column.name for column in draft.table.features if column.number]
    categories = [column.name for column in draft.table.features if not column.number]
    encoder = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ]
    )
    for frame in (train, test):
        frame[categories] = frame[categories].astype(object).where(frame[categories].notna(), "missing")
    x, x_test = (np.asarray(values, dtype=float) for values in (encoder.fit_transform(train), encoder.transform(test)))
    names = [column.name for column in draft.train_targets]
    y = train[names].to_numpy()
    labels = draft.table.labels
    if labels:
        zero_one = ["1" if label == draft.table.positive else "0" for label in labels]
        shown = zero_one if draft.metric == "auroc" else labels
        y = np.array([[shown.index(str(cell))] for cell in y[:, 0]])
    return Arrays(x, y, x_test, len(labels), draft.metric in ("balanced_accuracy", "f1_macro"))


def train_all(arrays: Arrays, seed: int) -> dict[str, Any]:
    """Predictions of shape (test rows, labels or targets) by the name of the baseline, simple ones first."""
    part = _every(arrays, 3)
    stump, shallow = _tree(arrays, seed, depth=1), _tree(arrays, seed, depth=3)
    neighbours, linear = _neighbours(arrays), _linear(arrays)
    forest, boosted = _forest(arrays, seed), _boosted(arrays, seed)
    found = {
        "stump": fit_predict(arrays, stump),
        "linear_shrunk": fit_predict(arrays, _linear(arrays, shrunk=True)),
        "tree_third": fit_predict(part, shallow),
        "linear_third": fit_predict(part, linear),
        "neighbours": fit_predict(arrays, neighbours),
        "tree": fit_predict(arrays, shallow),
        "linear": fit_predict(arrays, linear),
        "forest_third": fit_predict(part, forest),
        "forest": fit_predict(arrays, forest),
        "boosted": fit_predict(arrays, boosted),
    }
    found["ensemble"] = (found["linear"] + found["forest"] + found["boosted"]) / 3
    candidates = {"linear": linear, "forest": forest, "boosted": boosted, "neighbours": neighbours}
    best = _best_by_folds(arrays, candidates)
    found["tuned_ensemble"] = sum(found[name] for name in best) / len(best)
    return found


def fit_predict(arrays: Arrays, make: Callable[[], Any], rows: Any = None, test: Any = None) -> Any:
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


def _best_by_folds(arrays: Arrays, candidates: dict[str, Callable[[], Any]]) -> list[str]:
    """The two candidates with the least squared error on held-out folds of the training rows."""
    import numpy as np

    order = np.argsort(arrays.y[:, 0], kind="stable")
    fold = np.empty(len(order), dtype=int)
    fold[order] = np.arange(len(order)) % FOLDS
    truth = np.eye(arrays.labels)[arrays.y[:, 0]] if arrays.labels else arrays.y / arrays.y.std(axis=0)
    scale = 1.0 if arrays.labels else arrays.y.std(axis=0)
    errors = {}
    for name, make in candidates.items():
        guesses = np.zeros(truth.shape)
        for at in range(FOLDS):
            guesses[fold == at] = fit_predict(arrays, make, fold != at, arrays.x[fold == at]) / scale
        errors[name] = float(((guesses - truth) ** 2).mean())
    return sorted(errors, key=lambda name: errors[name])[:2]


def _every(arrays: Arrays, step: int) -> Arrays:
    """Every step-th training row in the order of the target, so that each class keeps its share."""
    import numpy as np

    rows = np.sort(np.argsort(arrays.y[:, 0], kind="stable")[::step])
    return Arrays(arrays.x[rows], arrays.y[rows], arrays.test, arrays.labels, arrays.balanced)


def _weights(arrays: Arrays) -> dict[str, Any]:
    return {"class_weight": "balanced"} if arrays.labels and arrays.balanced else {}


def _tree(arrays: Arrays, seed: int, depth: int) -> Callable[[], Any]:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if arrays.labels else DecisionTreeRegressor
    return lambda: kind(max_depth=depth, random_state=seed, **_weights(arrays))


def _linear(arrays: Arrays, shrunk: bool = False) -> Callable[[], Any]:
    """A linear model; `shrunk` pulls it halfway to the constant, which the tiniest tables need."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if arrays.labels:
        return lambda: LogisticRegression(C=0.01 if shrunk else 0.5, max_iter=300, **_weights(arrays))
    return lambda: Ridge(alpha=float(len(arrays.x)) if shrunk else 2.0)


def _neighbours(arrays: Arrays) -> Callable[[], Any]:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    kind = KNeighborsClassifier if arrays.labels else KNeighborsRegressor
    return lambda: kind(n_neighbors=min(5, len(arrays.x) // 2))


def _forest(arrays: Arrays, seed: int) -> Callable[[], Any]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if arrays.labels:
        return lambda: RandomForestClassifier(30, min_samples_leaf=2, random_state=seed, n_jobs=1, **_weights(arrays))
    return lambda: RandomForestRegressor(30, min_samples_leaf=2, max_features=0.6, random_state=seed, n_jobs=1)


def _boosted(arrays: Arrays, seed: int) -> Callable[[], Any]:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if arrays.labels else GradientBoostingRegressor
    # One tree a class is grown at each of the stages.
    stages = max(12, 75 // arrays.labels) if arrays.labels > 2 else 50
    return lambda: kind(n_estimators=stages, max_depth=3, subsample=0.8, max_features="sqrt", random_state=seed)
