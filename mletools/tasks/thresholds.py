"""Medal thresholds from the scores of baselines, in the order that P3 eq. 1 asks for, and how far chance moves a score.

Not covered: training the baselines.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, cast

from ..base.csv_files import read_rows
from ..base.errors import RecordError
from ..grading import Leaderboard, rounded, score_bytes
from ..records.task import MedalStability, Scoring, Thresholds
from .table import Rejected, csv_bytes

Threshold = Literal["median", "bronze", "silver", "gold"]
NAMES: tuple[Threshold, ...] = ("median", "bronze", "silver", "gold")
# Where between the worst and the best of the distinct scores each threshold lies, by rank.
RANKS: dict[Threshold, float] = {"median": 0.4, "bronze": 0.6, "silver": 0.8, "gold": 1.0}
# Bootstrap samples of the test rows; the standard error is then known to about an eighth of itself.
RESAMPLES = 30


def pick_thresholds(dummy: float, scores: Sequence[float], lower_is_better: bool) -> Thresholds:
    """Four of the distinct `scores` that beat `dummy`, so that dummy < median < bronze < silver < gold.

    The order runs in the metric's direction, and gold is the best of the scores (a medal is inclusive), so each
    threshold was reached by a program that really ran. SandMLE eq. 1. Rejected where fewer than four are left.
    """
    sign = -1 if lower_is_better else 1
    ladder = sorted({score for score in scores if sign * score > sign * dummy}, key=lambda score: sign * score)
    if len(ladder) < len(NAMES):
        raise Rejected(f"only {len(ladder)} distinct scores beat the dummy, {len(NAMES)} are needed")
    top = len(ladder)
    picked: dict[Threshold, float] = {}
    for name in reversed(NAMES):
        top = min(round(RANKS[name] * (len(ladder) - 1)), top - 1)
        picked[name] = ladder[top]
    return cast(Thresholds, {name: picked[name] for name in NAMES})


def leaderboard_thresholds(scores: Iterable[float], lower_is_better: bool) -> Thresholds:
    """The median and the medals of a leaderboard with these scores."""
    return Leaderboard(tuple(sorted(scores, reverse=not lower_is_better)), lower_is_better).thresholds


def ordered(dummy: float, thresholds: Thresholds, lower_is_better: bool) -> bool:
    """Whether dummy < median < bronze < silver < gold in the metric's direction. SandMLE eq. 1."""
    sign = -1 if lower_is_better else 1
    steps = [sign * dummy, *(sign * thresholds[name] for name in NAMES)]
    return all(worse < better for worse, better in pairwise(steps))


def medal_stability(
    grading: Scoring,
    answers: bytes,
    medals: Sequence[bytes],
    thresholds: Thresholds,
) -> MedalStability:
    """{gap, standard_error, rows_needed}: is gold further from bronze than the choice of the test rows moves a score?

    `medals` are submissions that reach gold and bronze. `gap` is the distance of the two thresholds; `standard_error` the
    mean over these submissions of the standard deviation of their scores over RESAMPLES bootstrap samples of the test
    rows, or of the groups within which the metric compares rows (Efron 1979). With `rows_needed` test rows both would be
    equal. Samples without a score are left out. Rejected where most have none, or the two thresholds are equal.
    """
    import numpy as np

    gap = abs(thresholds["gold"] - thresholds["bronze"])
    if not gap:
        raise Rejected("thresholds_ordered: gold and bronze are equal")
    group = grading["metric"].get("group")
    ids, groups = grading["submission"]["id"], [group] if isinstance(group, str) else []
    header, units = _units(answers, groups or ids)
    keys = {name: [tuple(row[:1]) for row in rows] for name, rows in units.items()}
    submissions = [_units(content, ids) for content in medals]
    scores: list[list[float]] = [[] for _ in medals]
    rng = np.random.RandomState(0)
    for _ in range(RESAMPLES):
        chosen = [list(units)[at] for at in rng.randint(len(units), size=len(units))]
        truth = _resampled(header, [units[name] for name in chosen], groups)
        for kept, (columns, rows) in zip(scores, submissions, strict=True):
            guess = _resampled(columns, [[line for key in keys[name] for line in rows[key]] for name in chosen], [])
            try:
                value = float(score_bytes(grading, truth, guess))
            except (ValueError, RecordError):  # undefined on these rows, such as a class that is not among them
                continue
            if math.isfinite(value):
                kept.append(value)
    if any(2 * len(kept) < RESAMPLES for kept in scores):
        raise Rejected("medals_stable: the metric has no score on most samples of the test rows")
    error = float(np.mean([np.std(kept, ddof=1) for kept in scores]))
    rows_needed = math.ceil(int(grading["submission"]["rows"]) * (error / gap) ** 2)
    of_scores = grading["metric"]
    return {"gap": rounded(gap, of_scores), "standard_error": rounded(error, of_scores), "rows_needed": rows_needed}


def _units(content: bytes, columns: Sequence[str]) -> tuple[list[str], dict[tuple[str, ...], list[list[str]]]]:
    """(header, rows by their cells in `columns`), the id first in each row."""
    header, *rows = read_rows(content)
    places = [header.index(name) for name in columns]
    units: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        units.setdefault(tuple(row[at] for at in places), []).append(row)
    return header, units


def _resampled(header: Sequence[str], chosen: Sequence[Sequence[Sequence[str]]], groups: Sequence[str]) -> bytes:
    """A table of the chosen units with new ids, and new names in the columns `groups`: a unit may come twice."""
    places = [header.index(name) for name in groups]
    lines: list[list[str]] = []
    for number, unit in enumerate(chosen):
        for row in unit:
            renamed = [str(number) if at in places else cell for at, cell in enumerate(row)]
            lines.append([str(len(lines)), *renamed[1:]])
    return csv_bytes(list(header), [list(column) for column in zip(*lines, strict=True)])
