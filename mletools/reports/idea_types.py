"""Shares of idea types and of effective ideas: MLE-Ideator's figures 3 and 4 as one table, and its table 3.

Covered: counting the output of mle-classify-ideas, a text table, the same with a column for each ideator's model. Not
covered: intervals.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ..records.rollout import IdeaType, Rollout
from .disclosure import own_settings
from .table import Table, document, number

HEADER = ("type", "ideas", "share", "effective", "of")
UNREAD, ALL = "(unread)", "all ideators"
percent = partial(number, form=".1%")


class Tally:
    """Counts ideas by (type, effective)."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, bool | None]] = Counter()

    def add(self, entries: Iterable[IdeaType]) -> None:
        """Count the entries of a record's `idea_types`."""
        self._counts.update((entry["type"], entry["effective"]) for entry in entries)

    def __add__(self, other: "Tally") -> "Tally":
        both = Tally()
        both._counts = self._counts + other._counts
        return both

    def __len__(self) -> int:
        return self._counts.total()

    def rows(self, types: Sequence[str]) -> list[tuple[str, str, str, str, str]]:
        """One line per type, one for ideas without a type if there are any, and one for all: the columns of HEADER.

        share: of the ideas with a type; effective: share of the `of` ideas whose effect is known.
        """
        kinds: dict[str, Sequence[str | None]] = {kind: [kind] for kind in types}
        if self._of([None]):
            kinds[UNREAD] = [None]
        lines = []
        for name, of in {**kinds, "all": [*types, None]}.items():
            share = percent(self.share(name) if name in types else None)
            lines.append((name, str(self._of(of)), share, percent(self.effective(of)), str(self._of(of, True, False))))
        return lines

    def share(self, kind: str) -> float | None:
        """The share of a type among the ideas with a type; None without any."""
        typed = len(self) - self._of([None])
        return self._of([kind]) / typed if typed else None

    def effective(self, kinds: Iterable[str | None]) -> float | None:
        """The share of effective ideas of these types among those whose effect is known; None without any."""
        known = self._of(kinds, True, False)
        return self._of(kinds, True) / known if known else None

    def _of(self, kinds: Iterable[str | None], *effects: bool | None) -> int:
        return sum(self._counts[kind, effect] for kind in kinds for effect in effects or (True, False, None))

    def text(self, types: Sequence[str], room: int | None = None) -> str:
        """The table, one line per row, without a final line break."""
        return _plain([HEADER, *self.rows(types)], room)


def _plain(rows: Sequence[Sequence[str]], room: int | None) -> str:
    """Aligned columns, the first to the left; in parts that repeat it where `room` is narrow."""
    return document([Table(rows[0], rows[1:], rows[0][:1], rule=False)], (), room=room)


def ideator(rollout: Rollout) -> str:
    """The model that had the ideas of a rollout: the policy of scaffold idea, else the ideator that it asked."""
    if rollout["scaffold"] == "idea":
        return str(rollout["policy"]["model"])
    return str(own_settings(rollout).get("ideator") or "none")


def per_model(tallies: Mapping[str, Tally], types: Sequence[str], room: int | None = None) -> str:
    """A table with the share of each type by model, its difference to the first model, and the share of effective ideas.

    Of several models also of all their ideas together (MLE-Ideator's figures 3 and 4).
    """
    names = [name for name, tally in tallies.items() if len(tally)]
    if len(names) > 1:
        tallies = {**tallies, ALL: sum((tallies[name] for name in names), Tally())}
    together = [ALL] if len(names) > 1 else []
    columns = [*names, *together]
    changed, effective = [f"{name} - {names[0]}" for name in names[1:]], [f"effective, {name}" for name in columns]
    rows = [["type", *columns, *changed, *effective]]
    for kind in types:
        shares = [tallies[name].share(kind) for name in columns]
        others = shares[1 : len(names)]
        changes = [None if None in (share, shares[0]) else share - shares[0] for share in others]  # type: ignore[operator]
        effects = [percent(tallies[name].effective([kind])) for name in columns]
        rows.append([kind, *map(percent, shares), *(number(change, "+.1%") for change in changes), *effects])
    rows.append(["ideas", *(str(len(tallies[name])) for name in columns), *("" for _ in rows[0][len(columns) + 1 :])])
    return _plain(rows, room)
