"""Imports tasks from folders and tables."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..grading import check_direction, check_task, metrics, score_bytes
from ..records.errors import OptionError, ToolError
from ..run import Run
from ..tasks.importing.layouts import candidates
from ..tasks.importing.options import Candidate, Grading, ImportOptions, Unprepared
from ..tasks.importing.task import import_task
from ..tasks.table import Rejected


@dataclass(frozen=True)
class Importer:
    """Imports one candidate; see tasks.importing.task.import_task. Picklable."""

    options: ImportOptions
    data: Path

    def __call__(self, candidate: Candidate) -> tuple[dict[str, Any], list[str]]:
        grading = Grading(score_bytes, check_task, check_direction, metrics.find)
        return import_task(candidate, self.options, self.data, grading)


def import_tasks(run: Run, paths: Iterable[str], options: ImportOptions) -> None:
    """Write a record for each task in `paths`; report and count skipped ones. ToolError: nothing was imported."""
    run.open(key=lambda task: task["provenance"]["source"])
    sources = _candidates(run, paths, options.format)
    for name in ("answers", "description"):
        if getattr(options, name) and len(sources) > 1:
            raise OptionError(f"--{name} applies to one task, but the input has {len(sources)}")
    remaining = [candidate for candidate in sources if not run.finished(candidate.source)]
    run.progress(len(remaining), "tasks")
    importer = Importer(replace(options, seed=run.seed), run.data)
    for candidate, result, error in run.map(importer, remaining, processes=True):
        if isinstance(error, Rejected):
            _skip(run, candidate.name, error.reason)
        elif error is not None:
            raise error
        else:
            task, notes = result
            for note in notes:
                run.say(f"{candidate.name}: {note}")
            run.emit(task)
    if not run.counts["records"] and len(remaining) == len(sources):
        raise ToolError("nothing was imported")


def _candidates(run: Run, paths: Iterable[str], format: str) -> list[Candidate]:
    """The competitions and tables in the paths, each once. Unprepared ones are skipped."""
    by_source: dict[str, Candidate] = {}
    for path in paths:
        for candidate in candidates(Path(path), format):
            if isinstance(candidate, Unprepared):
                _skip(run, candidate.name, candidate.reason)
                continue
            other = by_source.setdefault(candidate.source, candidate)
            if other.path != candidate.path:
                both = f"{other.path} and {candidate.path}"
                raise ToolError(f"{both} would both be {candidate.source}: import them in two runs")
    return list(by_source.values())


def _skip(run: Run, name: str, reason: str) -> None:
    run.say(f"skipped {name}: {reason}")
    run.counts["skipped"] += 1
