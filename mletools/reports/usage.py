"""What the models of a rollout used, by their roles.

Covered: the roles in `usage_by_role`, and those asked about a finished rollout: the instrumenter (mle-instrument) and the
judge (mle-classify-ideas). Not covered: embeddings, whose cost is not measured.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TypeVar

from ..records.rollout import Rollout, Usage

# The roles that are not in a rollout's own `usage`, and the commands that ask them.
AFTERWARDS = {"instrumenter": "mle-instrument", "judge": "mle-classify-ideas"}
USED = ("seconds", "prompt_tokens", "completion_tokens", "usd")
Number = TypeVar("Number", int, float)


def by_role(rollout: Rollout) -> dict[str, Usage]:
    """{role: usage}, in the order in which the roles were asked; empty for a record that does not say."""
    roles = dict(rollout.get("usage_by_role") or {})
    instrument = rollout.get("instrument")
    asked = {
        "instrumenter": [instrument.get("usage")] if instrument else [],
        "judge": [entry.get("usage") for entry in rollout.get("idea_types") or ()],
    }
    for role, usages in asked.items():
        told = [usage for usage in usages if usage is not None]
        if told:
            roles[role] = reduce(added, told)
    return roles


def added(one: Usage, other: Usage) -> Usage:
    """The sums of two usages; None for a sum with an unknown part."""
    return {
        "seconds": one["seconds"] + other["seconds"],
        "prompt_tokens": total(one["prompt_tokens"], other["prompt_tokens"]),
        "completion_tokens": total(one["completion_tokens"], other["completion_tokens"]),
        "usd": total(one["usd"], other["usd"]),
    }


def total(a: Number | None, b: Number | None) -> Number | None:
    """None if either is unknown."""
    return None if a is None or b is None else a + b


def added_by_role(one: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    """The sums of two usages by role; a role that is in one of them keeps its own."""
    both = {role: added(used, other[role]) for role, used in one.items() if role in other}
    return {**one, **other, **both}
