"""One task for a human: what is asked and how it is scored, its files, and its thresholds among the baselines.

Tells nothing of hidden answers or rules. Not covered: the head of the data and the hidden rule (mle-gen-task --describe).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...base.visible import visible_line
from ...records.task import Task
from ...tasks.show import ladder
from . import facts
from .header import NAME, fact
from .lines import DIM, Section, View, block, count, folded, styled

if TYPE_CHECKING:
    from rich.text import Text

DESCRIPTION = (40, 10)  # first and last lines that are shown
MOST_FILES = 12
MOST_LABELS = 12


def task_lines(task: Task, view: View, data: Path) -> Iterator["Text"]:
    """The task (a valid record) as lines without their ends. data: the folder that it may lie below, for sizes."""
    sections = [
        Section(f"task {task['id']}", folded(_facts(task, data / task["data"]["dir"]), view, NAME), apart=False),
        Section("description", block(task["description"], view, ends=DESCRIPTION, words=True)),
    ]
    if rungs := list(ladder(task)):
        sections.insert(1, Section("thresholds among baselines, from worst to best", map(styled, rungs)))
    for section in sections:
        yield from section.text(view)
    yield styled("")


def task_row(task: Task) -> dict[str, str]:
    """The cells of a task by column, for a table of tasks."""
    thresholds = cast(Mapping[str, float], task.get("thresholds") or {})
    return {
        "id": task["id"],
        "modality": task["modality"],
        "problem": task["problem"],
        "metric": task["metric"].get("name", "code"),
        "better": "lower" if task["metric"]["lower_is_better"] else "higher",
        "rows": f"{task['submission']['rows']:,}",
        "median": facts.number(thresholds.get("median")),
        "gold": facts.number(thresholds.get("gold")),
    }


def _facts(task: Task, folder: Path) -> Iterator["Text"]:
    submission, metric, provenance = task["submission"], task["metric"], task["provenance"]
    yield fact("name", f"{task['name']}: {task['modality']}, {task['problem'].replace('_', ' ')}")
    direction = "lower" if metric["lower_is_better"] else "higher"
    params = "".join(f", {name} {value}" for name, value in metric.get("params", {}).items())
    code = f"a metric that is code ({metric.get('file')})"
    yield fact("metric", (metric.get("name", code), "bold"), f", {direction} is better{params}")
    labels = submission.get("labels") or []
    some = ", ".join(map(str, labels[:MOST_LABELS])) + (" ..." if len(labels) > MOST_LABELS else "")
    alphabet = f"; {count(len(labels), 'label')}: {some}" if labels else ""
    columns = f"{', '.join(submission['id'])} and {', '.join(submission['target'])} ({submission['parse']})"
    yield fact("submission", f"{columns}, {count(submission['rows'], 'row')}{alphabet}")
    yield from _files(task, folder)
    against = "against baselines, not people" if provenance.get("baselines") else "against people"
    yield fact("ranks", against if "leaderboard" in task else "none: no leaderboard")
    origin = provenance.get("competition") or provenance.get("benchmark") or ""
    yield fact("source", ", ".join(filter(None, (provenance["source"], origin, f"seed {provenance['seed']}"))))
    results = provenance.get("sanity", {})
    counts = Counter(result.partition(":")[0] for result in results.values() if isinstance(result, str))
    found = [f"{number} {visible_line(result)}" for result, number in counts.most_common()]
    found += [f"{visible_line(name)} {value:g}" for name, value in results.items() if isinstance(value, (int, float))]
    if found:
        yield fact("checks", ", ".join(found))


def _files(task: Task, folder: Path) -> Iterator["Text"]:
    """The public files, with their sizes where the folder is there."""
    names = task["data"]["public"]
    for at, name in enumerate(names[:MOST_FILES]):
        path = folder / "public" / name
        size = f" {path.stat().st_size:,} bytes" if path.is_file() else ""
        yield fact("" if at else "files", name, (size, DIM))
    if len(names) > MOST_FILES:
        yield fact("", f"and {len(names) - MOST_FILES:,} more")
