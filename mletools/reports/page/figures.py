"""The figures of a report: each has a title, its numbers as a table, and a drawing function for matplotlib.

The page (which shows the numbers below the figure), `--plots` and the tests share one definition. Error bands and bars
are ± one standard error of the mean (statistics.sem). Not covered: colours, files (figure).
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ...base.visible import visible_line
from ...records.training import TrainStep
from ..runs import KEPT, STAGES, GradedRun, RunSet
from ..show.visible import clipped
from ..statistics import mean, sem
from ..summary import ALL
from .figure import (
    BAD,
    FAINT,
    GOOD,
    MEDALS,
    SERIES,
    TEXT,
    Cell,
    Figure,
    Point,
    bar_plot,
    curve,
    legend,
    log_ticks,
    named,
    percent,
)
from .scores import by_cost, by_task, by_tries

Sets = Mapping[str, Sequence[GradedRun]]  # by label
Record = Mapping[str, Any]
TRAINING = (
    ("reward_mean", "Reward over training", "Mean reward of the rollouts of each optimiser step, with ± SEM."),
    ("validation_reward", "Validation reward over training", "Mean reward of the validation command's rollouts, at checkpoints."),
    ("entropy", "Entropy over training", "Entropy of the policy, mean over the tokens with loss, in nats."),
    ("staleness", "Staleness over training", "Policy updates between sampling and training, mean of each step."),
)  # fmt: skip
VERSIONS: tuple[tuple[str, str, Callable[[GradedRun], float | None]], ...] = (
    ("reward", "Reward by policy version", lambda run: run.reward),
    ("valid", "Valid share by policy version", lambda run: float(run.valid)),
    ("seconds", "Running time by policy version", lambda run: run.execution_s),
    ("normalised", "Normalised score by policy version", lambda run: run.normalised),
)
TURNS, BUDGET, TRACES = "turns by_turn turn", "search over_time share", "traces over_time share"
# name, title, caption, fields of a summary over all tasks with the x axis, lines of each set, y axis
WITHIN: tuple[tuple[str, str, str, str, tuple[tuple[str, str], ...], str], ...] = (
    ("asked", "Requests for help by turn", "Share of the agents still working at each turn that ask an ideator.",
     TURNS, (("", "asked"),), "share asking"),
    ("medal", "Medals by turn", "Share of runs whose best submission so far, by test score, has a medal.",
     TURNS, (("", "medal"),), "share with a medal"),
    ("normalised", "Normalised score by turn", "Best submission so far, by test score; 0 without one.",
     TURNS, (("", "normalised"),), "normalised score"),
    ("search-medal", "Medals over a search's budget", "The submission of the search at that time, and its best node by test score.",
     BUDGET, (("handed in", "medal"), ("perfect", "perfect_medal")), "share with a medal"),
    ("search-normalised", "Normalised score over a search's budget", "The submission of the search at that time, and its best node by test score.",
     BUDGET, (("handed in", "normalised"), ("perfect", "perfect_normalised")), "normalised score"),
    ("traces", "Traces from memory and from scratch", "Best so far of each kind by the score that the run knew, over its time; runs with valid submissions of both kinds.",
     TRACES, (("from memory", "memory"), ("from scratch", "reset")), "human rank"),
    ("submissions", "Human rank by valid submission", "A run's k-th valid submission, over all its traces, and the best of the first k.",
     "traces by_submission submission", (("best of the first k", "best"), ("the k-th", "this")), "human rank"),
)  # fmt: skip
ACROSS = {BUDGET: "share of the budget", TRACES: "share of the time"}
GROUPINGS: tuple[tuple[str, str, Callable[[GradedRun], str | None]], ...] = (
    ("modality", "Medals by modality", lambda run: run.modality),
    ("problem", "Medals by kind of problem", lambda run: run.problem),
    ("difficulty", "Medals by difficulty", lambda run: run.split),
    ("mutations", "Medals by number of mutations", lambda run: run.mutations),
)


def figures(
    run_sets: Sequence[RunSet],
    steps: Mapping[str, Sequence[TrainStep]],
    comparisons: Sequence[Record],
    tasks: Mapping[str, Sequence[str | None]] | None = None,
    summaries: Sequence[Record] = (),
) -> list[Figure]:
    """The figures with data. steps: train_step records by run; comparisons: records of that kind.

    tasks: by file, in order of generation, the reason why each task was dropped (None: kept). summaries: of the sets.
    """
    sets: Sets = {visible_line(run_set.label): run_set.runs for run_set in run_sets if run_set.tasks}
    drawn = [
        *(_training(steps, *of) for of in TRAINING),
        *(_by_version(sets, *of) for of in VERSIONS),
        *_within_runs([row for row in summaries if row["task"] == ALL], len(sets)),
        *_task_funnel(tasks or {}),
        *_funnel(sets),
        _times(sets),
        *(_medals(sets, *of) for of in GROUPINGS),
        *by_task(sets),
        *by_cost(sets),
        *by_tries(sets),
        *(_differences(record) for record in comparisons),
    ]
    return distinct(figure for figure in drawn if figure is not None)


def distinct(figures: Iterable[Figure]) -> list[Figure]:
    """The figures, each under a name of its own, also where upper and lower case are one; a later one gets a number."""
    taken, named = set[str](), list[Figure]()
    for figure in figures:
        numbered = (f"{figure.name}-{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([figure.name], numbered) if name.casefold() not in taken)
        taken.add(name.casefold())
        named.append(replace(figure, name=name))
    return named


def fields(steps: Mapping[str, Sequence[TrainStep]]) -> dict[str, dict[str, list[list[float]]]]:
    """{field: {run: [[step, value], ...]}} of every numeric field of the train_step records."""
    values: dict[str, dict[str, list[list[float]]]] = {}
    for label, records in steps.items():
        for record in records:
            for name, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and name not in ("version", "step"):
                    values.setdefault(name, {}).setdefault(visible_line(label), []).append([record["step"], value])
    return dict(sorted(values.items()))


# --- curves ---------------------------------------------------------------------------------------------------------


def _training(steps: Mapping[str, Sequence[TrainStep]], field: str, title: str, caption: str) -> Figure | None:
    def error(record: TrainStep) -> float | None:
        spread, count = record.get("reward_std"), record.get("rollouts")
        return spread / math.sqrt(count) if field == "reward_mean" and spread is not None and count else None

    lines: dict[str, list[Point]] = {
        label: [
            (each["step"], value, error(each))
            for each in records
            if (value := cast(float | None, each.get(field))) is not None
        ]
        for label, records in steps.items()
    }
    words = field.replace("_", " ")
    name = f"training-{field.replace('_', '-')}"
    return curve(name, title, caption, ("run", "step", words, "SEM"), lines, "optimiser step")


def _by_version(sets: Sets, name: str, title: str, of: Callable[[GradedRun], float | None]) -> Figure | None:
    lines: dict[str, list[Point]] = {}
    for label, runs in sets.items():
        by_version: dict[int, list[float]] = {}
        for run in runs:
            if run.version is not None and (value := of(run)) is not None:
                by_version.setdefault(run.version, []).append(value)
        lines[label] = [(at, mean(values) or 0.0, sem(values)) for at, values in sorted(by_version.items())]
    caption = "Mean over the rollouts of each policy version, with ± SEM over rollouts."
    return curve(f"version-{name}", title, caption, ("set", "policy version", name, "SEM"), lines)


def _within_runs(rows: Sequence[Record], sets: int) -> Iterator[Figure | None]:
    """The figures of WITHIN that have data. rows: summaries over all tasks, one per set; sets: the number of sets."""
    for name, title, caption, where, parts, up in WITHIN:
        field, course, across = where.split()
        lines: dict[str, list[Point]] = {
            ", ".join(filter(None, (words, row["set"]))): [
                (at[across], at[value], None) for at in row[field][course] if at[value] is not None
            ]
            for row in rows
            if field in row
            for words, value in parts
        }
        if any(y for points in lines.values() for _, y, _ in points):
            caption = f"{caption} Means over tasks, of the runs present."
            header = ("set", across, up)
            yield curve(f"within-{name}", title, caption, header, lines, ACROSS.get(where, across), sets)


# --- bars -----------------------------------------------------------------------------------------------------------


def _medals(sets: Sets, name: str, title: str, of: Callable[[GradedRun], str | None]) -> Figure | None:
    """A bar for each group of tasks and set; None if there is one group."""
    bars: dict[tuple[str, str], list[GradedRun]] = {}
    for label, runs in sets.items():
        for run in runs:
            if (group := of(run)) is not None:
                bars.setdefault((group, label), []).append(run)
    if len({group for group, _ in bars}) < 2:
        return None
    bars = dict(sorted(bars.items(), key=lambda bar: bar[0][0]))
    rows, names, places = list[tuple[Cell, ...]](), [], list[float]()
    shares: dict[str, list[float]] = {medal: [] for medal in MEDALS}
    for at, ((group, label), runs) in enumerate(bars.items()):
        counts = Counter(run.medal for run in runs)
        rows.append((group, label, len(runs), sum(run.valid for run in runs), *(counts[medal] for medal in MEDALS)))
        names.append(f"{clipped(group, 24)}{f', {clipped(label, 16)}' if len(sets) > 1 else ''} ({len(runs)})")
        places.append(places[-1] + (1 if group == rows[at - 1][0] else 1.6) if at else 0.0)  # groups stand apart
        for medal in MEDALS:
            shares[medal].append(counts[medal] / len(runs))
    drawn = bar_plot(names, shares, list(MEDALS.values()), ".0%", True, places)
    caption = "Share of each set's rollouts with each medal; number of rollouts in brackets."
    header = (name, "set", "rollouts", "valid", *MEDALS)
    return Figure(f"medals-{name}", title, caption, header, rows, drawn, 1.2 + 0.3 * (places[-1] + 1))


def _differences(record: Record) -> Figure | None:
    """Differences between two sets, paired by task."""
    tasks = sorted(record["tasks"], key=lambda row: -row["difference"])
    if not tasks:
        return None
    first, second, by = record["first"], record["second"], record["by"].replace("-", " ")
    few = len(tasks) <= 40

    names = [clipped(row["task"]) if few else "" for row in tasks]
    colours = [{"win": GOOD, "loss": BAD, "tie": FAINT}[row["result"]] for row in tasks]
    across = f"difference in {by}, positive is better"
    bars = bar_plot(names, {"": [row["difference"] for row in tasks]}, [colours], across=across)

    def draw(axes: Any) -> None:
        bars(axes)
        axes.axvline(0, color=TEXT, linewidth=0.8)
        if record["difference_ci"]:
            axes.axvspan(*record["difference_ci"], color=FAINT, alpha=0.35, linewidth=0)
        if record["difference_mean"] is not None:
            axes.axvline(record["difference_mean"], color=TEXT, linewidth=1.2, linestyle="--")
        if not few:
            axes.set_yticks([])
            axes.set_ylabel(f"{len(tasks)} tasks")

    caption = (
        f"{second} minus {first} by {by}, per task: {record['win']} won, {record['tie']} tied, {record['loss']} lost. "
        f"Dashed: the mean over tasks; shaded: its {100 * record['confidence']:.4g} % interval."
    )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"compare-{first}-{second}")[:100]
    header, height = ("task", first, second, "difference", "result"), 1.2 + (0.28 * len(tasks) if few else 4)
    rows = [[row[field] for field in ("task", "first", "second", "difference", "result")] for row in tasks]
    return Figure(name, f"{second} against {first}", caption, header, rows, draw, height)


def _times(sets: Sets) -> Figure | None:
    import numpy

    seconds = {label: [run.execution_s for run in runs if run.execution_s is not None] for label, runs in sets.items()}
    seconds = {label: values for label, values in seconds.items() if max(values, default=0) > 0}
    if not seconds:
        return None
    shares = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    rows: list[tuple[Cell, ...]] = [
        (label, len(values), *map(float, numpy.quantile(values, shares, method="inverted_cdf")))
        for label, values in seconds.items()
    ]
    least = max(min(map(min, seconds.values())), 1e-2)
    edges = numpy.geomspace(least, max(max(map(max, seconds.values())), least * 10**0.5), 41)

    def draw(axes: Any) -> None:
        for number, (label, values) in enumerate(seconds.items()):
            inside, weights = numpy.clip(values, edges[0], edges[-1]), [1 / len(values)] * len(values)
            settings: dict[str, Any] = {"weights": weights, "color": SERIES[number % len(SERIES)]}
            axes.hist(inside, edges, histtype="stepfilled", alpha=0.35, **settings)
            axes.hist(inside, edges, histtype="step", linewidth=1.4, label=named(label), **settings)
        log_ticks(axes)
        axes.yaxis.set_major_formatter(percent)
        axes.set_xlabel("seconds (logarithmic)")
        axes.set_ylabel("share of rollouts")
        legend(axes, len(seconds))

    caption = "Wall time in the sandbox of the graded program, per set."
    header = ("set", "programs", "5 %", "25 %", "median", "75 %", "95 %", "longest")
    return Figure("times", "Running times of programs", caption, header, rows, draw)


# --- funnels and reasons for drops ----------------------------------------------------------------------------------


def _funnel(sets: Sets) -> Iterator[Figure]:
    """The stages of rollouts, and the decisions of the filters."""
    if not sets:
        return
    rows, shares = list[tuple[str, str, int, float]](), {}
    for label, runs in sets.items():
        counts = [sum(run.stage > at for run in runs) for at in range(len(STAGES))]
        shares[label] = [count / len(runs) for count in counts]
        rows += zip([label] * len(STAGES), STAGES, counts, shares[label], strict=True)
    drawn = bar_plot(STAGES, shares, SERIES, ".0%")
    caption = "Share of each set's rollouts that reached at least this stage."
    header = ("set", "stage", "rollouts", "share")
    yield Figure("funnel", "Rollouts by stage", caption, header, rows, drawn, 1.2 + 0.42 * len(STAGES))
    decisions = Counter(run.decision for runs in sets.values() for run in runs if run.decision)
    if filtered := decisions.total():
        counted = {KEPT: decisions.pop(KEPT, 0), **dict(decisions.most_common())}
        names = ("decision", "rollouts", "share")
        yield _counted("filters", "Decisions of filters", f"{filtered} filtered rollouts.", names, counted, filtered)


def _task_funnel(files: Mapping[str, Sequence[str | None]]) -> Iterator[Figure]:
    """SandMLE's funnel: the number of drafts, and the tasks of each file; the reasons for dropped tasks."""
    kept = {label: sum(why is None for why in tasks) for label, tasks in files.items()}
    stages = {label: count for label, count in kept.items() if count}
    reasons = Counter(clipped(why.partition(":")[0]) for tasks in files.values() for why in tasks if why is not None)
    if stages:
        drafts = max(*stages.values(), list(stages.values())[-1] + reasons.total())
        caption, counts = "Drafts: the tasks of the last file and all dropped ones.", {"drafts": drafts, **stages}
        header = ("", "tasks", "share of the drafts")
        yield _counted("tasks", "Tasks by stage", caption, header, counts, drafts, len(counts))
    if reasons:
        caption, header = "The first check that each task failed.", ("check", "tasks", "share")
        counts = dict(reasons.most_common())
        yield _counted("tasks-dropped", "Reasons for dropped tasks", caption, header, counts, reasons.total(), 0)


def _counted(
    name: str, title: str, caption: str, header: Sequence[str], counts: Mapping[str, int], whole: int, good: int = 1
) -> Figure:
    """One bar per count, with its share of `whole`; the first `good` bars are of what was kept."""
    rows = [(label, count, count / whole) for label, count in counts.items()]
    colours = [GOOD if at < good else BAD for at in range(len(counts))]
    drawn = bar_plot(list(counts), {"": list(counts.values())}, [colours], "g", across=header[1])
    return Figure(name, title, caption, header, rows, drawn, 1.0 + 0.35 * len(counts))
