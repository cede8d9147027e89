"""What memory, an ideator and self-improvement are worth: scripted agents that err, on made tasks, in the real scaffolds.

    mle-gen-task -n 30 --seed 11 -j 2 -o tasks.jsonl
    python benchmarks/agents.py tasks.jsonl --run-dir runs/agents [--seeds 3] [-j 2]

Every arm is a line of mle-rollout and mle-grade, as a user would write it; what is there already is not run again. The
policy is the same scripted solver in all arms, which knows nothing of the arm it is in and reacts to what it reads
(mletools/simulated says how). Of each run the human rank on the test rows counts: the share of the leaderboard's
teams left behind by what was handed in, 0 without a valid submission. A run of several rollouts (traces, answers) hands
in the one with the best validation score. Means over tasks; SEM over seeds and tasks, and of the differences to each
block's first arm paired by task and seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate


@dataclass(frozen=True)
class Arm:
    """A line of the table: what is asked of mle-rollout, and which run a rollout belongs to."""

    name: str
    options: tuple[str, ...]
    run: Callable[[dict[str, Any]], Any]


def by_sample(record: dict[str, Any]) -> Any:
    return record["task"]["id"], record["sample"]


def by_task(record: dict[str, Any]) -> Any:
    return record["task"]["id"], 0


CODEACT = ("--scaffold", "codeact", "--hand-in", "best")


def memory(traces: int, turns: int) -> tuple[str, list[Arm]]:
    """The block of the memory, whose worth depends on how far one trace gets."""
    agent = ("--scaffold", "memory", "--defaults", "evaluation", "--max-turns", str(turns), "--max-traces")
    return f"memory: {traces} traces of {turns} turns", [
        Arm("no memory (every trace from scratch)", (*agent, str(traces), "--reset-ratio", "1"), by_sample),
        Arm("memory (half of the traces from the pool)", (*agent, str(traces)), by_sample),
        Arm(
            f"one submission a trace, {traces * turns} traces",
            (*agent, str(traces * turns), "--reset-ratio", "1", "--max-submissions", "1"),
            by_sample,
        ),
    ]


BLOCKS = {
    "ideator: codeact, 50 steps": [
        Arm("none", CODEACT, by_sample),
        Arm("null", (*CODEACT, "--ideator", "null"), by_sample),
        Arm("vague", (*CODEACT, "--ideator", "vague"), by_sample),
        Arm("good", (*CODEACT, "--ideator", "scripted:ideator"), by_sample),
    ],
    "self-improvement: two answers, the better by validation": [
        Arm("one answer", ("--scaffold", "improve", "--max-turns", "1"), by_sample),
        Arm("two from scratch", ("--scaffold", "improve", "--max-turns", "1", "-g", "2"), by_task),
        Arm("one, and one that improves on it", ("--scaffold", "improve"), by_sample),
    ],
}


def play(arm: Arm, policy: str, tasks: Path, out: Path, seed: int, jobs: int, data: Path) -> Path:
    """The graded rollouts of an arm under a seed."""
    name = "".join(each if each.isalnum() else "_" for each in " ".join([policy, *arm.options]))
    made, graded = out / f"{name}-{seed}.jsonl", out / f"{name}-{seed}.graded.jsonl"
    bin = Path(sys.executable).parent
    common = ["--data", str(data), "-j", str(jobs), "-q", "--resume"]
    rollout = [str(bin / "mle-rollout"), "-m", policy, "--seed", str(seed), *arm.options, *common]
    subprocess.run([*rollout, "-o", str(made), str(tasks)], check=True)
    grade = [str(bin / "mle-grade"), "--reward", "human-rank", *common]
    subprocess.run([*grade, "-o", str(graded), str(made)], check=True)
    return graded


def better(record: dict[str, Any], than: dict[str, Any] | None) -> bool:
    """By the validation score, which is all that an agent knows."""
    new = (record["validation"] or {}).get("score")
    old = ((than or {}).get("validation") or {}).get("score")
    if new is None or old is None:
        return than is None or (old is None and new is not None)
    return new < old if record["task"]["metric"]["lower_is_better"] else new > old


def runs(arm: Arm, file: Path) -> dict[Any, dict[str, float]]:
    """What each run came to."""
    best: dict[Any, dict[str, Any]] = {}
    sums: dict[Any, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            key = arm.run(record)
            if better(record, best.get(key)):
                best[key] = record
            sums[key]["turns"] += len(record["turns"])
            sums[key]["programs"] += sum("execution" in turn or "cell" in turn for turn in record["turns"])
            sums[key]["asked"] += sum(turn["action"] == "seek_help" for turn in record["turns"])
    return {
        key: {
            "rank": record["reward"] or 0.0,
            "valid": float(record["grade"]["valid"]),
            "median": float(record["grade"]["above_median"]),
            "medal": float(record["grade"]["medal"] is not None),
            **sums[key],
        }
        for key, record in best.items()
    }


def by_beginning(file: Path) -> list[float]:
    """For each run with traces of both kinds: the mean rank of those that begin from the memory less that of those from scratch."""
    ranks: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with open(file, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            ranks[by_sample(record)][record.get("trace")].append(record["reward"] or 0.0)
    both = [kinds for kinds in ranks.values() if kinds.keys() >= {"memory", "reset"}]
    return [statistics.fmean(kinds["memory"]) - statistics.fmean(kinds["reset"]) for kinds in both]


def spread(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("-m", "--policy", default="scripted", help="scripted:tinkerer changes one thing at a time")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--block", type=int, action="append", help="only these blocks, from 0, which is memory")
    parser.add_argument("--traces", type=int, default=6, help="of memory")
    parser.add_argument("--turns", type=int, default=5, help="of a trace of memory")
    given = parser.parse_args()
    given.run_dir.mkdir(parents=True, exist_ok=True)
    for number, (title, arms) in enumerate([memory(given.traces, given.turns), *BLOCKS.items()]):
        if given.block and number not in given.block:
            continue
        rows, notes = [], []
        first: dict[Any, dict[str, float]] = {}
        for arm in arms:
            found: dict[Any, dict[str, float]] = {}
            traces: list[float] = []
            for seed in range(given.seeds):
                file = play(arm, given.policy, given.tasks, given.run_dir, seed, given.jobs, given.data)
                found.update({(*key, seed): run for key, run in runs(arm, file).items()})
                traces += by_beginning(file)
            ranks = [run["rank"] for run in found.values()]
            first = first or found
            more = [found[key]["rank"] - first[key]["rank"] for key in sorted(found)] if found is not first else []
            seeds = [
                statistics.fmean(run["rank"] for key, run in found.items() if key[-1] == seed)
                for seed in range(given.seeds)
            ]
            mean = {name: statistics.fmean(run[name] for run in found.values()) for name in next(iter(found.values()))}
            rows.append(
                [
                    arm.name,
                    f"{statistics.fmean(ranks):.3f}",
                    f"{spread(seeds):.3f}",
                    f"{statistics.fmean(more):+.3f} ± {spread(more):.3f}" if more else "",
                    f"{100 * mean['valid']:.0f} %",
                    f"{100 * mean['median']:.0f} %",
                    f"{100 * mean['medal']:.0f} %",
                    f"{mean['programs']:.1f}",
                    f"{mean['turns']:.1f}",
                    f"{mean['asked']:.1f}",
                ]
            )
            if traces:
                notes.append(
                    f"{arm.name}: a trace from the pool less one from scratch of the same run: "
                    f"{statistics.fmean(traces):+.3f} ± {spread(traces):.3f}"
                )
        heads = ["", "human rank", "± SEM over seeds", "against the first", "valid", "> median", "medal"]
        print(f"\n{title}\n")
        print(
            tabulate(rows, headers=[*heads, "programs", "messages", "asked"], tablefmt="github", disable_numparse=True)
        )
        print("", *notes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
