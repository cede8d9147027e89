"""An experiment of examples/ in its tiny size, over seeds, and its arms compared.

    python benchmarks/over_seeds.py mle-rl -n 10 --hours 2 > mle-rl.md     # again: it goes on

Each seed is `make SIZE=tiny SEED=...` in the experiment's folder, with tasks, policies and samples of its own, one core for
each seed that runs; after --hours everything is killed, and the next call goes on. The mean of each arm on each task is kept
in benchmarks/over_seeds/EXPERIMENT.jsonl; a seed that is kept is not run again. A seed's value is the mean over its tasks;
arms are compared seed by seed, with Student's interval over seeds, because the training run is what is repeated. -n 0 runs
nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy.stats import t
from tabulate import tabulate

ROOT = Path(__file__).parent.parent
KEPT = Path(__file__).parent / "over_seeds"


@dataclass(frozen=True)
class Experiment:
    """The arms, by the file of their graded rollouts, and which are compared: the second less the first.

    learning: the file of what an arm sampled while it was trained, of which the last answers count, but not their rewards,
    which differ in kind.
    """

    files: dict[str, str]
    pairs: tuple[tuple[str, str], ...]
    learning: dict[str, str] = field(default_factory=dict)


def graded(*arms: str) -> dict[str, str]:
    return {arm: f"{arm}.graded.jsonl" for arm in arms}


EXPERIMENTS = {
    "mle-ideator": Experiment(
        {"base": "unseen/ideas-base.jsonl", "rl": "unseen/ideas-rl.jsonl"},
        (("base", "rl"),),
    ),
    "mle-rl": Experiment(
        graded("base", "sft-all", "sft-format", "sft-value", "no-running-filter", "mle-rl"),
        (
            ("sft-all", "sft-format"),
            ("sft-all", "sft-value"),
            ("sft-format", "sft-value"),
            ("base", "mle-rl"),
            ("no-running-filter", "mle-rl"),
        ),
    ),
    "sandmle": Experiment(
        graded("base", "seed-sft", "sandmle", "sft-sandmle", "sparse"),
        (
            ("base", "seed-sft"),
            ("base", "sandmle"),
            ("seed-sft", "sft-sandmle"),
            ("base", "sparse"),
            ("sparse", "sandmle"),
            ("sparse, learning", "sandmle, learning"),
        ),
        {f"{arm}, learning": f"{arm}/graded.jsonl" for arm in ("sandmle", "sparse")},
    ),
}
QUANTITIES = ("reward", "valid", "medal")
LAST = 64  # answers, of those that an arm learnt from


class Running:
    """The makes that run now, so that they can be killed together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._makes: set[subprocess.Popen[bytes]] = set()
        self.over = False

    def run(self, command: Sequence[str], core: int, log: Path) -> int | None:
        """The exit status of a command on one core; None where its time was up."""
        with open(log, "ab") as file:
            with self._lock:
                if self.over:
                    return None
                environment = os.environ | {"OMP_NUM_THREADS": "1", "MLE_JOBS": "1"}
                made = subprocess.Popen(
                    ["taskset", "-c", str(core), *command],
                    stdout=file,
                    stderr=file,
                    env=environment,
                    start_new_session=True,
                )
                self._makes.add(made)
            status = made.wait()
        with self._lock:
            self._makes.discard(made)
            return None if self.over else status

    def stop(self) -> None:
        with self._lock:
            self.over = True
            for made in self._makes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(made.pid, signal.SIGKILL)


def means(file: Path, last: int = 0) -> Iterator[dict[str, Any]]:
    """One record for each task of a file of graded rollouts, or its `last` ones: how many, and the mean of each quantity."""
    values: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines()[-last:]:
        rollout = json.loads(line)
        grade = rollout["grade"]
        row = (rollout["reward"], float(grade["valid"]), float(grade["medal"] is not None))
        values[rollout["task"]["id"]].append(row)
    for task, rows in sorted(values.items()):
        columns = zip(QUANTITIES, zip(*rows, strict=True), strict=True)
        yield {"task": task, "rollouts": len(rows)} | {
            name: round(statistics.mean(column), 6) for name, column in columns if not last or name != "reward"
        }


def kept(name: str) -> list[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (KEPT / f"{name}.jsonl").read_text().splitlines()]
    return []


def run_seeds(name: str, seeds: Sequence[int], out: Path, end: float) -> str | None:
    """Runs seeds, one on each core; what stopped it, if it did not come to the end."""
    experiment, running, keeping = EXPERIMENTS[name], Running(), threading.Lock()
    cores = sorted(os.sched_getaffinity(0))
    free = list(cores)

    def run(seed: int) -> str | None:
        core = free.pop()
        folder = out.resolve() / name / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        targets = [str(folder / file) for file in experiment.files.values()]
        command = [
            "make",
            "-s",
            "-C",
            str(ROOT / "examples" / name),
            "SIZE=tiny",
            f"SEED={seed}",
            f"OUT={folder}",
            *targets,
        ]
        begun = time.monotonic()
        status = running.run(command, core, folder / "log")
        free.append(core)
        if status is None:
            return "the time is up; the same command goes on"
        if status:
            running.stop()
            return f"seed {seed}: make ended with {status}; see {folder / 'log'}"
        lines = [
            json.dumps({"seed": seed, "arm": arm, **record}) + "\n"
            for files, last in ((experiment.files, 0), (experiment.learning, LAST))
            for arm, file in files.items()
            for record in means(folder / file, last)
        ]
        with keeping:
            KEPT.mkdir(exist_ok=True)
            with open(KEPT / f"{name}.jsonl", "a", encoding="utf-8") as kept_file:
                kept_file.write("".join(lines))
        print(f"{name}, seed {seed}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
        return None

    timer = threading.Timer(max(0.0, end - time.monotonic()), running.stop)
    timer.start()
    with ThreadPoolExecutor(len(cores)) as pool:
        try:
            stops = [stop for stop in pool.map(run, seeds) if stop]
        finally:  # before the pool waits for its threads, also after Ctrl-C
            running.stop()
            timer.cancel()
    return min(stops, key=lambda stop: not stop.startswith("seed"), default=None)


def tables(name: str, seeds: Sequence[int]) -> str:
    """Each arm's means, and the differences of the pairs, over the seeds that are kept."""
    values: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in kept(name):
        if record["seed"] in seeds:
            for quantity in record.keys() & QUANTITIES:
                values[record["arm"], quantity][record["seed"]].append(record[quantity])

    def by_seed(arm: str, quantity: str) -> dict[int, float]:
        return {seed: statistics.mean(tasks) for seed, tasks in values[arm, quantity].items()}

    levels, differences = [], []
    for arm in (*EXPERIMENTS[name].files, *EXPERIMENTS[name].learning):
        columns = [list(by_seed(arm, quantity).values()) for quantity in QUANTITIES]
        if columns[-1]:
            shown = (f"{statistics.mean(column):.3f}" if column else "" for column in columns)
            levels.append([arm, len(columns[-1]), *shown])
    for first, second in EXPERIMENTS[name].pairs:
        for quantity in QUANTITIES:
            one, other = by_seed(first, quantity), by_seed(second, quantity)
            each = [other[seed] - one[seed] for seed in sorted(one.keys() & other.keys())]
            if len(each) < 2:
                continue
            mean, half = statistics.mean(each), t.ppf(0.975, len(each) - 1) * statistics.stdev(each) / len(each) ** 0.5
            ahead = f"{sum(value > 0 for value in each)} of {len(each)}"
            differences.append(
                [f"{second} - {first}", quantity, f"{mean:+.3f}", f"{mean - half:+.3f} to {mean + half:+.3f}", ahead]
            )
    return "\n\n".join(
        [
            tabulate(levels, ["arm", "seeds", *QUANTITIES], "github", disable_numparse=True),
            tabulate(
                differences, ["pair", "quantity", "difference", "95 %", "seeds ahead"], "github", disable_numparse=True
            ),
        ]
    )


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=sorted(EXPERIMENTS))
    parser.add_argument("-n", type=int, default=10, help="how many seeds, from 0")
    parser.add_argument("--out", type=Path, default=ROOT / "runs")
    parser.add_argument("--hours", type=float, default=1000.0, help="kill what runs after so long")
    given = parser.parse_args()
    done = {record["seed"] for record in kept(given.experiment)}
    missing = [seed for seed in range(given.n) if seed not in done]
    end = time.monotonic() + 3600 * given.hours
    stopped = run_seeds(given.experiment, missing, given.out, end) if missing else None
    if stopped:
        print(stopped, file=sys.stderr)
    print(tables(given.experiment, range(given.n) if given.n else sorted(done)))


if __name__ == "__main__":
    main()
