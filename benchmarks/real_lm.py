"""Does training on made tasks carry over to real tables? SmolLM2-135M on two cores, over seeds.

    python benchmarks/real_lm.py --hours 8 > benchmarks/real_lm.txt     # again the next night: it goes on

Each seed is `make -C examples/sandmle SIZE=small SEED=...` with tasks, samples and weights of its own; the real tables are the
same for all. What is there already is not made again; after --hours everything that runs is killed, and the next call
goes on. When the last seed is whole, the arms are compared: generated tasks that no arm was trained on, and real tables, paired
by task. A task's value is the mean over seeds and samples; intervals are over tasks (see mle-report --compare).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "sandmle"
ARMS = ("base", "seed-sft", "sft-sandmle", "sparse")
PAIRS = (("base", "seed-sft"), ("seed-sft", "sft-sandmle"), ("seed-sft", "sparse"), ("sparse", "sft-sandmle"))
KINDS = {"made": "generated tasks", "real": "real tables"}
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
            low, high = found["difference_ci"] or (math.nan, math.nan)
            tasks = [found[name] for name in ("win", "tie", "loss")]
            lines.append(
                [f"{second} - {first}", by, f"{found['difference_mean']:+.3f}", f"{low:+.3f} to {high:+.3f}", *tasks]
            )
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
    folders = [given.out.resolve() / f"seed-{seed}" for seed in given.seeds]
    for seed, folder in zip(given.seeds, folders, strict=True):
        if not run(seed, folder, given.set, end):
            sys.exit(f"seed {seed}: the time is up; the same command goes on")
    for kind, name in KINDS.items():
        joined = given.out / f"all-{kind}"
        joined.mkdir(parents=True, exist_ok=True)
        files = {arm: joined / f"{arm}.jsonl" for arm in ARMS}
        for arm, file in files.items():
            file.write_bytes(b"".join((folder / kind / f"{arm}.jsonl").read_bytes() for folder in folders))
        print(f"## {name.capitalize()}\n\n{levels(files)}\n\n{differences(files)}\n")


if __name__ == "__main__":
    main()
