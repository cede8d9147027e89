"""How the answers of a set were read: in the exact form, leniently by which rule, or not for which reason.

Shares are of all answers together (turns that say it), not means over tasks: long rollouts weigh more.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .courses import ALL, Rows
from .lines import Record, Table
from .runs import RunSet

Readings = Counter[tuple[str, str | None]]  # by `read` and `rule` of a turn's format


def add_formats(rows: Rows, sets: Sequence[RunSet], number: int) -> None:
    """Give the rows of a set's tasks, and of all of them, `format` where answers say how they were read."""
    found = {task: sum((run.readings for run in runs), Counter()) for task, runs in sets[number].tasks.items()}
    found = {task: counts for task, counts in found.items() if counts}
    for task, counts in found.items():
        rows[task, number]["format"] = _shares(counts)
    if found:
        rows[ALL, number]["format"] = _shares(sum(found.values(), Counter()))


def _shares(counts: Readings) -> dict[str, Any]:
    answers = counts.total()
    shares: dict[str, Any] = {"answers": answers, "exact": counts["exact", None] / answers}
    for read in ("lenient", "none"):
        of_read = {rule or "": count for (each, rule), count in counts.most_common() if each == read}
        shares[read] = {rule: count / answers for rule, count in of_read.items()}
    return shares


def formats(rows: Sequence[Record]) -> Table | None:
    """For each set the shares of its answers by how they were read; None where nobody says."""
    lines = []
    for row in (row for row in rows if "format" in row):
        form = row["format"]
        lines.append(["exact", "", row["set"], str(form["answers"]), f"{form['exact']:.1%}"])
        for read, words in (("lenient", "lenient"), ("none", "not read")):
            lines += [[words, rule, row["set"], "", f"{share:.1%}"] for rule, share in form[read].items()]
    header = ["answers", "rule or reason", "set", "of", "share"]
    return Table(header, lines, ("answers", "rule or reason", "set"), "How answers were read") if lines else None
