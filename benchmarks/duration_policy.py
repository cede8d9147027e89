"""Whether `mle-train-grpo --duration-weight auto` is right: a tiny policy under five ways of collecting a batch.

    python benchmarks/duration_policy.py --run-dir runs/bias [--seeds 5] [--updates 100] [--ways ...] [--modes ...] [-j 1]

Two real tables, and a family of short programs that choose a model and its size. Each is run once by mle-sandbox and
mle-grade; its score and its CPU seconds are looked up from then on, with a tenth of noise on the seconds, so a run
takes a minute in place of hours. mle-train-sft teaches a tiny policy the family. Rollouts are drawn from the present policy, token by
token, and given up at the first token with which the text can be no program of the family: reward 0, quickly. They
reach the real pool, advantages, weights, losses and optimiser of mle-train-grpo, as records. After each update the
probability of every program is read off exactly. Where no step lost a rollout, auto takes the steps of off: what was run as
off counts as both. What is there already is not run again.

Not covered: sampling by mle-rollout, running each rollout's program, policies of a useful size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duration_ways as ways
from duration_family import Problem, prepare, problems, quickest, rollout

from mletools.base.ids import derive_seed

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

WAYS = ways.WAYS
MODES = ("off", "mean", "auto")
NOTHING_LOST = ("wait", "kept")
BATCH, GROUP, WORKERS, RATE, NOISE = 64, 32, 2, 1e-3, 0.1

# --- the policy and what it may write ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beliefs:
    """The policy on a problem's programs. logps (programs, tokens, vocabulary): of each next token, given the program's
    tokens before it; chances: of each whole program.
    """

    logps: Any
    chances: Any


def beliefs(model: Any, problem: Problem) -> Beliefs:
    import numpy as np
    import torch

    longest = max(map(len, problem.ids))
    rows = [problem.prompt + ids + [0] * (longest - len(ids)) for ids in problem.ids]
    training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(rows)).logits[:, len(problem.prompt) - 1 : -1]
    model.train(training)
    logps = torch.log_softmax(logits.double(), dim=-1).numpy()
    sums = [sum(logps[row, at, token] for at, token in enumerate(ids)) for row, ids in enumerate(problem.ids)]
    return Beliefs(logps, np.exp(sums))


@dataclass(frozen=True)
class Text:
    """What the policy wrote. program: its number in the family, None where it was given up."""

    ids: list[int]
    logps: list[float]
    program: int | None


def write(told: Beliefs, problem: Problem, sums: Any, rng: random.Random) -> Text:
    """A draw, token by token. sums: running sums over the vocabulary of the tokens' chances, shaped like told.logps."""
    import numpy as np

    rows = list(range(len(problem.ids)))
    ids: list[int] = []
    logps: list[float] = []
    while True:
        at, row = len(ids), rows[0]
        token = int(np.searchsorted(sums[row, at], rng.random() * sums[row, at, -1], side="right"))
        ids.append(token)
        logps.append(min(0.0, float(told.logps[row, at, token])))
        rows = [each for each in rows if problem.ids[each][at] == token]
        if not rows:
            return Text(ids, logps, None)
        if len(problem.ids[rows[0]]) == len(ids):
            return Text(ids, logps, rows[0])


# --- a run ------------------------------------------------------------------------------------------------------------


class Collector:
    """Rollouts of the present policy, collected one of the five ways, as the steps of mle-train-grpo."""

    def __init__(self, way: str, seed: int, updates: int, set_of: list[Problem], run: Any) -> None:
        self.way, self.updates, self.problems, self.run = way, updates, set_of, run
        self.rng = random.Random(derive_seed(seed, way, "collect"))  # the same for all modes
        self.curve: list[dict[str, Any]] = []
        self.count = 0
        self.known: list[tuple[Beliefs, Any]] = []
        self.pool = self._pool(True) if way == "kept" else None
        self.endless = ways.kept(lambda: self._draw(self.count % 2), BATCH)

    def steps(self) -> Iterator[Any]:
        """One step an update; ends after the policy that the last of them made was looked at."""
        for update in range(self.updates + 1):
            self._look()
            if update == self.updates:
                return
            step = self._kept_step() if self.pool is not None else self._step(update)
            self.curve[-1].update(weighted=step.weights is not None, lost=step.lost, late=step.in_flight)
            yield step

    def _pool(self, stream: bool) -> Any:
        from mletools.training.group_buffer import GroupBuffer

        return GroupBuffer(self.run.recipe, {}, self.run.dropped, stream=stream, version=lambda: len(self.curve) - 1)

    def _look(self) -> None:
        import numpy as np

        self.known, told = [], []
        for problem in self.problems:
            found = beliefs(self.run.policy, problem)
            self.known.append((found, np.cumsum(np.exp(found.logps), axis=-1)))
            rest = max(0.0, 1.0 - float(found.chances.sum()))
            top = max(problem.rewards) - 0.1
            good = [chance for chance, reward in zip(found.chances, problem.rewards, strict=True) if reward >= top]
            told.append(
                {
                    "score": float(found.chances @ np.array(problem.rewards)),
                    "seconds": float(found.chances @ np.array(problem.seconds)) + rest * quickest(problem),
                    "good": float(sum(good)),
                    "none": rest,
                }
            )
        self.curve.append({"problems": told})

    def _draw(self, which: int) -> tuple[Any, float]:
        """A rollout that is begun now, and the seconds that it will take."""
        problem, (told, sums) = self.problems[which], self.known[which]
        text = write(told, problem, sums, self.rng)
        seconds = quickest(problem) if text.program is None else problem.seconds[text.program]
        number, self.count = self.count, self.count + 1
        return (which, text, number, len(self.curve) - 1), seconds * math.exp(self.rng.gauss(0.0, NOISE))

    def _collect(self, which: int) -> Any:
        problem, draw = self.problems[which], lambda: self._draw(which)
        if self.way == "thinned":
            return ways.thinned(draw, GROUP, quickest(problem), self.rng)
        if self.way == "window":
            return ways.window(draw, WORKERS, 2 * max(problem.seconds))
        return ways.first(draw, GROUP, (2 if self.way == "first" else 1) * GROUP)

    def _step(self, update: int) -> Any:
        """The rollouts of a group for each problem, as a held input; again where neither group has anything to teach."""
        step = None
        while step is None:
            pool = self._pool(False)
            for which in range(len(self.problems)):
                batch = self._collect(which)
                for arrival in batch.arrivals:
                    pool.add(self._sample(arrival, f"{update}-{which}", len(batch.begun)))
            pool.end()
            step = pool.take()
        return step

    def _kept_step(self) -> Any:
        """The next completions; groups are the rollouts that were begun one after the other."""
        assert self.pool is not None
        while (step := self.pool.take()) is None:
            arrival = next(self.endless)
            which, number = arrival.item[0], arrival.item[2]
            self.pool.add(self._sample(arrival, f"{number // (2 * GROUP)}-{which}", GROUP))
        return step

    def _sample(self, arrival: Any, group: str, size: int) -> Any:
        which, text, number, version = arrival.item
        problem = self.problems[which]
        record = rollout(problem.task, "", number)
        record["messages"] = [
            {"role": "user", "content": problem.task["name"], "token_ids": problem.prompt},
            {"role": "assistant", "content": "", "loss": True, "token_ids": text.ids, "logprobs": text.logps},
        ]
        record["policy"]["version"] = version
        record["turns"][0]["duration_s"] = arrival.seconds
        reward = 0.0 if text.program is None else problem.rewards[text.program]
        return self.run.sample({**record, "id": str(number), "group": group, "group_size": size, "reward": reward})


def watched() -> Any:
    """A GrpoRun whose `policy` is the model that is trained."""
    from mletools.training.grpo import GrpoRun

    class Watched(GrpoRun):
        policy: Any = None

        def begin(self, trainer: Any, optimizer: Any) -> None:
            super().begin(trainer, optimizer)
            self.policy = trainer.model

    return Watched


def train(out: Path, way: str, mode: str, seed: int, updates: int) -> dict[str, Any]:
    """One run; kept as a file, which is read where it is there."""
    file = out / "results" / f"{way}-{mode}-{seed}-{updates}.json"
    if file.exists():
        return json.loads(file.read_text())
    import torch

    from mletools.training.grpo import GrpoOptions

    torch.set_num_threads(1)
    folder, begun = out / f"run-{way}-{mode}-{seed}", time.process_time()
    shutil.rmtree(folder, ignore_errors=True)
    options = GrpoOptions(
        duration_weight=mode,
        mismatch="clip",
        batch=BATCH if way == "kept" else None,
        groups_per_step=2,
        learning_rate=RATE,
        micro_batch=BATCH,
        lora_rank=0,
        save_steps=10**9,
        seed=seed,
    )
    run = watched()(str(out / "sft" / "latest"), folder, options)
    collector = Collector(way, seed, updates, problems(out, run.tokenizer), run)
    # the steps are made of the policy of the moment, in place of a pipe that is read
    told = list(run._drive(collector.steps(), 1.0, None))
    found = {
        "way": way, "mode": mode, "seed": seed, "curve": collector.curve, "dropped": dict(run.dropped),
        "grad_norm": [step["grad_norm"] for step in told], "cpu_s": time.process_time() - begun,
    }  # fmt: skip
    file.parent.mkdir(exist_ok=True)
    file.with_suffix(".partial").write_text(json.dumps(found))
    os.replace(file.with_suffix(".partial"), file)
    shutil.rmtree(folder)
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def late(run: dict[str, Any], tasks: Sequence[int], what: str, last: int = 5) -> float:
    return statistics.fmean(each["problems"][task][what] for each in run["curve"][-last:] for task in tasks)


def told(values: Sequence[float], digits: int = 3) -> str:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args()
    given.run_dir.mkdir(parents=True, exist_ok=True)
    prepare(given.run_dir)
    wanted = [
        (way, mode, seed, given.updates)
        for seed in range(given.seeds)
        for way in given.ways
        for mode in given.modes
        if mode != "auto" or way not in NOTHING_LOST
    ]
    with ProcessPoolExecutor(given.jobs) as workers:
        runs = list(workers.map(train, [given.run_dir] * len(wanted), *zip(*wanted, strict=True)))
    for run in [run for run in runs if run["way"] in NOTHING_LOST and run["mode"] == "off"]:
        assert not any(step["lost"] for step in run["curve"][:-1])
        runs.append({**run, "mode": "auto"})
    report(runs, given.ways, given.modes)


def report(runs: list[dict[str, Any]], chosen: Sequence[str], modes: Sequence[str]) -> None:
    every = range(len(runs[0]["curve"][0]["problems"]))
    for tasks in [*([task] for task in every), list(every)]:
        print(table(runs, chosen, modes, tasks))


def table(runs: list[dict[str, Any]], chosen: Sequence[str], modes: Sequence[str], tasks: Sequence[int]) -> str:
    """Of some tasks, in the mean over them."""
    from tabulate import tabulate

    rows = []
    for way in chosen:
        of = {mode: [run for run in runs if (run["way"], run["mode"]) == (way, mode)] for mode in modes}
        for mode, same in of.items():
            final = [late(run, tasks, "score") for run in same]
            weighted = [step["weighted"] for run in same for step in run["curve"][:-1]]
            row = [way, mode, told(final), told([late(run, tasks, "score", len(run["curve"])) for run in same])]
            row += [told([late(run, tasks, what) for run in same], 2) for what in ("good", "seconds")]
            row.append(f"{statistics.fmean(weighted):.0%}")
            rivals = [[late(run, tasks, "score") for run in of[rival]] for rival in ("off", "mean") if rival in of]
            if mode == "auto" and rivals:
                best = max(rivals, key=statistics.fmean)
                row.append(told([one - other for one, other in zip(final, best, strict=True)]))
            rows.append(row)
    heads = ["way", "weight", "J at the end", "J, mean of all updates", "good", "E[seconds]", "weighted"]
    drawn = tabulate(rows, [*heads, "auto - better of off and mean"], tablefmt="github", disable_numparse=True)
    first = {what: statistics.fmean(runs[0]["curve"][0]["problems"][task][what] for task in tasks)
             for what in ("score", "good", "seconds")}  # fmt: skip
    begun = f"at first J {first['score']:.3f}, good {first['good']:.2f}, {first['seconds']:.2f} s"
    return f"\ntask {' and '.join(map(str, tasks))}: {begun}\n\n{drawn}"


if __name__ == "__main__":
    main()
