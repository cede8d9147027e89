"""A rollout as a trajectory in the Agent Trajectory Interchange Format, version 1.7.

Covered: all messages, what the policy thought, its calls of tools and their results, token ids and log-probabilities
where they are known, tokens and cost, the verdict. What follows a message of the agent is its observation: a result of a
tool, or what the scaffold told it. Not covered: the graph of a search, but for its questions.
"""

import json
from typing import Literal, cast

from .. import __version__
from ..records.atif import AtifCall, AtifMetrics, AtifResult, AtifStep
from ..records.rollout import Message, MessageCall, Rollout, Usage

VERSION = "ATIF-v1.7"


def trajectory(rollout: Rollout) -> dict[str, object]:
    """The trajectory of a rollout."""
    policy = rollout["policy"]
    agent = {
        "name": f"mletools-{rollout['scaffold']}",
        "version": __version__,
        "model_name": policy["model"],
        "extra": {"sampling": policy["sampling"], "settings": rollout.get("settings", {})},
    }
    return {
        "schema_version": VERSION,
        "session_id": rollout["id"],
        "trajectory_id": rollout["id"],
        "agent": agent,
        "steps": _steps(rollout),
        "final_metrics": _totals(rollout["usage"]),
        "extra": _outcome(rollout),
    }


def _steps(rollout: Rollout) -> list[AtifStep]:
    usage = {turn["message"]: turn.get("usage") for turn in rollout["turns"] if "message" in turn}
    steps: list[AtifStep] = []
    seen: list[int] = []  # the tokens of the sequence so far
    marked = any("loss" in message for message in rollout["messages"])
    for place, message in enumerate(rollout["messages"]):
        role = message["role"]
        seen = [*message["prompt_token_ids"]] if "prompt_token_ids" in message else seen
        if role == "assistant":
            step = _agent(len(steps) + 1, message, usage.get(place), [*seen])
            if marked and not message.get("loss"):  # of an earlier step, or of another agent
                step["is_copied_context"] = True
            steps.append(step)
        elif steps and steps[-1]["source"] == "agent":
            # The scaffold's answer is an observation of the step before it, as a tool's is.
            result: AtifResult = {"content": message["content"]}
            if (call := message.get("tool_call_id")) and call in _calls(steps[-1]):
                result["source_call_id"] = call
            earlier = (steps[-1].get("observation") or {}).get("results") or []
            steps[-1]["observation"] = {"results": [*earlier, result]}
        else:
            source: Literal["system", "user"] = "system" if role == "system" else "user"
            steps.append({"step_id": len(steps) + 1, "source": source, "message": message["content"]})
        seen += message.get("token_ids", ())
    return steps


def _calls(step: AtifStep) -> set[str]:
    return {str(call["tool_call_id"]) for call in step.get("tool_calls") or ()}


def _agent(number: int, message: Message, used: Usage | None, prompt: list[int]) -> AtifStep:
    """A message of the policy as a step; `prompt`: the tokens that it saw, where any are known."""
    step: AtifStep = {"step_id": number, "source": "agent", "message": message["content"]}
    if message.get("reasoning"):
        step["reasoning_content"] = message["reasoning"]
    if calls := message.get("tool_calls"):
        step["tool_calls"] = [_call(call, place) for place, call in enumerate(calls)]
    metrics: AtifMetrics = {}
    if used is not None:
        metrics = {"prompt_tokens": used["prompt_tokens"], "completion_tokens": used["completion_tokens"]}
        metrics["cost_usd"] = used["usd"]
    if message.get("loss") and "token_ids" in message:
        metrics["prompt_token_ids"] = prompt
        metrics["completion_token_ids"] = message["token_ids"]
        metrics["completion_tokens"] = metrics.get("completion_tokens") or len(message["token_ids"])
    if "logprobs" in message:
        metrics["logprobs"] = [*message["logprobs"]]
    if known := {name: value for name, value in metrics.items() if value is not None}:
        step["metrics"] = cast(AtifMetrics, known)
    return step


def _call(call: MessageCall, number: int) -> AtifCall:
    """A call of the chat protocol; arguments that are no JSON object are kept as a text under `text`."""
    function = call.get("function") or {}
    told: object = function.get("arguments", {})
    try:
        arguments = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        arguments = None
    return {
        "tool_call_id": str(call.get("id") or number),
        "function_name": str(function.get("name", "")),
        "arguments": arguments if isinstance(arguments, dict) else {"text": told},
    }


def _totals(usage: Usage) -> dict[str, float]:
    found = {
        "total_prompt_tokens": usage["prompt_tokens"],
        "total_completion_tokens": usage["completion_tokens"],
        "total_cost_usd": usage["usd"],
    }
    return {name: value for name, value in found.items() if value is not None}


def _outcome(rollout: Rollout) -> dict[str, object]:
    """What came of it: the task, the rollout's place in its group, and reward and verdict once it is graded."""
    found: dict[str, object] = {
        "task": rollout["task"]["id"],
        "group": rollout["group"],
        "sample": rollout["sample"],
        "stop_reason": rollout["stop_reason"],
    }
    if "reward" in rollout:
        found["reward"] = rollout["reward"]
    if grade := rollout.get("grade"):
        kept = ("valid", "reason", "score", "medal", "above_median", "human_rank")
        found["grade"] = {name: grade[name] for name in kept if name in grade}  # type: ignore[literal-required]
    return found
