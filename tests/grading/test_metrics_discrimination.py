"""Metrics of the predictions' order: numbers worked by hand, agreement with scikit-learn, what they refuse."""

import itertools
from typing import Any

import numpy as np
import pytest
from probability_builders import binary, column, doubtful
from sklearn import metrics as theirs

from mletools.grading.metrics import discrimination
from mletools.grading.metrics.registry import METRICS, Unsuited


def test_auroc_and_gini_by_hand() -> None:
    truth, guess = column(0, 0, 1, 1), column(0.1, 0.4, 0.4, 0.8)
    # of 4 pairs 3 are in order and one is a tie
    assert discrimination.auroc(truth, guess) == pytest.approx(3.5 / 4)
    assert discrimination.gini(truth, guess) == pytest.approx(2 * 3.5 / 4 - 1)
    # weights 1 2 | 3 1: pairs 1*3 + 1*1 + 2*1, and half of 2*3; all 3 * 4
    weight = column(1, 2, 3, 1)
    assert discrimination.auroc(truth, guess, weight=weight) == pytest.approx((3 + 1 + 2 + 3) / 12)


def test_normalized_gini_by_hand() -> None:
    # running totals by falling prediction 2 5 5 6 of 6 = 3; perfect 3 5 6 6 = 20/6; a straight line 2.5
    truth, guess = column(3, 0, 2, 1), column(0.5, 0.4, 0.9, 0.1)
    assert discrimination.normalized_gini(truth, guess) == pytest.approx((18 / 6 - 2.5) / (20 / 6 - 2.5))
    assert discrimination.normalized_gini(truth, truth * 10) == 1


def test_normalized_gini_is_the_mean_over_the_orders_of_equal_predictions() -> None:
    truth, guess = column(3, 0, 2, 1, 5), column(0.5, 0.5, 0.9, 0.5, 0.1)

    def kaggle(order: Any) -> float:
        """As the competitions sort: falling prediction, then file order."""
        file = np.array(order)
        by_guess = file[np.argsort(-guess[file], kind="stable")]
        by_truth = np.argsort(-truth, kind="stable")
        totals, best = np.cumsum(truth[by_guess]), np.cumsum(truth[by_truth])
        return (totals.sum() / truth.sum() - 3) / (best.sum() / truth.sum() - 3)

    orders = [kaggle(order) for order in itertools.permutations(range(5))]
    assert max(orders) - min(orders) > 0.1
    assert discrimination.normalized_gini(truth, guess) == pytest.approx(np.mean(orders))


def test_weighted_auroc_by_hand() -> None:
    bands: dict[str, Any] = {"tpr_thresholds": [0, 0.4, 1], "weights": [2, 1]}
    # the curve: up to .5 at 0, right to .5, up to 1, right. Below .4 all of it, above it .1 * 1 + .5 * .5
    truth, guess = column(1, 0, 1, 0), column(0.9, 0.8, 0.7, 0.6)
    assert discrimination.weighted_auroc(truth, guess, **bands) == pytest.approx((2 * 0.4 + 0.1 + 0.25) / 1.4)
    # one tie of all: the diagonal, cut at .4. Below .4: .4 * .6 + .4 * .4 / 2 = .32; above: .6 * .6 / 2
    tie = discrimination.weighted_auroc(truth, column(1, 1, 1, 1), **bands)
    assert tie == pytest.approx((2 * 0.32 + 0.18) / 1.4)


@pytest.mark.parametrize("seed", range(10))
def test_weighted_auroc_with_one_weight_is_auroc(seed: int) -> None:
    rng = np.random.RandomState(seed)
    truth = binary(rng, 50)
    guess = doubtful(rng, truth)[:, 0]
    score = discrimination.weighted_auroc(truth[:, 0], guess, tpr_thresholds=[0, 0.31, 0.5, 1], weights=[3, 3, 3])
    assert score == pytest.approx(theirs.roc_auc_score(truth[:, 0], guess))


def test_bias_auroc_by_hand() -> None:
    truth = column(0.0, 0.2, 0.6, 1.0, 0.5, 0.0, 1.0, 0.1)  # 0 0 1 1 1 0 1 0
    guess = column(0.1, 0.6, 0.5, 0.9, 0.3, 0.2, 0.8, 0.4)
    extra = {"x": np.array(["1", "0.5", "0.7", "1", "0.4", "", "nan", "0"], dtype=object)}
    # overall: of 16 pairs, positives .5 .9 .3 .8 above negatives .1 .6 .2 .4: 3 + 4 + 2 + 4
    # subgroup .5 .9 over .1 .6: 3 of 4; BPSN .3 .8 over .1 .6: 3 of 4; BNSP .5 .9 over .2 .4: 4 of 4
    score = discrimination.bias_auroc(truth, guess, extra=extra, identity_columns=["x"])
    assert score == pytest.approx(0.25 * (13 / 16 + 3 / 4 + 3 / 4 + 1))
    # twice the same identity: the power mean is the same; another with 1 - x: BPSN and BNSP change places
    extra["y"] = np.array(["0", "0", "0", "0", "1", "1", "1", "1"], dtype=object)
    # subgroup y: .3 .8 over .2 .4: 3 of 4
    both = discrimination.bias_auroc(truth, guess, extra=extra, identity_columns=["x", "y"])
    mean = ((0.75**-5 + 1) / 2) ** (-1 / 5)
    assert both == pytest.approx(0.25 * (13 / 16 + 3 / 4 + mean + mean))
    # predictions cut at .5: 0 1 1 1 0 0 1 0; overall 3*3 + 3*.5 + 1*3*.5 = 12; subgroup 1 .5 1 .5; BPSN 0 1 over 0 1: .5;
    # BNSP 1 1 over 0 0
    cut = discrimination.bias_auroc(truth, guess, extra=extra, identity_columns=["x"], binarise_predictions=True)
    assert cut == pytest.approx(0.25 * (12 / 16 + 3 / 4 + 1 / 2 + 1))


def test_bias_auroc_refuses() -> None:
    truth, guess = column(0, 1, 0, 1), column(0, 1, 0, 1)
    extra = {"x": np.array(["1", "1", "1", "0"]), "t": np.array(["yes", "", "", ""])}
    for name, message in [
        ("x", "the identity 'x' is not both present and absent in rows of both classes"),
        ("z", "the answers have no column 'z', which metric.params.identity_columns names"),
        ("t", "the answers' column 't' holds no number"),
    ]:
        with pytest.raises(Unsuited, match=message):
            discrimination.bias_auroc(truth, guess, extra=extra, identity_columns=[name])
    with pytest.raises(Unsuited, match="all answers lie on one side of the threshold 2"):
        discrimination.bias_auroc(truth, guess, extra=extra, identity_columns=["x"], threshold=2)


@pytest.mark.filterwarnings("error")
def test_bias_auroc_with_an_area_of_0() -> None:
    truth, extra = column(0, 1, 0, 1), {"x": np.array(["1", "1", "0", "0"])}
    assert discrimination.bias_auroc(truth, -truth, extra=extra, identity_columns=["x"]) == 0


def test_lwlrap_by_hand() -> None:
    truth = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    guess = np.array([[0.9, 0.5, 0.1], [0.5, 0.5, 0.2], [1, 1, 1]])
    # row 1: 1/1 and 2/3; row 2, a tie: 1/2; row 3 has no true label
    assert discrimination.lwlrap(truth, guess) == pytest.approx((1 + 2 / 3 + 1 / 2) / 3)


@pytest.mark.parametrize("seed", range(10))
def test_ranking_agrees_with_scikit_learn(seed: int) -> None:
    rng = np.random.RandomState(seed)
    truth = (rng.rand(40, 6) < 0.3).astype(float)
    guess = doubtful(rng, truth)
    rows = truth.sum(axis=1) > 0
    assert discrimination.lwlrap(truth, guess) == pytest.approx(
        theirs.label_ranking_average_precision_score(truth[rows], guess[rows], sample_weight=truth[rows].sum(axis=1))
    )
    for at in range(6):
        area = theirs.roc_auc_score(truth[:, at], guess[:, at])
        assert discrimination.auroc(truth[:, at], guess[:, at]) == pytest.approx(area, abs=1e-12)
        assert discrimination.auroc(2 * truth[:, at] - 1, guess[:, at]) == pytest.approx(area, abs=1e-12)
        assert discrimination.normalized_gini(truth[:, at], guess[:, at]) == pytest.approx(2 * area - 1)
        weight = rng.rand(40)
        assert discrimination.auroc(truth[:, at], guess[:, at], weight=weight) == pytest.approx(
            theirs.roc_auc_score(truth[:, at], guess[:, at], sample_weight=weight)
        )
        precision = theirs.average_precision_score(truth[:, at], guess[:, at])
        assert discrimination.average_precision(truth[:, at], guess[:, at]) == precision


def test_answers_that_give_no_score() -> None:
    for name in ("auroc", "gini", "normalized_gini"):
        with pytest.raises(Unsuited, match="every answer is 1; this metric needs answers"):
            METRICS[name].function(column(1, 1), column(1, 1))
    with pytest.raises(Unsuited, match="the answers hold more than two values"):
        discrimination.auroc(column(1, 2, 3), column(1, 2, 3))
    with pytest.raises(Unsuited, match="both classes need a row with a weight above 0"):
        discrimination.auroc(column(0, 1), column(0, 1), weight=column(0, 1))
    with pytest.raises(Unsuited, match="no answer is 1, so that there is no precision to average"):
        discrimination.average_precision(column(0, 0), column(0, 1))
    with pytest.raises(Unsuited, match="no answer is above 0"):
        discrimination.lwlrap(np.zeros((2, 2)), np.zeros((2, 2)))
    for bands in ({"tpr_thresholds": [0, 1.5], "weights": [1]}, {"tpr_thresholds": [0.5, 0.5], "weights": [1]}):
        with pytest.raises(Unsuited, match="they must rise from 0 to at most 1"):
            discrimination.weighted_auroc(column(0, 1), column(0, 1), **bands)
    with pytest.raises(Unsuited, match=r"weights is \[1\]; it must be a list of 2 numbers"):
        discrimination.weighted_auroc(column(0, 1), column(0, 1), tpr_thresholds=[0, 0.5, 1], weights=[1])
