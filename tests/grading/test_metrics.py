"""What holds of every metric: row order does not matter, a perfect submission is best, worse predictions are not better."""

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from conftest import mostly_slow
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from metric_cases import Case, Make

from mletools.base.errors import RecordError
from mletools.grading import metrics
from mletools.grading.metrics import METRICS, REQUIRED, Undefined

FILES = ["classification", "probability", "regression", "ranking", "masks", "boxes"]
MAKE: dict[str, Make] = {}
for _file in FILES:
    MAKE.update(importlib.import_module(f"test_metrics_{_file}").MAKE)

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def score(name: str, case: Case, truth: Any, guess: Any, given: dict[str, Any] | None = None) -> float:
    spec = {"name": name, "params": case.params}
    everything = {"weight": None, "group": None, "extra": {}, "names": [f"t{at}" for at in range(truth.shape[1])]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning would reach the user's terminal
        return metrics.score(spec, truth, guess, {**everything, **case.given, **(given or {})})


def better(name: str, first: float, second: float) -> bool:
    """Whether the first is better by more than rounding."""
    margin = 1e-9 * max(1.0, abs(first), abs(second))
    return first < second - margin if METRICS[name].lower_is_better else first > second + margin


def test_every_metric_has_a_case() -> None:
    assert sorted(MAKE) == sorted(METRICS)
    assert len(METRICS) >= 60


@pytest.mark.parametrize("name", sorted(name for name in METRICS if METRICS[name].parse == ("number",)))
def test_metrics_without_a_value_for_constants_say_so(name: str) -> None:
    metric = METRICS[name]
    case = MAKE[name](np.random.RandomState(1), 24)
    for constant in (1.0, 0.5):
        row = np.arange(case.truth.shape[1]) + constant if metric.columns == "joint" else constant
        guess = np.broadcast_to(np.asarray(row, dtype=float), np.shape(case.guess)).copy()
        try:
            score(name, case, case.truth, guess)
            undefined = False
        except Undefined as reason:
            undefined = "all the same" in str(reason)
        assert undefined == metric.constant_is_undefined, constant


@pytest.mark.parametrize("name", mostly_slow(sorted(METRICS), 25))
@few
@given(seed=seeds, rows=st.integers(8, 40))
def test_row_order_never_matters(name: str, seed: int, rows: int) -> None:
    draws = np.random.RandomState(seed)
    case = MAKE[name](draws, rows)
    order = draws.permutation(len(case.truth))
    shuffled = {
        key: {column: cells[order] for column, cells in value.items()} if isinstance(value, dict) else value[order]
        for key, value in case.given.items()
        if value is not None and key != "names"
    }
    straight = score(name, case, case.truth, case.guess)
    assert score(name, case, case.truth[order], case.guess[order], shuffled) == pytest.approx(straight, rel=1e-9)


@pytest.mark.parametrize("name", mostly_slow(sorted(METRICS), 25))
@few
@given(seed=seeds, rows=st.integers(8, 40))
def test_a_perfect_submission_gets_the_best_value_and_no_other_is_better(name: str, seed: int, rows: int) -> None:
    case = MAKE[name](np.random.RandomState(seed), rows)
    perfect = score(name, case, case.truth, case.perfect)
    best = METRICS[name].best
    if best is not None:
        assert perfect == pytest.approx(best, abs=1e-9)
    assert not better(name, score(name, case, case.truth, case.guess), perfect)


@pytest.mark.parametrize("name", mostly_slow(sorted(METRICS), 25))
@few
@given(seed=seeds, rows=st.integers(8, 40))
def test_what_is_made_worse_is_never_better(name: str, seed: int, rows: int) -> None:
    draws = np.random.RandomState(seed)
    case = MAKE[name](draws, rows)
    if case.worsen is None:
        return
    first = score(name, case, case.truth, case.perfect)
    guess = case.perfect
    for _ in range(3):
        guess = case.worsen(guess, draws)
        second = score(name, case, case.truth, guess)
        assert not better(name, second, first)
        first = second


@pytest.mark.parametrize("name", sorted(name for name, found in METRICS.items() if found.parse[0] == "number"))
@pytest.mark.parametrize("value", [1e308, -1e308, 1e-308, 0.0])
def test_extreme_numbers_give_a_number_or_a_reason(name: str, value: float) -> None:
    case = MAKE[name](np.random.RandomState(0), 20)
    try:
        score(name, case, case.truth, np.full_like(case.guess, value))
    except Undefined as undefined:
        assert str(undefined)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_metrics_say_what_they_are(name: str) -> None:
    found = METRICS[name]
    assert len(found.definition) > 20 and found.definition.endswith((".", ")"))
    assert found.parse and found.columns in ("each", "joint")


def spec(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "params": {},
        "lower_is_better": METRICS[name].lower_is_better if name in METRICS else True,
        **more,
    }


@pytest.mark.parametrize(
    ("metric", "parse", "reason"),
    [
        (
            spec("rsme"),
            "number",
            r"unknown metric 'rsme'; did you mean .*rmse.*\? mle-grade --list-metrics prints all",
        ),
        (spec("rmse", lower_is_better=False), "number", "metric.lower_is_better contradicts rmse: lower is better"),
        (spec("rmse"), "label", "rmse reads number, but submission.parse is label"),
        (spec("rmse", params={"power": 2}), "number", "rmse has no parameter 'power'; it has none"),
        (spec("map_at_k"), "ranked", "map_at_k needs the parameter 'k' in metric.params"),
        (spec("log_mae_by_group"), "number", "log_mae_by_group needs metric.group, a column of the answers"),
        (spec("r2", group="kind"), "number", "r2 takes no group"),
        (spec("rmse", columns="median"), "number", "metric.columns is 'median', not mean or flat"),
        (
            spec("log_loss", columns="flat"),
            "number",
            "log_loss takes all target columns together; leave metric.columns out",
        ),
    ],
)
def test_a_record_that_uses_a_metric_wrongly_is_told_so(metric: dict[str, Any], parse: str, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        metrics.check(metric, parse, parse)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("rmsle", {"floor": "0"}),
        ("dice_mean", {"both_empty": "1"}),
        ("dice_mean", {"height": "x"}),
        ("dice_mean", {"width_column": 1}),
        ("iou_precision", {"thresholds": None}),
        ("map_coco", {"iou": None}),
        ("map_coco", {"max_detections": "100"}),
        ("log_loss", {"classes": 1}),
        ("map_at_k", {"k": True}),
        ("f1_binary", {"positive": ["1"]}),
    ],
)
def test_a_parameter_of_another_type_is_refused_by_name(name: str, params: dict[str, Any]) -> None:
    found = METRICS[name]
    with pytest.raises(RecordError, match=rf"metric\.params\.{next(iter(params))} is .*: expected "):
        metrics.check(spec(name, params=params), found.parse[0], found.answer_parse[0])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("rmsle", {"floor": 0}),
        ("f1_binary", {"positive": 1}),
        ("f1_binary", {"positive": True}),
        ("map_coco", {"iou": [0.5]}),
    ],
)
def test_a_parameter_may_be_spelled_in_several_ways(name: str, params: dict[str, Any]) -> None:
    metrics.check(spec(name, params=params), METRICS[name].parse[0], METRICS[name].answer_parse[0])


def test_parameters_have_defaults_or_are_required() -> None:
    assert METRICS["map_at_k"].params["k"] is REQUIRED
    assert METRICS["fbeta"].params["beta"] == 1


@few
@given(seed=seeds)
@example(seed=0)
def test_several_columns_are_averaged_or_taken_as_one(seed: int) -> None:
    draws = np.random.RandomState(seed)
    truth, guess = draws.normal(size=(30, 3)), draws.normal(size=(30, 3))
    given: dict[str, Any] = {"weight": draws.uniform(1, 2, 30), "group": None, "extra": {}, "names": []}
    mean = metrics.score({"name": "mae", "params": {}}, truth, guess, given)
    errors = abs(truth - guess)
    assert mean == pytest.approx(np.mean([np.average(errors[:, at], weights=given["weight"]) for at in range(3)]))
    flat = metrics.score({"name": "rmse", "params": {}, "columns": "flat"}, truth, guess, {**given, "weight": None})
    assert flat == pytest.approx(np.sqrt((errors**2).mean()))
