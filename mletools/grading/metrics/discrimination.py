"""Metrics of how well predictions tell classes apart: only the order of the predicted numbers counts, not their size.

Equal predictions never profit from the order of rows: each of these has the value that is the same for every order.
"""

from typing import Any

from .checks import number, numbers, two_classes, zero_or_one
from .registry import Unsuited, metric


def area(positive: Any, guess: Any, weight: Any = None) -> float:
    """Area under the ROC curve; both classes must be there.

    Without weights from the ranks, which takes a tenth of the time: Mann and Whitney's U divided by the number of pairs.
    """
    import numpy as np

    if weight is None:
        from scipy.stats import rankdata

        ones = int(positive.sum())
        return float((rankdata(guess)[positive].sum() - ones * (ones + 1) / 2) / ones / (len(guess) - ones))
    from sklearn.metrics import roc_auc_score

    with np.errstate(all="ignore"):  # the difference of two huge predictions
        return float(roc_auc_score(positive, guess, sample_weight=weight))


@metric("auroc", lower_is_better=False, best=1.0, parse="number", predicts="probability")
def auroc(truth: Any, guess: Any, *, weight: Any = None) -> float:
    """Area under the ROC curve of the predicted probability (or any score) of class 1."""
    positive = two_classes(truth)
    if weight is not None and not ((weight >= 0).all() and weight[positive].sum() > 0 and weight[~positive].sum() > 0):
        raise Unsuited("weights must not be negative, and both classes need a row with a weight above 0")
    return area(positive, guess, weight)


@metric("gini", lower_is_better=False, best=1.0, parse="number", predicts="probability")
def gini(truth: Any, guess: Any) -> float:
    """Gini coefficient of two classes: 2 AUROC - 1."""
    return 2 * area(two_classes(truth), guess) - 1


@metric("normalized_gini", lower_is_better=False, best=1.0, parse="number")
def normalized_gini(truth: Any, guess: Any) -> float:
    """Area between the Lorenz curve of the answers, sorted by falling prediction, and the diagonal, relative to the best.

    Source: Kaggle's Claim Prediction, Liberty Mutual and Porto Seguro competitions. Sum of the answers' running totals,
    (n+1)/2 times the total subtracted; divided by the same for the predictions = the answers. Kaggle sorts equal
    predictions in file order; here the mean over all their orders counts, so that the order of rows does not: an answer
    is multiplied with the mean rank of its tie. For answers 0 and 1 this is 2 AUROC - 1.
    """
    import numpy as np
    from scipy.stats import rankdata

    if truth.min() == truth.max():
        raise Unsuited(f"every answer is {truth[0]:g}; this metric needs answers that differ")
    middle = (len(truth) + 1) / 2
    with np.errstate(all="ignore"):
        best = truth @ (rankdata(truth) - middle)
        return float(truth @ (rankdata(guess) - middle) / best)


@metric("weighted_auroc", lower_is_better=False, best=1.0, parse="number", predicts="probability")
def weighted_auroc(truth: Any, guess: Any, *, tpr_thresholds: list[float], weights: list[float]) -> float:
    """Area under the ROC curve, cut at tpr_thresholds into bands of true-positive rate that count with `weights`.

    Divided by the area of the bands, weighted alike, so that 1 is best. tpr_thresholds: rising, in [0, 1], one more than
    weights. Source: Kaggle's ALASKA2 competition (0, .4, 1; weights 2, 1). The curve is cut exactly at a threshold that
    lies between two of its points, as MLE-bench does.
    """
    import numpy as np
    from sklearn.metrics import auc, roc_curve

    bounds = np.array(numbers("tpr_thresholds", tpr_thresholds), dtype=float)
    widths = np.diff(bounds)
    if len(bounds) < 2 or not (widths > 0).all() or bounds[-1] > 1:
        raise Unsuited(f"metric.params.tpr_thresholds is {tpr_thresholds!r}; they must rise from 0 to at most 1")
    share = np.concatenate([[0.0], np.cumsum(widths * numbers("weights", weights, len(widths)))])
    if share[-1] <= 0:
        raise Unsuited("metric.params.weights are all 0")
    with np.errstate(all="ignore"):
        false_rate, true_rate, _ = roc_curve(two_classes(truth), guess, drop_intermediate=False)
    for bound in bounds:
        at = int(np.searchsorted(true_rate, bound))
        if true_rate[at] != bound:
            part = (bound - true_rate[at - 1]) / (true_rate[at] - true_rate[at - 1])
            cut = false_rate[at - 1] + part * (false_rate[at] - false_rate[at - 1])
            true_rate, false_rate = np.insert(true_rate, at, bound), np.insert(false_rate, at, cut)
    # The weighted height below a point of the curve is linear between the thresholds.
    return float(auc(false_rate, np.interp(true_rate, bounds, share)) / share[-1])


@metric("bias_auroc", lower_is_better=False, best=1.0, parse="number")
def bias_auroc(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    identity_columns: list[str],
    power: float = -5,
    overall_weight: float = 0.25,
    threshold: float = 0.5,
    binarise_predictions: bool = False,
) -> float:
    """overall_weight * AUROC, plus equal shares of the rest for the power means over identities of three AUROCs.

    The three: of the rows with the identity (subgroup); of its negative rows with the others' positive ones (BPSN); of
    its positive rows with the others' negative ones (BNSP). An answer is positive, an identity present, at or above
    `threshold`; an empty identity cell is absent. identity_columns: columns of the answers. power: not 0.
    binarise_predictions: predictions become 0 or 1 at `threshold` first, as MLE-bench does and Kaggle does not.
    Source: Kaggle's Jigsaw Unintended Bias competition; Borkan et al., arXiv:1903.04561.
    """
    import numpy as np

    number("power", power, above=-1e3, at_most=1e3)
    number("overall_weight", overall_weight, above=-1e-9, at_most=1)
    number("threshold", threshold, above=-1e308, at_most=1e308)
    if power == 0 or not isinstance(identity_columns, list) or not identity_columns:
        raise Unsuited("metric.params.power must not be 0, and identity_columns must be a list of columns")
    positive = truth >= threshold
    if positive.all() or not positive.any():
        raise Unsuited(f"all answers lie on one side of the threshold {threshold:g}")
    if binarise_predictions:
        guess = (guess >= threshold).astype(float)
    areas = []
    for name in identity_columns:
        present = identity(extra, name) >= threshold
        for rows in (present, present ^ positive, present == positive):
            if positive[rows].all() or not positive[rows].any():
                raise Unsuited(f"the identity {name!r} is not both present and absent in rows of both classes")
            areas.append(area(positive[rows], guess[rows]))
    with np.errstate(all="ignore"):  # an area of 0: its power is infinite, and the mean 0
        means = np.mean(np.reshape(areas, (-1, 3)) ** float(power), axis=0) ** (1 / power)
    return float(overall_weight * area(positive, guess) + (1 - overall_weight) * means.mean())


def identity(extra: Any, name: str) -> Any:
    """The column `name` of the answers as floats, NaN where a cell is empty; Unsuited where that is not possible."""
    import numpy as np

    if name not in extra:
        raise Unsuited(f"the answers have no column {name!r}, which metric.params.identity_columns names")
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in extra[name]])
    except ValueError as error:
        raise Unsuited(f"the answers' column {name!r} holds no number: {error}") from None


@metric("average_precision", lower_is_better=False, best=1.0, parse="number", predicts="probability")
def average_precision(truth: Any, guess: Any) -> float:
    """Average precision: the precision at each positive row, when sorted by falling prediction, averaged over them."""
    import numpy as np
    from sklearn.metrics import average_precision_score

    positive = zero_or_one(truth)
    if not positive.any():
        raise Unsuited("no answer is 1, so that there is no precision to average")
    with np.errstate(all="ignore"):
        return float(average_precision_score(positive, guess))


@metric("lwlrap", lower_is_better=False, best=1.0, parse="number", columns="joint")
def lwlrap(truth: Any, guess: Any) -> float:
    """Label-weighted label-ranking average precision: for every true label of every row, the share of true ones among
    the row's labels predicted at least as high; the mean over all true labels.

    An answer above 0 is a true label; rows without one do not count. The same as scikit-learn's
    label_ranking_average_precision_score with the number of true labels as weight (Kaggle's Freesound 2019), which
    loops over rows in Python and takes ten seconds for 100,000 of them.
    """
    import numpy as np

    positive = truth > 0
    rows, labels = np.nonzero(positive)
    if not len(rows):
        raise Unsuited("no answer is above 0, so that there is no true label to rank")
    step = max(1, 2_000_000 // truth.shape[1])  # true labels at a time, which bounds memory
    total = 0.0
    for start in range(0, len(rows), step):
        row, label = rows[start : start + step], labels[start : start + step]
        above = guess[row] >= guess[row, label][:, None]
        total += float(((above & positive[row]).sum(axis=1) / above.sum(axis=1)).sum())
    return total / len(rows)
