"""What search agents come to: rd-agent, its rivals, and rd-agent without each of its six components.

    mle-gen-task -n 20 --source tabular --samples 400-600 --seed 31 -j 2 -o tasks.jsonl
    python benchmarks/search.py tasks.jsonl --run-dir runs/search --seeds 5 --seconds 30 -j 10    # again: it goes on

Every arm is a line of mle-rollout and mle-grade, as a user would write it. What each search came to is kept in
benchmarks/search/SEED.jsonl; an arm that is kept there is not run again, and without tasks nothing is run. The
researcher and the developer are the same scripted model in all arms, which knows nothing of the arm it is in and reacts to
what it reads (mletools/simulated/search.py says how); its programs really train, and wait as long as a larger table
would take. A search may use --seconds of its clock, on which the programs of a round count as the longest of them; what all
of them took together is told too, and an arm makes one node a round. Means over the tasks of a seed, then
over seeds, with the SEM over seeds; differences to rd-agent are paired by task and seed, a task's is the mean over the seeds,
and the interval is Student's over tasks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t
from tabulate import tabulate

from mletools.reports.search import SHARES, searched
from mletools.reports.turns import Verdict, turns

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
CLAIMS = {
    **{preset: ("--preset", preset) for preset in PRESETS},
    "rd-agent, one node a round": ("--set", "paths.at_once=1"),
    **{f"without {kind} ({name})": (f"--{kind}", name) for kind, name in WITHOUT.items()},
}
SETTINGS = {
    "rd-agent, fresh rows count half": ("--set", "evaluation.fresh=0.5"),
    "rd-agent, evaluation standard": ("--evaluation", "standard"),
}
# The default beside the preset for a night, both with three nodes at once: by the clock on the wall, and by money alone.
NIGHT = {
    f"{preset}, equal {what}": ("--preset", preset, *bound)
    for what, bound in (
        ("seconds", ("--max-seconds", "30")),
        ("USD", ("--max-seconds", "600", "--max-usd", "0.4", "--price", "2,8")),
    )
    for preset in ("rd-agent", "night")
}
AT_ONCE, NODES = 10, 3  # searches of these arms at a time, on the wall, and nodes of each
ARMS = CLAIMS | SETTINGS | NIGHT
CURVES = ("rd-agent", f"without evaluation ({WITHOUT['evaluation']})")  # whose way over the budget is shown
CHOSEN = ("handed in", "perfect selection")
KEPT = Path(__file__).parent / "search"
Run = dict[str, Any]  # of one search: what is told of it


def play(name: str, tasks: Path, seed: int, given: argparse.Namespace) -> Path:
    """The graded searches of an arm under a seed."""
    out, bin = given.run_dir, Path(sys.executable).parent
    stem = "".join(each if each.isalnum() else "_" for each in name)
    graded = out / f"{stem}-{seed}.graded.jsonl"
    if graded.exists():
        return graded
    common = ["--data", str(given.data), "-q", "--resume"]
    search = [str(bin / "mle-rollout"), "-m", "scripted", "--scaffold", "search", "--timeout", str(given.timeout)]
    search += ["--seed", str(seed), *common]
    made = [out / f"{stem}-{seed}.jsonl"]
    if name in NIGHT:  # on the wall, searches that wait for workers of others would be compared by their luck
        lines = tasks.read_text(encoding="utf-8").splitlines(keepends=True)
        made = [out / f"{stem}-{seed}-{at}.jsonl" for at in range(0, len(lines), AT_ONCE)]
        for at, part in enumerate(made):
            some = out / f"tasks-{at}.jsonl"
            some.write_text("".join(lines[AT_ONCE * at : AT_ONCE * (at + 1)]), encoding="utf-8")
            at_once = ["-j", str(AT_ONCE * NODES), "--sandbox-jobs", str(AT_ONCE * NODES)]
            subprocess.run([*search, *ARMS[name], *at_once, "-o", str(part), str(some)], check=True)
    else:
        bounds = [
            "--clock",
            "work",
            "--max-seconds",
            str(given.seconds),
            "-j",
            str(given.jobs),
            "--sandbox-jobs",
            str(given.jobs),
        ]
        subprocess.run([*search, *ARMS[name], *bounds, "-o", str(made[0]), str(tasks)], check=True)
    subprocess.run([str(bin / "mle-grade"), *common, "-j", "2", "-o", str(graded), *map(str, made)], check=True)
    return graded


def read(file: Path, name: str) -> Iterator[Run]:
    """What the searches of an arm came to."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            search, grade = searched(record, of := turns(record)), record["grade"]
            assert search is not None
            run = {
                "arm": name,
                "task": record["task"]["id"],
                "medal": float(grade["medal"] is not None),
                "valid": float(grade["valid"]),
                "median": float(grade["above_median"]),
                "normalised": round(grade["normalised_score"], 3) if grade["valid"] else 0.0,
                "loops": float(search.loops),
                "improve": rounded(search.improve_rate),
                "first": rounded(search.first_medal_s),
                "failed": rounded(sum(turn.node["score"] is None for turn in of) / max(1, len(of))),
                "seconds": rounded(record["usage"]["seconds"]),
                "usd": rounded(record["usage"]["usd"]),
            }
            if name in CURVES:
                standings = [(each.handed_in or Verdict(), each.perfect or Verdict()) for each in search.over_time]
                run["over_time"] = {
                    which: {
                        "medal": [float(verdicts[at].medal) for verdicts in standings],
                        "normalised": [rounded(verdicts[at].normalised or 0.0) for verdicts in standings],
                    }
                    for at, which in enumerate(CHOSEN)
                }
            yield run


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def kept(folder: Path, seed: int) -> dict[str, dict[str, Run]]:
    """{arm: {task: what its search came to}} of the searches that are kept of a seed."""
    found: dict[str, dict[str, Run]] = {}
    with contextlib.suppress(FileNotFoundError):
        for run in map(json.loads, (folder / f"{seed}.jsonl").read_text(encoding="utf-8").splitlines()):
            found.setdefault(run["arm"], {})[run["task"]] = run
    return found


def keep(folder: Path, seed: int, runs: Iterable[Run]) -> None:
    folder.mkdir(exist_ok=True)
    file, unfinished = folder / f"{seed}.jsonl", folder / f"{seed}.jsonl.partial"
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    unfinished.write_text(before + "".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    unfinished.replace(file)


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
    """The mean over tasks of what the arm has over the base, a task's value being the mean over the seeds; its 95 % interval."""
    if runs is base:
        return ""
    seeds = runs.keys() & base.keys()
    by_task = [
        scale * statistics.fmean(runs[seed][task][quantity] - base[seed][task][quantity] for seed in seeds)
        for task in next(iter(base.values()))
    ]
    mean, half = statistics.fmean(by_task), float(t.ppf(0.975, len(by_task) - 1)) * sem(by_task)
    return f"{mean:+.1f} ({mean - half:.1f} to {mean + half:.1f})"


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
    for which in CHOSEN:
        for quantity in ("medal", "normalised"):
            ways = [run["over_time"][which][quantity] for tasks in runs.values() for run in tasks.values()]
            means = [mean(got) for got in zip(*ways, strict=True)]
            values = [f"{100 * each:.0f} %" if quantity == "medal" else f"{each:.1f}" for each in means]
            found.append([f"{which}: {quantity}", *values])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, nargs="?", help="what is searched for; nothing is run without")
    parser.add_argument("--run-dir", type=Path, default=Path("runs/search"))
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("-j", "--jobs", type=int, default=5 * len(os.sched_getaffinity(0)))
    parser.add_argument("--arms", nargs="*", default=list(ARMS), help="those whose names begin so")
    given = parser.parse_args()
    arms = [name for name in ARMS if any(name.startswith(each) for each in given.arms)]
    if given.tasks:
        given.run_dir.mkdir(parents=True, exist_ok=True)
        ids = {json.loads(line)["id"] for line in given.tasks.read_text(encoding="utf-8").splitlines()}
        # the papers' claims first, seed by seed: after half of the time there are whole seeds of their arms
        for seed, name in [
            (seed, name) for of in (CLAIMS, SETTINGS, NIGHT) for seed in range(given.seeds) for name in of
        ]:
            if name not in arms:
                continue
            if name not in kept(given.kept, seed):
                keep(given.kept, seed, read(play(name, given.tasks, seed, given), name))
                print(f"seed {seed}: {name}", file=sys.stderr, flush=True)
            if kept(given.kept, seed)[name].keys() != ids:
                sys.exit(f"{given.kept / f'{seed}.jsonl'}: {name} searched for other tasks than those of {given.tasks}")
    found: dict[str, dict[int, dict[str, Run]]] = {name: {} for name in arms}
    for seed in range(given.seeds):
        for name, runs in kept(given.kept, seed).items():
            if name in found:
                found[name][seed] = runs
    if not found[arms[0]]:
        sys.exit(f"{given.kept}: nothing is kept of {arms[0]}, which the others are compared to")
    base = found[arms[0]]
    told_of = [name for name in arms if found[name] and name not in NIGHT]
    if told_of:
        print(tabulate([row(name, found[name], base) for name in told_of], HEAD, tablefmt="github"))
    for what in ("seconds", "USD"):  # each against the default with as much of it
        pair = [name for name in NIGHT if name.endswith(what) and found.get(name)]
        if pair:
            rows = [row(name, found[name], found[pair[0]]) for name in pair]
            print(f"\n{tabulate(rows, HEAD, tablefmt='github')}")
    for name in CURVES:
        if found.get(name):
            print(f"\n{name}, by share of the budget:\n")
            print(tabulate(curve(found[name]), ["", *(f"{share:g}" for share in SHARES)], tablefmt="github"))


if __name__ == "__main__":
    main()
