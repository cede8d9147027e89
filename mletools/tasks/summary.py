"""The summary of a run that made tasks: counts of kinds, and the distribution of sizes and times."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from .make import Made
from .record import Cost, Origin

MAX_VALUES = 12  # only the most common are shown


class Summary:
    """Counts of the tasks added; bytes of their public files, seconds of their standard solutions."""

    def __init__(self) -> None:
        self.counts = {name: Counter[str]() for name in ("modality", "problem", "direction", "domain")}
        self.samples: list[int] = []
        self.bytes: list[int] = []
        self.seconds: list[float] = []
        self.costs: dict[str, list[Cost]] = {}  # by role, of all replies, those in the journal too
        self.seeds = set[str]()

    def add(self, task: Made) -> None:
        record, origin = task.record, cast(Origin, task.record["provenance"])
        lower_is_better = record["metric"]["lower_is_better"]
        self.counts["modality"][record["modality"]] += 1
        self.counts["problem"][record["problem"]] += 1
        self.counts["direction"]["lower is better" if lower_is_better else "higher is better"] += 1
        self.counts["domain"][record["provenance"].get("domain", record["name"])] += 1
        self.samples.append(task.samples)
        self.bytes.append(task.size)
        for role, cost in origin.get("cost_by_role", {}).items():
            self.costs.setdefault(role, []).append(cost)
        if (seed := origin.get("seed_task")) is not None and seed not in self.seeds:
            self.seeds.add(seed)  # its DNA and scenarios are for all its tasks
            self.costs.setdefault("strategist", []).append(origin["seed_cost"])
        if task.trial is not None:
            self.seconds.append(task.trial.duration_s)

    def lines(self) -> Iterator[str]:
        """The summary, human-readable."""
        if not self.samples:
            return
        for name, counts in self.counts.items():
            shown = ", ".join(f"{value} {count}" for value, count in counts.most_common(MAX_VALUES))
            more = f", and {len(counts) - MAX_VALUES} more" if len(counts) > MAX_VALUES else ""
            yield f"{name}: {shown}{more}"
        yield f"samples: {_spread(self.samples, '')}"
        yield f"public files: {_spread([size / 1000 for size in self.bytes], ' kB')}"
        if self.seconds:
            yield f"standard solution: {_spread(self.seconds, ' s', 2)}"
        for role, costs in self.costs.items():
            calls, known = (
                sum(cost["calls"] for cost in costs),
                [cost["usd"] for cost in costs if cost["usd"] is not None],
            )
            paid = "at unknown cost" if len(known) < len(costs) else f"{sum(known):.4f} USD"
            yield f"{role}: {calls} replies for the tasks made, {paid}"


def _spread(values: Sequence[float], unit: str, decimals: int = 0) -> str:
    numbers = (statistics.fmean(values), min(values), statistics.median(values), max(values))
    return "mean {}, least {}, median {}, most {}".format(*(f"{number:.{decimals}f}{unit}" for number in numbers))
