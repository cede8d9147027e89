"""Whether graded rollouts whose rewards were clamped leave a policy anything to learn from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ADVICE = "mle-grade --scale-score thresholds brings scores to one scale, a lower --failure-reward leaves room for them"


@dataclass
class Signal:
    """Feed graded rollouts with `add`. Holds a few numbers per task and per incomplete group.

    A group has no signal if all its rewards are equal and some were clamped; a task's scores have none if all its valid
    rollouts, at least two, were clamped.
    """

    _open: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _groups: int = 0
    _equal: int = 0
    _tasks: dict[str, tuple[int, int]] = field(default_factory=dict)  # (valid rollouts, clamped ones)

    def add(self, rollout: Mapping[str, Any]) -> None:
        clamped = bool(rollout["grade"]["reward"].get("clamped"))
        valid, before = self._tasks.get(rollout["task"]["id"], (0, 0))
        self._tasks[rollout["task"]["id"]] = (valid + rollout["grade"]["valid"], before + clamped)
        group = self._open.setdefault(rollout["group"], [])
        group.append({"reward": rollout["reward"], "clamped": clamped})
        if len(group) >= rollout["group_size"]:
            self._close(self._open.pop(rollout["group"]))

    def _close(self, group: list[dict[str, Any]]) -> None:
        if len(group) > 1:
            self._groups += 1
            equal = len({each["reward"] for each in group}) == 1
            self._equal += equal and any(each["clamped"] for each in group)

    def warnings(self) -> Iterator[str]:
        """What clamping has cost, in words; call it once, at the end."""
        for group in self._open.values():
            self._close(group)
        lost = sum(1 < valid == clamped for valid, clamped in self._tasks.values())
        if lost:
            yield (
                f"{lost} of {len(self._tasks)} tasks: every valid score was raised to the best failure's reward, so "
                f"scores make no difference; {ADVICE}"
            )
        if self._equal:
            yield f"{self._equal} of {self._groups} groups have no signal: their rewards were clamped and are all equal"
