"""Metrics of predicted classes: one label a row, and whole-number grades for quadratic_weighted_kappa.

All but the last follow from three counts per class (rows of the class, predictions of it, both), as scikit-learn defines
them; the tests compare. scikit-learn itself is not called: for as many labels as an agent may invent, its confusion
matrix would not fit into memory. A label is compared as text; parsing has made 1.0 and 1 the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..alphabet import OTHER_NOTATION
from ..parsing import canonical_label, items_as_labels
from .checks import codes, number
from .registry import Undefined, Unsuited, metric

Label = str | bool | float  # of a class, as a record spells it
AVERAGES = ("binary", "macro", "micro", "weighted")


@dataclass
class Counts:
    """Rows per class, for every class of answers or predictions: real (its rows), predicted (its predictions), hits."""

    real: Any
    predicted: Any
    hits: Any
    names: dict[str, int]


def count(truth: Any, guess: Any) -> Counts:
    import numpy as np

    names: dict[str, int] = {}
    right, guessed = codes(truth, names), codes(guess, names)
    size = len(names)
    return Counts(
        real=np.bincount(right, minlength=size).astype(float),
        predicted=np.bincount(guessed, minlength=size).astype(float),
        hits=np.bincount(right[right == guessed], minlength=size).astype(float),
        names=names,
    )


def several_classes(counts: Counts) -> Counts:
    """`counts`; Unsuited where all answers are of one class."""
    if (counts.real > 0).sum() < 2:
        raise Unsuited("every answer has the same label; this metric needs answers of two classes")
    return counts


def average_over_classes(counts: Counts, scores: Any, average: str, positive: Any) -> float:
    """One score from the classes': of the positive class, or their mean (macro), or weighted by their rows.

    micro does not read `scores`: with one label a row, precision, recall and F over all rows are the accuracy.
    """
    import numpy as np

    if average not in AVERAGES:
        raise Unsuited(f"metric.params.average is {average!r}, not {', '.join(AVERAGES)}")
    if average == "binary":
        label = canonical_label(positive)
        at = counts.names.get(label, counts.names.get(OTHER_NOTATION.get(label, label)))
        if at is None or not counts.real[at]:
            raise Unsuited(f"no answer has the label {label!r}; set metric.params.positive")
        return float(scores[at])
    if average == "micro":
        return float(counts.hits.sum() / counts.real.sum())
    return float(np.mean(scores) if average == "macro" else np.average(scores, weights=counts.real))


def divide(above: Any, below: Any) -> Any:
    """above / below, 0 where below is 0."""
    import numpy as np

    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


@metric("accuracy", lower_is_better=False, best=1.0, parse=("label", "text"))
def accuracy(truth: Any, guess: Any) -> float:
    """Share of rows whose label is right (for texts: exactly the same text)."""
    return float((truth == guess).mean())


@metric("error_rate", lower_is_better=True, best=0.0, parse=("label", "ranked"), answer_parse="label")
def error_rate(truth: Any, guess: Any, *, top_k: int = 1) -> float:
    """Share of rows whose label is wrong; of ranked labels the first top_k count, and the right one must be among them."""
    if number("top_k", top_k, above=0, at_most=1e9) != int(top_k):
        raise Unsuited(f"metric.params.top_k is {top_k!r}, no whole number")
    if not len(guess) or not isinstance(guess[0], tuple):
        return float((truth != guess).mean())
    first = int(top_k)
    pairs = zip(truth, guess, strict=True)
    return sum(right not in items_as_labels(ranked[:first], right) for right, ranked in pairs) / len(truth)


@metric("balanced_accuracy", lower_is_better=False, best=1.0, parse="label", balanced=True)
def balanced_accuracy(truth: Any, guess: Any) -> float:
    """Recall (share of a class's rows that are predicted as it), averaged over the classes in the answers."""
    counts = count(truth, guess)
    there = counts.real > 0
    return float((counts.hits[there] / counts.real[there]).mean())


@metric("weighted_macro_recall", lower_is_better=False, best=1.0, parse="label")
def weighted_macro_recall(truth: Any, guess: Any, *, group: Any, weights: Mapping[str, float]) -> float:
    """Recall averaged over the classes of answers or predictions inside each group of rows (0 for a class that is only
    predicted); then the groups' mean with `weights`.

    weights: {value of the group column: its weight}, each group of the answers and no other. Source: Kaggle's
    Bengali.AI grapheme competition (components grapheme_root 2, vowel_diacritic 1, consonant_diacritic 1).
    """
    import numpy as np

    if not isinstance(weights, Mapping) or not weights:
        raise Unsuited("metric.params.weights must be an object {value of the group column: weight}")
    for name, weight in weights.items():
        number(f"weights[{name!r}]", weight, above=0, at_most=1e9)
    names: dict[str, int] = {}
    of_row = codes(group, names)
    if set(names) != set(weights):
        odd = sorted(set(names) ^ set(weights))[0]
        raise Unsuited(f"the group {odd!r} is not in both the answers and metric.params.weights")
    recalls = []
    for at in names.values():
        counts = count(truth[of_row == at], guess[of_row == at])
        recalls.append(divide(counts.hits, counts.real).mean())
    return float(np.average(recalls, weights=[weights[name] for name in names]))


@metric("fbeta", lower_is_better=False, best=1.0, parse="label")
def fbeta(truth: Any, guess: Any, *, beta: float = 1.0, average: str = "binary", positive: Label = "1") -> float:
    """F-beta, (1 + beta^2) P R / (beta^2 P + R) with precision P and recall R, of the positive class or averaged.

    average: binary (the class `positive`), macro (mean over the classes of answers or predictions), weighted (by rows of
    the answers), micro (over all rows, which is the accuracy).
    """
    square = number("beta", beta, above=0, at_most=1e6) ** 2
    counts = count(truth, guess)
    scores = (1 + square) * counts.hits / (square * counts.real + counts.predicted)
    return average_over_classes(counts, scores, average, positive)


@metric("f1_binary", lower_is_better=False, best=1.0, parse="label")
def f1_binary(truth: Any, guess: Any, *, positive: Label = "1") -> float:
    """F1, the harmonic mean of precision and recall, of the class `positive`; 0 where no prediction of it is right."""
    return fbeta(truth, guess, positive=positive)


@metric("f1_micro", lower_is_better=False, best=1.0, parse="label")
def f1_micro(truth: Any, guess: Any) -> float:
    """F1 of the counts of all classes together; with one label a row this is the accuracy."""
    return accuracy(truth, guess)


@metric("f1_macro", lower_is_better=False, best=1.0, parse="label", balanced=True)
def f1_macro(truth: Any, guess: Any) -> float:
    """F1, averaged over the classes in answers or predictions."""
    return fbeta(truth, guess, average="macro")


@metric("f1_weighted", lower_is_better=False, best=1.0, parse="label")
def f1_weighted(truth: Any, guess: Any) -> float:
    """F1 of each class, averaged with the number of its rows in the answers as weight."""
    return fbeta(truth, guess, average="weighted")


@metric("precision", lower_is_better=False, best=1.0, parse="label")
def precision(truth: Any, guess: Any, *, average: str = "binary", positive: Label = "1") -> float:
    """Share of the predictions of a class that are right (0 where there are none), of the positive class or averaged.

    average: as for fbeta.
    """
    counts = count(truth, guess)
    return average_over_classes(counts, divide(counts.hits, counts.predicted), average, positive)


@metric("recall", lower_is_better=False, best=1.0, parse="label")
def recall(truth: Any, guess: Any, *, average: str = "binary", positive: Label = "1") -> float:
    """Share of a class's rows that are predicted as it (0 where it has none), of the positive class or averaged.

    average: as for fbeta.
    """
    counts = count(truth, guess)
    return average_over_classes(counts, divide(counts.hits, counts.real), average, positive)


@metric("mcc", lower_is_better=False, best=1.0, parse="label")
def mcc(truth: Any, guess: Any) -> float:
    """Matthews correlation of answers and predicted labels, for two or more classes; 0 for a constant prediction.

    Several classes: Gorodkin's R_K, Comput. Biol. Chem. 28 (2004), as in scikit-learn's matthews_corrcoef.
    """
    counts = several_classes(count(truth, guess))
    rows = len(truth)
    spread = rows * rows - (counts.predicted @ counts.predicted)
    if spread == 0:
        return 0.0
    common = rows * counts.hits.sum() - counts.real @ counts.predicted
    return float(common / ((rows * rows - counts.real @ counts.real) * spread) ** 0.5)


@metric("cohen_kappa", lower_is_better=False, best=1.0, parse="label")
def cohen_kappa(truth: Any, guess: Any) -> float:
    """Cohen's kappa: 1 - (share of rows that differ) / (share that would differ if rows were paired at random)."""
    counts = several_classes(count(truth, guess))
    rows = len(truth)
    return float(1 - rows * (rows - counts.hits.sum()) / (rows * rows - counts.real @ counts.predicted))


@metric("quadratic_weighted_kappa", lower_is_better=False, best=1.0, parse="number", ordered_classes=True)
def quadratic_weighted_kappa(truth: Any, guess: Any, *, min: float | None = None, max: float | None = None) -> float:
    """Cohen's kappa of whole-number grades with squared distance: 1 - mean (t - p)^2 / its mean over all pairs of rows.

    min, max: predictions outside are refused; the value does not depend on them. Distances are those of the grades'
    values; scikit-learn's cohen_kappa_score takes the grades' positions among those that occur, which is the same unless
    a grade between occurs in neither answers nor predictions.
    """
    import numpy as np

    if not (truth == np.floor(truth)).all():
        raise Unsuited("an answer is no whole number")
    if truth.min() == truth.max():
        raise Unsuited(f"every answer is {truth[0]:g}; this metric needs answers of two grades")
    low = -1e12 if min is None else number("min", min, above=-1e12, at_most=1e12)
    high = 1e12 if max is None else number("max", max, above=low, at_most=1e12)
    if truth.min() < low or truth.max() > high:
        raise Unsuited(f"an answer is out of range; the grades go from {low:g} to {high:g}")
    wrong = guess[guess != np.floor(guess)]
    if wrong.size:
        raise Undefined(f"{wrong[0]:g} is no whole number; predict grades, rounded")
    beyond = guess[(guess < low) | (guess > high)]
    if beyond.size:
        raise Undefined(f"the grade {beyond[0]:g} is out of range; the grades go from {low:g} to {high:g}")
    distance = ((truth - guess) ** 2).mean()
    chance = truth.var() + guess.var() + (truth.mean() - guess.mean()) ** 2
    return float(1 - distance / chance)
