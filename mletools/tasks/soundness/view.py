"""A task's files as the checks look at them: tables of text cells, the rows' ids, the files that belong to each row.

Bounded: of a table the first MOST_ROWS rows are read, of larger tables a fixed random choice of rows is compared.
Not covered: tables in other formats than CSV and TSV (plain or gzipped), and several files of one kind per row.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...base.csv_files import CsvError, delimiter_of, read_rows
from ..folder import Content, read
from .case import Case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Columns = dict[str, list[str]]
MOST_ROWS = 200_000
# Rows whose associations are computed.
MOST_COMPARED = {"train": 3000, "test": 2000}
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# So many of the rows' cells must name a file before a column counts as one of files.
NAMED_SHARE = 0.9


Kind = dict[str, list[str | None]]  # of "train" and "test": the names in public/ of one kind of files, by row


@dataclass(frozen=True)
class Assets:
    """The files of one kind that belong to the rows: names in public/ by row, None where a row has none."""

    name: str
    train: list[str | None]
    test: list[str | None]


class View:
    """What the checks read of one case; every part is read when it is first asked for, and once."""

    def __init__(self, case: Case):
        self.case = case
        self.task = case.task
        self.spec = case.task["submission"]
        self.ids: list[str] = self.spec["id"]
        self.public = {
            name.removeprefix("public/"): content
            for name, content in sorted(case.files.items())
            if name.startswith("public/")
        }
        self.private = {name: file for name, file in sorted(case.files.items()) if not name.startswith("public/")}
        self.lower = bool(case.task["metric"]["lower_is_better"])
        self._kept: dict[str, object] = {}
        self.targets: list[str] = case.task.get("answer_target", self.spec["target"])

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made at the first time of asking for `name`: checks share what they compute."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @cached_property
    def train(self) -> Columns:
        """train.csv, or the one table of that sort; without any no columns."""
        return self._table("train")

    @cached_property
    def test(self) -> Columns:
        """test.csv; without one the ids of the sample submission, or of the answers."""
        found = self._table("test")
        if found:
            return found
        for table in (self.sample, self.answers):
            if all(name in table for name in self.ids):
                return {name: table[name] for name in self.ids}
        return {}

    def _table(self, word: str) -> Columns:
        names = [name for name in self.public if name.lower().endswith(TABLES) and "/" not in name]
        exact = [name for name in names if name.split(".")[0].lower() == word]
        for name in [*exact, *(name for name in names if name.lower().startswith(word))]:
            found = table_of(self.public[name], name)
            if found:
                return found
        return {}

    @cached_property
    def sample_bytes(self) -> bytes:
        """The sample submission, empty where there is none."""
        names = [name for name in self.public if "sample" in name.lower() and name.endswith(".csv")]
        return read(self.public[min(names, key=lambda name: (name != "sample_submission.csv", name))]) if names else b""

    @cached_property
    def sample(self) -> Columns:
        return table_of(self.sample_bytes, "sample_submission.csv")

    @cached_property
    def answers(self) -> Columns:
        return table_of(self.case.files[self.task["answers"]], self.task["answers"])

    @cached_property
    def answer_rows(self) -> list[int | None]:
        """For each row of test.csv the row of the answers with the same ids, None without one."""
        if not all(name in self.answers for name in self.ids):
            return [None] * rows_of(self.test)
        if not all(name in self.test for name in self.ids):
            alike = rows_of(self.test) == rows_of(self.answers)
            return [at if alike else None for at in range(rows_of(self.test))]
        place: dict[tuple[str, ...], int] = {}
        for at, key in enumerate(zip(*(self.answers[name] for name in self.ids), strict=True)):
            place.setdefault(key, at)
        return [place.get(key) for key in zip(*(self.test[name] for name in self.ids), strict=True)]

    @cached_property
    def item_column(self) -> str:
        """Of a ranking, whose ids are queries: the column of test.csv with the items that the answers list, else ""."""
        if self.spec["parse"] != "ranked" or not all(name in self.test for name in self.ids):
            return ""
        items = {
            item
            for name in self.targets
            if name in self.answers
            for cell in self.answers[name]
            for item in cell.split()
        }
        for column, cells in self.test.items():
            if column not in self.ids and items and len(items & set(cells)) >= NAMED_SHARE * len(items):
                return column
        return ""

    @cached_property
    def row_ids(self) -> list[str]:
        """The columns that tell the rows of train.csv and test.csv apart."""
        return [self.item_column] if self.item_column else self.ids

    @cached_property
    def chosen(self) -> "dict[str, NDArray[np.int_]]":
        """The row numbers of "train" and "test" that are compared, in order."""
        import numpy as np

        rng = np.random.RandomState(0)
        found = {}
        for part, most in MOST_COMPARED.items():
            count = rows_of(getattr(self, part))
            found[part] = np.sort(rng.permutation(count)[:most])
        return found

    @cached_property
    def strata(self) -> Any:
        """0 for each compared row of train, then 1 for each of test; shape (rows,)."""
        import numpy as np

        return np.repeat([0, 1], [len(self.chosen["train"]), len(self.chosen["test"])])

    def both(self, train: Sequence[Any] | None, test: Sequence[Any] | None, missing: Any) -> list[Any]:
        """The values of the compared rows, train first; `missing` for all rows of a part that is None."""
        found: list[Any] = []
        for part, values in (("train", train), ("test", test)):
            rows = self.chosen[part]
            found += [missing] * len(rows) if values is None else [values[at] for at in rows]
        return found

    @cached_property
    def features(self) -> list[str]:
        """The columns of test.csv that are neither ids nor names of files."""
        files = {column for column, _ in self._asset_columns}
        return [name for name in self.test if name not in (*self.ids, *self.row_ids) and name not in files]

    @cached_property
    def assets(self) -> list[Assets]:
        """The kinds of files that the rows of the test set have one each of."""
        rows = {part: rows_of(getattr(self, part)) for part in ("train", "test")}
        kinds: dict[str, Kind] = {}
        for column, stems in [*self._asset_columns, *((name, True) for name in self.ids)]:
            for part in ("train", "test"):
                for at, cell in enumerate(getattr(self, part).get(column, [])):
                    for name in self._named(cell, stems):
                        kind = kinds.setdefault(_kind(name), {each: [None] * count for each, count in rows.items()})
                        kind[part][at] = name
        return self._common(kinds) or self._common(_united(kinds))

    def _common(self, kinds: Mapping[str, Kind]) -> list[Assets]:
        """Those of which nearly all rows of the test set have a file."""
        count = rows_of(self.test)
        return [
            Assets(name, kind["train"], kind["test"])
            for name, kind in kinds.items()
            if count and sum(each is not None for each in kind["test"]) >= NAMED_SHARE * count
        ]

    @cached_property
    def _asset_columns(self) -> list[tuple[str, bool]]:
        """(column of test.csv that names files, whether it names them without their ending)."""
        found = []
        for column, cells in self.test.items():
            if column in self.ids:
                continue
            probe = [cell for cell in cells[:200] if cell]
            for stems in (False, True):
                known = sum(bool(self._named(cell, stems)) and not cell.replace(".", "").isdigit() for cell in probe)
                if probe and known >= NAMED_SHARE * len(probe):
                    found.append((column, stems))
                    break
        return found

    def _named(self, cell: str, stems: bool) -> list[str]:
        """The public files that a cell names: by path, by file name, or by the name without ending."""
        if cell in self.public:
            return [cell] if "/" in cell or not cell.lower().endswith(TABLES) else []
        by_name, by_stem = self._index
        return by_name.get(cell.rsplit("/", 1)[-1]) or (by_stem.get(cell, []) if stems else []) if cell else []

    @cached_property
    def _index(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        by_name: dict[str, list[str]] = {}
        by_stem: dict[str, list[str]] = {}
        for name in self.public:
            base = name.rsplit("/", 1)[-1]
            by_name.setdefault(base, []).append(name)
            by_stem.setdefault(base.split(".")[0], []).append(name)
        return by_name, by_stem

    @cached_property
    def side_tables(self) -> dict[str, Columns]:
        """The other public tables, by name: neither train, test, sample nor files of single rows."""
        of_rows = {name for each in self.assets for name in (*each.train, *each.test)}
        folders = {PurePosixPath(name).parent for name in of_rows if name and "/" in name}
        found = {}
        for name, content in self.public.items():
            if not name.lower().endswith(TABLES) or name in of_rows or PurePosixPath(name).parent in folders:
                continue
            table = table_of(content, name)
            if table and table not in (self.train, self.test, self.sample):
                found[name] = table
        return found


def _kind(name: str) -> str:
    """What the files of a kind have in common: the folder, without its part of the split, and the ending."""
    path = PurePosixPath(name)
    parts = ["*" if part.lower() in ("train", "test") else part for part in path.parent.parts]
    return "/".join([*parts, f"*{path.suffix}"])


def _united(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Kinds of one ending as one, whatever their folders (one for each class, say); of a row the first file that it has."""
    found: dict[str, Kind] = {}
    for name, kind in kinds.items():
        one = found.setdefault(f"*{PurePosixPath(name).suffix}", {part: [None] * len(kind[part]) for part in kind})
        for part, names in kind.items():
            one[part] = [old or new for old, new in zip(one[part], names, strict=True)]
    return found


def rows_of(table: Columns) -> int:
    return len(next(iter(table.values()), []))


def table_of(content: Content, name: str) -> Columns:
    """The columns of a table by name, no columns where it is none; short rows are filled up with empty cells."""
    try:
        raw = read(content)
        table = gzip.decompress(raw) if name.lower().endswith(".gz") else raw
        return _columns(read_rows(table, delimiter_of(name), strict=False))
    except (CsvError, OSError, EOFError, zlib.error):
        return {}


def _columns(lines: Iterator[list[str]]) -> Columns:
    header = next((line for line in lines if line and not line[0].startswith("#")), [])
    rows: list[list[str]] = []
    for line in lines:
        if not line or (line[0].startswith("#") and len(line) != len(header)):
            continue
        rows.append(line if len(line) == len(header) else (line + [""] * len(header))[: len(header)])
        if len(rows) >= MOST_ROWS:
            break
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    return {name: list(column) for name, column in zip(header, cells, strict=True)}


def changed(content: Content) -> float | None:
    """When a file on disk was last changed, in seconds; None of one that is not on disk yet."""
    return content.stat().st_mtime if isinstance(content, Path) else None
