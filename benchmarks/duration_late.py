"""Which rollouts the steps of an endless pipe hold where some programs take far longer than others, and with what weight.

    python benchmarks/duration_late.py [--steps 60] [--weights off mean auto]

A policy that does not change writes slow programs (1200 s, or 60 s) and quick ones (10 s). They go through a simulated pipe: a
sampler that begins so many rollouts per step, 64 programs at once, mle-filter's groups, mle-train-grpo's buffer and
weights, the two real ones, and a trainer that publishes a version after each step. Four ways:

- groups: mle-filter decides on groups of 16, and the trainer leaves out what is more than one update old.
- bound: the same without mle-filter.
- late: rollouts go alone, and a late one joins the step that is made when it comes.
- dropped: two batches are begun for each step, and what has not come when the step is full is dropped (algorithm 1).

Not covered: learning, real clocks, the time of sampling.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tabulate import tabulate

BATCH, AT_ONCE, GROUP = 128, 64, 16
QUICK, UPDATE = 10.0, 30.0  # seconds
MIXTURES = ((0.2, 1200.0), (0.05, 1200.0), (0.2, 60.0))  # share and seconds of slow programs
WAYS = ("groups", "bound", "late", "dropped")
WEIGHTS = ("off", "mean", "auto")


@dataclass(frozen=True)
class Rollout:
    """A rollout of the simulation."""

    name: str
    group: str
    place: int
    seconds: float
    reward: float
    version: int

    def as_record(self) -> dict[str, Any]:
        """What mle-filter looks at."""
        return {
            "group": self.group,
            "group_size": GROUP,
            "id": self.name,
            "sample": self.place,
            "task": {"id": "task"},
            "code": None,
            "reward": self.reward,
            "grade": {"valid": True, "score": self.reward, "lower_is_better": False},
            "of": self,
        }

    def as_sample(self, size: int, decision: Any = None) -> Any:
        """What the buffer takes; decision: mle-filter's."""
        from mletools.training.samples import Sample, TokenSequence

        kept = decision is None or decision.reason is None
        members, arrived = (size, None) if decision is None else (decision.members, decision.arrived)
        tokens = (TokenSequence([1, 2], [0, 1], [0.0, -1.0]),)
        return Sample(
            self.name, self.group, tokens, self.reward, self.version, self.seconds, group_size=size, members=members,
            arrived=arrived, kept=kept,
        )  # fmt: skip


@dataclass
class Found:
    """What the steps held, of all but the first third. slow, rollouts: numbers; weight: share of the slow ones' weights."""

    rollouts: int = 0
    slow: int = 0
    weights: float = 0.0
    slow_weights: float = 0.0
    largest: float = 1.0
    seconds: float = 0.0
    steps: int = 0
    lost: float = 0
    oldest: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.slow / max(1, self.rollouts)

    @property
    def weight(self) -> float:
        return self.slow_weights / max(1e-12, self.weights)


def recipe(way: str, weight: str, batch: int) -> Any:
    from mletools.training.steps import StepRecipe

    if way in ("groups", "bound"):  # the mean of the group's others
        return StepRecipe(
            batch=batch, baseline="leave-one-out", scale_rewards="none", duration_weight=weight, max_staleness=1
        )
    alone = StepRecipe(batch=batch, baseline="batch", scale_rewards="batch", duration_weight=weight)
    if way == "late":
        return alone
    from dataclasses import replace

    return replace(alone, oversample=2.0, max_staleness=0)


class Pipe:
    """One simulated run. slow: the share of slow programs that the policy writes, and their seconds."""

    def __init__(self, way: str, weight: str, slow: tuple[float, float], batch: int = BATCH, seed: int = 0) -> None:
        from mletools.filters import FilterOptions, Selection
        from mletools.training.group_buffer import GroupBuffer

        self.way, self.batch, self.rng = way, batch, random.Random(seed)
        self.slow, self.seconds = slow
        self.size = GROUP if way in ("groups", "bound") else 1
        self.selection = Selection(FilterOptions(keep_invalid=True, keep_duplicates=True)) if way == "groups" else None
        self.found, self.version, self.now = Found(), 0, 0.0
        self.buffer = GroupBuffer(
            recipe(way, weight, batch), {}, self.found.left_out, stream=True, version=lambda: self.version
        )
        self.begun = self.came = self.trained = self.used = 0
        self.queue: list[Rollout] = []
        self.running: list[tuple[float, int, Rollout]] = []
        self.free_at: float | None = None  # when the trainer is done

    def run(self, steps: int) -> Found:
        taken = 0
        measured = 0.0
        while taken < steps:
            self._begin()
            due = self.running[0][0] if self.running else float("inf")
            if self.free_at is not None and self.free_at <= due:
                self.now, self.free_at = self.free_at, None
                self.version += 1
                self._publish()
            else:
                assert self.running, "nothing is worked on, and the trainer has nothing"
                self.now, _, rollout = heapq.heappop(self.running)
                for sample in self._filtered(rollout):
                    self.came += 1
                    self.buffer.add(sample)
            if self.free_at is None and (step := self.buffer.take()) is not None:
                taken += 1
                self.trained += len(step.samples)
                self.free_at = self.now + UPDATE
                if taken == steps // 3:
                    measured = self.now
                    self.found.left_out.clear()
                if taken > steps // 3:
                    self._count(step)
            elif self.free_at is None:
                self._publish()  # what was refused makes room
        self.found.seconds = self.now - measured
        return self.found

    def _publish(self) -> None:
        refused = self.came - len(self.buffer.waiting) - self.trained
        if self.way == "dropped":  # what was begun for the steps so far is written off
            self.used = 2 * self.trained
        else:
            self.used = self.trained + refused

    def _begin(self) -> None:
        while self.begun - self.used < 2 * self.batch:
            for place in range(self.size):
                is_slow = self.rng.random() < self.slow
                reward = self.rng.gauss(0.7 if is_slow else 0.6, 0.1)
                name = f"{self.begun}"
                group = f"{self.begun // self.size}"
                self.queue.append(Rollout(name, group, place, self.seconds if is_slow else QUICK, reward, self.version))
                self.begun += 1
        while self.queue and len(self.running) < AT_ONCE:
            rollout = self.queue.pop(0)
            heapq.heappush(self.running, (self.now + rollout.seconds, int(rollout.name), rollout))

    def _filtered(self, rollout: Rollout) -> Iterator[Any]:
        if self.selection is None:
            yield rollout.as_sample(1)
            return
        for decision in self.selection.add(rollout.as_record()):  # type: ignore[arg-type]
            yield decision.rollout["of"].as_sample(self.size, decision)  # type: ignore[typeddict-item]

    def _count(self, step: Any) -> None:
        found = self.found
        weights = step.weights or [1.0] * len(step.samples)
        found.steps += 1
        found.lost += step.lost
        found.largest = max([found.largest, *weights])
        found.oldest = max([found.oldest, *(self.version - sample.policy_version for sample in step.samples)])
        for sample, weight in zip(step.samples, weights, strict=True):
            is_slow = sample.duration_s > QUICK
            found.rollouts += 1
            found.slow += is_slow
            found.weights += weight
            found.slow_weights += weight * is_slow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=60, help="of which the first third is not counted")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=WEIGHTS)
    given = parser.parse_args()
    for slow in MIXTURES:
        rows = []
        for way in given.ways:
            for weight in given.weights:
                found = Pipe(way, weight, slow).run(given.steps)
                rows.append(
                    [way, weight, f"{found.share:.3f}", f"{found.weight:.3f}", f"{found.largest:.1f}",
                     f"{found.left_out['stale'] / found.steps:.0f}", f"{found.lost / found.steps:.0f}",
                     str(found.oldest), f"{found.seconds / found.steps:.0f}"]
                )  # fmt: skip
        print(f"\n{slow[0]:.0%} of what the policy writes takes {slow[1]:g} s, the rest {QUICK:g} s\n")
        heads = ["way", "weight", "slow in steps", "of the weight", "largest weight", "stale a step", "lost a step"]
        print(tabulate(rows, [*heads, "oldest, updates", "s a step"], tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
