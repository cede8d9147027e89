"""The TypedDicts of `records/types.py` and the schemas describe the same records."""

import json
import types as builtin_types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from mletools.records import types

SCHEMAS = Path(__file__).parents[2] / "schemas"
RECORDS = {
    "task": types.Task,
    "rollout": types.Rollout,
    "verdict": types.SubmissionVerdict,
    "train_step": types.TrainStep,
    "reject": types.Reject,
}
JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}

# Where a value may lie ("turns[].usage?.seconds", "?" for optional) and the JSON types or constants it may have.
Fields = dict[str, set[str]]


def add_schema(out: Fields, path: str, schema: dict[str, Any], file: str) -> None:
    """Add the fields that `schema` of `file` allows at `path`."""
    if "$ref" in schema:
        other, _, pointer = schema["$ref"].partition("#")
        file = other or file
        schema = json.loads((SCHEMAS / file).read_text())
        for key in filter(None, pointer.split("/")):
            schema = schema[key]
    kinds = out.setdefault(path, set())
    declared = schema.get("type", "object" if "properties" in schema else None)
    if "const" in schema or "enum" in schema:
        kinds.update(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    elif declared is None and "oneOf" in schema:
        for alternative in schema["oneOf"]:
            add_schema(out, path, alternative, file)
    elif declared is None:
        kinds.add("any")
    for name in [declared] if isinstance(declared, str) else declared or []:
        kinds.add(name)
        if name == "array":
            add_schema(out, path + "[]", schema.get("items", {}), file)
        elif name == "object":
            _add_object(out, path, schema, file)


def _add_object(out: Fields, path: str, schema: dict[str, Any], file: str) -> None:
    required = schema.get("required", [])
    # Alternatives of an object name further fields: all are declared optional.
    optional = [name for alternative in schema.get("oneOf", []) for name in alternative["required"]]
    properties = {name: {} for name in [*required, *optional]} | schema.get("properties", {})
    for name, part in properties.items():
        add_schema(out, f"{path}.{name}{'' if name in required else '?'}", part, file)
    if not properties:
        add_schema(out, path + "{}", schema.get("additionalProperties", {}), file)


def add_type(out: Fields, path: str, kind: Any) -> None:
    """Add the fields that the type `kind` allows at `path`."""
    kinds = out.setdefault(path, set())
    if is_typeddict(kind):
        kinds.add("object")
        for name, part in get_type_hints(kind).items():
            add_type(out, f"{path}.{name}{'' if name in kind.__required_keys__ else '?'}", part)
    elif get_origin(kind) in (Union, builtin_types.UnionType):
        for alternative in get_args(kind):
            add_type(out, path, alternative)
    elif get_origin(kind) is Literal:
        kinds.update(json.dumps(value) for value in get_args(kind))
    elif get_origin(kind) is list:
        kinds.add("array")
        add_type(out, path + "[]", *get_args(kind))
    elif get_origin(kind) is dict:
        kinds.add("object")
        add_type(out, path + "{}", get_args(kind)[1])
    else:
        kinds.add(JSON_NAMES[kind])


@pytest.mark.parametrize("name", RECORDS)
def test_types_and_schema_have_the_same_fields_and_types(name):
    declared: Fields = {}
    typed: Fields = {}
    add_schema(declared, name, json.loads((SCHEMAS / f"{name}.json").read_text()), f"{name}.json")
    add_type(typed, name, RECORDS[name])
    assert len(declared) > 8
    assert typed == declared


def test_every_type_is_part_of_a_record_and_has_a_docstring():
    public = {kind for name, kind in vars(types).items() if is_typeddict(kind) and not name.startswith("_")}
    seen: set[Any] = set()
    pending: list[Any] = list(RECORDS.values())
    while pending:
        kind = pending.pop()
        if is_typeddict(kind) and kind not in seen:
            seen.add(kind)
            pending.extend(get_type_hints(kind).values())
        else:
            pending.extend(part for part in get_args(kind) if not isinstance(part, str))
    assert seen == public
    assert all(kind.__doc__ and "\n" not in kind.__doc__ for kind in public)
