"""The summary of a run that made tasks: counts of kinds, and the spread of sizes and times."""

import statistics
from collections import Counter
from collections.abc import Sequence

from ..run import Run
from ..tasks.make import Made

MAX_VALUES = 12  # of more, the commonest are shown


class Summary:
    """Counts of the tasks added; bytes of their public files, seconds of their standard solutions."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("modality", "problem", "direction", "domain")
        }
        self.samples: list[int] = []
        self.bytes: list[int] = []
        self.seconds: list[float] = []

    def add(self, task: Made) -> None:
        record = task.record
        metric, provenance = record["metric"], record["provenance"]
        self.counts["modality"][record["modality"]] += 1
        self.counts["problem"][record["problem"]] += 1
        self.counts["direction"]["lower is better" if metric["lower_is_better"] else "higher is better"] += 1
        self.counts["domain"][provenance.get("domain", record["name"])] += 1
        self.samples.append(task.samples)
        self.bytes.append(task.size)
        if task.trial is not None:
            self.seconds.append(task.trial.duration_s)

    def say(self, run: Run) -> None:
        """Print the summary on standard error."""
        if not self.samples:
            return
        for name, counts in self.counts.items():
            shown = ", ".join(f"{value} {count}" for value, count in counts.most_common(MAX_VALUES))
            more = f", and {len(counts) - MAX_VALUES} more" if len(counts) > MAX_VALUES else ""
            run.say(f"{name}: {shown}{more}")
        run.say(f"samples: {_spread(self.samples, '')}")
        run.say(f"public files: {_spread([size / 1000 for size in self.bytes], ' kB')}")
        if self.seconds:
            run.say(f"standard solution: {_spread(self.seconds, ' s', 2)}")


def _spread(values: Sequence[float], unit: str, decimals: int = 0) -> str:
    least, middle, most = min(values), statistics.median(values), max(values)
    mean = statistics.fmean(values)
    numbers = (f"{value:.{decimals}f}{unit}" for value in (mean, least, middle, most))
    return "mean {}, least {}, median {}, most {}".format(*numbers)
