"""Rollouts to a fixed reward, tasks in turn against tasks by what can be learnt, with a real policy of a tiny size.

    python benchmarks/draw_policy.py --run-dir runs/draw [--seeds 5] [--most 12000] [-j 2]

Eighteen real tables with numbers to predict, and a family of twelve short programs, each run once by mle-sandbox and
mle-grade on each table; from then on rewards are looked up: 1 for the three best programs of a table, 0.6 for those above its
median, 0.1 for the others, 0 for a text that is none of them. mle-train-sft teaches a tiny policy, which of a third of the tables
knows a best program, of a third writes all of them alike, and of a third writes those below the median, with a good one in thirty; which
tables these are is drawn by the seed. Then it learns by the real groups, advantages, losses and optimiser of mle-train-grpo, from
rollouts drawn token by token from it, two steps' worth of groups in flight; and the next group's table is the next in turn, or the
one that mle-rollout --draw learnable takes. A run ends when the exact mean reward over all tables has come WAY of the way from the
first policy's to that of the best programs. Seconds are those of the programs, 16 at once. What is kept in benchmarks/draw/policy.jsonl
is not run again.

Not covered: sampling by mle-rollout, programs outside of the family, policies of a useful size.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import statistics
import sys
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from draw import ratio
from duration_family import Problem, command, read, rollout
from duration_policy import Beliefs, Text, beliefs, watched, write
from tabulate import tabulate

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

KEPT = Path(__file__).parent / "draw" / "policy.jsonl"
TABLES, STEP, GROUP, AT_ONCE, RATE, WAY = 18, 8, 8, 16, 1e-3, 0.6  # tables, groups of a step, rollouts, programs
SHOWN = ("solved", "half known", "hard")
ARMS = ("uniform", "learnable")
PROGRAM = """```python
import pandas as pd
from sklearn.{where} import {model} as Model
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
names = [c for c in test.select_dtypes("number") if c != "id"]
sub[sub.columns[1]] = Model({settings}).fit(train[names], train[sub.columns[1]]).predict(test[names])
sub.to_csv("submission.csv", index=False)
```"""
MODELS = (
    ("dummy", "DummyRegressor", ""),
    ("linear_model", "Ridge", "alpha=1"),
    ("linear_model", "Ridge", "alpha=1000"),
    ("neighbors", "KNeighborsRegressor", "n_neighbors=1"),
    ("neighbors", "KNeighborsRegressor", "n_neighbors=8"),
    ("neighbors", "KNeighborsRegressor", "n_neighbors=16"),
    ("tree", "DecisionTreeRegressor", "max_depth=1, random_state=0"),
    ("tree", "DecisionTreeRegressor", "max_depth=3, random_state=0"),
    ("tree", "DecisionTreeRegressor", "random_state=0"),
    ("ensemble", "RandomForestRegressor", "n_estimators=30, random_state=0"),
    ("ensemble", "ExtraTreesRegressor", "n_estimators=30, random_state=0"),
    ("ensemble", "GradientBoostingRegressor", "n_estimators=50, random_state=0"),
)
TEXTS = [PROGRAM.format(where=where, model=model, settings=settings) for where, model, settings in MODELS]
TAUGHT = 60  # texts of a table that the first policy learns from


def prepare(out: Path) -> list[list[dict[str, Any]]]:
    """The graded programs of the tables that all programs of the family have a valid answer to."""
    every, made, ran, graded = (out / f"{name}.jsonl" for name in ("every", "family", "family.ran", "family.graded"))
    data = ["--data", str(out), "--resume"]
    command("mle-gen-task", "--source", "tables", "-n", "94", "--backend", "none", *data, "-o", str(every))
    if not graded.exists():
        numbers = [
            task for task in read(every) if task["problem"] == "regression" and len(task["submission"]["target"]) == 1
        ]
        records = [rollout(task, text, at) for task in numbers for at, text in enumerate(TEXTS)]
        made.write_text("".join(json.dumps({**record, "group_size": len(TEXTS)}) + "\n" for record in records))
        command("mle-sandbox", *data, "-j", "2", "--timeout", "60", "-o", str(ran), str(made))
        command("mle-grade", *data, "--reward", "raw", "-o", str(graded), str(ran))
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in read(graded):
        groups.setdefault(record["task"]["id"], []).append(record)
    of_all = [sorted(group, key=lambda each: each["sample"]) for group in groups.values()]
    return [group for group in of_all if all(each["grade"]["valid"] for each in group)][:TABLES]


def rewards(group: list[dict[str, Any]]) -> list[float]:
    """Of each program on a table. Its raw reward is larger where it is better."""
    scores = [float(record["reward"]) for record in group]
    from_best = sorted(scores, reverse=True)
    return [1.0 if score >= from_best[2] else 0.6 if score > statistics.median(scores) else 0.1 for score in scores]


def levels(seed: int) -> list[int]:
    """Of each table, a place in SHOWN."""
    drawn = [at % len(SHOWN) for at in range(TABLES)]
    random.Random(f"levels {seed}").shuffle(drawn)
    return drawn


def taught(out: Path, seed: int, groups: list[list[dict[str, Any]]]) -> Path:
    """The first policy of a seed."""
    folder, rng = out / f"sft-{seed}", random.Random(f"taught {seed}")
    if (folder / "done").exists():
        return folder / "latest"
    records = []
    for group, level in zip(groups, levels(seed), strict=True):
        worth = rewards(group)
        best, low = worth.index(1.0), [at for at, each in enumerate(worth) if each < 0.5]
        good = [at for at, each in enumerate(worth) if each > 0.5]
        for number in range(TAUGHT):
            match SHOWN[level]:
                case "solved":
                    chosen = best if number % 20 else rng.randrange(len(TEXTS))
                case "half known":
                    chosen = number % len(TEXTS)
                case _:
                    chosen = rng.choice(low) if number % 30 else rng.choice(good)
            records.append({**group[chosen], "id": f"{group[chosen]['id']}-{number}"})
    lessons = out / f"taught-{seed}.jsonl"
    lessons.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = [
        "--from-scratch",
        "nano",
        "--run-dir",
        str(folder),
        "-o",
        str(out / f"taught-{seed}.steps.jsonl"),
        "--resume",
    ]
    options += [
        "--learning-rate",
        "6e-3",
        "--batch",
        "36",
        "--micro-batch",
        "36",
        "--save-steps",
        "1000000",
        "--seed",
        str(seed),
    ]
    command("mle-train-sft", *options, "--epochs", "60", str(lessons))
    (folder / "done").touch()
    return folder / "latest"


def problems(groups: list[list[dict[str, Any]]], tokenizer: Any) -> list[Problem]:
    from mletools.training.samples import render

    found = []
    for group in groups:
        rendered = [render(record["messages"], tokenizer)[0] for record in group]
        start = rendered[0].loss_mask.index(1)
        seconds = [float(record["execution"]["cpu_s"]) for record in group]
        ids = [sequence.input_ids[start:] for sequence in rendered]
        found.append(Problem(group[0]["task"], rendered[0].input_ids[:start], ids, seconds, rewards(group)))
    return found


@dataclasses.dataclass
class Sampler:
    """Groups of the present policy, as the steps of mle-train-grpo."""

    arm: str
    seed: int
    most: int
    problems: list[Problem]
    run: Any

    def __post_init__(self) -> None:
        from mletools.rollout.draw import Learnable
        from mletools.training.group_buffer import GroupBuffer

        self.rng = random.Random(f"sampler {self.seed}")  # the same for both arms
        self.learnable = Learnable()
        self.names = [problem.task["id"] for problem in self.problems]
        self.version = self.begun = self.flat = 0
        self.seconds = 0.0
        self.drawn: Counter[int] = Counter()
        self.curve: list[tuple[int, float]] = []  # rollouts begun, exact mean reward, of each version
        self.pool = GroupBuffer(self.run.recipe, {}, self.run.dropped, stream=True, version=lambda: self.version)
        self.flying: deque[tuple[int, int, list[tuple[Text, float]], int]] = deque()
        self.known: list[tuple[Beliefs, Any]] = []

    def steps(self) -> Iterator[Any]:
        """One step an update, until the reward is there."""
        best = statistics.fmean(max(problem.rewards) for problem in self.problems)
        while True:
            self._look()
            first = self.curve[0][1]
            self.reached = self.curve[-1][1] >= first + WAY * (best - first)
            if self.reached or self.begun * GROUP >= self.most:
                return
            while (step := self.pool.take()) is None:
                self._more()
            yield step
            self.version += 1

    def _look(self) -> None:
        import numpy as np

        self.known, means = [], []
        for problem in self.problems:
            told = beliefs(self.run.policy, problem)
            self.known.append((told, np.cumsum(np.exp(told.logps), axis=-1)))
            means.append(float(told.chances @ np.array(problem.rewards)))
        self.curve.append((self.begun * GROUP, statistics.fmean(means)))

    def _more(self) -> None:
        """Begin a group, and take the oldest one in where enough are in flight."""
        which = self.begun % TABLES if self.arm == "uniform" else self.names.index(self.learnable.draw(self.names)[0])
        problem, (told, sums) = self.problems[which], self.known[which]
        texts = [write(told, problem, sums, self.rng) for _ in range(GROUP)]
        earned = [(text, 0.0 if text.program is None else problem.rewards[text.program]) for text in texts]
        self.seconds += sum(problem.seconds[text.program] for text in texts if text.program is not None)
        self.drawn[levels(self.seed)[which]] += 1
        self.flying.append((which, self.begun, earned, self.version))
        self.begun += 1
        if len(self.flying) <= 2 * STEP:
            return
        which, number, earned, version = self.flying.popleft()
        values = [reward for _, reward in earned]
        self.flat += max(values) == min(values)
        for at, (text, reward) in enumerate(earned):
            self.learnable.reward(self.names[which], str(number), GROUP, reward)
            self.pool.add(self._sample(which, number, at, text, reward, version))

    def _sample(self, which: int, number: int, at: int, text: Text, reward: float, version: int) -> Any:
        problem = self.problems[which]
        record = rollout(problem.task, "", at)
        record["messages"] = [
            {"role": "user", "content": problem.task["name"], "token_ids": problem.prompt},
            {"role": "assistant", "content": "", "loss": True, "token_ids": text.ids, "logprobs": text.logps},
        ]
        record["policy"]["version"] = version
        told = {"id": f"{number}-{at}", "group": str(number), "group_size": GROUP, "reward": reward}
        return self.run.sample({**record, **told})


def train(out: Path, arm: str, seed: int, most: int) -> dict[str, Any]:
    """One run."""
    import torch

    from mletools.training.grpo import GrpoOptions

    torch.set_num_threads(1)
    groups, folder = prepare(out), out / f"run-{arm}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    options = GrpoOptions(mismatch="clip", groups_per_step=STEP, learning_rate=RATE, micro_batch=STEP * GROUP, lora_rank=0,
                          save_steps=10**9, max_staleness=1000, seed=seed)  # fmt: skip
    run = watched()(str(taught(out, seed, groups)), folder, options)
    sampler = Sampler(arm, seed, most, problems(groups, run.tokenizer), run)
    for _ in run._drive(sampler.steps(), 1.0, None):
        pass
    shutil.rmtree(folder)
    shares = [round(sampler.drawn[level] / sampler.begun, 4) for level in range(len(SHOWN))]
    return {
        "arm": arm, "seed": seed, "reached": sampler.reached, "rollouts": sampler.begun * GROUP, "steps": sampler.version,
        "seconds": round(sampler.seconds / AT_ONCE), "flat": round(sampler.flat / sampler.begun, 4), "shares": shares,
        "curve": [(at, round(reward, 4)) for at, reward in sampler.curve],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=12_000, help="rollouts of a run")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=KEPT)
    given = parser.parse_args()
    given.run_dir.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(line) for line in given.kept.read_text().splitlines()] if given.kept.exists() else []
    seeds = range(given.first, given.first + given.seeds)
    done = {(run["arm"], run["seed"]) for run in runs}
    wanted = [(arm, seed) for seed in seeds for arm in ARMS if (arm, seed) not in done]
    if wanted:
        groups = prepare(given.run_dir)
        for seed in {seed for _, seed in wanted}:
            taught(given.run_dir, seed, groups)
    with ProcessPoolExecutor(given.jobs) as workers:
        futures = [workers.submit(train, given.run_dir, arm, seed, given.most) for arm, seed in wanted]
        for future in futures:
            runs.append(future.result())
            with given.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(runs[-1]) + "\n")
            print({name: value for name, value in runs[-1].items() if name != "curve"}, file=sys.stderr, flush=True)
    for run in runs:  # what does not arrive counts as so many
        run["rollouts"] = min(run["rollouts"], given.most)
    of = {
        arm: sorted((r for r in runs if r["arm"] == arm and r["seed"] in seeds), key=lambda r: int(r["seed"]))
        for arm in ARMS
    }
    rows = []
    for arm, same in of.items():
        means = [f"{statistics.fmean(run[what] for run in same):,.0f}" for what in ("rollouts", "seconds", "steps")]
        shares = " ".join(
            f"{statistics.fmean(run['shares'][level] for run in same):.0%}" for level in range(len(SHOWN))
        )
        flat = f"{statistics.fmean(run['flat'] for run in same):.0%}"
        ends = [run["curve"][at][1] for run in same for at in (0, -1)]
        reward = f"{statistics.fmean(ends[::2]):.3f} to {statistics.fmean(ends[1::2]):.3f}"
        rows.append([arm, len(same), sum(run["reached"] for run in same), *means, flat, shares, reward])
    heads = [
        "arm",
        "seeds",
        "reached",
        "rollouts",
        "seconds",
        "steps",
        "without spread",
        f"groups on {', '.join(SHOWN)}",
        "reward",
    ]
    print(tabulate(rows, heads, "github", disable_numparse=True))
    pairs = [[what, ratio(*([run[what] for run in of[arm]] for arm in ARMS))] for what in ("rollouts", "seconds")]
    print("\n" + tabulate(pairs, ["", "learnable / uniform"], "github", disable_numparse=True))


if __name__ == "__main__":
    main()
