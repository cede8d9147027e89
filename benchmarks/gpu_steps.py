"""The steps of benchmarks/gpu.sh, one process each; see there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate
from train_memory import estimated, weighed

ROOT = Path(__file__).parent.parent
TASKS = ROOT / "examples" / "tasks" / "tasks.jsonl"
# Runs a command of bin/ in this process, and writes its peak memory.
WITH_PEAK = """
import atexit, json, os, resource, runpy, sys
def tell():
    torch = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_available()
    peak = torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    open(os.environ["PEAK"], "w").write(json.dumps({"peak_bytes": peak, "cuda": cuda}))
atexit.register(tell)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PROGRAM = """
import os, time
import pandas as pd
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
size = 4096 if device == "cuda" else 256
a = torch.randn(size, size, device=device)
begun = time.time()
for _ in range(10):
    a = torch.nn.functional.normalize(a @ a)
print(device, torch.cuda.get_device_name() if device == "cuda" else "", os.environ.get("CUDA_VISIBLE_DEVICES"), float(a.sum()))
print("seconds", time.time() - begun)
"""


class Benchmark:
    """Runs steps into `out` until `end` (seconds of time.monotonic()); a step that fails is a result, too."""

    def __init__(self, out: Path, smoke: bool, minutes: float) -> None:
        self.out, self.smoke = out, smoke
        self.end = time.monotonic() + 60 * minutes - 20
        self.results: list[dict[str, Any]] = []
        self.model = out / "model"

    def run(self, name: str, command: Sequence[str], produced: Path | None = None) -> dict[str, Any]:
        """One command in a process of its own; what it was, its time and peak."""
        peak = self.out / f"{name}.peak"
        peak.unlink(missing_ok=True)
        line = [sys.executable, "-c", WITH_PEAK, str(ROOT / "bin" / command[0]), *command[1:]]
        begun = time.monotonic()
        with open(self.out / f"{name}.log", "w") as log:
            try:
                done = subprocess.run(
                    line, stdout=log, stderr=subprocess.STDOUT, timeout=max(1.0, self.end - begun),
                    env={**os.environ, "PEAK": str(peak), "PYTHONPATH": str(ROOT), "MLE_DATA": str(TASKS.parent.parent)}, check=False,
                )  # fmt: skip
                status = "done" if done.returncode == 0 else f"exit {done.returncode}"
            except subprocess.TimeoutExpired:
                status = "out of time"
        result = {"name": name, "status": status, "seconds": time.monotonic() - begun}
        if peak.is_file():
            result |= json.loads(peak.read_text())
        self.results.append(result)
        return result

    def sample(self, groups: int, size: int, tokens: int) -> Path:
        """Rollouts of the model in this process; their rewards are 0 and 1 in turn, for random weights earn none."""
        played = self.out / "rollouts.jsonl"
        chosen = self.out / "tasks.jsonl"
        chosen.write_bytes(b"".join(line + b"\n" for line in TASKS.read_bytes().split(b"\n")[:groups]))
        step = self.run(
            "sample",
            ["mle-rollout", "-m", f"hf:{self.model}", "-g", str(size), "--max-tokens", str(tokens), "--engine-batch",
             str(groups * size), "--prompt", "single-brief", str(chosen), "--force", "-o", str(played)],
        )  # fmt: skip
        graded = self.out / "graded.jsonl"
        lines = played.read_text().splitlines() if played.is_file() else []
        records = [{**json.loads(line), "reward": float(number % 2)} for number, line in enumerate(lines)]
        graded.write_text("".join(json.dumps(record) + "\n" for record in records))
        step["tokens"] = sum(record["usage"]["completion_tokens"] for record in records)
        step["tokens_per_s"] = step["tokens"] / step["seconds"]  # loading the model included
        return graded

    def train(self, command: str, graded: Path, rank: int, rows: int, *options: str) -> None:
        """Two optimiser steps or more; tokens a second are of the last, when nothing is compiled or loaded any more."""
        name = f"{command.removeprefix('mle-train-')}-{f'lora{rank}' if rank else 'full'}"
        run, steps = self.out / name, self.out / f"{name}.jsonl"
        shutil.rmtree(run, ignore_errors=True)
        step = self.run(
            name,
            [command, "--model", str(self.model), "--run-dir", str(run), "--lora-rank", str(rank), "--micro-batch", str(rows),
             "--epochs", "2", *options, str(graded), "--force", "-o", str(steps)],
        )  # fmt: skip
        taken = [json.loads(line) for line in steps.read_text().splitlines()] if steps.is_file() else []
        records = [json.loads(line) for line in graded.read_text().splitlines()]
        lengths = [sum(len(message.get("token_ids") or ()) for message in record["messages"]) for record in records]
        if taken:
            share = taken[-1]["rollouts"] / max(1, len(records))
            step |= {"steps": len(taken), "step_s": taken[-1]["duration_s"]}
            step["tokens"] = share * sum(lengths)
            step["tokens_per_s"] = step["tokens"] / taken[-1]["duration_s"]
            device = "GPU" if step.get("cuda") else "CPU"
            step["estimate_bytes"] = estimated(self.model, rank, rows, max(lengths), device)
        shutil.rmtree(run, ignore_errors=True)

    def lease(self, graded: Path, devices: str | None) -> None:
        """A program on the device that mle-sandbox leases to it."""
        record = json.loads(graded.read_text().splitlines()[0])
        record.pop("reward")
        programs, executed = self.out / "programs.jsonl", self.out / "executed.jsonl"
        programs.write_text(json.dumps({**record, "code": PROGRAM}) + "\n")
        leased = ["--gpus", devices] if devices else []
        memory = "32768" if devices else "4096"  # CUDA maps much more than it uses
        step = self.run(
            "lease",
            ["mle-sandbox", *leased, "--memory-size", memory, "--timeout", "120", str(programs), "--force", "-o", str(executed)],
        )  # fmt: skip
        if executed.is_file():
            execution = json.loads(executed.read_text())["execution"]
            printed = execution["stdout"]["head"]
            step |= {"gpu": execution["gpu"], "program": execution["status"], "printed": printed}
            wanted = "cuda" if devices else "cpu"
            if not printed.startswith(wanted) or (devices is not None) != (execution["gpu"] is not None):
                step["status"] = f"the program did not run on {wanted}"


def devices() -> str | None:
    """The number of the first GPU, or None without any."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return "0" if listed.startswith("GPU 0") else None


def main() -> None:
    smoke, out = os.environ.get("SMOKE") == "1", Path(os.environ["OUT"])
    device = devices()
    if device is None and not smoke:
        raise SystemExit("no GPU: nvidia-smi lists none (a machine without one can run --smoke)")
    benchmark = Benchmark(out, smoke, float(os.environ.get("MINUTES", "9")))
    shutil.rmtree(benchmark.model, ignore_errors=True)
    weighed("1m" if smoke else "0.5b", benchmark.model)
    groups, size, tokens, rows = (1, 4, 32, 2) if smoke else (4, 16, 512, 8)
    graded = benchmark.sample(groups, size, tokens)
    if graded.stat().st_size:
        for rank in (16, 0):
            benchmark.train("mle-train-sft", graded, rank, rows, "--batch", str(2 * rows))
            benchmark.train("mle-train-grpo", graded, rank, rows, "--groups-per-step", str(groups))
        benchmark.lease(graded, device)
    (out / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in benchmark.results))
    rows_of = [
        [one["name"], one["status"], f"{one['seconds']:.0f}", *(
            f"{one[key] / scale:.{places}f}" if key in one else ""
            for key, scale, places in (("tokens_per_s", 1, 0), ("peak_bytes", 1e9, 2), ("estimate_bytes", 1e9, 2))
        )]
        for one in benchmark.results
    ]  # fmt: skip
    print(tabulate(rows_of, ["step", "", "s", "tokens a second", "peak, GB", "estimate, GB"], tablefmt="github"))
    if not graded.stat().st_size or any(one["status"] != "done" for one in benchmark.results):
        raise SystemExit(f"not everything ran: see the logs in {out}")


if __name__ == "__main__":
    main()
