"""From a source, an index and a seed to a task's folder and record: draw, build, train baselines, check, write.

An index does not depend on any other index, so the work can be cut among processes and taken up again.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from ..records.ids import derive_seed
from .baselines import Score
from .checks import check_draft
from .describe import describe
from .draft import make_draft
from .folder import ANSWERS
from .procedural import procedural_table
from .real import NAMES, real_table
from .record import Parts, finish, rate
from .table import Rejected, Table, generator

# How a table is drawn, by the name of the source.
TABLES: dict[str, Callable[[Any], Table]] = {
    **{f"sklearn:{name}": partial(real_table, name) for name in NAMES},
    "tabular": procedural_table,
}


def sources(spec: str) -> list[str]:
    """The sources that a --source option names: "sklearn:iris,wine" is ["sklearn:iris", "sklearn:wine"].

    "sklearn" stands for every table. ToolError lists the known names when one is unknown.
    """
    family, _, names = spec.partition(":")
    if family == "sklearn" and ":" not in spec:
        return [f"sklearn:{name}" for name in NAMES]
    found = [f"{family}:{name}" for name in names.split(",")] if ":" in spec else [family]
    for source in found:
        if source not in TABLES:
            raise ToolError(f"unknown source {source!r}: known are tabular, sklearn, {', '.join(sorted(TABLES)[:-1])}")
    return found


def make_task(
    source: str,
    index: int,
    seed: int,
    data: Path,
    score: Score,
    lower_is_better: Callable[[str], bool],
    max_attempts: int = 20,
) -> tuple[dict[str, Any], list[str]]:
    """The record of task `index` of a source, its folder under `data`, and why earlier drafts were rejected.

    The record has an empty lineage. `score` scores a submission; see Score. Rejected when every attempt failed,
    ToolError when the source is unknown or the folder is in the way or cannot be written.
    """
    if source not in TABLES:
        raise ToolError(f"unknown source {source!r}: see mletools.tasks.sources")
    reasons: list[str] = []
    for attempt in range(max_attempts):
        try:
            return _attempt(source, index, seed, attempt, data, score, lower_is_better), reasons
        except Rejected as rejected:
            reasons.append(rejected.reason)
    last = reasons[-1] if reasons else "none was made"
    raise Rejected(f"{source} {index}: {max_attempts} drafts rejected, the last one because {last}")


def _attempt(
    source: str, index: int, seed: int, attempt: int, data: Path, score: Score, lower_is_better: Callable[[str], bool]
) -> dict[str, Any]:
    """One draft made into a task. Rejected when it is not sound; then nothing was written."""
    drawn = derive_seed(seed, source, index, attempt)
    draws = generator(drawn)
    draft = make_draft(TABLES[source](draws), draws)
    lower = lower_is_better(draft.metric)
    description = describe(draft, lower)
    baselines, thresholds, trained_with = rate(draft, score, drawn, lower)
    parts = Parts(
        name=draft.table.name,
        description=description,
        modality="tabular",
        problem=draft.table.problem,
        public=draft.public,
        private={ANSWERS: draft.answers},
        grading={
            "submission": draft.submission,
            "metric": {"name": draft.metric, "params": {}, "lower_is_better": lower},
            "answers": ANSWERS,
            "thresholds": thresholds,
        },
        provenance={
            "source": source,
            "seed": seed,
            "index": index,
            "attempt": attempt,
            "baselines": baselines,
            "trained_with": trained_with,
            "sanity": check_draft(draft, description, baselines, thresholds, lower),
            **draft.table.origin,
        },
    )
    return finish(parts, data, (source, index, seed, attempt))
