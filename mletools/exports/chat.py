"""Rollouts as lines of messages for other trainers, which `datasets.load_dataset("json")` reads.

    chat         {"messages"}: the whole conversation
    completion   {"prompt", "completion"}: what the policy saw first, and all from its first message on
    pairs        {"prompt", "chosen", "rejected"}: of a group, answers to one prompt with unequal rewards

Covered: text, thoughts, calls of tools; task, id and reward of each. Not covered: token ids (atif has them).
"""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NotRequired, TypedDict

from ..base.jsonl import dumps, loads
from ..records.rollout import CalledFunction, Message, MessageCall, Rollout


class Call(TypedDict):
    """A call of a tool; its arguments stay one text: columns of a table have one type."""

    id: str | None
    type: str
    function: CalledFunction


class Plain(TypedDict):
    """A message as the chat protocol has it; what the policy thought as servers spell it."""

    role: str
    content: str
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[Call]]
    tool_call_id: NotRequired[str]


def chat(rollout: Rollout) -> dict[str, object] | None:
    """The conversation of a rollout; None: the policy said nothing."""
    parts = _parts(rollout)
    return None if parts is None else {"messages": [*parts[0], *parts[1]], **_about(rollout)}


def completion(rollout: Rollout) -> dict[str, object] | None:
    """The messages before the policy's first one, and those from it on; None: the policy said nothing."""
    parts = _parts(rollout)
    return None if parts is None else {"prompt": parts[0], "completion": parts[1], **_about(rollout)}


def pairs(group: Iterable[Rollout], every: bool) -> Iterator[dict[str, object]]:
    """Pairs of a group's rollouts that begin with the same messages and have unequal rewards, the better one as chosen.

    every: all of them; else of each beginning the best with the worst alone, of equals the first that came.
    """
    by_prompt: dict[str, list[tuple[float, list[Plain], Rollout]]] = {}
    for rollout in group:
        if (reward := _reward(rollout)) is not None and not dropped(rollout) and (parts := _parts(rollout)) is not None:
            by_prompt.setdefault(dumps(parts[0]), []).append((reward, parts[1], rollout))
    for prompt, rated in by_prompt.items():
        rated.sort(key=lambda entry: entry[0])
        best = next(entry for entry in rated if entry[0] == rated[-1][0])
        for worse, better in combinations(rated, 2) if every else [(rated[0], best)]:
            if worse[0] < better[0]:
                yield {
                    "prompt": loads(prompt),
                    "chosen": better[1],
                    "rejected": worse[1],
                    "task": better[2]["task"]["id"],
                    "chosen_id": better[2]["id"],
                    "rejected_id": worse[2]["id"],
                    "chosen_reward": better[0],
                    "rejected_reward": worse[0],
                }


def dropped(rollout: Rollout) -> bool:
    """Whether mle-filter has decided against the rollout and left it where it was (--mark)."""
    return not rollout.get("filter", {"kept": True})["kept"]


def _reward(rollout: Rollout) -> float | None:
    """The reward in training: mle-filter's, where it has set one."""
    return rollout.get("filter", {}).get("reward", rollout.get("reward"))


def _parts(rollout: Rollout) -> tuple[list[Plain], list[Plain]] | None:
    messages = rollout["messages"]
    first = next((place for place, message in enumerate(messages) if message["role"] == "assistant"), None)
    if first is None:
        return None
    return [_plain(message) for message in messages[:first]], [_plain(message) for message in messages[first:]]


def _plain(message: Message) -> Plain:
    found: Plain = {"role": message["role"], "content": message["content"]}
    if message.get("reasoning"):
        found["reasoning_content"] = message["reasoning"]
    if calls := message.get("tool_calls"):
        found["tool_calls"] = [_call(call) for call in calls]
    if "tool_call_id" in message:
        found["tool_call_id"] = message["tool_call_id"]
    return found


def _call(call: MessageCall) -> Call:
    function = call.get("function") or {}
    told: CalledFunction = {"name": function.get("name", ""), "arguments": function.get("arguments", "")}
    return {"id": call.get("id"), "type": "function", "function": told}


def _about(rollout: Rollout) -> dict[str, object]:
    return {
        "task": rollout["task"]["id"],
        "id": rollout["id"],
        "reward": _reward(rollout),
        "valid": rollout["grade"]["valid"] if "grade" in rollout else None,
    }
