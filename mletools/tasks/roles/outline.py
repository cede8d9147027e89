"""What the strategist is shown of a seed task: its page, its columns in figures, its files, how it is scored.

Only the record and public files are looked at; cells of text stay unseen. Not covered: what the model makes of it.
"""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from ...records.csv_files import CsvError, read_rows
from ..folder import Content, read, size

MOST_DESCRIPTION = 6000  # characters
MOST_READ = 2 << 20  # bytes of a table
MOST_ROWS = 5000
MOST_TABLES = 6
MOST_COLUMNS = 40


def outline(seed_task: Mapping[str, Any], seed_files: Mapping[str, Content]) -> str:
    """Markdown about a seed task; `seed_files` are its public files by their name below public/."""
    metric, submission = seed_task["metric"], seed_task["submission"]
    better = "lower" if metric["lower_is_better"] else "higher"
    lines = [
        f"- modality: {seed_task['modality']}; problem: {seed_task['problem']}",
        f"- metric: {metric.get('name', 'a program of its own')}; {better} is better",
        f"- to be predicted: {submission['rows']} rows, columns {', '.join(submission['target'][:MOST_COLUMNS])},"
        f" cells read as {submission['parse']}",
        "",
        "## Files",
        "",
        *_files(seed_files),
        "",
        "## Tables",
        "",
        *_tables(seed_files),
        "",
        "## Its page",
        "",
        description_of(seed_task, MOST_DESCRIPTION),
    ]
    return "\n".join(lines)


def description_of(seed_task: Mapping[str, Any], most: int) -> str:
    """The first `most` characters of a task's description."""
    text = str(seed_task["description"])
    return text if len(text) <= most else text[:most].rstrip() + "\n[...]"


def _files(files: Mapping[str, Content]) -> list[str]:
    """A line for each file at the top, and one for each folder and ending below it."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for name in sorted(files):
        path = PurePosixPath(name)
        what = name if len(path.parts) == 1 else f"{path.parts[0]}/*{path.suffix}"
        counts[what] += 1
        sizes[what] += size(files[name])
    return [f"- {what}: {counts[what]} file(s), {sizes[what]} bytes" for what in list(counts)[:100]]


def _tables(files: Mapping[str, Content]) -> list[str]:
    lines: list[str] = []
    tables = [name for name in sorted(files) if name.endswith(".csv") and "/" not in name]
    for name in tables[:MOST_TABLES]:
        rows = _rows(files[name])
        if not rows or not rows[0]:
            continue
        header, *body = rows
        columns = list(zip(*(row for row in body if len(row) == len(header)), strict=True)) or [()] * len(header)
        lines.append(f"{name}: {len(body)} rows read, {len(header)} columns")
        for column, cells in list(zip(header, columns, strict=True))[:MOST_COLUMNS]:
            lines.append(f"- {column}: {_figures(cells)}")
    return lines or ["(none)"]


def _rows(content: Content) -> list[list[str]]:
    """The first rows of a CSV file; none where it is no such thing."""
    head = read(content, MOST_READ)
    if len(head) == MOST_READ:
        head = head[: head.rfind(b"\n") + 1]
    try:
        return list(islice(read_rows(head, strict=False), MOST_ROWS + 1))
    except CsvError:
        return []


def _figures(cells: tuple[str, ...]) -> str:
    """A column in figures: gaps, different values, and range and skew of numbers or the length of texts."""
    there = [cell for cell in cells if cell]
    if not there:
        return "empty"
    different = Counter(there)
    told = [f"{len(different)} different values", f"{100 * (len(cells) - len(there)) / len(cells):.0f} % empty"]
    try:
        values = sorted(float(cell) for cell in there)
        if not all(math.isfinite(value) for value in values):
            raise ValueError
        middle, mean = values[len(values) // 2], sum(values) / len(values)
        told.append(f"numbers from {values[0]:.4g} to {values[-1]:.4g}, median {middle:.4g}, mean {mean:.4g}")
    except ValueError:
        lengths = [len(cell) for cell in there]
        told.append(f"texts of {min(lengths)} to {max(lengths)} characters")
    if len(different) <= 20:
        shares = [f"{100 * count / len(there):.0f}" for _, count in different.most_common()]
        told.append(f"shares {'/'.join(shares)} %")
    return ", ".join(told)
