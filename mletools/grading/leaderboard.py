"""A score's position on a leaderboard: medals, median, human rank, normalised score.

A leaderboard is a CSV file with a column `score`, one row per team. It is sorted here, best first; rows with an empty
score are dropped; scores are not rounded. Not covered: teams' names, dates, prizes.
"""

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from ..base.csv_files import read_rows
from ..base.errors import RecordError, ToolError
from ..records.rollout import Medal
from ..records.task import Thresholds

MEDALS: tuple[Medal, ...] = ("gold", "silver", "bronze")


def better(score: float, than: float, lower_is_better: bool) -> bool:
    """True if `score` is strictly better."""
    return score < than if lower_is_better else score > than


def medal_rows(teams: int) -> dict[str, int]:
    """The last row, counted from 1, that wins each medal among `teams` teams.

    Kaggle's tiers as in MLE-bench (grade_helpers.py): each tier ends before the next begins and has one row at least.
    Percentages are rounded down.
    """
    if teams < 100:
        shares = (teams // 10, teams // 5, teams * 2 // 5)
        gold, silver, bronze = (max(1, rows) for rows in shares)
    elif teams < 250:
        gold, silver, bronze = 10, teams // 5, teams * 2 // 5
    elif teams < 1000:
        gold, silver, bronze = 10 + teams // 500, 50, 100
    else:
        gold, silver, bronze = 10 + teams // 500, teams // 20, teams // 10
    return {"gold": gold, "silver": silver, "bronze": bronze}


@dataclass(frozen=True)
class Leaderboard:
    """The teams' scores, best first."""

    scores: tuple[float, ...]
    lower_is_better: bool

    @property
    def thresholds(self) -> Thresholds:
        """The score of each medal's last row, and the median of all scores."""
        import statistics

        rows = medal_rows(len(self.scores))
        bronze, silver, gold = (self.scores[rows[name] - 1] for name in ("bronze", "silver", "gold"))
        return {"median": statistics.median(self.scores), "bronze": bronze, "silver": silver, "gold": gold}

    def position(self, score: float) -> int:
        """1 + the number of teams that are strictly better."""
        import bisect

        if self.lower_is_better:
            return 1 + bisect.bisect_left(self.scores, score)
        return 1 + bisect.bisect_left(self.scores, -score, key=lambda each: -each)

    def normalised(self, score: float) -> float | None:
        """max(0, 100 (score - worst) / (best - worst)), MLE-Ideator section 4; None where best and worst are equal."""
        best, worst = self.scores[0], self.scores[-1]
        return None if best == worst else max(0.0, 100 * (score - worst) / (best - worst))


def read_leaderboard(path: str, lower_is_better: bool) -> Leaderboard:
    """The leaderboard in a file. ToolError when it cannot be read."""
    try:
        return _read(path, os.stat(path).st_mtime_ns, lower_is_better)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


@functools.lru_cache(maxsize=256)
def _read(path: str, modified_ns: int, lower_is_better: bool) -> Leaderboard:
    try:
        lines = read_rows(Path(path))
        at = next(lines, []).index("score")
        scores = [float(row[at]) for row in lines if row[at:] and row[at].strip()]
    except ValueError as error:
        raise ToolError(f"{path}: a leaderboard needs a column 'score' of numbers: {error}") from None
    if not scores or not all(map(math.isfinite, scores)):
        raise ToolError(f"{path}: a leaderboard needs at least one row, and a finite score in each")
    return Leaderboard(tuple(sorted(scores, reverse=not lower_is_better)), lower_is_better)


def check_direction(scores: Sequence[float], lower_is_better: bool) -> None:
    """RecordError when scores in leaderboard order, best first, contradict the declared direction."""
    if len(scores) > 1 and better(scores[-1], scores[0], lower_is_better):
        direction = "lower" if lower_is_better else "higher"
        raise RecordError(
            f"the leaderboard begins with {scores[0]:g} and ends with {scores[-1]:g}, but {direction} should be better"
        )


def check_thresholds(thresholds: Thresholds, lower_is_better: bool) -> None:
    """RecordError unless median, bronze, silver and gold are each strictly better than the one before."""
    names: tuple[Literal["median", "bronze", "silver", "gold"], ...] = ("median", "bronze", "silver", "gold")
    for worse, best in pairwise(names):
        if not better(thresholds[best], thresholds[worse], lower_is_better):
            raise RecordError(
                f"thresholds.{best} is {thresholds[best]:g}: not better than thresholds.{worse}, {thresholds[worse]:g}"
            )


def medal(score: float, thresholds: Thresholds, lower_is_better: bool) -> Medal | None:
    """The best medal whose threshold `score` reaches; equality is enough, as in MLE-bench."""
    for name in MEDALS:
        if not better(thresholds[name], score, lower_is_better):
            return name
    return None
