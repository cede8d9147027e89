"""Several traces as one run: MLE-RL's agent works until its time is up and submits its best trace.

The best trace is chosen by validation score, the first of equals. The cost of a run is the sum over its traces. A Life
has the human ranks of a whole run, by mle-grade's rule, by start of the trace and by submission (MLE-RL's figure 4).
Covered: rollouts with `trace` (scaffold memory), one file at a time, a run's traces in order. Not covered: the
submitted turn of a trace (the scaffold's choice), means over tasks (courses).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .runs import GradedRun
from .search import CLOSE
from .trace import Trace
from .turns import better_than, lower_is_better


@dataclass(frozen=True, slots=True)
class Life:
    """A run of consecutive traces: its seconds, and (kind of trace, seconds, human rank) of each valid submission."""

    seconds: float
    submissions: tuple[tuple[str, float, float], ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the traces with valid submissions."""
        return {kind for kind, _, _ in self.submissions}

    def best(self, kind: str, share: float) -> float:
        """The best human rank of traces of this kind within this share of the run's seconds; 0 if there is none."""
        until = share * self.seconds * (1 + CLOSE)
        return max((rank for of, at, rank in self.submissions if of == kind and at <= until), default=0.0)


def life(traces: Sequence[Trace]) -> Life:
    """The run of these traces, in order."""
    begun, submissions = 0.0, []
    for trace in traces:
        submissions += [(trace.kind, begun + at, rank) for at, rank in trace.submissions]
        begun += trace.seconds
    return Life(begun, tuple(submissions))


def lives(runs: Sequence[GradedRun]) -> list[Life]:
    """The runs formed by the traces of one task; other rollouts are left out."""
    by_run = dict[tuple[str, tuple[bool, int, int]], list[Trace]]()
    for run in runs:
        if run.trace is not None:
            by_run.setdefault((run.group, run.repeat), []).append(run.trace)
    return [life(traces) for traces in by_run.values()]


@dataclass
class Traces:
    """Collects traces with `add`; `runs` yields the submitted trace of each run, in order of the runs' start."""

    _best: dict[tuple[str, int], tuple[float | None, GradedRun]] = field(default_factory=dict)

    def add(self, rollout: Mapping[str, Any], run: GradedRun) -> None:
        key = (rollout["group"], rollout["sample"])
        score = (rollout.get("validation") or {}).get("score")
        if key not in self._best:
            self._best[key] = score, run
            return
        known, best = self._best[key]
        better = score is not None and (known is None or better_than(score, known, lower_is_better(rollout)))
        chosen = run if better else best
        together = {name: _sum(getattr(run, name), getattr(best, name)) for name in SUMMED}
        self._best[key] = (score if better else known), replace(chosen, **together)

    def runs(self) -> Iterator[GradedRun]:
        return (run for _, run in self._best.values())


SUMMED = ("seconds", "prompt_tokens", "completion_tokens", "usd")


def _sum(a: Any, b: Any) -> Any:
    """None if either is unknown."""
    return None if a is None or b is None else a + b
