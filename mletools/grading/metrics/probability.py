"""Metrics of predicted probabilities whose size counts: log losses, Brier score, probabilistic F, KL divergence.

The metrics that look at the predictions' order only are in discrimination. A predicted number outside [0, 1] is refused,
except in probabilistic_f1, whose definition clips, and where `outside` of a log loss says otherwise. The log losses raise
the probability given to the truth to `eps`, so that none is infinite; a perfect prediction has exactly 0.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..parsing import canonical_label
from .checks import codes, number, numbers, probabilities, zero_or_one
from .registry import Undefined, Unsuited, metric


def scaled_rows(values: Any) -> Any:
    """Every row divided by its sum; Undefined where a number is negative or a whole row 0."""
    negative = values[values < 0]
    if negative.size:
        raise Undefined(f"{negative.flat[0]:g} is no probability; predict numbers of at least 0")
    top = values.max(axis=1, keepdims=True)
    if (top == 0).any():
        raise Undefined("a row of probabilities is all zero")
    values = values / top  # or the sum may overflow
    return values / values.sum(axis=1, keepdims=True)


def losses(probability: Any, eps: float) -> Any:
    """-ln of the probabilities given to the truth, raised to eps."""
    import numpy as np

    number("eps", eps, above=0, at_most=0.5)
    return 0.0 - np.log(np.maximum(probability, eps))


def binary_losses(truth: Any, guess: Any, eps: float, outside: str = "refuse") -> Any:
    """The log loss of each row, `guess` being the probability of a 1."""
    import numpy as np

    guess = guess.clip(0, 1) if outside == "clip" else probabilities(guess)
    return losses(np.where(zero_or_one(truth), guess, 1 - guess), eps)


OUTSIDE = ("refuse", "clip", "scale")


def class_losses(
    truth: Any, guess: Any, eps: float, normalise: bool, classes: list[Any] | None, outside: str
) -> tuple[Any, Any]:
    """The log loss and the class of each row; arrays of shape (rows, classes), or (rows, 1) for two classes."""
    import numpy as np

    if outside not in OUTSIDE or (outside == "scale" and not normalise):
        raise Unsuited(f"metric.params.outside is {outside!r}, not refuse, clip, or with normalise scale")
    if guess.shape[1] == 1 and classes is None:
        return binary_losses(truth[:, 0], guess[:, 0], eps, outside), truth[:, 0].astype(int)
    right = named_classes(truth, guess, classes) if classes is not None else hot_columns(truth, guess)
    if outside == "clip":
        guess = guess.clip(number("eps", eps, above=0, at_most=0.5), 1 - eps)
        guess = guess / guess.sum(axis=1, keepdims=True) if normalise else guess
    elif outside == "scale":
        total = guess.sum(axis=1, keepdims=True)
        guess = (guess / np.where(total == 0, 1, total)).clip(0, 1)
    else:
        guess = scaled_rows(probabilities(guess)) if normalise else probabilities(guess)
    return losses(guess[np.arange(len(right)), right], eps), right


def hot_columns(truth: Any, guess: Any) -> Any:
    """The column of each row's 1; Unsuited unless every row of the answers has exactly one, and 0 elsewhere."""
    if truth.shape != guess.shape:
        raise Unsuited("the answers must have a column for each class, or metric.params.classes name the classes")
    once = zero_or_one(truth)
    if not (once.sum(axis=1) == 1).all():
        raise Unsuited("every row of the answers must have a 1 in one target column, and 0 in the others")
    return once.argmax(axis=1)


def named_classes(truth: Any, guess: Any, classes: list[Any]) -> Any:
    """The column of each row's class, where the answers are one column of labels; Unsuited where one has no column."""
    import numpy as np

    known = {canonical_label(name): at for at, name in enumerate(classes)}
    if truth.shape[1] != 1 or len(known) != guess.shape[1]:
        raise Unsuited(
            "metric.params.classes goes with one column of answers, and names a class for each target column"
        )
    strange = {label for label in truth[:, 0] if label not in known}
    if strange:
        raise Unsuited(f"the answers hold the class {min(strange)!r}, which is not in metric.params.classes")
    return np.array([known[label] for label in truth[:, 0]])


@metric(
    "log_loss",
    lower_is_better=True,
    best=0.0,
    parse="number",
    answer_parse=("number", "label"),
    columns="joint",
    predicts="probabilities",
)
def log_loss(
    truth: Any,
    guess: Any,
    *,
    eps: float = 1e-15,
    normalise: bool = True,
    classes: list[Any] | None = None,
    outside: str = "refuse",
) -> float:
    """Mean negative natural log of the probability given to the true class; rows are scaled to sum 1.

    Several target columns: one per class, the answers' is 1 in its column. One: the probability of a 1. normalise:
    whether rows of several columns are scaled. eps: the least probability that counts. classes: the answers are one
    column of labels, and these are the labels of the target columns, in their order. outside: what becomes of a number
    below 0 or above 1: refuse; clip (to eps and 1 - eps, before rows are scaled; a row of zeros becomes uniform); scale
    (rows are scaled as they are, a row of zeros stays).
    """
    return float(class_losses(truth, guess, eps, normalise, classes, outside)[0].mean())


@metric(
    "balanced_log_loss",
    lower_is_better=True,
    best=0.0,
    parse="number",
    answer_parse=("number", "label"),
    columns="joint",
    predicts="probabilities",
    balanced=True,
)
def balanced_log_loss(
    truth: Any,
    guess: Any,
    *,
    eps: float = 1e-15,
    normalise: bool = True,
    classes: list[Any] | None = None,
    outside: str = "refuse",
) -> float:
    """log_loss of the rows of each class, then the mean over the classes in the answers.

    Shapes and parameters as for log_loss. Source: Kaggle's ICR competition (age-related conditions).
    """
    import numpy as np

    each, right = class_losses(truth, guess, eps, normalise, classes, outside)
    rows = np.bincount(right)
    totals = np.bincount(right, weights=each)
    return float((totals[rows > 0] / rows[rows > 0]).mean())


@metric("multilabel_log_loss", lower_is_better=True, best=0.0, parse="number", predicts="probability")
def multilabel_log_loss(truth: Any, guess: Any, *, eps: float = 1e-15) -> float:
    """Binary log loss: mean negative natural log of the probability given to the answer, 1 or 0, of a column."""
    return float(binary_losses(truth, guess, eps).mean())


@metric("weighted_multilabel_log_loss", lower_is_better=True, best=0.0, parse="number")
def weighted_multilabel_log_loss(
    truth: Any,
    guess: Any,
    *,
    group: Any,
    extra: Any,
    variable: str | dict[str, str],
    variables: list[str],
    weights_neg: list[float],
    weights_pos: list[float],
    eps: float = 1e-15,
) -> float:
    """Binary log loss of rows (group, variable), averaged inside each group with weights; then the mean over groups.

    The weight depends on the row's variable and answer: weights_neg and weights_pos, in the order of `variables`.
    variable: where a row's variable stands, as metric.group says it: a column of the answers, or {"column": c,
    "pattern": p}, the first group of a regular expression. Source: Kaggle's RSNA 2022 cervical spine competition (group
    = study), as MLE-bench normalises it.
    """
    import numpy as np

    if not isinstance(variables, list) or len(set(map(str, variables))) != len(variables):
        raise Unsuited("metric.params.variables must be a list of different names")
    size = len(variables)
    weights = np.array([numbers("weights_neg", weights_neg, size), numbers("weights_pos", weights_pos, size)])
    known = {str(name): at for at, name in enumerate(variables)}
    named = variable_of_rows(extra, variable)
    strange = set(named) - set(known)
    if strange:
        raise Unsuited(f"the answers have the variable {min(strange)!r}, which is not in metric.params.variables")
    each = binary_losses(truth, guess, eps)
    weight = weights[(truth == 1).astype(int), codes(named, known)]
    of_row = codes(group, {})
    below = np.bincount(of_row, weights=weight)
    if not (below > 0).all():
        raise Unsuited("the weights of a whole group are 0")
    return float((np.bincount(of_row, weights=weight * each) / below).mean())


def variable_of_rows(extra: Any, variable: Any) -> list[str]:
    """The variable of each row, read from the answers' columns as `variable` says; Unsuited where it cannot be."""
    column, pattern = variable, None
    if isinstance(variable, Mapping):
        column, pattern = variable.get("column"), variable.get("pattern")
    if not isinstance(column, str) or column not in extra:
        raise Unsuited(f"the answers have no column {column!r}, which metric.params.variable names")
    if pattern is None:
        return [str(cell) for cell in extra[column]]
    try:
        matches = [re.search(pattern, cell) for cell in extra[column]]
        names = [match[1] if match else None for match in matches]
    except (re.error, IndexError, TypeError) as error:
        raise Unsuited(f"metric.params.variable: {pattern!r} is no pattern with a group: {error}") from None
    if None in names:
        cell = extra[column][names.index(None)]
        raise Unsuited(f"metric.params.variable: {pattern!r} does not match {str(cell)!r} in the column {column!r}")
    return [str(name) for name in names]


@metric("brier_score", lower_is_better=True, best=0.0, parse="number", predicts="probability")
def brier_score(truth: Any, guess: Any) -> float:
    """Mean squared difference of the predicted probability of a 1 and the answer, 1 or 0."""
    return float(((probabilities(guess) - zero_or_one(truth)) ** 2).mean())


@metric("probabilistic_f1", lower_is_better=False, best=1.0, parse="number", predicts="probability")
def probabilistic_f1(truth: Any, guess: Any, *, beta: float = 1.0) -> float:
    """F-beta with probabilities, clipped to [0, 1], as counts: true positives are their sum over rows with answer 1,
    false positives over rows with answer 0.

    0 where all predictions are 0. Source: Yacouby and Axman, Eval4NLP 2020, as Kaggle's RSNA breast cancer competition
    has it.
    """
    square = number("beta", beta, above=0, at_most=1e6) ** 2
    positive = zero_or_one(truth)
    if not positive.any():
        raise Unsuited("no answer is 1, so that there is no recall")
    clipped = guess.clip(0, 1)
    return float((1 + square) * clipped[positive].sum() / (square * positive.sum() + clipped.sum()))


@metric("kl_divergence", lower_is_better=True, best=0.0, parse="number", columns="joint")
def kl_divergence(truth: Any, guess: Any, *, eps: float = 1e-15, normalise: bool = True) -> float:
    """Kullback-Leibler divergence sum t ln(t / p) of the predicted from the true distribution, mean over rows.

    Target columns are the classes; rows of both are scaled to sum 1, so the answers may be counts. A class with t = 0
    adds nothing; p is raised to eps. normalise: whether rows of predictions are scaled (answers always are). Source: Kaggle's HMS harmful brain activity competition.
    """
    import numpy as np

    number("eps", eps, above=0, at_most=0.5)
    if truth.shape[1] < 2:
        raise Unsuited("this metric needs two or more target columns, one per class")
    try:
        real = scaled_rows(truth)
    except Undefined as error:
        raise Unsuited(f"in the answers, {error}") from None
    shares = scaled_rows(guess) if normalise else probabilities(guess)
    terms = real * np.log(np.where(real > 0, real, 1) / np.maximum(shares, eps))  # may be negative where sums are not 1
    return float(terms.sum(axis=1).mean())
