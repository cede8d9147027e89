"""Read a report's input: sets of graded rollouts, reasons for dropped tasks, and names of files."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import takewhile
from typing import cast

from ..base.errors import RecordError
from ..base.jsonl import Line
from ..base.visible import visible_line
from ..records.common import Reject
from ..records.rollout import FilterDecision, Rollout
from ..records.task import Task
from .runs import GradedRun, RunSet, graded_run
from .traces import shown_score
from .usage import added, added_by_role

ShownTrace = tuple[float | None, GradedRun]  # the score that a trace showed, and the trace
NumberedTrace = tuple[int, ShownTrace]  # 0: an older record without its place in the run


def read_set(
    label: str,
    lines: Iterable[Line[Rollout]],
    reject: Callable[[Line[Rollout], str], None],
    keep: Callable[[Rollout, GradedRun, str], None],
    best_trace: bool = False,
) -> RunSet:
    """The graded rollouts of one file; `keep` gets each record and run with the set's label.

    reject(line, reason) gets ungraded rollouts and duplicates. best_trace: count one trace per run (scaffold memory),
    with the cost of all: the best by the score that the run showed, the first of equals; of runs that were shown none
    the first valid trace. First by the number of the trace; by line in older records, which do not have it.
    """
    run_set = RunSet(label)
    traces: dict[tuple[str, int], list[NumberedTrace]] = {}  # by run, in order of appearance
    line_numbers: dict[str, int] = {}  # by rollout id
    for line in lines:
        if (id := line.record["id"]) in line_numbers:
            reject(line, f"duplicate rollout {id}, first in line {line_numbers[id]}: a run counts once")
            continue
        try:
            graded = graded_run(line.record)
        except RecordError as error:
            reject(line, str(error))
            continue
        line_numbers[id] = line.number
        if best_trace and "trace" in line.record:
            of_run = traces.setdefault((graded.group, line.record["sample"]), [])
            shown = (shown_score(line.record, line.record), graded)
            of_run.append((line.record.get("trace_number", 0), shown))
        else:
            run_set.add(graded)
        keep(line.record, graded, label)
    for of_run in traces.values():
        in_order = sorted(of_run, key=lambda numbered: numbered[0])
        score, graded = reduce(_better_trace, (trace for _, trace in in_order))
        run_set.add(graded)
        run_set.unscored += score is None and graded.valid
    return run_set


def _better_trace(old: ShownTrace, new: ShownTrace) -> ShownTrace:
    """The better of two traces with the scores that they showed, with the cost of both."""
    (known, best), (score, run) = old, new
    better = known is None and (score is not None or (run.valid and not best.valid))
    better = better or (score is not None and known is not None and score > known)
    usage, by_role = added(run.usage, best.usage), added_by_role(best.usage_by_role, run.usage_by_role)
    return score if better else known, replace(run if better else best, usage=usage, usage_by_role=by_role)


def file_date(path: str) -> str | None:
    """The date (UTC) when the file was last written; None for standard input and pipes."""
    if path == "-" or not os.path.isfile(path):
        return None
    return datetime.fromtimestamp(os.path.getmtime(path), UTC).date().isoformat()


def drop_reason(record: Task | Reject) -> str | None:
    """The reason why a task was dropped or a line rejected; None if the task was kept."""
    if record["kind"] == "reject":
        return visible_line(record["reason"])
    decision = cast(FilterDecision | None, record.get("filter"))
    return None if not decision or decision["kept"] else visible_line(decision.get("reason") or "dropped")


def labels(files: Sequence[str]) -> list[str]:
    """Distinct labels for the files: their names, or else the folders in which they differ (runs/a/steps.jsonl: a)."""
    names = ["stdin" if path == "-" else os.path.basename(path).removesuffix(".jsonl") for path in files]
    if len(set(names)) == len(names):
        return names
    if len(set(files)) < len(files):
        return list(files)
    parts = [os.path.normpath(path).removesuffix(".jsonl").split(os.sep) for path in files]
    first = _common_length(parts)
    last = _common_length([path[:first:-1] for path in parts])
    names = ["/".join(path[first : len(path) - last]) for path in parts]
    return names if all(names) and len(set(names)) == len(names) else list(files)


def _common_length(parts: Sequence[Sequence[str]]) -> int:
    """The number of first parts on which all agree."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))
