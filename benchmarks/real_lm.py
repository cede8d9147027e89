"""Does training on made tasks carry over to real tables? SmolLM2-135M on two cores, over seeds.

    python benchmarks/real_lm.py --hours 8 > benchmarks/real_lm.txt     # again the next night: it goes on

Each seed is `make -C examples/sandmle SIZE=small SEED=...` with tasks, samples and weights of its own; the real tables are the
same for all, split anew by each. What is there already is not made again; after --hours all that runs is killed, and the next call
goes on. What was judged is kept in benchmarks/real_lm/SEED-ARM.jsonl.gz, without prompts and tasks' texts; a seed of which all
arms are kept is not run again. Then the arms are compared: generated tasks that no arm was trained on, and real tables,
paired by task, over the seeds that have both arms. A task's value is the mean over seeds and samples; intervals are over
tasks (see mle-report --compare). --seeds chooses what is run and compared; --hours 0 runs nothing.
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


def keep(folder: Path, seed: int) -> None:
    """The graded rollouts of a seed's arms, as far as they are there: {"kind", "rollout"}, without what a report does not read."""
    KEPT.mkdir(exist_ok=True)
    for arm in ARMS:
        graded = folder / f"{arm}.graded.jsonl"
        if not graded.exists():
            continue
        real = {json.loads(line)["id"] for line in (folder / "real.jsonl").read_text().splitlines()}
        lines = []
        for line in elsewhere(graded.read_text(), folder).splitlines():
            rollout = json.loads(line)
            task = rollout["task"]
            told = {name: value for name, value in task["provenance"].items() if name not in UNREAD}
            answers = [
                {name: message[name] for name in ("role", "content", "loss")}
                for message in rollout["messages"]
                if message["role"] == "assistant"
            ]
            rollout |= {"lineage": [], "messages": answers, "plan": None}
            rollout["task"] = task | {"lineage": [], "description": "", "provenance": told}
            lines.append(json.dumps({"kind": "real" if task["id"] in real else "made", "rollout": rollout}) + "\n")
        file = kept(seed, arm)
        unfinished = file.with_suffix(".partial")
        unfinished.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        unfinished.replace(file)


def elsewhere(text: str, folder: Path) -> str:
    """The text without where this machine keeps the run, the installation and Python (in records' models and tracebacks)."""
    places = {str(folder): "runs/small", sys.prefix: ".venv", str(ROOT): ".", sys.base_prefix: "python"}
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


def kept(seed: int, arm: str) -> Path:
    return KEPT / f"{seed}-{arm}.jsonl.gz"


def joined(arm: str, kind: str, seeds: list[int], folder: Path) -> Path:
    """The rollouts of an arm over seeds, as a file; a real table, which each seed splits anew, is one task of them all."""
    file = folder / f"{arm}.jsonl"
    lines = []
    for seed in seeds:
        for line in gzip.decompress(kept(seed, arm).read_bytes()).decode().splitlines():
            record = json.loads(line)
            task = record["rollout"]["task"]
            if kind == "real":
                task["id"] = task["name"]
            if record["kind"] == kind:
                lines.append(json.dumps(record["rollout"]) + "\n")
    file.write_text("".join(lines))
    return file


def report(*words: str) -> list[dict[str, Any]]:
    """The records that mle-report writes."""
    command = [sys.executable, str(ROOT / "bin" / "mle-report"), "-q", "--json", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def levels(kind: str, seeds: list[int], folder: Path) -> str:
    """A line for each arm: means over tasks, and how many rollouts of how many seeds."""
    lines = []
    for arm in ARMS:
        having = [seed for seed in seeds if kept(seed, arm).exists()]
        if not having:
            continue
        file = joined(arm, kind, having, folder)
        (found,) = (record for record in report("--label", arm, str(file)) if record["task"] == "all")
        shares = [f"{100 * found[name]:.1f}" for name in ("valid", "above_median", "medal")]
        lines.append([arm, len(having), found["rollouts"], *shares, f"{found['reward_mean']:.3f}"])
    headers = ["arm", "seeds", "rollouts", "valid, %", "above median, %", "medal, %", "reward"]
    return tabulate(lines, headers, "github", disable_numparse=True)


def differences(kind: str, seeds: list[int], folder: Path) -> str:
    """A line for each pair of arms and quantity, paired by task."""
    lines = []
    for pair in PAIRS:
        having = [seed for seed in seeds if all(kept(seed, arm).exists() for arm in pair)]
        if not having:
            continue
        words = [word for arm in pair for word in ("--label", arm, str(joined(arm, kind, having, folder)))]
        for by in QUANTITIES:
            (found,) = report("--compare", "--by", by, *words)
            interval = " to ".join(f"{bound:+.3f}" for bound in found["difference_ci"] or ())
            tasks = [found[name] for name in ("win", "tie", "loss")]
            lines.append([f"{pair[1]} - {pair[0]}", by, f"{found['difference_mean']:+.3f}", interval, *tasks])
    headers = ["pair", "quantity", "difference", "95 %", "win", "tie", "loss"]
    return tabulate(lines, headers, "github", disable_numparse=True)


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=FOLDER / "runs" / "small")
    parser.add_argument("--hours", type=float, default=1e9, help="kill what runs after so long")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the Makefile; repeatable")
    given = parser.parse_args()
    end = time.monotonic() + 3600 * given.hours
    for seed in given.seeds if given.hours else []:
        if all(kept(seed, arm).exists() for arm in ARMS):
            continue
        folder = given.out.resolve() / f"seed-{seed}"
        whole = run(seed, folder, given.set, end)
        keep(folder, seed)
        if not whole:
            print(f"seed {seed}: the time is up; the same command goes on", file=sys.stderr)
            break
    with tempfile.TemporaryDirectory() as folder:
        for kind, name in KINDS.items():
            found = [writer(kind, given.seeds, Path(folder)) for writer in (levels, differences)]
            print("\n\n".join([f"## {name.capitalize()}", *found]), end="\n\n")


if __name__ == "__main__":
    main()
