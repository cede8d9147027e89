"""Whether a public file beside the labels' own table could tell the labels of the validation rows.

Only names, headers and the lists of archives are looked at. Not covered: labels hidden in pictures, sounds or texts.
"""

import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from ...base.csv_files import CsvError, delimiter_of, read_rows
from ..importing import telling
from ..table import Rejected

TABLES = (".csv", ".tsv")
TEXTS = (".txt", ".dat", ".data", ".tab", ".psv")  # which may be tables, and may be prose
SEPARATORS = ",;\t|"
# Archives and other forms of a table, which are not looked into: refused where their name does not say better.
ARCHIVES = (".7z", ".rar", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
OTHER_TABLES = (".parquet", ".gz", ".bz2", ".xz", ".zst", *telling.PICKLES, *telling.OTHER_TABLES, *telling.JSON)
HEADER_BYTES = 1 << 20


def check_leaks(public: Path, names: Sequence[str], sources: Sequence[str], own: Collection[str]) -> None:
    """Rejected names a file that may hold the columns `sources` of the labels, but for the view's `own` tables."""
    for name in names:
        low = PurePosixPath(name).name.lower()
        if name in own or "sample" in low:
            continue
        told = sorted(set(sources) & _columns(public, name)) if low.endswith((*TABLES, *TEXTS, ".parquet")) else []
        if told:
            raise Rejected(f"public/{name} has the column {told[0]!r} too: it may hold the validation rows' labels")
        if (
            (low.endswith(OTHER_TABLES) and "train" in low)
            or (low.endswith(ARCHIVES) and "test" not in low)
            or (low.endswith(".zip") and _holds_tables(public / name))
        ):
            raise Rejected(f"public/{name} may hold the validation rows' labels")


def header_of(path: Path, separator: str | None = None) -> list[str]:
    """The first line of a table, [] where that cannot be read. separator: None for that of the name. FileNotFoundError."""
    try:
        with path.open("rb") as file:
            line = file.readline(HEADER_BYTES).decode("utf-8-sig", errors="replace")
        return next(read_rows([line], separator or delimiter_of(path.name), strict=False), [])
    except FileNotFoundError:
        raise
    except (OSError, CsvError):
        return []


def _columns(public: Path, name: str) -> set[str]:
    """What the columns of a table may be called, whatever separates them; none where that cannot be read.

    A text is one if its first line names two columns of train.csv.
    """
    path = public / name
    if path.name.lower().endswith(".parquet"):
        try:
            from pyarrow.parquet import read_schema

            return set(read_schema(path).names)
        except FileNotFoundError:
            raise
        except Exception:  # not installed, or no such file: its errors are many
            return set()
    found = [{cell.strip() for cell in header_of(path, separator)} for separator in SEPARATORS]
    if path.name.lower().endswith(TEXTS):
        train = set(header_of(public / "train.csv")) if (public / "train.csv").is_file() else set()
        found = [names for names in found if len(names & train) > 1]
    return set().union(*found)


def _holds_tables(path: Path) -> bool:
    """Whether a .zip lists a table that is not one of the test set, or cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [PurePosixPath(member).name.lower() for member in archive.namelist()]
    except FileNotFoundError:
        raise
    except (OSError, zipfile.BadZipFile):
        return True
    return any(each.endswith((*TABLES, *OTHER_TABLES)) and "test" not in each for each in members)
