"""How good the levels of the scripted model are: every task solved by every valid level, in a sandbox, and graded.

    mle-gen-task -n 100 -o tasks.jsonl
    python benchmarks/levels.py tasks.jsonl [--data DIR] [--samples 1] [-j 2] [--no-sandbox]

A table of the levels from worst to best as the bank has them: valid submissions; win rate, 1 for a better score on a
task, 1/2 for the same, 0 for a worse one, the mean over the other levels and the tasks (a missing score loses); how
often a level beats the one before it; on how many tasks each threshold is reached; seconds. Then whether the order is
true, and the win rates by modality and by problem. --no-sandbox runs each solution as a plain process with this
Python, without any protection.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tabulate import tabulate

from mletools.grading import grade
from mletools.sandbox import Limits, Setup, open_sandbox
from mletools.solutions import VALID, solution, solves

THRESHOLDS = ("median", "bronze", "silver", "gold")
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
# (solution, folder of the task) -> (submission.csv or None, what was wrong, seconds)
Solve = Callable[[str, Path], tuple["bytes | None", str, float]]


@dataclass(frozen=True)
class Run:
    """One level on one task: its score, None where there is none, with the reason; thresholds reached; seconds."""

    score: float | None
    reason: str
    reached: frozenset[str]
    seconds: float


def plain(code: str, folder: Path) -> tuple[bytes | None, str, float]:
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "input").symlink_to((folder / "public").resolve())
        (Path(work) / "solution.py").write_text(code)
        begun = time.perf_counter()
        command = [sys.executable, "-W", "ignore", "solution.py"]
        done = subprocess.run(command, cwd=work, env=os.environ | THREADS, capture_output=True, text=True, timeout=120)
        seconds = time.perf_counter() - begun
        file = Path(work) / "submission.csv"
        problem = (done.stderr.strip().splitlines() or ["failed"])[-1] if done.returncode else ""
        return (file.read_bytes() if file.exists() and not problem else None), problem, seconds


def run_level(task: Mapping[str, Any], folder: Path, level: str, sample: int, solve: Solve) -> Run:
    submission, problem, seconds = solve(solution(task, level, sample), folder)
    if submission is None:
        return Run(None, problem, frozenset(), seconds)
    verdict = grade(task, folder, submission)
    sign = -1 if task["metric"]["lower_is_better"] else 1
    limits = task.get("thresholds") or {}
    score = verdict.score
    reached = frozenset(name for name, limit in limits.items() if score is not None and sign * score >= sign * limit)
    return Run(score, verdict.reason or "", reached, seconds)


def wins(mine: Run, other: Run, lower_is_better: bool) -> float:
    if mine.score is None or other.score is None:
        return 0.5 if mine.score is other.score else float(other.score is None)
    if mine.score == other.score:
        return 0.5
    return float((mine.score < other.score) == lower_is_better)


def win_rate(results: Sequence[tuple[dict[str, Any], dict[str, Run]]], level: str, others: Sequence[str]) -> float:
    """Mean over tasks and `others` of wins."""
    return statistics.fmean(
        wins(runs[level], runs[other], task["metric"]["lower_is_better"])
        for task, runs in results
        for other in others
        if other != level
    )


def report(results: Sequence[tuple[dict[str, Any], dict[str, Run]]]) -> str:
    rows = []
    for before, level in zip((None, *VALID), VALID, strict=False):
        runs = [runs[level] for _, runs in results]
        rated = [runs[level] for task, runs in results if task.get("thresholds")]
        share = [statistics.fmean(name in run.reached for run in rated) for name in THRESHOLDS] if rated else [None] * 4
        rows.append([
            level,
            statistics.fmean(run.score is not None for run in runs),
            win_rate(results, level, VALID),
            None if before is None else win_rate(results, level, [before]),
            *share,
            statistics.fmean(run.seconds for run in runs),
            max(run.seconds for run in runs),
        ])  # fmt: skip
    head = ["level", "valid", "win rate", "beats the one before", *THRESHOLDS, "mean s", "most s"]
    rates = [row[2] for row in rows]
    steps = [row[3] for row in rows[1:]]
    true = all(a < b for a, b in pairwise(rates)) and all(step > 0.5 for step in steps)
    told = [
        tabulate(rows, head, tablefmt="github", floatfmt=".3f", missingval="-"),
        "",
        f"The order is {'true' if true else 'NOT true'}.",
    ]
    for key in ("modality", "problem"):
        told += ["", by(results, key)]
    return "\n".join(told)


def by(results: Sequence[tuple[dict[str, Any], dict[str, Run]]], key: str) -> str:
    """The win rates of the levels on the tasks of each kind."""
    rows: list[list[Any]] = []
    for kind in sorted({task[key] for task, _ in results}):
        own = [(task, runs) for task, runs in results if task[key] == kind]
        rows.append([kind, len(own), *(win_rate(own, level, VALID) for level in VALID)])
    return tabulate(rows, [key, "tasks", *VALID], tablefmt="github", floatfmt=".2f")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--samples", type=int, default=1, help="answers of each level to each task")
    parser.add_argument("--jobs", "-j", type=int, default=2)
    parser.add_argument("--no-sandbox", action="store_true")
    options = parser.parse_args()
    lines = options.tasks.read_text(encoding="utf-8").splitlines()
    tasks = [task for task in map(json.loads, lines) if solves(task)]
    print(
        f"{len(tasks)} of {len(lines)} tasks can be solved, {options.samples} answers of each level a task", flush=True
    )
    with ExitStack() as stack:
        solve: Solve = plain
        if not options.no_sandbox:
            sandbox = stack.enter_context(open_sandbox("auto", Setup(slots=options.jobs)))

            def solve(code: str, folder: Path) -> tuple[bytes | None, str, float]:
                outcome = sandbox.run(code, folder / "public", Limits(wall_s=60, memory_mb=2048), 0)
                last = (outcome.stderr.decode(errors="replace").strip().splitlines() or [outcome.status])[-1]
                problem = last if outcome.status != "ok" else outcome.submission_problem or ""
                return (None if problem else outcome.submission), problem, outcome.duration_s

        pool = stack.enter_context(ThreadPoolExecutor(options.jobs))
        work = [(task, level, sample) for task in tasks for sample in range(options.samples) for level in VALID]
        runs = list(
            pool.map(lambda one: run_level(one[0], options.data / one[0]["data"]["dir"], one[1], one[2], solve), work)
        )
    count = len(VALID)
    results = [(work[at][0], dict(zip(VALID, runs[at : at + count], strict=True))) for at in range(0, len(work), count)]
    for task, own in results:
        for level, run in own.items():
            if run.score is None:
                print(f"{task['id']} {level}: {run.reason}", file=sys.stderr)
    print(report(results))


if __name__ == "__main__":
    main()
