"""Cut a rollout in turns into steps, one rollout for each valid submission (MLE-RL, section 4.1, equations 3 and 4).

A step is what the policy did since its last valid submission, up to and with the message that handed in the next.
With failed steps, each program that was handed in without a valid submission ends a step, too, and what follows the
last one is a step without a submission: all of the data, from which the paper's first arm of table 4 learns.
Covered: scaffolds in turns; a rollout of one answer is one step as it is. Not covered: searches (mle-rollout has
--cut-steps for those), and how many teams a score leaves behind, which reaches this module as an argument.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from ..base.errors import RecordError
from ..base.ids import content_id
from ..records.rollout import Execution, HumanRank, Reference, Rollout, SubmissionFile, Turn, Usage
from ..records.task import Task

HANDS_IN = {"execute_code", "solve", "improve"}  # actions whose program is to leave a submission
# (turns up to the one that hands in, that turn or None, what a session ran in) -> the program and its execution
HandIn = Callable[[Sequence[Turn], Turn | None, Mapping[str, object]], tuple[str | None, Execution]]
Standing = Callable[[Task, float], HumanRank]  # of a test score
# What was said of the whole rollout, and is not true of a step.
OF_THE_WHOLE = ("usage_by_role", "instrument", "grade", "reward", "filter", "idea_types", "refit", "reported_score")
Number = TypeVar("Number", int, float)
BOX = ("backend", "start", "gpu", "protections", "machine", "limits")


@dataclass(frozen=True)
class Cut:
    """The steps of a rollout; `reason` says why there are none; `turns_left` are the turns after the last step."""

    steps: list[Rollout]
    reason: str | None
    turns_left: int


def own_submission(turn: Turn) -> SubmissionFile | None:
    """The submission file that this turn left; None if it left none or repeats an earlier one."""
    return turn.get("submission") or (turn["execution"]["submission"] if turn.get("execution") else None)


def _is_valid(turn: Turn) -> bool:
    grade = turn.get("grade")
    return grade is not None and grade["valid"]


def cut(rollout: Rollout, hand_in: HandIn, standing: Standing, failed: bool = False) -> Cut:
    """The steps of a rollout, in order; `failed`: with failed steps. RecordError for one that is a step already."""
    if "cut" in rollout:
        raise RecordError(f"is a step already, of {rollout['cut']['rollout']}: give --cut-steps what mle-rollout wrote")
    turns = rollout["turns"]
    if rollout["stop_reason"] == "asked":
        return Cut([], "no step: a state, which hands in nothing", len(turns))
    if "search" in rollout:
        return Cut([], "no step: a search, whose steps are what mle-rollout --write-steps wrote", len(turns))
    if len(turns) == 1 and "message" not in turns[0]:
        return Cut([_alone(rollout, standing)], None, 0)
    valid = [at for at, turn in enumerate(turns) if own_submission(turn) and _is_valid(turn)]
    ends = valid if not failed else [at for at, turn in enumerate(turns) if _hands_in(turn)]
    if failed and turns and len(turns) - 1 not in ends:
        ends.append(len(turns) - 1)
    if not ends:
        tried = any(own_submission(turn) and "grade" in turn for turn in turns)
        reason = "no step: no submission was valid" if tried else "no step: nothing was handed in"
        return Cut([], reason, len(turns))
    if any("message" not in turn for turn in turns):
        raise RecordError('no "message" in a turn: was this written by mle-rollout?')
    begins = [0, *(end + 1 for end in ends[:-1])]
    steps: list[Rollout] = []
    for number, (first, last) in enumerate(zip(begins, ends, strict=True), start=1):
        before = next((turns[at] for at in reversed(valid) if at < first), None)
        reference = _reference(rollout, before, standing)
        named = _named(rollout, (number, "failed") if failed else (number,), len(ends), [first, last], reference)
        steps.append(_step(rollout, named, first, last, hand_in))
    return Cut(steps, None, len(turns) - 1 - ends[-1])


def _hands_in(turn: Turn) -> bool:
    """Whether a program was handed in, with a submission or without."""
    judged = own_submission(turn) is not None and "grade" in turn
    return judged or (turn["action"] in HANDS_IN and "execution" in turn)


def _reference(rollout: Rollout, before: Turn | None, standing: Standing) -> Reference | None:
    """The reference of a step's gain: the start of its trace, else the previous submission (figure 3b)."""
    score = (rollout.get("state") or {}).get("score")
    if score is not None:
        return {"of": "state", "score": score, **standing(rollout["task"], score)}
    if before is None:
        return None
    grade = before.get("grade")
    score = grade and grade.get("score")
    assert score is not None  # it is valid
    return {"of": "previous", "score": score, **standing(rollout["task"], score)}


def reference_of(rollout: Rollout) -> tuple[float, HumanRank | None] | None:
    """The score, and the rank if it is known, that a graded rollout's gain is measured from.

    That of a step's own reference or of a rollout's start state; None: there is neither.
    """
    if "cut" in rollout:
        reference = rollout["cut"]["reference"]
        return None if reference is None else (reference["score"], reference)
    score = (rollout.get("state") or {}).get("score")
    return None if score is None else (score, None)


def _named(
    rollout: Rollout, number: tuple[int | str, ...], steps: int, turns: list[int], reference: Reference | None
) -> dict[str, object]:
    """The keys by which a step is a rollout of its own; `number` begins with its number, of `steps`, and tells it from
    others.

    Each step is a group of one: no two steps answer the same prompt, so nothing may compare their rewards as a group's.
    """
    id = content_id("step", rollout["id"], *number)
    of = {"rollout": rollout["id"], "group": rollout["group"], "sample": rollout["sample"]}
    place = {**of, "step": number[0], "steps": steps, "turns": turns, "reference": reference}
    return {"id": id, "group": id, "group_size": 1, "sample": 0, "cut": place}


def _alone(rollout: Rollout, standing: Standing) -> Rollout:
    kept = {name: value for name, value in rollout.items() if name not in ("grade", "reward", "filter", "idea_types")}
    return cast(Rollout, {**kept, **_named(rollout, (1,), 1, [0, 0], _reference(rollout, None, standing))})


def _step(rollout: Rollout, named: dict[str, object], first: int, last: int, hand_in: HandIn) -> Rollout:
    turns = rollout["turns"][: last + 1]
    own, end = turns[first:], turns[last]
    messages = []
    for at, message in enumerate(rollout["messages"][: end["message"] + 1]):
        earlier = message.get("loss") and at < own[0]["message"]
        messages.append({**message, "loss": False} if earlier else dict(message))
    box = {name: rollout["execution"].get(name) for name in BOX}
    handed = _hands_in(end)
    code, execution = hand_in(turns, end, box) if handed else hand_in(own, None, box)
    step: dict[str, object] = {name: value for name, value in rollout.items() if name not in OF_THE_WHOLE}
    step |= named
    step |= {"messages": messages, "turns": turns, "usage": _usage(own)}
    step |= {
        "stop_reason": "finished" if handed else rollout["stop_reason"],
        "code": code,
        "validation": end.get("validation"),
        "execution": execution,
    }
    if "format_rate" in step and rollout["scaffold"] != "react":  # whether one of react's thinks, its turn does not say
        good = [turn for turn in own if turn["action"] != "none" and not only_lenient(rollout, turn)]
        step["format_rate"] = len(good) / len(own)
    return cast(Rollout, step)


def only_lenient(rollout: Rollout, turn: Turn) -> bool:
    """Whether a message was read leniently where only the exact form counts as well-formed (--format strict)."""
    form, settings = turn.get("format"), rollout.get("settings") or {}
    return form is not None and form["read"] == "lenient" and settings.get("format") == "strict"


def _usage(turns: Sequence[Turn]) -> Usage:
    """Total usage of the turns; a sum is None if one of its terms is unknown."""
    usages = [turn.get("usage") for turn in turns]
    return {
        "prompt_tokens": _sum([usage["prompt_tokens"] if usage else None for usage in usages]),
        "completion_tokens": _sum([usage["completion_tokens"] if usage else None for usage in usages]),
        "usd": _sum([usage["usd"] if usage else None for usage in usages]),
        "seconds": round(sum(turn["duration_s"] for turn in turns), 4),
    }


def _sum(parts: Sequence[Number | None]) -> Number | None:
    known = [part for part in parts if part is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(parts) else None
