"""Other people's leaderboards, made into the one column that grading reads. No team's name is taken over."""

import math
from itertools import islice
from pathlib import Path

from ...base.csv_files import CsvError, read_rows
from ...base.errors import RecordError
from ...grading import check_direction
from ..table import Rejected
from .columns import header_of


def scores_of(path: Path) -> list[str]:
    """The texts in the column `score` (in any case) of a leaderboard, in its order, rows without one left out."""
    header = [name.strip().lower() for name in header_of(path)]
    if "score" not in header:
        raise Rejected(f"{path.name} has no column score")
    at = header.index("score")
    try:
        cells = [row[at].strip() for row in islice(read_rows(path, strict=False), 1, None) if row[at:]]
    except (OSError, CsvError) as error:
        raise Rejected(f"{path.name}: {error}") from None
    kept = [cell for cell in cells if cell and cell.lower() not in ("nan", "none", "null")]
    for cell in kept:
        try:
            good = math.isfinite(float(cell))
        except ValueError:
            good = False
        if not good:
            raise Rejected(f"{path.name}: the score {cell[:40]!r} is no finite number")
    if not kept:
        raise Rejected(f"{path.name} has no scores")
    return kept


def board(path: Path, lower_is_better: bool) -> bytes:
    """The leaderboard as grading reads it. Rejected where its order contradicts the direction."""
    scores = scores_of(path)
    try:
        check_direction([float(score) for score in scores], lower_is_better)
    except RecordError as error:
        raise Rejected(f"{path.name}: {error}") from None
    return ("score\n" + "".join(f"{score}\n" for score in scores)).encode()


def direction_of(path: Path) -> bool | None:
    """Whether lower is better by the order of a leaderboard, the best first; None where all are equal."""
    scores = [float(score) for score in scores_of(path)]
    return None if scores[0] == scores[-1] else scores[0] < scores[-1]
