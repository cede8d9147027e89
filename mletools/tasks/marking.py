"""What making a task needs of the grading room and of a sandbox, which this room must not import."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .baselines import Score
from .soundness.case import Trial


@dataclass(frozen=True)
class Marking:
    """Functions of others.

    score: see baselines.Score. lower_is_better(metric's name). definition(metric's name) says in words what it is.
    medals(scores, lower is better): the thresholds of a leaderboard by the name of the medal, the median among them.
    trial(record, public files by name, answers): a standard solution's run in a sandbox; None: none is tried.
    """

    score: Score
    lower_is_better: Callable[[str], bool]
    definition: Callable[[str], str]
    medals: Callable[[Sequence[float], bool], dict[str, float]]
    trial: Callable[[Mapping[str, Any], Mapping[str, Any], Any], Trial] | None = None
