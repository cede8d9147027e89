"""What rows have beside their content, as quantities: numbers and codes made of ids, names, positions and sizes.

Not covered: names whose meaning needs a key, such as an encrypted label.
"""

import re
from collections.abc import Sequence
from typing import Any

from .association import Quantity

# 6, 8 and 9 show in their parts.
PERIODS = (2, 3, 4, 5, 7, 10, 12)
MOST_PARTS = 4
FIRST_CHARACTERS = 8
LAST_CHARACTERS = 6
MOST_LEVELS = 36
# A sorted column is told from chance in so many rows; after so many parts nothing is left to be cut.
FEWEST_SORTED = 8
MOST_SORTED = 30


def periodic(name: str, values: Any, classes: int = 0) -> list[Quantity]:
    """The remainders of whole numbers, by small periods and by the number of classes."""
    import numpy as np

    whole = np.where(np.isnan(values), 0, np.round(values)).astype(np.int64)
    periods = sorted({*PERIODS, *([classes] if 2 <= classes <= MOST_LEVELS else [])})
    return [
        Quantity(f"{name} modulo {period}", True, np.where(np.isnan(values), np.nan, whole % period))
        for period in periods
    ]


def of_numbers(name: str, values: Any, classes: int = 0, ordered: bool = False) -> list[Quantity]:
    """A number and its remainders; nothing where it is the same in all rows."""
    import numpy as np

    values = np.asarray(values, dtype=float)
    known = values[~np.isnan(values)]
    if not len(known) or (known == known[0]).all():
        return (
            [Quantity(f"the absence of {name}", True, np.isnan(values) * 1.0)]
            if len(known) < len(values) and len(known)
            else []
        )
    return [Quantity(name, False, values, ordered), *periodic(name, values, classes)]


def of_levels(name: str, values: Sequence[Any], most: int = MOST_LEVELS) -> list[Quantity]:
    """Codes of text values, None where missing; nothing where there is one value or more than `most`."""
    import numpy as np

    distinct = sorted({value for value in values if value is not None})
    if not 2 <= len(distinct) <= most:
        return []
    place = {value: float(at) for at, value in enumerate(distinct)}
    return [Quantity(name, True, np.array([np.nan if value is None else place[value] for value in values]))]


def of_texts(name: str, texts: Sequence[str | None], classes: int = 0, ordered: bool = True) -> list[Quantity]:
    """What can be read off names, None where there is none: numbers, words, single characters, length, order."""
    import numpy as np

    there = [text for text in texts if text is not None]
    if len(set(there)) < 2:
        return of_levels(f"the presence of {name}", [str(text is not None) for text in texts])
    found = of_levels(name, texts)
    parts = [[] if text is None else re.findall(r"\d+|[^\W\d_]+", text) for text in texts]
    numeric = all(text.isdigit() for text in there)
    if numeric:
        found += of_numbers(name, [_whole(text) for text in texts], classes, ordered)
    else:
        order = {text: float(at) for at, text in enumerate(sorted(set(there)))}
        places = np.array([np.nan if text is None else order[text] for text in texts])
        found.append(Quantity(f"the order of {name}", False, places, ordered))
        for at in range(min(MOST_PARTS, max(map(len, parts)))):
            cells = [row[at] if len(row) > at else None for row in parts]
            if all(cell is None or cell.isdigit() for cell in cells):
                found += of_numbers(f"number {at + 1} in {name}", [_whole(cell) for cell in cells], classes, ordered)
            else:
                found += of_levels(f"word {at + 1} in {name}", cells)
    found += of_numbers(f"the length of {name}", [np.nan if text is None else len(text) for text in texts])[:1]
    same = len({len(text) for text in there}) == 1
    for at in range(-LAST_CHARACTERS, FIRST_CHARACTERS if same and len(there[0]) > LAST_CHARACTERS else 0):
        if at >= len(there[0]) - LAST_CHARACTERS:  # told from the end already
            continue
        cells = [text[at] if text and -len(text) <= at < len(text) else None for text in texts]
        found += of_levels(f"character {at + 1 if at >= 0 else at} of {name}", cells)
    return found


def _whole(text: str | None) -> float:
    return float(int(text[-15:])) if text else float("nan")


def refined(strata: Any, order: Any, columns: Sequence[Any]) -> Any:
    """The strata, cut further where the rows in `order` are sorted by a column, or grouped by it.

    What such an order says, the column says anyway: a table sorted by date, or a query's rows one after another. The
    order counts only within rows of the same value. `columns` are codes in sorting order, each of shape (rows,).
    """
    import numpy as np

    for _ in range(3):
        sorting = np.lexsort((order, strata))
        groups = strata[sorting]
        same = groups[1:] == groups[:-1]
        cut = strata
        for codes in columns:
            steps = np.diff(codes[sorting])
            for group in np.unique(strata):
                rows = strata == group
                if rows.sum() < FEWEST_SORTED:
                    continue
                distinct, inside = len(np.unique(codes[rows])), same & (groups[1:] == group)
                if distinct < 2:
                    continue
                up, down = (steps[inside] >= 0).all(), (steps[inside] <= 0).all()
                grouped = 2 * distinct <= rows.sum() and (steps[inside] != 0).sum() == distinct - 1
                if up or down or grouped:
                    cut = np.unique(cut * (codes.max() + 2) + np.where(rows, codes, -1) + 1, return_inverse=True)[1]
        if len(np.unique(cut)) == len(np.unique(strata)):
            return strata
        strata = cut
        if len(np.unique(strata)) > MOST_SORTED:
            break
    return strata
