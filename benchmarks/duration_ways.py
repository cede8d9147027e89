"""Five ways of collecting a batch of rollouts that take different times, for the benchmarks of duration weights.

- wait: every rollout that was begun is waited for.
- thinned: what was begun arrives with a probability of one over its duration, as RL for MLE agents (section 3.1, appendix
  A.2) takes it to be.
- window: workers begin anew as soon as they are done; what is not done at the window's end is dropped.
- kept: workers never stop; a batch is what completed next, whichever policy began it.
- first: twice the batch is begun, and the slower half is dropped.

Not covered: real clocks; everything here is simulated time, in seconds.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

WAYS = ("wait", "thinned", "window", "kept", "first")


@dataclass(frozen=True)
class Arrival:
    """A rollout that was drawn, and when it was begun, in seconds from the batch's own beginning."""

    item: Any
    seconds: float
    begun: float = 0.0


@dataclass(frozen=True)
class Batch:
    """arrivals: in the order in which they came. begun: when each rollout was begun, the dropped ones too."""

    arrivals: list[Arrival]
    begun: list[float]


Draw = Callable[[], tuple[Any, float]]  # a rollout and the seconds that it takes


def drawn(draw: Draw, begun: float = 0.0) -> Arrival:
    item, seconds = draw()
    return Arrival(item, seconds, begun)


def wait(draw: Draw, size: int) -> Batch:
    return first(draw, size, size)


def first(draw: Draw, size: int, of: int) -> Batch:
    arrivals = sorted((drawn(draw) for _ in range(of)), key=lambda each: each.seconds)
    return Batch(arrivals[:size], [0.0] * of)


def thinned(draw: Draw, size: int, quickest: float, rng: random.Random) -> Batch:
    """quickest: seconds at and below which everything arrives."""
    arrivals: list[Arrival] = []
    count = 0
    while len(arrivals) < size:
        arrival, count = drawn(draw), count + 1
        if rng.random() * arrival.seconds < quickest:
            arrivals.append(arrival)
    return Batch(arrivals, [0.0] * count)


def window(draw: Draw, workers: int, length: float) -> Batch:
    arrivals: list[Arrival] = []
    begun: list[float] = []
    for _ in range(workers):
        now = 0.0
        while now < length:
            arrival = drawn(draw, now)
            begun.append(now)
            now += arrival.seconds
            if now <= length:
                arrivals.append(arrival)
    return Batch(sorted(arrivals, key=lambda each: each.begun + each.seconds), begun)


def kept(draw: Draw, workers: int) -> Iterator[Arrival]:
    """Completions without end, in their order; `draw` is asked at the moment at which a worker becomes free."""
    busy: list[tuple[float, int, Arrival]] = []
    for count in range(workers):
        arrival = drawn(draw)
        heapq.heappush(busy, (arrival.seconds, count, arrival))
    while True:
        now, _, arrival = heapq.heappop(busy)
        yield arrival
        count, following = count + 1, drawn(draw, now)
        heapq.heappush(busy, (now + following.seconds, count, following))


def inverse_weights(batch: Batch) -> list[float]:
    """Of the arrivals: one over how many rollouts were begun early enough to come, had they taken as long; mean 1.

    Whether a rollout comes depends on when it was begun, and that on nothing of its own: the rule of Horvitz and Thompson.
    """
    end = max(each.begun + each.seconds for each in batch.arrivals)
    early = [1.0 / sum(at <= end - each.seconds + 1e-9 for at in batch.begun) for each in batch.arrivals]
    return [weight * len(early) / sum(early) for weight in early]
