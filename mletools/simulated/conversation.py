"""What an agent reads out of its messages, and how it writes an action: the tags of each protocol, or a tool call.

Covered: the tags of the scaffolds and tool calls, scores, validity, failures, fenced programs, the items of an idea; one
well-formed action and the thought ahead of it. Not covered: the sentences around marks; a mark that a program printed
counts like one of the scaffold's; actions that break the protocol (unruly).
"""

import json
import re
from dataclasses import dataclass

from ..models import Reply, Request, ToolCall

# What an action is called, by its kind, in each role that works in turns.
NAMES = {
    "react": {"program": "PythonInterpreter", "score": "Score", "stop": "answer"},
    "codeact": {"program": "execute_ipython", "look": "execute_bash", "help": "seek_help", "stop": "finish"},
    "memory": {"program": "execute_code", "validate": "validate_code", "look": "request_info"},
}
POLICIES = tuple(NAMES)
KINDS = {name: kind for names in NAMES.values() for kind, name in names.items()}
HELP = ("PROBLEM_STATEMENT", "ATTEMPTS_SO_FAR", "GOAL")
_TAGS = re.compile(rf"<({'|'.join(['tool_call', *KINDS])})>(.*?)</\1>", re.DOTALL)
_CODE = re.compile(r"<code>\n?(.*)</code>", re.DOTALL)
_SCORE = re.compile(r"on the (?:validation|test) rows(?::| was) (-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan))")
_FAILURE = re.compile(
    r"Traceback \(most recent|\bfailed\b|\w+Error\b|was stopped|ended by a signal|othing (?:to score|was handed in)"
)
# What a terminal shows of a program that failed, and what is said of its file.
BROKE = re.compile(r"Traceback \(most recent|^\w+Error\b|submission\.csv is invalid", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,})python[ \t]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_ITEM = r"(?im)^[\W_]*{}[*_]*[ \t]*:[*_]*|^#+[ \t]*{}[ \t]*$"


@dataclass(frozen=True)
class ConversationStep:
    """A message of the agent's: the kind of its action (of KINDS, or none), what the action held, what it saw then."""

    kind: str
    text: str
    seen: str


def steps(request: Request) -> list[ConversationStep]:
    """What the agent did so far, in order."""
    found: list[ConversationStep] = []
    for message in request.messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls")
            first = calls[0]["function"] if calls else None
            kind, text = _call(first["name"], first["arguments"]) if first else _action(str(message["content"]))
            found.append(ConversationStep(kind, text, ""))
        elif found:
            last = found[-1]
            found[-1] = ConversationStep(last.kind, last.text, f"{last.seen}\n{message['content']}")
    return found


def given(request: Request) -> str:
    """What the agent was told before it first spoke."""
    told = []
    for message in request.messages:
        if message["role"] == "assistant":
            break
        told.append(str(message["content"]))
    return "\n".join(told)


def asked(request: Request) -> str:
    """All messages but the agent's own."""
    return "\n".join(str(message["content"]) for message in request.messages if message["role"] != "assistant")


def fenced(text: str) -> list[str]:
    """The blocks of Python in a text."""
    return [code for _, code in _FENCE.findall(text)]


def outcome(seen: str) -> tuple[str, float | None]:
    """(failed, invalid, scored, valid or ran; the score): what an observation says of a program."""
    scores = _SCORE.findall(seen)
    if scores and "Traceback (most recent" not in seen:
        return "scored", float(scores[-1])
    if "submission.csv is invalid" in seen:
        return "invalid", None
    if "submission.csv is valid" in seen:
        return "valid", None
    return ("failed" if _FAILURE.search(seen) else "ran"), None


def scores_in(text: str) -> list[tuple[int, float]]:
    """The scores in a text, with where they stand."""
    return [(match.start(), float(match.group(1))) for match in _SCORE.finditer(text)]


def item(text: str, name: str, before: str | None = None) -> str | None:
    """What stands under the last heading `NAME:` of a text, up to the heading `before`; None without that heading."""
    heads = list(re.finditer(_ITEM.format(name, name), text))
    if not heads:
        return None
    rest = text[heads[-1].end() :]
    end = re.search(_ITEM.format(before, before), rest) if before else None
    return (rest[: end.start()] if end else rest).strip()


def _action(content: str) -> tuple[str, str]:
    """(kind, text) of the action in tags that a message has."""
    match = _TAGS.search(content.rpartition("</think>")[2])
    if match is None:
        return "none", ""
    tag, body = match.groups()
    if tag != "tool_call":
        return KINDS[tag], body.lstrip("\n")
    code = _CODE.search(body)
    if code is not None:
        return "program", code.group(1)
    try:
        call = json.loads(body)
        return _call(call["name"], json.dumps(call["arguments"]))
    except (ValueError, KeyError, TypeError):
        return "none", ""


def _call(name: str, arguments: str) -> tuple[str, str]:
    """(kind, text) of a tool call; several arguments become one text, each under its name in capitals."""
    try:
        fields = json.loads(arguments or "{}")
    except ValueError:
        return "none", ""
    if not isinstance(fields, dict) or name not in KINDS:
        return "none", ""
    if len(fields) == 1:
        return KINDS[name], str(next(iter(fields.values())))
    return KINDS[name], "\n".join(f"{key.upper()}:\n{value}" for key, value in fields.items())


# How an action is written.


def act(request: Request, kind: str, *values: str, thought: str = "") -> Reply:
    """The reply that takes an action of the request's role; `values` are its fields in order (a help's are HELP)."""
    if request.tools:
        call = ToolCall(f"call_{len(request.messages)}", name_of(request, kind), arguments(request, kind, *values))
        return Reply(thought, tool_calls=(call,))
    text = tagged(request, kind, *values)
    return Reply(f"{thought}\n{text}" if thought else text)


def tagged(request: Request, kind: str, *values: str) -> str:
    """The action in tags."""
    tag = name_of(request, kind)
    if tag == "PythonInterpreter":
        return f"<tool_call>\npython\n<code>\n{values[0]}</code>\n</tool_call>"
    if tag == "Score":
        name = request.task.get("name", "") if request.task else ""
        call = json.dumps({"name": "Score", "arguments": {"competition_id": name}}, ensure_ascii=False)
        return f"<tool_call>\n{call}\n</tool_call>"
    if tag == "answer":
        return "<answer>submission</answer>"
    if tag == "seek_help":
        body = "\n".join(f"{head}:\n{value}" for head, value in zip(HELP, values, strict=True))
        return f"<seek_help>\n{body}\n</seek_help>"
    text = values[0] if values else ""
    return f"<{tag}>\n{text}</{tag}>" if "\n" in text else f"<{tag}>{text}</{tag}>"


def arguments(request: Request, kind: str, *values: str) -> str:
    """The arguments of a tool call, named as the request's tools name them."""
    for tool in request.tools or ():
        if tool["function"]["name"] == name_of(request, kind):
            fields = tool["function"].get("parameters", {}).get("properties", {})
            return json.dumps(dict(zip(fields, values, strict=False)), ensure_ascii=False)
    return json.dumps({"code": values[0]} if values else {}, ensure_ascii=False)


def offers(request: Request, kind: str) -> bool:
    """Whether the role knows such an action; one that asks for help has to be spoken of in the request."""
    if kind not in NAMES[request.role]:
        return False
    if kind != "help":
        return True
    if request.tools:
        return any(tool["function"]["name"] == name_of(request, kind) for tool in request.tools)
    return "<seek_help>" in given(request)


def name_of(request: Request, kind: str) -> str:
    return NAMES[request.role][kind]
