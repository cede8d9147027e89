"""The figures of a report: each a title, the numbers it shows as a table, and how matplotlib draws them.

One definition serves the page (where the numbers stand below the picture), `--plots` and the tests. Bands and bars of error
are ± one standard error of the mean (statistics.sem). Not covered: colours of the page, files (plots).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..courses import ALL
from .bars import GROUPINGS, differences, medals, times
from .curves import TRAINING, by_version, training, within_runs
from .figure import Figure
from .funnels import reasons, stages, task_funnel, task_reasons
from .shown import Shown


def figures(
    runs: Sequence[Shown],
    steps: Mapping[str, Sequence[Mapping[str, Any]]],
    comparisons: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Sequence[str | None]] | None = None,
    summaries: Sequence[Mapping[str, Any]] = (),
) -> list[Figure]:
    """Those that the data has something for. steps: train_step records by run; comparisons: records of that kind.

    tasks: by file, in the order of their making, why each task was dropped; None: it was not. summaries: of the sets.
    """
    sets = list(dict.fromkeys(each.set for each in runs))
    made = [
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
        *(medals(runs, name, title, of) for name, title, of in GROUPINGS),
        *(differences(record) for record in comparisons),
    ]
    return [figure for figure in made if figure is not None]
