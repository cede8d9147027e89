"""What action a policy's message takes: the papers' tags, or the chat protocol's tool calls; or why there is none.

Covered: a reasoning part before the action, exactly one action a message, fences around code, JSON inside tags. Not
covered: guessing what a malformed message meant; it is answered with a correction and marked.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

THOUGHT = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)
_OPENING = re.compile(r"(`{3,}|~{3,})[^`]*")


@dataclass(frozen=True)
class Tool:
    """An action that a policy may take: its name, what it does, and its fields, all of them text and needed."""

    name: str
    what: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Action:
    """An action taken; `id` is the tool call's, None where tags were used."""

    name: str
    fields: dict[str, str]
    id: str | None = None


@dataclass(frozen=True)
class Fault:
    """Why a message takes no action: `kind` as in a turn's `problem`, and what to tell the policy."""

    kind: str
    explanation: str


# Reads what stands between a tool's tags. ValueError, in words for the policy, where it cannot.
Body = Callable[[Tool, str], tuple[str, dict[str, str]]]


def read_action(
    reply: Mapping[str, Any], tools: Sequence[Tool], body: Body | None = None, tags: Sequence[str] = ()
) -> Action | Fault:
    """The one action of a reply ({"text", "finish_reason", "tool_calls"}).

    Tags are the tools' names, unless `tags` names others; `body` reads what stands between them (default: `plain`).
    """
    if reply["finish_reason"] == "length":
        return Fault("length", "Your message was cut off at the limit of its length: say the same in fewer words.")
    calls = reply.get("tool_calls") or []
    try:
        tagged = _tagged(_after_thought(reply["text"]), tags or [tool.name for tool in tools])
    except ValueError as error:
        return Fault("malformed", str(error))
    if len(calls) + len(tagged) == 0:
        return Fault("missing", "Your message takes no action.")
    if len(calls) + len(tagged) > 1:
        return Fault("several", "Your message takes more than one action, and none was carried out.")
    known = {tool.name: tool for tool in tools}
    try:
        if calls:
            name, fields = calls[0]["name"], _arguments(calls[0]["arguments"])
        else:
            tag, text = tagged[0]
            name, fields = (body or plain)(known.get(tag, Tool(tag, "")), text)
    except ValueError as error:
        return Fault("malformed", str(error))
    if name not in known:
        return Fault("unknown", f"There is no action named {name[:80]!r}; there are {', '.join(known)}.")
    missing = [each for each in known[name].fields if not fields.get(each, "").strip()]
    if missing:
        return Fault("malformed", f"{name} needs {' and '.join(missing)}.")
    return Action(name, {each: fields[each] for each in known[name].fields}, calls[0]["id"] if calls else None)


def _after_thought(text: str) -> str:
    """What stands after the reasoning part that a text begins with; nothing where that never ended.

    All that follows counts, later reasoning too, so that a second action is seen as one.
    """
    head, end, rest = text.partition("</think>")
    if head.lstrip().startswith("<think>"):
        return rest
    return rest if end and "<think>" not in head else text


def plain(tool: Tool, text: str) -> tuple[str, dict[str, str]]:
    """The body of a tool with one field is that field; with several, sections that begin with NAME: in capitals."""
    if len(tool.fields) <= 1:
        return tool.name, dict.fromkeys(tool.fields, without_fence(text))
    return tool.name, sections(text, list(tool.fields))


def sections(text: str, names: Sequence[str]) -> dict[str, str]:
    """The parts of a text that begin, each at a line's beginning, with `NAME:`, every name once and in any order.

    ValueError, in words, where one is missing, empty or doubled, or where text stands before the first.
    """
    heads = {name.upper(): name for name in names}
    # line by line: a pattern with two runs of blanks takes the square of a line's length
    marked = re.compile(rf"({'|'.join(map(re.escape, heads))})[ \t]*:[*]*")
    fields: dict[str, str] = {}
    parts: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        begun = marked.match(line.lstrip(" \t").lstrip("*#").lstrip(" \t"))
        if begun:
            parts.append((begun.group(1), [begun.string[begun.end() :]]))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            break
    if not parts:
        raise ValueError(f"it has to begin with {next(iter(heads))}:")
    for mark, lines in parts:
        if heads[mark] in fields:
            raise ValueError(f"{mark}: stands there twice")
        fields[heads[mark]] = "\n".join(lines).strip()
    for head, name in heads.items():
        if not fields.get(name):
            raise ValueError(f"{head}: is missing or empty")
    return fields


def without_fence(text: str) -> str:
    """The text, or what stands in the one fence around all of it, which may close in the code's last line."""
    opening, _, rest = text.strip().partition("\n")
    begun = _OPENING.fullmatch(opening)
    if begun and rest.endswith(begun[1]):
        inside = rest.removesuffix(begun[1])
        line = inside.rpartition("\n")[2]
        inside = inside[: len(inside) - min(3, len(line) - len(line.rstrip(" ")))]
        return inside.removesuffix("\n") + "\n"
    return text.strip("\n") + "\n"


def thinks(reply: Mapping[str, Any]) -> bool:
    """Whether a reply begins with a reasoning part that is not empty: SandMLE's format.

    A template may have opened the part ahead of the reply; a server may have set it apart.
    """
    if (reply.get("reasoning") or "").strip():
        return True
    text = reply["text"]
    match = THOUGHT.match(text)
    if match:
        return bool(match.group(1).strip())
    head, end, _ = text.partition("</think>")
    return bool(end and "<think>" not in head and head.strip())


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


def _arguments(text: str) -> dict[str, str]:
    """A call's arguments, in JSON; what is not text is kept as JSON."""
    try:
        arguments = json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments are no JSON object")
    return {
        str(name): _text(value) if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()
    }


def sendable(arguments: str) -> str:
    """A call's arguments as servers take them, who refuse a conversation with any that are no JSON object."""
    for strict in (True, False):
        try:
            parsed = json.loads(arguments, strict=strict)
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, dict):
            return arguments if strict else json.dumps(parsed)
    return "{}"


def _text(value: str) -> str:
    """The value with U+FFFD for halves of surrogate pairs: JSON can escape them, but no program holds them."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def named_call(text: str) -> tuple[str, dict[str, str]]:
    """(name, fields) of {"name": ..., "arguments": {...}}. ValueError, in words, for anything else."""
    try:
        call = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what stands in the call is no JSON: {error}") from None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise ValueError('a call is {"name": ..., "arguments": {...}}')
    arguments = call.get("arguments", {})
    return call["name"], _arguments(arguments if isinstance(arguments, str) else json.dumps(arguments))


def _tagged(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """(name, body) of each tag in turn; what looks like a tag inside a body is part of the body."""
    opening = re.compile(rf"<({'|'.join(map(re.escape, names))})>")
    found, at = [], 0
    while match := opening.search(text, at):
        end = text.find(f"</{match.group(1)}>", match.end())
        if end < 0:
            raise ValueError(f"<{match.group(1)}> is opened and never closed.")
        found.append((match.group(1), text[match.end() : end]))
        at = end + len(match.group(1)) + 3
    return found
