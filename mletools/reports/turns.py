"""Where agents in turns stand after each of their turns, from their records alone.

MLE-Ideator's figure 2 (the best normalised score so far and how often help is asked for, by step) and SandMLE's figure 6
(medals by the turns that an agent may take, here of one long run instead of several bounded ones). The best so far is by
the score on the test, which the agent may never have seen. Not covered: searches (search), means over tasks (summary).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .search import better_than, lower_is_better

HELP = "seek_help"


@dataclass(frozen=True, slots=True)
class Turn:
    """After one turn: whether it asked an ideator, and the verdict on the best valid submission by then, if there is one."""

    asked: bool
    valid: bool
    medal: bool
    normalised: float | None  # None: no submission yet, or no leaderboard


def by_turn(rollout: Mapping[str, Any]) -> tuple[Turn, ...] | None:
    """A Turn for each of the rollout's turns; None of what no agent in turns made, and of a search."""
    if "settings" not in rollout or rollout.get("search") or not rollout.get("turns"):
        return None
    lower, best = lower_is_better(rollout), dict[str, Any]()
    found = []
    for turn in rollout["turns"]:
        grade = turn.get("grade") or {}
        if (
            grade.get("valid")
            and grade.get("score") is not None
            and (not best or better_than(grade["score"], best["score"], lower))
        ):
            best = grade
        found.append(Turn(turn["action"] == HELP, bool(best), bool(best.get("medal")), best.get("normalised_score")))
    return tuple(found)
