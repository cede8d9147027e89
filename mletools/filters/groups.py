"""Choose rollouts: one by one (valid, score, duplicates), then by group (enough members, spread of reward).

A group is decided as soon as all its members have arrived (a rollout says how many there are), so a stream flows; what
is still open when the input ends is decided then. Within a group the order of arrival changes nothing: members are
looked at by sample index. Of duplicates in several groups of one task, the group decided first keeps its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..records.ids import content_id
from .code import normal_form

# the reason is a kind, a colon and the particulars
Decision = tuple[dict[str, Any], str | None]


@dataclass(frozen=True)
class FilterOptions:
    """min_score is compared in the metric's direction; min_group counts members that passed the single filters."""

    keep_invalid: bool = False
    keep_duplicates: bool = False
    min_score: float | None = None
    min_group: int = 2
    spread: bool = True


@dataclass
class Selection:
    """Feed rollouts with `add`, end with `flush`; both yield (rollout, None) to keep or (rollout, reason) to drop."""

    options: FilterOptions
    _groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    def add(self, rollout: dict[str, Any]) -> Iterator[Decision]:
        """Take one rollout in; when its group is complete, decide on all of the group."""
        key = rollout["group"]
        members = self._groups.setdefault(key, [])
        members.append(rollout)
        if len(members) >= rollout["group_size"]:
            yield from self._decide(self._groups.pop(key))

    def flush(self) -> Iterator[Decision]:
        """Decide on the groups that never became complete."""
        while self._groups:
            yield from self._decide(self._groups.pop(next(iter(self._groups))))

    def _single(self, rollout: dict[str, Any]) -> str | None:
        """Why this rollout is dropped whatever its group is, or None."""
        grade, options = rollout["grade"], self.options
        if not grade["valid"] and not options.keep_invalid:
            return f"invalid: {grade['reason']}"
        if rollout["reward"] is None:
            return "no reward: the rule gives none to such a rollout"
        if options.min_score is not None and grade["valid"]:
            score = grade["score"]
            if score > options.min_score if grade["lower_is_better"] else score < options.min_score:
                return f"score: {score:g} is worse than {options.min_score:g}"
        if not options.keep_duplicates and rollout["code"] is not None:
            seen = self._seen.setdefault(rollout["task"]["id"], set())
            digest = content_id(normal_form(rollout["code"]))
            if digest in seen:
                return "duplicate: the same program as an earlier one"
            seen.add(digest)
        return None

    def _decide(self, group: list[dict[str, Any]]) -> Iterator[Decision]:
        members = [(rollout, self._single(rollout)) for rollout in sorted(group, key=lambda rollout: rollout["sample"])]
        kept = [rollout for rollout, reason in members if reason is None]
        why = None
        if len(kept) < self.options.min_group:
            why = f"small group: {len(kept)} left, fewer than {self.options.min_group}"
        elif self.options.spread and len({rollout["reward"] for rollout in kept}) < 2:
            why = "no spread: all rewards left in the group are equal"
        for rollout, reason in members:
            yield rollout, reason or why
