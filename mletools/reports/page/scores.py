"""Figures of results against what they are measured by: thresholds and baselines of each task, cost, number of tries.

Not covered: training, the course of runs, medals by kind of task, funnels (figures).
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...base.visible import visible_line
from ..runs import MIXED, GradedRun, common
from ..show.visible import clipped
from ..statistics import chance_of_valid, mean, sem
from ..table import number
from .figure import FAINT, MEDALS, SERIES, TEXT, Cell, Figure, Point, curve, legend, log_ticks, named

Sets = Mapping[str, Sequence[GradedRun]]  # by label
MOST_TASKS = 20  # figures of tasks
MOST_DOTS = 1000  # of a set
MOST_NAMED = 8  # baselines of which a caption has all; the numbers have them anyway
MARGIN = 0.12  # of the range of thresholds and baselines, on both sides
MOST_TRIES = 64  # each k up to it has a point
WIDE = 20  # times the least: from there an axis is logarithmic
TRIES = (("medal", "pass@k for a medal", "a medal"), ("valid", "pass@k for a valid submission", "a valid submission"))


# --- the scores of a task, beside its thresholds and baselines ------------------------------------------------------


@dataclass(frozen=True)
class TaskScores:
    """The valid scores of a task by set, and what they are measured by; `low` and `high`: the ends of the axis."""

    task: str
    name: str
    metric: str
    lower: bool
    scores: Mapping[str, Sequence[float]]
    thresholds: Mapping[str, float]
    baselines: Mapping[str, float]

    @property
    def ends(self) -> tuple[float, float]:
        """Of the axis: around the thresholds and baselines, without them around the scores."""
        marks = [*self.thresholds.values(), *self.baselines.values()]
        values = marks if len(set(marks)) > 1 else [*marks, *(each for some in self.scores.values() for each in some)]
        low, high = min(values), max(values)
        margin = MARGIN * (high - low) or MARGIN * abs(high) or 1.0
        return low - margin, high + margin

    @property
    def worst_first(self) -> list[tuple[str, float]]:
        """The baselines from the worst to the best."""
        return sorted(self.baselines.items(), key=lambda each: -each[1] if self.lower else each[1])


def by_task(sets: Sets) -> Iterator[Figure]:
    """A figure for each task with valid scores and thresholds or baselines, MOST_TASKS of them at most."""
    found = [of for of in _tasks(sets) if of.thresholds or of.baselines]
    for at, of in enumerate(found[:MOST_TASKS]):
        some = f" The first {MOST_TASKS} of {len(found)} tasks have a figure." if len(found) > MOST_TASKS else ""
        yield _strip(of, "" if at else some)


def _tasks(sets: Sets) -> Iterator[TaskScores]:
    tasks: dict[str, list[tuple[str, GradedRun]]] = {}
    for label, runs in sets.items():
        for run in runs:
            if run.score is not None:
                tasks.setdefault(run.task, []).append((label, run))
    for task, labelled in tasks.items():
        one = labelled[0][1]
        if common(run.metric for _, run in labelled) == MIXED:
            continue
        scores: dict[str, list[float]] = {}
        for label, run in labelled:
            if run.score is not None:
                scores.setdefault(label, []).append(run.score)
        yield TaskScores(task, one.name, one.metric, one.lower_is_better, scores, one.thresholds, one.baselines)


def _strip(of: TaskScores, more: str) -> Figure:
    """A row of dots for each set and one of marks for the baselines; thresholds are lines through all rows."""
    low, high = of.ends
    beyond = sum(not low <= score <= high for some in of.scores.values() for score in some)

    def draw(axes: Any) -> None:
        below, above = (">", "<") if of.lower else ("<", ">")  # the axis is turned round
        for row, scores in enumerate(of.scores.values()):
            dots: dict[str, list[tuple[float, float]]] = {}
            for at, score in enumerate(scores[:: -(-len(scores) // MOST_DOTS)]):
                marker = below if score < low else above if score > high else "o"
                dots.setdefault(marker, []).append((min(max(score, low), high), row + 0.2 * ((at % 5) / 2 - 1)))
            settings: dict[str, Any] = {"color": SERIES[row % len(SERIES)], "markersize": 4.5, "alpha": 0.75}
            for marker, places in dots.items():
                axes.plot(*zip(*places, strict=True), marker, clip_on=False, **settings)
        rows = [clipped(label, 20) for label in of.scores]
        if of.baselines:
            values = list(of.baselines.values())
            axes.plot(values, [len(rows)] * len(values), "|", color=TEXT, markersize=11, markeredgewidth=1.4)
            rows.append("baselines")
        for name, value in of.thresholds.items():
            medal = MEDALS.get(name)
            axes.axvline(value, color=medal or FAINT, linewidth=1.4, linestyle="-" if medal else "--", zorder=0)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(*((high, low) if of.lower else (low, high)))
        axes.set_xlabel(visible_line(f"{of.metric.partition(',')[0]}, right is better"))

    thresholds = ", ".join(f"{name} {number(value, '.4g')}" for name, value in of.thresholds.items())
    ladder = of.worst_first
    told = ladder if len(ladder) <= MOST_NAMED else [ladder[0], ladder[-1]]
    baselines = (", " if told == ladder else " to ").join(f"{name} {number(value, '.4g')}" for name, value in told)
    most = f", at most {MOST_DOTS} of a set" if max(map(len, of.scores.values())) > MOST_DOTS else ""
    caption = f"Valid scores, a dot per rollout{most}."
    caption += f" Lines: {thresholds}." if thresholds else ""
    count = "" if told == ladder else f" ({len(ladder)})"
    caption += f" Baselines from the worst{count}: {baselines}." if baselines else ""
    caption += f" Beyond the axis: {beyond}, drawn as arrows at its end." if beyond else ""
    rows: list[tuple[Cell, ...]] = [
        (label, len(scores), *(sorted(scores, reverse=of.lower)[at] for at in (0, -1)), statistics.median(scores))
        for label, scores in of.scores.items()
    ]
    rows += [(name, None, None, None, value) for name, value in (*of.thresholds.items(), *of.worst_first)]
    header = ("set, threshold or baseline", "valid rollouts", "worst", "best", "median, or score")
    height = 1.0 + 0.34 * (len(of.scores) + bool(of.baselines))
    name = f"scores-{re.sub(r'[^A-Za-z0-9._-]+', '-', of.task)[:80]}"
    return Figure(name, f"{of.name}: {of.metric}", caption + more, header, rows, draw, height)


# --- reward against cost --------------------------------------------------------------------------------------------


def by_cost(sets: Sets) -> Iterator[Figure]:
    """Reward against the tokens and the USD of a rollout, where they are known and the rewards have one rule."""
    if common(run.reward_rule for runs in sets.values() for run in runs) == MIXED:
        return
    for what, words in (("tokens", "tokens"), ("usd", "USD")):
        points = {
            label: [
                (cost, run.reward) for run in runs if run.reward is not None and (cost := _cost(run, what)) is not None
            ]
            for label, runs in sets.items()
        }
        points = {label: some for label, some in points.items() if some}
        if len({cost for some in points.values() for cost, _ in some}) > 1:
            yield _against(points, what, words)


def _cost(run: GradedRun, what: str) -> float | None:
    if what == "usd":
        return run.usage["usd"]
    prompt, completion = run.usage["prompt_tokens"], run.usage["completion_tokens"]
    return None if completion is None else float((prompt or 0) + completion)


def _against(points: Mapping[str, Sequence[tuple[float, float]]], what: str, words: str) -> Figure:
    costs = [cost for some in points.values() for cost, _ in some]

    def draw(axes: Any) -> None:
        for at, (label, some) in enumerate(points.items()):
            colour = SERIES[at % len(SERIES)]
            shown = some[:: -(-len(some) // MOST_DOTS)]
            axes.plot(*zip(*shown, strict=True), "o", color=colour, markersize=3, alpha=0.4)
            x, y = _middle(some)
            axes.plot([x], [y], "D", color=colour, markersize=9, markeredgecolor=TEXT, label=named(label))
        if max(costs) > WIDE * min(costs) > 0:
            log_ticks(axes)
        axes.set_xlabel(f"{words} per rollout")
        axes.set_ylabel("reward")
        legend(axes, len(points))

    rows: list[tuple[Cell, ...]] = [
        (label, len(some), *_middle(some), sem([reward for _, reward in some])) for label, some in points.items()
    ]
    most = f", at most {MOST_DOTS} of a set" if max(map(len, points.values())) > MOST_DOTS else ""
    caption = f"A dot per rollout{most}; diamonds: the means of the sets."
    header = ("set", "rollouts", f"mean {words}", "mean reward", "SEM")
    return Figure(f"cost-{what}", f"Reward against {words}", caption, header, rows, draw)


def _middle(some: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The means of both coordinates."""
    return mean([cost for cost, _ in some]) or 0.0, mean([reward for _, reward in some]) or 0.0


# --- pass@k ---------------------------------------------------------------------------------------------------------


def by_tries(sets: Sets) -> Iterator[Figure | None]:
    """pass@k of each set for medals and for valid submissions, k up to the runs of the task with the fewest."""
    for field, title, words in TRIES:
        lines = {label: passes(runs, "medal" if field == "medal" else "valid") for label, runs in sets.items()}
        if len({share for points in lines.values() for _, share, _ in points}) > 1:
            caption = (
                f"Probability that at least one of k rollouts of a task has {words}, drawn without replacement from "
                "its rollouts (unbiased), mean over tasks."
            )
            yield curve(f"pass-{field}", title, caption, ("set", "k", "pass@k"), lines, "k", len(sets))


def passes(runs: Sequence[GradedRun], field: Literal["medal", "valid"]) -> list[Point]:
    """(k, pass@k, None) for k from 1, above MOST_TRIES in steps of a tenth; mean over tasks of statistics.chance_of_valid.

    Empty without runs.
    """
    tasks: dict[str, list[bool]] = {}
    for run in runs:
        tasks.setdefault(run.task, []).append(run.medal is not None if field == "medal" else run.valid)
    fewest = min(map(len, tasks.values()), default=0)
    return [
        (float(k), mean([chance_of_valid(sum(good), len(good), k) for good in tasks.values()]) or 0.0, None)
        for k in _tries(fewest)
    ]


def _tries(fewest: int) -> list[int]:
    found = list(range(1, min(fewest, MOST_TRIES) + 1))
    while found and found[-1] < fewest:
        found.append(min(fewest, found[-1] + found[-1] // 10))
    return found
