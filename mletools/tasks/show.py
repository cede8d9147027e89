"""One task for a human: the story, the head of its data, the hidden rule, the ladder of baselines, as plain text.

It tells what a solver must not know. Not covered: many tasks at once (jq does that).
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import cast

from ..base.columns import blocks
from ..base.csv_files import CsvError, read_rows
from ..base.errors import ToolError, data_advice
from ..records.task import Provenance, Task

HEAD_LINES = 5
WIDTH = 24
MOST_COLUMNS = 9
SMALL = 1e-3  # scores below are told in digits, not in decimals
BAR = 40
STORY = 110  # columns
HEAD_PADDING = 2  # that tabulate adds to the name of a column


def show(task: Task, folder: Path, room: int | None = None) -> str:
    """The text about a task whose files lie in `folder`, in `room` columns. ToolError: train.csv cannot be read."""
    provenance = task["provenance"]
    rule = str(provenance.get("hidden_rule", "none is known")).replace("; ", "\n").split("\n")
    lines = [
        f"{task['id']}",
        *_folded(
            f"{task['modality']}, {task['problem']}, {task['metric'].get('name', 'a metric that is code')}"
            f" ({'lower' if task['metric']['lower_is_better'] else 'higher'} is better), {folder}",
            room,
        ),
        "",
        *_story(task["description"], min(room or STORY, STORY)),
        "",
        *_head(folder / "public" / "train.csv", room),
        "",
        "The rule (hidden from solvers)",
        *(line for part in rule for line in _folded(f"  {part}", room)),
        *(line for name in _mutations(provenance) for line in _folded(f"  {name}", room)),
        "",
        "Baselines on the hidden test set, and the thresholds",
        *ladder(task),
    ]
    return "\n".join(lines) + "\n"


def _story(description: str, width: int) -> Iterator[str]:
    """The description up to its list of files."""
    import textwrap

    for paragraph in description.partition("\n## Files")[0].strip().split("\n"):
        yield from textwrap.wrap(paragraph, width) or [""]


def _folded(line: str, room: int | None) -> list[str]:
    import textwrap

    if room is None:
        return [line]
    return textwrap.wrap(line, room, subsequent_indent=" " * 4, break_long_words=False, break_on_hyphens=False)


def _head(path: Path, room: int | None) -> Iterator[str]:
    from tabulate import tabulate

    if path.parent.is_dir() and not path.exists():
        yield f"There is no {path.name}"
        return
    try:
        rows = list(islice(filter(None, read_rows(path, strict=False)), HEAD_LINES + 1))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}: {data_advice()}") from None
    except CsvError as error:
        raise ToolError(f"{path}: {error}") from None
    if not rows:
        yield f"{path.name} is empty"
        return
    yield f"The first lines of {path.name}"
    width = len(rows[0])
    kept = list(range(width)) if width <= MOST_COLUMNS else [*range(MOST_COLUMNS - 2), width - 1]
    table = [[_short(row[at]) if at < len(row) else "" for at in kept] for row in rows]
    if len(kept) < width:
        table = [[*row[:-1], "...", row[-1]] for row in table]
    widths = [max(len(name) + HEAD_PADDING, *map(len, cells)) for name, *cells in zip(*table, strict=True)]
    for part in blocks(table[0], widths, 1, None if room is None else room - 2):
        header, *cells = [[row[at] for at in part] for row in table]
        yield from (f"  {line}" for line in tabulate(cells, header, disable_numparse=True).split("\n"))


def _short(cell: str) -> str:
    line = " ".join(cell.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _mutations(provenance: Provenance) -> Iterator[str]:
    """A line for each mutation: its name or type, then its other settings and its effect, whatever the source has."""
    for each in provenance.get("mutations", []):
        if not isinstance(each, Mapping):
            yield f"mutation {each}"
            continue
        name = each.get("name") or each.get("type", "")
        settings = {
            key: value for key, value in each.items() if key not in ("name", "type", "medium", "effect") and value
        }
        shown = f" ({', '.join(f'{key} {value}' for key, value in settings.items())})" if settings else ""
        yield f"mutation {name}{shown}" + (f": {each['effect']}" if each.get("effect") else "")


def ladder(task: Task) -> Iterator[str]:
    """A line for each baseline and threshold from worst to best, with a bar between the worst and the best of them."""
    sign = -1 if task["metric"]["lower_is_better"] else 1
    rungs = [(entry["name"], entry["score"]) for entry in task["provenance"].get("baselines", [])]
    thresholds = cast(dict[str, float], task.get("thresholds", {}))
    rungs += [(f"--- {name} ---", score) for name, score in thresholds.items()]
    if not rungs:
        return
    rungs.sort(key=lambda rung: sign * rung[1])
    low, high = sign * rungs[0][1], sign * rungs[-1][1]
    width = max(18, *(len(name) for name, _ in rungs))
    for name, score in rungs:
        place = (sign * score - low) / (high - low) if high > low else 1.0
        yield f"  {name:<{width}} {score:>12{'.5f' if abs(score) >= SMALL or not score else '.4g'}}  {'#' * round(BAR * place)}".rstrip()
