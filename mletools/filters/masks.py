"""Which of the policy's messages must not carry loss (MLE-RL, section 4.1: they are masked, not punished).

Covered: messages without an action that can be read (with --format strict: in the exact form), cut off, calls of what
does not exist, and hand-ins that were invalid. Not covered: programs that failed without being handed in: trying is no fault.
"""

from ..records.rollout import Rollout, Turn
from .steps import HANDS_IN, only_lenient, own_submission

FORM = {"length", "missing", "several", "malformed", "unknown", "early"}  # problems of a turn that are about its form


def masked(rollout: Rollout) -> list[int]:
    """The places in `messages` of the policy's messages that must not carry loss, of a graded rollout."""
    own = [at for at, message in enumerate(rollout["messages"]) if message.get("loss")]
    turns, grade = [turn for turn in rollout["turns"] if "message" in turn], rollout["grade"]
    if not turns:
        return [] if grade["valid"] and rollout["stop_reason"] != "format" else own
    in_bad_form = [turn for turn in turns if turn.get("problem") in FORM or only_lenient(rollout, turn)]
    bad = {turn["message"] for turn in (*in_bad_form, *filter(_invalid, turns))}
    if not grade["valid"] and grade["digest"] is not None:
        handed_in = ((turn, submission) for turn in turns if (submission := own_submission(turn)))
        bad |= {turn["message"] for turn, submission in handed_in if submission["digest"] == grade["digest"]}
    return [at for at in own if at in bad]


def _invalid(turn: Turn) -> bool:
    """True if the turn's submission is invalid."""
    if own_submission(turn):
        grade = turn.get("grade")
        return grade is not None and not grade["valid"]
    return turn["action"] in HANDS_IN and "execution" in turn
