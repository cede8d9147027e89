"""Validates records by their types (common, task, rollout, training and report of this package), with msgspec."""

import difflib
import functools
import json
import re
from collections.abc import Sequence
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from ..base.errors import RecordError
from ..base.output import AnyRecord
from ..base.typed import convert
from .common import Reject
from .places import check_places
from .report import Comparison, Summary
from .rollout import PlainConversation, Rollout, SubmissionVerdict
from .task import MetricSpec, Task
from .training import TrainStep

KINDS: dict[str, type] = {
    "task": Task,
    "rollout": Rollout,
    "verdict": SubmissionVerdict,
    "train_step": TrainStep,
    "reject": Reject,
    "summary": Summary,
    "comparison": Comparison,
}
WRITERS = {
    "task": "mle-gen-task or mle-import",
    "rollout": "mle-rollout",
    "verdict": "mle-grade --submission",
    "train_step": "mle-train-grpo or mle-train-sft",
    "reject": "--rejects",
    "summary": "mle-report --json",
    "comparison": "mle-report --compare --json",
}
# What a record is called, and which commands take it.
NAMES = {
    "task": ("a task", "mle-rollout takes tasks, and mle-show shows them"),
    "rollout": ("a rollout", "mle-sandbox, mle-grade, mle-filter, mle-report and mle-show take rollouts"),
    "verdict": ("a verdict on one submission", "no command takes it"),
    "train_step": ("a training step", "mle-report takes it as --train-steps, and mle-show shows it"),
    "reject": ("a rejected line", "mle-report --html takes it as --tasks"),
    "summary": ("a summary of a report", "no command takes it"),
    "comparison": ("a comparison of a report", "no command takes it"),
}
# Of the fields that are added to a rollout, by their first name.
LATER_WRITERS = {
    "instrument": "mle-instrument",
    "execution": "mle-sandbox",
    "grade": "mle-grade",
    "filter": "mle-filter",
}
# Of these fields an object has those of one line, all of them.
METRICS = (("name", "params"), ("file",))
CONDITIONS = (
    ("column", "equals"),
    ("column", "not_equals"),
    ("column", "in"),
    ("column", "greater"),
    ("last", "of"),
)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_WRONG = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)


def check(record: AnyRecord, *kinds: str) -> None:
    """RecordError unless `record` is a valid record of one of `kinds`, and all places that it names lie below --data."""
    kind = record.get("kind")
    if kind not in kinds:
        raise RecordError(_wrong_kind(record, kinds))
    try:
        convert(record, KINDS[kind])
    except msgspec.ValidationError as error:
        missing = _MISSING.match(str(error))
        if missing is None:
            raise RecordError(_wrong(error, kind)) from None
        path = missing["path"] or ""
        writer = LATER_WRITERS.get(re.split(r"[.\[]", path)[0], WRITERS[kind])
        raise RecordError(
            f'no "{missing["name"]}"{f" in {path}" if path else ""}: was this written by {writer}?'
        ) from None
    if kind in ("task", "rollout"):
        path, task = ("", record) if kind == "task" else ("task.", record["task"])
        _check_alternatives(cast(Task, task)["metric"], f"{path}metric")
    if kind == "rollout":
        _check_grades(cast(Rollout, record))
    check_places(record)


def _wrong_kind(record: AnyRecord, kinds: Sequence[str]) -> str:
    """What the record is in place of `kinds`, and which command takes it or writes what is wanted."""
    kind = record.get("kind")
    wanted = " or ".join(NAMES[each][0] for each in kinds)
    if isinstance(kind, str) and kind in NAMES:
        name, takers = NAMES[kind]
        return f"this is {name}, not {wanted}: {takers}"
    if kind is None and "messages" in record:
        return f"this is a conversation (messages without a kind), not {wanted}: mle-train-sft takes it"
    writer = " or ".join(WRITERS[each] for each in kinds)
    return f"no {' or '.join(kinds)} record (kind is {kind!r}): {writer} writes such records"


def check_conversation(record: AnyRecord) -> None:
    """RecordError unless `record` is a line of chat data: {"messages": [...]}, without a kind."""
    try:
        convert(record, PlainConversation)
    except msgspec.ValidationError as error:
        raise RecordError(_wrong(error, "conversation")) from None


def check_fields(fields: AnyRecord, kind: str, parts: tuple[str, ...], free: tuple[str, ...] = ()) -> None:
    """RecordError unless `fields`, written by hand, are fields of such a record; all may be absent.

    The objects `parts` and `free` of the record may be incomplete, too. Unknown fields are refused but in `free`. Places
    outside --data are refused.
    """
    incomplete, known = _incomplete(kind, (*parts, *free))
    try:
        convert(fields, incomplete)
    except msgspec.ValidationError as error:
        raise RecordError(_wrong(error, kind)) from None
    inside = [(f"{name}.", cast(AnyRecord, fields.get(name, {}))) for name in parts]
    for prefix, part in (("", fields), *inside):
        for name in part:
            if name not in known[prefix]:
                near = difflib.get_close_matches(name, known[prefix], 1)
                hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known[prefix])}"
                raise RecordError(f'no field is called "{prefix}{name}": {hint}')
    check_places({**fields, "kind": kind})


@functools.cache
def _incomplete(kind: str, parts: tuple[str, ...]) -> tuple[Any, dict[str, list[str]]]:
    """(the type of incomplete records of a kind, the names of fields by prefix)."""
    whole = _fields(KINDS[kind])
    known = {"": list(whole)}
    for name in parts:
        inside = _fields(whole[name])
        known[f"{name}."] = list(inside)
        whole[name] = TypedDict(f"Incomplete_{name}", inside, total=False)  # type: ignore[operator]
    return TypedDict(f"Incomplete_{kind}", whole, total=False), known  # type: ignore[operator]


def _fields(kind: Any) -> dict[str, type]:
    """The types of a TypedDict's fields, with their constraints."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__args__[0] if get_origin(hint) is NotRequired else hint for name, hint in hints.items()}


def _wrong(error: Exception, kind: str) -> str:
    found = _WRONG.match(str(error))
    assert found is not None
    path, message = found["path"], found["message"]
    if message.startswith("Invalid enum value") and path:
        message += f": known are {', '.join(map(json.dumps, _values_at(KINDS.get(kind, PlainConversation), path)))}"
    return f"{path or kind}: {message}"


def _values_at(kind: Any, path: str) -> list[Any]:
    """The values that a Literal at a path such as `turns[0].execution.status` may have."""
    types = [kind]
    for step in re.findall(r"\[[^]]*\]|[^.\[]+", path):
        inner = [part for each in types for part in _alternatives(each)]
        types = (
            [arg for each in inner for arg in get_args(each)[-1:]]
            if step.startswith("[")
            else [fields[step] for each in inner if is_typeddict(each) and step in (fields := _fields(each))]
        )
    return [
        value
        for each in types
        for part in _alternatives(each)
        if get_origin(part) is Literal
        for value in get_args(part)
    ]


def _alternatives(kind: Any) -> list[Any]:
    """The members of a union, without constraints; of another type, itself."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [part for each in get_args(kind) for part in _alternatives(each)]
    return [kind]


def _check_grades(record: Rollout) -> None:
    """RecordError where a rollout or a turn has a grade that calls the submission valid and gives it no score."""
    turns = [(f"turns[{number}].", turn.get("grade")) for number, turn in enumerate(record["turns"])]
    for path, grade in (("", record.get("grade")), *turns):
        if grade and grade["valid"] and grade.get("score") is None:
            raise RecordError(f"{path}grade.score: null, though {path}grade.valid is true")


def _check_alternatives(metric: MetricSpec, path: str) -> None:
    _one_of(metric, METRICS, path)
    for index, condition in enumerate(metric.get("where", ())):
        _one_of(condition, CONDITIONS, f"{path}.where[{index}]")


def _one_of(part: AnyRecord, alternatives: Sequence[Sequence[str]], path: str) -> None:
    if sum(all(name in part for name in names) for names in alternatives) != 1:
        wanted = ", or ".join(" and ".join(names) for names in alternatives)
        raise RecordError(f"{path}: has to have {wanted}")
