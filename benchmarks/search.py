"""What search agents come to: rd-agent, its rivals, and rd-agent without each of its six components.

    mle-gen-task -n 20 --source tabular --samples 300-400 --seed 31 -j 2 -o tasks.jsonl
    python benchmarks/search.py tasks.jsonl --run-dir runs/search [--seeds 3] [--seconds 40] [-j 12]

Every arm is a line of mle-rollout and mle-grade, as a user would write it; what is there already is not run again. The
researcher and the developer are the same scripted model in all arms, which knows nothing of the arm it is in and reacts to
what it reads (mletools/simulated/search.py says how); its programs really train, and wait as long as a larger table
would take. A search may use --seconds of its clock, on which the programs of a round count as the longest of them; what all
of them took together is told too, and an arm makes one node a round. Means over the tasks of a seed, then
over seeds, with the SEM over seeds; differences to rd-agent are paired by task and seed, with the SEM over the pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from mletools.reports.search import SHARES, searched
from mletools.reports.turns import turns

PRESETS = ("rd-agent", "aide", "ml-master", "kompete", "mle-star", "aira-greedy", "aira-mcts", "aira-evo")
# Each of rd-agent's components in place of what the paper's ablation puts there: the plain one of its rivals.
WITHOUT = {
    "planning": "none",
    "paths": "chain",
    "reasoning": "one-step",
    "memory": "siblings",
    "coding": "node-debug",
    "evaluation": "agent",
}
ARMS = {
    **{preset: ("--preset", preset) for preset in PRESETS},
    "rd-agent, one node a round": ("--set", "paths.at_once=1"),
    "rd-agent, fresh rows count half": ("--set", "evaluation.fresh=0.5"),
    "rd-agent, evaluation standard": ("--evaluation", "standard"),
    **{f"without {kind} ({name})": (f"--{kind}", name) for kind, name in WITHOUT.items()},
}
Run = dict[str, Any]  # of one search: what is told of it


def play(name: str, tasks: Path, seed: int, given: argparse.Namespace) -> Path:
    """The graded searches of an arm under a seed."""
    out, bin = given.run_dir, Path(sys.executable).parent
    stem = "".join(each if each.isalnum() else "_" for each in name)
    made, graded = out / f"{stem}-{seed}.jsonl", out / f"{stem}-{seed}.graded.jsonl"
    if not graded.exists():
        common = ["--data", str(given.data), "-j", str(given.jobs), "-q", "--resume"]
        bounds = [
            "--max-seconds",
            str(given.seconds),
            "--timeout",
            str(given.timeout),
            "--sandbox-jobs",
            str(given.jobs),
        ]
        search = [str(bin / "mle-rollout"), "-m", "scripted", "--scaffold", "search", *ARMS[name], *bounds]
        subprocess.run([*search, "--seed", str(seed), *common, "-o", str(made), str(tasks)], check=True)
        subprocess.run([str(bin / "mle-grade"), *common, "-o", str(graded), str(made)], check=True)
    return graded


def read(file: Path) -> dict[str, Run]:
    """{task: what its search came to}."""
    found = {}
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            search, grade = searched(record, of := turns(record)), record["grade"]
            assert search is not None
            found[record["task"]["id"]] = {
                "medal": float(grade["medal"] is not None),
                "valid": float(grade["valid"]),
                "median": float(grade["above_median"]),
                "normalised": grade["normalised_score"] if grade["valid"] else 0.0,
                "loops": float(search.loops),
                "improve": search.improve_rate,
                "first": search.first_medal_s,
                "failed": sum(turn.node["score"] is None for turn in of) / max(1, len(of)),
                "seconds": record["usage"]["seconds"],
                "over_time": [(each.handed_in, each.perfect) for each in search.over_time],
            }
    return found


def mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else float("nan")


def sem(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else float("nan")


def told(runs: Mapping[int, Mapping[str, Run]], quantity: str, scale: float = 1.0, digits: int = 1) -> str:
    """Mean over the seeds of the means over their tasks, and its SEM."""
    means = [scale * mean([run[quantity] for run in tasks.values()]) for tasks in runs.values()]
    known = [each for each in means if not math.isnan(each)]
    return f"{mean(known):.{digits}f} ± {sem(known):.{digits}f}"


def against(
    runs: Mapping[int, Mapping[str, Run]], base: Mapping[int, Mapping[str, Run]], quantity: str, scale: float = 1.0
) -> str:
    pairs = [
        scale * (runs[seed][task][quantity] - base[seed][task][quantity])
        for seed in base
        for task in base[seed]
        if task in runs[seed]
    ]
    return "" if runs is base else f"{statistics.fmean(pairs):+.1f} ± {sem(pairs):.1f}"


def row(name: str, runs: Mapping[int, Mapping[str, Run]], base: Mapping[int, Mapping[str, Run]]) -> list[str]:
    return [
        name,
        told(runs, "medal", 100),
        told(runs, "valid", 100),
        told(runs, "normalised"),
        against(runs, base, "normalised"),
        against(runs, base, "medal", 100),
        told(runs, "seconds", 1, 0),
        told(runs, "loops"),
        told(runs, "failed", 100, 0),
        told(runs, "improve", 100),
        told(runs, "first"),
    ]


HEAD = ["", "any medal, %", "valid, %", "normalised score", "against rd-agent", "medals against it", "seconds of work", "loops",
        "failed loops, %", "improve rate, %", "first medal, s"]  # fmt: skip


def curve(runs: Mapping[int, Mapping[str, Run]]) -> list[list[str]]:
    """The medal rate (%) and the mean normalised score at each share of the budget: handed in, and perfect selection."""
    found = []
    for which, name in ((0, "handed in"), (1, "perfect selection")):
        for quantity in ("medal", "normalised"):
            values = []
            for at in range(len(SHARES)):
                verdicts = [run["over_time"][at][which] for tasks in runs.values() for run in tasks.values()]
                got = [float((getattr(each, quantity) or 0.0) if each is not None else 0.0) for each in verdicts]
                values.append(f"{100 * mean(got):.0f} %" if quantity == "medal" else f"{mean(got):.1f}")
            found.append([f"{name}: {quantity}", *values])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("-j", "--jobs", type=int, default=6 * len(os.sched_getaffinity(0)))
    parser.add_argument("--arms", nargs="*", default=list(ARMS), help="those whose names begin so")
    given = parser.parse_args()
    given.run_dir.mkdir(parents=True, exist_ok=True)
    arms = [name for name in ARMS if any(name.startswith(each) for each in given.arms)]
    found: dict[str, dict[int, dict[str, Run]]] = {name: {} for name in arms}
    for seed in range(given.seeds):  # seed by seed: what is there after half of the time is whole seeds of all arms
        for name in arms:
            found[name][seed] = read(play(name, given.tasks, seed, given))
            print(f"seed {seed}: {name}", file=sys.stderr, flush=True)
    base = found[arms[0]]
    print(tabulate([row(name, found[name], base) for name in arms], HEAD, tablefmt="github"))
    for name in arms[:1] + [each for each in arms if each.startswith("without evaluation")]:
        print(f"\n{name}, by share of the budget:\n")
        print(tabulate(curve(found[name]), ["", *(f"{share:g}" for share in SHARES)], tablefmt="github"))


if __name__ == "__main__":
    main()
