"""Curves over training, by policy version, and within runs over turns, budgets and traces."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..show.visible import visible_line
from ..statistics import mean, sem
from .figure import FEWEST, Figure, Point, line_plot
from .shown import Shown

TRAINING = (
    ("reward_mean", "Reward over training", "Mean reward of the rollouts of each optimiser step, with ± SEM."),
    ("validation_reward", "Validation reward over training", "Mean reward of the validation command's rollouts, at checkpoints."),
    ("entropy", "Entropy over training", "Entropy of the policy, mean over the tokens with loss, in nats."),
    ("staleness", "Staleness over training", "Policy updates between sampling and training, mean of each step."),
)  # fmt: skip
TURNS, BUDGET, TRACES = "turns by_turn turn", "search over_time share", "traces over_time share"
OVER_TASKS = "Means over tasks, of the runs present"
# name, title, caption, fields of a summary over all tasks with the x axis, lines of each set, y axis
WITHIN: tuple[tuple[str, str, str, str, tuple[tuple[str, str], ...], str], ...] = (
    ("asked", "Requests for help by turn", f"Share of the agents still working at each turn that ask an ideator. {OVER_TASKS}.",
     TURNS, (("", "asked"),), "share asking"),
    ("medal", "Medals by turn", f"Share of runs whose best submission so far, by test score, has a medal. {OVER_TASKS}.",
     TURNS, (("", "medal"),), "share with a medal"),
    ("normalised", "Normalised score by turn", f"Best submission so far, by test score; 0 without one. {OVER_TASKS}.",
     TURNS, (("", "normalised"),), "normalised score"),
    ("search-medal", "Medals over a search's budget", f"The submission of the search at that time, and its best node by test score. {OVER_TASKS}.",
     BUDGET, (("handed in", "medal"), ("perfect", "perfect_medal")), "share with a medal"),
    ("search-normalised", "Normalised score over a search's budget", f"The submission of the search at that time, and its best node by test score. {OVER_TASKS}.",
     BUDGET, (("handed in", "normalised"), ("perfect", "perfect_normalised")), "normalised score"),
    ("traces", "Traces from memory and from scratch", f"Best so far of each kind by test score, over a run's time; runs with valid submissions of both kinds. {OVER_TASKS}.",
     TRACES, (("from memory", "memory"), ("from scratch", "reset")), "human rank"),
    ("submissions", "Human rank by valid submission", f"A run's k-th valid submission, over all its traces, and the best of the first k. {OVER_TASKS}.",
     "traces by_submission submission", (("best of the first k", "best"), ("the k-th", "this")), "human rank"),
)  # fmt: skip


def within_runs(rows: Sequence[Mapping[str, Any]], sets: int) -> Iterator[Figure]:
    """The figures of WITHIN that have data. rows: summaries over all tasks, one per set; sets: the number of sets."""
    for name, title, caption, where, parts, up in WITHIN:
        field, course, across = where.split()
        lines: dict[str, list[Point]] = {}
        for row in (row for row in rows if field in row):
            for words, value in parts:
                label = ", ".join(part for part in (words, row["set"]) if part)
                points: list[Point] = [
                    (at[across], at[value], None) for at in row[field][course] if at[value] is not None
                ]
                if len(points) >= FEWEST:
                    lines[label] = points
        if any(y for points in lines.values() for _, y, _ in points):
            values = [(label, x, y) for label, points in lines.items() for x, y, _ in points]
            drawn = line_plot(
                lines,
                "share of the budget" if where == BUDGET else "share of the time" if where == TRACES else across,
                up,
                across == "share",
                sets,
            )
            yield Figure(f"within-{name}", title, caption, ("set", across, up), values, drawn)


def training(steps: Mapping[str, Sequence[Mapping[str, Any]]], field: str, title: str, caption: str) -> Figure | None:
    lines = {}
    for label, records in steps.items():
        known = [record for record in records if record.get(field) is not None]
        if len(known) >= FEWEST:
            lines[label] = [(record["step"], record[field], _error(record, field)) for record in known]
    if not lines:
        return None
    rows = [(label, *point) for label, points in lines.items() for point in points]
    return Figure(
        f"training-{field.replace('_', '-')}", title, caption, ("run", "step", field.replace("_", " "), "SEM"),
        rows, line_plot(lines, "optimiser step", field.replace("_", " ")),
    )  # fmt: skip


def fields(steps: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """{field: {run: [[step, value], ...]}} of every numeric field of the train_step records."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for label, records in steps.items():
        for record in records:
            for name, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and name not in ("version", "step"):
                    found.setdefault(name, {}).setdefault(visible_line(label), []).append([record["step"], value])
    return dict(sorted(found.items()))


def _error(record: Mapping[str, Any], field: str) -> float | None:
    spread, count = record.get("reward_std"), record.get("rollouts")
    return spread / math.sqrt(count) if field == "reward_mean" and spread is not None and count else None


def by_version(
    runs: Sequence[Shown], sets: Sequence[str], name: str, title: str, of: Callable[[Shown], float | None]
) -> Figure | None:
    lines: dict[str, list[tuple[float, float, float | None]]] = {}
    for label in sets:
        by_policy: dict[int, list[float]] = {}
        for each in runs:
            value = of(each)
            if each.set == label and each.version is not None and value is not None:
                by_policy.setdefault(each.version, []).append(value)
        if len(by_policy) >= FEWEST:
            lines[label] = [
                (version, mean(values) or 0.0, sem(values)) for version, values in sorted(by_policy.items())
            ]
    if not lines:
        return None
    rows = [(label, *point) for label, points in lines.items() for point in points]
    caption = "Mean over the rollouts of each policy version, with ± SEM over rollouts."
    return Figure(
        f"version-{name}", title, caption, ("set", "policy version", name, "SEM"), rows,
        line_plot(lines, "policy version", name),
    )  # fmt: skip
