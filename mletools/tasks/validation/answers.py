"""The answers of rows of train.csv, in the form in which a task's private answers lie.

Covered: targets that are columns of train.csv, one column a class made of a column of labels, a cell of tags made of a
0/1 column a tag, a list of a group's relevant rows made of a 0/1 column. Not covered: labels in other files or forms,
which is said.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from ...grading.alphabet import TRUTH_VALUES
from ...grading.parsing import canonical_label
from ...records.task import Task
from ..table import MISSING, Rejected
from .rows import Key

Columns = Mapping[str, Sequence[str]]
# More different values are no classes.
MOST_CLASSES = 100
# What stands before a class in the name of its column, beside nothing and what all the columns begin with.
PREFIX = "prob_"


@dataclass(frozen=True)
class Truth:
    """What train.csv says: `cells` by column of the answers, one cell a row of train.csv, or a key where `by_group`.

    `sources` are the columns of train.csv that give the targets away. A row whose target is missing is not `complete`.
    """

    cells: dict[str, list[str]]
    sources: list[str]
    complete: list[bool]
    by_group: bool = False


def truth_of(task: Task, known: Columns, train: Columns, test: Columns, units: Mapping[Key, Any]) -> Truth:
    """The answers of all rows of train.csv. `known` is the task's answers file, `units` the rows of each id.

    Rejected where they cannot be formed.
    """
    submission = task["submission"]
    targets = list(task.get("answer_target", submission["target"]))
    absent = [name for name in targets if name not in known]
    if absent:
        raise Rejected(f"{task['answers']} has no column {absent[0]!r}")
    truth = _targets(task, targets, known, train, test, units)
    seen = [name for name in truth.sources if name in test]
    if seen:
        raise Rejected(f"test.csv has the column {seen[0]!r} too, which would tell the labels of the validation rows")
    if truth.by_group:
        return truth
    more = _more(task, [*submission["id"], *targets], known, train)
    return Truth({**truth.cells, **more}, truth.sources, truth.complete)


def _targets(
    task: Task, targets: list[str], known: Columns, train: Columns, test: Columns, units: Mapping[Key, Any]
) -> Truth:
    submission = task["submission"]
    new = [name for name in train if name not in test and name not in submission["id"]]
    here = [name for name in targets if name in train]
    if len(here) == len(targets):
        cells = {name: _as_known(task, name, train[name], known[name]) for name in targets}
        complete = zip(*(_complete(task, train[name], known[name]) for name in targets), strict=True)
        return Truth(cells, here, list(map(all, complete)))
    parse = task.get("answer_parse", submission["parse"])
    if len(targets) > 1 and not here:
        for name in new:
            labels = _class_labels(train[name], targets)
            if labels:
                column = [_label(cell) for cell in train[name]]
                cells = {each: ["1" if cell == labels[each] else "0" for cell in column] for each in targets}
                return Truth(cells, [name], [cell in labels.values() for cell in column])
    if len(targets) == 1 and parse == "ranked" and len(units) < len(next(iter(train.values()))):
        return _ranked(task, targets[0], known, train, test, units, new)
    if len(targets) == 1 and parse == "tagset":
        glue = _separator(task)
        tags = {item for cell in known[targets[0]] for item in _items(cell, glue)}
        columns = [name for name in new if _is_marked(train[name])]
        if tags and tags <= set(columns):
            marks = zip(*(train[name] for name in columns), strict=True)
            made = [glue.join(n for n, mark in zip(columns, row, strict=True) if float(mark)) for row in marks]
            return Truth({targets[0]: made}, columns, [True] * len(made))
    missing = next(name for name in targets if name not in train)
    raise Rejected(
        f"train.csv has no column {missing!r}, and its other columns are not read as that ({', '.join(new[:5]) or 'none'})"
    )


def _as_known(task: Task, name: str, cells: Sequence[str], known: Sequence[str]) -> list[str]:
    """The cells as the answers write them: 1 for the positive one of two labels where the answers are 0 and 1."""
    there = {cell for cell, whole in zip(cells, _complete(task, cells, known), strict=True) if whole and cell.strip()}
    theirs = {cell for cell in known if cell.strip()}
    parse = task.get("answer_parse", task["submission"]["parse"])
    if parse == "number":
        if all(map(_is_number, there - TRUTH_VALUES.keys())):
            return list(cells)
        positive = task.get("provenance", {}).get("positive")
        if (
            len(there) == 2
            and positive in there
            and {TRUTH_VALUES.get(cell, _label(cell)) for cell in theirs} <= {"0", "1"}
        ):
            return [cell and str(int(cell == positive)) for cell in cells]
        raise Rejected(
            f"column {name!r} of train.csv holds other cells than numbers, and which of them is 1 is not known"
        )
    if parse == "label":
        mine = {_label(cell) for cell in there}
        if not mine & {_label(cell) for cell in theirs}:
            raise Rejected(f"column {name!r} of train.csv has none of the labels of the answers")
    return list(cells)


def _complete(task: Task, cells: Sequence[str], known: Sequence[str]) -> list[bool]:
    """Whether each row has this target. Words such as NA are none, but for labels that the answers or the record have."""
    submission = task["submission"]
    if submission.get("empty_ok"):
        return [True] * len(cells)
    parse = task.get("answer_parse", submission["parse"])
    missing: AbstractSet[str] = {""}
    if parse == "number" and len(set(cells) - MISSING) > 1:  # else such a word is one of two labels
        missing = MISSING
    elif parse == "label":
        missing = MISSING - ({*known, *submission.get("labels", [])} - {""})
    return [cell.strip() not in missing for cell in cells]


def _class_labels(cells: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """The label of each class column, {} where the cells are none of these classes."""
    labels = {_label(cell) for cell in cells if cell.strip()}
    if not 1 < len(labels) <= max(MOST_CLASSES, len(targets)):
        return {}
    for prefix in ("", PREFIX, _begins(targets)):
        found = {name: _label(name[len(prefix) :]) for name in targets if name.startswith(prefix)}
        if len(found) == len(targets) and labels - MISSING <= set(found.values()):
            return found
    return {}


def _begins(names: Sequence[str]) -> str:
    """What all the names begin with."""
    low, high = min(names), max(names)
    return low[: next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))]


def _ranked(
    task: Task,
    target: str,
    known: Columns,
    train: Columns,
    test: Columns,
    units: Mapping[Key, Sequence[int]],
    new: Sequence[str],
) -> Truth:
    """A cell a group: those of its rows that are worth finding, by the column whose cells the answers list."""
    glue = _separator(task)
    items = {item for cell in known[target] for item in _items(cell, glue)}
    named = [name for name in test if name in train and items and items <= set(test[name])]
    if not named:
        raise Rejected(f"which rows of test.csv the cells of {target!r} in the answers list is not known")
    marks = [name for name in new if _is_marked(train[name])]
    if len(marks) != 1:
        raise Rejected(f"train.csv has {len(marks)} columns of 0 and 1 that could say what is worth finding, not 1")
    cells = []
    for rows in units.values():
        cells.append(glue.join(train[named[0]][at] for at in rows if float(train[marks[0]][at])))
    complete = [True] * len(next(iter(train.values())))
    return Truth({target: cells}, [marks[0]], complete, by_group=True)


def _more(task: Task, had: Sequence[str], known: Columns, train: Columns) -> dict[str, list[str]]:
    """The other columns of the answers that train.csv has. Rejected where the metric needs one that it lacks."""
    metric = task["metric"]
    needed = {rule.get("column", rule.get("of")) for rule in metric.get("where", [])}
    for part in (metric.get("group"), metric.get("weight")):
        needed.add(part["column"] if isinstance(part, Mapping) else part)
    needed |= _texts(metric.get("params", {})) & set(known)
    others = [name for name in known if name not in had]
    lacking = [name for name in others if name in needed and name not in train]
    if lacking:
        raise Rejected(f"the metric needs column {lacking[0]!r} of the answers, which train.csv has not")
    return {name: list(train[name]) for name in others if name in train}


def _texts(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return set().union(*map(_texts, value)) if isinstance(value, (list, tuple)) else set()


def _separator(task: Task) -> str:
    return str(task.get("answer_separator", task["submission"].get("separator", " ")))


def _items(cell: str, glue: str) -> list[str]:
    return cell.split() if glue.isspace() else [item.strip() for item in cell.split(glue) if item.strip()]


def _is_marked(cells: Sequence[str]) -> bool:
    return {_label(cell) for cell in set(cells)} <= {"0", "1"}


def _label(cell: str) -> str:
    return canonical_label(cell.strip())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
