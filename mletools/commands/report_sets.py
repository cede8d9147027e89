"""What mle-report reads: sets of graded rollouts, one a file, and the files that are drawn beside them; and what names them."""

import os
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from .. import cli
from ..records.errors import RecordError
from ..reports.runs import RunSet, graded_run
from ..reports.show.visible import visible_line
from ..reports.traces import Traces


def fates(run: cli.Run, path: str) -> list[str | None]:
    """Of each task in a file, and of what was rejected there, why it was dropped; None: it was not."""
    run.files = (path,)
    return [_fate(line.record) for line in run.lines("task", "reject")]


def _fate(record: dict[str, Any]) -> str | None:
    if record["kind"] == "reject":
        return visible_line(record["reason"])
    decision = record.get("filter") or {"kept": True}
    return None if decision["kept"] else visible_line(decision.get("reason") or "dropped")


def steps(run: cli.Run, path: str) -> list[dict[str, Any]]:
    run.files = (path,)
    return [line.record for line in run.lines("train_step")]


def read(
    run: cli.Run,
    name: str,
    path: str,
    best_trace: bool = False,
    keep: Callable[[dict[str, Any], str], None] | None = None,
) -> RunSet:
    """The graded rollouts of one file, each given to `keep` with the set's name; others, and one that came before, are rejected."""
    run_set, traces = RunSet(name), Traces()
    seen: dict[str, int] = {}
    run.files = (path,)
    for line in run.lines("rollout"):
        if (id := line.record["id"]) in seen:
            run.reject(line, f"rollout {id} again, first in line {seen[id]}: a run counts once")
        else:
            try:
                graded = graded_run(line.record)
            except RecordError as error:
                run.reject(line, str(error))
                continue
            seen[id] = line.number
            if best_trace and "trace" in line.record:
                traces.add(line.record, graded)
            else:
                run_set.add(graded)
            if keep is not None:
                keep(line.record, name)
            run.counts["rollouts"] += 1
    for graded in traces.runs():
        run_set.add(graded)
    return run_set


def labels(files: Sequence[str]) -> list[str]:
    """What tells the files apart: their names, or else the folders in which they differ (runs/a/steps.jsonl: a)."""
    names = ["stdin" if path == "-" else os.path.basename(path).removesuffix(".jsonl") for path in files]
    if len(set(names)) == len(names):
        return names
    if len(set(files)) < len(files):
        return list(files)
    parts = [os.path.normpath(path).removesuffix(".jsonl").split(os.sep) for path in files]
    first = _alike(parts)
    last = _alike([path[:first:-1] for path in parts])
    found = ["/".join(path[first : len(path) - last]) for path in parts]
    return found if all(found) and len(set(found)) == len(found) else list(files)


def _alike(parts: Sequence[Sequence[str]]) -> int:
    """In how many of their first parts all of them agree."""
    return sum(1 for _ in takewhile(lambda found: len(set(found)) == 1, zip(*parts, strict=False)))
