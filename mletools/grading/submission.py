"""Read a submission: untrusted bytes in, arrays aligned with the answers out, or a reason that an agent can act on.

The cost of reading is bounded: bytes (an argument), columns and cells (table); rows: twice those of the answers, or
MAX_ROWS_PER_ID times, at most MAX_ROWS, where ids may repeat or unknown ids are ignored; characters of one cell and of
all (parsing.LIMITS), or a multiple of the answers'. Not covered: the cost of the comparison (metrics.bounds).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

from ..records.task import SubmissionFormat
from .answers import Answers, Key, Sizes, describe_key, joined, keys_of, stack
from .parsing import ID_LIMIT, LIMITS, NO_LIMIT, Limit, TableFormat
from .table import Invalid, listed, read_table

MAX_BYTES = 32 * 1024 * 1024
MAX_ROWS_PER_ID = 1000
MAX_ROWS = 1_500_000
# Bounds on the longest cell and on all cells, as multiples of the answers'.
TIMES_LONGEST, TIMES_TOTAL = 10, 3
ROW_SUM_TOLERANCE = 1e-3


def read_submission(content: bytes, spec: SubmissionFormat, answers: Answers, max_bytes: int = MAX_BYTES) -> Any:
    """The submission's targets in the answers' row order, an array of shape (rows, targets). Invalid with a reason."""
    import numpy as np

    if len(content) > max_bytes:
        raise Invalid(f"the file has {len(content)} bytes; at most {max_bytes} are read")
    several = spec.get("several_rows", False)
    rows = len(answers.position)
    columns = submitted_columns(content, spec, [*spec["id"], *spec["target"]], rows, several)
    if len(content) > ID_LIMIT.cell:
        ids = {name: columns[name] for name in spec["id"]}
        _check_lengths(ids, ID_LIMIT, answers.id_sizes, lambda at: f"row {at + 1} of the file")
    keys = _keys([columns[name] for name in spec["id"]], spec, answers)
    targets = {name: columns[name] for name in spec["target"]}
    if spec.get("extra_rows") == "ignore":
        known = [at for at, key in enumerate(keys) if key in answers.position]
        keys = [keys[at] for at in known]
        targets = {name: [cells[at] for at in known] for name, cells in targets.items()}
    order = _order(keys, answers, several, spec.get("most_rows") if several else None)
    if several:
        keys, targets = list(answers.position), joined(targets, order, rows, spec)
    if len(content) > LIMITS[spec["parse"]].cell:
        _check_lengths(targets, LIMITS[spec["parse"]], answers.sizes, lambda at: f"row {describe_key(keys[at])}")
    values = stack(targets, cast(TableFormat, {**spec, "alphabet": answers.alphabet}), keys)
    if "row_sum" in spec:
        _check_row_sum(values, spec["row_sum"], spec.get("row_sum_within", ROW_SUM_TOLERANCE), keys)
    if several:
        return values
    aligned = np.empty_like(values)
    aligned[order] = values
    return aligned


def submitted_columns(
    content: bytes, spec: SubmissionFormat, expected: Sequence[str], rows: int, several: bool
) -> dict[str, list[str]]:
    """The cells of the `expected` columns; `rows` ids are known, which may have `several` rows each. Invalid."""
    more = several or spec.get("extra_rows") == "ignore"
    most = max(2 * rows, min(rows * MAX_ROWS_PER_ID, MAX_ROWS)) if more else 2 * rows
    header, columns = read_table(content, expected, most)
    if spec.get("extra_columns") == "refuse" and len(header) > len(expected):
        extra = next(name for name in header if name not in expected)
        raise Invalid(f"column {extra!r} is not allowed; the columns must be {listed(expected)}")
    return columns


def _check_lengths(
    columns: Mapping[str, Sequence[str]], limit: Limit, answers: Sizes, row: Callable[[int], str]
) -> None:
    """Invalid where a cell, or all cells together, exceed the limit and a multiple of the answers' lengths."""
    most = _most(limit.cell, TIMES_LONGEST * answers.longest)
    for name, cells in columns.items():
        longest = max(map(len, cells), default=0)
        if longest > most:
            where = row(next(at for at, cell in enumerate(cells) if len(cell) == longest))
            raise Invalid(f"column {name!r} of {where} has {longest} characters; at most {most} are read")
    most = _most(limit.total, TIMES_TOTAL * answers.total)
    total = 0 if limit.total == NO_LIMIT else sum(sum(map(len, cells)) for cells in columns.values())
    if total > most:
        raise Invalid(f"the cells to be scored have {total} characters in all; at most {most} are read")


def _most(limit: int, answers: int) -> int:
    """The larger bound; that of the answers is rounded up to a power of two, so as not to reveal their length."""
    return limit if answers <= limit else 1 << (answers - 1).bit_length()


def _keys(cells: Sequence[Sequence[str]], spec: SubmissionFormat, answers: Answers) -> list[Key]:
    """The ids of the rows, in the answers' notation."""
    repeated = spec.get("repeated_ids", False)
    if len(cells) == 1 and not repeated and answers.position.keys() >= set(cells[0]):
        return list(cells[0])  # the common case: same notation
    return keys_of(cells, answers.numeric, repeated)


def _order(keys: Sequence[Key], answers: Answers, several: bool, most: int | None) -> list[int]:
    """The answers' row of each row; Invalid for missing, duplicate or unknown ids."""
    position = answers.position
    check_ids(keys, position.keys(), position, several, most)
    return [position[key] for key in keys]


def check_ids(
    keys: Sequence[Key], known: AbstractSet[Key], needed: Collection[Key], several: bool, most: int | None
) -> None:
    """Invalid where an id that is `needed` is missing, another than a `known` one is there, or one has too many rows.

    several: an id may have several rows, `most` of them unless that is None.
    """
    distinct = set(keys)
    if not several and len(distinct) < len(keys):
        seen: set[Key] = set()
        for key in keys:
            if key in seen:
                raise Invalid(f"id {describe_key(key)} appears twice")
            seen.add(key)
    if most is not None and len(keys) > most:  # else no id can have more
        key, times = Counter(keys).most_common(1)[0]
        if times > most:
            raise Invalid(f"id {describe_key(key)} has {times} rows; at most {most} are allowed")
    unknown = distinct - known
    if unknown:
        first = next(key for key in keys if key in unknown)
        raise Invalid(
            f"id {describe_key(first)} is not in the test set ({sum(key in unknown for key in keys)} such rows)"
        )
    missing = [key for key in needed if key not in distinct] if len(distinct) < len(known) else []
    if missing:
        raise Invalid(f"{len(missing)} of {len(needed)} rows are missing, for example id {describe_key(missing[0])}")


def _check_row_sum(values: Any, expected: float, tolerance: float, keys: Sequence[Key]) -> None:
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        sums = values.sum(axis=1)
    wrong = ~(abs(sums - expected) <= tolerance)  # a sum of huge numbers may be none
    if wrong.any():
        at = int(wrong.argmax())
        raise Invalid(f"the targets of row {describe_key(keys[at])} sum to {sums[at]:.9g}, not {expected:g}")
