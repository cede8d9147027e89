"""Sample submissions of a view: a row for each test and validation row, which do not differ in what they say.

Not covered: samples with other columns than the submission's ids, which stay as they are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...records.csv_files import CsvError, read_rows
from ..table import Rejected, csv_bytes
from .rows import Key, canonical_key
from .split import place
from .tables import Table, place_of, read_bytes


def samples_among(public: Path, names: Sequence[str], ids: Sequence[str]) -> list[str]:
    """The sample submissions among public files: tables of that name which have the columns of the ids."""
    found = []
    for name in names:
        plain = name.lower().replace("_", "").replace("-", "")
        if "samplesubmission" in plain and plain.endswith(".csv") and "/" not in name:
            try:
                header = next(read_rows(read_bytes(public / name), even=True), [])
            except CsvError as error:
                raise Rejected(f"{name}: {error}") from None
            found += [name] if set(ids) <= set(header) else []
    return found


def sample_for(task: Mapping[str, Any], table: Table, added: Sequence[Key], groups: Table | None) -> bytes:
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


def _own_lists(task: Mapping[str, Any], table: Table, groups: Table) -> dict[str, dict[Key, str]]:
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
