"""CSV text of any origin, read as rows of text cells, and written; errors say where the text is wrong.

Importing this module sets the csv module's limit on the size of a cell. The limit belongs to the process: no other
module may change it, since other threads may be reading. Not covered: what cells mean.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

LARGEST_CELL = 1 << 30  # characters
csv.field_size_limit(LARGEST_CELL)  # noqa: TID251
# Cells that pandas, and so most people, read as missing.
MISSING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip


class CsvError(ValueError):
    """Not CSV text, or not a table; the message, such as "not UTF-8 text", says why and where, but not in which file."""


def delimiter_of(name: str) -> str:
    """What separates the cells of a file of this name: a tab in .tsv and .tsv.gz, else a comma."""
    return "\t" if name.lower().removesuffix(".gz").endswith(".tsv") else ","


def decoded(source: bytes | Path) -> io.TextIOWrapper:
    """UTF-8 text without its byte order mark, its line ends as they are. OSError."""
    return io.TextIOWrapper(_opened(source), encoding="utf-8-sig", newline="")


def read_rows(
    source: bytes | Path | Iterable[str], delimiter: str = ",", strict: bool = True, even: bool = False
) -> Iterator[list[str]]:
    """The rows of a file (gzipped where it is named .gz) or of lines of text, one at a time; OSError, CsvError.

    strict: quotes must be as in RFC 4180. even: empty rows are left out, and the others must be as wide as the first.
    """
    lines: Any = decoded(source) if isinstance(source, (bytes, Path)) else nullcontext(source)
    with lines as text:
        reader = csv.reader(text, delimiter=delimiter, strict=strict)
        try:
            if not even:
                yield from reader  # to its end
            width = 0
            for row in filter(None, reader):
                width = width or len(row)
                if len(row) != width:
                    raise CsvError(f"line {reader.line_num} has {len(row)} cells, the first line has {width}")
                yield row
        except csv.Error as error:
            raise CsvError(f"not CSV: line {reader.line_num}: {error}") from None
        except UnicodeDecodeError:
            raise CsvError(f"not UTF-8 text{_first_bad_byte(source)}") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise CsvError(f"not a whole gzip file: {error}") from None


def read_columns(source: bytes | Path, delimiter: str = ",") -> dict[str, list[str]]:
    """The cells of a table by the names of its columns. OSError; CsvError where it is none or has no rows."""
    lines = read_rows(source, delimiter, even=True)
    header, rows = next(lines, []), list(lines)
    if not rows:
        raise CsvError("there are no rows")
    if len(set(header)) < len(header):
        twice = next(name for at, name in enumerate(header) if name in header[:at])
        raise CsvError(f"column {twice!r} appears twice")
    return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV text with "\\n" line ends; every reader finds the same cells in it, also those with a lone "\\r"."""
    lines: list[str] = []
    # before Python 3.13, csv quotes of "\r" and "\n" only what the line's end holds
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(f"{line[:-2]}\n" for line in lines)


def _opened(source: bytes | Path) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    return gzip.open(source) if source.name.lower().endswith(".gz") else source.open("rb")  # type: ignore[return-value]


def _first_bad_byte(source: bytes | Path | Iterable[str]) -> str:
    """Where a file stops being UTF-8; "" of lines of text, whose bytes are gone."""
    if isinstance(source, (bytes, Path)):
        with _opened(source) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f": line {number}, byte {error.start + 1}"
    return ""
