"""Read a submission: untrusted bytes in, arrays aligned with the answers out, or a reason that an agent can act on.

Bounded: bytes (an argument), columns and cells (table), rows: twice those of the answers, or MAX_ROWS_PER_ID times where an
id may have several rows or foreign ones are passed over; more cannot be right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .answers import Answers, Key, joined, keys_of, stack, told
from .table import Invalid, listed, read_table

MAX_BYTES = 32 * 1024 * 1024
MAX_ROWS_PER_ID = 1000
ROW_SUM_TOLERANCE = 1e-3


def read_submission(content: bytes, spec: Mapping[str, Any], answers: Answers, max_bytes: int = MAX_BYTES) -> Any:
    """The submission's targets in the answers' row order, an array of shape (rows, targets). Invalid with a reason."""
    import numpy as np

    if len(content) > max_bytes:
        raise Invalid(f"the file has {len(content)} bytes; at most {max_bytes} are read")
    several = spec.get("several_rows", False)
    more = several or spec.get("extra_rows") == "ignore"
    rows = len(answers.position)
    wanted = [*spec["id"], *spec["target"]]
    header, columns = read_table(content, wanted, rows * MAX_ROWS_PER_ID if more else 2 * rows)
    if spec.get("extra_columns") == "refuse" and len(header) > len(wanted):
        extra = next(name for name in header if name not in wanted)
        raise Invalid(f"column {extra!r} does not belong here; the columns must be {listed(wanted)}")
    keys = _keys([columns[name] for name in spec["id"]], spec, answers)
    targets = {name: columns[name] for name in spec["target"]}
    if spec.get("extra_rows") == "ignore":
        known = [at for at, key in enumerate(keys) if key in answers.position]
        keys = [keys[at] for at in known]
        targets = {name: [cells[at] for at in known] for name, cells in targets.items()}
    order = _order(keys, answers, several)
    if several:
        keys, targets = list(answers.position), joined(targets, order, rows, spec)
    values = stack(targets, {**spec, "truth_values": answers.truth_values}, keys)
    if "row_sum" in spec:
        _check_row_sum(values, spec["row_sum"], keys)
    if several:
        return values
    aligned = np.empty_like(values)
    aligned[order] = values
    return aligned


def _keys(cells: Sequence[Sequence[str]], spec: Mapping[str, Any], answers: Answers) -> list[Key]:
    """The ids of the rows, in the answers' way of writing them."""
    repeated = spec.get("repeated_ids", False)
    if len(cells) == 1 and not repeated and answers.position.keys() >= set(cells[0]):
        return list(cells[0])  # written as the answers are: nothing to do, which is the common case
    return keys_of(cells, answers.numeric, repeated)


def _order(keys: Sequence[Key], answers: Answers, several: bool) -> list[int]:
    """The answers' row of each row; Invalid for missing, doubled or foreign ids."""
    position = answers.position
    there = set(keys)
    if not several and len(there) < len(keys):
        seen: set[Key] = set()
        for key in keys:
            if key in seen:
                raise Invalid(f"id {told(key)} appears twice")
            seen.add(key)
    foreign = there - position.keys()
    if foreign:
        first = next(key for key in keys if key in foreign)
        raise Invalid(f"id {told(first)} is not in the test set ({sum(key in foreign for key in keys)} such rows)")
    missing = len(position) - len(there)
    if missing:
        lacking = next(key for key in position if key not in there)
        raise Invalid(f"{missing} of {len(position)} rows are missing, for example id {told(lacking)}")
    return [position[key] for key in keys]


def _check_row_sum(values: Any, wanted: float, keys: Sequence[Key]) -> None:
    sums = values.sum(axis=1)
    wrong = abs(sums - wanted) > ROW_SUM_TOLERANCE
    if wrong.any():
        at = int(wrong.argmax())
        raise Invalid(f"the targets of row {told(keys[at])} sum to {sums[at]:.5g}, not {wanted:g}")
