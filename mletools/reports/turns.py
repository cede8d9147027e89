"""The turns of a rollout: each record with what follows from the turns before it.

mle-show, the page, the tables and the figures read turns from here. Results by turn are MLE-Ideator's figure 2 (best
normalised score so far and share asking for help, by step) and SandMLE's figure 6 (medals by the number of turns, here
from one long run instead of several limited ones). Not covered: means over tasks (courses), text (show).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..grading.leaderboard import better

HELP = "seek_help"
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a rollout.

    number: from 1; message: the place of the policy's message, None if there is none; seen: the places of the messages
    between the last policy's message and this; kind: `bash`, `cell` (of a session) or `program`; program: the code that
    it wrote; best: the best validation score so far (of a node, the score of the search); improved: the turn has that
    score, and no turn before; best_grade: the verdict on the best valid submission so far by test score, which the
    agent may not have seen, {} without any; seconds: from the first turn's start to the end of this, summed; parent: of
    a node, the turn of its first parent, None if that is not among the turns before; earlier: the program that its own
    is compared with, and its name (the last of its kind, or what the rollout began with; of a node, its parent's).
    """

    number: int
    record: Record
    message: int | None
    seen: range
    kind: str
    program: str | None
    best: float | None
    improved: bool
    best_grade: Record
    seconds: float
    parent: "Turn | None" = field(repr=False, compare=False)  # hundreds deep
    earlier: tuple[str, str] | None

    @property
    def called(self) -> int:
        """The number by which users know it: a node's own, else the turn's."""
        return int(self.node.get("number", self.number))

    @property
    def name(self) -> str:
        return f"{'node' if self.node else 'turn'} {self.called}"

    @property
    def node(self) -> Record:
        """Of a search's graph; {} without one."""
        return self.record.get("node") or {}

    @property
    def ran(self) -> Record | None:
        """Its execution or cell."""
        return self.record.get("execution") or self.record.get("cell")


class Verdict(NamedTuple):
    """The test verdict on a submission; normalised: None without a leaderboard, or if the submission is invalid."""

    valid: bool = False
    medal: bool = False
    normalised: float | None = None

    @classmethod
    def of(cls, grade: Record | None) -> "Verdict":
        """The Verdict in a grade; that of an invalid submission if there is none."""
        grade = grade or {}
        valid = bool(grade.get("valid"))
        return cls(valid, bool(grade.get("medal")), grade.get("normalised_score") if valid else None)

    def values(self, board: bool, prefix: str = "") -> dict[str, float | None]:
        """Its fields as numbers; board: the task has a leaderboard, on which no submission counts as 0."""
        normalised = (self.normalised or 0.0) if board else None
        values = {"valid": float(self.valid), "medal": float(self.medal), "normalised": normalised}
        return {f"{prefix}{name}": value for name, value in values.items()}


def turns(rollout: Record) -> list[Turn]:
    """The turns of a rollout record, in order."""
    lower = lower_is_better(rollout)
    messages, records = rollout["messages"], rollout["turns"]
    own = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    sampled = [at for at in own if messages[at].get("loss")] or own
    best: float | None = (rollout.get("state") or {}).get("validation")
    best_grade: Record = {}
    last, seconds = -1, 0.0
    nodes: dict[int, Turn] = {}  # by number
    began = began_with(rollout)
    written = {"program": began} if began else {}  # by kind, the last program and its name
    listed = []
    for at, record in enumerate(records):
        place = record.get("message", sampled[at] if at < len(sampled) else None)
        # 1.0 is a whole number in JSON
        message = int(place) if place is not None and place < len(messages) else None
        seen = range(last + 1, message) if message is not None else range(0)
        last = last if message is None else message
        score = (record.get("node") or record.get("validation") or {}).get("score")
        improved = score is not None and (best is None or better(score, best, lower))
        best = score if improved else best
        grade = record.get("grade") or {}
        test = grade.get("score") if grade.get("valid") else None
        if test is not None and (not best_grade or better(test, best_grade["score"], lower)):
            best_grade = grade
        # a rollout that is run after its turns: the last has written the program at the top
        program = rollout["code"] if at == len(records) - 1 and runs_after(rollout) else record.get("code")
        seconds += record["duration_s"]
        kind = "bash" if record["action"] == "bash" else "cell" if "cell" in record else "program"
        node, parent, earlier = record.get("node"), None, written.get(kind)
        if node:
            parent = nodes.get(node["parents"][0]) if node["parents"] else None
            earlier = (parent.program, f"{parent.name}, its parent") if parent and parent.program is not None else None
        turn = Turn(at + 1, record, message, seen, kind, program, best, improved, best_grade, seconds, parent, earlier)
        if node:
            nodes.setdefault(node["number"], turn)
        if program is not None:
            written[kind] = (program, turn.name)
        listed.append(turn)
    return listed


def numbers(rollout: Record) -> set[int]:
    """The numbers by which users know its turns, or of a search its nodes."""
    return {int((turn.get("node") or {}).get("number", at)) for at, turn in enumerate(rollout["turns"], 1)}


def began_with(rollout: Record) -> tuple[str, str] | None:
    """The program that a rollout began with, if it did, and its name."""
    code = (rollout.get("state") or {}).get("code")
    return (code, "the solution that it began with") if code else None


def runs_after(rollout: Record) -> bool:
    """Whether no turn ran anything: mle-sandbox does, later."""
    return not any(turn.get("code") or turn.get("execution") or turn.get("cell") for turn in rollout["turns"])


def by_turn(rollout: Record, of: Sequence[Turn]) -> tuple[tuple[bool, Verdict], ...] | None:
    """For each turn whether it asked an ideator, and the verdict on the best valid submission so far.

    None for single answers and searches.
    """
    if "settings" not in rollout or rollout.get("search") or not of:
        return None
    return tuple((turn.record["action"] == HELP, Verdict.of(turn.best_grade)) for turn in of)


def lower_is_better(rollout: Record) -> bool:
    return bool(rollout["task"]["metric"]["lower_is_better"])
