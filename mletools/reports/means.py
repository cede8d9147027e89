"""Means of runs over a task and over tasks, with their errors.

The mean of a task is over its repeats; the mean over tasks is the mean of the tasks' means. SEM and intervals: see
summary. Intervals of rates are over runs: they say how much other runs of the same tasks could change the rate. All
other intervals are over repeats.
"""

import math
from collections.abc import Sequence
from typing import Any

from .runs import MIXED, QUANTITIES, Grid, Values
from .statistics import Interval, mean, sem, t_interval, wilson_interval

RATES = ("valid", "above_median", "bronze", "silver", "gold", "medal")  # field: the name itself; for others name_mean
OF_SEARCHES = ("loops", "improve_rate", "first_medal_s")
SCALES = {  # ends of the scale, where intervals are cut off
    **dict.fromkeys(("human_rank", "improve_rate"), (0.0, 1.0)),
    **dict.fromkeys(("normalised", "loops", "first_medal_s"), (0.0, math.inf)),
}
UNBOUNDED = (-math.inf, math.inf)
Estimate = tuple[float | None, float | None, Interval | None]  # mean, SEM, interval


def _numbers(row: Sequence[Values | None], name: str) -> list[float]:
    return [value for values in row if values and (value := values.get(name)) is not None]


def task_mean(row: Sequence[Values | None], name: str) -> float | None:
    """The mean of a quantity over the task's runs that have it."""
    return mean(_numbers(row, name))


def _estimate(
    name: str, centre: float | None, repeats: Sequence[float], counts: Sequence[int], confidence: float
) -> Estimate:
    """counts: the number of runs with the quantity, by task."""
    if name in RATES:
        return centre, sem(repeats), wilson_interval(centre, effective_runs(counts), confidence)
    return centre, sem(repeats), t_interval(centre, repeats, confidence, *SCALES.get(name, UNBOUNDED))


def effective_runs(counts: Sequence[int]) -> float:
    """Effective number of runs of a mean of tasks' shares: T² / sum(1 / n_t) for T tasks of n_t runs each. It is the
    number of all runs if every task has the same number. Tasks without runs are left out.

    The variance of the mean of T shares is sum(p_t (1 - p_t) / n_t) / T²; with one p for all tasks it is p (1 - p)
    divided by this number. Differences in p between tasks reduce it, and never increase it if all tasks have the same
    number of runs.
    """
    positive = [count for count in counts if count]
    return len(positive) ** 2 / math.fsum(1 / count for count in positive) if positive else 0.0


def of_task(row: Sequence[Values | None], confidence: float) -> dict[str, Estimate]:
    """Mean, SEM and interval of each quantity over the task's runs that have it."""
    numbers = {name: _numbers(row, name) for name in QUANTITIES}
    return {name: _estimate(name, mean(of), of, [len(of)], confidence) for name, of in numbers.items()}


def over_tasks(grid: Grid, confidence: float, names: Sequence[str] = QUANTITIES) -> dict[str, Estimate]:
    """For each quantity the mean over tasks of their means, with the error of the repeats' means over tasks.

    If a repeat lacks some tasks (ignored, or without a value), its mean is over the others: differences between tasks
    then increase the error.
    """
    by_name = {}
    for name in names:
        centre = centre_of(grid, name)
        columns = [task_mean(column, name) for column in zip(*grid.values(), strict=True)]
        counts = [len(_numbers(row, name)) for row in grid.values()]
        by_name[name] = _estimate(name, centre, [value for value in columns if value is not None], counts, confidence)
    return by_name


def centre_of(grid: Grid, name: str) -> float | None:
    """The mean over tasks of their means."""
    return mean([value for row in grid.values() if (value := task_mean(row, name)) is not None])


def estimates(by_name: dict[str, Estimate], metric: str) -> dict[str, Any]:
    """The estimates by field name of a summary."""
    fields: dict[str, Any] = {}
    for name, (centre, error, interval) in by_name.items():
        if name == "score" and metric == MIXED:
            centre = error = interval = None
        fields[name if name in RATES else f"{name}_mean"] = centre
        fields[f"{name}_sem"], fields[f"{name}_ci"] = error, interval
    return fields
