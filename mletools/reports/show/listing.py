"""Rollouts as a table, a line each. A row is a few short texts: the records need not be kept for it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import facts
from .header import aligned
from .lines import BAD, styled

if TYPE_CHECKING:
    from rich.text import Text

HEADER = (
    *("id", "task", "scaffold", "turns", "stopped", "status", "validation", "score", "medal", "reward"),
    *("tokens", "USD", "seconds"),
)
LEFT = ("id", "task", "scaffold", "stopped", "status", "medal")
REVEALED = "!"


def row(rollout: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells under HEADER; a score has an exclamation mark where the agent was shown test scores."""
    grade, execution = rollout.get("grade"), rollout.get("execution") or {}
    return (
        rollout["id"],
        facts.task_name(rollout),
        rollout["scaffold"],
        str(len(rollout["turns"])),
        rollout["stop_reason"],
        execution.get("status", "-"),
        facts.shown_score(rollout.get("validation")),
        facts.shown_score(grade) + (REVEALED if rollout.get("reveal_test") else ""),
        (grade or {}).get("medal") or "-",
        facts.number(rollout.get("reward")),
        facts.tokens(rollout["usage"]),
        facts.usd(rollout["usage"]),
        f"{facts.seconds(rollout):.1f}",
    )


def table(rows: Sequence[tuple[str, ...]]) -> list["Text"]:
    """The rows under their names; nothing without rows."""
    if not rows:
        return []
    made = aligned(HEADER, rows, LEFT)
    if any(cells[HEADER.index("score")].endswith(REVEALED) for cells in rows):
        made.append(styled((f"{REVEALED} the agent was shown test scores", BAD)))
    return made
