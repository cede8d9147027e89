"""Lines of chat data that are no records of ours, {"messages": [...]}, as rollouts to fine-tune on.

Covered: text, also as parts; thoughts (`reasoning_content`), calls of tools and their results. Every message of the
assistant carries loss. Not covered: images and other parts, definitions of tools.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from ..base.chat_template import check_calls
from ..base.errors import RecordError
from ..base.ids import content_id
from ..base.jsonl import Line
from ..records.rollout import Message, MessageCall, PlainMessage, Rollout
from ..run import Run

ROLES = {"developer": "system"}  # as chat templates know them


def lines(run: Run) -> Iterator[Line[Rollout]]:
    """The rollouts of the input, those of chat data among them; what cannot be read is rejected."""
    for line in run.lines("rollout", conversations=True):
        if "kind" in line.record:
            yield line
            continue
        try:
            yield replace(line, record=as_rollout(cast(Any, line.record)["messages"]))
        except RecordError as error:
            run.reject(line, str(error))


def as_rollout(messages: Iterable[PlainMessage]) -> Rollout:
    """What a trainer reads of a rollout, of messages alone. RecordError: a part is no text, a call has another form, or
    nobody answers."""
    found = [_message(message, place) for place, message in enumerate(messages)]
    if not any(message["role"] == "assistant" for message in found):
        raise RecordError("messages: none is the assistant's, so there is nothing to learn")
    name = content_id(found)
    return cast(Rollout, {"id": name, "group": name, "messages": found})


def _message(message: PlainMessage, place: int) -> Message:
    made = cast(Message, {"role": ROLES.get(message["role"], message["role"]), "content": _text(message, place)})
    if reasoning := message.get("reasoning_content"):
        made["reasoning"] = reasoning
    if calls := message.get("tool_calls"):
        check_calls(message, place)
        made["tool_calls"] = cast(list[MessageCall], calls)
    if answered := message.get("tool_call_id"):
        made["tool_call_id"] = answered
    return made


def _text(message: PlainMessage, place: int) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content]
    if any(part.get("type") != "text" or not isinstance(part.get("text"), str) for part in content):
        raise RecordError(f"messages[{place}].content has a part that is no text")
    return "".join(cast(list[str], texts))
