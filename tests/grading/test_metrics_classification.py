"""Metrics of labels: numbers worked by hand, agreement with scikit-learn, what they refuse."""

from typing import Any

import numpy as np
import pytest
from metric_cases import Case, Make, cells
from sklearn import metrics as sklearn_metrics

from mletools.grading.metrics import classification as our
from mletools.grading.metrics.registry import METRICS, Undefined, Unsuited

# Worked by hand below: cat 2 of 3 found (2 told), dog 1 of 2 (2 told), owl 1 of 1 (2 told); 4 of 6 right.
TRUTH = cells(["cat", "cat", "cat", "dog", "dog", "owl"])[:, 0]
GUESS = cells(["cat", "cat", "dog", "dog", "owl", "owl"])[:, 0]


def labels(rng: np.random.RandomState, rows: int, classes: int = 4) -> Any:
    """Random labels "0", "1", ...; every class is there where there are rows enough."""
    numbers = rng.permutation(np.concatenate([np.arange(rows) % classes, rng.randint(0, classes, rows)])[:rows])
    return cells([str(number) for number in numbers])


def make(binary: bool = False, monotone: bool = True, params: dict[str, Any] | None = None) -> Make:
    def case(rng: np.random.RandomState, rows: int) -> Case:
        classes = 2 if binary else 4
        truth = labels(rng, rows, classes)
        guess = np.where(rng.rand(rows, 1) < 0.5, truth, labels(rng, rows, classes))

        def worsen(guess: Any, draws: np.random.RandomState) -> Any:
            """Some right labels become wrong ones."""
            guess = guess.copy()
            for at in draws.randint(0, rows, 3):
                if guess[at, 0] == truth[at, 0]:
                    guess[at, 0] = str((int(truth[at, 0]) + 1) % classes)
            return guess

        return Case(truth, truth.copy(), guess, params=params or {}, worsen=worsen if monotone else None)

    return case


def make_by_group(rng: np.random.RandomState, rows: int) -> Case:
    case = make()(rng, rows)
    names = np.array(["root", "vowel"], dtype=object)
    case.given["group"] = names[rng.permutation(np.arange(rows) % min(2, rows))]
    case.params = {"weights": {name: 1 + len(name) for name in set(case.given["group"])}}
    return case


def make_grades(rng: np.random.RandomState, rows: int) -> Case:
    truth = labels(rng, rows, 5).astype(float)
    return Case(truth, truth.copy(), rng.randint(0, 5, (rows, 1)).astype(float), params={"min": 0, "max": 4})


MAKE: dict[str, Make] = {
    "accuracy": make(),
    "error_rate": make(),
    "balanced_accuracy": make(),
    "weighted_macro_recall": make_by_group,
    "fbeta": make(params={"beta": 2, "average": "macro"}),
    "f1_binary": make(binary=True),
    "f1_micro": make(),
    "f1_macro": make(),
    "f1_weighted": make(),
    "precision": make(binary=True),
    "recall": make(params={"average": "macro"}),
    "mcc": make(monotone=False),  # below 0, one more wrong label may bring them nearer to 0
    "cohen_kappa": make(monotone=False),
    "quadratic_weighted_kappa": make_grades,
}


def test_every_metric_of_the_module_has_a_case() -> None:
    assert {name for name, metric in METRICS.items() if metric.function.__module__ == our.__name__} == set(MAKE)


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("accuracy", {}, 4 / 6),
        ("error_rate", {}, 2 / 6),
        ("f1_micro", {}, 4 / 6),
        ("balanced_accuracy", {}, (2 / 3 + 1 / 2 + 1) / 3),
        ("f1_macro", {}, (4 / 5 + 2 / 4 + 2 / 3) / 3),
        ("f1_weighted", {}, (3 * 4 / 5 + 2 * 2 / 4 + 1 * 2 / 3) / 6),
        ("f1_binary", {"positive": "cat"}, 4 / 5),
        ("fbeta", {"beta": 2, "positive": "owl"}, 5 * 1 / (4 * 1 + 2)),
        ("fbeta", {"beta": 0.5, "positive": "cat"}, 1.25 * 2 / (0.25 * 3 + 2)),
        ("precision", {"positive": "owl"}, 1 / 2),
        ("precision", {"average": "macro"}, (1 + 1 / 2 + 1 / 2) / 3),
        ("recall", {"positive": "cat"}, 2 / 3),
        ("recall", {"average": "weighted"}, 4 / 6),
        # rows 6, right 4, real (3, 2, 1), told (2, 2, 2): 6*4 - 12 = 12; 36 - 14 = 22; 36 - 12 = 24
        ("mcc", {}, 12 / (22 * 24) ** 0.5),
        # 4 of 6 agree, by chance 12 of 36
        ("cohen_kappa", {}, (4 / 6 - 12 / 36) / (1 - 12 / 36)),
    ],
)
def test_by_hand(name: str, params: dict[str, Any], expected: float) -> None:
    assert METRICS[name].function(TRUTH, GUESS, **params) == pytest.approx(expected, abs=1e-12)


def test_weighted_macro_recall_by_hand() -> None:
    group = np.array(["a", "a", "a", "b", "b", "b"])
    # a holds cats only, 2 of 3 found, and "dog", told in a, is one more class, of recall 0; b: dog 1 of 2, owl 1 of 1.
    score = our.weighted_macro_recall(TRUTH, GUESS, group=group, weights={"a": 1, "b": 3})
    assert score == pytest.approx((1 / 3 + 3 * 0.75) / 4)
    with pytest.raises(Unsuited, match=r"the group 'c' is not in both the answers and metric\.params\.weights"):
        our.weighted_macro_recall(TRUTH, GUESS, group=group, weights={"a": 1, "b": 3, "c": 1})


def test_error_rate_of_ranked_labels() -> None:
    guess = cells([("cat",), ("dog", "cat"), (), ("owl", "cat", "dog"), ("dog", "dog"), ("cat", "dog")])[:, 0]
    assert our.error_rate(TRUTH, guess) == pytest.approx(4 / 6)
    assert our.error_rate(TRUTH, guess, top_k=2) == pytest.approx(3 / 6)
    assert our.error_rate(TRUTH, guess, top_k=5) == pytest.approx(2 / 6)
    with pytest.raises(Unsuited, match="top_k is 0; it must be a number above 0"):
        our.error_rate(TRUTH, guess, top_k=0)


def test_quadratic_weighted_kappa_by_hand() -> None:
    truth, guess = np.array([1.0, 2, 4, 4]), np.array([1.0, 3, 4, 2])
    # squared distances 0 1 0 4: 5 / 4 rows; of all 16 pairs: 1: 0 4 9 1, 2: 1 1 4 0, 4: 9 1 0 4 twice = 48
    assert our.quadratic_weighted_kappa(truth, guess) == pytest.approx(1 - (5 / 4) / (48 / 16))


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("seed", range(5))
def test_agreement_with_scikit_learn(classes: int, seed: int) -> None:
    rng = np.random.RandomState(seed)
    truth = labels(rng, 60, classes)[:, 0]
    guess = np.where(rng.rand(60) < 0.4, truth, labels(rng, 60, classes + 1)[:, 0])
    theirs = sklearn_metrics
    for ours, their in [
        (our.accuracy(truth, guess), theirs.accuracy_score(truth, guess)),
        (our.f1_micro(truth, guess), theirs.f1_score(truth, guess, average="micro")),
        (our.mcc(truth, guess), theirs.matthews_corrcoef(truth, guess)),
        (our.cohen_kappa(truth, guess), theirs.cohen_kappa_score(truth, guess)),
        (
            our.balanced_accuracy(truth, guess),
            theirs.recall_score(truth, guess, labels=sorted(set(truth)), average="macro"),
        ),
    ]:
        assert ours == pytest.approx(their, abs=1e-12)
    for average in ("macro", "micro", "weighted"):
        options: dict[str, Any] = {"average": average, "zero_division": 0}
        for beta in (0.5, 1, 3):
            expected = theirs.fbeta_score(truth, guess, beta=beta, **options)
            assert our.fbeta(truth, guess, beta=beta, average=average) == pytest.approx(expected, abs=1e-12)
        precision, recall = (
            theirs.precision_score(truth, guess, **options),
            theirs.recall_score(truth, guess, **options),
        )
        assert our.precision(truth, guess, average=average) == pytest.approx(precision, abs=1e-12)
        assert our.recall(truth, guess, average=average) == pytest.approx(recall, abs=1e-12)
    for positive in sorted(set(truth)):
        options = {"labels": [positive], "average": None, "zero_division": 0}
        assert our.f1_binary(truth, guess, positive=positive) == pytest.approx(
            theirs.f1_score(truth, guess, **options)[0]
        )
        assert our.precision(truth, guess, positive=positive) == theirs.precision_score(truth, guess, **options)[0]
    grades, said = truth.astype(float), guess.astype(float)
    assert our.quadratic_weighted_kappa(grades, said) == pytest.approx(
        theirs.cohen_kappa_score(grades, said, labels=range(classes + 1), weights="quadratic"), abs=1e-12
    )


def test_a_constant_prediction_has_a_score() -> None:
    dogs = cells(["dog"] * 6)[:, 0]
    assert our.mcc(TRUTH, dogs) == 0
    assert our.cohen_kappa(TRUTH, dogs) == pytest.approx(0)
    assert our.precision(TRUTH, dogs, positive="cat") == 0
    assert our.quadratic_weighted_kappa(np.array([1.0, 2, 5]), np.full(3, 2.0)) == pytest.approx(0)


def test_answers_that_give_no_score() -> None:
    one = cells(["x"] * 3)[:, 0]
    for name in ("mcc", "cohen_kappa"):
        with pytest.raises(Unsuited, match="every answer has the same label"):
            METRICS[name].function(one, one)
    with pytest.raises(Unsuited, match=r"no answer has the label '1'; set metric\.params\.positive"):
        our.f1_binary(TRUTH, GUESS)
    with pytest.raises(Unsuited, match="average is 'samples', not binary, macro, micro, weighted"):
        our.recall(TRUTH, GUESS, average="samples")
    with pytest.raises(Unsuited, match="every answer is 3; this metric needs answers of two grades"):
        our.quadratic_weighted_kappa(np.full(2, 3.0), np.full(2, 3.0))
    with pytest.raises(Unsuited, match="an answer is no whole number"):
        our.quadratic_weighted_kappa(np.array([1, 1.5]), np.full(2, 3.0))


def test_predictions_that_are_no_grades_have_no_kappa() -> None:
    truth = np.array([1.0, 2, 3])
    with pytest.raises(Undefined, match=r"2\.5 is no whole number; predict grades, rounded"):
        our.quadratic_weighted_kappa(truth, np.array([1, 2.5, 3]))
    with pytest.raises(Undefined, match="the grade 7 is out of range; the grades go from 1 to 6"):
        our.quadratic_weighted_kappa(truth, np.array([1.0, 7, 3]), min=1, max=6)
    with pytest.raises(Undefined, match=r"the grade -1e\+308 is out of range"):
        our.quadratic_weighted_kappa(truth, np.array([1.0, -1e308, 3]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", sorted(set(MAKE) - {"quadratic_weighted_kappa"}))
def test_a_label_for_each_row_costs_no_extra_time(name: str) -> None:
    """Labels are free text: a NUL at the end is part of one, and none of 50,000 new ones costs more than its row."""
    rows = 50_000
    case = MAKE[name](np.random.RandomState(0), rows)
    guess = cells([f"{at}\0" for at in range(rows)])[:, 0]
    score = METRICS[name].function(case.truth[:, 0], guess, **case.params, **case.given)
    assert score == (1 if name == "error_rate" else pytest.approx(0, abs=1e-6))
