"""What happens within runs, over tasks: searches over their budgets, agents over their turns, and over their traces.

Each gives the rows of a summary one field more, where a set has such runs. Every task weighs the same. Not covered: what
one run came to (search, turns, traces), whole runs (summary).
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from .means import OF_SEARCHES, centre_of, estimates, over_tasks
from .runs import GradedRun, Grid, RunSet, Values, aligned, all_tasks, expected_runs, normalised_tasks
from .search import SHARES, USED, Search, Standing
from .statistics import mean
from .trace import KINDS
from .traces import Life, lives

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
            means = over_tasks({each: told[each] for each in of}, confidence, OF_SEARCHES)
            rows[task, number]["search"] = {
                "searches": len(searches),
                **estimates(means, ""),
                "medalled": sum(search.first_medal_s is not None for search in searches),
                "cost": _phases(searches, {each: told[each] for each in of}),
                "over_time": _over_time({each: curves[each] for each in of}),
            }


def add_turns(rows: Rows, sets: Sequence[RunSet], number: int) -> None:
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


def _at_turn(runs: Mapping[str, Sequence[GradedRun]], boards: Container[str], at: int) -> dict[str, float | None]:
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
    return {"turn": at + 1, **{name: centre_of(grid, name) for name in BY_TURN}}


def add_traces(rows: Rows, sets: Sequence[RunSet], number: int) -> None:
    """Give the rows of a set's tasks, and of all of them, `traces` where there are runs of traces on tasks with leaderboards."""
    found = {task: of for task, runs in sets[number].tasks.items() if (of := lives(runs))}
    for task in (*found, ALL) if found else ():
        counted = list(found.values()) if task == ALL else [found[task]]
        both = [[life for life in of if life.kinds >= set(KINDS)] for of in counted]
        rows[task, number]["traces"] = {
            "runs": sum(map(len, counted)),
            "with_both": sum(map(len, both)),
            "over_time": [_at_share(both, share) for share in SHARES],
            "by_submission": list(_by_submission(counted)),
        }


def _at_share(runs: Sequence[Sequence[Life]], share: float) -> dict[str, float | None]:
    """Of each kind of traces the best human rank by this share of the runs' seconds."""
    best = {kind: _mean_of_tasks([[life.best(kind, share) for life in of] for of in runs]) for kind in KINDS}
    return {"share": share, **best}


def _by_submission(runs: Sequence[Sequence[Life]]) -> Iterator[dict[str, float | None]]:
    """For k from 1: human ranks of the k-th valid submissions, and of the best of the first k (0 of a run without any)."""
    ranks = [[[rank for _, _, rank in life.submissions] for life in of] for of in runs]
    longest = max(len(run) for of in ranks for run in of)
    for k in range(1, longest + 1):
        there = [[run[k - 1] for run in of if len(run) >= k] for of in ranks]
        best = [[max(run[:k], default=0.0) for run in of] for of in ranks]
        counted = {"submission": k, "runs": sum(map(len, there))}
        yield {**counted, "this": _mean_of_tasks(there), "best": _mean_of_tasks(best)}


def _mean_of_tasks(values: Sequence[Sequence[float]]) -> float | None:
    """The mean over tasks, of those that have any, of their means."""
    return mean([found for of in values if (found := mean(of)) is not None])


def _search_values(run: GradedRun | None) -> Values | None:
    """OF_SEARCHES, and what each phase used as `phase.name`; None of what is no search."""
    if run is None or run.search is None:
        return None
    costs = {f"{phase}.{name}": value for phase, used in run.search.cost.items() for name, value in used.items()}
    return {**{name: getattr(run.search, name) for name in OF_SEARCHES}, **costs}


def _phases(searches: Sequence[Search], grid: Grid) -> dict[str, dict[str, float | None]]:
    """{phase: {seconds, prompt_tokens, completion_tokens, usd}} of one search: means over those that tell."""
    phases = dict.fromkeys(phase for search in searches for phase in search.cost)
    return {phase: {name: centre_of(grid, f"{phase}.{name}") for name in USED} for phase in phases}


def _standings(run: GradedRun | None, board: bool, counted: bool) -> Values | None:
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
        {"share": share, **{name: centre_of(grid, f"{name} {at}") for name in OVER_TIME}}
        for at, share in enumerate(SHARES)
    ]
