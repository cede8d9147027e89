"""What the models of a rollout used, by their roles.

Covered: the roles in `usage_by_role`, and those asked about a finished rollout: the instrumenter (mle-instrument) and the
judge (mle-classify-ideas). Not covered: embeddings, whose cost is not measured.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

# The roles that are not in a rollout's own `usage`, and the commands that ask them.
AFTERWARDS = {"instrumenter": "mle-instrument", "judge": "mle-classify-ideas"}
USED = ("seconds", "prompt_tokens", "completion_tokens", "usd")
Used = Mapping[str, Any]  # USED; None: unknown


def by_role(rollout: Mapping[str, Any]) -> dict[str, Used]:
    """{role: usage}, in the order in which the roles were asked; empty for a record that does not say."""
    roles = dict(rollout.get("usage_by_role") or {})
    asked = {
        "instrumenter": [(rollout.get("instrument") or {}).get("usage")],
        "judge": [entry.get("usage") for entry in rollout.get("idea_types") or ()],
    }
    for role, usages in asked.items():
        known = [used for used in usages if used is not None]
        if known:
            roles[role] = reduce(added, known)
    return {role: {name: used.get(name) for name in USED} for role, used in roles.items()}


def added(one: Used, other: Used) -> Used:
    """The sums of two usages; None for a sum with an unknown part."""
    return {name: total(one.get(name), other.get(name)) for name in USED}


def total(a: Any, b: Any) -> Any:
    """None if either is unknown."""
    return None if a is None or b is None else a + b


def added_by_role(one: Mapping[str, Used], other: Mapping[str, Used]) -> dict[str, Used]:
    """The sums of two usages by role; a role that is in one of them keeps its own."""
    both = {role: added(used, other[role]) for role, used in one.items() if role in other}
    return {**one, **other, **both}
