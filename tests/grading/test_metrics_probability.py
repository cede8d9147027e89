"""Metrics of probabilities: numbers worked by hand, agreement with scikit-learn, what they refuse.

MAKE and the tests that run through it are for the metrics of discrimination, too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from metric_cases import Case, Make
from probability_builders import binary, column, doubtful
from sklearn import metrics as theirs

from mletools.grading.metrics import discrimination, probability
from mletools.grading.metrics.registry import METRICS, Undefined, Unsuited

EXTREME = np.array([1e308, -1e308, 5e-324, 0.0, 1.0, -1.0, 1e308, 0.5])


def make_binary(worse: Callable[[Any, Any], Any] | None, columns: int = 1, **params: Any) -> Make:
    """`worse(guess, truth)`, if any: the predictions of all rows, made worse; those of three rows are taken."""

    def case(rng: np.random.RandomState, rows: int) -> Case:
        truth = np.concatenate([binary(rng, rows) for _ in range(columns)], axis=1)

        def worsen(guess: Any, draws: np.random.RandomState) -> Any:
            chosen = np.isin(np.arange(rows), draws.randint(0, rows, 3))[:, None]
            return np.where(chosen, worse(guess, truth), guess) if worse else guess

        return Case(truth, truth.copy(), doubtful(rng, truth), params=params, worsen=worsen if worse else None)

    return case


def lower_true(guess: Any, truth: Any) -> Any:
    return guess - 0.003 * truth


def nearer_to_wrong(guess: Any, truth: Any) -> Any:
    return 0.7 * guess + 0.3 * (1 - truth)


def make_classes(rng: np.random.RandomState, rows: int) -> Case:
    right = rng.permutation(np.concatenate([np.arange(rows) % 3, rng.randint(0, 3, rows)])[:rows])
    truth = np.eye(3)[right]
    return Case(truth, truth.copy(), 0.98 * rng.rand(rows, 3) + 0.01, worsen=towards(np.eye(3)[(right + 1) % 3]))


def make_votes(rng: np.random.RandomState, rows: int) -> Case:
    truth = rng.randint(1, 6, (rows, 4)).astype(float)
    unlikely = np.eye(4)[rng.randint(0, 4, rows)]
    truth *= 1 - unlikely
    return Case(truth, truth / truth.sum(axis=1, keepdims=True), rng.rand(rows, 4) + 0.01, worsen=towards(unlikely))


def towards(wrong: Any) -> Callable[[Any, np.random.RandomState], Any]:
    """Some rows give up probability for a class that is not the answer's."""

    def worsen(guess: Any, draws: np.random.RandomState) -> Any:
        rows = len(guess)
        chosen = np.isin(np.arange(rows), draws.randint(0, rows, 3))[:, None]
        scaled = guess / guess.sum(axis=1, keepdims=True)
        return np.where(chosen, 0.8 * scaled + 0.2 * wrong, guess)

    return worsen


def make_amounts(rng: np.random.RandomState, rows: int) -> Case:
    truth = np.round(rng.gamma(1, 3, (rows, 1))) + np.arange(rows)[:, None] % 2
    return Case(truth, truth.copy(), np.round(truth + rng.randn(rows, 1) * 4))


def make_identities(rng: np.random.RandomState, rows: int) -> Case:
    """From 8 rows on, both identities are present and absent in rows of both classes."""
    at = rng.permutation(rows)
    case = make_binary(lower_true)(rng, rows)
    case.truth[:] = (at % 2)[:, None] * 0.5 + np.round(rng.rand(rows, 1) * 0.4, 2)
    case.perfect[:] = case.truth
    case.params = {"identity_columns": ["a", "b"]}
    case.given["extra"] = {
        "a": np.array(["1.0" if one else "" for one in at // 2 % 2], dtype=object),
        "b": np.array(["0.5" if one else "0.25" for one in at // 4 % 2], dtype=object),
    }

    def worsen(guess: Any, draws: np.random.RandomState) -> Any:
        chosen = np.isin(np.arange(rows), draws.randint(0, rows, 3))[:, None]
        return guess - 0.003 * (chosen & (case.truth >= 0.5))

    case.worsen = worsen
    return case


def make_studies(rng: np.random.RandomState, rows: int) -> Case:
    case = make_binary(nearer_to_wrong)(rng, rows)
    names = [f"study{at // 3}_{('overall', 'C1', 'C2')[at % 3]}" for at in range(rows)]
    case.given = {
        "group": np.array([name.split("_")[0] for name in names], dtype=object),
        "extra": {"row_id": np.array(names, dtype=object)},
    }
    case.params = {
        "variable": {"column": "row_id", "pattern": "_(.*)$"},
        "variables": ["overall", "C1", "C2"],
        "weights_neg": [7, 1, 1],
        "weights_pos": [14, 2, 3],
    }
    return case


def make_weighted(rng: np.random.RandomState, rows: int) -> Case:
    case = make_binary(lower_true)(rng, rows)
    case.given["weight"] = rng.rand(rows) + 0.1
    return case


MAKE: dict[str, Make] = {
    "auroc": make_weighted,
    "gini": make_binary(lower_true),
    "normalized_gini": make_amounts,
    "weighted_auroc": make_binary(lower_true, tpr_thresholds=[0.0, 0.4, 1.0], weights=[2, 1]),
    "bias_auroc": make_identities,
    "average_precision": make_binary(None),  # may gain where a positive row falls into a tie of more positive ones
    "lwlrap": make_binary(lower_true, columns=5),
    "log_loss": make_classes,
    "balanced_log_loss": make_classes,
    "multilabel_log_loss": make_binary(nearer_to_wrong),
    "weighted_multilabel_log_loss": make_studies,
    "brier_score": make_binary(nearer_to_wrong),
    "probabilistic_f1": make_binary(nearer_to_wrong),
    "kl_divergence": make_votes,
}


def test_every_metric_of_the_modules_has_a_case() -> None:
    modules = {discrimination.__name__, probability.__name__}
    assert {name for name, metric in METRICS.items() if metric.function.__module__ in modules} == set(MAKE)


def test_log_losses_by_hand() -> None:
    truth, guess = np.eye(3)[[0, 1, 1]], np.array([[0.8, 0.4, 0.4], [0.2, 0.3, 0.5], [0.25, 0.75, 0]])
    assert probability.log_loss(truth, guess) == pytest.approx(-np.log([0.5, 0.3, 0.75]).sum() / 3)
    # class 2 has no row and does not count
    balanced = -(np.log(0.5) + np.log([0.3, 0.75]).mean()) / 2
    assert probability.balanced_log_loss(truth, guess) == pytest.approx(balanced)
    truth, guess = column(1, 0, 0)[:, None], column(0.5, 0.2, 1)[:, None]
    expected = -np.log([0.5, 0.8, 1e-3])
    assert probability.log_loss(truth, guess, eps=1e-3) == pytest.approx(expected.mean())
    assert probability.multilabel_log_loss(truth[:, 0], guess[:, 0], eps=1e-3) == pytest.approx(expected.mean())
    balanced = (expected[0] + expected[1:].mean()) / 2
    assert probability.balanced_log_loss(truth, guess, eps=1e-3) == pytest.approx(balanced)
    assert probability.brier_score(truth[:, 0], guess[:, 0]) == pytest.approx((0.25 + 0.04 + 1) / 3)


def test_weighted_multilabel_log_loss_by_hand() -> None:
    truth, guess = column(1, 0, 0), column(0.5, 0.2, 0.1)
    asked: dict[str, Any] = {"variables": ["all", "C1"], "weights_neg": [7, 1], "weights_pos": [14, 2]}
    given = {"group": np.array(["s", "s", "t"]), "extra": {"row": np.array(["s_all", "s_C1", "t_all"])}}
    pattern = {"column": "row", "pattern": "^.*?_(.*)"}
    score = probability.weighted_multilabel_log_loss(truth, guess, variable=pattern, **asked, **given)
    assert score == pytest.approx((-(14 * np.log(0.5) + np.log(0.8)) / 15 - np.log(0.9)) / 2)
    given["extra"] = {"which": np.array(["all", "C1", "all"])}
    assert probability.weighted_multilabel_log_loss(truth, guess, variable="which", **asked, **given) == score
    for variable, message in [
        ("row", "the answers have no column 'row', which metric.params.variable names"),
        ({"column": "which", "pattern": "^(a)"}, "'^(a)' does not match 'C1' in the column 'which'"),
        ({"column": "which", "pattern": "a"}, "'a' is no pattern with a group"),
        ({"column": "which", "pattern": "^(.)"}, "the answers have the variable 'C', which is not in"),
    ]:
        with pytest.raises(Unsuited) as failed:
            probability.weighted_multilabel_log_loss(truth, guess, variable=variable, **asked, **given)
        assert message in str(failed.value)
    asked["weights_neg"] = [7]
    with pytest.raises(Unsuited, match=r"weights_neg is \[7\]; it must be a list of 2 numbers"):
        probability.weighted_multilabel_log_loss(truth, guess, variable="which", **asked, **given)


def test_probabilistic_f1_by_hand() -> None:
    truth, guess = column(1, 1, 0, 0), column(0.8, 7, 0.3, -2)
    # clipped .8 1 .3 0: precision 1.8 / 2.1, recall 1.8 / 2
    precision, recall = 1.8 / 2.1, 0.9
    expected = 2 * precision * recall / (precision + recall)
    assert probability.probabilistic_f1(truth, guess) == pytest.approx(expected)
    expected = 5 * precision * recall / (4 * precision + recall)
    assert probability.probabilistic_f1(truth, guess, beta=2) == pytest.approx(expected)
    assert probability.probabilistic_f1(truth, np.zeros(4)) == 0


def test_kl_divergence_by_hand() -> None:
    truth, guess = np.array([[3, 1, 0], [0, 0, 5]]), np.array([[0.5, 0.25, 0.25], [1, 1, 0]])
    expected = (0.75 * np.log(0.75 / 0.5) + 0.25 * np.log(1) + np.log(1 / 1e-15)) / 2
    assert probability.kl_divergence(truth, guess) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_losses_agree_with_scikit_learn(seed: int) -> None:
    rng = np.random.RandomState(seed)
    right = rng.randint(0, 4, 50)
    truth, guess = np.eye(4)[right], rng.rand(50, 4)
    scaled = guess / guess.sum(axis=1, keepdims=True)
    expected = theirs.log_loss(right, scaled, labels=range(4))
    assert probability.log_loss(truth, guess) == pytest.approx(expected)
    assert probability.log_loss(truth, scaled, normalise=False) == pytest.approx(expected)
    weight = 1 / np.bincount(right)[right]
    expected = theirs.log_loss(right, scaled, labels=range(4), sample_weight=weight)
    assert probability.balanced_log_loss(truth, guess) == pytest.approx(expected)
    ones = truth[:, 0]
    expected = theirs.log_loss(ones, guess[:, 0])
    assert probability.multilabel_log_loss(ones, guess[:, 0]) == pytest.approx(expected)
    assert probability.log_loss(truth[:, :1], guess[:, :1]) == pytest.approx(expected)
    assert probability.brier_score(ones, guess[:, 0]) == pytest.approx(theirs.brier_score_loss(ones, guess[:, 0]))
    hard = (guess[:, 0] < 0.5).astype(float)
    assert probability.probabilistic_f1(ones, hard) == pytest.approx(theirs.f1_score(ones, hard))


def test_predictions_that_are_no_probabilities() -> None:
    truth = np.eye(2)[[0, 1]]
    with pytest.raises(Undefined, match="a row of probabilities is all zero"):
        probability.log_loss(truth, np.array([[0, 0], [1, 1.0]]))
    for name in ("log_loss", "balanced_log_loss"):
        for normalise in (True, False):
            for wrong in (-0.5, 1.2, 37):
                with pytest.raises(Undefined, match=f"{wrong:g} is no probability; predict numbers from 0 to 1"):
                    METRICS[name].function(truth, np.array([[0.5, wrong], [1, 1]]), normalise=normalise)
    with pytest.raises(Undefined, match=r"-0\.5 is no probability; predict numbers of at least 0"):
        probability.kl_divergence(truth, np.array([[0.5, -0.5], [1, 1]]))
    for name in ("multilabel_log_loss", "brier_score"):
        with pytest.raises(Undefined, match="2 is no probability; predict numbers from 0 to 1"):
            METRICS[name].function(column(0, 1), column(0, 2))


def test_what_becomes_of_numbers_that_are_no_probabilities() -> None:
    truth, guess = np.eye(2)[[0, 1, 0]], np.array([[37, 1], [-1, 0.5], [0, 0.0]])
    eps = 1e-3
    clipped = -np.log([0.5, 0.5 / (0.5 + eps), 0.5])
    assert probability.log_loss(truth, guess, eps=eps, outside="clip") == pytest.approx(clipped.mean())
    flat = -np.log([1 - eps, 0.5, eps])
    assert probability.log_loss(truth, guess, eps=eps, outside="clip", normalise=False) == pytest.approx(flat.mean())
    scaled = -np.log([37 / 38, eps, eps])  # -1 and 0.5 sum to -0.5, so that 0.5 becomes -1
    assert probability.log_loss(truth, guess, eps=eps, outside="scale") == pytest.approx(scaled.mean())
    binary = probability.log_loss(truth[:, :1], np.array([[1.2], [-3], [0.5]]), eps=eps, outside="clip")
    assert binary == pytest.approx(-np.log(0.5) / 3)
    for wrong in ({"outside": "cut"}, {"outside": "scale", "normalise": False}):
        with pytest.raises(
            Unsuited, match=r"metric\.params\.outside is '\w+', not refuse, clip, or with normalise scale"
        ):
            probability.log_loss(truth, guess, **wrong)


def test_a_divergence_of_shares_as_they_stand() -> None:
    truth, guess = np.array([[3, 1.0]]), np.array([[0.5, 0.4995]])
    expected = 0.75 * np.log(0.75 / 0.5) + 0.25 * np.log(0.25 / 0.4995)
    assert probability.kl_divergence(truth, guess, normalise=False) == pytest.approx(expected, abs=1e-12)
    scaled = guess / guess.sum()
    assert probability.kl_divergence(truth, guess) == pytest.approx(
        probability.kl_divergence(truth, scaled, normalise=False), abs=1e-12
    )


def test_a_divergence_of_what_is_no_share_is_refused() -> None:
    """Cut to shares, three of these would be 1 at once."""
    with pytest.raises(Undefined, match=r"-2 is no probability; predict numbers from 0 to 1"):
        probability.kl_divergence(np.array([[1.0, 1, 1, 0]]), np.array([[1.0, 1, 1, -2]]), normalise=False)


def test_answers_that_give_no_score() -> None:
    two, guess = np.eye(2)[[0, 1]], np.full((2, 2), 0.5)
    with pytest.raises(Unsuited, match=r"the answers must be 0 or 1, and one is 0\.5"):
        probability.log_loss(guess, guess)
    with pytest.raises(Unsuited, match="every row of the answers must have a 1 in one target column"):
        probability.log_loss(np.ones((2, 2)), guess)
    with pytest.raises(Unsuited, match=r"metric\.params\.eps is 0; it must be a number above 0, at most 0\.5"):
        probability.log_loss(two, guess, eps=0)
    with pytest.raises(Unsuited, match="in the answers, a row of probabilities is all zero"):
        probability.kl_divergence(np.zeros((2, 2)), guess)
    with pytest.raises(Unsuited, match="no answer is 1, so that there is no recall"):
        probability.probabilistic_f1(column(0, 0), column(0, 1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(MAKE))
def test_hostile_numbers(name: str) -> None:
    """Whatever the numbers: a finite score or a reason, without a warning."""
    for seed in range(10):
        rng = np.random.RandomState(seed)
        case, metric = MAKE[name](rng, 16), METRICS[name]
        for values in (EXTREME, np.abs(EXTREME), EXTREME[2:6], np.array([1e308]), np.zeros(1)):
            guess = rng.choice(values, case.truth.shape)
            args = (case.truth, guess) if metric.columns == "joint" else (case.truth[:, 0], guess[:, 0])
            try:
                assert np.isfinite(metric.function(*args, **case.params, **case.given))
            except Undefined as reason:
                assert "probabilit" in str(reason)


@pytest.mark.parametrize("name", sorted(MAKE))
def test_large_inputs_have_a_value(name: str) -> None:
    case, metric = MAKE[name](np.random.RandomState(0), 100_000), METRICS[name]
    args = (case.truth, case.guess) if metric.columns == "joint" else (case.truth[:, 0], case.guess[:, 0])
    assert np.isfinite(metric.function(*args, **case.params, **case.given))


@pytest.mark.parametrize("name", ["log_loss", "balanced_log_loss"])
def test_answers_may_be_labels_where_the_classes_are_named(name: str) -> None:
    guess = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25]])
    labels = np.array([["a"], ["1"], ["c"], ["a"]], dtype=object)
    function = METRICS[name].function
    hot = np.eye(3)[[0, 1, 2, 0]]
    assert function(labels, guess, classes=["a", 1.0, "c"]) == pytest.approx(function(hot, guess))
    with pytest.raises(Unsuited, match=r"the answers hold the class 'c', which is not in metric\.params\.classes"):
        function(labels, guess, classes=["a", 1, "b"])
    with pytest.raises(Unsuited, match="names a class for each target column"):
        function(labels, guess, classes=["a", "b"])
    with pytest.raises(Unsuited, match=r"or metric\.params\.classes name the classes"):
        function(labels, guess)
