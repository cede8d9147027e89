"""Reads trajectories in the Agent Trajectory Interchange Format (ATIF), versions 1.4 to 1.8, as messages and turns.

Covered: the agent's thoughts, calls and their results, token ids and log-probabilities, tokens and cost, a trajectory that
goes on in further files, steps copied there from before, steps without a model. Not covered: trajectories nested in another;
pictures and sounds, which become a word in brackets.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from ..base.output import AnyRecord
from ..records.rollout import CalledFunction, Message, MessageCall, Turn, Usage

VERSIONS = ("ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8")
Kind = TypeVar("Kind")
_ROLES = {"system": "system", "user": "user"}
_NOT_KNOWN: Usage = {"prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None}
_MOST = 10**12  # of a count


@dataclass
class Conversation:
    """What an agent and its model said, and who they are."""

    agent: str
    version: str | None
    model: str | None
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    usage: Usage = field(default_factory=lambda: _NOT_KNOWN.copy())


def read(parts: Sequence[AnyRecord]) -> Conversation:
    """The conversation of a trajectory, and of those that it goes on in. ValueError: where it is not in the format."""
    agent = _of(parts[0], "agent", dict) or {}
    reader = _Reader(
        Conversation(_of(agent, "name", str) or "", _of(agent, "version", str), _of(agent, "model_name", str))
    )
    for part in parts:
        version = part.get("schema_version")
        if version not in VERSIONS:
            raise ValueError(f"schema_version is {version!r}: known are {VERSIONS[0]} to {VERSIONS[-1]}")
        reader.begin()
        for number, step in enumerate(_of(part, "steps", list) or []):
            try:
                reader.step(step)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"steps.{number}: {error}") from None
    return reader.end(parts)


class _Reader:
    def __init__(self, found: Conversation) -> None:
        self.found = found
        self._first = 0  # message of the file at hand
        self._seen: list[int] | None = None  # the tokens of the sequence so far
        self._exact = True  # every message of the model has its tokens
        self._ended: list[float | None] = []  # when each turn was over

    def begin(self) -> None:
        """Read another file: what stands before it was no longer seen."""
        self._first, self._seen = len(self.found.messages), None

    def step(self, step: Any) -> None:
        if not isinstance(step, dict):
            raise ValueError("not an object")
        source, text = step.get("source"), _text(step.get("message"))
        if source == "agent":
            self._agent(step, text)
        elif source in _ROLES:
            self.found.messages.append({"role": _ROLES[source], "content": text})  # type: ignore[typeddict-item]
        else:
            raise ValueError(f"source is {source!r}: known are system, user, agent")
        self._observe(step)

    def _agent(self, step: AnyRecord, text: str) -> None:
        found = self.found
        message: Message = {"role": "assistant", "content": text}
        if reasoning := _of(step, "reasoning_content", str):
            message["reasoning"] = reasoning
        if calls := _of(step, "tool_calls", list):
            message["tool_calls"] = [_call(call) for call in calls]
        found.model = found.model or _of(step, "model_name", str)
        if not step.get("is_copied_context") and step.get("llm_call_count") != 0:
            message["loss"] = True
            metrics = _of(step, "metrics", dict) or {}
            self._take_tokens(message, metrics)
            usage: Usage = {
                "prompt_tokens": _count(metrics, "prompt_tokens"),
                "completion_tokens": _count(metrics, "completion_tokens"),
                "seconds": 0.0,
                "usd": _usd(metrics.get("cost_usd")),
            }
            turn: Turn = {
                "action": "agent",
                "duration_s": 0.0,
                "message": len(found.messages),
                "problem": None,
                "usage": usage,
            }
            if self._first:
                turn["dropped"] = list(range(self._first))
            if found.turns and (began := _seconds(step)) is not None and (before := self._ended[-1]) is not None:
                found.turns[-1]["duration_s"] = round(max(0.0, began - before), 4)
            found.turns.append(turn)
            self._ended.append(_seconds(step))
        found.messages.append(message)

    def _take_tokens(self, message: Message, metrics: AnyRecord) -> None:
        prompt, ids = _ids(metrics, "prompt_token_ids"), _ids(metrics, "completion_token_ids")
        messages, seen = self.found.messages, self._seen
        if prompt is None or ids is None:
            self._exact, self._seen = False, None
            return
        follows = messages and "loss" not in messages[-1]
        if follows and seen is None and not self.found.turns:
            messages[-1]["token_ids"] = prompt
        elif follows and seen is not None and prompt[: len(seen)] == seen:
            messages[-1]["token_ids"] = prompt[len(seen) :]
        elif seen != prompt:
            message["prompt_token_ids"] = prompt
        self._seen = prompt + ids
        message["token_ids"] = ids
        scores = _of(metrics, "logprobs", list)
        if scores is not None and len(scores) == len(ids) and all(_is_number(each) and each <= 0.01 for each in scores):
            message["logprobs"] = [min(0.0, float(each)) for each in scores]

    def _observe(self, step: AnyRecord) -> None:
        """The results of a step: of its calls as a tool's messages, others as the user's."""
        results = _of(_of(step, "observation", dict) or {}, "results", list) or []
        calls = [call["id"] for call in self.found.messages[-1].get("tool_calls", ())]
        for result in results:
            if not isinstance(result, dict):
                raise ValueError("a result is no object")
            text, call = _text(result.get("content")), result.get("source_call_id")
            if call is None and len(calls) == len(results) == 1:
                call = calls[0]
            if call in calls:
                self.found.messages.append({"role": "tool", "content": text, "tool_call_id": str(call)})
            else:
                self.found.messages.append({"role": "user", "content": text})

    def end(self, parts: Sequence[AnyRecord]) -> Conversation:
        found = self.found
        if not found.turns:
            raise ValueError("no step of an agent's model")
        if not self._exact:  # of some messages only, they are no exact sequence
            for message in found.messages:
                for name in ("token_ids", "logprobs", "prompt_token_ids"):
                    message.pop(name, None)  # type: ignore[misc]
        usages = [turn["usage"] for turn in found.turns]
        totals = [_of(part, "final_metrics", dict) or {} for part in parts]
        for name, total in (("prompt_tokens", "total_prompt_tokens"), ("completion_tokens", "total_completion_tokens")):
            stated = [_count(each, total) for each in totals]
            found.usage[name] = _sum(stated) if None not in stated else _sum([each[name] for each in usages])  # type: ignore[literal-required]
        stated_usd = [_usd(each.get("total_cost_usd")) for each in totals]
        found.usage["usd"] = _sum(stated_usd) if None not in stated_usd else _sum([each["usd"] for each in usages])
        found.usage["seconds"] = round(sum(turn["duration_s"] for turn in found.turns), 4)
        return found


def _of(holder: AnyRecord, key: str, kind: type[Kind]) -> Kind | None:
    """The value, or None where there is none; ValueError if it is not of `kind`."""
    value = holder.get(key)
    if value is None or isinstance(value, kind):
        return value
    raise ValueError(f"{key} is no {kind.__name__}")


def _text(content: object) -> str:
    """A text, or the texts of parts; another part is named in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ValueError("a message or a content is neither a text nor a list of parts")
    return "\n".join(part["text"] if isinstance(part.get("text"), str) else f"[{part.get('type')}]" for part in content)


def _call(call: Any) -> MessageCall:
    if not isinstance(call, dict) or not isinstance(call.get("function_name"), str):
        raise ValueError("a call names no function")
    arguments = json.dumps(_of(call, "arguments", dict) or {}, ensure_ascii=False)
    function: CalledFunction = {"name": call["function_name"], "arguments": arguments}
    return {"id": _of(call, "tool_call_id", str) or "", "type": "function", "function": function}


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _count(holder: AnyRecord, key: str) -> int | None:
    value = holder.get(key)
    if value is None or (type(value) is int and 0 <= value < _MOST):
        return value
    raise ValueError(f"{key} is no count")


def _usd(value: Any) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not 0 <= value < _MOST:
        raise ValueError("a cost is no sum of money")
    return float(value)


def _ids(holder: AnyRecord, key: str) -> list[int] | None:
    value = _of(holder, key, list)
    if not value:
        return None
    if not all(type(each) is int and 0 <= each < 1 << 31 for each in value):
        raise ValueError(f"{key} are no token ids")
    return value


def _seconds(step: AnyRecord) -> float | None:
    """When a step was, in seconds since 1970."""
    stamp = _of(step, "timestamp", str)
    try:
        return None if stamp is None else datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"timestamp is {stamp!r}, not of ISO 8601") from None


def _sum(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)
