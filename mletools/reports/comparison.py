"""Compare two sets of graded rollouts, paired by task: wins, ties, losses and the mean difference.

A task counts if both sets ran it and both have a mean of the chosen quantity. Its difference is the second set's mean
less the first's, with the sign chosen so that positive is better. The mean difference weighs tasks equally. Intervals
of shares (valid, medal) are Newcombe's with the effective number of runs: how much other runs of the same tasks could
change the difference. All others are over the tasks' differences (statistics.paired_interval): how much other tasks of
this kind could.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypedDict

from ..base.errors import ToolError
from ..base.ids import content_id
from ..base.visible import visible_line
from ..records.report import Comparison, TaskDifference
from .runs import (
    MIXED,
    Grid,
    Missing,
    RankedAgainst,
    RunSet,
    all_tasks,
    common,
    expected_runs,
    grids,
    human_rank_rule,
    missing_runs,
    ranked_against,
)
from .statistics import MANY, RESAMPLES, Interval, effective_runs, mean, newcombe_interval, paired_interval
from .summary import RATES, mean_over_tasks

TIE = 1e-9  # means this close are equal
By = Literal["reward", "score", "normalised", "human-rank", "medal", "valid"]
Method = Literal["newcombe", "t", "bootstrap"]


class Against(TypedDict, total=False):
    """The field of a comparison by human rank."""

    ranked_against: RankedAgainst


class ComparisonSettings(TypedDict, total=False):
    """How two sets are compared: the arguments of `compare`."""

    by: By
    runs: int | None
    missing: Missing
    confidence: float
    seed: int


BY: dict[By, str] = {
    name: name.replace("-", "_") for name in ("reward", "score", "normalised", "human-rank", "medal", "valid")
}


def compare(
    first: RunSet,
    second: RunSet,
    by: By = "reward",
    runs: int | None = None,
    missing: Missing = "invalid",
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """The record of kind comparison of `second` against `first`, by one of BY.

    Tasks that only one set ran are listed and left out, whatever the policy for missing runs; so are tasks where a set
    has no value (such as no valid score). For raw scores of different metrics the mean difference is None.
    ToolError: no task can be compared, or the two sets' rewards or human ranks come from different rules.
    """
    sets = (first, second)
    _same_rule(sets, by)
    values = grids(sets, missing, runs)
    tasks, without, metrics = _paired(sets, values, by)
    if not tasks:
        raise ToolError(_nothing(sets, without, by))
    differences = [row["difference"] for row in tasks] if by != "score" or len(metrics) < 2 else []
    interval, method = _interval(tasks, differences, values, by, confidence, seed)
    return {
        "kind": "comparison",
        "version": 1,
        "id": content_id("comparison", first.label, second.label, by),
        "lineage": [],
        "first": first.label,
        "second": second.label,
        "by": by,
        "tasks": tasks,
        "win": sum(row["result"] == "win" for row in tasks),
        "tie": sum(row["result"] == "tie" for row in tasks),
        "loss": sum(row["result"] == "loss" for row in tasks),
        "difference_mean": mean(differences),
        "difference_ci": interval,
        "difference_method": method,
        "confidence": confidence,
        "resamples": RESAMPLES,
        "seed": seed,
        "only_first": [task for task in first.tasks if task not in second.tasks],
        "only_second": [task for task in second.tasks if task not in first.tasks],
        "without_value": without,
        "rollouts": [len(run_set.runs) for run_set in sets],
        "missing": [sum(missing_runs(each, expected_runs(each, each.tasks, runs)).values()) for each in sets],
        "missing_policy": missing,
        **_against(sets, by),
        "revealed": [sum(run.revealed for run in run_set.runs) for run_set in sets],
    }


def _paired(sets: Sequence[RunSet], values: Sequence[Grid], by: By) -> tuple[list[TaskDifference], list[str], set[str]]:
    """For the tasks that both sets ran: rows of those with a mean in both, names of the others, the rows' metrics."""
    rows: list[TaskDifference] = []
    without, metrics = [], set()
    for task in all_tasks(sets):
        if not all(task in run_set.tasks for run_set in sets):
            continue
        runs = [run for run_set in sets for run in run_set.tasks[task]]
        metric = common(run.metric for run in runs)
        a, b = (mean_over_tasks({task: grid[task]}, BY[by]) for grid in values)
        if a is None or b is None or (by == "score" and metric == MIXED) or not math.isfinite(b - a):
            without.append(task)
            continue
        difference = a - b if by == "score" and runs[0].lower_is_better else b - a
        result: Literal["win", "tie", "loss"] = "tie" if abs(difference) <= TIE else "win" if difference > 0 else "loss"
        rows.append({"task": task, "first": a, "second": b, "difference": difference, "result": result})
        metrics.add(metric)
    return rows, without, metrics


def _nothing(sets: Sequence[RunSet], without: Sequence[str], by: By) -> str:
    """Why no task can be compared."""
    if without:
        return f"no task has a value of {by} in both sets ({_some(without)}): choose another quantity (--by)"
    first, second = (
        f"{run_set.label} has {_some(list(run_set.tasks))}" if run_set.tasks else f"{run_set.label} has no rollouts"
        for run_set in sets
    )
    return f"no task is in both sets: {first}; {second}"


def _some(tasks: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`"""
    more = f" and {len(tasks) - most} more" if len(tasks) > most else ""
    return visible_line(", ".join(tasks[:most])) + more


def _against(sets: Sequence[RunSet], by: By) -> Against:
    against = ranked_against(run for run_set in sets for run in run_set.runs) if by == "human-rank" else None
    return {"ranked_against": against} if against else {}


def _interval(
    tasks: Sequence[TaskDifference],
    differences: Sequence[float],
    values: Sequence[Grid],
    by: By,
    confidence: float,
    seed: int,
) -> tuple[Interval | None, Method | None]:
    """The interval of the mean difference and its method; (None, None) where the data allow none."""
    if BY[by] in RATES:
        shares = [mean([row["first"] for row in tasks]), mean([row["second"] for row in tasks])]
        runs = [effective_runs([sum(map(bool, grid[row["task"]])) for row in tasks]) for grid in values]
        interval = newcombe_interval(shares[0], runs[0], shares[1], runs[1], confidence)
        return interval, "newcombe" if interval else None
    interval = paired_interval(differences, confidence, seed)
    return interval, ("bootstrap" if len(differences) >= MANY else "t") if interval else None


def _same_rule(sets: Sequence[RunSet], by: By) -> None:
    """ToolError unless one rule produced the compared quantity in all sets."""
    if by == "human-rank":
        rules = {rule for run_set in sets if (rule := human_rank_rule(run_set)) is not None}
    elif by == "reward":
        rules = {run.reward_rule for run_set in sets for run in run_set.runs}
    else:
        return
    if len(rules) > 1:
        quantity = {"reward": "rewards", "human-rank": "human ranks"}[by]
        raise ToolError(f"{quantity} by {' and '.join(sorted(rules))} do not compare: grade again with one --{by}")
