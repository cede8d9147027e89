"""One trace of a run of scaffold memory: its start, its duration and the human ranks of its submissions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..records.errors import RecordError
from ..records.human_rank import human_rank

KINDS = ("memory", "reset")  # how a trace began: from a solution of the pool, from scratch


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its start, total seconds, and (elapsed seconds, human rank) of each valid submission."""

    kind: str
    seconds: float
    submissions: tuple[tuple[float, float], ...]


def traced(rollout: Mapping[str, Any]) -> Trace | None:
    """The Trace of a rollout of scaffold memory; None of any other, and of a task without a leaderboard.

    RecordError where the human ranks of its turns cannot be had by the rule of its grade.
    """
    if rollout.get("trace") not in KINDS or rollout["grade"].get("teams") is None:
        return None
    seconds, found = 0.0, []
    for turn in rollout["turns"]:
        seconds += turn["duration_s"]
        grade = turn.get("grade") or {}
        if grade.get("valid") and grade.get("human_rank") is not None:
            found.append((seconds, _rank(grade, rollout["grade"])))
    return Trace(rollout["trace"], seconds, tuple(found))


def _rank(turn: Mapping[str, Any], whole: Mapping[str, Any]) -> float:
    """The human rank of a turn's submission by the rule of the whole's: while a rollout is made, ranks are by dojo."""
    rule, given = whole.get("human_rank_rule"), turn.get("human_rank_rule", "dojo")
    if rule is None or rule == given:
        return float(turn["human_rank"])
    teams, two = whole["teams"], whole.get("public_teams") is not None
    position = turn.get("position")
    if position is None and not two and given == "dojo":
        position = teams + 1 - round(turn["human_rank"] * teams)
    if position is None or (two and rule == "dojo"):  # dojo: the mean over both boards; mle-rl: on the private one
        raise RecordError(f"the human ranks of its turns are by {given}, that of its grade by {rule}: grade by {given}")
    return human_rank(position, teams, rule)
