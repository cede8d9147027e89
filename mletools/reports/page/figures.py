"""The figures of a report: each has a title, its numbers as a table, and a drawing function for matplotlib.

The page (which shows the numbers below the figure), `--plots` and the tests share one definition. Error bands and bars
are ± one standard error of the mean (statistics.sem). Not covered: colours of the page, files (plots).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..courses import ALL
from .bars import GROUPINGS, differences, medals, reasons, stages, task_funnel, task_reasons, times
from .curves import TRAINING, by_version, training, within_runs
from .figure import Figure
from .shown import Shown


def figures(
    runs: Sequence[Shown],
    steps: Mapping[str, Sequence[Mapping[str, Any]]],
    comparisons: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Sequence[str | None]] | None = None,
    summaries: Sequence[Mapping[str, Any]] = (),
) -> list[Figure]:
    """The figures with data. steps: train_step records by run; comparisons: records of that kind.

    tasks: by file, in order of generation, the reason why each task was dropped (None: kept). summaries: of the sets.
    """
    sets = list(dict.fromkeys(each.set for each in runs))
    drawn = [
        *(training(steps, field, title, caption) for field, title, caption in TRAINING),
        by_version(runs, sets, "reward", "Reward by policy version", lambda each: each.run.reward),
        by_version(runs, sets, "valid", "Valid share by policy version", lambda each: float(each.run.valid)),
        by_version(runs, sets, "seconds", "Running time by policy version", lambda each: each.execution_s),
        by_version(runs, sets, "normalised", "Normalised score by policy version", lambda each: each.run.normalised),
        *within_runs([row for row in summaries if row["task"] == ALL], len(sets)),
        task_funnel(tasks or {}),
        task_reasons(tasks or {}),
        stages(runs, sets),
        reasons(runs),
        times(runs, sets),
        *(medals(runs, sets, name, title, of) for name, title, of in GROUPINGS),
        *(differences(record) for record in comparisons),
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
