"""Shares of idea types and of effective ideas: MLE-Ideator's figures 3 and 4 as one table, and its table 3.

Covered: counting the output of mle-classify-ideas, a text table, the same with a column for each ideator's model. Not
covered: intervals.
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

    def share(self, kind: str) -> float | None:
        """The share of a type among the ideas with a type; None without any."""
        typed = len(self) - self._of(None)
        return self._of(kind) / typed if typed else None

    def effective(self, kind: str) -> float | None:
        """The share of effective ideas of a type among those whose effect is known; None without any."""
        known = self._of(kind, True, False)
        return self._of(kind, True) / known if known else None

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


def ideator(rollout: Mapping[str, Any]) -> str:
    """The model that had the ideas of a rollout: the policy of scaffold idea, else the ideator that it asked."""
    if rollout["scaffold"] == "idea":
        return str(rollout["policy"]["model"])
    own = (rollout.get("settings") or {}).get("own") or {}
    return str(own.get("ideator") or "none")


def per_model(tallies: Mapping[str, Tally], types: Sequence[str]) -> str:
    """A table with the share of each type by model, its difference to the first model, and the share of effective ideas."""
    from tabulate import tabulate

    def percent(value: float | None, form: str = ".1%") -> str:
        return "-" if value is None else format(value, form)

    names = [name for name, tally in tallies.items() if len(tally)]
    rows = [
        ["type", *names, *(f"{name} - {names[0]}" for name in names[1:]), *(f"effective, {name}" for name in names)]
    ]
    for kind in types:
        shares = [tallies[name].share(kind) for name in names]
        changes = [None if None in (share, shares[0]) else share - shares[0] for share in shares[1:]]  # type: ignore[operator]
        effects = [percent(tallies[name].effective(kind)) for name in names]
        rows.append([kind, *map(percent, shares), *(percent(change, "+.1%") for change in changes), *effects])
    rows.append(["ideas", *(str(len(tallies[name])) for name in names), *("" for _ in rows[0][len(names) + 1 :])])
    align = ("left", *("right" for _ in rows[0][1:]))
    return str(tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=align))
