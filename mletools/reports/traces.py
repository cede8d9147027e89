"""A run of several traces as one: MLE-RL's agent goes on until its time is up, and hands in the best that it knows of.

Known is the validation score; of equals the first. What a run costs is what its traces cost together. Covered: rollouts with
`trace` (scaffold memory), one file at a time. Not covered: which turn of a trace is handed in (the scaffold's choice).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .runs import Run
from .search import better_than, lower_is_better


@dataclass
class Traces:
    """Give it the traces with `add`; `runs` are those that the runs hand in, in the order in which the runs began."""

    _best: dict[tuple[str, int], tuple[float | None, Run]] = field(default_factory=dict)

    def add(self, rollout: Mapping[str, Any], run: Run) -> None:
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

    def runs(self) -> Iterator[Run]:
        return (run for _, run in self._best.values())


SUMMED = ("seconds", "prompt_tokens", "completion_tokens", "usd")


def _sum(a: Any, b: Any) -> Any:
    """None where either does not tell."""
    return None if a is None or b is None else a + b
