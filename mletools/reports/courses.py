"""The course of runs, over tasks: searches over their budgets, agents over their turns, and over their traces.

Each function adds one field to the rows of a summary, where a set has such runs. Tasks have equal weight. Not covered:
single runs (search, turns, traces), results of whole runs (summary).
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from .means import OF_SEARCHES, centre_of, estimates, over_tasks
from .runs import GradedRun, Grid, RunSet, Values, aligned, all_tasks, expected_runs, normalised_tasks
from .search import SHARES, Search, Standing
from .statistics import mean
from .trace import KINDS
from .traces import Life, best_rank, lives
from .usage import USED

BY_TURN = ("working", "asked", "valid", "medal", "normalised")
OVER_TIME = ("medal", "normalised", "perfect_medal", "perfect_normalised")
ALL = "all"
Rows = dict[tuple[str, int], dict[str, Any]]  # by task and number of the set


def add_searches(
    rows: Rows,
    sets: Sequence[RunSet],
    number: int,
    at_least: int | None,
    missing: str,
    confidence: float,
) -> None:
    """Add `search` to the rows of the tasks with searches, and to the row of all tasks."""
    run_set, boards = sets[number], normalised_tasks(sets)
    counted = missing == "invalid" and all(run.search for run in run_set.runs)
    tasks = [task for task in all_tasks(sets) if (task, number) in rows]
    runs = aligned({task: run_set.tasks.get(task, []) for task in tasks}, expected_runs(run_set, at_least))
    values = {task: [_search_values(run) for run in row] for task, row in runs.items()}
    curves = {task: [_standings(run, task in boards, counted) for run in row] for task, row in runs.items()}
    for task in (*tasks, ALL):
        of = tasks if task == ALL else [task]
        searches = [run.search for each in of for run in runs[each] if run and run.search]
        if searches:
            means = over_tasks({each: values[each] for each in of}, confidence, OF_SEARCHES)
            rows[task, number]["search"] = {
                "searches": len(searches),
                **estimates(means, ""),
                "medalled": sum(search.first_medal_s is not None for search in searches),
                "fallbacks": sum(search.fallbacks for search in searches),
                "cost": _phases(searches, {each: values[each] for each in of}),
                "over_time": _over_time({each: curves[each] for each in of}),
            }


def add_turns(rows: Rows, sets: Sequence[RunSet], number: int) -> None:
    """Add `turns` to the rows of the tasks with agents in turns, and to the row of all tasks."""
    in_turns = {task: [run for run in runs if run.turns] for task, runs in sets[number].tasks.items()}
    in_turns = {task: runs for task, runs in in_turns.items() if runs}
    boards = normalised_tasks(sets)
    for task in (*in_turns, ALL) if in_turns else ():
        of = {each: in_turns[each] for each in (in_turns if task == ALL else (task,))}
        longest = max(len(run.turns or ()) for runs in of.values() for run in runs)
        rows[task, number]["turns"] = {
            "rollouts": sum(map(len, of.values())),
            "by_turn": [_at_turn(of, boards, at) for at in range(longest)],
        }


def _at_turn(runs: Mapping[str, Sequence[GradedRun]], boards: Container[str], at: int) -> dict[str, float | None]:
    """Means over tasks after turn `at`, counted from 0; finished runs keep their last values."""
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
    return {"turn": at + 1, **{name: centre_of(grid, name) for name in BY_TURN}}


def add_traces(rows: Rows, sets: Sequence[RunSet], number: int) -> None:
    """Add `traces` to the rows of the tasks with leaderboards and runs of traces, and to the row of all tasks."""
    by_task = {task: of for task, runs in sets[number].tasks.items() if (of := lives(runs))}
    for task in (*by_task, ALL) if by_task else ():
        counted = list(by_task.values()) if task == ALL else [by_task[task]]
        both = [[life for life in of if life.kinds >= set(KINDS)] for of in counted]
        rows[task, number]["traces"] = {
            "runs": sum(map(len, counted)),
            "with_both": sum(map(len, both)),
            "over_time": [_at_share(both, share) for share in SHARES],
            "by_submission": list(_by_submission(counted)),
        }


def _at_share(runs: Sequence[Sequence[Life]], share: float) -> dict[str, float | None]:
    """The best human rank of each kind of trace within this share of the runs' seconds."""
    best = {kind: _mean_of_tasks([[life.best(kind, share) for life in of] for of in runs]) for kind in KINDS}
    return {"share": share, **best}


def _by_submission(runs: Sequence[Sequence[Life]]) -> Iterator[dict[str, float | None]]:
    """For k from 1: human ranks of the k-th valid submissions, and of the best of the first k (0 if none)."""
    made = [[[each for _, each in life.submissions] for life in of] for of in runs]
    longest = max(len(run) for of in made for run in of)
    for k in range(1, longest + 1):
        there = [[run[k - 1].rank for run in of if len(run) >= k] for of in made]
        best = [[best_rank(run[:k]) for run in of] for of in made]
        counted = {"submission": k, "runs": sum(map(len, there))}
        yield {**counted, "this": _mean_of_tasks(there), "best": _mean_of_tasks(best)}


def _mean_of_tasks(values: Sequence[Sequence[float]]) -> float | None:
    """The mean over tasks of their means; tasks without values are left out."""
    return mean([centre for of in values if (centre := mean(of)) is not None])


def _search_values(run: GradedRun | None) -> Values | None:
    """OF_SEARCHES, and the cost of each phase as `phase.name`; None if the run is no search."""
    if run is None or run.search is None:
        return None
    costs = {f"{phase}.{name}": value for phase, used in run.search.cost.items() for name, value in used.items()}
    return {**{name: getattr(run.search, name) for name in OF_SEARCHES}, **costs}


def _phases(searches: Sequence[Search], grid: Grid) -> dict[str, dict[str, float | None]]:
    """{phase: {seconds, prompt_tokens, completion_tokens, usd}} of one search: means over known values."""
    phases = dict.fromkeys(phase for search in searches for phase in search.cost)
    return {phase: {name: centre_of(grid, f"{phase}.{name}") for name in USED} for phase in phases}


def _standings(run: GradedRun | None, board: bool, counted: bool) -> Values | None:
    """OVER_TIME at each of SHARES, as `name number`. counted: a missing run submitted nothing."""
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
    """Means of OVER_TIME over tasks, for each of SHARES."""
    return [
        {"share": share, **{name: centre_of(grid, f"{name} {at}") for name in OVER_TIME}}
        for at, share in enumerate(SHARES)
    ]
