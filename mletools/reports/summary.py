"""Summarise graded rollouts per task and over tasks, for one or several sets side by side.

A task's mean is over its repeats. "all" is the mean over tasks with equal weight, whatever their number of runs: the
mean of the rows above. SEM is the standard error of the mean over repeats, sd / sqrt(n) with ddof 1: for a task over
its runs; for "all" over the repeats' means over tasks (MLE-bench's, R&D-Agent's mean ± SEM over seeds). Intervals of
rates (valid, above median, medals) are Wilson's, over runs: n is the runs of a task, and for "all" the effective number
of all runs (statistics.effective_runs). All others are Student's t with that SEM, cut off at the ends of the scale.

Means of reward and score leave out runs without them: an invalid run has no score. Human rank and normalised score
count an invalid run as 0. Avg@k and Best@k follow MLE-Ideator (see statistics). "all" has no raw score if the tasks'
metrics differ.

A row has more fields where its tasks have such runs. `search`: loops, improve rate, time to the first medal and costs
of the searches present, and medals and normalised scores over time, where a missing run follows the policy if all of
the set's runs are searches and else is left out. `turns`: the results of agents in turns after each turn. `traces`:
those of traces from memory and from scratch over a run, and of the first k submissions. `format`: shares of all answers
(turns that say it, so long rollouts weigh more) by how they were read. `validation_gap`: validation less test score by
the number of scores that an agent was shown, over runs. `usage_by_role`: the sums of each role. `disclosure`: what the
results rest on, of "all".
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ..base.ids import content_id
from ..records.rollout import Usage
from .disclosure import disclosure
from .feedback import by_scores
from .runs import (
    COMPLEXITIES,
    MIXED,
    QUANTITIES,
    GradedRun,
    Grid,
    Readings,
    RunSet,
    Values,
    aligned,
    all_tasks,
    common,
    expected_runs,
    grids,
    human_rank_rule,
    normalised_tasks,
    ranked_against,
)
from .search import SHARES, Search, Standing
from .statistics import (
    avg_at_k,
    best_at_k,
    effective_runs,
    mean,
    population_sd,
    raw_best_at_k,
    sem,
    t_interval,
    wilson_interval,
)
from .traces import KINDS, Life, Trace, best_rank, life
from .turns import Verdict
from .usage import USED

ALL, TRAINED, HELD_OUT = "all", "trained on", "held out"
RATES = ("valid", "above_median", "bronze", "silver", "gold", "medal")  # field: the name itself; for others name_mean
OF_SEARCHES = ("loops", "improve_rate", "first_medal_s")
SCALES = {  # ends of the scale, where intervals are cut off
    **dict.fromkeys(("human_rank", "improve_rate"), (0.0, 1.0)),
    **dict.fromkeys(("normalised", "loops", "first_medal_s"), (0.0, math.inf)),
}
Row = dict[str, Any]


def default_k(sets: Sequence[RunSet]) -> int | None:
    """The default k of Avg@k and Best@k: the smallest number of runs that any set expects of one of its tasks."""
    numbers = (number for run_set in sets for number in expected_runs(run_set, run_set.tasks).values())
    return min(numbers, default=None)


def summaries(
    sets: Sequence[RunSet],
    runs: int | None = None,
    missing: str = "invalid",
    confidence: float = 0.95,
    complexity: bool = False,
    spread: str = "sem",
    trained: Container[str] | None = None,
) -> list[Row]:
    """One record of kind summary per task (and one for "all") and set: tasks in order, the sets of a task together.

    complexity: also one for each of COMPLEXITIES, over its tasks. trained: ids of tasks that were trained on; also one over
    these, and one over the others. spread: "sd" for standard deviations beside the errors. runs: the k of Avg@k and Best@k, and the minimum
    number of runs per task. ToolError: a set's human ranks come from two rules, or runs are missing with
    missing="error".
    """
    values, tasks, boards = grids(sets, missing, runs), all_tasks(sets), normalised_tasks(sets)
    settings: Row = {"k": runs or default_k(sets), "missing_policy": missing, "confidence": confidence}
    of_task = {task: [run for run_set in sets for run in run_set.tasks.get(task, ())] for task in tasks}
    groups = {task: [task] for task in tasks}
    for level in COMPLEXITIES if complexity else ():
        groups[level] = [task for task in tasks if of_task[task][0].split == level]
    if trained is not None:
        groups[TRAINED] = [task for task in tasks if task in trained]
        groups[HELD_OUT] = [task for task in tasks if task not in trained]
    groups[ALL] = tasks
    rows: dict[tuple[str, int], Row] = {}
    for number, (run_set, grid) in enumerate(zip(sets, values, strict=True)):
        present = {task: run_set.tasks.get(task, []) for task in tasks if any(grid[task])}
        metrics = {task: common(run.metric for run in runs or of_task[task]) for task, runs in present.items()}
        lower = {
            task: None if metrics[task] == MIXED else (of or of_task[task])[0].lower_is_better
            for task, of in present.items()
        }
        at_k = {task: _at_k(grid[task], settings["k"], lower[task]) for task in present}
        counted = missing == "invalid" and all(run.search for run in run_set.runs)
        expected = expected_runs(run_set, tasks, runs)
        repeats = aligned(present, max(expected.values(), default=0))
        rule = human_rank_rule(run_set)
        for name, group in groups.items():
            some = [task for task in group if task in present]
            if not some:
                continue
            of = {task: present[task] for task in some}
            head = {"kind": "summary", "version": 1, "id": content_id("summary", run_set.label, name), "lineage": []}
            metric = common(metrics[task] for task in some)
            estimates = _estimates({task: grid[task] for task in some}, confidence)
            if metric == MIXED:
                estimates |= dict.fromkeys(("score_mean", "score_sem", "score_ci"))
            rows[name, number] = {
                **head,
                "task": name,
                "set": run_set.label,
                **({"trained": len(groups[TRAINED])} if name == ALL and trained is not None else {}),
                **({"unscored": run_set.unscored} if name == ALL and run_set.unscored else {}),
                **({"sd": _deviations({task: grid[task] for task in some})} if spread == "sd" else {}),
                **settings,
                **_facts([run for runs in of.values() for run in runs], sum(expected[task] for task in group)),
                "metric": metric,
                **estimates,
                **(at_k[name] if name in at_k else _at_k_over_tasks([at_k[task] for task in some])),
                **_searches({task: repeats[task] for task in some}, boards, counted, confidence),
                **_turns(of, boards),
                **_traces(of),
                **_gaps(of),
                **_format(sum((run.readings for runs in of.values() for run in runs), Counter())),
                "human_rank_rule": rule,
                **_against([run for runs in of.values() for run in runs]),
                **(_disclosure(of) if name == ALL else {}),
            }
    return [rows[name, number] for name in groups for number in range(len(sets)) if (name, number) in rows]


def _at_k(row: Sequence[Values | None], k: int, lower: bool | None) -> dict[str, float | None]:
    """Best score, Avg@k and Best@k of a task; lower is None if its raw scores do not compare."""
    present = [values for values in row if values]
    scores = sorted(_numbers(present, "score"), reverse=not lower) if lower is not None else []
    ranked = [(values["valid"], value) for values in present if (value := values["normalised"]) is not None]
    valid = sorted((value for is_valid, value in ranked if is_valid), reverse=True)
    return {
        "score_best": scores[0] if scores else None,
        "score_best_at_k": raw_best_at_k(scores, len(present), k),
        "normalised_avg_at_k": avg_at_k(valid, len(ranked), k),
        "normalised_best_at_k": best_at_k(valid, len(ranked), k),
    }


def _at_k_over_tasks(rows: Sequence[Values]) -> dict[str, float | None]:
    """Means over tasks of Avg@k and Best@k on normalised scores; raw scores have no mean over tasks."""
    means = {name: mean(_numbers(rows, name)) for name in ("normalised_avg_at_k", "normalised_best_at_k")}
    return {"score_best": None, "score_best_at_k": None, **means}


def _facts(runs: Sequence[GradedRun], expected: int) -> Row:
    """Counts and costs of the runs, together and by role."""
    roles = dict.fromkeys(role for run in runs for role in run.usage_by_role)
    by_role = {role: [used for run in runs if (used := run.usage_by_role.get(role))] for role in roles}
    costs = {role: {"rollouts": len(used), **_used(used)} for role, used in by_role.items()}
    return {
        "rollouts": len(runs),
        "missing": expected - len(runs),
        "revealed": sum(run.revealed for run in runs),
        **_without_rows([run.reported for run in runs if run.reported is not None]),
        "reward_rule": common(run.reward_rule for run in runs),
        **_used([run.usage for run in runs]),
        **({"usage_by_role": costs} if costs else {}),
    }


def _against(runs: Sequence[GradedRun]) -> Row:
    against = ranked_against(runs)
    return {"ranked_against": against} if against else {}


def _without_rows(reported: Sequence[bool]) -> Row:
    """Rollouts of tasks of which no rows could be held out, and of these those with a score of their own."""
    return {"no_validation": len(reported), "reported_scores": sum(reported)} if reported else {}


def _used(usages: Sequence[Usage]) -> Row:
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


# --- means with their errors ----------------------------------------------------------------------------------------


def _numbers(row: Iterable[Values | None], name: str) -> list[float]:
    return [value for values in row if values and (value := values.get(name)) is not None]


def mean_over_tasks(grid: Mapping[str, Sequence[Values | None]], name: str) -> float | None:
    """The mean over tasks of their means over the runs with the quantity; of one task, its mean."""
    means = [mean(_numbers(row, name)) for row in grid.values()]
    return mean([value for value in means if value is not None])


def _repeats(grid: Grid, name: str) -> list[float]:
    """The mean over tasks of each repeat."""
    columns = zip(*grid.values(), strict=True)
    return [value for column in columns if (value := mean(_numbers(column, name))) is not None]


def _deviations(grid: Grid) -> dict[str, float | None]:
    return {name: population_sd(_repeats(grid, name)) for name in QUANTITIES}


def _estimates(grid: Grid, confidence: float, names: Sequence[str] = QUANTITIES) -> Row:
    """For each quantity the mean over tasks with its SEM over the repeats' means and its interval, by field name.

    If a repeat lacks some tasks (ignored, or without a value), its mean is over the others: differences between tasks
    then increase the error.
    """
    fields: Row = {}
    for name in names:
        centre, repeats = mean_over_tasks(grid, name), _repeats(grid, name)
        if name in RATES:
            runs = effective_runs(len(_numbers(row, name)) for row in grid.values())
            interval = wilson_interval(centre, runs, confidence)
        else:
            interval = t_interval(centre, repeats, confidence, *SCALES.get(name, (-math.inf, math.inf)))
        fields[name if name in RATES else f"{name}_mean"] = centre
        fields[f"{name}_sem"], fields[f"{name}_ci"] = sem(repeats), interval
    return fields


# --- the course of runs, and how answers were read: each gives a field of a row, or nothing -------------------------

Repeats = Mapping[str, Sequence[GradedRun | None]]  # by task
Runs = Mapping[str, Sequence[GradedRun]]
OVER_TIME = ("medal", "normalised", "perfect_medal", "perfect_normalised")
BY_TURN = ("working", "asked", "valid", "medal", "normalised")


def _centres(grid: Grid, names: Iterable[str]) -> Values:
    return {name: mean_over_tasks(grid, name) for name in names}


def _searches(repeats: Repeats, boards: Container[str], counted: bool, confidence: float) -> Row:
    """counted: a missing run is a search that submitted nothing."""
    searches = [run.search for row in repeats.values() for run in row if run and run.search]
    if not searches:
        return {}
    own: Grid = {task: [_of_search(run.search if run else None) for run in row] for task, row in repeats.items()}
    phases = dict.fromkeys(phase for search in searches for phase in search.cost)
    printed = sum(search.by_printed_scores for search in searches)
    over_time = []
    for at, share in enumerate(SHARES):
        grid = {task: [_standing(run, at, task in boards, counted) for run in row] for task, row in repeats.items()}
        over_time.append({"share": share, **_centres(grid, OVER_TIME)})
    return {
        "search": {
            "searches": len(searches),
            **_estimates(own, confidence, OF_SEARCHES),
            "medalled": sum(search.first_medal_s is not None for search in searches),
            "fallbacks": sum(search.fallbacks for search in searches),
            **({"by_printed_scores": printed} if printed else {}),
            "cost": {phase: {name: mean_over_tasks(own, f"{phase}.{name}") for name in USED} for phase in phases},
            "over_time": over_time,
        }
    }


def _of_search(search: Search | None) -> Values | None:
    """OF_SEARCHES, and the cost of each phase as `phase.name`; None without a search."""
    if search is None:
        return None
    costs = {f"{phase}.{name}": value for phase, used in search.cost.items() for name, value in used.items()}
    return {**{name: getattr(search, name) for name in OF_SEARCHES}, **costs}


def _standing(run: GradedRun | None, at: int, board: bool, counted: bool) -> Values | None:
    """OVER_TIME at one of SHARES; board: the task has a leaderboard."""
    search = run.search if run else None
    if search is None and (run or not counted):
        return None
    standing = search.over_time[at] if search else Standing(SHARES[at])
    handed_in, perfect = (verdict or Verdict() for verdict in (standing.handed_in, standing.perfect))
    return {**handed_in.values(board), **perfect.values(board, "perfect_")}


def _turns(runs: Runs, boards: Container[str]) -> Row:
    in_turns = {task: some for task, of in runs.items() if (some := [run.turns for run in of if run.turns])}
    points = []
    for at in range(max((len(turns) for of in in_turns.values() for turns in of), default=0)):
        grid: Grid = {task: [_after(turns, at, task in boards) for turns in of] for task, of in in_turns.items()}
        points.append({"turn": at + 1, **_centres(grid, BY_TURN)})
    return {"turns": {"rollouts": sum(map(len, in_turns.values())), "by_turn": points}} if points else {}


def _after(turns: Sequence[tuple[bool, Verdict]], at: int, board: bool) -> Values:
    """BY_TURN after turn `at`, counted from 0; a finished run keeps its last values."""
    working = at < len(turns)
    asked, best = turns[min(at, len(turns) - 1)]
    return {"working": float(working), "asked": float(asked) if working else None, **best.values(board)}


def _traces(runs: Runs) -> Row:
    """Human ranks: the best of each kind of trace over the run's time, and by valid submission (0 if there is none)."""
    lives = {task: known for task, of in runs.items() if (known := _lives(of))}
    if not lives:
        return {}
    both = {task: [life for life in of if life.kinds >= set(KINDS)] for task, of in lives.items()}
    over_time = []
    for share in SHARES:
        best: Grid = {
            task: [{kind: life.best((kind,), share) for kind in KINDS} for life in of] for task, of in both.items()
        }
        whole: Grid = {task: [{"best": life.best(KINDS, share)} for life in of] for task, of in lives.items()}
        over_time.append({"share": share, **_centres(best, KINDS), **_centres(whole, ("best",))})
    made = {task: [[each for _, each in life.submissions] for life in of] for task, of in lives.items()}
    by_submission = []
    for k in range(1, 1 + max(len(run) for of in made.values() for run in of)):
        grid: Grid = {
            task: [{"this": run[k - 1].rank if len(run) >= k else None, "best": best_rank(run[:k])} for run in of]
            for task, of in made.items()
        }
        several = sum(len(run) >= k for of in made.values() for run in of)
        by_submission.append({"submission": k, "runs": several, **_centres(grid, ("this", "best"))})
    counts = {"runs": sum(map(len, lives.values())), "with_both": sum(map(len, both.values()))}
    counts["without_scores"] = sum(best_rank(run) is None for of in made.values() for run in of)
    return {"traces": {**counts, "over_time": over_time, "by_submission": by_submission}}


def _lives(runs: Sequence[GradedRun]) -> list[Life]:
    """The runs formed by the traces of one task; other rollouts are left out."""
    by_run: dict[Any, list[Trace]] = {}
    for run in runs:
        if run.trace is not None:
            by_run.setdefault((run.group, run.repeat), []).append(run.trace)
    return [life(traces) for traces in by_run.values()]


def _gaps(runs: Runs) -> Row:
    gaps = by_scores(run.gap for of in runs.values() for run in of if run.gap)
    return {"validation_gap": gaps} if gaps else {}


def _disclosure(runs: Runs) -> Row:
    return {"disclosure": disclosure(len(runs), (run.rests_on for of in runs.values() for run in of))}


def _format(counts: Readings) -> Row:
    answers = counts.total()
    shares: dict[str, dict[str, float]] = {"lenient": {}, "none": {}}
    for (read, rule), count in counts.most_common():
        if read in shares:
            shares[read][rule or ""] = count / answers
    return {"format": {"answers": answers, "exact": counts["exact", None] / answers, **shares}} if answers else {}
