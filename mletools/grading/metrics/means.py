"""Means over rows and the rows of each group: what the metrics on numbers and on sets share."""

from collections.abc import Iterator
from typing import Any

from .registry import Unsuited


def mean(values: Any, weight: Any = None) -> float:
    """The mean of `values`, shape (rows,); a row counts in proportion to its weight. It may be infinite, never NaN."""
    import numpy as np

    values = np.asarray(values, dtype=float)
    if not len(values):
        raise Unsuited("no row of the answers counts")
    with np.errstate(all="ignore"):
        if weight is None:
            return float(values.mean())
        weight = np.asarray(weight, dtype=float)
        if not (weight >= 0).all() or not (weight > 0).any():
            raise Unsuited("metric.weight: no weight may be below 0, and one must be above it")
        counts = weight > 0  # 0 times an infinite error would be NaN
        shares = weight[counts] / weight.max()  # so that huge weights do not overflow
        return float((values[counts] * shares).sum() / shares.sum())


def groups_by_size(group: Any) -> Iterator[Any]:
    """The row numbers of each group, as one array of shape (groups, rows of each) for all groups of the same size.

    Many small groups cost as little as few large ones: n rows have at most sqrt(2 n) different group sizes.
    """
    import numpy as np
    import pandas

    codes, groups = pandas.factorize(np.asarray(group, dtype=object), use_na_sentinel=False)
    if not len(groups):
        raise Unsuited("no row of the answers counts")
    rows = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        yield rows[starts[sizes == size][:, None] + np.arange(size)]


def at_least(name: str, value: Any, low: float) -> float:
    """The number `value` of the parameter `name`; Unsuited where it is none, below `low` or huge."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= 1e300:
        raise Unsuited(f"metric.params.{name} is {value!r}, not a number of at least {low:g}")
    return float(value)
