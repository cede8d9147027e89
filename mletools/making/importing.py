"""Imports tasks from folders and tables, and seals tasks made by hand."""

import io
import json
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..records.errors import OptionError, ToolError
from ..records.jsonl import Line, loads, open_input, read_lines
from ..records.streams import name_of
from ..run import Run
from ..sandbox.hidden import find_copies
from ..sandbox.sketches import sketch
from ..tasks.importing.columns import read_columns
from ..tasks.importing.layouts import candidates
from ..tasks.importing.options import AUTHOR, Candidate, ImportOptions, Unprepared
from ..tasks.importing.task import import_task, seal_task
from ..tasks.table import Rejected

MOST_COMPARED = 32 << 20  # bytes of a table that is compared with those of installed packages


@dataclass(frozen=True)
class Importer:
    """Imports one candidate; see tasks.importing.task.import_task. Picklable."""

    options: ImportOptions
    data: Path

    def __call__(self, candidate: Candidate) -> tuple[dict[str, Any], list[str]]:
        return import_task(candidate, self.options, self.data)


@dataclass(frozen=True)
class Sealer:
    """Seals one task; see tasks.importing.task.seal_task. Picklable."""

    options: ImportOptions
    data: Path

    def __call__(self, line: Line) -> tuple[dict[str, Any], list[str]]:
        return seal_task(line.record, self.options, self.data)


def import_tasks(run: Run, paths: Iterable[str], options: ImportOptions) -> None:
    """Write a record for each task in `paths`; report and count skipped ones. ToolError: nothing was imported."""
    run.open(key=lambda task: task["provenance"]["source"])
    by_author = options.record is not None and "answers" in options.record
    sources = _candidates(run, paths, AUTHOR if by_author else options.format)
    for name in ("answers", "description", "record"):
        if getattr(options, name) is not None and len(sources) > 1:
            raise OptionError(f"--{name} applies to one task, but the input has {len(sources)}")
    remaining = [candidate for candidate in sources if not run.finished(candidate.source)]
    _warn_of_copies(run, remaining)
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


def _warn_of_copies(run: Run, imported: Iterable[Candidate]) -> None:
    """Tell which tables lie in an installed package too, by their values."""
    tables = {}
    for candidate in imported:
        if candidate.path.is_file() and candidate.path.stat().st_size <= MOST_COMPARED:
            with suppress(Rejected):  # the import says why
                columns = read_columns(candidate.path)
                numbers = [[_number(cell) for cell in cells] for cells in columns.values()]
                told = [column for column in numbers if any(number is not None for number in column)]
                tables[candidate.name] = sketch(list(zip(*told, strict=True)))
    copies: dict[str, list[tuple[bool, str]]] = {}
    for name, file, seen in find_copies(tables):
        copies.setdefault(name, []).append((not seen, file))
    for name, found in copies.items():
        hidden, file = min(found)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        reach = "hidden from programs" if hidden else "programs can read it: run the task where it is not installed"
        run.say(f"{name}: its answers are public, the same values are in {file}{more} ({reach})")


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def seal_tasks(run: Run, options: ImportOptions) -> None:
    """Write the completed record of each task in options.seal. ToolError: the place of one that is not sound, and why."""
    assert options.seal is not None
    run.open(key=lambda task: task["data"]["dir"])
    lines = [line for line in _written(options.seal) if not run.finished(line.record.get("data", {}).get("dir"))]
    run.progress(len(lines), "tasks")
    for line, result, error in run.map(Sealer(replace(options, seed=run.seed), run.data), lines, processes=True):
        if isinstance(error, (Rejected, ToolError)):
            raise ToolError(f"{line.place}: {error}")
        if error is not None:
            raise error
        task, notes = result
        for note in notes:
            run.say(f"{task['name']}: {note}")
        run.emit(task)


def _written(path: str) -> list[Line]:
    """The records that a person wrote: one JSON object over several lines, or a line for each. ToolError."""
    name = name_of(path, 0)
    with open_input(path) as file:
        content = file.read()
    try:
        whole: Any = loads(content)
        problem = ""
    except json.JSONDecodeError as error:
        whole, problem = None, f"{name}:{error.lineno}: not JSON: {error.msg}"
    except ValueError as error:
        whole, problem = None, f"{name}: {error}"
    if isinstance(whole, dict):
        return [Line(name, 1, "", whole)]
    lines = list(read_lines(io.BytesIO(content), name))
    if not lines:
        raise ToolError(f"{name}: no records")
    for at, line in enumerate(lines):
        if line.problem:
            raise ToolError((not at and problem) or f"{line.place}: {line.problem}")
    return lines


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
