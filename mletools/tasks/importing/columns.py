"""Other people's tables as columns of text, so that no cell's bytes change on the way.

CSV is read as it is written. Parquet and Excel hold values, not text: numbers become their shortest text. No pickles:
they are programs. Not covered: what the columns mean.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base import csv_files
from ..table import MISSING, NUMBER, Column, Rejected, csv_bytes, shortest

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".xlsx")
FRAMES = (".parquet", ".xlsx")
Columns = dict[str, list[str]]
MOST_BYTES = 2 << 30
LFS = "version https://git-lfs.github.com"


def read_columns(path: Path) -> Columns:
    """The columns of a table by their names. Rejected when it is none, in words that name the file."""
    check_size(path)
    if path.name.lower().endswith(FRAMES):
        return dict(of_frame(path))
    try:
        columns = csv_files.read_columns(path, csv_files.delimiter_of(path.name))
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror or error}") from None
    except csv_files.CsvError as error:
        raise Rejected(f"{path.name}: {error}") from None
    reject_pointer(path, next(iter(columns)))
    return columns


def check_size(path: Path) -> None:
    """Rejected where a file is not there, or too large to be read as a table."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror or error}") from None
    if size > MOST_BYTES:
        raise Rejected(f"{path.name} has {size} bytes; tables of at most {MOST_BYTES} are read")


def reject_pointer(path: Path, text: str) -> None:
    """Rejected where the file's `text` begins as a Git LFS pointer does."""
    if text.startswith(LFS):
        raise Rejected(f"{path.name} is a Git LFS pointer, not the file: run git lfs pull where it comes from")


def of_frame(path: Path) -> list[tuple[str, list[str]]]:
    """The columns of a Parquet or Excel file, as pandas names them. Rejected with the reason."""
    import pandas as pd

    try:
        if path.name.lower().endswith(".parquet"):
            # nullable: whole numbers beside a missing one stay whole; floats of 53 bits would change them
            frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
            frame = frame.reset_index(
                [name for name in frame.index.names if name is not None and name not in frame.columns]
            )
        else:
            frame = pd.read_excel(path, keep_default_na=False, na_values=[""])
    except ImportError as error:
        raise _unread(path, error) from None
    except Exception as error:  # every engine has its own errors, and all say that this is no such file
        raise Rejected(f"{path.name} cannot be read: {type(error).__name__}: {str(error)[:200]}") from None
    if frame.empty:
        raise Rejected(f"{path.name} has no rows")
    columns = []
    for at, name in enumerate(frame.columns):
        cells = frame.iloc[:, at].tolist()
        odd = next(
            (cell for cell in cells if isinstance(cell, (list, tuple, dict, set)) or hasattr(cell, "shape")), None
        )
        if odd is not None:
            raise Rejected(
                f"{path.name}: column {str(name)!r} holds a {type(odd).__name__} in each cell, not a number or a text: "
                "write its parts as columns, or as a file for each row"
            )
        columns.append((str(name), [_text(cell) for cell in cells]))
    return columns


def _unread(path: Path, error: ImportError) -> Rejected:
    return Rejected(f"{path.name}: a library that reads it is not installed: pip install 'mletools[files]' ({error})")


def sheets_of(path: Path) -> list[str]:
    """The names of the sheets of an Excel file."""
    import pandas as pd

    with pd.ExcelFile(path) as file:
        return [str(name) for name in file.sheet_names]


def names_of_frame(path: Path) -> list[str]:
    """The names of its columns. Rejected with the reason."""
    try:
        if path.name.lower().endswith(".parquet"):
            from pyarrow.parquet import read_schema

            return [str(name) for name in read_schema(path).names]
        import pandas as pd

        return [str(name) for name in pd.read_excel(path, nrows=0).columns]
    except ImportError as error:
        raise _unread(path, error) from None
    except Exception as error:  # as in of_frame
        raise Rejected(f"{path.name} cannot be read: {type(error).__name__}: {str(error)[:200]}") from None


def _text(cell: Any) -> str:
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return "" if cell is None or str(cell) in ("NaT", "<NA>") else str(cell)
    if isinstance(cell, int) or math.isinf(cell):
        return str(cell)
    return shortest(cell)


def header_of(path: Path) -> list[str]:
    """The names in the first line of a CSV file. Rejected when there are none."""
    try:
        header = next(csv_files.read_rows(path, strict=False), [])
    except (OSError, csv_files.CsvError) as error:
        raise Rejected(f"{path.name}: {error}") from None
    if not "".join(header).strip():
        raise Rejected(f"{path.name}: the first line is empty")
    reject_pointer(path, header[0])
    return header


def written(columns: Mapping[str, Sequence[str]], names: Sequence[str], rows: Sequence[int] | None = None) -> bytes:
    """The CSV of these columns, of these rows or all."""
    cells = [columns[name] if rows is None else [columns[name][at] for at in rows] for name in names]
    return csv_bytes(list(names), [list(column) for column in cells])


def is_number(cells: Sequence[str]) -> bool:
    """Whether every cell that is not missing is a number, and one is."""
    distinct = set(cells) - MISSING
    return bool(distinct) and all(NUMBER.fullmatch(cell) for cell in distinct)


def features_of(columns: Mapping[str, Sequence[str]], without: Sequence[str]) -> list[Column]:
    """The columns but for some, each a number or a text."""
    return [Column(name, "", number=is_number(cells)) for name, cells in columns.items() if name not in without]


def labels_of(cells: Sequence[str]) -> list[str]:
    """The distinct cells, in the order of their numbers where all are."""
    distinct = sorted(set(cells))
    return sorted(distinct, key=float) if is_number(distinct) and not set(distinct) & MISSING else distinct
