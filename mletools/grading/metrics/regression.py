"""Metrics on numbers: errors, relative errors, correlations, and a likelihood.

Those that are one line of numpy are written out (the tests hold them against scikit-learn and scipy): the libraries'
checks of their arguments take longer than the sums of a small answer file. Errors may come out infinite where numbers
near 1e308 overflow; the caller refuses that.
"""

from typing import Any

from .means import at_least, groups_by_size, mean
from .registry import Undefined, Unsuited, metric


def _error(truth: Any, guess: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.abs(truth - guess)


def _relative_error(name: str, truth: Any, guess: Any) -> Any:
    """|truth - guess| / |truth|; Unsuited where a truth is 0."""
    import numpy as np

    zeros = int((truth == 0).sum())
    if zeros:
        raise Unsuited(f"{name} divides by the answer, and {zeros} answers are 0; leave those out with metric.where")
    with np.errstate(all="ignore"):
        return np.abs((truth - guess) / truth)


@metric("mae", lower_is_better=True, best=0.0, parse="number")
def mae(truth: Any, guess: Any, *, weight: Any = None) -> float:
    """Mean absolute error, sum w |t - p| / sum w; all weights w are 1 unless the task names a weight column."""
    return mean(_error(truth, guess), weight)


@metric("mse", lower_is_better=True, best=0.0, parse="number")
def mse(truth: Any, guess: Any, *, weight: Any = None) -> float:
    """Mean squared error, sum w (t - p)^2 / sum w; all weights w are 1 unless the task names a weight column."""
    import numpy as np

    with np.errstate(all="ignore"):
        return mean(_error(truth, guess) ** 2, weight)


@metric("rmse", lower_is_better=True, best=0.0, parse="number")
def rmse(truth: Any, guess: Any, *, weight: Any = None) -> float:
    """Root of the mean squared error, sqrt(sum w (t - p)^2 / sum w); w is 1 unless the task names a weight column.

    Several columns: the mean of their roots.
    """
    return float(mse(truth, guess, weight=weight) ** 0.5)


@metric("median_absolute_error", lower_is_better=True, best=0.0, parse="number")
def median_absolute_error(truth: Any, guess: Any) -> float:
    """Median of |t - p|; the mean of the two in the middle where the number of rows is even."""
    import numpy as np

    if not len(truth):
        raise Unsuited("no row of the answers counts")
    with np.errstate(all="ignore"):
        return float(np.median(_error(truth, guess)))


@metric("rmsle", lower_is_better=True, best=0.0, parse="number")
def rmsle(truth: Any, guess: Any, *, floor: float | None = None) -> float:
    """Root of the mean squared difference of ln(1 + t) and ln(1 + p); predictions must be above -1.

    floor: lower predictions are raised to it, such as 0; null: none is.
    """
    import numpy as np

    if floor is not None:
        guess = np.maximum(guess, floor)
    below = guess[guess <= -1]
    if (truth <= -1).any():
        raise Unsuited("rmsle takes ln(1 + answer), and there are answers of -1 or below")
    if below.size:
        raise Undefined(f"rmsle needs predictions above -1; {below.size} are not, such as {below.min():g}")
    return float(mean((np.log1p(truth) - np.log1p(guess)) ** 2) ** 0.5)


@metric("smape", lower_is_better=True, best=0.0, parse="number")
def smape(truth: Any, guess: Any) -> float:
    """Symmetric mean absolute percentage error, mean of 200 |t - p| / (|t| + |p|): 0 to 200; a row counts 0 if t = p = 0."""
    import numpy as np

    scale = np.maximum(np.abs(truth), np.abs(guess))
    scale[scale == 0] = 1
    truth, guess = truth / scale, guess / scale  # within [-1, 1]: sums of huge numbers would overflow
    both = np.abs(truth) + np.abs(guess)
    both[both == 0] = 1
    return mean(200 * np.abs(truth - guess) / both)


@metric("mape", lower_is_better=True, best=0.0, parse="number")
def mape(truth: Any, guess: Any) -> float:
    """Mean absolute relative error, mean of |t - p| / |t|, as a fraction (0.1 is ten percent); no answer may be 0."""
    return mean(_relative_error("mape", truth, guess))


@metric("rmspe", lower_is_better=True, best=0.0, parse="number")
def rmspe(truth: Any, guess: Any) -> float:
    """Root of the mean squared relative error ((t - p) / t)^2, as a fraction (0.1 is ten percent); no answer may be 0.

    Source: the evaluation page of Kaggle's Rossmann Store Sales, which leaves out the rows with t = 0 (metric.where).
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return float(mean(_relative_error("rmspe", truth, guess) ** 2) ** 0.5)


@metric("r2", lower_is_better=False, best=1.0, parse="number")
def r2(truth: Any, guess: Any) -> float:
    """Coefficient of determination, 1 - sum (t - p)^2 / sum (t - mean of t)^2: 1 is perfect, it may be below 0."""
    import numpy as np

    with np.errstate(all="ignore"):
        spread = float(((truth - truth.mean()) ** 2).sum()) if len(truth) else 0.0
        if not 0 < spread < np.inf or (truth == truth[0]).all():
            raise Unsuited("r2 divides by the spread of the answers, and they are constant or too large to square")
        return float(1 - (_error(truth, guess) ** 2).sum() / spread)


def _standardised(values: Any) -> tuple[Any, Any]:
    """`values` with mean 0 and length 1 along the last axis, and where they are constant along it."""
    import numpy as np

    scale = np.frexp(np.abs(values).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(values, -scale)  # exact, and no square overflows
    centred = scaled - scaled.mean(axis=-1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    # the mean of equal numbers may differ from them in the last bit: only a comparison tells that they are constant
    constant = (values == values[..., :1]).all(axis=-1) | (length[..., 0] == 0)
    return centred / np.where(length == 0, 1, length), constant


def _correlation(truth: Any, guess: Any, among: str = "") -> Any:
    """Pearson's r along the last axis. `among` says in a message of what the values are: "in a row"."""
    import numpy as np

    if not truth.size:
        raise Unsuited("no row of the answers counts")
    with np.errstate(all="ignore"):
        (left, unsuited), (right, undefined) = _standardised(truth), _standardised(guess)
        if unsuited.any():
            raise Unsuited(f"a correlation needs answers that differ, and they are all the same{among}")
        if undefined.any():
            raise Undefined(f"a correlation needs predictions that differ, and they are all the same{among}")
        return np.clip((left * right).sum(axis=-1), -1, 1)


def _rank_correlation(truth: Any, guess: Any, among: str = "") -> Any:
    """Spearman's correlation along the last axis."""
    from scipy.stats import rankdata

    if not truth.size:
        raise Unsuited("no row of the answers counts")
    return _correlation(rankdata(truth, axis=-1), rankdata(guess, axis=-1), among)


@metric("pearson", lower_is_better=False, best=1.0, parse="number", constant_is_undefined=True)
def pearson(truth: Any, guess: Any) -> float:
    """Pearson's correlation coefficient r, the covariance of t and p over the product of their standard deviations."""
    return float(_correlation(truth, guess))


@metric("spearman", lower_is_better=False, best=1.0, parse="number", constant_is_undefined=True)
def spearman(truth: Any, guess: Any) -> float:
    """Spearman's rank correlation: Pearson's r of the ranks, where equal values share their mean rank."""
    return float(_rank_correlation(truth, guess))


@metric("pearson_rowwise", lower_is_better=False, best=1.0, parse="number", columns="joint")
def pearson_rowwise(truth: Any, guess: Any) -> float:
    """Mean over rows of Pearson's r between a row's predictions and its answers; needs two target columns at least."""
    return mean(_correlation(truth, guess, " in a row"))


@metric("spearman_rowwise", lower_is_better=False, best=1.0, parse="number", columns="joint")
def spearman_rowwise(truth: Any, guess: Any) -> float:
    """Mean over rows of Spearman's rank correlation between a row's predictions and its answers."""
    return mean(_rank_correlation(truth, guess, " in a row"))


@metric("spearman_lists", lower_is_better=False, best=1.0, parse="tokens")
def spearman_lists(truth: Any, guess: Any) -> float:
    """Mean over rows of Spearman's rank correlation between the numbers that a row's cell lists and its answer's.

    Source: Kaggle's Draper satellite image chronology, whose cells hold five days.
    """
    import numpy as np

    scores = []
    for right, guessed in zip(truth, guess, strict=True):
        expected = _listed(right, Unsuited)
        guess_values = _listed(guessed, Undefined)
        if not np.isfinite(expected).all():
            raise Unsuited("a row of the answers lists a number that is not finite")
        if expected.shape != guess_values.shape or not np.isfinite(guess_values).all():
            raise Undefined(f"a row lists {len(guessed)} numbers, {len(right)} finite ones are required")
        scores.append(float(_rank_correlation(expected, guess_values, " in a row")[0]))
    return mean(scores)


def _listed(cell: Any, error: type[Exception]) -> Any:
    """The numbers of a cell as floats of shape (1, numbers); `error` where it lists something else."""
    import numpy as np

    try:
        return np.array([cell], dtype=float)
    except ValueError:
        raise error(f"{' '.join(cell)[:50]!r} is not a list of numbers") from None


@metric("spearman_by_group", lower_is_better=False, best=1.0, parse="number", constant_is_undefined=True)
def spearman_by_group(truth: Any, guess: Any, *, group: Any) -> float:
    """Spearman's rank correlation among the rows of each group, then the mean over groups; each group counts the same."""
    import numpy as np

    correlations = [_rank_correlation(truth[rows], guess[rows], " in a group") for rows in groups_by_size(group)]
    return mean(np.concatenate(correlations))


@metric("kendall_tau", lower_is_better=False, best=1.0, parse="number", constant_is_undefined=True)
def kendall_tau(truth: Any, guess: Any) -> float:
    """Kendall's tau-b of t and p: pairs of rows in the same order less those in opposite order, corrected for ties."""
    from scipy.stats import kendalltau

    for values, error, what in ((truth, Unsuited, "answers"), (guess, Undefined, "predictions")):
        if not len(values) or (values == values[0]).all():
            raise error(f"a correlation needs {what} that differ, and they are all the same")
    return float(kendalltau(truth, guess).statistic)


@metric("log_mae_by_group", lower_is_better=True, best=None, parse="number")
def log_mae_by_group(truth: Any, guess: Any, *, group: Any, floor: float = 0) -> float:
    """Mean over groups of ln(max(mean |t - p| in the group, floor)); each group counts the same.

    floor: above 0, a group without any error counts ln(floor); with 0 it has no value. Source: the evaluation page of
    Kaggle's Predicting Molecular Properties (CHAMPS), whose floor is 1e-9.
    """
    import numpy as np

    floor = at_least("floor", floor, 0)
    error = _error(truth, guess)
    with np.errstate(all="ignore"):
        means = np.concatenate([error[rows].mean(axis=1) for rows in groups_by_size(group)])
    means = np.maximum(means, floor)
    if not means.all():
        raise Undefined("the predictions of a group have no error at all, and ln(0) is no number (metric.params.floor)")
    return mean(np.log(means))


@metric("laplace_log_likelihood", lower_is_better=False, best=None, parse="number", columns="joint")
def laplace_log_likelihood(truth: Any, guess: Any, *, sigma_min: float = 70, delta_max: float = 1000) -> float:
    """Mean of -sqrt(2) d / s - ln(sqrt(2) s), with d = min(|t - value|, delta_max) and s = max(confidence, sigma_min).

    The predictions have two columns, value and confidence (the standard deviation in the units of the value); of the
    answers the first counts. Source: the evaluation page of Kaggle's OSIC Pulmonary Fibrosis Progression.
    """
    import numpy as np

    if guess.shape[1] != 2:
        raise Unsuited(f"laplace_log_likelihood needs two target columns, value and confidence, not {guess.shape[1]}")
    sigma_min, delta_max = at_least("sigma_min", sigma_min, 1e-9), at_least("delta_max", delta_max, 0)
    distance = np.minimum(_error(truth[:, 0], guess[:, 0]), delta_max)
    sigma = np.maximum(guess[:, 1], sigma_min)
    return mean(-(2**0.5) * (distance / sigma) - np.log(2) / 2 - np.log(sigma))
