"""Reads trajectories in the Agent Trajectory Interchange Format (ATIF), versions 1.4 to 1.8, as messages and turns.

Covered: the agent's thoughts, calls and their results, token ids and log-probabilities, tokens and cost, a trajectory that
goes on in further files, steps copied there from before, steps without a model. Not covered: trajectories nested in another;
pictures and sounds, which become a word in brackets.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from ..base.output import AnyRecord
from ..base.typed import convert
from ..records.atif import AtifCall, AtifMetrics, AtifStep, AtifTrajectory, Content
from ..records.rollout import CalledFunction, Message, MessageCall, Turn, Usage

VERSIONS = ("ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8")
STAMPED_AT_END = ("terminus-2",)  # agents that stamp a step when what it started is over, not when its message came
_NOT_KNOWN: Usage = {"prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None}


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
    for part in parts:
        if (version := part.get("schema_version")) not in VERSIONS:
            raise ValueError(f"schema_version is {version!r}: known are {VERSIONS[0]} to {VERSIONS[-1]}")
    trajectories: list[AtifTrajectory] = [convert(part, AtifTrajectory) for part in parts]
    agent = (trajectories[0].get("agent") if trajectories else None) or {}
    reader = _Reader(Conversation(agent.get("name") or "", agent.get("version"), agent.get("model_name")))
    for trajectory in trajectories:
        reader.begin()
        for number, step in enumerate(trajectory.get("steps") or []):
            try:
                reader.step(step)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"steps.{number}: {error}") from None
    return reader.end(trajectories)


class _Reader:
    def __init__(self, found: Conversation) -> None:
        self.found = found
        self._first = 0  # message of the file at hand
        self._seen: list[int] | None = None  # the tokens of the sequence so far
        self._exact = True  # every message of the model has its tokens
        self._stamp: float | None = None  # of the last turn
        self._before: float | None = None  # of the step before

    def begin(self) -> None:
        """Read another file: what stands before it was no longer seen."""
        self._first, self._seen = len(self.found.messages), None

    def step(self, step: AtifStep) -> None:
        text = _text(step.get("message"))
        if step["source"] == "agent":
            self._agent(step, text)
        else:
            self.found.messages.append({"role": step["source"], "content": text})
        self._before = _seconds(step)
        self._observe(step)

    def _agent(self, step: AtifStep, text: str) -> None:
        found = self.found
        message: Message = {"role": "assistant", "content": text}
        if reasoning := step.get("reasoning_content"):
            message["reasoning"] = reasoning
        if calls := step.get("tool_calls"):
            message["tool_calls"] = [_call(call) for call in calls]
        found.model = found.model or step.get("model_name")
        if not step.get("is_copied_context") and step.get("llm_call_count") != 0:
            message["loss"] = True
            metrics = step.get("metrics") or {}
            self._take_tokens(message, metrics)
            usage: Usage = {
                "prompt_tokens": metrics.get("prompt_tokens"),
                "completion_tokens": metrics.get("completion_tokens"),
                "seconds": 0.0,
                "usd": metrics.get("cost_usd"),
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
            stamp = _seconds(step)
            if found.agent in STAMPED_AT_END:
                turn["duration_s"] = _between(self._before, stamp)
            elif found.turns:
                found.turns[-1]["duration_s"] = _between(self._stamp, stamp)
            found.turns.append(turn)
            self._stamp = stamp
        found.messages.append(message)

    def _take_tokens(self, message: Message, metrics: AtifMetrics) -> None:
        prompt, ids = metrics.get("prompt_token_ids"), metrics.get("completion_token_ids")
        messages, seen = self.found.messages, self._seen
        if not prompt or not ids:
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
        scores = [float(each) for each in metrics.get("logprobs") or () if type(each) in (int, float)]  # type: ignore[arg-type]
        if len(scores) == len(ids) == len(metrics.get("logprobs") or ()) and max(scores) <= 0.01:
            message["logprobs"] = [min(0.0, each) for each in scores]

    def _observe(self, step: AtifStep) -> None:
        """The results of a step: of its calls as a tool's messages, others as the user's."""
        results = (step.get("observation") or {}).get("results") or []
        calls = [call["id"] for call in self.found.messages[-1].get("tool_calls", ())]
        for result in results:
            text, call = _text(result.get("content")), result.get("source_call_id")
            if call is None and len(calls) == len(results) == 1:
                call = calls[0]
            if call in calls:
                self.found.messages.append({"role": "tool", "content": text, "tool_call_id": str(call)})
            else:
                self.found.messages.append({"role": "user", "content": text})

    def end(self, parts: Sequence[AtifTrajectory]) -> Conversation:
        found = self.found
        if not self._exact:  # of some messages only, they are no exact sequence
            for message in found.messages:
                for name in ("token_ids", "logprobs", "prompt_token_ids"):
                    message.pop(name, None)  # type: ignore[misc]
        usages = [turn["usage"] for turn in found.turns]
        totals = [part.get("final_metrics") or {} for part in parts]
        for name in ("prompt_tokens", "completion_tokens", "usd"):
            stated = _sum([each.get(f"total_{'cost_usd' if name == 'usd' else name}") for each in totals])
            found.usage[name] = stated if stated is not None else _sum([each[name] for each in usages])  # type: ignore[literal-required]
        found.usage["seconds"] = round(sum(turn["duration_s"] for turn in found.turns), 4)
        return found


def _text(content: Content | None) -> str:
    """A text, or the texts of parts; another part is named in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(text if isinstance(text := part.get("text"), str) else f"[{part.get('type')}]" for part in content)


def _call(call: AtifCall) -> MessageCall:
    arguments = json.dumps(call.get("arguments") or {}, ensure_ascii=False)
    function: CalledFunction = {"name": call["function_name"], "arguments": arguments}
    return {"id": call.get("tool_call_id") or "", "type": "function", "function": function}


def _seconds(step: AtifStep) -> float | None:
    """When a step was, in seconds since 1970."""
    stamp = step.get("timestamp")
    try:
        return None if stamp is None else datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"timestamp is {stamp!r}, not of ISO 8601") from None


def _between(began: float | None, ended: float | None) -> float:
    return 0.0 if began is None or ended is None else round(max(0.0, ended - began), 4)


def _sum(values: Sequence[object]) -> float | None:
    """None where one is not known, or there is none."""
    return None if None in values or not values else sum(cast(Sequence[float], values))
