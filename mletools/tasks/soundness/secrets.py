"""Checks for answers in plain sight: copies of rows between train and test, answers in public files, a telling page.

Bounded: of each kind of the rows' files at most MOST_FILES of train and of test are compared, of texts the first MOST_TEXT
bytes are searched. Not covered: copies of pictures and sounds that were stored anew, and formats other than CSV, TSV,
JSON and plain text (also gzipped).
"""

import gzip
import hashlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..folder import Content, read, size
from .case import Skipped
from .targets import number, truth_of_test
from .view import TABLES, Columns, View, rows_of, table_of

MOST_FILES = 10_000
MOST_TEXT = 16 << 20
TEXTS = (".txt", ".md", ".json", ".jsonl", ".csv", ".tsv", ".log", ".xml", ".html", ".yaml", ".yml")
# A column that is like the answers by chance less often than this is a copy; a feature of train.csv that is not like the
# targets there must be the more unlikely.
CHANCE = 1e-3
CHANCE_OF_A_FEATURE = 1e-5
FEWEST_ROWS = 5
FEW_CLASSES = 5
SHORTEST_FILE = 8
MOST_INNER = 1000  # values of JSON that are looked into


def train_test_separate(view: View) -> str:
    """No row of the test set is in train: by its ids, by all feature cells, by the bytes of its files."""
    if not view.train or not view.test:
        raise Skipped("there are no train.csv and test.csv")
    if all(name in view.train and name in view.test for name in view.row_ids) and not view.spec.get("repeated_ids"):
        shared = set(_rows(view.train, view.row_ids)) & set(_rows(view.test, view.row_ids))
        if shared:
            return f"train and test share {len(shared)} ids, for example {'/'.join(min(shared))}"
    for kind in view.assets:
        known = {_digest(view.public[name]) for name in _some(kind.train) if size(view.public[name])}
        copies = [name for name in _some(kind.test) if size(view.public[name]) and _digest(view.public[name]) in known]
        if copies:
            return f"{len(copies)} files of the test set are copies of files of train, for example {min(copies)}"
    names = [name for name in view.features if name in view.train]
    if not names or view.assets:
        return ""
    shared = set(_rows(view.train, names)) & set(_rows(view.test, names))
    return f"train and test share {len(shared)} rows" if shared else ""


def answers_secret(view: View) -> str:
    """No public file is a copy of a private one, holds the answers, or has a name that gives them away."""
    return _copied_file(view) or _copied_column(view) or _dumped(view) or _named(view)


def _copied_file(view: View) -> str:
    sizes: dict[int, list[str]] = {}
    for name, content in view.private.items():
        if size(content) >= SHORTEST_FILE:
            sizes.setdefault(size(content), []).append(name)
    for name, content in view.public.items():
        for other in sizes.get(size(content), []):
            if _digest(content) == _digest(view.private[other]):
                return f"{name} is a copy of {other}"
    return ""


def _copied_column(view: View) -> str:
    """A column of a public table that holds the answers, in their order or by the rows' ids."""
    truth = {
        name: [cell for cell in cells if cell is not None]
        for name, cells in truth_of_test(view).items()
        if None not in cells
    }
    if not truth:
        return ""
    classes = _joint(view, truth)
    there = [] if classes else [name for name in truth if name in view.test]  # features may be called as classes are
    if there:
        return f"test.csv has the target column {there[0]}"
    of_both = [name for name in view.test if name in view.train and name not in view.ids]
    test_rows = set(_rows(view.test, of_both))
    all_rows = test_rows | set(_rows(view.train, of_both))
    ids = [key[0] for key in _rows(view.test, view.ids[:1])] if view.ids[0] in view.test else []
    for title, table in _tables(view):
        of_test = title in ("test.csv", "test.tsv")
        lines = _places(table, ids) if ids and not of_test else list(range(rows_of(table)))
        if lines is None:
            if title == "train.csv":  # other rows: that they are in the same order says nothing
                continue
            lines = list(range(rows_of(table)))
        if len(lines) != len(ids or next(iter(truth.values()))):
            continue
        for column, cells in table.items():
            mine = [cells[at] for at in lines]
            for target, answers in {**truth, **classes}.items():
                if column in view.ids:
                    continue
                if of_test and column in view.train and target in view.train:
                    found = _alike(mine, answers, CHANCE_OF_A_FEATURE, len(test_rows)) or _alike(
                        view.train[column] + mine, view.train[target] + answers, CHANCE, len(all_rows)
                    )
                else:
                    found = _alike(mine, answers, CHANCE, len(mine))
                if found:
                    return f"column {column} of {title} holds the answers to {target}"
    return ""


def _joint(view: View, truth: Mapping[str, Sequence[str | None]]) -> dict[str, list[str]]:
    """The class of each row, where the answers have one column a class."""
    if len(truth) < 2 or view.task.get("answer_parse", view.spec["parse"]) != "number":
        return {}
    rows = [[number(cell) for cell in row] for row in zip(*truth.values(), strict=True)]
    if any(sorted(set(row)) != [0.0, 1.0] or sum(row) != 1 for row in rows):
        return {}
    return {"the class": [list(truth)[row.index(1.0)] for row in rows]}


def _tables(view: View) -> Iterator[tuple[str, Columns]]:
    """Every public table by its name: CSV, TSV, JSON, JSON Lines; none of the rows' own files."""
    of_rows = {name for kind in view.assets for name in (*kind.train, *kind.test)}
    for name, content in view.public.items():
        if name in of_rows:
            continue
        if name == "test.csv":
            yield name, view.test
        elif name == "sample_submission.csv":
            continue  # sample_uninformative looks at it
        elif name.lower().endswith(TABLES):
            table = table_of(content, name)
            yield name, table
            if set(table).isdisjoint(view.train):  # the first line may be a row
                yield name, {str(at): [first, *cells] for at, (first, cells) in enumerate(table.items())}
        elif name.lower().endswith((".json", ".jsonl", ".json.gz", ".jsonl.gz")):
            yield from ((name, table) for table in _of_json(content, name))


def _of_json(content: Content, name: str) -> Iterator[Columns]:
    """The tables in JSON: a list of objects, a list of rows, an object of lists, an object from ids to values, a list of values."""
    try:
        text = _text(content, name)
        value = (
            [json.loads(line) for line in text.splitlines() if line] if ".jsonl" in name.lower() else json.loads(text)
        )
    except (ValueError, OSError, EOFError):
        return
    todo = [value]
    while todo:
        value = todo.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        if len(inner) > 1 and isinstance(value, list) and _are_rows(inner):
            yield {str(at): list(map(_cell, cells)) for at, cells in enumerate(zip(*inner, strict=True))}
            todo += inner[:MOST_INNER]  # or columns
        elif inner and all(isinstance(each, dict) for each in inner) and isinstance(value, list):
            names = list(dict.fromkeys(key for each in inner for key in each))
            yield {key: [_cell(each.get(key)) for each in inner] for key in names}
        elif inner and not any(isinstance(each, (dict, list)) for each in inner):
            cells = {"value": [_cell(each) for each in inner]}
            yield {"key": list(map(str, value)), **cells} if isinstance(value, dict) else cells
        else:
            todo += [each for each in inner if isinstance(each, (dict, list))][:MOST_INNER]


def _are_rows(values: list[Any]) -> bool:
    """Whether values are lists of as many cells each."""
    widths = {len(each) if isinstance(each, list) else 0 for each in values}
    return (
        len(widths) == 1
        and widths != {0}
        and not any(isinstance(cell, (dict, list)) for each in values for cell in each)
    )


def _cell(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else "" if value is None else str(value)


def _places(table: Columns, ids: Sequence[str]) -> list[int] | None:
    """The rows of a table that belong to the ids, by the column that holds them; None where none does."""
    for cells in table.values():
        if ids[0] in cells and ids[-1] in cells:
            place = {cell: at for at, cell in enumerate(cells)}
            if all(key in place for key in ids):
                return [place[key] for key in ids]
    return None


def _alike(cells: Sequence[str], answers: Sequence[str], chance: float, different: int) -> bool:
    """Whether cells are the answers, as they are or one-to-one in other words, and are so by chance less than `chance`.

    `different`: of the rows, how many are not the same as another. Answers that recur with their rows alone are no classes.
    """
    if len(cells) < FEWEST_ROWS or len(set(answers)) < 2:
        return False
    pairs = set(zip(cells, answers, strict=True))
    if not len(pairs) == len(set(cells)) == len(set(answers)):
        values, truth = [number(cell) for cell in cells], [number(cell) for cell in answers]
        if any(value != value for value in (*values, *truth)):
            return False
        pairs = {(str(value), str(other)) for value, other in zip(values, truth, strict=True)}
        if not len(pairs) == len(set(values)) == len(set(truth)):
            return False
    counts = Counter(answers)
    orders = math.lgamma(len(answers) + 1) - sum(math.lgamma(count + 1) for count in counts.values())
    if math.log(math.factorial(min(len(counts), FEW_CLASSES))) - orders > math.log(chance):
        return False
    if 2 * len(counts) <= different or len(counts) <= FEW_CLASSES:
        return True
    # nearly every answer is another: one-to-one says nothing then, but equal, or in the same order, does
    if list(cells) == list(answers):
        return True
    values, truth = [number(cell) for cell in cells], [number(cell) for cell in answers]
    if any(value != value for value in (*values, *truth)) or len(set(values)) < len(set(cells)):
        return False  # texts, or whole numbers that are equal as floats
    ranked = [value for value, _ in sorted(zip(values, truth, strict=True), key=lambda pair: pair[1])]
    return ranked == sorted(ranked) or ranked == sorted(ranked, reverse=True)


def _dumped(view: View) -> str:
    """A public text that holds the answers one after another, as they are or as numbers of classes."""
    wanted = []
    truth = truth_of_test(view)
    whole = all(None not in cells for cells in truth.values())
    every: dict[str, Sequence[str | None]] = {**truth, **(_joint(view, truth) if whole else {})}
    for name, cells in every.items():
        if None in cells or len(cells) < FEWEST_ROWS:
            continue
        texts = [cell or "" for cell in cells]
        distinct = sorted(set(texts))
        orders = math.lgamma(len(texts) + 1) - sum(math.lgamma(count + 1) for count in Counter(texts).values())
        if len(distinct) < 2 or orders < -math.log(CHANCE):
            continue
        labels = [str(label) for label in view.spec.get("labels", distinct)]
        versions = [texts]
        if len(distinct) <= 36:
            order = labels if set(distinct) <= set(labels) else distinct
            versions += [[str(order.index(text)) for text in texts], [str(order.index(text) + 1) for text in texts]]
        for version in versions:
            flat = re.split(r"[\s,;|]+", " ".join(version).strip())
            wanted.append((name, "\0".join(["", *flat, ""])))
            if all(len(text) == 1 for text in version):
                wanted.append((name, "".join(version)))
    for title, content in view.public.items() if wanted else ():
        if title.lower().removesuffix(".gz").endswith(TEXTS):
            plain = _text(content, title)
            tokens = "\0" + "\0".join(re.split(r"[\s,;|\[\]\"'{}()]+", plain)) + "\0"
            for name, needle in wanted:
                if needle in (tokens if needle.startswith("\0") else plain):
                    return f"{title} holds the answers to {name} one after another"
    return ""


def _named(view: View) -> str:
    """Names of the test set's files that hold their row's answer as a word."""
    for target, cells in truth_of_test(view).items():
        if None in cells or len(set(cells)) < 2:
            continue
        for kind in view.assets:
            pairs = [
                (name, cell) for name, cell in zip(kind.test, cells, strict=True) if name and cell and len(cell) > 2
            ]
            words = [set(re.split(r"[/_\- ]+", name.rsplit(".", 1)[0])) for name, _ in pairs]
            told = sum(str(cell) in word for word, (_, cell) in zip(words, pairs, strict=True))
            if len(pairs) >= FEWEST_ROWS and told == len(pairs):
                return f"the names of {kind.name} hold the answers to {target}"
    return ""


def _text(content: Content, name: str) -> str:
    raw = read(content, MOST_TEXT)
    try:
        raw = gzip.decompress(raw) if name.lower().endswith(".gz") else raw
    except (OSError, EOFError, zlib.error):
        return ""
    return raw.decode("utf-8-sig", errors="replace")


def _rows(table: Columns, names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(table[name] for name in names), strict=True))


def _some(names: Sequence[str | None]) -> list[str]:
    there = [name for name in names if name is not None]
    return there[:: max(1, -(-len(there) // MOST_FILES))]


def _digest(content: Content) -> bytes:
    return hashlib.sha256(read(content)).digest()
