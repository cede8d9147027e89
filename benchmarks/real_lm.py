"""Does training on made tasks carry over to real tables? SmolLM2-135M on two cores, over seeds.

    python benchmarks/real_lm.py --hours 8 > benchmarks/real_lm.txt     # again the next night: it goes on

Each seed is `make -C examples/sandmle SIZE=small SEED=...` with tasks, samples and weights of its own; the real tables are the
same for all. What is there already is not made again; after --hours everything that runs is killed, and the next call
goes on. A seed that is whole is kept in benchmarks/real_lm/seed-N.jsonl.gz, its rollouts without prompts and tasks' texts: other
machines can go on with the next. Then the arms of the seeds that are kept are compared: generated tasks that no arm was
trained on, and real tables, paired by task. A task's value is the mean over seeds and samples; intervals are over tasks
(see mle-report --compare).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "sandmle"
KEPT = Path(__file__).parent / "real_lm"
ARMS = ("base", "seed-sft", "sft-sandmle", "sparse")
PAIRS = (("base", "seed-sft"), ("seed-sft", "sft-sandmle"), ("seed-sft", "sparse"), ("sparse", "sft-sandmle"))
KINDS = {"made": "generated tasks", "real": "real tables"}
UNREAD = ("hidden_rule", "mutations", "sanity", "description_checks")  # of a task's provenance
QUANTITIES = ("reward", "valid", "medal")


def run(seed: int, out: Path, words: list[str], end: float) -> bool:
    """One seed to its end; False where the time is up before."""
    command = ["make", "-s", "-C", str(FOLDER), "SIZE=small", f"SEED={seed}", f"OUT={out}", *words]
    made = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    try:
        status = made.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait()
        return False
    if status:
        sys.exit(f"seed {seed}: make ended with {status}; its files are in {out}")
    return True


def keep(folder: Path, file: Path) -> None:
    """The graded rollouts of a seed's arms, a line each: {"arm", "kind", "rollout"}, without what a report does not read."""
    lines = []
    for kind in KINDS:
        for arm in ARMS:
            for line in (folder / kind / f"{arm}.jsonl").read_text().splitlines():
                rollout = json.loads(line)
                answers = [message for message in rollout["messages"] if message["role"] == "assistant"]
                rollout |= {"lineage": [], "messages": answers, "plan": None}
                task = rollout["task"]
                told = {name: value for name, value in task["provenance"].items() if name not in UNREAD}
                rollout["task"] = task | {"lineage": [], "description": "", "provenance": told}
                lines.append(json.dumps({"arm": arm, "kind": kind, "rollout": rollout}) + "\n")
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_suffix(".partial")
    unfinished.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    unfinished.replace(file)


def report(*words: str) -> list[dict[str, Any]]:
    """The records that mle-report writes."""
    command = [sys.executable, str(ROOT / "bin" / "mle-report"), "-q", "--json", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def levels(files: dict[str, Path]) -> str:
    """A line for each arm: means over tasks, and how many rollouts."""
    lines = []
    for arm, file in files.items():
        (found,) = (record for record in report("--label", arm, str(file)) if record["task"] == "all")
        shares = [f"{100 * found[name]:.1f}" for name in ("valid", "above_median", "medal")]
        lines.append([arm, found["rollouts"], *shares, f"{found['reward_mean']:.3f}"])
    return tabulate(
        lines, ["arm", "rollouts", "valid, %", "above median, %", "medal, %", "reward"], "github", disable_numparse=True
    )


def differences(files: dict[str, Path]) -> str:
    """A line for each pair of arms and quantity, paired by task."""
    lines = []
    for first, second in PAIRS:
        for by in QUANTITIES:
            words = [
                "--compare",
                "--by",
                by,
                "--label",
                first,
                "--label",
                second,
                str(files[first]),
                str(files[second]),
            ]
            (found,) = report(*words)
            interval = "to".join(f" {bound:+.3f} " for bound in found["difference_ci"] or ()).strip()
            tasks = [found[name] for name in ("win", "tie", "loss")]
            lines.append([f"{second} - {first}", by, f"{found['difference_mean']:+.3f}", interval, *tasks])
    return tabulate(
        lines, ["pair", "quantity", "difference", "95 %", "win", "tie", "loss"], "github", disable_numparse=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=FOLDER / "runs" / "small")
    parser.add_argument("--hours", type=float, default=1e9, help="kill what runs after so long")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the Makefile; repeatable")
    given = parser.parse_args()
    end = time.monotonic() + 3600 * given.hours
    lines: list[dict[str, Any]] = []
    for seed in given.seeds:
        kept = KEPT / f"seed-{seed}.jsonl.gz"
        if not kept.exists():
            folder = given.out.resolve() / f"seed-{seed}"
            if not run(seed, folder, given.set, end):
                print(f"seed {seed}: the time is up; the same command goes on", file=sys.stderr)
                break
            keep(folder, kept)
        lines += map(json.loads, gzip.decompress(kept.read_bytes()).decode().splitlines())
    if not lines:
        sys.exit("no seed is whole")
    with tempfile.TemporaryDirectory() as joined:
        for kind, name in KINDS.items():
            files = {arm: Path(joined) / f"{kind}-{arm}.jsonl" for arm in ARMS}
            for arm, file in files.items():
                found = (line["rollout"] for line in lines if (line["arm"], line["kind"]) == (arm, kind))
                file.write_text("".join(json.dumps(rollout) + "\n" for rollout in found))
            print(f"## {name.capitalize()}\n\n{levels(files)}\n\n{differences(files)}\n")


if __name__ == "__main__":
    main()
