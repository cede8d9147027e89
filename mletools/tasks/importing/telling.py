"""Which files beside train.csv could hold the rows of it that are held out, with their targets: these are left out.

A file is left out for its form (archives, spreadsheets, databases, arrays beside train.csv), for its name (train.*), for the word
of a target in it (JSON and the like), for a target's column, or because it begins with rows of train.csv, as a copy
without a header does. Not covered: labels in pictures, sounds and prose. answers_secret looks at what stays.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..table import Rejected
from .columns import Columns
from .sheet import Dialect, Nameless, read_header

ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".pkl", ".pickle", ".joblib")
# of which not all is looked at
OTHER_TABLES = (
    ".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".feather", ".arrow", ".orc", ".avro", ".db", ".sqlite", ".sqlite3", ".mdb",
    ".accdb", ".duckdb", ".rds", ".rdata", ".rda", ".dta", ".sav", ".sas7bdat",
)  # fmt: skip
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".mat", ".pt", ".pth")  # in a folder they are a row's own
TABLES = (".csv", ".tsv", ".txt", ".dat", ".data", ".tab", ".psv", ".parquet")
WORDS = (".json", ".jsonl", ".ndjson", ".geojson", ".yaml", ".yml", ".xml", ".arff", ".html")
MOST_WORDS = 64 << 20
SEPARATORS = ",\t;| "
LONGEST_LINE = 1 << 20
LOOKED_AT, FEWEST = 20, 5  # lines of a file that may be rows of train.csv


def may_tell(
    public: dict[str, Path], own: Sequence[str], targets: Sequence[str], train: Columns, how: Dialect
) -> list[str]:
    """The names of such files among `public`, but for the folder's `own` tables, which are made anew."""
    rows = _Rows(train)
    return sorted(name for name, path in public.items() if name not in own and _may(name, path, targets, rows, how))


def _may(name: str, path: Path, targets: Sequence[str], rows: "_Rows", how: Dialect) -> bool:
    low = Path(name).name.lower()
    if low.endswith(ARCHIVES + OTHER_TABLES) or low.split(".")[0] == "train":
        return True
    if low.endswith(ARRAYS):
        return "/" not in name
    if low.endswith(WORDS):
        return _has_word(path, targets)
    return low.endswith(TABLES) and (_has_column(path, targets, how) or rows.begin(path))


def _has_word(path: Path, targets: Sequence[str]) -> bool:
    """Whether a target is a word of a text, in JSON one between quotes, or the file too large for a look."""
    if path.stat().st_size > MOST_WORDS:
        return True
    content = path.read_bytes()
    if "json" not in path.suffix.lower():
        return any(name.encode() in content for name in targets)
    return any(json.dumps(name, ensure_ascii=each).encode() in content for name in targets for each in (True, False))


def _has_column(path: Path, targets: Sequence[str], how: Dialect) -> bool:
    """Whether a table has a target's column, or could have one: it is no text, and cannot be read."""
    prose = path.name.lower().endswith(".txt")
    read = False
    # the last one reads whatever was written, where names in ASCII are right in any encoding of one byte
    for each in dict.fromkeys((how, Dialect(), *([replace(Dialect(), encoding="latin-1")] if prose else ()))):
        try:
            if not set(targets).isdisjoint(read_header(path, each)):
                return True
            read = True
        except Nameless:  # such as a row's own series
            read = True
        except Rejected:
            pass
    return not read and not prose


class _Rows:
    """The rows of train.csv, with and without their first cell, which may be an id."""

    def __init__(self, train: Columns) -> None:
        rows = list(zip(*train.values(), strict=True))
        self._width = len(train)
        self._known = {*rows, *(row[1:] for row in rows)}

    def begin(self, path: Path) -> bool:
        """Whether a text begins with rows of the table: a copy of it, or of a part, without a header."""
        if path.name.lower().endswith(".parquet"):
            return False
        with path.open("rb") as file:
            lines = [file.readline(LONGEST_LINE).decode("utf-8-sig", errors="replace") for _ in range(LOOKED_AT)]
        lines = [line.rstrip("\r\n") for line in lines if line.strip()]
        return len(lines) >= FEWEST and any(
            self._width - 1 <= len(row) and all(tuple(each) in self._known for each in (row, *more))
            for separator in SEPARATORS
            for row, *more in [[[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator)]]
        )
