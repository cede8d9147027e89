"""Baselines that are really trained on train.csv and scored on the held-out answers, from a constant to an ensemble.

They read the files that a solver gets, run on one thread and are deterministic. Not covered: other data than tables,
and which of the scores become thresholds (thresholds).
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..records.errors import RecordError
from .draft import Draft, submission_csv
from .table import Rejected

# score(grading part of a record, answers, submission), both the bytes of a CSV file. It raises ValueError where the
# submission has no score, RecordError where none can have one.
Score = Callable[[Mapping[str, Any], bytes, bytes], float]
SCORE_ROUND = 5
FOLDS = 3
# The baselines of one task have to be done within seconds: they see so many of the training rows, and no category with
# more levels.
MOST_TRAINED_ON = 2000
MOST_LEVELS = 50
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

    try:
        value = float(score(draft.grading, draft.answers, submission))
    except (ValueError, RecordError) as error:
        raise Rejected(f"{draft.metric} is undefined: {error}") from error
    if not math.isfinite(value):
        raise Rejected(f"{draft.metric} is {value}")
    return round(value, SCORE_ROUND)


def encode(draft: Draft) -> Arrays:
    """Numbers filled with the median and scaled, categories as one column a level, all learnt from train.csv alone.

    Rejected when no column is left to learn from.
    """
    import numpy as np
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    names = [column.name for column in draft.train_targets]
    numbers = [column.name for column in draft.table.features if column.number]
    categories = [column.name for column in draft.table.features if not column.number]
    train = _read(draft.public["train.csv"], numbers, categories)
    train[names] = _targets(draft, names)
    test = _read(draft.public["test.csv"], numbers, categories)
    if len(train) > MOST_TRAINED_ON:
        train = train.iloc[:: -(-len(train) // MOST_TRAINED_ON)]
    numbers = [name for name in numbers if train[name].notna().any()]
    categories = [name for name in categories if train[name].nunique() <= MOST_LEVELS]
    if not numbers and not categories:
        raise Rejected("there is no column to learn from")
    encoder = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ]
    )
    for frame in (train, test):
        frame[categories] = frame[categories].astype(object).where(frame[categories].notna(), "missing")
    x, x_test = (np.asarray(values, dtype=float) for values in (encoder.fit_transform(train), encoder.transform(test)))
    y = train[names].to_numpy()
    if draft.form != "number":
        code = _codes(draft)
        y = np.array([[code[cell]] for cell in y[:, 0]])
    labels = 0 if draft.form == "number" else len(draft.table.labels)
    return Arrays(x, y, x_test, labels, draft.metric in ("balanced_accuracy", "f1_macro"))


def _read(content: bytes, numbers: list[str], categories: list[str]) -> Any:
    """The DataFrame of these columns of a CSV; numbers that are infinite are missing."""
    import io

    import numpy as np
    import pandas as pd

    types = {name: str for name in categories}
    frame = pd.read_csv(io.BytesIO(content), dtype=types, usecols=[*numbers, *categories])
    for name in numbers:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").replace([np.inf, -np.inf], np.nan)
    return frame


def _targets(draft: Draft, names: list[str]) -> Any:
    """The targets of train.csv: numbers, or labels as they are written."""
    import io

    import pandas as pd

    if draft.form == "number":
        return pd.read_csv(io.BytesIO(draft.public["train.csv"]), usecols=names)[names]
    return pd.read_csv(io.BytesIO(draft.public["train.csv"]), usecols=names, dtype=str, keep_default_na=False)[names]


def _codes(draft: Draft) -> dict[str, int]:
    """The number of each label's column in a prediction; where train.csv says 0 and 1 instead, of these."""
    labels = draft.table.labels
    if draft.form == "probability" and draft.train_targets != draft.table.targets:
        positive = labels.index(draft.table.positive)
        return {"1": positive, "0": 1 - positive}
    return {label: at for at, label in enumerate(labels)}


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
