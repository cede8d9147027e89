"""What a weight of duration / mean does to a policy gradient, under five ways of collecting a batch: exact, on bandits.

    python benchmarks/duration_bias.py [--batches 500] [--updates 400]

A softmax policy over eight programs, whose rewards and durations are known. What is collected of each is a sum, not a
sample: completions in a window by the renewal equation, the first of a batch by the binomial. The gradients are those of
large batches; behind them stand gradients of sampled batches of 64, which go as records through the pool, the advantages
and the weights of mle-train-grpo. Ascent follows the exact gradient from the uniform policy.

The ways are told in duration_ways.py. Not covered: a policy with parameters that programs share (duration_policy.py), staleness.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duration_ways import WAYS, Arrival, Batch, Draw, first, inverse_weights, kept, thinned, wait, window
from tabulate import tabulate

BATCH = 64
LAWS = ("off", "mean", "auto", "inverse")
MANY = 10_000  # rollouts that stand for shares


@dataclass(frozen=True)
class Bandit:
    """rewards and seconds (whole numbers, rising) of each program; window: of time, in the same seconds."""

    name: str
    rewards: tuple[float, ...]
    seconds: tuple[int, ...]
    window: int


SECONDS = (1, 2, 3, 5, 8, 13, 21, 34)
BANDITS = (
    Bandit("slower is better", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0), SECONDS, 68),
    Bandit("slower is no better", (0.1, 0.6, 1.0, 0.3, 0.7, 0.2, 0.8, 0.4), SECONDS, 68),
)


# --- in expectation ----------------------------------------------------------------------------------------------------


def renewals(p: Any, seconds: Sequence[int], until: int) -> Any:
    """U(t) for t = 0 .. until: how many rollouts a worker has begun by then. U(t) = 1 + sum_a p(a) U(t - d(a))."""
    import numpy as np

    begun = np.zeros(until + 1)
    for t in range(until + 1):
        begun[t] = 1.0 + sum(p[a] * begun[t - d] for a, d in enumerate(seconds) if d <= t)
    return begun


def inclusion(way: str, p: Any, bandit: Bandit) -> Any:
    """By program: how many of its rollouts come for each that would, were there no preference; up to a factor."""
    import numpy as np

    d = np.array(bandit.seconds)
    if way == "thinned":
        return d.min() / d
    if way == "window":
        begun = renewals(p, bandit.seconds, bandit.window)
        return np.array([begun[bandit.window - each] if each <= bandit.window else 0.0 for each in d])
    if way == "first":
        return chance_of_first(np.cumsum(p) - p, p)
    return np.ones(len(d))


def lost_share(way: str, p: Any, bandit: Bandit) -> float:
    """Rollouts that were begun and will never come, for each that does."""
    if way == "thinned":
        return 1.0 / float(p @ inclusion(way, p, bandit)) - 1.0
    if way == "window":  # each worker loses the one that it is at
        return 1.0 / max(renewals(p, bandit.seconds, bandit.window)[-1] - 1.0, 1e-9)
    return 1.0 if way == "first" else 0.0


def chance_of_first(quicker: Any, p: Any, size: int = BATCH, of: int = 2 * BATCH) -> Any:
    """That a rollout is among the `size` first of `of`; ties are broken at random. quicker: how likely another is.

    Its place among all, u, lies evenly between quicker and quicker + p, and size - 1 of the others at most are ahead of
    it with the chance I_{1-u}(of - size, size). To 1e-5.
    """
    import numpy as np
    from scipy.special import betainc

    parts = 200
    places = quicker[:, None] + p[:, None] * (np.arange(parts) + 0.5) / parts
    return betainc(of - size, size, np.clip(1.0 - places, 0.0, 1.0)).mean(axis=1)


def first_batch_kept(p: Any, bandit: Bandit) -> Any:
    """Shares of programs among a cold start's first completions, as many as there are workers."""
    import numpy as np

    d, until = np.array(bandit.seconds), 4 * max(bandit.seconds)
    begun = renewals(p, bandit.seconds, until)
    counts = np.array(
        [[p[a] * begun[t - each] if each <= t else 0.0 for a, each in enumerate(d)] for t in range(until)]
    )
    total = counts.sum(axis=1)
    last = int(np.argmax(total >= 1.0))
    part = (1.0 - total[last - 1]) / (total[last] - total[last - 1])
    return counts[last - 1] + part * (counts[last] - counts[last - 1])


def gradient(q: Any, p: Any, bandit: Bandit, weights: Any) -> Any:
    """Of a large batch of what was collected in the shares q, by the logits; `weights` of each program."""
    import numpy as np

    r, q = np.array(bandit.rewards), q / q.sum()
    pulls = q * weights / (q @ weights) * (r - q @ r)
    return pulls - p * pulls.sum()


def weighted(mode: str, q: Any, bandit: Bandit, inclusions: Any, lost: float = 0.0) -> Any:
    """lost: for each rollout that comes, of which q are the shares."""
    import numpy as np

    from mletools.training.durations import arrival_weights

    if mode == "auto":
        counts = np.maximum(np.rint(MANY * q / q.sum()), q > 0).astype(int)
        found = arrival_weights(
            np.repeat(np.array(bandit.seconds, dtype=float), counts).tolist(), round(lost * counts.sum())
        )
        weight_of = dict(zip(np.repeat(np.arange(len(q)), counts).tolist(), found, strict=True))
        return np.array([weight_of.get(action, 0.0) for action in range(len(q))])
    if mode == "mean":
        return np.array(bandit.seconds, dtype=float)
    if mode == "inverse":
        return np.where(inclusions > 0, 1.0 / np.maximum(inclusions, 1e-300), 0.0)
    return np.ones(len(q))


def bias(found: Any, true: Any) -> tuple[float, float]:
    """(cosine, share of the true gradient's length that the found one misses, rescaled as well as can be)."""
    import numpy as np

    lengths = float(np.linalg.norm(found) * np.linalg.norm(true))
    cosine = float(found @ true) / lengths if lengths > 0 else 0.0
    return cosine, math.sqrt(max(0.0, 1.0 - cosine**2))


def ascent(way: str, mode: str, bandit: Bandit, updates: int, rate: float) -> tuple[list[float], Any]:
    """(expected reward before each update and after the last, the policy at the end); rewards scaled by their spread."""
    import numpy as np

    r, logits, path = np.array(bandit.rewards), np.zeros(len(bandit.rewards)), []
    for step in range(updates + 1):
        p = np.exp(logits - logits.max())
        p /= p.sum()
        path.append(float(p @ r))
        if step < updates:
            inclusions = inclusion(way, p, bandit)
            q = p * inclusions / (p @ inclusions)
            spread = math.sqrt(float(q @ (r - q @ r) ** 2)) + 1e-4
            weights = weighted(mode, q, bandit, inclusions, lost_share(way, p, bandit))
            logits = logits + rate / spread * gradient(q, p, bandit, weights)
    return path, p


# --- the tool's own steps ---------------------------------------------------------------------------------------------


def sampled(way: str, mode: str, p: Any, bandit: Bandit, batches: int, seed: int) -> tuple[Any, float]:
    """(mean gradient, share of steps that were weighted) of batches that went through the pool of mle-train-grpo.

    `inverse` is not the tool's: its weights are put on a step that the tool left alone.
    """
    import numpy as np

    rng, total, weighed, steps = random.Random(seed), np.zeros(len(p)), 0, 0

    def draw() -> tuple[int, float]:
        action = rng.choices(range(len(p)), p)[0]
        return action, bandit.seconds[action] + 1e-6 * rng.random()  # so that ties have no order

    for step, factors in tool_steps(way, mode, draw, bandit, batches, rng):
        steps += 1
        weighed += step.weights is not None
        for row in step.rows:
            pull = row.advantage * factors.get(row.sample.id, 1.0) / len(step.rows)
            total[row.tokens.input_ids[0]] += pull
            total -= p * pull
    return total / steps, weighed / steps


def tool_steps(
    way: str, mode: str, draw: Draw, bandit: Bandit, batches: int, rng: random.Random
) -> Iterator[tuple[Any, dict[str, float]]]:
    """The pool's steps, and further factors by rollout."""
    from mletools.training.group_buffer import GroupBuffer, held_steps
    from mletools.training.steps import StepRecipe

    asked = "off" if mode == "inverse" else mode
    choice = StepRecipe(groups_per_step=1, baseline="group", scale_rewards="none", duration_weight=asked)
    pool, endless = GroupBuffer(replace(choice, batch=BATCH), {}, Counter(), stream=True), kept(draw, BATCH)
    for index in range(batches):
        if way == "kept":
            for place in range(BATCH):
                pool.add(as_sample(f"{index}-{place}", f"{index}", next(endless), bandit, 2 * BATCH))
            step, factors = pool.take(), {}
        else:
            batch = collect(way, draw, bandit, rng)
            come = [
                as_sample(f"{n}", f"{index}", each, bandit, len(batch.begun)) for n, each in enumerate(batch.arrivals)
            ]
            step = next(iter(held_steps(come, choice, {}, 1, Counter())), None)
            weights = inverse_weights(batch) if mode == "inverse" else []
            factors = {one.id: weight for one, weight in zip(come, weights, strict=False)}
        if step is not None:
            yield step, factors


def collect(way: str, draw: Draw, bandit: Bandit, rng: random.Random) -> Batch:
    if way == "thinned":
        return thinned(draw, BATCH, min(bandit.seconds), rng)
    if way == "window":
        return window(draw, 8, bandit.window)
    return first(draw, BATCH, 2 * BATCH) if way == "first" else wait(draw, BATCH)


def as_sample(name: str, group: str, arrival: Arrival, bandit: Bandit, size: int) -> Any:
    from mletools.training.samples import Sample
    from mletools.training.samples import TokenSequence as Tokens

    tokens = (Tokens([arrival.item], [1], [0.0]),)
    reward = bandit.rewards[arrival.item]
    return Sample(name, group, tokens, reward, 0, arrival.seconds, group_size=size, members=size)


def updates_to(path: Sequence[float], level: float) -> str:
    return next((str(step) for step, value in enumerate(path) if value >= level), "never")


def compared(bandit: Bandit, batches: int, updates: int, rate: float) -> list[list[str]]:
    """A row for each way and weight."""
    import numpy as np

    p, best = np.full(len(bandit.rewards), 1.0 / len(bandit.rewards)), max(bandit.rewards)
    true, rows = gradient(p, p, bandit, np.ones(len(p))), []
    for way in WAYS:
        inclusions = inclusion(way, p, bandit)
        q = p * inclusions
        lost = lost_share(way, p, bandit)
        for mode in ("off", "mean", "auto", "inverse") if way == "window" else ("off", "mean", "auto"):
            cosine, error = bias(gradient(q, p, bandit, weighted(mode, q, bandit, inclusions, lost)), true)
            found = bias(sampled(way, mode, p, bandit, batches, 0)[0], true)[0]
            path, end = ascent(way, mode, bandit, updates, rate)
            level = path[0] + 0.9 * (best - path[0])
            row = [way, mode, f"{cosine:.3f}", f"{error:.0%}", f"{found:.3f}"]
            at = str(bandit.seconds[int(end.argmax())])
            rows.append([*row, updates_to(path, level), f"{path[min(50, updates)]:.3f}", f"{path[-1]:.3f}", at])
    cold = first_batch_kept(p, bandit)
    for mode in ("off", "mean"):
        cosine, error = bias(gradient(cold, p, bandit, weighted(mode, cold, bandit, p)), true)
        rows.append(["kept, first batch", mode, f"{cosine:.3f}", f"{error:.0%}", *[""] * 5])
    return rows


def by_length(bandit: Bandit) -> list[list[str]]:
    """Cosines over the window's length, in durations of the slowest program.

    Beside the window that workers begin anew in: one rollout a worker whose duration is memoryless, of the same mean, so
    that a share of 1 - exp(-length / duration) comes: about length / duration where the window is short.
    """
    import numpy as np

    p, d = np.full(len(bandit.rewards), 1.0 / len(bandit.rewards)), np.array(bandit.seconds)
    true, rows = gradient(p, p, bandit, np.ones(len(p))), []
    for times in (0.05, 0.5, 1, 1.5, 2, 4, 8):
        cut = replace(bandit, window=int(times * max(bandit.seconds)))
        row = [f"{times:g}"]
        memoryless = 1.0 - np.exp(-times * d.max() / d)
        anew = (inclusion("window", p, cut), lost_share("window", p, cut))
        for come, lost in (anew, (memoryless, 1.0 / float(p @ memoryless) - 1.0)):
            q = p * come
            for mode in LAWS:
                row.append(f"{bias(gradient(q, p, cut, weighted(mode, q, cut, come, lost)), true)[0]:.3f}")
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=500, help="sampled, each way and mode")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--rate", type=float, default=0.25, help="of the logits, with rewards scaled by their spread")
    given = parser.parse_args()
    for bandit in BANDITS:
        print(f"\n{bandit.name}: rewards {bandit.rewards}, seconds {bandit.seconds}, window {bandit.window}\n")
        heads = ["way", "weight", "cosine", "error", "cosine, sampled", "updates to 90 %", "J at 50"]
        rows = compared(bandit, given.batches, given.updates, given.rate)
        print(tabulate(rows, [*heads, f"J at {given.updates}", "ends at, s"], tablefmt="github", disable_numparse=True))
        print("\nwindow / slowest program: cosine\n")
        heads = ["length", *LAWS, *(f"memoryless, {mode}" for mode in LAWS)]
        print(tabulate(by_length(bandit), heads, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
