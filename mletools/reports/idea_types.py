"""Shares of idea types and of effective ideas: MLE-Ideator's figures 3 and 4 as one table.

Covered: counting the output of mle-classify-ideas, a text table. Not covered: intervals, comparing sets of rollouts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HEADER = ("type", "ideas", "share", "effective", "of")
UNREAD = "(unread)"


class Tally:
    """Counts ideas by (type, effective)."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, bool | None]] = Counter()

    def add(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Count the entries of a record's `idea_types`."""
        self._counts.update((entry["type"], entry["effective"]) for entry in entries)

    def __len__(self) -> int:
        return self._counts.total()

    def rows(self, types: Sequence[str]) -> list[tuple[str, str, str, str, str]]:
        """One line per type, one for ideas without a type if there are any, and one for all: the columns of HEADER.

        share: of the ideas with a type; effective: share of the `of` ideas whose effect is known.
        """
        typed = len(self) - self._of(None)
        lines = [self._row(kind, [kind], typed) for kind in types]
        if self._of(None):
            lines.append(self._row(UNREAD, [None], 0))
        return [*lines, self._row("all", [*types, None], 0)]

    def _of(self, kind: str | None, *effects: bool | None) -> int:
        return sum(self._counts[kind, effect] for effect in effects or (True, False, None))

    def _row(self, name: str, kinds: Sequence[str | None], typed: int) -> tuple[str, str, str, str, str]:
        ideas, known, worked = (
            sum(self._of(kind, *effects) for kind in kinds) for effects in ((), (True, False), (True,))
        )
        share = f"{ideas / typed:.1%}" if typed else "-"
        return name, str(ideas), share, f"{worked / known:.1%}" if known else "-", str(known)

    def text(self, types: Sequence[str]) -> str:
        """The table, one line per row, without a final line break."""
        from tabulate import tabulate

        align = ("left", "right", "right", "right", "right")
        return str(tabulate([HEADER, *self.rows(types)], tablefmt="plain", disable_numparse=True, colalign=align))
