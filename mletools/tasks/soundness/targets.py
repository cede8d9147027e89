"""The targets of a task as numbers and classes, over the compared rows of train and test.

Lists, masks and texts are summed up: how many items, the first one, the sum of their numbers, the commonest tags.
Not covered: targets that are files (masks as images in train/), and what the summary leaves out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .association import MOST_CLASSES, Target
from .view import View, rows_of

# Of more targets than this some are looked at, beside their mean and spread.
MOST_TARGETS = 6
MOST_TAGS = 3
FEW_NUMBERS = 12
Cells = Sequence[str | None]


def targets_of(view: View) -> list[Target]:
    """The targets; values of one part only where the other part does not show them."""
    test = truth_of_test(view)
    names = [name for name in view.targets if name in test]
    if view.item_column:
        found = [name for name in view.train if name not in view.test]
        return [_codes(names[0], view.both(view.train[found[0]] if found else None, test[names[0]], None))]
    parse = view.task.get("answer_parse", view.spec["parse"])
    if parse == "number" and len(names) > 1 and _one_hot([test[name] for name in names]):
        return _of_classes(view, names, test)
    shared = [name for name in names if name in view.train]
    train = {name: view.train.get(name) for name in names}
    if not shared:
        # the column of train.csv that test.csv lacks has another name: looked at by itself
        extra = [name for name in view.train if name not in view.test and name not in view.ids]
        train.update({name: view.train[name] for name in extra[:MOST_TARGETS]})
    rows = rows_of(view.test)
    columns = [(name, view.both(train[name], test.get(name, [None] * rows), None)) for name in train]
    if parse == "number" and len(columns) > MOST_TARGETS:
        return _of_many(columns)
    read_as = {name: parse if name in test else _guessed(cells) for name, cells in columns}
    return [target for name, cells in columns[: 2 * MOST_TARGETS] for target in _of_column(name, cells, read_as[name])]


def _guessed(cells: Cells) -> str:
    """How a column of train.csv alone is read: as numbers where all are, else as labels."""
    return "number" if all(number(cell) == number(cell) for cell in cells if cell) else "label"


def truth_of_test(view: View) -> dict[str, list[str | None]]:
    """The answers' cells by target, in the order of test.csv; of a ranking of its rows whether each is worth finding."""
    found = {}
    for name in view.targets:
        if name in view.answers:
            cells = view.answers[name]
            found[name] = [None if at is None else cells[at] for at in view.answer_rows]
            if view.item_column:  # the rows of the test set are items: is each one worth finding?
                lists = [None if cell is None else set(cell.split()) for cell in found[name]]
                items = view.test[view.item_column]
                found[name] = [
                    None if some is None else str(int(item in some)) for item, some in zip(items, lists, strict=True)
                ]
    return found


def _one_hot(columns: Sequence[Cells]) -> bool:
    rows = list(zip(*columns, strict=True))[:2000]
    numbers = [[number(cell) for cell in row] for row in rows if None not in row]
    return bool(numbers) and all(sorted(map(float, row))[-2:] == [0.0, 1.0] and sum(row) == 1 for row in numbers)


def _of_classes(view: View, names: list[str], test: dict[str, list[str | None]]) -> list[Target]:
    """One column a class: the class of each row, in train by the column whose values are the classes' names."""
    columns = [test[name] for name in names]
    of_test = [None if None in row else names[max(range(len(row)), key=lambda at: number(row[at]))] for row in zip(*columns, strict=True)]  # fmt: skip
    if all(name in view.train for name in names):
        of_train: list[Any] | None = [names[max(range(len(row)), key=lambda at: number(row[at]))] for row in zip(*(view.train[name] for name in names), strict=True)]  # fmt: skip
        return [_codes("the class", view.both(of_train, of_test, None))]
    for column, cells in view.train.items():
        if column in view.test or column in view.ids:
            continue
        called = {
            value: [name for name in names if name == value or name.endswith(f"_{value}")] for value in set(cells)
        }
        if all(called.values()):
            longest = {value: min(found, key=len) for value, found in called.items()}
            return [_codes(column, view.both([longest[cell] for cell in cells], of_test, None))]
    others = [name for name in view.train if name not in view.test and name not in view.ids][:MOST_TARGETS]
    empty = [None] * rows_of(view.test)
    return [
        _codes("the class", view.both(None, of_test, None)),
        *(_codes(name, view.both(view.train[name], empty, None)) for name in others),
    ]


def _of_many(columns: list[tuple[str, list[str | None]]]) -> list[Target]:
    """Some columns of many numbers, and each row's mean and spread."""
    import warnings

    import numpy as np

    values = np.array([[number(cell) for cell in cells] for _, cells in columns])
    step = max(1, len(columns) // (MOST_TARGETS - 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        wide = np.nanstd(values, axis=1, keepdims=True)
        level = (values - np.nanmean(values, axis=1, keepdims=True)) / np.where(wide > 0, wide, 1)
        mean, spread = np.nanmean(level, axis=0), np.nanstd(level, axis=0)
    some = [
        _numbers(name, row) for (name, _), row in list(zip(columns, values, strict=True))[::step][: MOST_TARGETS - 2]
    ]
    return [_numbers("the mean of the targets", mean), _numbers("the spread of the targets", spread), *some]


def _of_column(name: str, cells: Cells, parse: str) -> list[Target]:
    """One column: classes, numbers, or a summary of what else it holds."""
    known = [cell for cell in cells if cell is not None]
    distinct = set(known)
    if parse == "number" or (parse == "label" and len(distinct) > max(FEW_NUMBERS, len(known) // 3)):
        values = [number(cell) for cell in cells]
        if any(value == value for value in values):
            return [_codes(name, cells) if len(distinct) <= FEW_NUMBERS else _numbers(name, values)]
    if parse == "label" and len(distinct) <= max(FEW_NUMBERS, len(known) // 3):
        return [_codes(name, cells)]
    return _summary(name, cells)


def _summary(name: str, cells: Cells) -> list[Target]:
    """Lists: how many items, the first, the sum of the numbers, and which of the commonest items are there."""
    items = [None if cell is None else cell.replace(",", " ").split() for cell in cells]
    counts = [float("nan") if row is None else float(len(row)) for row in items]
    sums = [float("nan") if row is None else sum(value for value in map(number, row[:5000]) if value == value) for row in items]  # fmt: skip
    first = [None if row is None else (row[0] if row else "") for row in items]
    found = [_numbers(f"the length of {name}", counts), _numbers(f"the sum of {name}", sums)]
    starts = [number(cell) for cell in first]
    plain = all(value == value for value, cell in zip(starts, first, strict=True) if cell)
    found.append(_numbers(f"the first of {name}", starts) if plain else _codes(f"the first of {name}", first))
    tags = Counter(tag for row in items if row for tag in set(row))
    rows = sum(row is not None for row in items)
    common = [tag for tag, count in sorted(tags.items(), key=lambda item: (-item[1], item[0])) if count < rows][
        :MOST_TAGS
    ]
    has = [
        (tag, [None if row is None else str(tag in row) for row in items]) for tag in common if tags[tag] * 10 > rows
    ]
    return [*found, *(_codes(f"{tag} in {name}", cells) for tag, cells in has)]


def _codes(name: str, cells: Cells) -> Target:
    """Classes as codes, the rarest under one where there are too many."""
    import numpy as np

    counts = Counter(cell for cell in cells if cell is not None)
    common = [cell for cell, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][: MOST_CLASSES - 1]
    place = {cell: at for at, cell in enumerate(common)}
    return Target(name, True, np.array([np.nan if cell is None else place.get(cell, len(common)) for cell in cells], dtype=float))  # fmt: skip


def _numbers(name: str, values: Any) -> Target:
    import numpy as np

    found = np.array(values, dtype=float)
    return Target(name, False, np.where(np.isfinite(found), found, np.nan))


def number(cell: str | None) -> float:
    """The number in a cell, NaN where it holds none."""
    try:
        return float(cell) if cell else float("nan")
    except ValueError:
        return float("nan")
