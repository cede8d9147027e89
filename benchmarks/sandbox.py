"""How fast solutions run in each sandbox, beside a bare fork and beside plain Python; everything in one run.

    python benchmarks/sandbox.py [--jobs 1,2,4] [--runs 60] [--rounds 3] > benchmarks/sandbox.md
    python benchmarks/sandbox.py --before ../an-older-checkout

The work: read 150 rows, fit LogisticRegression or HistGradientBoosting in turn, write submission.csv, one thread. Ways
take turns within every round, so that what else the machine does meets all of them. The docker rows need a daemon with
the image (`make image`); without one they are left out, and the output says why. Each way's servers are warmed up before
its first round: start-up is in a table of its own. With --before the ways are the warm local sandbox of that checkout and
of this one, each in processes of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mletools.sandbox import DEFAULT_IMAGE, DEFAULT_PREIMPORT, Limits, Setup, open_sandbox

CODE = """
import pandas as pd
from sklearn.{module} import {model}

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = {model}().fit(train[["a", "b"]], train["y"])
test[["id"]].assign(y=model.predict(test[["a", "b"]])).to_csv("submission.csv", index=False)
"""
CODES = [
    CODE.format(module="linear_model", model="LogisticRegression"),
    CODE.format(module="ensemble", model="HistGradientBoostingClassifier"),
]
ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_WAIT_POLICY": "PASSIVE"} | {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")
}
LIMITS = Limits(wall_s=120, memory_mb=1024)
Way = Callable[[int], None]  # does the n-th run


def make_task(folder: Path) -> Path:
    public = folder / "task" / "public"
    public.mkdir(parents=True)
    rows = [f"{n},{n % 13},{n % 7},{int(n % 13 > n % 7)}" for n in range(150)]
    (public / "train.csv").write_text("\n".join(["id,a,b,y", *rows]) + "\n")
    (public / "test.csv").write_text("\n".join(["id,a,b", *(row.rsplit(",", 1)[0] for row in rows[:50])]) + "\n")
    for path in (folder, folder / "task", public):
        path.chmod(0o755)
    return public


def in_a_folder(public: Path, run: Callable[[str, str], None], number: int) -> None:
    """Make a work folder as a user would, `run` in it, look at what it handed in."""
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o777)
        Path(work, "solution.py").write_text(CODES[number % 2])
        run(work, str(public))
        assert Path(work, "submission.csv").stat().st_size > 100


FORKER = """
import importlib, json, os, sys
from mletools.sandbox.preimport import warm_up
warm_up(sys.argv[1].split(","))
print("ready", flush=True)
for line in sys.stdin:
    work, code = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(work)
        exec(compile(code, "solution.py", "exec"), {"__name__": "__main__"})
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
IN_SANDBOX = """
import json, sys
from pathlib import Path
from mletools.sandbox import Limits, Setup, open_sandbox
with open_sandbox("local", Setup(1, start="warm")) as sandbox:
    print("ready", flush=True)
    for line in sys.stdin:
        code, public, number = json.loads(line)
        outcome = sandbox.run(code, Path(public), Limits(wall_s=120, memory_mb=1024), number)
        print(0 if outcome.status == "ok" and outcome.submission else outcome, flush=True)
"""


class Workers:
    """Processes of one program, each doing one order at a time: a line of JSON in, the line 0 out."""

    def __init__(self, count: int, program: str, *arguments: str, **environment: str) -> None:
        self.free: SimpleQueue[Any] = SimpleQueue()
        self.all = []
        for _ in range(count):
            command = [sys.executable, "-c", program, *arguments]
            settings: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": "/"}
            process = subprocess.Popen(command, env={**os.environ, **environment}, **settings)
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            self.all.append(process)
            self.free.put(process)

    def do(self, order: Any) -> None:
        process = self.free.get()
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer == "0\n", answer
        self.free.put(process)

    def close(self) -> None:
        for process in self.all:
            process.stdin.close()
            process.wait()


def bare_forks(stack: ExitStack, count: int, public: Path) -> Way:
    """Processes that have the libraries loaded, each forking a child for a run: no isolation at all, the floor."""
    forks = Workers(count, FORKER, ",".join(DEFAULT_PREIMPORT), **ENVIRONMENT)
    stack.callback(forks.close)

    def run(number: int, work: str, public: str) -> None:
        os.symlink(public, f"{work}/input")
        forks.do([work, CODES[number % 2]])

    return lambda number: in_a_folder(public, partial(run, number), number)


def in_checkout(stack: ExitStack, tree: Path, count: int, public: Path) -> Way:
    """The warm local sandbox of the package in `tree`."""
    workers = Workers(count, IN_SANDBOX, PYTHONPATH=str(tree.resolve()))
    stack.callback(workers.close)
    return lambda number: workers.do([CODES[number % 2], str(public), number])


def plain_python(public: Path) -> Way:
    def run(work: str, public: str) -> None:
        os.symlink(public, f"{work}/input")
        subprocess.run([sys.executable, "solution.py"], cwd=work, env={**os.environ, **ENVIRONMENT}, check=True)

    return lambda number: in_a_folder(public, run, number)


def docker_run(public: Path, image: str) -> Way:
    import docker

    client = docker.from_env(timeout=120)
    client.images.get(image)

    def run(work: str, public: str) -> None:
        client.containers.run(
            image,
            ["python3", "solution.py"],
            working_dir="/work",
            volumes={work: {"bind": "/work", "mode": "rw"}, public: {"bind": "/work/input", "mode": "ro"}},
            environment=ENVIRONMENT,
            network_mode="none",
            mem_limit="1g",
            cap_drop=["ALL"],
            user="65534:65534",
            remove=True,
        )

    return lambda number: in_a_folder(public, run, number)


def in_sandbox(stack: ExitStack, backend: str, start: str, slots: int, public: Path, image: str) -> Way:
    sandbox = stack.enter_context(open_sandbox(backend, Setup(slots, start=start, image=image)))

    def run(number: int) -> None:
        outcome = sandbox.run(CODES[number % 2], public, LIMITS, number)
        assert outcome.status == "ok" and outcome.submission and outcome.start == start, outcome

    return run


def measure(way: Way, runs: int, jobs: int) -> tuple[list[float], float]:
    """Seconds of each run as its caller waits for it, and seconds of all of them."""

    def timed(number: int) -> float:
        begin = time.perf_counter()
        way(number)
        return time.perf_counter() - begin

    begin = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        each = list(pool.map(timed, range(runs)))
    return each, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", default=f"1,{os.cpu_count()}", help="how many at once, a list")
    parser.add_argument("--runs", type=int, default=60, help="of a warm way in one round; of a cold way a sixth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", default=DEFAULT_IMAGE)
    parser.add_argument("--before", type=Path, help="compare the warm local sandbox with that of this checkout")
    options = parser.parse_args()
    levels = [int(number) for number in options.jobs.split(",")]
    with ExitStack() as stack:
        public = make_task(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        slots = max(levels)
        ways: dict[str, tuple[int, Way]] = {"bare fork": (options.runs, bare_forks(stack, slots, public))}
        if options.before is not None:
            trees = {"before": options.before, "after": Path(__file__).parents[1]}
            ways |= {name: (options.runs, in_checkout(stack, tree, slots, public)) for name, tree in trees.items()}
            print_report(options, levels, ways, None)
            return
        ways |= {
            "warm local": (options.runs, in_sandbox(stack, "local", "warm", slots, public, options.image)),
            "cold local": (options.runs // 6, in_sandbox(stack, "local", "cold", slots, public, options.image)),
            "cold python": (options.runs // 6, plain_python(public)),
        }
        without = None
        try:
            ways["cold docker"] = (options.runs // 6, docker_run(public, options.image))
            ways["warm docker"] = (
                options.runs,
                in_sandbox(stack, "docker", "warm", slots, public, options.image),
            )
        except Exception as error:
            without = f"No docker rows: {error}"
        print_report(options, levels, ways, without)


def first_runs(ways: dict[str, tuple[int, Way]], slots: int) -> dict[str, float]:
    """Seconds until every slot has done its first run: what starting the servers costs."""
    return {name: measure(way, slots, slots)[1] for name, (_, way) in ways.items()}


def print_report(options: Any, levels: list[int], ways: dict[str, tuple[int, Way]], without: str | None) -> None:
    beginnings = first_runs(ways, max(levels))
    each: dict[tuple[str, int], list[float]] = {}
    rates: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds):
        for jobs in levels:
            for name, (runs, way) in ways.items():
                seconds, total = measure(way, max(runs, jobs), jobs)
                each.setdefault((name, jobs), []).extend(seconds)
                rates.setdefault((name, jobs), []).append(60 * len(seconds) / total)
    rate = {key: statistics.median(values) for key, values in rates.items()}
    print("# How fast solutions run\n")
    load = os.getloadavg()[0]
    print(f"Made by `benchmarks/sandbox.py`: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()},")
    print(
        f"Python {platform.python_version()}; {options.rounds} rounds, {options.runs} warm and {options.runs // 6} cold"
    )
    print(f"runs of each way a round; load average at the end {load:.1f} (the benchmark's own among it).\n")
    print("| way | -j | median ms | worst ms | solutions/min (rounds) | of bare fork | times cold docker |")
    print("|---|---|---|---|---|---|---|")
    for jobs in levels:
        for name in ways:
            key = (name, jobs)
            spread = f"{rate[key]:.0f} ({min(rates[key]):.0f}-{max(rates[key]):.0f})"
            times = f"{rate[key] / rate['cold docker', jobs]:.1f}" if "cold docker" in ways else ""
            row = [name, str(jobs), f"{1000 * statistics.median(each[key]):.0f}", f"{1000 * max(each[key]):.0f}"]
            print("| " + " | ".join([*row, spread, f"{rate[key] / rate['bare fork', jobs]:.2f}", times]) + " |")
    print(f"\nSeconds until each of {max(levels)} slots had done its first run, the start of its servers included:")
    print(", ".join(f"{name} {seconds:.1f}" for name, seconds in beginnings.items() if name != "bare fork") + ".")
    if without:
        print(f"\n{without}")
    with suppress(BrokenPipeError):
        sys.stdout.flush()


if __name__ == "__main__":
    assert threading.active_count() == 1
    main()
