"""Baselines that are really trained on train.csv and scored on the held-out answers, from a constant to an ensemble.

They read the files that a solver gets, run on one thread and are deterministic. Not covered: other data than tables,
and which of the scores become thresholds (thresholds).
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..records.errors import RecordError
from .draft import TaskDraft
from .learners import Arrays, best_by_folds, every, fit_predict, models
from .table import Rejected

# score(grading part of a record, answers, submission), both the bytes of a CSV file. It raises ValueError where the
# submission has no score, RecordError where none can have one.
Score = Callable[[Mapping[str, Any], bytes, bytes], float]
SCORE_ROUND = 5
# The baselines of one task have to be done within seconds: they see so many of the training rows, and no category with
# more levels.
MOST_TRAINED_ON = 2000
MOST_LEVELS = 50


def ladder(draft: TaskDraft, score: Score, seed: int) -> list[dict[str, Any]]:
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
        scores.append({"name": name, "score": score_of(draft, draft.hand_in(values), score)})
    return scores


def libraries() -> dict[str, str]:
    """The versions that the scores of the baselines may depend on."""
    import numpy as np
    import sklearn

    return {"numpy": np.__version__, "scikit-learn": sklearn.__version__}


def score_of(draft: TaskDraft, submission: bytes, score: Score) -> float:
    """The rounded score of a submission's bytes, read back the way a grader would. Rejected where it is undefined."""
    import math

    try:
        value = float(score(draft.grading, draft.answers, submission))
    except (ValueError, RecordError) as error:
        raise Rejected(f"{draft.metric['name']} is undefined: {error}") from error
    if not math.isfinite(value):
        raise Rejected(f"{draft.metric['name']} is {value}")
    return round(value, SCORE_ROUND)


def encode(draft: TaskDraft) -> Arrays:
    """Numbers filled with the median and scaled, categories as one column a level, all learnt from train.csv alone.

    Rejected when no column is left to learn from.
    """
    import numpy as np
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [column.name for column in draft.features if column.number]
    categories = [column.name for column in draft.features if not column.number]
    train = _read(draft.public["train.csv"], numbers, categories)
    y = draft.y
    test = _read(draft.public["test.csv"], numbers, categories)
    if len(train) > MOST_TRAINED_ON:
        step = -(-len(train) // MOST_TRAINED_ON)
        train, y = train.iloc[::step], y[::step]
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
    labels = len(draft.form.labels)
    balanced = draft.metric["name"] in ("balanced_accuracy", "f1_macro")
    return Arrays(x, y.astype(int) if labels else y, x_test, labels, balanced)


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


def train_all(arrays: Arrays, seed: int) -> dict[str, Any]:
    """Predictions of shape (test rows, labels or targets) by the name of the baseline, simple ones first."""
    part = every(arrays, 3)
    model = models(arrays, seed)
    found = {
        "stump": fit_predict(arrays, model["stump"]),
        "linear_shrunk": fit_predict(arrays, model["linear_shrunk"]),
        "tree_third": fit_predict(part, model["tree"]),
        "linear_third": fit_predict(part, model["linear"]),
        "neighbours": fit_predict(arrays, model["neighbours"]),
        "tree": fit_predict(arrays, model["tree"]),
        "linear": fit_predict(arrays, model["linear"]),
        "forest_third": fit_predict(part, model["forest"]),
        "forest": fit_predict(arrays, model["forest"]),
        "boosted": fit_predict(arrays, model["boosted"]),
    }
    found["ensemble"] = (found["linear"] + found["forest"] + found["boosted"]) / 3
    best = best_by_folds({name: (arrays, model[name]) for name in ("linear", "forest", "boosted", "neighbours")})
    found["tuned_ensemble"] = sum(found[name] for name in best) / len(best)
    return found
