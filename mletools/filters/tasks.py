"""Choose tasks: those that pass every check, and of nearly equal ones the first that does.

Not covered: the checks themselves, and what makes two tasks nearly equal; both reach this module as arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from ..records.task import Task

DUPLICATE = "duplicate"
FAILED = "failed: "


class TaskDecision(TypedDict):
    """The `filter` of a task: the reasons joined by "; ", None when it is kept, and every check's outcome."""

    kept: bool
    reason: str | None
    checks: dict[str, str]


@dataclass
class TaskSelection:
    """Feed tasks with `decide` in the order of the stream; `took` tells of one that an earlier run kept."""

    keep_duplicates: bool = False
    _seen: dict[str, str] = field(default_factory=dict)

    def decide(self, task: Task, checks: Mapping[str, str], keys: Sequence[str]) -> TaskDecision:
        """The task's `filter`.

        `checks` says "passed", "skipped: why" or "failed: why"; two tasks that share one of their `keys` are nearly
        equal.
        """
        reasons = [
            f"{name}: {result.removeprefix(FAILED)}" for name, result in checks.items() if result.startswith(FAILED)
        ]
        earlier = next((self._seen[key] for key in keys if key in self._seen), None)
        if earlier is not None and not self.keep_duplicates:
            reasons.append(f"{DUPLICATE}: nearly the same as the earlier task {earlier}")
        if not reasons:
            self.took(task, keys)
        return {"kept": not reasons, "reason": "; ".join(reasons) or None, "checks": dict(checks)}

    def took(self, task: Task, keys: Sequence[str]) -> None:
        """Remembers a task that was kept."""
        for key in keys:
            self._seen.setdefault(key, task["id"])


def failed(decision: TaskDecision) -> list[str]:
    """The names of the checks that a decision of `decide` counts against a task, DUPLICATE among them."""
    names = [name for name, result in decision["checks"].items() if result.startswith(FAILED)]
    duplicate = not decision["kept"] and (not names or f"; {DUPLICATE}: " in (decision["reason"] or ""))
    return [*names, *([DUPLICATE] if duplicate else [])]
