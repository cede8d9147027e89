"""Single files of an import's source: looked up in several places, never outside the folder that they belong to."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...base.csv_files import CsvError, read_rows
from ...records.sample import SAMPLES
from ..table import Rejected
from .columns import header_of, reject_pointer

MOST_DESCRIPTION = 1 << 20


def inside(path: Path, root: Path) -> Path:
    """The real path of a file. Rejected when it is a link that leads out of `root`."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(root)):
        raise Rejected(f"{path.name} is a link to {real}, outside the folder: refused")
    return real


def first(places: Iterable[Path], names: Sequence[str]) -> Path | None:
    """The first of `names` that is a file in one of the `places`; links must stay in their place."""
    for place in places:
        for name in names:
            if (place / name).is_file():
                return inside(place / name, place)
    return None


def text_of(path: Path) -> str:
    """A description's text. Rejected when it is too long or not there."""
    try:
        if path.stat().st_size > MOST_DESCRIPTION:
            raise Rejected(f"{path.name} has more than {MOST_DESCRIPTION} bytes")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Rejected(f"{path.name}: {error.strerror}") from None
    reject_pointer(path, text)
    return text.strip() + "\n" if text.strip() else ""


def sample_file(public: dict[str, Path], name: str | None) -> Path:
    """The sample submission, of that name or of a usual one. Rejected when there is none."""
    names = [name] if name else [each for each in SAMPLES if each in public]
    if not names or names[0] not in public:
        raise Rejected(f"there is no {names[0] if names else SAMPLES[0]}")
    return public[names[0]]


def sample_header(public: dict[str, Path], name: str | None) -> list[str]:
    """The columns of the sample submission. Rejected when there is none."""
    return header_of(sample_file(public, name))


def distinct_rows(path: Path, key: Sequence[str]) -> int:
    """How many different ids a CSV file has. Rejected when a column is missing or there is no row."""
    header = header_of(path)
    missing = [name for name in key if name not in header]
    if missing:
        raise Rejected(f"{path.name} has no column {missing[0]!r}; it has {', '.join(map(repr, header[:10]))}")
    at = [header.index(name) for name in key]
    try:
        lines = read_rows(path, strict=False)
        next(lines)
        ids = {tuple(row[each] for each in at) for row in lines if row}
    except (OSError, CsvError) as error:
        raise Rejected(f"{path.name} cannot be read: {error}") from None
    except IndexError:
        raise Rejected(f"{path.name} has a row without a cell in column {header[max(at)]!r}") from None
    if not ids:
        raise Rejected(f"{path.name} has no rows")
    return len(ids)
