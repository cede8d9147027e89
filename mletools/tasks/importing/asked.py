"""What an import is asked to do and what it borrows: the options of the command, the functions of the grading room."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..baselines import Score

FORMATS = ("mle-bench", "mle-dojo", "sandmle", "kaggle", "table")


@dataclass(frozen=True)
class Asked:
    """The options. `lower_is_better` is None where nothing was said; `thresholds` says whether baselines make any."""

    seed: int = 0
    format: str = "auto"
    repo: Path | None = None
    metric: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    id: str | None = None
    answers: Path | None = None
    description: Path | None = None
    test_share: float = 0.2
    thresholds: bool = True
    lower_is_better: bool | None = None


@dataclass(frozen=True)
class Grading:
    """What this room needs of the grading room, which it must not import.

    score: see baselines.Score. check_task(record) and check_direction(scores in the leaderboard's order, lower is
    better) raise RecordError. find(name) is a metric with parse, answer_parse, lower_is_better, best, definition.
    answer_spec(record) is how the answers' cells are read.
    """

    score: Score
    check_task: Callable[[Mapping[str, Any]], None]
    check_direction: Callable[[Sequence[float], bool], None]
    find: Callable[[str], Any]


@dataclass(frozen=True)
class Candidate:
    """A folder (or a table's file) that holds a task of one of FORMATS."""

    format: str
    name: str
    path: Path

    @property
    def source(self) -> str:
        return f"{self.format}:{self.name}"


@dataclass(frozen=True)
class Unprepared:
    """A folder that holds no task, and why."""

    name: str
    reason: str
