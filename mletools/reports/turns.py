"""Results of agents in turns after each turn, from their records.

MLE-Ideator's figure 2 (best normalised score so far and share asking for help, by step) and SandMLE's figure 6 (medals
by the number of turns, here from one long run instead of several limited ones). The best so far is by test score, which
the agent may not have seen. Not covered: searches (search), means over tasks (summary).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .search import better_than, lower_is_better

HELP = "seek_help"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: whether it asked an ideator, and the verdict on the best valid submission so far, if any."""

    asked: bool
    valid: bool
    medal: bool
    normalised: float | None  # None: no submission yet, or no leaderboard


def by_turn(rollout: Mapping[str, Any]) -> tuple[Turn, ...] | None:
    """A Turn for each of the rollout's turns; None for single answers and searches."""
    if "settings" not in rollout or rollout.get("search") or not rollout.get("turns"):
        return None
    lower, best = lower_is_better(rollout), dict[str, Any]()
    turns = []
    for turn in rollout["turns"]:
        grade = turn.get("grade") or {}
        if (
            grade.get("valid")
            and grade.get("score") is not None
            and (not best or better_than(grade["score"], best["score"], lower))
        ):
            best = grade
        turns.append(Turn(turn["action"] == HELP, bool(best), bool(best.get("medal")), best.get("normalised_score")))
    return tuple(turns)
