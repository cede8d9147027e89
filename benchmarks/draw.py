"""Rollouts to a fixed reward: tasks in turn against tasks by what can be learnt (mle-rollout --draw learnable).

    python benchmarks/draw.py [--seeds 5] [--first 0] [--worlds mixed alike hard] [--most 400000]

A simulation. The sampler is the tool's, with the shares and constants that mle-rollout has; the policy is a table: a softmax
over twelve programs for each of 60 tasks, whose logits are sums of a part of all tasks, one of the task's kind and one of its
own, so that what is learnt on a task helps others: which programs are valid is the same for all, which is best differs by kind.
GRPO's update on steps of 16 groups of 8; groups without spread fill no
step; two steps' worth of groups are in flight, and rewards come back when a group is done. A run ends when the exact mean
reward over all tasks has come three quarters of the way from the first policy's to that of the best programs. Both arms have
the same tasks and the same first policy. Runs that are kept in benchmarks/draw/ are not run again.

Not covered: language models, real clocks, several samplers, states.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t
from tabulate import tabulate

KEPT = Path(__file__).parent / "draw" / "runs.jsonl"
TASKS, PROGRAMS, KINDS = 60, 12, 6
STEP, GROUP, IN_FLIGHT, AT_ONCE = 16, 8, 32, 16  # groups, rollouts, groups, programs
RATE = 0.05
WAY = 0.75  # from the first mean reward to the best
REWARDS = (0.3, 0.5, 0.7, 0.85, 1.0)  # of a kind's programs that are valid
# how many of the kinds the first policy has solved, half knows, and hardly ever answers
WORLDS = {"mixed": (2, 2, 2), "alike": (0, 6, 0), "hard": (1, 1, 4)}
SHOWN = ("solved", "half known", "hard")
ARMS = ("uniform", "learnable")


@dataclass
class World:
    """Tasks and the policy on them. rewards, seconds: (tasks, programs)."""

    level: Any  # of each task, a place in SHOWN
    kinds: Any
    rewards: Any
    seconds: Any
    shared: Any
    of_kind: Any
    own: Any

    @staticmethod
    def make(name: str, seed: int) -> World:
        rng = np.random.default_rng([seed, sorted(WORLDS).index(name)])
        levels = np.repeat(np.arange(3), WORLDS[name])
        kinds = np.arange(TASKS) % KINDS
        rewards, of_kind = np.zeros((TASKS, PROGRAMS)), np.zeros((KINDS, PROGRAMS))
        for kind in range(KINDS):
            valid = rng.permutation(len(REWARDS))  # the same programs in all kinds, and which is best differs
            of_kind[kind, valid] = (0.0, -0.5, -5.0)[levels[kind]]
            if levels[kind] == 0:
                of_kind[kind, valid[-1]] = 7.0
            for task in np.flatnonzero(kinds == kind):
                rewards[task, valid] = np.clip(np.array(REWARDS) + rng.normal(0, 0.05, len(REWARDS)), 0.05, 1)
        own = rng.normal(0, 0.3, (TASKS, PROGRAMS))
        seconds = np.exp(rng.uniform(math.log(5), math.log(300), (TASKS, PROGRAMS)))
        return World(levels[kinds], kinds, rewards, seconds, np.zeros(PROGRAMS), of_kind, own)

    def chances(self) -> Any:
        """(tasks, programs): of each program, by the present policy."""
        logits = self.shared + self.of_kind[self.kinds] + self.own
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def reward(self) -> float:
        return float((self.chances() * self.rewards).sum(axis=1).mean())

    def learn(self, groups: list[tuple[int, Any]]) -> None:
        """A step on groups: the gradient of the mean of A log pi over their rollouts."""
        chances = self.chances()
        shared, of_kind, own = np.zeros_like(self.shared), np.zeros_like(self.of_kind), np.zeros_like(self.own)
        for task, programs in groups:
            rewards = self.rewards[task, programs]
            advantages = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
            slope = np.zeros(PROGRAMS)
            np.add.at(slope, programs, advantages)
            slope -= advantages.sum() * chances[task]
            slope /= GROUP * len(groups)
            shared += slope
            of_kind[self.kinds[task]] += slope
            own[task] += slope
        for part, change in ((self.shared, shared), (self.of_kind, of_kind), (self.own, own)):
            part += RATE * change * STEP / 3  # a step moves the logits of its tasks by about RATE


def run(world_name: str, arm: str, seed: int, most: int) -> dict[str, Any]:
    """One run, until the reward is there or `most` rollouts were begun."""
    from mletools.rollout.draw import Learnable

    world, learnable, rng = World.make(world_name, seed), Learnable(), np.random.default_rng([seed, 99])
    names = [str(task) for task in range(TASKS)]
    first, best = world.reward(), float(world.rewards.max(axis=1).mean())
    target = first + WAY * (best - first)
    flying: deque[tuple[int, Any]] = deque()
    step: list[tuple[int, Any]] = []
    begun = steps = flat = 0
    seconds, reached, drawn, began = 0.0, False, Counter[int](), time.process_time()
    chances = world.chances()
    while begun * GROUP < most and not reached:
        task = begun % TASKS if arm == "uniform" else int(learnable.draw(names)[0])
        programs = rng.choice(PROGRAMS, GROUP, p=chances[task])
        flying.append((task, programs))
        seconds += float(world.seconds[task, programs].sum())
        drawn[int(world.level[task])] += 1
        begun += 1
        if len(flying) <= IN_FLIGHT:
            continue
        task, programs = flying.popleft()
        rewards = world.rewards[task, programs]
        for reward in rewards:
            learnable.reward(names[task], str(begun), GROUP, float(reward))
        if rewards.max() == rewards.min():
            flat += 1
            continue
        step.append((task, programs))
        if len(step) == STEP:
            world.learn(step)
            step, steps, chances = [], steps + 1, world.chances()
            reached = world.reward() >= target
    return {
        "world": world_name, "arm": arm, "seed": seed, "reached": reached, "rollouts": begun * GROUP, "steps": steps,
        "seconds": round(seconds / AT_ONCE), "flat": round(flat / begun, 4), "first": round(first, 4),
        "target": round(target, 4), "shares": [round(drawn[level] / begun, 4) for level in range(3)],
        "cpu_s": round(time.process_time() - began, 1),
    }  # fmt: skip


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def ratio(first: list[float], second: list[float]) -> str:
    """second / first, by seed: the geometric mean with Student's interval over seeds, and in how many it is below 1."""
    logs = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    mean, half = statistics.mean(logs), 0.0
    if len(logs) > 1:
        half = t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / len(logs) ** 0.5
    below = sum(each < 0 for each in logs)
    return f"{math.exp(mean):.2f} ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f}), {below} of {len(logs)} below 1"


def tables(seeds: range) -> str:
    """Of these seeds."""
    rows, pairs = [], []
    runs = [each for each in kept() if each["seed"] in seeds]
    for world in WORLDS:
        of = {
            arm: sorted((r for r in runs if (r["world"], r["arm"]) == (world, arm)), key=lambda r: r["seed"])
            for arm in ARMS
        }
        for arm, same in of.items():
            if same:
                means = [f"{statistics.mean(r[what] for r in same):,.0f}" for what in ("rollouts", "seconds", "steps")]
                flat = f"{statistics.mean(r['flat'] for r in same):.0%}"
                shares = " ".join(f"{statistics.mean(r['shares'][level] for r in same):.0%}" for level in range(3))
                rows.append([world, arm, len(same), sum(r["reached"] for r in same), *means, flat, shares])
        if of["uniform"] and len(of["uniform"]) == len(of["learnable"]):
            for what in ("rollouts", "seconds"):
                pairs.append([world, what, ratio(*([r[what] for r in of[arm]] for arm in ARMS))])
    heads = [
        "world",
        "arm",
        "seeds",
        "reached",
        "rollouts",
        "seconds",
        "steps",
        "without spread",
        f"groups on {', '.join(SHOWN)}",
    ]
    return "\n\n".join(
        [
            tabulate(rows, heads, "github", disable_numparse=True),
            tabulate(pairs, ["world", "", "learnable / uniform"], "github", disable_numparse=True),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--most", type=int, default=400_000, help="rollouts of a run")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    done = {(each["world"], each["arm"], each["seed"]) for each in kept()}
    for world in given.worlds:
        for seed in seeds:
            for arm in ARMS:
                if (world, arm, seed) not in done:
                    made = run(world, arm, seed, given.most)
                    KEPT.parent.mkdir(exist_ok=True)
                    with open(KEPT, "a", encoding="utf-8") as file:
                        file.write(json.dumps(made) + "\n")
                    print(json.dumps(made), file=sys.stderr)
    print(tables(seeds))


if __name__ == "__main__":
    main()
