"""What a policy may do, what it did, and why a message does nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...models import OfferedTool
from ...records.rollout import ReplyProblem, TurnFormat


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
    def format(self) -> TurnFormat:
        """`format` of a turn."""
        return {"read": "lenient" if self.rule else "exact", "rule": self.rule}


@dataclass(frozen=True)
class Fault:
    """Why a message takes no action: `kind` as in a turn's `problem`, and what to tell the policy.

    read: how the message was read, where it could be.
    """

    kind: ReplyProblem
    explanation: str
    read: TurnFormat | None = None

    @property
    def format(self) -> TurnFormat:
        """`format` of a turn."""
        return self.read or {"read": "none", "rule": self.kind}


def as_functions(tools: Sequence[Tool]) -> list[OfferedTool]:
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
