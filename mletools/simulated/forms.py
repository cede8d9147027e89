"""How an agent's action is written: the tags of each protocol, or a tool call where tools are offered.

Covered: one well-formed action and the thought ahead of it. Not covered: actions that break the protocol (unruly).
"""

import json

from ..models import Reply, Request, ToolCall
from .conversation import given

NAMES = {
    "react": {"program": "PythonInterpreter", "score": "Score", "stop": "answer"},
    "codeact": {"program": "execute_ipython", "look": "execute_bash", "help": "seek_help", "stop": "finish"},
    "memory": {"program": "execute_code", "validate": "validate_code", "look": "request_info"},
}
HELP = ("PROBLEM_STATEMENT", "ATTEMPTS_SO_FAR", "GOAL")


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
        name = (request.task or {}).get("name", "")
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
    return "<seek_help>" in given(request.messages)


def name_of(request: Request, kind: str) -> str:
    return NAMES[request.role][kind]
