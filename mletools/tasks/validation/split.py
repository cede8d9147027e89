"""Which rows become the validation rows: drawn from the task's id, whole groups at a time, every label on both sides.

The draw is an order of digests, so it depends on no library and no machine. Not covered: rows that share all features
but not an id may fall on different sides. Of a task whose test rows are later than its others the latest are taken.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..table import Rejected
from .rows import Key

# Fewer rows say nothing about a solution; of groups, which have rows of their own, two.
LEAST_ROWS, LEAST_GROUPS = 5, 2
# Another draw is tried where a value would lie on one side only; of many rows, fewer draws.
MOST_DRAWS, MOST_DIGESTS = 60, 400_000


def place(*parts: str) -> bytes:
    """Where something stands in an order that tells nothing."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()


def held_out(
    units: Mapping[Key, Sequence[int]],
    strata: Mapping[Key, str],
    seen: Mapping[Key, frozenset[tuple[str, str]]],
    seed: str,
    fraction: float,
    last: Collection[Key] = (),
) -> list[Key]:
    """The keys of the units, rows that share an id, that are held out, in the order of `units`.

    About `fraction` of each stratum, and never all of it; units that `strata` does not name are one stratum. Of what
    `seen` says to occur in a unit, as much as possible occurs on both sides. Units of `last` are taken where a stratum
    has no others left. Rejected where there are too few.
    """
    least = LEAST_ROWS if all(len(rows) == 1 for rows in units.values()) else LEAST_GROUPS
    total = min(max(round(fraction * len(units)), least), len(units) // 2)
    if total < 1:
        raise Rejected(f"train.csv has {len(units)} rows or groups to choose from, too few to hold some out")
    layers: dict[str, list[Key]] = {}
    for key in units:
        layers.setdefault(strata.get(key, ""), []).append(key)
    counts = shared_out({name: len(keys) for name, keys in layers.items()}, total)
    if sum(counts.values()) < total:  # too many labels of one row: no strata then
        layers, counts = {"": list(units)}, {"": total}
    wanted, late = _on_both_sides(seen), frozenset(last)
    best: tuple[int, set[Key]] | None = None
    for attempt in range(max(1, min(MOST_DRAWS, MOST_DIGESTS // len(units)))):
        out: set[Key] = set()
        for name, keys in layers.items():
            order = sorted(keys, key=lambda key: (key in late, place(seed, "split", str(attempt), *key)))
            out.update(order[: counts[name]])
        lacking = _lacking(wanted, seen, out)
        if best is None or lacking < best[0]:
            best = (lacking, out)
        if not lacking:
            break
    assert best is not None
    return [key for key in units if key in best[1]]


def latest(
    units: Mapping[Key, Sequence[int]], times: Sequence[tuple[Any, ...]], fraction: float, last: Collection[Key] = ()
) -> tuple[list[Key], set[int]]:
    """(the keys of about `fraction` of the units, those of the latest times, in the order of `units`; the rows later than
    these). `times` of the rows; whole times are taken. Of those before `last`, where these leave some.

    Rejected where all units are of one time.
    """
    when = {key: max(times[at] for at in rows) for key, rows in units.items()}
    before = min((when[key] for key in last), default=None)
    counts = Counter(at for at in when.values() if before is None or at < before)
    if before is not None and len(counts) < 2:
        return [key for key in units if key in frozenset(last)], set()
    if len(counts) < 2:
        raise Rejected("all rows of train.csv are of one time, so none can be held out that are later than others")
    total = min(max(round(fraction * len(units)), LEAST_ROWS), len(units) // 2)
    taken: set[tuple[Any, ...]] = set()
    for at in sorted(counts, reverse=True)[:-1]:
        if taken and sum(counts[each] for each in taken) >= total:
            break
        taken.add(at)
    end = max(taken)
    return [key for key in units if when[key] in taken], {at for at, each in enumerate(times) if each > end}


def shared_out(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of each stratum are held out, together `total` where that leaves one of each.

    One at least of each that has two, where `total` suffices for that; what is over goes where the most is lacking.
    """
    every = sum(sizes.values())
    least = 1 if len(sizes) <= total else 0
    counts = {name: min(size - 1, max(least, int(total * size / every))) for name, size in sizes.items()}
    for _ in range(total - sum(counts.values())):
        room = [name for name in sorted(sizes) if counts[name] < sizes[name] - 1]
        if not room:
            break
        counts[max(room, key=lambda name: total * sizes[name] / every - counts[name])] += 1
    return counts


def _on_both_sides(seen: Mapping[Key, frozenset[tuple[str, str]]]) -> set[tuple[str, str]]:
    """What occurs in two units or more."""
    once: set[tuple[str, str]] = set()
    twice: set[tuple[str, str]] = set()
    for values in seen.values():
        twice |= values & once
        once |= values
    return twice


def _lacking(wanted: set[tuple[str, str]], seen: Mapping[Key, frozenset[tuple[str, str]]], out: set[Key]) -> int:
    held: set[tuple[str, str]] = set()
    kept: set[tuple[str, str]] = set()
    for key, values in seen.items():
        (held if key in out else kept).update(values)
    return len(wanted - held) + len(wanted - kept)
