"""Which public tables hold the training rows and their labels, and which the rows to predict.

Covered: train.csv and test.csv; another table of ids and labels (labels.csv, train_labels.csv), alone or beside a
train.csv of features; tests that have only a sample submission. Not covered: tables in other forms than CSV, ids made of
several cells, labels that are folders, file names or pictures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...base.csv_files import CsvError, read_rows
from ...records.sample import is_sample
from ..table import Rejected
from .leaks import header_of
from .rows import Key
from .tables import Table, read_bytes, read_table

MOST_TABLES = 5  # that are tried
TRAIN, TEST = "train.csv", "test.csv"


@dataclass(frozen=True)
class Labelled:
    """The training rows: `table` has all columns; `files` holds the tables that they come from, {name: (content, keys)}.

    keys: of each row of a file; None where its rows are those of `table`. test: the rows to predict, of the file
    `test_name`, or where that is None the ids of the sample submission.
    """

    table: Table
    files: dict[str, tuple[bytes, list[Key] | None]]
    test: Table
    test_name: str | None


def label_tables(public: Path, names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The tables that may hold the labels, train.csv first. Rejected: there is none."""
    found = []
    for name in names:
        low = PurePosixPath(name).name.lower()
        other = low.endswith(".csv") and not any(word in low for word in ("test", "sample", "submission"))
        if name != TRAIN and other and set(ids) <= set(header_of(public / name)):
            found.append(name)
    found.sort(key=lambda name: ("label" not in name.lower(), "train" not in name.lower(), name))
    tables = [*([TRAIN] if TRAIN in names else []), *found[:MOST_TABLES]]
    if not tables:
        raise Rejected("there is no public/train.csv, and no other public table with the ids of the submission")
    return tables


def labelled(public: Path, names: Sequence[str], ids: Sequence[str], name: str) -> Labelled:
    """The training rows whose labels lie in the table `name`. Rejected where they do not fit the others."""
    table, content = read_table(public / name)
    if name != TRAIN and TRAIN in names and TEST in names:
        features, own = read_table(public / TRAIN)
        if set(ids) <= set(features.columns):
            test, _ = read_table(public / TEST)
            keys = features.keys(ids)
            return Labelled(
                _joined(table, features, ids, name), {name: (content, None), TRAIN: (own, keys)}, test, TEST
            )
    beside = str(PurePosixPath(name).with_name(PurePosixPath(name).name.replace("train", "test")))
    for other in (beside, TEST):
        if other != name and other in names and (other == TEST or set(ids) <= set(header_of(public / other))):
            return Labelled(table, {name: (content, None)}, read_table(public / other)[0], other)
    samples = samples_among(public, names, ids)
    if not samples:
        raise Rejected("there is no public/test.csv, and no sample submission to say which rows are asked for")
    sample, _ = read_table(public / samples[0])
    return Labelled(table, {name: (content, None)}, Table({each: sample.columns[each] for each in ids}), None)


def samples_among(public: Path, names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The sample submissions among public files: tables of that name which have the columns of the ids."""
    found = []
    for name in names:
        if is_sample(name):
            try:
                header = next(read_rows(read_bytes(public / name), even=True), [])
            except CsvError as error:
                raise Rejected(f"{name}: {error}") from None
            found += [name] if set(ids) <= set(header) else []
    return found


def _joined(labels: Table, features: Table, ids: Sequence[str], name: str) -> Table:
    """The labels' table with the columns of the features' one, a row of each for an id."""
    at = {key: number for number, key in enumerate(features.keys(ids))}
    keys = labels.keys(ids)
    if len(at) < len(features.keys(ids)) or len(set(keys)) < len(keys) or set(keys) != set(at):
        raise Rejected(f"train.csv and {name} do not have the same ids, each once")
    order = [at[key] for key in keys]
    more = {each: [cells[row] for row in order] for each, cells in features.columns.items() if each not in ids}
    twice = sorted(set(more) & set(labels.columns))
    if twice:
        raise Rejected(f"train.csv and {name} both have the column {twice[0]!r}")
    return Table({**labels.columns, **more})
