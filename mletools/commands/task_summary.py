"""What mle-gen-task says at its end of the tasks that it made: how often there is what, and how large and slow."""

from collections import Counter
from collections.abc import Sequence

from .. import cli
from ..tasks.make import Made

# Of more values than this, the commonest are told.
MOST_TOLD = 12


class Told:
    """What the summary says of the tasks that were made."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("modality", "problem", "direction", "domain")
        }
        self.samples: list[int] = []
        self.bytes: list[int] = []
        self.seconds: list[float] = []

    def add(self, made: Made) -> None:
        record = made.record
        metric, provenance = record["metric"], record["provenance"]
        self.counts["modality"][record["modality"]] += 1
        self.counts["problem"][record["problem"]] += 1
        self.counts["direction"]["lower is better" if metric["lower_is_better"] else "higher is better"] += 1
        self.counts["domain"][provenance.get("domain", record["name"])] += 1
        self.samples.append(made.samples)
        self.bytes.append(made.size)
        if made.trial is not None:
            self.seconds.append(made.trial.duration_s)

    def say(self, run: cli.Run) -> None:
        """Some lines on standard error: what there is how often, and how large and slow it is."""
        if not self.samples:
            return
        for name, counts in self.counts.items():
            shown = ", ".join(f"{value} {count}" for value, count in counts.most_common(MOST_TOLD))
            more = f", and {len(counts) - MOST_TOLD} more" if len(counts) > MOST_TOLD else ""
            run.say(f"{name}: {shown}{more}")
        run.say(f"samples: {_spread(self.samples, '')}")
        run.say(f"public files: {_spread([size / 1000 for size in self.bytes], ' kB')}")
        if self.seconds:
            run.say(f"standard solution: {_spread(self.seconds, ' s', 2)}")


def _spread(values: Sequence[float], unit: str, decimals: int = 0) -> str:
    import statistics

    least, middle, most = min(values), statistics.median(values), max(values)
    mean = statistics.fmean(values)
    numbers = (f"{value:.{decimals}f}{unit}" for value in (mean, least, middle, most))
    return "mean {}, least {}, median {}, most {}".format(*numbers)
