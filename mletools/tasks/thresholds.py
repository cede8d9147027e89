"""Medal thresholds from the scores of baselines, and how far chance moves a score between them.

Not covered: training the baselines.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..records.csv_files import read_rows
from .table import Rejected, csv_bytes

NAMES = ("median", "bronze", "silver", "gold")
# Where between the worst and the best of the distinct scores each threshold lies, by rank.
RANKS = {"median": 0.4, "bronze": 0.6, "silver": 0.8, "gold": 1.0}
# Bootstrap samples of the test rows; the standard error is then known to about an eighth of itself.
RESAMPLES = 30


def pick_thresholds(dummy: float, scores: Sequence[float], lower_is_better: bool) -> dict[str, float]:
    """Four of the distinct `scores` that beat `dummy`, so that dummy < median < bronze < silver < gold.

    The order runs in the metric's direction, and gold is the best of the scores (a medal is inclusive), so each
    threshold was reached by a program that really ran. SandMLE eq. 1. Rejected where fewer than four are left.
    """
    sign = -1 if lower_is_better else 1
    ladder = sorted({score for score in scores if sign * score > sign * dummy}, key=lambda score: sign * score)
    if len(ladder) < len(NAMES):
        raise Rejected(f"only {len(ladder)} distinct scores beat the dummy, {len(NAMES)} are needed")
    top = len(ladder)
    picked: dict[str, float] = {}
    for name in reversed(NAMES):
        top = min(round(RANKS[name] * (len(ladder) - 1)), top - 1)
        picked[name] = ladder[top]
    return {name: picked[name] for name in NAMES}


def ordered(dummy: float, thresholds: dict[str, float], lower_is_better: bool) -> bool:
    """Whether dummy < median < bronze < silver < gold in the metric's direction. SandMLE eq. 1."""
    sign = -1 if lower_is_better else 1
    steps = [sign * dummy, *(sign * thresholds[name] for name in NAMES)]
    return all(worse < better for worse, better in pairwise(steps))


def stability(
    grading: Mapping[str, Any],
    answers: bytes,
    medals: Mapping[str, bytes],
    thresholds: Mapping[str, float],
    score: Callable[[Mapping[str, Any], bytes, bytes], float],
    most_rows: int | None,
) -> dict[str, Any]:
    """The record's medal_stability: is gold further from bronze than chance of the test rows carries a score?

    `medals` are submissions that reach "gold" and "bronze". `gap` is the distance of the two thresholds and
    `standard_error` the mean of the deviations of these submissions' scores over RESAMPLES bootstrap samples of the test
    rows, or of the groups that the metric compares rows within (Efron 1979), 0 where the metric has no score for most of
    them. `needed` test rows would make them equal; where the test can have no more than `most_rows` (None: there are no
    others), `reason` says so.
    """
    import numpy as np

    group = grading["metric"].get("group")
    ids, groups = grading["submission"]["id"], [group] if isinstance(group, str) else []
    rng = np.random.RandomState(0)
    units = _units(answers, groups or ids)
    keys = {key: [tuple(row[:1]) for row in rows] for key, rows in units[1].items()}
    tables = {name: _units(content, ids) for name, content in medals.items()}
    scores: dict[str, list[float]] = {name: [] for name in medals}
    for _ in range(RESAMPLES):
        chosen = [list(units[1])[at] for at in rng.randint(len(units[1]), size=len(units[1]))]
        truth = _resampled(units[0], [units[1][key] for key in chosen], groups)
        for name, (header, rows) in tables.items():
            guess = _resampled(header, [[line for key in keys[unit] for line in rows[key]] for unit in chosen], [])
            try:
                value = float(score(grading, truth, guess))
            except ValueError:
                continue
            if np.isfinite(value):
                scores[name].append(value)
    errors = [float(np.std(values, ddof=1)) for values in scores.values() if 2 * len(values) >= RESAMPLES]
    gap, error = abs(thresholds["gold"] - thresholds["bronze"]), float(np.mean(errors)) if errors else 0.0
    there = int(grading["submission"]["rows"])
    needed = math.ceil(there * (error / gap) ** 2) if gap else 0
    stable: dict[str, Any] = {"gap": round(gap, 5), "standard_error": round(error, 5), "needed": needed}
    if needed > max(there, most_rows or 0):
        most = f"{most_rows} are possible" if most_rows else f"there are {there}"
        stable["reason"] = f"gold is a standard error above bronze with {needed} test rows, {most}"
    return stable


def _units(content: bytes, columns: Sequence[str]) -> tuple[list[str], dict[tuple[str, ...], list[list[str]]]]:
    """(header, rows by their cells in `columns`), the id first in each row."""
    header, *rows = read_rows(content)
    places = [header.index(name) for name in columns]
    units: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        units.setdefault(tuple(row[at] for at in places), []).append(row)
    return header, units


def _resampled(header: Sequence[str], chosen: Sequence[Sequence[Sequence[str]]], groups: Sequence[str]) -> bytes:
    """A table of the chosen units with new ids, and new names of the columns `groups`, as a unit may come twice."""
    places = [header.index(name) for name in groups]
    lines: list[list[str]] = []
    for number, unit in enumerate(chosen):
        for row in unit:
            renamed = [str(number) if at in places else cell for at, cell in enumerate(row)]
            lines.append([str(len(lines)), *renamed[1:]])
    return csv_bytes(list(header), [list(column) for column in zip(*lines, strict=True)])
