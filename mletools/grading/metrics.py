"""Metrics by name: direction, the kind of prediction they need, and a function built on scikit-learn.

A task's answers and a submission arrive as data frames with the same rows in the same order. Several targets of a
regression are averaged over columns; several targets of a probability metric are the classes, one column each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..records.errors import RecordError


class Undefined(ValueError):
    """The metric has no value for these predictions."""


@dataclass(frozen=True)
class Metric:
    """function(answers (rows, targets), predictions (rows, targets), params) -> score; needs: label | number | probability."""

    function: Callable[[Any, Any, Mapping[str, Any]], float]
    lower_is_better: bool
    needs: str
    definition: str


def _labels(answers: Any, predictions: Any) -> tuple[Any, Any]:
    return answers.iloc[:, 0].astype(str), predictions.iloc[:, 0].astype(str)


def _accuracy(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(*_labels(answers, predictions)))


def _balanced_accuracy(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import recall_score

    truth, guess = _labels(answers, predictions)
    return float(recall_score(truth, guess, labels=sorted(truth.unique()), average="macro", zero_division=0))


def _f1_macro(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import f1_score

    truth, guess = _labels(answers, predictions)
    return float(f1_score(truth, guess, labels=sorted(set(truth) | set(guess)), average="macro", zero_division=0))


def _log_loss(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    """Answers and predictions hold one column per class; the answer's column is 1 in its row."""
    from sklearn.metrics import log_loss

    probabilities = predictions.to_numpy(dtype=float)
    sums = probabilities.sum(axis=1, keepdims=True)
    if (sums <= 0).any():
        raise Undefined("a row of probabilities is all zero")
    truth = answers.to_numpy(dtype=float).argmax(axis=1)
    return float(log_loss(truth, probabilities / sums, labels=list(range(probabilities.shape[1]))))


def _auroc(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answers.iloc[:, 0].astype(float), predictions.iloc[:, 0].astype(float)))


def _rmse(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import root_mean_squared_error

    return float(root_mean_squared_error(answers.astype(float), predictions.astype(float)))


def _mae(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(answers.astype(float), predictions.astype(float)))


def _r2(answers: Any, predictions: Any, params: Mapping[str, Any]) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(answers.astype(float), predictions.astype(float)))


METRICS: dict[str, Metric] = {
    "accuracy": Metric(_accuracy, False, "label", "share of rows whose label is right"),
    "balanced_accuracy": Metric(_balanced_accuracy, False, "label", "recall, averaged over the classes in the answers"),
    "f1_macro": Metric(_f1_macro, False, "label", "F1, averaged over the classes in answers or predictions"),
    "log_loss": Metric(
        _log_loss,
        True,
        "probability",
        "mean negative natural log of the probability given to the true class; rows are scaled to sum 1",
    ),
    "auroc": Metric(_auroc, False, "probability", "area under the ROC curve of the probability of class 1"),
    "rmse": Metric(_rmse, True, "number", "root mean squared error, averaged over targets"),
    "mae": Metric(_mae, True, "number", "mean absolute error, averaged over targets"),
    "r2": Metric(_r2, False, "number", "coefficient of determination, averaged over targets"),
}


def find(name: str) -> Metric:
    """The metric of that name; RecordError listing the known ones."""
    if name not in METRICS:
        raise RecordError(f"unknown metric {name!r}; known are {', '.join(METRICS)}")
    return METRICS[name]


def lower_is_better(name: str) -> bool:
    return find(name).lower_is_better


def score(name: str, params: Mapping[str, Any], answers: Any, submission: Any, target: Sequence[str]) -> float:
    """The metric of `submission` against `answers`, both data frames with the same rows; only `target` columns count.

    Undefined (a ValueError) when the metric has no value for these predictions.
    """
    columns = list(target)
    return find(name).function(answers[columns], submission[columns], params)
