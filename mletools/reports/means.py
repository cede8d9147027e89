"""Means of runs over a task, and over tasks, with their errors: what every table of a report is made of.

Per task a mean is over its repeats, over tasks it is the mean of the tasks' means. SEM and intervals: see summary.
An interval of a rate is about runs: how far other runs of the same tasks could change it. That of anything else is about
repeats.
"""

import math
from collections.abc import Sequence
from typing import Any

from .runs import MIXED, QUANTITIES, Grid, Values
from .statistics import Interval, mean, sem, t_interval, wilson_interval

RATES = ("valid", "above_median", "bronze", "silver", "gold", "medal")  # their field is the name, others' is name_mean
OF_SEARCHES = ("loops", "improve_rate", "first_medal_s")
SCALES = {  # where intervals end
    **dict.fromkeys(("human_rank", "improve_rate"), (0.0, 1.0)),
    **dict.fromkeys(("normalised", "loops", "first_medal_s"), (0.0, math.inf)),
}
UNBOUNDED = (-math.inf, math.inf)
Estimate = tuple[float | None, float | None, Interval | None]  # mean, SEM, interval


def _numbers(row: Sequence[Values | None], name: str) -> list[float]:
    return [value for values in row if values and (value := values.get(name)) is not None]


def task_mean(row: Sequence[Values | None], name: str) -> float | None:
    """The mean of one quantity over a task's runs that have it."""
    return mean(_numbers(row, name))


def _estimate(
    name: str, centre: float | None, repeats: Sequence[float], counts: Sequence[int], confidence: float
) -> Estimate:
    """counts: of each task the runs that have the quantity."""
    if name in RATES:
        return centre, sem(repeats), wilson_interval(centre, effective_runs(counts), confidence)
    return centre, sem(repeats), t_interval(centre, repeats, confidence, *SCALES.get(name, UNBOUNDED))


def effective_runs(counts: Sequence[int]) -> float:
    """As many runs as a mean of tasks' shares is worth: T² / sum(1 / n_t) for T tasks of n_t runs each (their number, where
    all have as many). A task without runs is left out.

    The variance of the mean of T shares is sum(p_t (1 - p_t) / n_t) / T², which with one p for all tasks is p (1 - p)
    over this number; tasks that differ in p make it smaller, never larger where all have as many runs.
    """
    there = [count for count in counts if count]
    return len(there) ** 2 / math.fsum(1 / count for count in there) if there else 0.0


def of_task(row: Sequence[Values | None], confidence: float) -> dict[str, Estimate]:
    """Of each quantity the mean, SEM and interval over the task's runs that have it."""
    found = {name: _numbers(row, name) for name in QUANTITIES}
    return {name: _estimate(name, mean(of), of, [len(of)], confidence) for name, of in found.items()}


def over_tasks(grid: Grid, confidence: float, names: Sequence[str] = QUANTITIES) -> dict[str, Estimate]:
    """Of each quantity the mean over tasks of their means, and its error from the repeats' means over tasks.

    Where a repeat lacks some tasks (ignored, or without a value) its mean is over the others: differences between tasks
    then widen the error.
    """
    found = {}
    for name in names:
        centre = centre_of(grid, name)
        columns = [task_mean(column, name) for column in zip(*grid.values(), strict=True)]
        counts = [len(_numbers(row, name)) for row in grid.values()]
        found[name] = _estimate(name, centre, [value for value in columns if value is not None], counts, confidence)
    return found


def centre_of(grid: Grid, name: str) -> float | None:
    """The mean over tasks of their means."""
    return mean([value for row in grid.values() if (value := task_mean(row, name)) is not None])


def estimates(found: dict[str, Estimate], metric: str) -> dict[str, Any]:
    """The estimates under their fields' names."""
    fields: dict[str, Any] = {}
    for name, (centre, error, interval) in found.items():
        if name == "score" and metric == MIXED:
            centre = error = interval = None
        fields[name if name in RATES else f"{name}_mean"] = centre
        fields[f"{name}_sem"], fields[f"{name}_ci"] = error, interval
    return fields
