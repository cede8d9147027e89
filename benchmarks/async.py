"""Seconds to a fixed reward: rounds of whole commands against the endless pipe, programs' times spread over 100x.

    python benchmarks/async.py --run-dir runs/async [--seeds 3] [--arms rounds-1 endless-0 ...] [--target 0.7]

A tiny policy is taught by mle-train-sft to write one of forty short programs: one of eight models of two real tables, which
decides the reward, and one of five sleeps from 0.04 to 4 s, which decides nothing, so that times stay spread while the reward
rises; a program that sleeps loads no core. Every arm goes on from the same policy, by lines that a user would write:

    rounds-N       rollout | sandbox | grade | filter | train-grpo --resume, again and again: N steps a round
    endless-K      rollout --forever --follow | sandbox | grade | filter --mark | train-grpo --stream, --max-staleness K
    unfiltered-K   the same without the filter, which holds a group until its last member has come

The clock runs from the first command's start, and is read as each train_step record arrives. An arm ends when the mean reward
of three steps in a row has reached --target, or after --max-seconds. Shares of time are those between an arm's first and last step:
the trainer's steps, the sampler's answers, and the programs' seconds over as many sandboxes. What is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

SLEEPS = ("0.04", "0.12", "0.4", "1.2", "4")
MODELS = (
    "dummy.DummyClassifier()",
    "dummy.DummyClassifier(strategy='uniform')",
    "tree.DecisionTreeClassifier(max_depth=1)",
    "tree.DecisionTreeClassifier(max_depth=1, max_features=1)",
    "tree.DecisionTreeClassifier(max_depth=2, max_features=1)",
    "neighbors.NearestCentroid()",
    "naive_bayes.GaussianNB()",
    "discriminant_analysis.LinearDiscriminantAnalysis()",
)
PROGRAM = """```python
import time
import pandas as pd
from sklearn import discriminant_analysis, dummy, naive_bayes, neighbors, tree
a = pd.read_csv("input/train.csv")
b = pd.read_csv("input/test.csv")
s = pd.read_csv("input/sample_submission.csv")
y = [c for c in a if c not in b]
x = [c for c in b if c not in s]
m = {model}
s[y[0]] = m.fit(a[x], a[y[0]]).predict(b[x])
time.sleep({sleep})
s.to_csv("submission.csv", index=False)
```"""
ARMS = ("rounds-1", "rounds-4", "endless-0", "endless-1", "endless-4", "unfiltered-4")
SMOOTH = 3  # steps
GRACE = 60.0  # seconds in which a pipe should end once its sampler was told to
TASKS = 2
Step = dict[str, Any]


def command(name: str, *options: Any) -> list[str]:
    return [str(Path(sys.executable).parent / name), *map(str, options)]


def run(made: Path, *lines: Sequence[str]) -> None:
    """A pipe whose output becomes the file `made`, unless that is there."""
    if made.exists():
        return
    unfinished = made.with_name(made.name + ".partial")
    with unfinished.open("wb") as sink:
        pipe = start(lines, made.parent, made.stem, sink)
        try:
            failed = any([process.wait() for process in pipe])
        finally:
            ended(pipe)
    if failed:
        raise SystemExit(f"{made}: a command of its pipe failed: see {made.parent}/{made.stem}-*.err")
    unfinished.rename(made)


def start(lines: Sequence[Sequence[str]], folder: Path, stem: str, sink: Any) -> list[subprocess.Popen[bytes]]:
    """The processes of a pipe; each has its stderr in a file."""
    pipe: list[subprocess.Popen[bytes]] = []
    for number, line in enumerate(lines):
        last = number + 1 == len(lines)
        source = pipe[-1].stdout if pipe else subprocess.DEVNULL
        with (folder / f"{stem}-{number}-{Path(line[0]).name}.err").open("ab") as told:
            pipe.append(subprocess.Popen(line, stdin=source, stdout=sink if last else subprocess.PIPE, stderr=told))
        if len(pipe) > 1 and pipe[-2].stdout is not None:
            pipe[-2].stdout.close()  # or a command would not learn that the next has gone
    return pipe


def taught(given: argparse.Namespace, seed: int) -> Path:
    """The policy that all arms of a seed begin from."""
    tasks, out = Path("tasks.jsonl"), Path(f"sft-{seed}")
    run(tasks, command("mle-gen-task", "-q", "--source", "sklearn:wine,iris", "-n", TASKS, "--seed", 0))
    drawn = command("mle-rollout", "-q", "-m", "scripted", "-g", 80, "--prompt", "single-brief", tasks)
    run(Path("scripted.jsonl"), drawn)
    teacher = Path("teacher.jsonl")
    if not teacher.exists():
        with Path("scripted.jsonl").open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        for number, record in enumerate(records):
            program = PROGRAM.format(
                model=MODELS[number % len(MODELS)], sleep=SLEEPS[number // len(MODELS) % len(SLEEPS)]
            )
            record["messages"][-1]["content"] = program
        teacher.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    teach = command(
        "mle-train-sft", "-q", "--from-scratch", "tiny", "--run-dir", out, "--epochs", given.epochs, "--micro-batch", 32,
        "--learning-rate", "3e-3", "--save-steps", 30, "--seed", seed, "--resume", teacher,
    )  # fmt: skip
    run(Path(f"sft-{seed}.jsonl"), teach)
    return out / "latest"


def lines_of(arm: str, seed: int, policy: Path, given: argparse.Namespace, number: int | None) -> list[list[str]]:
    """The commands of an arm's pipe; number: of the round."""
    kind, _, count = arm.partition("-")
    folder = Path(f"{arm}-{seed}")
    sample = ["-q", "--prompt", "single-brief", "--max-tokens", given.max_tokens]
    train = ["-q", "--model", policy, "--run-dir", folder / "run", "--batch", given.batch, "--lora-rank", 0, "--micro-batch", 64,
             "--learning-rate", given.learning_rate, "--mismatch", "clip", "--seed", seed]  # fmt: skip
    keep = ["-q", "--keep-invalid", "--keep-duplicates"]
    if number is not None:
        newest = folder / "run" / "latest"
        sample += ["-m", f"hf:{newest if newest.exists() else policy}", "-g", int(count) * given.batch // TASKS]
        sample += ["--seed", 1000 * seed + number]
        train += ["--resume"]
    else:
        sample += ["-m", "hf:", "--forever", "--follow", folder / "pub", "--max-staleness", count]
        sample += ["-g", given.batch // TASKS, "--seed", 1000 * seed]
        train += ["--stream", "--publish", folder / "pub", "--max-staleness", count]
        keep += ["--mark"]
    return [
        command("mle-rollout", *sample, "tasks.jsonl"),
        command("mle-sandbox", "-q", "-j", given.jobs, "--timeout", 20),
        command("mle-grade", "-q"),
        ["tee", "-a", str(folder / "graded.jsonl")],
        *([] if kind == "unfiltered" else [command("mle-filter", *keep)]),
        command("mle-train-grpo", *train),
    ]


def arrivals(pipe: Sequence[subprocess.Popen[bytes]], until: float) -> Iterator[tuple[float, Step]]:
    """(clock, record) as the last command writes them, until its end or the clock `until`."""
    found: queue.Queue[tuple[float, bytes] | None] = queue.Queue()

    def read() -> None:
        assert pipe[-1].stdout is not None
        for line in pipe[-1].stdout:
            found.put((time.monotonic(), line))
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (item := found.get(timeout=max(0.0, until - time.monotonic()))) is not None:
            yield item[0], json.loads(item[1])
    except queue.Empty:
        return


def ended(pipe: Sequence[subprocess.Popen[bytes]]) -> tuple[list[int], float]:
    """Exit codes of a pipe whose sampler is told to stop, and the seconds until all had ended; what stays is killed."""
    begun = time.monotonic()
    if pipe[0].poll() is None:
        pipe[0].send_signal(signal.SIGTERM)
    for process in pipe:
        try:
            process.wait(timeout=max(0.0, begun + GRACE - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return [process.returncode for process in pipe], time.monotonic() - begun


def play(arm: str, seed: int, policy: Path, given: argparse.Namespace) -> tuple[list[Step], dict[str, Any]]:
    """The steps of an arm, each with its clock, and how the arm ended."""
    folder = Path(f"{arm}-{seed}")
    end, kept = folder / "end.json", folder / "steps.jsonl"
    if not end.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        graded = folder / "graded.jsonl"
        begun, steps, number, codes, seconds = time.monotonic(), [], 0, [0], 0.0
        until, reached = begun + given.max_seconds, False
        with kept.open("w", encoding="utf-8") as sink:
            while not reached and time.monotonic() < until and not any(codes):
                number += 1
                pipe = start(lines_of(arm, seed, policy, given, number if arm.startswith("rounds") else None), folder, "pipe",
                             subprocess.PIPE)  # fmt: skip
                try:
                    for clock, record in arrivals(pipe, until):
                        record.update(at=clock - begun, graded_bytes=graded.stat().st_size)
                        steps.append(record)
                        sink.write(json.dumps(record) + "\n")
                        sink.flush()
                        last = [step["reward_mean"] for step in steps[-SMOOTH:]]
                        reached = len(last) == SMOOTH and statistics.fmean(last) >= given.target
                        if reached:
                            break
                finally:
                    codes, seconds = ended(pipe)
                if not arm.startswith("rounds"):
                    break
        if not reached and time.monotonic() < until:
            raise SystemExit(f"{folder}: the pipe ended by itself ({codes}): see {folder}/pipe-*.err")
        told = {"reached": reached, "codes": codes, "ending_s": seconds, "rounds": number}
        end.write_text(json.dumps(told) + "\n", encoding="utf-8")
    with kept.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines], json.loads(end.read_text(encoding="utf-8"))


def shares(arm: str, seed: int, steps: Sequence[Step], jobs: int) -> dict[str, float]:
    """What each part of the pipe did of the time between the first and the last step."""
    first, last = steps[0], steps[-1]
    elapsed = max(last["at"] - first["at"], 1e-9)
    with Path(f"{arm}-{seed}/graded.jsonl").open("rb") as file:
        file.seek(first["graded_bytes"])
        between = file.read(last["graded_bytes"] - first["graded_bytes"]).split(b"\n")
    records = [json.loads(line) for line in between[1:-1]]  # the first and the last may be torn
    waits = [step["sampler_waited_s"] for step in (first, last) if step.get("sampler_waited_s") is not None]
    return {
        "step": elapsed / max(1, len(steps) - 1),
        "trainer": sum(step["duration_s"] for step in steps[1:]) / elapsed,
        "trainer waited": sum(step.get("waited_s", math.nan) for step in steps[1:]) / elapsed,
        "sampler": sum(record["turns"][0]["duration_s"] for record in records) / elapsed,
        "sampler waited": (waits[1] - waits[0]) / elapsed if len(waits) == 2 else math.nan,
        "sandboxes": sum(record["execution"]["duration_s"] for record in records) / elapsed / jobs,
        "staleness": statistics.fmean(step["staleness"] or 0.0 for step in steps),
        "stale": float(max(step["staleness_max"] or 0 for step in steps)),
        "start": first["at"],
        "reward": statistics.fmean(step["reward_mean"] for step in steps[-SMOOTH:]),
    }


def told(values: Sequence[float], digits: int = 0, scale: float = 1.0) -> str:
    """Mean and its standard error."""
    known = [scale * value for value in values if not math.isnan(value)]
    if not known:
        return ""
    sem = f" ± {statistics.stdev(known) / math.sqrt(len(known)):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.{digits}f}{sem}"


HEAD = ["", "reached", "s to the target", "updates", "s to the first", "s an update", "staleness, mean (most)", "trainer works, %",
        "trainer waits, %", "sampler answers, %", "sampler idle, %", "sandboxes, %", "reward at the end"]  # fmt: skip


def row(arm: str, found: dict[int, tuple[list[Step], dict[str, Any]]], jobs: int) -> list[str]:
    runs = {
        seed: (steps, end, shares(arm, seed, steps, jobs)) for seed, (steps, end) in found.items() if len(steps) > 1
    }
    seen = [each for _, _, each in runs.values()]
    done = [steps for steps, end, _ in runs.values() if end["reached"]]
    percent = ("trainer", "trainer waited", "sampler", "sampler waited", "sandboxes")
    return [
        arm,
        f"{len(done)} of {len(found)}",
        told([steps[-1]["at"] for steps in done]),
        told([float(len(steps)) for steps in done]),
        told([each["start"] for each in seen]),
        told([each["step"] for each in seen], 1),
        f"{told([each['staleness'] for each in seen], 1)} ({max((each['stale'] for each in seen), default=0):.0f})",
        *(told([each[name] for each in seen], 0, 100) for name in percent),
        told([each["reward"] for each in seen], 2),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS))
    parser.add_argument("--target", type=float, default=0.7, help="mean milestone reward of three steps in a row")
    parser.add_argument("--max-seconds", type=float, default=900.0, help="of an arm")
    parser.add_argument("--batch", type=int, default=32, help="rollouts an update, half of them of each task")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--epochs", type=int, default=30, help="of the policy's teaching")
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("-j", "--jobs", type=int, default=16, help="sandboxes")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the pipes would stay
    given.run_dir.mkdir(parents=True, exist_ok=True)
    os.chdir(given.run_dir)
    os.environ.update(MLE_DATA=".", MLE_JOBS="1", HF_HUB_OFFLINE="1")
    found: dict[str, dict[int, Any]] = {arm: {} for arm in given.arms}
    for seed in range(given.seeds):  # seed by seed: what is there after half of the time is whole seeds of all arms
        policy = taught(given, seed)
        for arm in given.arms:
            found[arm][seed] = steps, end = play(arm, seed, policy, given)
            print(f"seed {seed}: {arm}: {len(steps)} updates, {end}", file=sys.stderr, flush=True)
    print(tabulate([row(arm, found[arm], given.jobs) for arm in given.arms], HEAD, tablefmt="github"))


if __name__ == "__main__":
    main()
