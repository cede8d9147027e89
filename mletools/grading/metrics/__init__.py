"""Metrics by name. `check` validates their use in a task record, `score` computes them.

They use scikit-learn, scipy, rapidfuzz or pycocotools where possible; else the function's docstring names the source of
the definition. Not covered: reading cells (parsing), aligning rows (submission).
"""

from typing import Any

import msgspec

from ...base.errors import RecordError
from ...base.words import did_you_mean
from ...records.task import MetricSpec
from . import (  # noqa: F401
    boxes,
    boxes3d,
    classification,
    discrimination,
    geometry,
    mask_objects,
    masks,
    masks3d,
    probability,
    ranking,
    regression,
    spans,
    text,
)
from .registry import METRICS, REQUIRED, Inputs, Metric, TooExpensive, Undefined, Unsuited

__all__ = [
    "METRICS",
    "REQUIRED",
    "Metric",
    "TooExpensive",
    "Undefined",
    "Unsuited",
    "check",
    "find",
    "lower_is_better",
    "score",
]

COLUMNS = ("mean", "flat")


def find(name: str) -> Metric:
    """The metric of that name; RecordError with near names where there is none."""
    if name not in METRICS:
        near = did_you_mean(name, METRICS, 10)
        raise RecordError(f"unknown metric {name!r}{near or ';'} mle-grade --list-metrics prints all")
    return METRICS[name]


def lower_is_better(name: str) -> bool:
    return find(name).lower_is_better


def check(spec: MetricSpec, parse: str, answer_parse: str) -> None:
    """RecordError unless `spec`, the metric part of a task record, is valid."""
    metric = find(spec["name"])
    if spec["lower_is_better"] != metric.lower_is_better:
        better = "lower" if metric.lower_is_better else "higher"
        raise RecordError(f"metric.lower_is_better contradicts {metric.name}: {better} is better")
    if parse not in metric.parse:
        raise RecordError(f"{metric.name} reads {' or '.join(metric.parse)}, but submission.parse is {parse}")
    if answer_parse not in metric.answer_parse:
        raise RecordError(f"{metric.name} needs answers read as {' or '.join(metric.answer_parse)}, not {answer_parse}")
    unknown = sorted(set(spec["params"]) - set(metric.params))
    if unknown:
        known = ", ".join(metric.params) or "none"
        raise RecordError(f"{metric.name} has no parameter {unknown[0]!r}; it has {known}")
    for name, value in spec["params"].items():
        try:
            msgspec.convert(value, metric.types[name])
        except msgspec.ValidationError as error:
            raise RecordError(f"metric.params.{name} is {value!r}: {str(error).lower()}") from None
    missing = [name for name, default in metric.params.items() if default is REQUIRED and name not in spec["params"]]
    if missing:
        raise RecordError(f"{metric.name} needs the parameter {missing[0]!r} in metric.params")
    if "group" in metric.inputs and "group" not in spec:
        raise RecordError(f"{metric.name} needs metric.group, a column of the answers")
    for name in ("weight", "group"):
        if name in spec and name not in metric.inputs:
            raise RecordError(f"{metric.name} takes no {name}")
    if spec.get("columns", COLUMNS[0]) not in COLUMNS:
        raise RecordError(f"metric.columns is {spec['columns']!r}, not mean or flat")
    if "columns" in spec and metric.columns == "joint":
        raise RecordError(f"{metric.name} takes all target columns together; leave metric.columns out")


def score(spec: MetricSpec, truth: Any, guess: Any, inputs: Inputs) -> float:
    """The metric `spec` of `guess` against `truth`, numpy arrays of parsed cells of shape (rows, targets).

    Undefined where the metric has no value for these predictions, Unsuited
    where it has none for these answers, whatever the predictions.
    """
    metric = find(spec["name"])
    own = {name: value for name, value in inputs.items() if name in metric.inputs}
    arguments: dict[str, object] = {**spec["params"], **own}
    if metric.columns == "joint":
        return float(metric.function(truth, guess, **arguments))
    if spec.get("columns") == "flat":
        import numpy as np

        times = truth.shape[1]
        for name, column in (("weight", inputs.get("weight")), ("group", inputs.get("group"))):
            if name in own and column is not None:
                arguments[name] = np.tile(column, times)
        if "extra" in own and times > 1:
            arguments["extra"] = {name: np.tile(column, times) for name, column in inputs["extra"].items()}
        return float(metric.function(truth.ravel(order="F"), guess.ravel(order="F"), **arguments))
    values = [metric.function(truth[:, at], guess[:, at], **arguments) for at in range(truth.shape[1])]
    return float(sum(values) / len(values))
