"""Summarise graded rollouts per task and over all tasks, for one or several sets side by side.

Per task a mean is over its repeats. Over all ("all") it is over tasks, each with the same weight, however many runs
each has: the mean of the rows above. SEM is the standard error of the mean over repeats, sd / sqrt(n) with ddof 1: of a
task over its runs; of "all" over the repeats' means over tasks (MLE-bench's, R&D-Agent's mean ± SEM over seeds).
Intervals are Student's t with that SEM, cut off where the scale ends.

Of reward and score, runs that have none are left out: an invalid run has no score. Human rank and normalised score
count an invalid run as 0. Avg@k and Best@k follow MLE-Ideator (see statistics). A raw score is left out of "all" where
tasks have different metrics.

Where a set holds searches, their rows have `search`: of the searches that are there the loops, improve rate, time to the
first medal and costs, and over time the medals and normalised scores. Over time a missing run counts as elsewhere, if all
of the set's runs are searches; in a mixed set it is left out.

Where a set holds agents in turns, their rows have `turns`: how they stand after each, of those that are there.
"""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

from ..records.ids import content_id
from .runs import (
    MIXED,
    QUANTITIES,
    Grid,
    Run,
    RunSet,
    Values,
    aligned,
    all_tasks,
    common,
    expected_runs,
    grids,
    human_rank_rule,
    normalised_tasks,
)
from .search import SHARES, USED, Search, Standing
from .statistics import Interval, avg_at_k, best_at_k, mean, raw_best_at_k, sem, t_interval

RATES = ("valid", "above_median", "bronze", "silver", "gold", "medal")  # their field is the name, others' is name_mean
OF_SEARCHES = ("loops", "improve_rate", "first_medal_s")
BY_TURN = ("working", "asked", "valid", "medal", "normalised")
OVER_TIME = ("medal", "normalised", "perfect_medal", "perfect_normalised")
SCALES = {  # where intervals end
    **dict.fromkeys((*RATES, "human_rank", "improve_rate"), (0.0, 1.0)),
    **dict.fromkeys(("normalised", "loops", "first_medal_s"), (0.0, math.inf)),
}
UNBOUNDED = (-math.inf, math.inf)
ALL = "all"
Estimate = tuple[float | None, float | None, Interval | None]  # mean, SEM, interval


def default_k(sets: Sequence[RunSet]) -> int | None:
    """The k of Avg@k and Best@k when none is asked for: the fewest runs a task that a set expects, so that sets compare."""
    return min((expected_runs(run_set) for run_set in sets if run_set.tasks), default=None)


def summaries(
    sets: Sequence[RunSet], runs: int | None = None, missing: str = "invalid", confidence: float = 0.95
) -> list[dict[str, Any]]:
    """One record of kind summary per task (and one for "all") and set: tasks in order, the sets of a task together.

    runs: the k of Avg@k and Best@k, and the fewest runs that every task should have. ToolError where a set's human ranks
    are of two rules, or with missing="error" where runs are missing.
    """
    found = grids(sets, missing, runs)
    tasks = all_tasks(sets)
    settings = {"k": runs or default_k(sets), "missing_policy": missing, "confidence": confidence}
    rules = [human_rank_rule(run_set) for run_set in sets]
    metrics = {task: common(run.metric for s in sets for run in s.tasks.get(task, ())) for task in tasks}
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for number, (run_set, grid) in enumerate(zip(sets, found, strict=True)):
        of_tasks = []
        for task in tasks:
            present = run_set.tasks.get(task, [])
            if not any(grid[task]):
                continue
            metric = common((run.metric for run in present), metrics[task])
            stated = {**settings, **_facts(present, len(grid[task])), "metric": metric}
            row = {**stated, **_estimates(_of_task(grid[task], confidence), metric)}
            row |= _at_k(grid[task], row["k"], None if metric == MIXED else _lower(sets, task))
            rows[task, number] = row
            of_tasks.append(row)
        if of_tasks:
            metric = common(row["metric"] for row in of_tasks)
            stated = {**settings, **_facts(run_set.runs, sum(map(len, grid.values()))), "metric": metric}
            overall = _over_tasks({task: grid[task] for task in tasks if (task, number) in rows}, confidence)
            rows[ALL, number] = {**stated, **_estimates(overall, metric), **_at_k_over_tasks(of_tasks)}
        _add_searches(rows, sets, number, runs, missing, confidence)
        _add_turns(rows, sets, number)
    return [
        _record(run_set.label, task, rules[number], rows[task, number])
        for task in (*tasks, ALL)
        for number, run_set in enumerate(sets)
        if (task, number) in rows
    ]


def _numbers(row: Sequence[Values | None], name: str) -> list[float]:
    return [value for values in row if values and (value := values.get(name)) is not None]


def task_mean(row: Sequence[Values | None], name: str) -> float | None:
    """The mean of one quantity over a task's runs that have it."""
    return mean(_numbers(row, name))


def _estimate(name: str, centre: float | None, repeats: Sequence[float], confidence: float) -> Estimate:
    return centre, sem(repeats), t_interval(centre, repeats, confidence, *SCALES.get(name, UNBOUNDED))


def _of_task(row: Sequence[Values | None], confidence: float) -> dict[str, Estimate]:
    """Of each quantity the mean, SEM and interval over the task's runs that have it."""
    return {name: _estimate(name, task_mean(row, name), _numbers(row, name), confidence) for name in QUANTITIES}


def _over_tasks(grid: Grid, confidence: float, names: Sequence[str] = QUANTITIES) -> dict[str, Estimate]:
    """Of each quantity the mean over tasks of their means, and its error from the repeats' means over tasks.

    Where a repeat lacks some tasks (ignored, or without a value) its mean is over the others: differences between tasks
    then widen the error.
    """
    found = {}
    for name in names:
        centre = _centre(grid, name)
        columns = [task_mean(column, name) for column in zip(*grid.values(), strict=True)]
        found[name] = _estimate(name, centre, [value for value in columns if value is not None], confidence)
    return found


def _centre(grid: Grid, name: str) -> float | None:
    """The mean over tasks of their means."""
    return mean([value for row in grid.values() if (value := task_mean(row, name)) is not None])


def _estimates(found: dict[str, Estimate], metric: str) -> dict[str, Any]:
    """The estimates under their fields' names."""
    fields: dict[str, Any] = {}
    for name, (centre, error, interval) in found.items():
        if name == "score" and metric == MIXED:
            centre = error = interval = None
        fields[name if name in RATES else f"{name}_mean"] = centre
        fields[f"{name}_sem"], fields[f"{name}_ci"] = error, interval
    return fields


def _add_searches(
    rows: dict[tuple[str, int], dict[str, Any]],
    sets: Sequence[RunSet],
    number: int,
    at_least: int | None,
    missing: str,
    confidence: float,
) -> None:
    """Give the rows of a set's tasks, and of all of them, `search` where there are searches."""
    run_set, boards = sets[number], normalised_tasks(sets)
    counted = missing == "invalid" and all(run.search for run in run_set.runs)
    tasks = [task for task in all_tasks(sets) if (task, number) in rows]
    found = aligned({task: run_set.tasks.get(task, []) for task in tasks}, expected_runs(run_set, at_least))
    told = {task: [_search_values(run) for run in row] for task, row in found.items()}
    curves = {task: [_standings(run, task in boards, counted) for run in row] for task, row in found.items()}
    for task in (*tasks, ALL):
        of = tasks if task == ALL else [task]
        searches = [run.search for each in of for run in found[each] if run and run.search]
        if searches:
            estimates = _over_tasks({each: told[each] for each in of}, confidence, OF_SEARCHES)
            rows[task, number]["search"] = {
                "searches": len(searches),
                **_estimates(estimates, ""),
                "medalled": sum(search.first_medal_s is not None for search in searches),
                "cost": _phases(searches, {each: told[each] for each in of}),
                "over_time": _over_time({each: curves[each] for each in of}),
            }


def _add_turns(rows: dict[tuple[str, int], dict[str, Any]], sets: Sequence[RunSet], number: int) -> None:
    """Give the rows of a set's tasks, and of all of them, `turns` where there are agents in turns."""
    found = {task: [run for run in runs if run.turns] for task, runs in sets[number].tasks.items()}
    found = {task: runs for task, runs in found.items() if runs}
    boards = normalised_tasks(sets)
    for task in (*found, ALL) if found else ():
        of = {each: found[each] for each in (found if task == ALL else (task,))}
        longest = max(len(run.turns or ()) for runs in of.values() for run in runs)
        rows[task, number]["turns"] = {
            "rollouts": sum(map(len, of.values())),
            "by_turn": [_at_turn(of, boards, at) for at in range(longest)],
        }


def _at_turn(runs: Mapping[str, Sequence[Run]], boards: Container[str], at: int) -> dict[str, float | None]:
    """Means over tasks, of what stands after turn `at`, from 0; a run that is over keeps what it had."""
    grid: Grid = {}
    for task, of in runs.items():
        grid[task] = []
        for run in of:
            turns = run.turns or ()
            turn = turns[min(at, len(turns) - 1)]
            working = at < len(turns)
            grid[task].append(
                {
                    "working": float(working),
                    "asked": float(turn.asked) if working else None,
                    "valid": float(turn.valid),
                    "medal": float(turn.medal),
                    "normalised": (turn.normalised or 0.0) if task in boards else None,
                }
            )
    return {"turn": at + 1, **{name: _centre(grid, name) for name in BY_TURN}}


def _search_values(run: Run | None) -> Values | None:
    """OF_SEARCHES, and what each phase used as `phase.name`; None of what is no search."""
    if run is None or run.search is None:
        return None
    costs = {f"{phase}.{name}": value for phase, used in run.search.cost.items() for name, value in used.items()}
    return {**{name: getattr(run.search, name) for name in OF_SEARCHES}, **costs}


def _phases(searches: Sequence[Search], grid: Grid) -> dict[str, dict[str, float | None]]:
    """{phase: {seconds, prompt_tokens, completion_tokens, usd}} of one search: means over those that tell."""
    phases = dict.fromkeys(phase for search in searches for phase in search.cost)
    return {phase: {name: _centre(grid, f"{phase}.{name}") for name in USED} for phase in phases}


def _standings(run: Run | None, board: bool, counted: bool) -> Values | None:
    """OVER_TIME at each of SHARES, as `name number`. counted: a run that is not there handed in nothing."""
    search = run.search if run else None
    if search is None and (run or not counted):
        return None
    values: Values = {}
    for at, standing in enumerate(search.over_time if search else [Standing(share, None, None) for share in SHARES]):
        for prefix, verdict in (("", standing.handed_in), ("perfect_", standing.perfect)):
            values[f"{prefix}medal {at}"] = float(verdict.medal) if verdict else 0.0
            normalised = verdict.normalised if verdict else None
            values[f"{prefix}normalised {at}"] = (normalised or 0.0) if board else None
    return values


def _over_time(grid: Grid) -> list[dict[str, float | None]]:
    """For each of SHARES the means of OVER_TIME over tasks."""
    return [
        {"share": share, **{name: _centre(grid, f"{name} {at}") for name in OVER_TIME}}
        for at, share in enumerate(SHARES)
    ]


def _lower(sets: Sequence[RunSet], task: str) -> bool:
    return next(run.lower_is_better for run_set in sets for run in run_set.tasks.get(task, ()))


def _at_k(row: Sequence[Values | None], k: int, lower: bool | None) -> dict[str, float | None]:
    """Best score, Avg@k and Best@k of a task; lower is None where its raw scores do not compare."""
    present = [values for values in row if values]
    scores = [score for values in present if (score := values["score"]) is not None]
    scores.sort(reverse=not lower)
    ranked = [(values["valid"], value) for values in present if (value := values["normalised"]) is not None]
    valid = sorted((value for is_valid, value in ranked if is_valid), reverse=True)
    raw = scores if lower is not None else []
    return {
        "score_best": raw[0] if raw else None,
        "score_best_at_k": raw_best_at_k(raw, len(present), k),
        "normalised_avg_at_k": avg_at_k(valid, len(ranked), k),
        "normalised_best_at_k": best_at_k(valid, len(ranked), k),
    }


def _at_k_over_tasks(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The means over tasks of Avg@k and Best@k on normalised scores; raw ones do not add up."""
    names = ("normalised_avg_at_k", "normalised_best_at_k")
    means = {name: mean([row[name] for row in rows if row[name] is not None]) for name in names}
    return {"score_best": None, "score_best_at_k": None, **means}


def _facts(runs: Sequence[Run], expected: int) -> dict[str, Any]:
    """Counts, and what the runs cost: sums over those that say."""
    told = [run for run in runs if run.prompt_tokens is not None and run.completion_tokens is not None]
    paid = [run.usd for run in runs if run.usd is not None]
    return {
        "rollouts": len(runs),
        "missing": expected - len(runs),
        "revealed": sum(run.revealed for run in runs),
        "reward_rule": common(run.reward_rule for run in runs),
        "seconds": sum(run.seconds for run in runs),
        "prompt_tokens": sum(run.prompt_tokens or 0 for run in told) if told else None,
        "completion_tokens": sum(run.completion_tokens or 0 for run in told) if told else None,
        "tokens_rollouts": len(told),
        "usd": sum(paid) if paid else None,
        "usd_rollouts": len(paid),
    }


def _record(label: str, task: str, rule: str | None, row: dict[str, Any]) -> dict[str, Any]:
    head = {"kind": "summary", "version": 1, "id": content_id("summary", label, task), "lineage": []}
    return {**head, "task": task, "set": label, **row, "human_rank_rule": rule}
