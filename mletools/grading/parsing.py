"""Parse cells into the values that metrics compare; one function per kind, in KINDS.

number    a finite float
label     text; numbers lose surrounding space, whole ones their decimal point: 1.0 and 1 are equal, as are TRUE and true
text      the text, unchanged
tokens    list of items           order     tuple of items, a permutation of the answer's
tagset    frozenset of items      ranked    tuple of items, best first
rle       list of (start, length), whole numbers as written; a list of such lists where an id may have several rows
spans     list of (start, end) of "0 5;10 20"
boxes     list of dicts with the keys in the task's `fields`; floats, but `label` is text

Every function takes the cells of one column and returns a numpy array of their values, or raises BadCell for the first
cell that it cannot read. Not covered: checks of the values, which metrics make.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from ..base.csv_files import MISSING
from ..records.task import SubmissionFormat
from .alphabet import TRUTH_LABELS, TRUTH_VALUES, Alphabet, kind_problem, read_labels, wrong_kind

# Longer whole numbers are never positions in an image or a text, and slow to parse.
MOST_DIGITS = 18
SHOWN = 50
EXACT = 16  # characters of a decimal number that float() keeps
ANY = Alphabet(frozenset(), "any")
Box = dict[str, float | str]  # by field; of a label the text, else the number


class CellFormat(TypedDict, total=False):
    """How cells are read: fields of the task's `submission`; booleans for answers; the answers' alphabet for submissions."""

    labels: list[Any]
    items: Literal["text", "whole"]
    range: list[float | None]
    empty_ok: bool
    missing_as: str
    separator: str
    fields: list[str]
    empty_marker: str
    several_rows: bool
    booleans: bool
    alphabet: Alphabet


class TableFormat(SubmissionFormat):
    """How the columns of a table are read, and its cells: see CellFormat."""

    booleans: NotRequired[bool]
    alphabet: NotRequired[Alphabet]


class BadCell(ValueError):
    """The cell number `at` of the column cannot be read; `problem` completes "column 'y' of row 'a' is ..."."""

    def __init__(self, at: int, problem: str):
        super().__init__(problem)
        self.at = at
        self.problem = problem


def shown(cell: str) -> str:
    """A cell as quoted in messages."""
    return repr(cell[:SHOWN]) + ("..." if len(cell) > SHOWN else "")


def canonical_label(value: Any) -> str:
    """A label as text; numbers lose surrounding space, whole ones their decimal point, others the zeros at their end: 1.0
    and 1 are one label, and so are 2.50 and 2.5, for that is how they are written again by whoever reads them as numbers.

    The six spellings of a truth value are True and False.
    """
    text = str(value)
    try:
        number = float(text)
    except ValueError:
        return TRUTH_LABELS.get(text, text)
    if "_" in text or not text.isascii():  # accepted by float() only
        return text
    text = text.strip()
    if abs(number) >= 2**53 and text.lstrip("+-").isdigit():  # as text: int() is slow on long numbers
        return ("-" if number < 0 else "") + text.lstrip("+-0")
    if number.is_integer() and abs(number) < 2**53:
        return str(int(number))
    plain = len(text) <= EXACT and text.lstrip("+-").replace(".", "", 1).isdigit()
    return repr(number) if plain else text


def items_as_labels(items: tuple[str, ...], label: str) -> Iterable[str]:
    """The items of a ranked list as labels are read, to look for a canonical label among them."""
    try:
        float(label)
    except ValueError:
        if label not in TRUTH_LABELS.values():  # no other text is read as this label
            return items
    return map(canonical_label, items)


def canonical(cells: Sequence[str]) -> list[str]:
    """canonical_label of every cell, computed once per distinct cell."""
    labels = {cell: canonical_label(cell) for cell in set(cells)}
    return [labels[cell] for cell in cells]  # equal labels are one object, for fast comparison


def number(cells: Sequence[str], spec: CellFormat) -> Any:
    import numpy as np

    if spec.get("booleans"):
        cells = [TRUTH_VALUES.get(cell, cell) for cell in cells]
    elif cells and cells[0] in TRUTH_VALUES and TRUTH_VALUES.keys() >= set(cells):  # as pandas reads such a column
        cells = [TRUTH_VALUES[cell] for cell in cells]
    try:
        values = np.fromiter(map(float, cells), dtype=float, count=len(cells))
        text = "".join(cells)  # float() accepts 1_000 and digits of other scripts; other readers do not
        clean = "_" not in text and text.isascii()
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
            expected = (
                f"outside [{low:g}, {high:g}]"
                if None not in (low, high)
                else "below the least value"
                if high is None
                else "above the largest value"
            )
            raise BadCell(at, f"{values[at]:g}, {expected}")
    return values


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell and cell.isascii()
    except ValueError:
        return False


def label(cells: Sequence[str], spec: CellFormat) -> Any:
    alphabet = spec.get("alphabet", ANY)
    values = read_labels(_without_missing(canonical(cells), spec), alphabet)
    if "labels" in spec:
        stated = {canonical_label(each): None for each in spec["labels"]}
        bad = set(values) - stated.keys() - alphabet.known
        problem = f"not one of {', '.join([*stated][:20])}"
    else:
        bad, problem = {value for value in set(values) if value and wrong_kind(value, alphabet)}, kind_problem(alphabet)
        if "" in values and not spec.get("empty_ok"):
            at = values.index("")
            raise BadCell(at, f"{shown(cells[at])}, read as an empty cell" if cells[at].strip() else "empty")
    if spec.get("empty_ok"):
        bad.discard("")
    if bad:
        at = next(at for at, value in enumerate(values) if value in bad)
        raise BadCell(at, f"{shown(cells[at])}, {problem}")
    return _objects(values)


def missing_cells(spec: CellFormat) -> frozenset[str]:
    """The spellings of an empty cell: in a submission those of pandas, except those that are answers."""
    return MISSING - spec["alphabet"].known if "alphabet" in spec else frozenset({""})


def _without_missing(values: Sequence[str], spec: CellFormat) -> list[str]:
    """The labels; blank ones and spellings of an empty cell become ""."""
    spellings = missing_cells(spec)
    missing = {value for value in set(values) if not value.strip() or value in spellings}
    return ["" if value in missing else value for value in values] if missing else list(values)


def _objects(values: Sequence[Any]) -> Any:
    """An object array of shape (cells,); np.array would unpack lists."""
    import numpy as np

    return np.fromiter(values, dtype=object, count=len(values))


def _each(read: Callable[[str, CellFormat], Any]) -> Callable[[Sequence[str], CellFormat], Any]:
    """A column reader from a cell reader; empty cells (where allowed) and the empty marker are read as ""."""

    def column(cells: Sequence[str], spec: CellFormat) -> Any:
        values = []
        marker = spec.get("empty_marker")
        missing = missing_cells(spec)
        for at, cell in enumerate(cells):
            empty = not cell.strip() or cell in missing
            if empty and not spec.get("empty_ok"):
                raise BadCell(at, f"{shown(cell)}, read as an empty cell" if cell.strip() else "empty")
            try:
                values.append(read("" if empty or cell.strip() == marker else cell, spec))
            except ValueError as error:
                raise BadCell(at, f"{shown(cell)}: {error}") from None
        return _objects(values)

    return column


def _items(cell: str, spec: CellFormat) -> list[str]:
    """The items of a cell. Two consecutive white-space separators enclose an empty item; without a separator, any run
    of white space separates items.
    """
    separator = spec.get("separator")
    if not cell or separator is None:
        items = cell.split()
    elif separator.isspace():
        items = cell.split(separator)
    else:
        items = [item.strip() for item in cell.split(separator) if item.strip()]
    _check_symbols(items, spec)
    alphabet = spec.get("alphabet", ANY)
    if alphabet.whole and spec.get("items") != "whole":  # beside an empty cell pandas writes 7.0 for 7
        items = [item if item in alphabet.known else item.removesuffix(".0") for item in items]
    if spec.get("items") == "whole":
        return [str(_whole(item)) if alphabet.whole or item.lstrip("+-").isdecimal() else item for item in items]
    return items


def _check_symbols(symbols: Sequence[str], spec: CellFormat) -> None:
    """ValueError for an item, or a box's label, that is not a stated label, or not whole where all answers are."""
    alphabet = spec.get("alphabet", ANY)
    if "labels" in spec and not alphabet.known.issuperset(symbols):
        for symbol in symbols:
            if symbol not in alphabet.known and symbol not in spec["labels"]:
                raise ValueError(f"{shown(symbol)} is not one of {', '.join(map(str, spec['labels'][:20]))}")
        return
    if alphabet.whole and not alphabet.known.issuperset(symbols):
        for symbol in symbols:
            if symbol and wrong_kind(symbol, alphabet):
                raise ValueError(f"{shown(symbol)} is {kind_problem(alphabet)}")


def _text(cells: Sequence[str], spec: CellFormat) -> Any:
    if not spec.get("empty_ok") and "" in cells:
        raise BadCell(list(cells).index(""), "empty")
    return _objects(list(cells))


def _whole(item: str) -> int:
    if len(item) > MOST_DIGITS or not item.isascii() or "_" in item:
        raise ValueError(f"{shown(item)} is not a whole number of at most {MOST_DIGITS} digits")
    try:
        return int(item)
    except ValueError:
        raise ValueError(f"{shown(item)} is not a whole number") from None


def _rle(cell: str, spec: CellFormat) -> list[Any]:
    """The runs of a mask; where an id may have several rows, one list of runs per mask."""
    if spec.get("several_rows"):
        return [_runs(part) for part in cell.split(";") if part.strip()]
    return _runs(cell)


def _runs(cell: str) -> list[tuple[int, int]]:
    items = cell.split()
    if len(items) % 2:
        raise ValueError("it holds an odd number of numbers: runs are pairs of a start and a length")
    numbers = iter(_wholes(items))
    return list(zip(numbers, numbers, strict=True))


def _wholes(items: Sequence[str]) -> list[int]:
    """_whole of every item; where all are valid, in a third of the time."""
    if "".join(items).isascii() and max(map(len, items), default=0) <= MOST_DIGITS:
        with suppress(ValueError):
            return list(map(int, items))
    return [_whole(item) for item in items]


# Spans may come as a printed list of strings: ['0 5;10 20', '30 40'].
LISTED = str.maketrans({"[": " ", "]": " ", "'": " ", '"': " ", ",": ";"})


def _spans(cell: str, spec: CellFormat) -> list[tuple[int, int]]:
    spans = []
    for part in cell.translate(LISTED).split(";"):
        ends = part.split()
        if not ends:
            continue
        if len(ends) != 2:
            raise ValueError("spans are pairs of a start and an end, with ; between them")
        start, end = _whole(ends[0]), _whole(ends[1])
        if start > end:
            raise ValueError(f"the span {start} {end} ends before it starts")
        spans.append((start, end))
    return spans


def _boxes(cell: str, spec: CellFormat) -> list[Box]:
    fields = spec["fields"]
    items = cell.split()
    if len(items) % len(fields):
        raise ValueError(f"it holds {len(items)} items, not a multiple of {len(fields)} ({' '.join(fields)})")
    if "label" in fields:
        _check_symbols(items[list(fields).index("label") :: len(fields)], spec)
    columns: list[Sequence[Any]] = []
    for at, name in enumerate(fields):
        column = items[at :: len(fields)]
        if name == "label":
            columns.append(canonical(column))
        elif (values := _finite(column)) is not None:
            columns.append(values)
        else:  # raises an error that names the invalid item
            return [box(items[at : at + len(fields)], fields) for at in range(0, len(items), len(fields))]
    return [dict(zip(fields, values, strict=True)) for values in zip(*columns, strict=True)]


def _finite(items: Sequence[str]) -> list[float] | None:
    """The items as finite numbers, None where one is not."""
    try:
        values = list(map(float, items))
    except ValueError:
        return None
    text = "".join(items)
    return values if all(map(math.isfinite, values)) and "_" not in text and text.isascii() else None


def box(items: Sequence[str], fields: Sequence[str]) -> Box:
    """One box from its items; ValueError for an item that is not a finite number."""
    values: Box = {}
    for name, item in zip(fields, items, strict=True):
        if name == "label":
            values[name] = canonical_label(item)
        elif _is_number(item):
            values[name] = float(item)
        else:
            raise ValueError(f"{name} is {shown(item)}, not a finite number")
    return values


KINDS: dict[str, Callable[[Sequence[str], CellFormat], Any]] = {
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


class Limit(NamedTuple):
    """The most characters in one cell of a submission, and in all cells of its targets."""

    cell: int
    total: int


NO_LIMIT = 1 << 62
# The bounds for each kind; higher where the answers have long cells (submission). Lists of these totals are read and
# scored within 5 s and 512 MB.
LIMITS: dict[str, Limit] = {
    "number": Limit(1_000, NO_LIMIT),
    "label": Limit(10_000, NO_LIMIT),
    "text": Limit(100_000, NO_LIMIT),
    "tokens": Limit(1_000_000, 16_000_000),
    "tagset": Limit(1_000_000, 16_000_000),
    "ranked": Limit(1_000_000, 16_000_000),
    "order": Limit(1_000_000, 16_000_000),
    "rle": Limit(1_000_000, 4_000_000),
    "spans": Limit(1_000_000, 8_000_000),
    "boxes": Limit(1_000_000, 4_000_000),
}
ID_LIMIT = Limit(1_000, NO_LIMIT)
