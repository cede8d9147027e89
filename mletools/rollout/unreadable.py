"""A warning where most answers of a run cannot be read: a prompt, a template or a server is wrong, not the agent.

Covered: the first answers of a run, in the order in which their rollouts end. Not covered: why.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

FIRST = 20  # answers that are looked at
_LINES, _COLUMNS = 8, 160  # of the answer that is shown


class UnreadableAnswers:
    """Counts the first answers of a run; `add` has the warning once, when more than half cannot be read."""

    def __init__(self) -> None:
        self.answers = 0
        self.reasons: Counter[str] = Counter()
        self.example: Mapping[str, Any] | None = None

    def add(self, rollout: Mapping[str, Any]) -> str | None:
        """The warning, if this rollout's answers make it due."""
        for turn in rollout["turns"]:
            if "format" not in turn or self.answers == FIRST:
                continue
            self.answers += 1
            if turn["format"]["read"] == "none":
                message = rollout["messages"][turn.get("message", -1)]
                self.reasons[turn["format"]["rule"]] += 1
                self.example = self.example if (self.example or {}).get("content") else message
                if self.reasons.total() == FIRST // 2 + 1:
                    return self._warning()
        return None

    def _warning(self) -> str:
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())
        head = f"{self.reasons.total()} of the first {self.answers} answers cannot be read ({reasons}); one of them:"
        return "\n".join([head, *(f"    {line}" for line in _shown(self.example or {}))])


def _shown(message: Mapping[str, Any]) -> list[str]:
    """The first lines of a message, hidden characters spelled out."""
    from ..reports.show.visible import visible  # rich is slow to import

    text = message.get("content") or ""
    if not text.strip():
        return [f"(empty; {len(message.get('reasoning') or '')} characters of reasoning were set apart)"]
    lines = visible(text.strip()[: _LINES * _COLUMNS * 2]).split("\n")
    shown = [line[:_COLUMNS] + ("…" if len(line) > _COLUMNS else "") for line in lines[:_LINES]]
    return [*shown, "…"] if len(lines) > _LINES else shown
