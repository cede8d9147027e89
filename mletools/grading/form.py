"""The form of submissions to a metric that is code, which are checked before the metric sees them.

What the task's record says goes: columns, ids, number of rows, finite numbers. A record may say what was guessed when
the task was imported, so a rule that the task's own sample submission breaks does not apply. Not covered: all other
cells, which the metric reads.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import cast

from ..records.task import SubmissionFormat, Task
from . import parsing
from .answers import Key, all_numbers, keys_of, stack
from .submission import check_ids, submitted_columns
from .table import Invalid, read_table

Columns = Mapping[str, list[str]]


@dataclass(frozen=True)
class Form:
    """What is asked of a submission.

    `columns` must be there. Its ids are `known`, and all that are `needed` are among them; known None: they are not
    checked. `numeric` and `several`: as in answers.Answers and submission.check_ids. `targets` must be finite numbers.
    """

    spec: SubmissionFormat
    columns: list[str]
    known: AbstractSet[Key] | None
    needed: Collection[Key]
    numeric: tuple[bool, ...]
    several: bool
    targets: list[str]


def form_of(task: Task, answers: bytes | None, sample: bytes | None) -> Form:
    """The form of the submissions to a task, from its record, its answers and its sample submission, None where it has
    none. Files that are no CSV, or lack the columns of the ids, say nothing.
    """
    spec = task["submission"]
    ids = spec["id"]
    truth, example = _table(answers), _table(sample)
    asked = list(dict.fromkeys([*ids, *spec["target"]]))
    columns = [name for name in asked if example is None or name in example]
    numbers = spec["parse"] == "number" and not spec.get("empty_ok")
    targets = [name for name in spec["target"] if name in columns and numbers]
    if example is not None:
        targets = [name for name in targets if all(map(_may_be_number, example[name]))]
    tables = [table for table in (truth, example) if table is not None and all(name in table for name in ids)]
    if not tables or not set(ids) <= set(columns):
        return Form(spec, columns, None, (), (), True, targets)
    numeric = tuple(all(all_numbers(table[name]) for table in tables) for name in ids)
    repeated = spec.get("repeated_ids", False)
    keys = [dict.fromkeys(keys_of([table[name] for name in ids], numeric, repeated)) for table in tables]
    several = any(len(found) < len(table[ids[0]]) for found, table in zip(keys, tables, strict=True))
    needed = keys[0]
    if tables[0] is example:  # the answers do not tell which ids there are
        needed = needed if len(needed) == spec["rows"] else {}
    elif len(keys) > 1:
        needed = needed if needed.keys() <= keys[1].keys() else {}
    known = keys[0].keys() | keys[-1].keys()
    return Form(spec, columns, known, needed, numeric, several or spec.get("several_rows", False), targets)


def check_form(form: Form, content: bytes) -> None:
    """Invalid where a submission has not this form."""
    spec, ids = form.spec, form.spec["id"]
    rows = spec["rows"] if form.known is None else max(len(form.known), 1)
    columns = submitted_columns(content, spec, form.columns, rows, form.several)
    if form.known is None:
        keys: list[Key] = [f"{number + 1} of the file" for number in range(len(next(iter(columns.values()), [])))]
    else:
        keys = keys_of([columns[name] for name in ids], form.numeric, spec.get("repeated_ids", False))
        asked = keys if spec.get("extra_rows") != "ignore" else [key for key in keys if key in form.known]
        check_ids(asked, form.known, form.needed, form.several, spec.get("most_rows"))
    if form.targets:
        stack({name: columns[name] for name in form.targets}, cast(parsing.TableFormat, spec), keys)


def _table(content: bytes | None) -> Columns | None:
    if content is None:
        return None
    try:
        columns = read_table(content)[1]
    except Invalid:
        return None
    return columns if any(columns.values()) else None


def _may_be_number(cell: str) -> bool:
    try:
        parsing.number([cell], {})
    except parsing.BadCell:
        return not cell.strip()
    return True
