"""Whether a quantity that should say nothing of the targets says something: statistics, p-values, effect sizes.

Everything is compared within strata (the rows of train.csv are one, those of test.csv another), so that two files with
different targets are no finding. Numbers count by their rank, so no outlier decides. There are no random permutations:
p-values come from the laws that the statistics follow when the rows of a stratum are shuffled, bounded from below by
the number of different orders that the values have. Not covered: which quantities are looked at (quantities), and
relations of several quantities at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# A finding needs both: a p-value that stays below FALSE_ALARM times the number of tests of its check, and an effect,
# which is the share of what a perfect leak would explain.
FALSE_ALARM = 3e-5
LEAST_EFFECT = 0.1
LEAST_INFORMATION = 0.05
# The law of a table's statistic is an approximation; this makes up for it.
TABLE_SAFETY = 2.0
MOST_LEVELS = 36
MOST_CLASSES = 20
FEWEST_OF_A_LEVEL = 3
# Fewer degrees of freedom prove nothing.
FEWEST_ROWS = 8
BINS = 8


@dataclass(frozen=True)
class Target:
    """What is to be predicted, or a summary of it: `values` of shape (rows,), NaN where unknown; codes of classes."""

    name: str
    classes: bool
    values: Any


@dataclass(frozen=True)
class Quantity:
    """What is known of each row: `values` of shape (rows,), NaN where missing; codes where it is `levels`.

    `ordered`: the order that it gives the rows may tell something too, each row being like its neighbour.
    """

    name: str
    levels: bool
    values: Any
    ordered: bool = False


@dataclass(frozen=True)
class Finding:
    """The most surprising of a check's tests; `p` is already multiplied by the number of tests."""

    quantity: str
    target: str
    p: float
    effect: float
    rows: int

    def __str__(self) -> str:
        return (
            f"{self.quantity} predicts {self.target} "
            f"({self.effect:.0%} of what a perfect leak would over {self.rows} rows, p {max(self.p, 1e-99):.0e})"
        )


@dataclass(frozen=True)
class Side:
    """One quantity or target over some rows, ready to be compared.

    `ranks` (rows,) have mean 0 and variance 1 within each stratum, None for codes; `cells` (rows,) number the pairs of
    stratum and code, None for plain numbers. `lost` is the degrees of freedom of the cells.
    """

    name: str
    ranks: Any
    cells: Any
    lost: int
    values: Any


def strongest(
    quantities: Sequence[Quantity], targets: Sequence[Target], strata: Any, alarm: float = FALSE_ALARM
) -> Finding | None:
    """The finding with the least p-value that is strong enough to be one, None without any.

    `strata` (rows,) are numbers; rows are compared within a stratum. Each pair is looked at in all rows and in each of
    the strata with enough rows, where there are no more than two.
    """
    import numpy as np

    found: list[Finding] = []
    tests = 0
    names = np.unique(strata)
    scopes = [np.ones(len(strata), dtype=bool), *([strata == name for name in names] if len(names) == 2 else [])]
    prepared: dict[Any, Any] = {}
    for target in targets:
        known = ~np.isnan(target.values)
        for scope in scopes:
            rows = np.flatnonzero(known & scope)
            for finding in _tests(quantities, target, rows, strata, prepared.setdefault(rows.tobytes(), {})):
                tests += 1
                if finding is not None:
                    found.append(finding)
    best = min(found, key=lambda finding: finding.p, default=None)
    if best is None or best.p * tests > alarm:
        return None
    return Finding(best.quantity, best.target, best.p * tests, min(1.0, best.effect), best.rows)


def _tests(
    quantities: Sequence[Quantity], target: Target, rows: Any, strata: Any, prepared: dict[Any, Side | None]
) -> Iterator[Finding | None]:
    """One item a test: a finding where the effect is large enough, with the p-value of that test alone.

    `prepared` keeps the quantities' sides over these rows for the next target.
    """
    import numpy as np

    groups = np.unique(strata[rows], return_inverse=True)[1]
    free = len(rows) - (groups.max() + 1 if len(rows) else 0)
    if free < FEWEST_ROWS:
        return
    values = target.values[rows]
    side = _side(target.name, values, target.classes, groups)
    if side is None:
        return
    for at, quantity in enumerate(quantities):
        mine = quantity.values[rows]
        for levels in (True, False) if not quantity.levels else (True,):
            if (at, levels) not in prepared:
                prepared[at, levels] = _side(quantity.name, mine, levels, groups)
            other = prepared[at, levels]
            if other is not None:
                yield _compare(other, side, groups, free)
        if quantity.ordered:
            yield from _neighbours(quantity, target, mine, values, groups)


def _neighbours(quantity: Quantity, target: Target, order: Any, values: Any, groups: Any) -> Iterator[Finding | None]:
    """Whether a row's target is like that of the row before it.

    Each row is in two pairs; for rows in no order the statistics follow the same laws all the same (the test of a Markov
    chain's order, Bartlett 1951; for ranks the first serial correlation).
    """
    import numpy as np

    known = np.flatnonzero(~np.isnan(order))
    line = known[np.lexsort((order[known], groups[known]))]
    one, other = line[:-1], line[1:]
    same = groups[one] == groups[other]
    one, other = one[same], other[same]
    strata = np.unique(groups[one], return_inverse=True)[1]
    free = len(one) - (strata.max() + 1 if len(one) else 0)
    if free < FEWEST_ROWS:
        return
    sides = [
        _side(name, values[at], target.classes, strata)
        for name, at in ((f"the order of {quantity.name}", one), (target.name, other))
    ]
    if sides[0] is not None and sides[1] is not None:
        yield _compare(sides[0], sides[1], strata, free)


def _side(name: str, values: Any, levels: bool, groups: Any) -> Side | None:
    """The values of one side; None where they do not vary, or have too many levels for `levels`."""
    import numpy as np

    if not levels:
        ranks = _ranks(values, groups)
        return None if ranks is None else Side(name, ranks, None, 1, values)
    codes = _codes(values)
    if codes is None:
        return None
    cells = np.unique(groups * (codes.max() + 1) + codes, return_inverse=True)[1]
    lost = int(cells.max() - groups.max())
    return Side(name, None, cells, lost, codes) if lost else None


def _ranks(values: Any, groups: Any) -> Any:
    """Ranks within each group, of mean 0 and variance 1, 0 where missing or all alike; None where all are."""
    import numpy as np

    ranks = np.zeros(len(values))
    for group in range(groups.max() + 1):
        rows = np.flatnonzero((groups == group) & ~np.isnan(values))
        if len(rows) > 1:
            codes, counts = np.unique(values[rows], return_inverse=True, return_counts=True)[1:]
            ranks[rows] = (np.cumsum(counts) - (counts - 1) / 2)[codes] - (len(rows) + 1) / 2
            spread = np.sqrt((ranks[rows] ** 2).mean())
            ranks[rows] /= spread if spread > 0 else 1.0
    return ranks if ranks.any() else None


def _codes(values: Any) -> Any:
    """Codes 0, 1, ... of the distinct values, rare ones under one code; eighths where there are too many to tell."""
    import numpy as np

    values = np.where(np.isnan(values), -np.inf, values)
    distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) > MOST_LEVELS:
        order = np.argsort(values, kind="stable")
        codes = np.empty(len(values), dtype=int)
        codes[order] = np.arange(len(values)) * BINS // len(values)
        return codes
    rare = counts < FEWEST_OF_A_LEVEL
    if rare.sum() > 1:
        codes = np.where(rare[codes], len(distinct), codes)
        codes = np.unique(codes, return_inverse=True)[1]
    return codes if len(codes) and codes.max() > 0 else None


def _compare(one: Side, other: Side, groups: Any, free: int) -> Finding | None:
    """The finding of one pair, None where the effect is too small."""
    import numpy as np

    rows = len(groups)
    if one.cells is not None and other.cells is not None:
        p, effect = _table(one, other, groups, rows)
        if effect < LEAST_INFORMATION:
            return None
    else:
        p, effect = _explained(one, other, rows, free)
        if effect < LEAST_EFFECT:
            return None
    if p < 1e-3:
        orders = min(_log_orders(one.values, groups), _log_orders(other.values, groups))
        p = max(p, float(np.exp(min(0.0, np.log(2) - orders))))
    return Finding(one.name, other.name, p, effect, rows)


def _explained(one: Side, other: Side, rows: int, free: int) -> tuple[float, float]:
    """(p, effect) of the share of the ranks' variance that the other side explains, which follows a beta law.

    Two sides of ranks: the square of Spearman's correlation. Ranks and cells: the statistic of Kruskal and Wallis over
    its largest value, 1 - the sum of the cubed shares of the cells.
    """
    import numpy as np
    from scipy.special import betainc

    if one.ranks is not None and other.ranks is not None:
        total = np.sqrt((one.ranks**2).sum() * (other.ranks**2).sum())
        share, lost, most = (one.ranks @ other.ranks / total) ** 2, 1, 1.0
    else:
        ranks, by = (one.ranks, other) if one.ranks is not None else (other.ranks, one)
        counts = np.bincount(by.cells)
        share = (np.bincount(by.cells, weights=ranks) ** 2 / counts).sum() / (ranks**2).sum()
        lost, most = by.lost, 1 - ((counts / rows) ** 3).sum()
    if lost >= free - 1:
        return 1.0, 0.0
    expected = lost / free
    p = float(betainc((free - lost) / 2, lost / 2, max(0.0, 1 - share)))
    return p, float((share - expected) / max(most - expected, 1e-9))


def _table(one: Side, other: Side, groups: Any, rows: int) -> tuple[float, float]:
    """(p, effect) of a table of counts per stratum: the worse of the likelihood ratio's and Pearson's p-value.

    In a table with few rows in a cell the one has too light a tail for some tables and the other for other ones.
    The effect is the mutual information over the smaller entropy, less what chance gives.
    """
    import numpy as np
    from scipy.special import gammaincc

    wide = other.cells.max() + 1
    pairs, seen = np.unique(one.cells * wide + other.cells, return_counts=True)
    of_group, entropies, counts = np.bincount(groups), [], []
    lost: Any = 1
    for cells in (one.cells, other.cells):
        stratum = np.zeros(cells.max() + 1, dtype=int)
        stratum[cells] = groups
        count = np.bincount(cells)
        lost = lost * (np.bincount(stratum, minlength=len(of_group)) - 1)
        entropies.append(-float((count * np.log(count / of_group[stratum])).sum()))
        counts.append((count, stratum))
    freedom = int(np.sum(lost))
    if freedom < 1:
        return 1.0, 0.0
    left, right = pairs // wide, pairs % wide
    expected = counts[0][0][left] * counts[1][0][right] / of_group[counts[0][1][left]]
    ratio = 2 * float((seen * np.log(seen / expected)).sum())
    # the cells without a row give their expected count, and all expected counts sum to the rows
    pearson = float(((seen - expected) ** 2 / expected).sum() + rows - expected.sum())
    p = max(float(gammaincc(freedom / 2, ratio / 2)), float(gammaincc(freedom / 2, pearson / 2)))
    return min(1.0, TABLE_SAFETY * p), (ratio - freedom) / (2 * max(min(entropies), 1e-9))


def _log_orders(values: Any, groups: Any) -> float:
    """The logarithm of how many different orders the values have when they are shuffled within the groups."""
    import numpy as np
    from scipy.special import gammaln

    codes = np.unique(np.where(np.isnan(values), -np.inf, values), return_inverse=True)[1]
    cells = np.unique(groups * (codes.max() + 1) + codes, return_counts=True)[1]
    return float(gammaln(np.bincount(groups) + 1).sum() - gammaln(cells + 1).sum())
