"""Tools, the actions that take them, and a call's arguments; tools as the chat protocol wants them.

Covered: arguments as JSON, as JSON with small faults, as raw text. Not covered: finding a call in a text (calls).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .values import parsed, read_json, valid_text, without_fence


@dataclass(frozen=True)
class Tool:
    """An action that a policy may take: its name, what it does, and its fields, all of them text and needed.

    aliases: other names that models use for it.
    """

    name: str
    what: str
    fields: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """An action taken; `id` is the tool call's, None where tags were used; `rule` the leniency that it took."""

    name: str
    fields: dict[str, str]
    id: str | None = None
    rule: str | None = None

    @property
    def format(self) -> dict[str, str | None]:
        """`format` of a turn."""
        return {"read": "lenient" if self.rule else "exact", "rule": self.rule}


@dataclass(frozen=True)
class Fault:
    """Why a message takes no action: `kind` as in a turn's `problem`, and what to tell the policy."""

    kind: str
    explanation: str

    @property
    def format(self) -> dict[str, str | None]:
        """`format` of a turn."""
        return {"read": "none", "rule": self.kind}


def read_arguments(tool: Tool, arguments: dict[str, Any] | str) -> tuple[dict[str, str] | None, str | None]:
    """(fields, rule) of a call's arguments: JSON with small faults, or the text of a tool's only field."""
    rule: str | None = None
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value, rule = read_json(arguments or "{}")
        except ValueError:
            value, rule = _raw(tool, arguments), "raw_argument"
        if isinstance(value, str):  # JSON in JSON
            try:
                value, rule = read_json(value)[0], "raw_argument"
            except ValueError:
                value = _raw(tool, value)
    if not isinstance(value, dict):
        return None, None
    fields = texts(value)
    if len(tool.fields) == 1 and len(fields) == 1 and next(iter(fields)) not in tool.fields:
        return dict.fromkeys(tool.fields, next(iter(fields.values()))), "argument_name"
    return fields, rule


def _raw(tool: Tool, text: str) -> dict[str, str] | None:
    """A text as the only field of a tool: a program if Python can read it, anything else if it is not broken JSON."""
    if len(tool.fields) != 1:
        return {} if not tool.fields else None
    name = next(iter(tool.fields))
    inside = without_fence(text)
    if name == "code":
        return {name: inside} if parsed(inside) is not None else None
    return {name: inside} if not inside.lstrip().startswith(("{", "[")) else None


def strict_arguments(text: str) -> dict[str, str]:
    """A call's arguments, in JSON; what is not text is kept as JSON."""
    try:
        arguments = json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments are no JSON object")
    return texts(arguments)


def texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(name): valid_text(value) if isinstance(value, str) else json.dumps(value)
        for name, value in arguments.items()
    }


def as_functions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as the chat protocol wants them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.what,
                "parameters": {
                    "type": "object",
                    "properties": {name: {"type": "string", "description": what} for name, what in tool.fields.items()},
                    "required": list(tool.fields),
                },
            },
        }
        for tool in tools
    ]


def sendable(arguments: str) -> str:
    """A call's arguments as servers take them, who refuse a conversation with any that are no JSON object."""
    for strict in (True, False):
        try:
            value = json.loads(arguments, strict=strict)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return arguments if strict else json.dumps(value)
    return "{}"
