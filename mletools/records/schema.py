"""Checks records against schemas/*.json, the contract between the commands (JSON Schema draft 7)."""

import difflib
import functools
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

from .errors import RecordError
from .places import check_places

WRITERS = {
    "task": "mle-gen-task or mle-import",
    "rollout": "mle-rollout",
    "verdict": "mle-grade --submission",
    "train_step": "mle-train-grpo or mle-train-sft",
    "reject": "--rejects",
    "summary": "mle-report --json",
    "comparison": "mle-report --compare --json",
}
# Of the fields that are added to a rollout, by their first name.
LATER_WRITERS = {
    "instrument": "mle-instrument",
    "execution": "mle-sandbox",
    "grade": "mle-grade",
    "filter": "mle-filter",
}


def load(name: str) -> dict[str, Any]:
    """The schema of a kind of record, or of a file name, as shipped in the package."""
    file = name if name.endswith(".json") else f"{name}.json"
    schema: dict[str, Any] = json.loads(resources.files("mletools").joinpath("schemas", file).read_text("utf-8"))
    return schema


@functools.cache
def _validator(kind: str) -> Callable[[Any], Any]:
    import fastjsonschema

    # A $ref is a bare file name, with or without the $id of its document before it.
    handlers = {"": lambda uri: load(uri.rsplit("/", 1)[-1])}
    return fastjsonschema.compile(load(kind), handlers=handlers, use_default=False)


def check(record: dict[str, Any], *kinds: str) -> None:
    """RecordError unless `record` is a valid record of one of `kinds`, and all places that it names lie below --data."""
    import fastjsonschema

    kind = record.get("kind")
    if kind not in kinds:
        wanted = " or ".join(kinds)
        writer = " or ".join(WRITERS[k] for k in kinds)
        raise RecordError(f"no {wanted} record (kind is {kind!r}): was this written by {writer}?")
    try:
        _validator(kind)(record)
    except fastjsonschema.JsonSchemaValueException as error:
        path = _path(error)
        if error.rule == "required":
            missing = sorted(set(error.rule_definition) - set(error.value))
            where = f" in {path}" if path else ""
            writer = LATER_WRITERS.get(path.partition(".")[0], WRITERS[kind])
            raise RecordError(f'no "{missing[0]}"{where}: was this written by {writer}?') from None
        raise RecordError(f"{path or kind}: {_message(error)}") from None
    check_places(record)


def check_fields(fields: dict[str, Any], kind: str, parts: tuple[str, ...], free: tuple[str, ...] = ()) -> None:
    """RecordError unless `fields`, written by hand, are fields of such a record; all may be absent.

    The objects `parts` and `free` of the record may be incomplete, too. Unknown fields are refused but in `free`. Places
    outside --data are refused.
    """
    import fastjsonschema

    validator, known = _fields_validator(kind, (*parts, *free))
    try:
        validator(fields)
    except fastjsonschema.JsonSchemaValueException as error:
        raise RecordError(f"{_path(error) or kind}: {_message(error)}") from None
    for prefix, part in (("", fields), *((f"{name}.", fields.get(name, {})) for name in parts)):
        for name in part:
            if name not in known[prefix]:
                near = difflib.get_close_matches(name, known[prefix], 1)
                hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known[prefix])}"
                raise RecordError(f'no field is called "{prefix}{name}": {hint}')
    check_places({**fields, "kind": kind})


@functools.cache
def _fields_validator(kind: str, parts: tuple[str, ...]) -> tuple[Callable[[Any], Any], dict[str, list[str]]]:
    """(the check of incomplete records of a kind, the names of fields by prefix)."""
    import fastjsonschema

    schema = load(kind)
    objects = {"": schema, **{f"{name}.": schema["properties"][name] for name in parts}}
    for each in objects.values():
        each.pop("required", None)
        each.pop("oneOf", None)
    handlers = {"": lambda uri: load(uri.rsplit("/", 1)[-1])}
    validator = fastjsonschema.compile(schema, handlers=handlers, use_default=False)
    return validator, {prefix: list(each["properties"]) for prefix, each in objects.items()}


def _path(error: Any) -> str:
    return ".".join(str(part) for part in error.path[1:])


def _message(error: Any) -> str:
    return str(error.message.removeprefix(error.name or "").strip())
