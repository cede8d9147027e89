"""What a view has instead of a task's own files: train.csv without the validation rows, the others with them, answers.

A sample submission has a row for each test and validation row, which do not differ in what they say; one with other columns
than the submission's ids stays as it is. Not covered: the form of the answers (answers), which rows are drawn (split), the folder (the package).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...records.task import Task
from ..folder import Content
from ..table import Rejected, csv_bytes
from .answers import Truth, truth_of
from .labelled import TRAIN, label_tables, labelled, samples_among
from .leaks import check_leaks
from .media import files_of
from .rows import Key, canonical_key
from .split import held_out, latest, place
from .tables import Table, mixed, place_of, read_table, thinned, with_ids

# A target of more different values is not looked at when rows are drawn.
MOST_VALUES = 20
Rows = dict[Key, list[int]]


@dataclass(frozen=True)
class Made:
    """What differs in a view: the contents of some public files, those that it has no more (`gone`), the answers; the id
    cells of both; how many ids.
    """

    public: dict[str, Content]
    gone: set[str]
    answers: bytes
    validation_keys: list[Key]
    test_keys: list[Key]
    rows: int


def made_of(task: Task, folder: Path, names: Sequence[str], fraction: float, part: str = "") -> Made:
    """The files of a view of the task in `folder` with the public files `names`. Rejected where there is none.

    A `part` with a name has other rows than the one without, as far as there are others.
    """
    problems = []
    for name in label_tables(folder / "public", names, task["submission"]["id"]):
        try:
            return _made_of(task, folder, names, name, fraction, part)
        except Rejected as rejected:
            problems.append(rejected.reason if TRAIN in names else rejected.reason.replace(TRAIN, name))
    raise Rejected(problems[0])


def _made_of(task: Task, folder: Path, names: Sequence[str], labels: str, fraction: float, part: str) -> Made:
    """The files of a view of which the table `labels` has the labels."""
    public, ids, seed = folder / "public", task["submission"]["id"], str(task["id"])
    training = labelled(public, names, ids, labels)
    train, test = training.table, training.test
    known, _ = read_table(folder / task["answers"])
    for where, table in ((training.test_name or "the sample submission", test), (task["answers"], known)):
        lacking = [name for name in ids if name not in table.columns]
        if lacking:
            raise Rejected(f"{where} has no column {lacking[0]!r}, the id of the submission")
    foreign = [*known.keys(ids), *test.keys(ids)]
    train = with_ids(train, ids, foreign)
    lacking = [name for name in test.columns if name not in train.columns]
    if lacking:
        raise Rejected(f"test.csv has column {lacking[0]!r}, which train.csv has not")
    keys = train.keys(ids)
    units = _rows_of(keys)
    truth = truth_of(task, known.columns, train.columns, test.columns, units)
    check_leaks(public, names, truth.sources, {*training.files, training.test_name or ""})
    free = _whole_groups(task, _free(task, units, truth, foreign), train)
    drawn, later = _drawn(task, free, truth, train, fraction, part)
    order = sorted(at for unit in drawn for at in free[unit])
    shown = _shown(task, train, test, order, keys)
    answers, owners = _answers(ids, truth, units, order, keys)
    repeated = bool(task["submission"].get("repeated_ids", False))
    media = files_of(public, names, ids, train, test, frozenset(order))
    files = media.public
    held = set(owners)
    for name, (content, of_rows) in training.files.items():
        out = {*order, *later} if of_rows is None else {at for at, key in enumerate(of_rows) if key in held}
        files[name] = thinned(content, out)
    if training.test_name is not None:
        files[training.test_name] = mixed(shown, ids, seed, keep_order=repeated)
    for name in samples_among(public, names, ids):
        sample, _ = read_table(public / name)
        new = owners if repeated else list(dict.fromkeys(owners))
        files[name] = _sample(task, sample, new, shown if truth.by_group else None)
    return Made(files, media.gone, answers, owners, known.keys(ids), len(set(owners)))


def _drawn(
    task: Task, free: Rows, truth: Truth, train: Table, fraction: float, part: str
) -> tuple[list[Key], set[int]]:
    """(the units that are held out, later rows that are left out)."""
    seed, times = str(task["id"]), _split_of(task, "time", train)
    if times:
        when = list(zip(*(_in_order(train.columns[name]) for name in times), strict=True))
        drawn, _ = latest(free, when, fraction)
        return latest(free, when, fraction, drawn) if part else (drawn, set())
    looked = _looked_at(free, truth, train)
    drawn = held_out(free, *looked, seed=seed, fraction=fraction)
    if part:
        drawn = held_out(free, *looked, seed=f"{seed}/{part}", fraction=fraction, last=drawn)
    return drawn, set()


def _split_of(task: Task, kind: str, train: Table) -> list[str]:
    """The columns that the task's own split is by; empty where it is of another kind."""
    told, _, by = task["provenance"].get("split", "").partition(" ")
    names = by.split(", ")
    return names if told == kind and set(names) <= set(train.columns) else []


def _in_order(cells: Sequence[str]) -> Sequence[float | str]:
    """What cells are ordered by: as numbers, where all are."""
    try:
        return list(map(float, cells))
    except ValueError:
        return cells


def _rows_of(keys: Sequence[Key]) -> Rows:
    """The rows of each id, in the order of the table."""
    found: Rows = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found


def _free(task: Task, units: Rows, truth: Truth, foreign: Sequence[Key]) -> Rows:
    """The units that may be held out: with all their targets, and with an id that is no other's, as numbers either."""
    taken = {canonical_key(key) for key in foreign}
    plain = {key: canonical_key(key) for key in units}
    alike = Counter(plain.values())
    free = {
        key: rows
        for key, rows in units.items()
        if plain[key] not in taken and alike[plain[key]] == 1 and all(truth.complete[at] for at in rows)
    }
    if not free:
        raise Rejected("every id of train.csv is one of the test set too, or has no target")
    several = task.get("answer_several_rows", False) or task["submission"].get("repeated_ids", False)
    if not truth.by_group and not several and any(len(rows) > 1 for rows in free.values()):
        raise Rejected("train.csv has several rows with one id, where the answers have one")
    return free


def _whole_groups(task: Task, free: Rows, train: Table) -> Rows:
    """The units joined to the groups that the metric compares rows within, or that the task's own split keeps whole; a
    group with rows that stay is left out.
    """
    metric = task["metric"]
    group = metric.get("group") or next((rule["of"] for rule in metric.get("where", []) if "of" in rule), None)
    group = group or next(iter(_split_of(task, "group", train)), None)
    name = group["column"] if isinstance(group, Mapping) else group
    if name is None:
        return free
    if name not in train.columns:
        raise Rejected(f"train.csv has no column {name!r}, which names the groups of the metric")
    pattern = re.compile(group["pattern"] if isinstance(group, Mapping) else "(?s)(.*)")
    matches = [pattern.search(cell) for cell in train.columns[name]]
    groups = _rows_of([(match[1],) if match else () for match in matches])
    may = {at for rows in free.values() for at in rows}
    found = {key: rows for key, rows in groups.items() if key and may.issuperset(rows)}
    if not found:
        raise Rejected(f"no group of column {name!r} can be held out whole")
    return found


def _looked_at(free: Rows, truth: Truth, train: Table) -> tuple[dict[Key, str], dict[Key, frozenset[tuple[str, str]]]]:
    """(the stratum of each unit, what occurs in each): by the columns of few values that the targets come from."""
    rows = [at for each in free.values() for at in each]
    few = [name for name in truth.sources if len({train.columns[name][at] for at in rows}) <= MOST_VALUES]
    seen = {key: frozenset((name, train.columns[name][at]) for name in few for at in free[key]) for key in free}
    alone = len(truth.sources) == len(few) == 1 and all(len(each) == 1 for each in free.values())
    return {key: train.columns[few[0]][each[0]] for key, each in free.items()} if alone else {}, seen


def _shown(task: Task, train: Table, test: Table, order: Sequence[int], keys: Sequence[Key]) -> Table:
    """test.csv with the columns that it has of the validation rows `order`.

    Where test.csv has one row an id and the labels of an id have several, so has the view. Rejected where they differ.
    """
    ids = task["submission"]["id"]
    old = test.keys(ids)
    if len(set(old)) == len(old) and not task["submission"].get("repeated_ids", False):
        first: dict[Key, int] = {}
        for at in order:
            before = first.setdefault(keys[at], at)
            if any(train.columns[name][at] != train.columns[name][before] for name in test.columns):
                raise Rejected("test.csv has one row an id, and train.csv several that differ")
        order = list(first.values())
    return Table({name: [*cells, *(train.columns[name][at] for at in order)] for name, cells in test.columns.items()})


def _answers(
    ids: Sequence[str], truth: Truth, units: Rows, order: Sequence[int], keys: Sequence[Key]
) -> tuple[bytes, list[Key]]:
    """(the answers of the validation rows `order`, the id cells of each of their rows)."""
    owners, rows = [keys[at] for at in order], list(order)
    if truth.by_group:
        numbers = {key: at for at, key in enumerate(units)}
        owners = list(dict.fromkeys(owners))
        rows = [numbers[key] for key in owners]
    cells = [*map(list, zip(*owners, strict=True)), *([column[at] for at in rows] for column in truth.cells.values())]
    return csv_bytes([*ids, *truth.cells], cells), owners


def _sample(task: Task, table: Table, added: Sequence[Key], groups: Table | None) -> bytes:
    """The sample `table` with rows for the ids `added`: all say what all of it says.

    Where its rows differ, their cells are dealt out anew over all rows, so that none shows where it comes from. Where
    they list the rows of their group (`groups` is then the view's test.csv), so do the new ones.
    """
    ids = task["submission"]["id"]
    keys = [*table.keys(ids), *added]
    order = sorted(range(len(keys)), key=lambda at: place_of(task["id"], canonical_key(keys[at])))
    own = _own_lists(task, table, groups) if groups else {}
    every = {name: [keys[at][number] for at in order] for number, name in enumerate(ids)}
    for name, cells in table.columns.items():
        if name in own:
            every[name] = [own[name][keys[at]] for at in order]
        elif name not in ids:
            every[name] = [cells[number % len(cells)] for number in range(len(order))]
    return csv_bytes(list(table.columns), [every[name] for name in table.columns])


def _own_lists(task: Task, table: Table, groups: Table) -> dict[str, dict[Key, str]]:
    """{target: {group: its rows}} for targets whose cells list the rows of their group by some column of test.csv."""
    ids, glue = task["submission"]["id"], str(task["submission"].get("separator", " "))
    of_row = groups.keys(ids)
    found: dict[str, dict[Key, str]] = {}
    for cells in groups.columns.values():
        lists: dict[Key, list[str]] = {}
        for key, cell in sorted(zip(of_row, cells, strict=True), key=lambda pair: place(task["id"], "list", pair[1])):
            lists.setdefault(key, []).append(cell)
        for name in set(task["submission"]["target"]) & set(table.columns):
            pairs = zip(table.keys(ids), table.columns[name], strict=True)
            if all(sorted(cell.split(glue)) == sorted(lists.get(key, [])) for key, cell in pairs):
                found[name] = {key: glue.join(own) for key, own in lists.items()}
    return found
