"""The formulas of a report, on plain numbers: means, their errors and intervals, Avg@k and Best@k."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

RESAMPLES = 10_000
MANY = 20  # differences, from which a percentile bootstrap holds; of fewer its intervals are too narrow
Interval = list[float]  # low, high


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None for no values."""
    if not values:
        return None
    try:
        return statistics.fmean(values)
    except OverflowError:  # the sum is larger than any float, the mean is not
        return math.fsum(value / len(values) for value in values)


def sem(values: Sequence[float]) -> float | None:
    """Standard error of the mean, sd / sqrt(n), sd with ddof 1 (MLE-bench); None for fewer than two values, and beyond any float."""
    sd = _deviation(statistics.stdev, values)
    return None if sd is None else sd / math.sqrt(len(values))


def population_sd(values: Sequence[float]) -> float | None:
    """Standard deviation with ddof 0, which MLE-RL reports over three repeats: sem(values) * sqrt(n - 1); None for fewer
    than two values, and beyond any float.
    """
    return _deviation(statistics.pstdev, values)


def t_interval(
    centre: float | None, values: Sequence[float], confidence: float, low: float = -math.inf, high: float = math.inf
) -> Interval | None:
    """Student's t interval centre ± t * sem(values), n - 1 degrees of freedom; None for fewer than two values.

    low and high: the ends of the scale, where the interval is cut off. None, too, if all values are equal: that they
    agree does not make the mean certain (for shares, where that is common, use `wilson_interval`); and if it reaches
    beyond any float.
    """
    error = sem(values)
    if centre is None or not error:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(len(values) - 1, 0.5 + confidence / 2)) * error
    return _finite([max(low, centre - reach), min(high, centre + reach)])


def wilson_interval(share: float | None, n: float, confidence: float) -> Interval | None:
    """Wilson's score interval of a share of n independent trials (E. B. Wilson, JASA 22, 1927, pages 209-212).

    With z the normal quantile of the confidence: (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n). It lies
    within [0, 1] and has a positive width for 0 of n and n of n, too. n may be an effective number, not an integer.
    None without trials.
    """
    if share is None or not n:
        return None
    from scipy.special import ndtri

    z = float(ndtri(0.5 + confidence / 2))
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - reach) / (1 + z * z / n), (centre + reach) / (1 + z * z / n)
    return [0.0 if share == 0 else max(0.0, low), 1.0 if share == 1 else min(1.0, high)]


def chances_of_best(n: int, k: int) -> list[float]:
    """For n runs from best to worst: the probability that each is the best of k of them, drawn without replacement.

    The run with n - r better ones is the best of C(r - 1, k - 1) of the C(n, k) subsets; for the next worse run this is
    multiplied by (r - k) / (r - 1).
    """
    chances = [k / n]
    for r in range(n, 1, -1):
        chances.append(chances[-1] * max(r - k, 0) / (r - 1))
    return chances


def chance_of_valid(valid: int, n: int, k: int) -> float:
    """The probability that k of n runs, drawn without replacement, include at least one of the `valid` ones."""
    return 1.0 if valid + k > n and valid else math.fsum(chances_of_best(n, k)[:valid])


def avg_at_k(valid: Sequence[float], n: int, k: int) -> float | None:
    """Avg@k (MLE-Ideator) of a task with n runs, `valid` being the scores of the valid ones; None for fewer than k runs.

    The mean over the valid ones of k runs, 0 only if all k are invalid; with n > k its mean over all subsets of k runs:
    mean(valid) * P(at least one of k is valid), since the expected mean of a subset with a valid run is mean(valid).
    """
    if n < k or n == 0:
        return None
    return (mean(valid) or 0.0) * chance_of_valid(len(valid), n, k)


def best_at_k(valid: Sequence[float], n: int, k: int) -> float | None:
    """Best@k (MLE-Ideator) of a task with n runs, `valid` being the valid scores, best first; None for fewer than k runs.

    The best of k runs, 0 if all are invalid; with n > k its mean over all subsets of k runs: sum over i of
    x_i * C(n - i, k - 1) / C(n, k), x_i the i-th best score. An invalid run is worse than any valid one.
    """
    if n < k or n == 0:
        return None
    return math.fsum(x * chance for x, chance in zip(valid, chances_of_best(n, k), strict=False))


def raw_best_at_k(valid: Sequence[float], n: int, k: int) -> float | None:
    """Best@k on raw scores, best first, over the subsets of k runs with a valid one; None if no run is valid.

    Failures do not count as 0 here, because 0 is perfect on many raw scales (such as errors).
    """
    best = best_at_k(valid, n, k)
    return best / chance_of_valid(len(valid), n, k) if valid and best is not None else None


def effective_runs(counts: Iterable[int]) -> float:
    """Effective number of runs of a mean of tasks' shares: T² / sum(1 / n_t) for T tasks of n_t runs each. It is the
    number of all runs if every task has the same number. Tasks without runs are left out.

    The variance of the mean of T shares is sum(p_t (1 - p_t) / n_t) / T²; with one p for all tasks it is p (1 - p)
    divided by this number. Differences in p between tasks reduce it, and never increase it if all tasks have the same
    number of runs.
    """
    positive = [count for count in counts if count]
    return len(positive) ** 2 / math.fsum(1 / count for count in positive) if positive else 0.0


def newcombe_interval(
    first: float | None, n_first: float, second: float | None, n_second: float, confidence: float
) -> Interval | None:
    """Newcombe's interval of the difference `second` - `first` of two shares of n independent trials each.

    Method 10 of R. G. Newcombe (Statistics in Medicine 17, 1998, pages 873-890), from Wilson's limits l and u of each
    share: d - sqrt((p2 - l2)² + (u1 - p1)²) to d + sqrt((u2 - p2)² + (p1 - l1)²). It holds for few trials, and has a
    positive width where both shares are 0 or 1. None if a share has no trials.
    """
    one, two = wilson_interval(first, n_first, confidence), wilson_interval(second, n_second, confidence)
    if first is None or second is None or one is None or two is None:
        return None
    difference = second - first
    low, high = math.hypot(second - two[0], one[1] - first), math.hypot(two[1] - second, first - one[0])
    return [difference - low, difference + high]


def paired_interval(differences: Sequence[float], confidence: float, seed: int) -> Interval | None:
    """Interval of the mean of paired differences: Student's t, and from MANY on a percentile bootstrap.

    The bootstrap has RESAMPLES resamples of the same size, with replacement, and is deterministic for a seed. None for
    fewer than two differences, and if all are equal.
    """
    if len(differences) < MANY or not sem(differences):
        return t_interval(mean(differences), differences, confidence)
    import numpy

    generator = numpy.random.default_rng(seed % 2**64)
    sample, size = numpy.asarray(differences), len(differences)
    with numpy.errstate(over="ignore", invalid="ignore"):
        means = [sample[generator.integers(0, size, size)].mean() for _ in range(RESAMPLES)]
        low, high = numpy.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return _finite([float(low), float(high)])


def _deviation(formula: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    try:
        return formula(values) if len(values) > 1 else None
    except OverflowError:
        return None


def _finite(ends: Interval) -> Interval | None:
    return ends if all(map(math.isfinite, ends)) else None
