"""Draw records at random: so many of all or of each task, and parts of a stream by share.

What is drawn depends on the seed and on ids, not on the order of the input. A split decides on each record alone, so
it streams, agrees between streams of one set of tasks, and does not move a task when tasks are added; its shares hold
on average. An exact split holds the input, and its parts have their shares of that input, up to whole tasks. A sample
holds what it has drawn, at most `number` records per key, until the input ends.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..base.ids import derive_seed
from ..base.options import option
from ..records.rollout import Rollout
from ..records.task import Task
from .overlap import task_of

SPACE = 1 << 62  # derive_seed is below
Record = Task | Rollout


def read_split(text: str) -> dict[str, float]:
    """{part: share} of NAME=SHARE,NAME=SHARE,... ValueError: names repeat, or shares are not positive with sum 1."""
    parts: dict[str, float] = {}
    for each in text.split(","):
        name, equals, share = (word.strip() for word in each.partition("="))
        try:
            number = float(share)
        except ValueError:
            number = 0.0
        if not name or not equals or not 0 < number < 1:
            raise ValueError(f"{each!r} is not NAME=SHARE with a share between 0 and 1, e.g. train=0.8,test=0.2")
        if name in parts:
            raise ValueError(f"two parts are named {name}")
        parts[name] = number
    if abs(sum(parts.values()) - 1) > 1e-6:
        raise ValueError(f"the shares add up to {sum(parts.values()):g}, not to 1")
    return parts


@dataclass(frozen=True)
class DrawOptions:
    """Which records are drawn at random."""

    sample: int | None = option("Draw N records at random.", at_least=1)
    per: str = option("--sample: N records in total, or N per task.", default="all", choices=("all", "task"))
    split: Mapping[str, float] | None = option(
        "Divide the records by task, at random: the shares hold on average. Needs --part.",
        metavar="NAME=SHARE,...",
        read=read_split,
    )
    split_by: str = option(
        "--split: all records of a task into one part, or each record on its own.",
        default="task",
        choices=("task", "record"),
    )
    exact: bool = option(
        "--split: give each part exactly its share of this input, up to whole tasks. Holds the input; a task that is "
        "added may move others.",
        default=False,
    )
    part: str | None = option("--split: write the records of this part.", metavar="NAME")


def _key(record: Record, by: str) -> str:
    return str(task_of(record)["id"] if by == "task" else record["id"])


def exact_parts(records: Iterable[Record], split: Mapping[str, float], by: str, seed: int) -> list[str]:
    """The name of the part that each record falls into: of N tasks (or records) a part has its share of N, rounded."""
    keys = [_key(record, by) for record in records]
    ordered = sorted(set(keys), key=lambda key: (derive_seed(seed, "split", key), key))
    parts: dict[str, str] = {}
    share = 0.0
    for name, more in split.items():
        share += more
        for key in ordered[len(parts) : round(share * len(ordered))]:
            parts[key] = name
    return [parts[key] for key in keys]


def part_of(record: Record, split: Mapping[str, float], by: str, seed: int) -> str:
    """The name of the part that a record falls into."""
    left = derive_seed(seed, "split", _key(record, by)) / SPACE
    for name, share in split.items():
        left -= share
        if left < 0:
            return name
    return name  # the shares add up to a little less than 1


def parted(records: Iterable[Record], draws: DrawOptions, seed: int) -> Iterator[tuple[Record, str | None]]:
    """Each record with the name of its part; None: there is no split."""
    if draws.split is None:
        return ((record, None) for record in records)
    if draws.exact:
        held = list(records)
        return zip(held, exact_parts(held, draws.split, draws.split_by, seed), strict=True)
    return ((record, part_of(record, draws.split, draws.split_by, seed)) for record in records)


@dataclass
class Sample:
    """The `number` records of each key with the smallest hash of seed and id. Of equal ids the first come first.

    per: "all" has one key, "task" one per task. `add` returns the record that is out for good, if one is; `drawn` the
    records that are in, in order of arrival.
    """

    number: int
    per: str
    seed: int
    _heaps: dict[str, list[tuple[int, int, Record]]] = field(default_factory=dict)
    _arrived: int = 0

    def add(self, record: Record) -> Record | None:
        heap = self._heaps.setdefault(task_of(record)["id"] if self.per == "task" else "", [])
        self._arrived += 1
        entry = (-derive_seed(self.seed, "sample", record["id"]), -self._arrived, record)  # the heap's top is the worst
        if len(heap) < self.number:
            heapq.heappush(heap, entry)
            return None
        return heapq.heappushpop(heap, entry)[2]

    def drawn(self) -> Iterator[Record]:
        entries = [entry for heap in self._heaps.values() for entry in heap]
        for _, _, record in sorted(entries, key=lambda entry: -entry[1]):
            yield record

    @property
    def short(self) -> int:
        """Number of keys with fewer than `number` records."""
        return sum(len(heap) < self.number for heap in self._heaps.values())
