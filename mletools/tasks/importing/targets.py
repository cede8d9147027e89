"""The target of somebody else's table: what is no value, what is nearly a number, and labels that are spelled in two ways.

Not covered: the table's file (sheet), which metric suits a target (own_table, declare).
"""

import re
from collections import Counter
from collections.abc import Sequence

from ...grading.alphabet import TRUTH_VALUES
from ...grading.parsing import canonical_label
from ..table import MISSING, NUMBER, Rejected
from .columns import Columns
from .sheet import NEARLY_ALL, Sheet

# Whole numbers of so few values are taken for classes, unless --metric says otherwise.
MOST_CLASSES = 20
# A number with its unit, its currency or a bound; or with a decimal comma.
_NEARLY = re.compile(
    r"\s*[-+]?([€$£¥<>≤≥~]\s*[0-9.,]+|[0-9.,]+\s*[%€$£¥+]|[0-9.,]+\s+[^\W\d]{1,6}[²³]?|[0-9]+,[0-9]+)\s*"
)
# What stands for a value that nobody has: signs alone, errors of a spreadsheet, words.
_NO_VALUE = re.compile(r"[\W_]+|#\w+[/!?\w]*|n\.?/?a\.?|unknown|missing|none|null|nil|nan", re.IGNORECASE)


def check_numbers(name: str, cells: Sequence[str], lines: Sequence[int]) -> None:
    """Rejected where nearly all cells of a target are numbers, and some are not: it names the first of these.

    Few different whole numbers are classes, among which another word may be one more, but not a sign for no value.
    """
    present = [(cell, line) for cell, line in zip(cells, lines, strict=True) if cell not in MISSING]
    numbers = {cell for cell, _ in present if NUMBER.fullmatch(cell)}
    others = [(cell, line) for cell, line in present if cell not in numbers]
    if not others:
        return
    nearly = [cell for cell, _ in others if _NEARLY.fullmatch(cell)]
    of_numbers = len(present) - len(others) + len(nearly)
    if of_numbers < NEARLY_ALL * len(present):
        return
    if len(numbers | set(nearly)) <= MOST_CLASSES and not all(_NO_VALUE.fullmatch(cell) for cell, _ in others):
        return
    cell, line = others[0]
    if len(nearly) == len(others) == len(present):
        raise Rejected(
            f"the cells of {name!r} look like numbers that are written as {cell!r} (line {line}): write numbers"
        )
    more = list(dict.fromkeys(each for each, _ in others))
    also = f", then {', '.join(map(repr, more[1:4]))}{' ...' * (len(more) > 4)}" if len(more) > 1 else ""
    raise Rejected(
        f"column {name!r} holds numbers, but {len(others)} of {len(present)} cells are none; the first is {cell!r} in line "
        f"{line}{also}: correct them, or take them as missing: --missing {cell!r}"
    )


def require_numbers(why: str, name: str, cells: Sequence[str], lines: Sequence[int]) -> None:
    """Rejected, with the reason `why`, where a cell is no number: it names the first."""
    for cell, line in zip(cells, lines, strict=True):
        if not NUMBER.fullmatch(cell):
            raise Rejected(f"{why}, and column {name!r} holds others: {cell!r} in line {line}")


def require_two(name: str, cells: Sequence[str]) -> None:
    """Rejected where a target is the same in every row."""
    if len(set(cells)) == 1:
        raise Rejected(f"column {name!r} is {cells[0]!r} in every row: there is nothing to predict")


def with_targets(sheet: Sheet, targets: Sequence[str], keep: Sequence[str]) -> tuple[Columns, list[int], list[str]]:
    """(the rows whose targets are there, their lines, what to tell of the others). Rejected where there is none.

    keep: labels that would be taken for missing ones.
    """
    missing = MISSING - set(keep)
    gone: Counter[str] = Counter()
    rows = []
    for at, cells in enumerate(zip(*(sheet.columns[name] for name in targets), strict=True)):
        lacking = next((cell for cell in cells if cell in missing), None)
        if lacking is None:
            rows.append(at)
        else:
            gone[lacking] += 1
    for label in keep:
        if not any(label in sheet.columns[name] for name in targets):
            raise Rejected(
                f"no cell of {' or '.join(map(repr, targets))} is the label {label!r} that --keep-label names"
            )
    told = missing_told(gone, len(sheet.lines))
    if not rows:
        raise Rejected(f"no row has a target{': ' * bool(told)}{''.join(told)}")
    columns = {name: [cells[at] for at in rows] for name, cells in sheet.columns.items()}
    return columns, [sheet.lines[at] for at in rows], told


def missing_told(gone: Counter[str], rows: int) -> list[str]:
    """What to tell of rows without a target, by what stands there."""
    if not gone:
        return []
    spelled = [f"{cell!r} in {count}" for cell, count in gone.most_common() if cell]
    keep = (
        f"; --keep-label {next(cell for cell, _ in gone.most_common() if cell)} makes that a label" if spelled else ""
    )
    said = f" ({', '.join(spelled)}{keep})" if spelled else ""
    return [f"{gone.total()} of {rows} rows have no target and are left out{said}"]


def one_spelling(name: str, cells: list[str]) -> tuple[list[str], list[str]]:
    """(the cells with one spelling for each label, what to tell): TRUE and true are one, and so are 1 and 1.0.

    A column of truth values and of 0 and 1 is one of truth values.
    """
    distinct = set(cells)
    label = {cell: canonical_label(cell) for cell in distinct}
    words = {cell for cell in distinct if cell in TRUTH_VALUES}
    if words and {label[cell] for cell in distinct - words} <= {"0", "1"}:
        label = {cell: "True" if TRUTH_VALUES.get(cell, label[cell]) == "1" else "False" for cell in distinct}
    numbers = len(set(label.values())) > MOST_CLASSES and all(map(NUMBER.fullmatch, distinct))
    if numbers or len(set(label.values())) == len(distinct):
        return cells, []
    chosen = {value: value for value in set(label.values()) if value in TRUTH_VALUES}
    for cell, _ in Counter(cells).most_common():
        chosen.setdefault(label[cell], cell)
    spelled = ", ".join(map(repr, sorted(distinct - set(chosen.values()))[:5]))
    return [chosen[label[cell]] for cell in cells], [
        f"column {name!r} spells labels in several ways: {spelled} are changed"
    ]
