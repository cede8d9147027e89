"""Server-sent events of a streamed chat completion, joined to the completion that the server would send at once.

Covered: comments and blank lines, `[DONE]`, text, reasoning, tool calls in pieces (Gemini's lack an index), token ids and
logprobs, usage in the last event, an error as an event, a stream that ends before its answer does.
Not covered: showing an answer as it comes; the bounds of a body (wire).
"""

import json
import re
from typing import NotRequired, TypedDict

from ..base import jsonl

CUT = "end of the stream"  # the finish reason of an answer that the server did not finish
TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
_BEGIN = re.compile(rb"\s*(?:data|event|id|retry)?:")


class _Call(TypedDict):
    index: int
    function: dict[str, object]
    id: NotRequired[object]
    extra_content: NotRequired[object]


class _Choice(TypedDict):
    message: dict[str, object]
    finish_reason: object
    token_ids: NotRequired[list[object]]
    logprobs: NotRequired[dict[str, list[object]]]
    prompt_token_ids: NotRequired[object]


def is_stream(body: bytes) -> bool:
    """Whether a body is a stream of events and not JSON."""
    return _BEGIN.match(body[:200]) is not None


def error_event(body: bytes) -> bytes:
    """The JSON of the error that a stream holds; the body itself where it is no stream of JSON or holds none."""
    try:
        events = _events(body) if is_stream(body) else []
    except ValueError:
        return body
    return next((json.dumps(event).encode() for event in events if event.get("error")), body)


def joined(body: bytes) -> dict[str, object]:
    """The chat completion of a stream, without its error events. ValueError: an event is no JSON."""
    answer: dict[str, object] = {}
    message: dict[str, object] = {}
    choice: _Choice = {"message": message, "finish_reason": CUT}
    calls: list[_Call] = []
    for event in _events(body):
        for key in ("usage", "prompt_token_ids"):
            if event.get(key) is not None:
                answer[key] = event[key]
        choices = event.get("choices")
        piece = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        _add_exact(choice, piece)
        delta = piece.get("delta") if isinstance(piece.get("delta"), dict) else piece.get("message")
        if isinstance(delta, dict):
            _add_delta(message, calls, delta)
        if piece.get("finish_reason"):
            choice["finish_reason"] = piece["finish_reason"]
    if calls:
        message["tool_calls"] = calls
    return {**answer, "choices": [choice]}


def _events(body: bytes) -> list[dict[str, object]]:
    """The events' data, which are JSON objects."""
    events, data = [], list[bytes]()
    for line in [*body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""]:
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            content, data = b"\n".join(data), []
            if content.strip() == b"[DONE]":
                break
            event = jsonl.loads(content)
            if isinstance(event, dict):
                events.append(event)
    return events


def _add_exact(choice: _Choice, piece: dict[str, object]) -> None:
    """Append a piece's token ids and logprobs."""
    token_ids, logprobs = piece.get("token_ids"), piece.get("logprobs")
    if isinstance(token_ids, list):
        choice.setdefault("token_ids", []).extend(token_ids)
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if isinstance(content, list):
        choice.setdefault("logprobs", {"content": []})["content"].extend(content)
    if piece.get("prompt_token_ids") is not None:
        choice["prompt_token_ids"] = piece["prompt_token_ids"]


def _add_delta(message: dict[str, object], calls: list[_Call], delta: dict[str, object]) -> None:
    """Append a delta's texts and parts of tool calls."""
    for key in TEXTS:
        value = delta.get(key)
        if value is not None:
            before = message.get(key)
            if isinstance(before, str) and isinstance(value, str):
                message[key] = before + value
            elif isinstance(before, list) and isinstance(value, list):
                message[key] = [*before, *value]
            else:
                message[key] = value
    pieces = delta.get("tool_calls")
    for piece in pieces if isinstance(pieces, list) else ():
        if isinstance(piece, dict):
            _add_call(calls, piece)


def _add_call(calls: list[_Call], piece: dict[str, object]) -> None:
    """Append a piece to the call of its index; without an index it belongs to the last call, or begins the next."""
    index, function = piece.get("index"), piece.get("function")
    function = function if isinstance(function, dict) else {}
    if isinstance(index, int):
        call = next((each for each in calls if each["index"] == index), None)
    else:
        call = calls[-1] if calls and not function.get("name") else None
    if call is None:
        call = {"index": index if isinstance(index, int) else len(calls), "function": {}}
        calls.append(call)
    if piece.get("id"):
        call["id"] = piece["id"]
    if piece.get("extra_content"):
        call["extra_content"] = piece["extra_content"]
    if function.get("name"):  # some servers repeat it in every piece
        call["function"].setdefault("name", function["name"])
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        before = call["function"].get("arguments", "")
        call["function"]["arguments"] = before + arguments if isinstance(before, str) else arguments
    elif arguments is not None:
        call["function"]["arguments"] = arguments
