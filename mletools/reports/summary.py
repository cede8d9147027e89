"""Summarise graded rollouts per task and over all tasks, for one or several sets side by side.

A task's mean is over its repeats. "all" is the mean over tasks with equal weight, whatever their number of runs: the
mean of the rows above. SEM is the standard error of the mean over repeats, sd / sqrt(n) with ddof 1: for a task over
its runs; for "all" over the repeats' means over tasks (MLE-bench's, R&D-Agent's mean ± SEM over seeds). Intervals of
rates (valid, above median, medals) are Wilson's, over runs: n is the runs of a task, and for "all" the effective number
of all runs (see means.effective_runs). All others are Student's t with that SEM, cut off at the ends of the scale.

Means of reward and score leave out runs without them: an invalid run has no score. Human rank and normalised score
count an invalid run as 0. Avg@k and Best@k follow MLE-Ideator (see statistics). "all" has no raw score if the tasks'
metrics differ.

Rows of tasks with searches have `search`: loops, improve rate, time to the first medal and costs of the searches
present, and medals and normalised scores over time. Over time, a missing run follows the policy if all of the set's
runs are searches; in a mixed set it is left out.

Rows of tasks with agents in turns have `turns`: the results of the runs present after each turn. Rows of tasks with
runs of traces have `traces`: the results of traces from memory and from scratch over a run, and of the first k
submissions.

Rows with rollouts that say what each model used have `usage_by_role`, with the sums of each role.
"""

from collections.abc import Sequence
from typing import Any

from ..records.ids import content_id
from .courses import ALL, add_searches, add_traces, add_turns
from .formats import add_formats
from .means import estimates, of_task, over_tasks
from .runs import (
    COMPLEXITIES,
    MIXED,
    GradedRun,
    RunSet,
    Values,
    all_tasks,
    common,
    expected_runs,
    grids,
    human_rank_rule,
)
from .statistics import avg_at_k, best_at_k, mean, raw_best_at_k
from .usage import USED, Used


def default_k(sets: Sequence[RunSet]) -> int | None:
    """The default k of Avg@k and Best@k: the smallest number of runs per task that any set expects."""
    return min((expected_runs(run_set) for run_set in sets if run_set.tasks), default=None)


def summaries(
    sets: Sequence[RunSet],
    runs: int | None = None,
    missing: str = "invalid",
    confidence: float = 0.95,
    complexity: bool = False,
) -> list[dict[str, Any]]:
    """One record of kind summary per task (and one for "all") and set: tasks in order, the sets of a task together.

    complexity: also one for each of COMPLEXITIES, over its tasks. runs: the k of Avg@k and Best@k, and the minimum number of runs per task. ToolError: a set's human ranks come from
    two rules, or runs are missing with missing="error".
    """
    values = grids(sets, missing, runs)
    tasks = all_tasks(sets)
    settings = {"k": runs or default_k(sets), "missing_policy": missing, "confidence": confidence}
    rules = [human_rank_rule(run_set) for run_set in sets]
    metrics = {task: common(run.metric for s in sets for run in s.tasks.get(task, ())) for task in tasks}
    levels = {task: next((run.complexity for s in sets for run in s.tasks.get(task, ())), None) for task in tasks}
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for number, (run_set, grid) in enumerate(zip(sets, values, strict=True)):
        of_tasks: dict[str, dict[str, Any]] = {}
        for task in tasks:
            present = run_set.tasks.get(task, [])
            if not any(grid[task]):
                continue
            metric = common((run.metric for run in present), metrics[task])
            stated = {**settings, **_facts(present, len(grid[task])), "metric": metric}
            row = {**stated, **estimates(of_task(grid[task], confidence), metric)}
            row |= _at_k(grid[task], row["k"], None if metric == MIXED else _lower(sets, task))
            rows[task, number] = row
            of_tasks[task] = row
        groups = {level: [task for task in of_tasks if levels[task] == level] for level in COMPLEXITIES}
        for name, some in {**(groups if complexity else {}), ALL: list(of_tasks)}.items():
            if some:
                metric = common(of_tasks[task]["metric"] for task in some)
                present = [run for task in some for run in run_set.tasks.get(task, ())]
                expected = sum(len(grid[task]) for task in (grid if name == ALL else some))
                stated = {**settings, **_facts(present, expected), "metric": metric}
                overall = over_tasks({task: grid[task] for task in some}, confidence)
                at_k = _at_k_over_tasks([of_tasks[task] for task in some])
                rows[name, number] = {**stated, **estimates(overall, metric), **at_k}
        add_searches(rows, sets, number, runs, missing, confidence)
        add_turns(rows, sets, number)
        add_traces(rows, sets, number)
        add_formats(rows, sets, number)
    return [
        _record(run_set.label, task, rules[number], rows[task, number])
        for task in (*tasks, *COMPLEXITIES, ALL)
        for number, run_set in enumerate(sets)
        if (task, number) in rows
    ]


def _lower(sets: Sequence[RunSet], task: str) -> bool:
    return next(run.lower_is_better for run_set in sets for run in run_set.tasks.get(task, ()))


def _at_k(row: Sequence[Values | None], k: int, lower: bool | None) -> dict[str, float | None]:
    """Best score, Avg@k and Best@k of a task; lower is None if its raw scores do not compare."""
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
    """Means over tasks of Avg@k and Best@k on normalised scores; raw scores have no mean over tasks."""
    names = ("normalised_avg_at_k", "normalised_best_at_k")
    means = {name: mean([row[name] for row in rows if row[name] is not None]) for name in names}
    return {"score_best": None, "score_best_at_k": None, **means}


def _facts(runs: Sequence[GradedRun], expected: int) -> dict[str, Any]:
    """Counts and costs of the runs, together and by role."""
    roles = dict.fromkeys(role for run in runs for role in run.used)
    by_role = {role: [run.used[role] for run in runs if role in run.used] for role in roles}
    costs = {role: {"rollouts": len(used), **_used(used)} for role, used in by_role.items()}
    return {
        "rollouts": len(runs),
        "missing": expected - len(runs),
        "revealed": sum(run.revealed for run in runs),
        "reward_rule": common(run.reward_rule for run in runs),
        **_used([{name: getattr(run, name) for name in USED} for run in runs]),
        **({"usage_by_role": costs} if costs else {}),
    }


def _used(usages: Sequence[Used]) -> dict[str, Any]:
    """The sums over the usages with known values, and the number of these."""
    counted = [used for used in usages if None not in (used["prompt_tokens"], used["completion_tokens"])]
    paid = [used["usd"] for used in usages if used["usd"] is not None]
    return {
        "seconds": sum(used["seconds"] for used in usages),
        "prompt_tokens": sum(used["prompt_tokens"] for used in counted) if counted else None,
        "completion_tokens": sum(used["completion_tokens"] for used in counted) if counted else None,
        "tokens_rollouts": len(counted),
        "usd": sum(paid) if paid else None,
        "usd_rollouts": len(paid),
    }


def _record(label: str, task: str, rule: str | None, row: dict[str, Any]) -> dict[str, Any]:
    head = {"kind": "summary", "version": 1, "id": content_id("summary", label, task), "lineage": []}
    return {**head, "task": task, "set": label, **row, "human_rank_rule": rule}
