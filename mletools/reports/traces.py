"""Traces of scaffold memory: MLE-RL's agent works in several traces until its time is up and submits its best one.

A Trace has its start, its duration and the human ranks of its submissions; a Life those of a whole run, by start of the
trace and by submission (MLE-RL's figures 1, 4 and 5), ranks by mle-grade's rule. The best so far is the best by the score
that the run knew: of the validation, of the test with --reveal-test, or the one that programs reported themselves. A run
without such scores has no best so far. Not covered: the submitted turn of a
trace (the scaffold's choice), the submitted trace of a run (reading), means over tasks (summary).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ..base.errors import RecordError
from ..base.human_rank import human_rank
from ..records.rollout import Grade, Rollout, TurnGrade
from ..records.rollout import Turn as TurnRecord
from .search import CLOSE
from .turns import Turn

KINDS = ("memory", "reset")  # start of a trace: a solution of the pool, or scratch


class Submission(NamedTuple):
    """A valid submission: seconds since the start of the trace (or run), its human rank, and the score that was shown.

    `shown` is higher for better ones in every metric; None where no score was shown.
    """

    seconds: float
    rank: float
    shown: float | None = None


class Trace(NamedTuple):
    """One trace: its start, total seconds, its valid submissions, and its place in its run (0 in older records)."""

    kind: str
    seconds: float
    submissions: tuple[Submission, ...]
    number: int = 0


def shown_score(rollout: Rollout, part: Rollout | TurnRecord) -> float | None:
    """The score by which a run ranks its own work: of the validation, of the test with --reveal-test, or the one that its
    program reported (where no rows could be held out).

    `part` is the rollout or one of its turns. Higher is better, whatever the metric; None: there is no such score.
    """
    verdict = part.get("grade") if rollout.get("reveal_test") else part.get("validation")
    score = verdict.get("score") if verdict else part.get("reported_score")
    if score is None:
        return None
    return -float(score) if rollout["grade"]["lower_is_better"] else float(score)


def traced(rollout: Rollout, of: Sequence[Turn]) -> Trace | None:
    """The Trace of a rollout of scaffold memory; None for other rollouts, and for tasks without a leaderboard.

    RecordError: the human ranks of its turns cannot be converted to the rule of its grade.
    """
    whole = rollout["grade"]
    if rollout.get("trace") not in KINDS or (whole.get("teams") is None and whole.get("human_rank_rule") is None):
        return None
    submissions = tuple(
        Submission(turn.seconds, _rank(grade, whole), shown_score(rollout, cast(TurnRecord, turn.record)))
        for turn in of
        if (grade := turn.record.get("grade")) and grade["valid"] and grade.get("human_rank") is not None
    )
    seconds = of[-1].seconds if of else 0.0
    return Trace(rollout["trace"], seconds, submissions, rollout.get("trace_number", 0))


def _rank(turn: TurnGrade, whole: Grade) -> float:
    """The human rank of a turn's submission by the rule of the rollout's grade; during a run the rule is dojo."""
    rule, turn_rule = whole.get("human_rank_rule"), turn.get("human_rank_rule", "dojo")
    rank = turn["human_rank"]
    assert rank is not None
    if rule is None or rule == turn_rule:
        return float(rank)
    teams, two = whole["teams"], whole.get("public_teams") is not None
    if teams is None:
        raise RecordError("its grade has a rule of the human rank and no number of teams: grade it again")
    position = turn.get("position")
    if position is None and not two and turn_rule == "dojo":
        position = teams + 1 - round(rank * teams)
    if position is None or (two and rule == "dojo"):  # dojo: the mean over both boards; mle-rl: on the private one
        raise RecordError(
            f"the human ranks of its turns are by {turn_rule}, that of its grade by {rule}: grade by {turn_rule}"
        )
    return human_rank(position, teams, rule)


@dataclass(frozen=True, slots=True)
class Life:
    """A run of consecutive traces: its seconds, and (kind of trace, submission) of each valid submission."""

    seconds: float
    submissions: tuple[tuple[str, Submission], ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the traces with valid submissions."""
        return {kind for kind, _ in self.submissions}

    def best(self, kinds: Collection[str], share: float) -> float | None:
        """The human rank of the best of traces of these kinds within this share of the run's seconds; see best_rank."""
        if best_rank([each for _, each in self.submissions]) is None:
            return None
        until = share * self.seconds * (1 + CLOSE)
        return best_rank([each for of, each in self.submissions if of in kinds and each.seconds <= until])


def best_rank(submissions: Sequence[Submission]) -> float | None:
    """The human rank of the submission with the best shown score, the first of equals; 0 without submissions.

    None where no score was shown: the best by the test is what no agent can choose.
    """
    if not submissions:
        return 0.0
    known = [each for each in submissions if each.shown is not None]
    return max(known, key=lambda each: each.shown or 0.0).rank if known else None


def life(traces: Iterable[Trace]) -> Life:
    """The run of these traces, in order of their numbers; those of older records in the order given."""
    begun, submissions = 0.0, []
    for trace in sorted(traces, key=lambda trace: trace.number):
        submissions += [(trace.kind, each._replace(seconds=begun + each.seconds)) for each in trace.submissions]
        begun += trace.seconds
    return Life(begun, tuple(submissions))
