"""Summarise graded rollouts per task and over all tasks, for one or several sets side by side.

Per task a mean is over its repeats. Over all ("all") it is over tasks, each with the same weight, however many runs
each has: the mean of the rows above. SEM is the standard error of the mean over repeats, sd / sqrt(n) with ddof 1: of a
task over its runs; of "all" over the repeats' means over tasks (MLE-bench's, R&D-Agent's mean ± SEM over seeds).
Intervals of rates (valid, above median, medals) are Wilson's, over runs: of n runs of a task, of as many as all tasks have
together for "all" (see means.effective_runs). All others are Student's t with that SEM, cut off where the scale ends.

Of reward and score, runs that have none are left out: an invalid run has no score. Human rank and normalised score
count an invalid run as 0. Avg@k and Best@k follow MLE-Ideator (see statistics). A raw score is left out of "all" where
tasks have different metrics.

Where a set holds searches, their rows have `search`: of the searches that are there the loops, improve rate, time to the
first medal and costs, and over time the medals and normalised scores. Over time a missing run counts as elsewhere, if all
of the set's runs are searches; in a mixed set it is left out.

Where a set holds agents in turns, their rows have `turns`: how they stand after each, of those that are there. Where it
holds runs of traces, `traces`: what those from memory and from scratch came to over a run, and the first k submissions.
"""

from collections.abc import Sequence
from typing import Any

from ..records.ids import content_id
from .courses import ALL, add_searches, add_traces, add_turns
from .means import estimates, of_task, over_tasks
from .runs import MIXED, GradedRun, RunSet, Values, all_tasks, common, expected_runs, grids, human_rank_rule
from .statistics import avg_at_k, best_at_k, mean, raw_best_at_k


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
            row = {**stated, **estimates(of_task(grid[task], confidence), metric)}
            row |= _at_k(grid[task], row["k"], None if metric == MIXED else _lower(sets, task))
            rows[task, number] = row
            of_tasks.append(row)
        if of_tasks:
            metric = common(row["metric"] for row in of_tasks)
            stated = {**settings, **_facts(run_set.runs, sum(map(len, grid.values()))), "metric": metric}
            overall = over_tasks({task: grid[task] for task in tasks if (task, number) in rows}, confidence)
            rows[ALL, number] = {**stated, **estimates(overall, metric), **_at_k_over_tasks(of_tasks)}
        add_searches(rows, sets, number, runs, missing, confidence)
        add_turns(rows, sets, number)
        add_traces(rows, sets, number)
    return [
        _record(run_set.label, task, rules[number], rows[task, number])
        for task in (*tasks, ALL)
        for number, run_set in enumerate(sets)
        if (task, number) in rows
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


def _facts(runs: Sequence[GradedRun], expected: int) -> dict[str, Any]:
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
