"""The answers of a task, cached for all its submissions: ids, true values, scored rows.

Not covered: which columns a metric needs (the package's __init__).
"""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from ..base.csv_files import MISSING
from ..base.errors import ToolError, data_advice
from ..records.task import RowCondition, Scoring, SubmissionFormat
from . import parsing
from .alphabet import Alphabet, alphabet_of
from .parsing import BadCell, TableFormat
from .table import Invalid, listed, read_table

ALL_COLUMNS = "*"  # as the name of a requested column
Key = Any  # an id: text, a tuple of texts where the task has several id columns, Nth where ids repeat


class Nth(NamedTuple):
    """The id of a row where ids repeat: its n-th row, counted from 1."""

    id: Any
    number: int


class Sizes(NamedTuple):
    """Length of the longest cell and total length of all cells, in characters."""

    longest: int
    total: int


def sizes(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> Sizes:
    """Sizes of the columns with these names."""
    cells = [columns[name] for name in names]
    return Sizes(
        max((max(map(len, each), default=0) for each in cells), default=0), sum(sum(map(len, each)) for each in cells)
    )


@dataclass(frozen=True)
class Answers:
    """The parsed answers of a task.

    `position` maps an id to its row; `numeric`: whether ids compare as numbers, per id column; `columns`: the columns
    that the metric needs as text, one cell per row; `truth` has the shape (rows, targets); `counts`: the indices of the
    scored rows, None for all; `alphabet`: the labels or items; `sizes` of the targets' cells, `id_sizes` of the ids.
    """

    position: Mapping[Key, int]
    numeric: tuple[bool, ...]
    columns: Mapping[str, Sequence[str]]
    truth: Any
    counts: Any
    alphabet: Alphabet
    sizes: Sizes
    id_sizes: Sizes


def answer_spec(task: Scoring) -> TableFormat:
    """How to read the answers' cells: as the submission's, unless the task's answer_* keys say otherwise."""
    predictions_only = ("range", "row_sum", "row_sum_within", "several_rows", "most_rows", "labels")
    spec: dict[str, object] = {
        name: value for name, value in task["submission"].items() if name not in predictions_only
    }
    for name in ("target", "parse", "separator", "fields", "empty_marker", "several_rows"):
        if f"answer_{name}" in task:
            spec[name] = dict(task)[f"answer_{name}"]
    return cast(TableFormat, {**spec, "empty_ok": True, "booleans": True})


def read_answers(path: str, task: Scoring, names: Sequence[str] = ()) -> Answers:
    """The answers file of `task` with the columns `names`, cached in memory. ToolError when it cannot be read."""
    grading = [answer_spec(task), task["metric"].get("where", []), names]
    try:
        modified_ns = os.stat(path).st_mtime_ns
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; {data_advice()}") from None
    return _read_answers(path, modified_ns, json.dumps(grading))


@functools.lru_cache(maxsize=32)
def _read_answers(path: str, modified_ns: int, grading: str) -> Answers:
    try:
        with open(path, "rb") as file:
            return parse_answers(file.read(), *json.loads(grading))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None
    except ToolError as error:
        raise ToolError(f"{path}: {error}") from None


def parse_answers(
    content: bytes, spec: TableFormat, where: Sequence[RowCondition] = (), names: Sequence[str] = ()
) -> Answers:
    """The answers in a CSV file, with the columns `names` (ALL_COLUMNS: all). ToolError: broken answers."""
    try:
        return _answers(content, spec, where, names)
    except Invalid as problem:
        raise ToolError(f"the answers cannot be read: {problem}") from None


def _answers(content: bytes, spec: TableFormat, where: Sequence[RowCondition], names: Sequence[str]) -> Answers:
    header, columns = read_table(content)
    for name in (*spec["id"], *spec["target"], *names, *(rule.get("column", rule.get("of")) for rule in where)):
        if name not in columns and name != ALL_COLUMNS:
            raise Invalid(f"there is no column {name!r}; the columns are {listed(header)}")
    if not columns[header[0]]:
        raise Invalid("there are no rows")
    numeric = tuple(all_numbers(columns[name]) for name in spec["id"])
    keys = keys_of([columns[name] for name in spec["id"]], numeric, spec.get("repeated_ids", False))
    id_sizes = sizes(columns, spec["id"])
    target = spec["target"]
    if spec.get("several_rows"):
        columns, keys, target = _joined_answers(columns, keys, spec)
    position = {key: at for at, key in enumerate(keys)}
    if len(position) < len(keys):
        duplicate = next(key for at, key in enumerate(keys) if position[key] != at)
        raise Invalid(f"id {describe_key(duplicate)} is in two rows")
    counts = _scored_rows(columns, where)
    truth = stack({name: _filled(columns[name], counts) for name in target}, spec, keys)
    kept = columns if ALL_COLUMNS in names else {name: columns[name] for name in names}
    alphabet = alphabet_of(truth, spec["parse"])
    return Answers(position, numeric, kept, truth, counts, alphabet, sizes(columns, target), id_sizes)


def _filled(cells: Sequence[str], counts: Any) -> Sequence[str]:
    """The cells; those of rows that are not scored, which may be empty, become a copy of a scored one."""
    if counts is None:
        return cells
    filled = [cells[counts[0]]] * len(cells)
    for at in counts:
        filled[at] = cells[at]
    return filled


def all_numbers(cells: Sequence[str]) -> bool:
    """True if ids can compare as numbers: all are numeric and remain distinct."""
    if not all(cell.strip().lstrip("-").replace(".", "", 1).isdigit() for cell in cells):
        return False
    return len(set(parsing.canonical(cells))) == len(set(cells))


def keys_of(columns: Sequence[Sequence[str]], numeric: Sequence[bool], repeated: bool) -> list[Key]:
    """The ids of the rows, from the cells of the id columns."""
    texts = [parsing.canonical(cells) if number else cells for cells, number in zip(columns, numeric, strict=True)]
    keys: list[Key] = list(texts[0]) if len(texts) == 1 else list(zip(*texts, strict=True))
    if not repeated:
        return keys
    seen: dict[Key, int] = {}
    numbered: list[Key] = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        numbered.append(Nth(key, seen[key]))
    return numbered


def describe_key(key: Key) -> str:
    """An id as quoted in messages."""
    if isinstance(key, Nth):
        return f"{describe_key(key.id)} (its row {key.number})"
    return parsing.shown(key) if isinstance(key, str) else repr(key)[:200]


def stack(columns: Mapping[str, Sequence[str]], spec: TableFormat, keys: Sequence[Key]) -> Any:
    """Parsed columns as one array of shape (rows, targets). Invalid with the column, the row and the problem."""
    import numpy as np

    read = parsing.KINDS[spec["parse"]]
    parsed = []
    for name, cells in columns.items():
        if "missing_as" in spec:
            cells = [spec["missing_as"] if cell in MISSING else cell for cell in cells]
        try:
            parsed.append(read(cells, spec))
        except BadCell as bad:
            raise Invalid(f"column {name!r} of row {describe_key(keys[bad.at])} is {bad.problem}") from None
    return np.stack(parsed, axis=1)


def joined(
    columns: Mapping[str, Sequence[str]], order: Sequence[int], rows: int, spec: SubmissionFormat
) -> dict[str, list[str]]:
    """The cells of each id's rows, joined in file order. order: the id's number of each row, below `rows`."""
    separator = spec.get("separator") or (";" if spec["parse"] in ("spans", "rle") else " ")
    empty = {"", spec.get("empty_marker", "")}
    columns_by_name = {}
    for name, column in columns.items():
        parts: list[list[str]] = [[] for _ in range(rows)]
        for at, cell in zip(order, column, strict=True):
            if cell.strip() not in empty:
                parts[at].append(cell)
        columns_by_name[name] = [separator.join(each) for each in parts]
    return columns_by_name


def _joined_answers(
    columns: Mapping[str, Sequence[str]], keys: Sequence[Key], spec: TableFormat
) -> tuple[dict[str, list[str]], list[Key], list[str]]:
    """(columns, ids, targets) with one row per id: the targets' cells joined, the first cell of every other column.

    Several targets are the parts of one box and become one target.
    """
    position: dict[Key, int] = {}
    for key in keys:
        position.setdefault(key, len(position))
    order = [position[key] for key in keys]
    first: dict[int, int] = {}
    for at, row in enumerate(order):
        first.setdefault(row, at)
    target = spec["target"][:1]
    parts = zip(*(columns[name] for name in spec["target"]), strict=True)
    cells = ["" if not all(part) else " ".join(part) for part in parts]
    kept = {name: [column[at] for at in first.values()] for name, column in columns.items()}
    return {**kept, **joined({target[0]: cells}, order, len(position), spec)}, list(position), target


def _scored_rows(columns: Mapping[str, Sequence[str]], where: Sequence[RowCondition]) -> Any:
    """The indices of the scored rows, None for all; conditions apply in turn. Invalid when no row is left."""
    import numpy as np

    if not where:
        return None
    counts = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for rule in where:
        if "last" in rule:
            counts = _last(columns[rule["of"]], rule["last"], counts)
            continue
        cells = np.array(parsing.canonical(columns[rule["column"]]), dtype=object)
        if "greater" in rule:
            counts &= parsing.number(columns[rule["column"]], {}) > rule["greater"]
        elif "not_equals" in rule:
            counts &= cells != parsing.canonical_label(rule["not_equals"])
        else:
            allowed = {parsing.canonical_label(value) for value in rule.get("in", [rule.get("equals")])}
            counts &= np.array([cell in allowed for cell in cells])
    if not counts.any():
        raise Invalid("no row passes metric.where")
    return np.flatnonzero(counts)


def _last(groups: Sequence[str], number: int, counts: Any) -> Any:
    """True for the last `number` rows of each group among those in `counts`."""
    import numpy as np

    left: dict[str, int] = {}
    selected = np.zeros(len(groups), dtype=bool)
    for at in np.flatnonzero(counts)[::-1]:
        left[groups[at]] = left.get(groups[at], number) - 1
        selected[at] = left[groups[at]] >= 0
    return selected
