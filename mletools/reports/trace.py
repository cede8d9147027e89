"""One trace of a run of scaffold memory: its start, its duration and the human ranks of its submissions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..records.errors import RecordError
from ..records.human_rank import human_rank

KINDS = ("memory", "reset")  # start of a trace: a solution of the pool, or scratch


class Submission(NamedTuple):
    """A valid submission: seconds since the start of the trace (or run), its human rank, and the score that was shown.

    `shown` is higher for better ones in every metric; None where no score was shown.
    """

    seconds: float
    rank: float
    shown: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its start, total seconds, and its valid submissions."""

    kind: str
    seconds: float
    submissions: tuple[Submission, ...]


def shown_score(rollout: Mapping[str, Any], part: Mapping[str, Any]) -> float | None:
    """The score by which a run ranks its own work: of the validation, or of the test with --reveal-test.

    `part` is the rollout or one of its turns. Higher is better, whatever the metric; None: no score was shown.
    """
    score = (part.get("grade" if rollout.get("reveal_test") else "validation") or {}).get("score")
    if score is None:
        return None
    return -float(score) if rollout["grade"]["lower_is_better"] else float(score)


def traced(rollout: Mapping[str, Any]) -> Trace | None:
    """The Trace of a rollout of scaffold memory; None for other rollouts, and for tasks without a leaderboard.

    RecordError: the human ranks of its turns cannot be converted to the rule of its grade.
    """
    if rollout.get("trace") not in KINDS or rollout["grade"].get("teams") is None:
        return None
    seconds, submissions = 0.0, []
    for turn in rollout["turns"]:
        seconds += turn["duration_s"]
        grade = turn.get("grade") or {}
        if grade.get("valid") and grade.get("human_rank") is not None:
            rank = _rank(grade, rollout["grade"])
            submissions.append(Submission(seconds, rank, shown_score(rollout, turn)))
    return Trace(rollout["trace"], seconds, tuple(submissions))


def _rank(turn: Mapping[str, Any], whole: Mapping[str, Any]) -> float:
    """The human rank of a turn's submission by the rule of the rollout's grade; during a run the rule is dojo."""
    rule, turn_rule = whole.get("human_rank_rule"), turn.get("human_rank_rule", "dojo")
    if rule is None or rule == turn_rule:
        return float(turn["human_rank"])
    teams, two = whole["teams"], whole.get("public_teams") is not None
    position = turn.get("position")
    if position is None and not two and turn_rule == "dojo":
        position = teams + 1 - round(turn["human_rank"] * teams)
    if position is None or (two and rule == "dojo"):  # dojo: the mean over both boards; mle-rl: on the private one
        raise RecordError(
            f"the human ranks of its turns are by {turn_rule}, that of its grade by {rule}: grade by {turn_rule}"
        )
    return human_rank(position, teams, rule)
