"""A run of several traces as one: MLE-RL's agent goes on until its time is up, and hands in the best that it knows of.

Known is the validation score; of equals the first. What a run costs is what its traces cost together. Over a whole run a
Life tells what its traces came to by human rank, of the rule that mle-grade was asked for, by how they began and by submission (MLE-RL's figure 4). Covered: rollouts
with `trace` (scaffold memory), one file at a time, a run's traces in order. Not covered: which turn of a trace is handed in
(the scaffold's choice), means over tasks (courses).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .runs import GradedRun
from .search import CLOSE, better_than, lower_is_better
from .trace import Trace


@dataclass(frozen=True, slots=True)
class Life:
    """A run, one trace after another: its seconds, and its valid submissions: how the trace began, the seconds, the human rank."""

    seconds: float
    submissions: tuple[tuple[str, float, float], ...]

    @property
    def kinds(self) -> set[str]:
        """How the traces began that handed in something valid."""
        return {kind for kind, _, _ in self.submissions}

    def best(self, kind: str, share: float) -> float:
        """The best human rank that traces of this kind have by this share of the run's seconds; 0 where there is none."""
        until = share * self.seconds * (1 + CLOSE)
        return max((rank for of, at, rank in self.submissions if of == kind and at <= until), default=0.0)


def life(traces: Sequence[Trace]) -> Life:
    """The run that these traces are, in order."""
    begun, found = 0.0, []
    for trace in traces:
        found += [(trace.kind, begun + at, rank) for at, rank in trace.submissions]
        begun += trace.seconds
    return Life(begun, tuple(found))


def lives(runs: Sequence[GradedRun]) -> list[Life]:
    """The runs that traces of one task belong to; what is no trace is left out."""
    found = dict[tuple[str, tuple[bool, int, int]], list[Trace]]()
    for run in runs:
        if run.trace is not None:
            found.setdefault((run.group, run.repeat), []).append(run.trace)
    return [life(traces) for traces in found.values()]


@dataclass
class Traces:
    """Give it the traces with `add`; `runs` are those that the runs hand in, in the order in which the runs began."""

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
    """None where either does not tell."""
    return None if a is None or b is None else a + b
