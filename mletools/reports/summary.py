"""Summarise graded rollouts per task and over all, for one or several sets side by side.

Means are over rollouts; SEM is the standard error of the mean over rollouts, sd / sqrt(n) with ddof 1. The overall row
averages rollouts, not tasks; its score is left out where tasks have different metrics.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..records.ids import content_id

MIXED = "mixed"


@dataclass
class Tally:
    """What is counted of one task in one set."""

    metric: str = ""
    rewards: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    rollouts: int = 0
    medals: int = 0
    seconds: float = 0.0

    def add(self, rollout: dict[str, Any]) -> None:
        grade = rollout["grade"]
        better = "lower" if grade["lower_is_better"] else "higher"
        name = f"{grade['metric']}, {better} is better"
        self.metric = name if self.metric in ("", name) else MIXED
        self.rollouts += 1
        self.medals += grade["medal"] is not None
        if rollout["reward"] is not None:
            self.rewards.append(rollout["reward"])
        if grade["valid"]:
            self.scores.append(grade["score"])
        self.seconds += rollout["usage"]["seconds"] + rollout.get("execution", {}).get("duration_s", 0.0)


def tally(rollouts: Iterable[dict[str, Any]]) -> dict[str, Tally]:
    """One Tally per task id, in order of appearance, and one under "all"."""
    tallies: dict[str, Tally] = {}
    overall = Tally()
    for rollout in rollouts:
        tallies.setdefault(rollout["task"]["id"], Tally()).add(rollout)
        overall.add(rollout)
    return {**tallies, "all": overall}


def mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def sem(values: Sequence[float]) -> float | None:
    """Standard error of the mean, sd(ddof 1) / sqrt(n); None for fewer than two values."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def summaries(sets: dict[str, dict[str, Tally]]) -> list[dict[str, Any]]:
    """One record of kind summary per task (and one for "all") and set: tasks in order, the sets of a task together."""
    tasks = dict.fromkeys(task for tallies in sets.values() for task in tallies if task != "all")
    return [
        _summary(label, task, tallies[task])
        for task in (*tasks, "all")
        for label, tallies in sets.items()
        if task in tallies and tallies[task].rollouts
    ]


def _summary(label: str, task: str, tally: Tally) -> dict[str, Any]:
    return {
        "kind": "summary",
        "version": 1,
        "id": content_id("summary", label, task),
        "lineage": [],
        "task": task,
        "set": label,
        "rollouts": tally.rollouts,
        "valid": len(tally.scores) / tally.rollouts,
        "medal": tally.medals / tally.rollouts,
        "reward_mean": mean(tally.rewards),
        "reward_sem": sem(tally.rewards),
        "score_mean": mean(tally.scores) if tally.metric != MIXED else None,
        "metric": tally.metric,
        "seconds": tally.seconds,
    }


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


HEADER = ["task", "set", "rollouts", "valid", "medal", "reward", "± SEM", "score", "metric", "seconds"]
ALIGN = ["left", "left", "right", "right", "right", "right", "right", "right", "left", "right"]


def table(sets: dict[str, dict[str, Tally]]) -> str:
    """The summaries as aligned text."""
    from tabulate import tabulate

    rows = [
        [
            row["task"],
            row["set"],
            str(row["rollouts"]),
            f"{row['valid']:.0%}",
            f"{row['medal']:.0%}",
            _cell(row["reward_mean"]),
            _cell(row["reward_sem"]),
            _cell(row["score_mean"]),
            row["metric"],
            f"{row['seconds']:.1f}",
        ]
        for row in summaries(sets)
    ]
    return tabulate([HEADER, *rows], headers="firstrow", disable_numparse=True, colalign=ALIGN if rows else None)
