"""From the text of a cell to what a metric compares; one function a kind, named in KINDS.

number    a finite float
label     text without surrounding space; whole numbers lose their decimal point, so that 1.0 and 1 are one label
text      the text as it stands
tokens    list of items           order     tuple of items, a permutation of the answer's
tagset    frozenset of items      ranked    tuple of items, best first
rle       list of (start, length), whole numbers as written; a list of such lists where an id may have several rows
spans     list of (start, end) of "0 5;10 20"
boxes     list of dicts with the keys that the task's `fields` names; floats, but `label` is text

Every function takes the cells of one column and returns a numpy array of their values, or raises BadCell for the first
cell that cannot be read. Not covered: whether the values make sense, which the metric says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# A task's description of its cells: separator, fields, empty_marker, empty_ok, range, labels; of answers: booleans;
# of submissions whose answers are all True or False: truth_values.
Spec = Mapping[str, Any]
# How pandas writes truth values; answers may hold them where numbers are compared.
BOOLEANS = {"True": "1", "False": "0"}
# What stands for a truth value where all labels of the answers are truth values.
TRUTH_VALUES = {"true": "True", "1": "True", "false": "False", "0": "False"}
# Longer whole numbers are no position in any image or text, and Python would spend long on them.
MOST_DIGITS = 18
SHOWN = 50


class BadCell(ValueError):
    """The cell number `at` of the column cannot be read; `problem` completes "column 'y' of row 'a' is ..."."""

    def __init__(self, at: int, problem: str):
        super().__init__(problem)
        self.at = at
        self.problem = problem


def shown(cell: str) -> str:
    """A cell as messages quote it."""
    return repr(cell[:SHOWN]) + ("..." if len(cell) > SHOWN else "")


def canonical_label(value: Any) -> str:
    """A label as text; whole numbers lose their decimal point, so that 1.0 and 1 are one label."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    if "_" in text:  # which Python lets stand between digits
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def canonical(cells: Sequence[str]) -> list[str]:
    """canonical_label of every cell; each distinct one is looked at once."""
    known = {cell: canonical_label(cell) for cell in set(cells)}
    return [known[cell] for cell in cells]  # equal labels are one object, which is quick to compare


def number(cells: Sequence[str], spec: Spec) -> Any:
    import numpy as np

    if spec.get("booleans"):
        cells = [BOOLEANS.get(cell, cell) for cell in cells]
    try:
        values = np.fromiter(map(float, cells), dtype=float, count=len(cells))
        clean = "_" not in "".join(cells)  # Python reads 1_000 as a number; nobody else does
    except (ValueError, OverflowError):
        clean = False
    if not clean or not np.isfinite(values).all():
        at = next(at for at, cell in enumerate(cells) if not _is_number(cell))
        raise BadCell(at, f"{shown(cells[at])}, not a finite number")
    if "range" in spec:
        low, high = spec["range"]
        outside = (values < (-np.inf if low is None else low)) | (values > (np.inf if high is None else high))
        if outside.any():
            at = int(outside.argmax())
            told = (
                f"outside [{low:g}, {high:g}]"
                if None not in (low, high)
                else "below the least value"
                if high is None
                else "above the largest value"
            )
            raise BadCell(at, f"{values[at]:g}, {told}")
    return values


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def label(cells: Sequence[str], spec: Spec) -> Any:
    values = canonical(cells)
    if spec.get("truth_values"):
        values = [TRUTH_VALUES.get(value.lower(), value) for value in values]
    if "labels" in spec:
        known = {canonical_label(each): None for each in spec["labels"]}
        foreign = set(values) - set(known)
        if foreign:
            at = next(at for at, value in enumerate(values) if value in foreign)
            raise BadCell(at, f"{shown(values[at])}, not one of {', '.join([*known][:20])}")
    elif not spec.get("empty_ok") and "" in values:
        raise BadCell(values.index(""), "empty")
    return _objects(values)


def _objects(values: Sequence[Any]) -> Any:
    """An object array of shape (cells,); fromiter, because array would take lists apart."""
    import numpy as np

    return np.fromiter(values, dtype=object, count=len(values))


def _each(read: Callable[[str, Spec], Any]) -> Callable[[Sequence[str], Spec], Any]:
    """A column reader of a cell reader: empty cells and the empty marker are read as nothing, where that is allowed."""

    def column(cells: Sequence[str], spec: Spec) -> Any:
        values = []
        marker = spec.get("empty_marker")
        for at, cell in enumerate(cells):
            nothing = not cell.strip()
            if nothing and not spec.get("empty_ok"):
                raise BadCell(at, "empty")
            try:
                values.append(read("" if nothing or cell.strip() == marker else cell, spec))
            except ValueError as error:
                raise BadCell(at, f"{shown(cell)}: {error}") from None
        return _objects(values)

    return column


def _items(cell: str, spec: Spec) -> list[str]:
    separator = spec.get("separator")
    if separator is None or separator.isspace():
        return cell.split()
    return [item.strip() for item in cell.split(separator) if item.strip()]


def _text(cells: Sequence[str], spec: Spec) -> Any:
    if not spec.get("empty_ok") and "" in cells:
        raise BadCell(list(cells).index(""), "empty")
    return _objects(list(cells))


def _whole(item: str) -> int:
    if len(item) > MOST_DIGITS or not item.lstrip("-").isascii():
        raise ValueError(f"{shown(item)} is not a whole number of at most {MOST_DIGITS} digits")
    try:
        return int(item)
    except ValueError:
        raise ValueError(f"{shown(item)} is not a whole number") from None


def _rle(cell: str, spec: Spec) -> list[Any]:
    """The runs of a mask; where an id may have several rows, one list of runs for each of its masks."""
    if spec.get("several_rows"):
        return [_runs(part) for part in cell.split(";") if part.strip()]
    return _runs(cell)


def _runs(cell: str) -> list[tuple[int, int]]:
    items = cell.split()
    if len(items) % 2:
        raise ValueError("it holds an odd number of numbers: runs are pairs of a start and a length")
    return [(_whole(items[at]), _whole(items[at + 1])) for at in range(0, len(items), 2)]


# The same as a printed list of strings: ['0 5;10 20', '30 40'].
LISTED = str.maketrans({"[": " ", "]": " ", "'": " ", '"': " ", ",": ";"})


def _spans(cell: str, spec: Spec) -> list[tuple[int, int]]:
    spans = []
    for part in cell.translate(LISTED).split(";"):
        ends = part.split()
        if not ends:
            continue
        if len(ends) != 2:
            raise ValueError("spans are pairs of a start and an end, with ; between them")
        spans.append((_whole(ends[0]), _whole(ends[1])))
    return spans


def _boxes(cell: str, spec: Spec) -> list[dict[str, Any]]:
    fields = spec["fields"]
    items = cell.split()
    if len(items) % len(fields):
        raise ValueError(f"it holds {len(items)} items, not a multiple of {len(fields)} ({' '.join(fields)})")
    return [box(items[at : at + len(fields)], fields) for at in range(0, len(items), len(fields))]


def box(items: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    """One box from its items; ValueError for an item that is no finite number."""
    found: dict[str, Any] = {}
    for name, item in zip(fields, items, strict=True):
        if name == "label":
            found[name] = canonical_label(item)
        elif _is_number(item):
            found[name] = float(item)
        else:
            raise ValueError(f"{name} is {shown(item)}, not a finite number")
    return found


KINDS: dict[str, Callable[[Sequence[str], Spec], Any]] = {
    "number": number,
    "label": label,
    "text": _text,
    "tokens": _each(_items),
    "tagset": _each(lambda cell, spec: frozenset(_items(cell, spec))),
    "ranked": _each(lambda cell, spec: tuple(_items(cell, spec))),
    "order": _each(lambda cell, spec: tuple(_items(cell, spec))),
    "rle": _each(_rle),
    "spans": _each(_spans),
    "boxes": _each(_boxes),
}
# Kinds whose cells are joined where an id has several rows.
JOINED = {"ranked", "tagset", "rle", "boxes", "spans", "tokens"}
