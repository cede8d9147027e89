"""How often ideas are of which type and how many of them worked: MLE-Ideator's figures 3 and 4 as one table.

Covered: counting what mle-classify-ideas wrote, text for people. Not covered: intervals, comparing two sets of rollouts.
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

    def add(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Count the entries of a record's `idea_types`."""
        self._counts.update((entry["type"], entry["effective"]) for entry in found)

    def __len__(self) -> int:
        return self._counts.total()

    def rows(self, types: Sequence[str]) -> list[tuple[str, str, str, str, str]]:
        """A line for each of `types`, for ideas without one if there are any, and for all: the columns of HEADER.

        share: of the ideas that have a type; effective: of those where it is known, which are `of` in number.
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
        """The table, a line a row, without a line break at its end."""
        from tabulate import tabulate

        align = ("left", "right", "right", "right", "right")
        return str(tabulate([HEADER, *self.rows(types)], tablefmt="plain", disable_numparse=True, colalign=align))
