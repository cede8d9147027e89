"""Several traces as one run: MLE-RL's agent works until its time is up and submits its best trace.

The best trace is chosen by the score that the run showed its agent and handed in by: of the validation, or of the test
with --reveal-test; the first of equals, and of runs that were shown none the first valid trace. The cost of a run is
the sum over its traces. A Life has the human ranks of a whole run, by mle-grade's rule, by start of the trace and by
submission (MLE-RL's figure 4); its best so far is the best by the same score.
Covered: rollouts with `trace` (scaffold memory), one file at a time, a run's traces in order. Not covered: the
submitted turn of a trace (the scaffold's choice), means over tasks (courses).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .runs import GradedRun
from .search import CLOSE
from .trace import Submission, Trace, shown_score
from .usage import USED, added_by_role, total


@dataclass(frozen=True, slots=True)
class Life:
    """A run of consecutive traces: its seconds, and (kind of trace, submission) of each valid submission."""

    seconds: float
    submissions: tuple[tuple[str, Submission], ...]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the traces with valid submissions."""
        return {kind for kind, _ in self.submissions}

    def best(self, kind: str, share: float) -> float:
        """The human rank of the best of traces of this kind within this share of the run's seconds; 0 if there is none."""
        until = share * self.seconds * (1 + CLOSE)
        return best_rank([each for of, each in self.submissions if of == kind and each.seconds <= until])


def best_rank(submissions: Sequence[Submission]) -> float:
    """The human rank of the submission with the best shown score, the first of equals; 0 if there is none.

    Without shown scores: the best human rank.
    """
    known = [each for each in submissions if each.shown is not None]
    best = max(known, key=lambda each: each.shown or 0.0, default=None)
    return best.rank if best else max((each.rank for each in submissions), default=0.0)


def life(traces: Sequence[Trace]) -> Life:
    """The run of these traces, in order."""
    begun, submissions = 0.0, []
    for trace in traces:
        submissions += [(trace.kind, each._replace(seconds=begun + each.seconds)) for each in trace.submissions]
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
        score = shown_score(rollout, rollout)
        if key not in self._best:
            self._best[key] = score, run
            return
        known, best = self._best[key]
        together = {name: total(getattr(run, name), getattr(best, name)) for name in USED}
        together["used"] = added_by_role(best.used, run.used)
        if _better(score, run, known, best):
            known, best = score, run
        self._best[key] = known, replace(best, **together)

    def runs(self) -> Iterator[GradedRun]:
        return (run for _, run in self._best.values())


def _better(score: float | None, run: GradedRun, known: float | None, best: GradedRun) -> bool:
    """Whether a trace with this shown score is better than the best so far, whose score is `known`."""
    if score is None:
        return known is None and run.valid and not best.valid
    return known is None or score > known
