"""Metrics on numbers: values worked by hand, agreement with scikit-learn and scipy, and what is refused."""

from collections.abc import Callable
from math import inf, isfinite, log, sqrt
from typing import Any

import numpy as np
import pytest
from metric_cases import Case, Make, cells

from mletools.grading.metrics import METRICS, Undefined, Unsuited

HUGE = 1e308


def value(name: str, truth: Any, guess: Any, **arguments: Any) -> float:
    return METRICS[name].function(np.array(truth, dtype=float), np.array(guess, dtype=float), **arguments)


def test_errors_by_hand() -> None:
    truth, guess = [1, 2, 4, 8], [1, 4, 3, 8]
    assert value("mae", truth, guess) == 0.75
    assert value("mse", truth, guess) == 1.25
    assert value("rmse", truth, guess) == sqrt(1.25)
    assert value("median_absolute_error", truth, guess) == 0.5
    assert value("mape", truth, guess) == (1 + 1 / 4) / 4
    assert value("rmspe", truth, guess) == sqrt((1 + 1 / 16) / 4)
    assert value("smape", truth, guess) == pytest.approx((200 * 2 / 6 + 200 / 7) / 4)
    assert value("rmsle", [0, np.e - 1], [np.e - 1, np.e - 1]) == pytest.approx(sqrt(0.5))
    assert value("r2", truth, guess) == pytest.approx(1 - 5 / 28.75)


def test_weights() -> None:
    truth, guess, weight = [1, 2, 4], [2, 4, 4], np.array([5.0, 1, 0])
    assert value("mae", truth, guess, weight=weight) == pytest.approx((5 + 2) / 6)
    assert value("mse", truth, guess, weight=weight) == pytest.approx((5 + 4) / 6)
    assert value("rmse", truth, guess, weight=weight) == pytest.approx(sqrt(9 / 6))
    assert (
        value("mae", [0, 1], [0, HUGE], weight=np.array([1.0, 0])) == 0
    )  # a row without weight may be infinitely wrong
    for bad in ([0.0, 0], [1.0, -1]):
        with pytest.raises(Unsuited, match=r"metric\.weight: no weight may be below 0, and one must be above it"):
            value("mae", [1, 2], [1, 2], weight=np.array(bad))


def test_smape_is_bounded_and_counts_zero_over_zero_as_zero() -> None:
    assert value("smape", [0, 0], [0, 5]) == 100
    assert value("smape", [HUGE, -HUGE], [-HUGE, HUGE]) == 200
    assert value("smape", [5e-324, 3], [5e-324, 3]) == 0


def test_laplace_log_likelihood_by_hand() -> None:
    exact = -log(sqrt(2) * 70)
    assert value("laplace_log_likelihood", [[2000]], [[2000, 10]]) == pytest.approx(exact)
    far = -sqrt(2) * 1000 / 100 - log(sqrt(2) * 100)
    assert value("laplace_log_likelihood", [[2000, 0], [2000, 0]], [[2000, 70], [9000, 100]]) == pytest.approx(
        (exact + far) / 2
    )
    assert isfinite(value("laplace_log_likelihood", [[HUGE]], [[-HUGE, HUGE]]))
    with pytest.raises(Unsuited, match="needs two target columns, value and confidence, not 1"):
        value("laplace_log_likelihood", [[1]], [[1]])


def test_log_mae_by_group_by_hand() -> None:
    group = np.array(["a", "b", "a", "c"])
    found = value("log_mae_by_group", [0, 0, 0, 0], [1, 4, 3, 8], group=group)
    assert found == pytest.approx((log(2) + log(4) + log(8)) / 3)
    with pytest.raises(Undefined, match=r"a group have no error at all, and ln\(0\) is no number"):
        value("log_mae_by_group", [0, 0, 0, 8], [1, 4, 3, 8], group=group)
    floored = value("log_mae_by_group", [0, 0, 0, 8], [1, 4, 3, 8], group=group, floor=1e-9)
    assert floored == pytest.approx((log(2) + log(4) + log(1e-9)) / 3)
    with pytest.raises(Unsuited, match=r"metric\.params\.floor is -1, not a number of at least 0"):
        value("log_mae_by_group", [0], [1], group=np.array(["a"]), floor=-1)


def test_grouped_and_rowwise_correlations_by_hand() -> None:
    group = np.array(["b", "a", "b", "a", "b"])
    # b: ranks 1 2 3 against 1 3 2, that is 1 - 6 * 2 / 24; a: reversed
    assert value("spearman_by_group", [1, 5, 2, 6, 3], [10, 4, 30, 2, 20], group=group) == pytest.approx((0.5 - 1) / 2)
    assert value("spearman_rowwise", [[1, 2, 3], [1, 2, 3]], [[1, 3, 2], [3, 2, 1]]) == pytest.approx((0.5 - 1) / 2)
    assert value("pearson_rowwise", [[0, 1], [0, 1]], [[2, 5], [4, 4.5]]) == pytest.approx(1)


@pytest.mark.parametrize("rows", [2, 3, 100])
@pytest.mark.parametrize("seed", range(5))
def test_agreement_with_scikit_learn_and_scipy(seed: int, rows: int) -> None:
    from scipy import stats
    from sklearn import metrics

    draws = np.random.RandomState(seed)
    truth, guess, weight = draws.rand(rows) + 0.1, draws.rand(rows), draws.rand(rows)
    coarse = np.concatenate([[0, 1], draws.randint(0, 4, rows - 2)])  # ties
    guesses = {"smooth": guess, "tied": coarse.astype(float)}
    theirs: dict[str, Callable[..., Any]] = {
        "mae": metrics.mean_absolute_error,
        "mse": metrics.mean_squared_error,
        "rmse": metrics.root_mean_squared_error,
        "median_absolute_error": metrics.median_absolute_error,
        "rmsle": metrics.root_mean_squared_log_error,
        "mape": metrics.mean_absolute_percentage_error,
        "r2": metrics.r2_score,
        "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
        "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
        "kendall_tau": lambda a, b: stats.kendalltau(a, b).statistic,
    }
    for name, function in theirs.items():
        for kind, given in guesses.items():
            assert value(name, truth, given) == pytest.approx(function(truth, given)), (name, kind)
    for name in ("mae", "mse", "rmse"):
        wanted = theirs[name](truth, guess, sample_weight=weight)
        assert value(name, truth, guess, weight=weight) == pytest.approx(wanted)
    many, other = draws.rand(rows, 4), draws.randint(0, 3, (rows, 4)) + np.arange(4) / 2
    for name in ("pearson", "spearman"):
        wanted = np.mean([theirs[name](a, b) for a, b in zip(many, other, strict=True)])
        assert value(f"{name}_rowwise", many, other) == pytest.approx(wanted)
    group = np.array([f"g{at % max(1, rows // 7)}" for at in range(rows)])
    wanted = np.mean([stats.spearmanr(truth[group == g], guess[group == g]).statistic for g in set(group)])
    assert value("spearman_by_group", truth, guess, group=group) == pytest.approx(wanted)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, HUGE])
def test_correlations_at_any_scale(scale: float) -> None:
    truth, guess = np.array([1, 2, 3, 4, 0.0]), np.array([1.0, 3, 2, 4, 0]) / 4
    for name in ("pearson", "spearman", "kendall_tau"):
        assert value(name, truth, guess * scale) == pytest.approx(value(name, truth, guess), abs=0.01)


def test_constant_predictions_have_no_correlation_and_constant_answers_make_no_task() -> None:
    rows = [0.1] * 7  # their mean is not 0.1
    other = [1, 2, 3, 4, 5, 6, 7]
    for name in ("pearson", "spearman", "kendall_tau"):
        with pytest.raises(Undefined, match="a correlation needs predictions that differ, and they are all the same"):
            value(name, other, rows)
        with pytest.raises(Unsuited, match="a correlation needs answers that differ, and they are all the same"):
            value(name, rows, other)
    with pytest.raises(Undefined, match="they are all the same in a row"):
        value("pearson_rowwise", [other, other], [other, rows])
    with pytest.raises(Undefined, match="they are all the same in a group"):
        value("spearman_by_group", other, [1, 1, 1, 1, 1, 2, 3], group=np.array(list("aaaabbb")))
    with pytest.raises(Unsuited, match="r2 divides by the spread of the answers"):
        value("r2", rows, other)


def test_answers_and_predictions_out_of_a_metrics_domain() -> None:
    with pytest.raises(Undefined, match="rmsle needs predictions above -1; 2 are not, such as -3"):
        value("rmsle", [1, 2, 3], [-1, 2, -3])
    with pytest.raises(Unsuited, match="there are answers of -1 or below"):
        value("rmsle", [-1], [1])
    assert value("rmsle", [0], [-5], floor=0) == 0
    for name in ("mape", "rmspe"):
        with pytest.raises(Unsuited, match=f"{name} divides by the answer, and 1 answers are 0"):
            value(name, [0, 1], [1, 1])


def given_for(name: str, rows: int) -> dict[str, Any]:
    given = {"weight": np.ones(rows), "group": np.array(["a", "b"] * rows)[:rows]}
    return {key: each for key, each in given.items() if key in METRICS[name].inputs}


NUMBERS = sorted(
    name for name, each in METRICS.items() if each.function.__module__ == "mletools.grading.metrics.regression"
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NUMBERS)
def test_hostile_numbers_never_give_nan_or_a_warning(name: str) -> None:
    draws = np.random.RandomState(0)
    for _ in range(300):
        guess = draws.choice([0, 1, -1, HUGE, -HUGE, 5e-324, 1e-160, 1.5, 7], 12)
        truth = draws.choice([1.0, 2.0, 3.5, 9.0], 12)
        if METRICS[name].columns == "joint":
            truth, guess = truth.reshape(-1, 2), guess.reshape(-1, 2)
        try:
            found = value(name, truth, guess, **given_for(name, len(truth)))
        except (Undefined, Unsuited):
            continue
        assert isinstance(found, float) and not np.isnan(found)


@pytest.mark.parametrize("name", NUMBERS)
def test_no_rows(name: str) -> None:
    shape = (0, 2) if METRICS[name].columns == "joint" else (0,)
    with pytest.raises(Unsuited):
        value(name, np.zeros(shape), np.zeros(shape), **given_for(name, 0))


def errors(*, positive: bool = False, columns: int = 2, weight: bool = False, **params: Any) -> Make:
    """Numbers whose error `worsen` makes larger in each row."""

    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth = draws.rand(rows, columns) * 9 + 1
        guess = truth + draws.randn(rows, columns) * 2
        low = 0 if positive else -inf

        def worsen(guess: Any, draws: np.random.RandomState) -> Any:
            return np.maximum(truth + (guess - truth) * (1 + draws.rand(rows, columns)), low)

        given = {"weight": draws.rand(rows) + 0.1} if weight else {}
        return Case(truth, truth.copy(), np.maximum(guess, low), params, given, worsen)

    return make


def by_group(params: dict[str, Any], worsen: Callable[[Any, Any], Any]) -> Make:
    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth = draws.rand(rows, 1) + 1
        group = np.array([f"g{at % max(1, rows // 5)}" for at in range(rows)], dtype=object)
        return Case(
            truth,
            truth.copy(),
            draws.rand(rows, 1),
            params,
            {"group": group},
            lambda guess, draws: worsen(truth, guess),
        )

    return make


def correlated(columns: int) -> Make:
    """The worst that a correlation can find is the answers turned round."""

    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth = draws.randn(rows, columns)
        return Case(truth, truth.copy(), draws.randn(rows, columns), worsen=lambda guess, draws: -truth)

    return make


def fibrosis(draws: np.random.RandomState, rows: int) -> Case:
    truth = draws.rand(rows, 2) * 3000 + 1000
    perfect, guess = truth.copy(), truth + draws.randn(rows, 2) * 300
    perfect[:, 1], guess[:, 1] = 70, draws.rand(rows) * 300

    def worsen(guess: Any, draws: np.random.RandomState) -> Any:
        worse = guess.copy()
        worse[:, 0] = truth[:, 0] + 2 * (guess[:, 0] - truth[:, 0])
        return worse

    return Case(truth, perfect, guess, worsen=worsen)


def listed(draws: np.random.RandomState, rows: int) -> Case:
    truth = cells([list(map(str, draws.permutation(5))) for _ in range(rows)])
    guess = cells([list(map(str, draws.permutation(5))) for _ in range(rows)])
    return Case(truth, truth.copy(), guess, worsen=lambda guess, draws: cells([row[::-1] for row in truth[:, 0]]))


@pytest.mark.parametrize("right", ["a b c", "1 nan 2"])
def test_answers_that_list_no_numbers_are_the_tasks_fault(right: str) -> None:
    with pytest.raises(Unsuited):
        METRICS["spearman_lists"].function(cells([right.split()])[:, 0], cells([["1", "2", "3"]])[:, 0])


def test_lists_of_numbers_by_hand() -> None:
    def score(*rows: str) -> float:
        truth = cells([["1", "2", "3"], ["3", "1", "2"]])[:, 0]
        return METRICS["spearman_lists"].function(truth, cells([row.split() for row in rows])[:, 0])

    assert score("1 2 3", "3 2 1") == pytest.approx((1 + 0.5) / 2)
    for bad, told in (
        ("1 2", "a row lists 2 numbers, 3 finite ones are required"),
        ("1 nan 2", "a row lists 3 numbers, 3 finite ones are required"),
        ("a b c", "'a b c' is not a list of numbers"),
        ("1 1 1", "a correlation needs predictions that differ, and they are all the same in a row"),
    ):
        with pytest.raises(Undefined) as caught:
            score("1 2 3", bad)
        assert str(caught.value) == told


MAKE: dict[str, Make] = {
    "spearman_lists": listed,
    "mae": errors(weight=True),
    "mse": errors(weight=True),
    "rmse": errors(weight=True),
    "median_absolute_error": errors(),
    "rmsle": errors(positive=True),
    "smape": errors(),
    "mape": errors(),
    "rmspe": errors(),
    "r2": errors(),
    "pearson": correlated(2),
    "spearman": correlated(2),
    "kendall_tau": correlated(2),
    "pearson_rowwise": correlated(5),
    "spearman_rowwise": correlated(5),
    "spearman_by_group": by_group({}, lambda truth, guess: -truth),
    "log_mae_by_group": by_group({"floor": 1e-9}, lambda truth, guess: truth + 2 * (guess - truth)),
    "laplace_log_likelihood": fibrosis,
}


def test_every_metric_of_this_file_has_a_generator() -> None:
    assert sorted(MAKE) == NUMBERS
