"""Rollouts as lines of messages for other trainers, which `datasets.load_dataset("json")` reads.

    chat         {"messages"}: the whole conversation
    completion   {"prompt", "completion"}: what the policy saw first, and all from its first message with loss on
    pairs        {"prompt", "chosen", "rejected"}: of a group, answers to one prompt with unequal rewards

A rollout whose policy no longer saw all that came before has several conversations, and no pairs.

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


def chat(rollout: Rollout) -> list[dict[str, object]]:
    """The conversations of a rollout; none: the policy said nothing to learn from."""
    return [{"messages": [*before, *own], **_about(rollout)} for before, own in _parts(rollout)]


def completion(rollout: Rollout) -> list[dict[str, object]]:
    """Of each conversation the messages before the policy's first one with loss, and those from it on; none: as in `chat`."""
    return [{"prompt": before, "completion": own, **_about(rollout)} for before, own in _parts(rollout)]


def pairs(group: Iterable[Rollout], every: bool) -> Iterator[dict[str, object]]:
    """Pairs of a group's rollouts that begin with the same messages and have unequal rewards, the better one as chosen.

    every: all of them; else of each beginning the best with the worst alone, of equals the first that came.
    """
    by_prompt: dict[str, list[tuple[float, list[Plain], Rollout]]] = {}
    for rollout in group:
        if (reward := _reward(rollout)) is not None and not dropped(rollout) and len(parts := _parts(rollout)) == 1:
            by_prompt.setdefault(dumps(parts[0][0]), []).append((reward, parts[0][1], rollout))
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


def has_masked(rollout: Rollout) -> bool:
    """Whether a message that must not carry loss stands between others of the policy's, where lines cannot say so."""
    masked, own = rollout.get("filter", {}).get("masked", ()), _own(rollout)
    return any(place > own[0] for place in masked) if own else False


def _own(rollout: Rollout) -> list[int]:
    """The places of the policy's messages that carry loss, as a trainer here takes them."""
    messages, masked = rollout["messages"], rollout.get("filter", {}).get("masked", ())
    marked = any("loss" in message for message in messages)
    return [
        place
        for place, message in enumerate(messages)
        if message["role"] == "assistant" and place not in masked and message.get("loss", not marked)
    ]


def _parts(rollout: Rollout) -> list[tuple[list[Plain], list[Plain]]]:
    """(the messages before the policy's first one with loss, those from it on) of each conversation."""
    messages, own = rollout["messages"], _own(rollout)
    gone = {turn["message"]: turn.get("dropped", ()) for turn in rollout["turns"] if "message" in turn}
    parts: list[tuple[int, list[int]]] = []  # how many messages come before the first one with loss, the places of all
    for place in own:
        seen = [at for at in range(place) if at not in gone.get(place, ())]
        if parts and seen[: len(parts[-1][1])] == parts[-1][1]:
            parts[-1] = (parts[-1][0], [*seen, place])
        else:
            parts.append((len(seen), [*seen, place]))
    if parts:
        parts[-1][1].extend(range(own[-1] + 1, len(messages)))
    plain = ((first, [_plain(messages[at]) for at in places]) for first, places in parts)
    return [(shown[:first], shown[first:]) for first, shown in plain]


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
