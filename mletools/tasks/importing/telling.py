"""Which files beside train.csv could hold the rows of it that are held out, with their targets: these are left out.

A file is left out for its form (archives, spreadsheets, databases and their dumps, notebooks; arrays and what no text is, beside
train.csv), for its name (train.*), for the word of a target in it (JSON; beside train.csv also YAML and the like), for a target's
column, or because it begins with rows of train.csv, as a copy without a header does; the last two whatever its name ends
in. In folders are the rows' own files. Not covered: labels in pictures, sounds and prose. answers_secret looks at what stays.
"""

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..table import Rejected
from .columns import Columns
from .sheet import Dialect, Nameless, read_header

PICKLES = (".pkl", ".pickle", ".joblib")
ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", *PICKLES)
# of which not all is looked at
OTHER_TABLES = (
    ".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".feather", ".arrow", ".orc", ".avro", ".db", ".sqlite", ".sqlite3", ".mdb",
    ".accdb", ".duckdb", ".rds", ".rdata", ".rda", ".dta", ".sav", ".sas7bdat", ".sql", ".dump", ".ipynb",
)  # fmt: skip
JSON = (".json", ".jsonl", ".ndjson", ".geojson")
TABLES = (".csv", ".tsv", ".txt", ".dat", ".data", ".tab", ".psv", ".parquet")
# in a folder they are a row's own
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".mat", ".pt", ".pth")
WORDS = (".yaml", ".yml", ".xml", ".arff")
BINARY = (".dat", ".data")
# not looked into; anything else may be a table under another name (.bak, .old, none at all)
MEDIA = (
    ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".dcm", ".nii", ".wav", ".mp3", ".flac", ".ogg", ".m4a",
    ".mp4", ".avi", ".mov", ".webm", ".pdf",
)  # fmt: skip
MOST_WORDS = 64 << 20
SEPARATORS = ",\t;| "
HEAD = 1 << 20  # bytes
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
    if low.endswith(JSON):
        return _has_name(path, targets)
    beside = "/" not in name
    if low.endswith((*ARRAYS, *WORDS)):
        return beside and (low.endswith(ARRAYS) or _has_word(path, targets))
    if low.endswith(MEDIA) or (not low.endswith(TABLES) and _is_binary(path)):
        return False
    prose = not low.endswith(TABLES) or low.endswith(".txt") or (low.endswith(BINARY) and not beside)
    return _has_column(path, targets, rows.names, how, prose) or rows.begin(path)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(4096)
    return b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))  # UTF-16


def _has_name(path: Path, targets: Sequence[str]) -> bool:
    """Whether a target stands between quotes in JSON, or the file is too large for a look."""
    if path.stat().st_size > MOST_WORDS:
        return True
    content = path.read_bytes()
    return any(json.dumps(name, ensure_ascii=each).encode() in content for name in targets for each in (True, False))


def _has_word(path: Path, targets: Sequence[str]) -> bool:
    """Whether a target is a word of a text, or the file is too large for a look."""
    if path.stat().st_size > MOST_WORDS:
        return True
    content = path.read_text(encoding="utf-8", errors="replace")
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", content) for name in targets)


def _has_column(path: Path, targets: Sequence[str], names: set[str], how: Dialect, prose: bool) -> bool:
    """Whether a table has a target's column, or could have one, because it cannot be read.

    prose: it may be none. Then a line that is a target, or names two columns of train.csv, is a header.
    """
    read = False
    # the last one reads whatever was written, where names in ASCII are right in any encoding of one byte
    for each in dict.fromkeys((how, Dialect(), *([replace(Dialect(), encoding="latin-1")] if prose else ()))):
        try:
            header = read_header(path, each)
            read = True
        except Nameless:  # such as a row's own series
            read = True
            continue
        except Rejected:
            continue
        if not set(targets).isdisjoint(header) and (not prose or len(header) == 1 or len(names & set(header)) > 1):
            return True
    return not read and not prose


class _Rows:
    """The rows of train.csv, with and without their first cell, which may be an id."""

    def __init__(self, train: Columns) -> None:
        self.names = set(train)
        rows = list(zip(*train.values(), strict=True))
        self._known = {*rows, *((row[1:] for row in rows) if len(train) > 2 else ())} if len(train) > 1 else set()

    def begin(self, path: Path) -> bool:
        """Whether a text begins with rows of the table: a copy of it, or of a part, without a header."""
        if path.name.lower().endswith(".parquet"):
            return False
        with path.open("rb") as file:
            head = file.read(HEAD)
        lines = [line for line in head.decode("utf-8-sig", errors="replace").splitlines() if line.strip()]
        if len(head) == HEAD:
            lines.pop()  # it may be cut
        found = [lines[:LOOKED_AT], lines[1:LOOKED_AT]]  # the first may be a header of other names
        return any(
            len(some) >= FEWEST and self._are_rows(some, separator) for some in found for separator in SEPARATORS
        )

    def _are_rows(self, lines: list[str], separator: str) -> bool:
        rows = csv.reader(lines, delimiter=separator)
        try:
            return all(tuple(cell.strip() for cell in row) in self._known for row in rows)
        except csv.Error:
            return False
