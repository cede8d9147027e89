"""Is the demo's gain real? Run it with several seeds and set the policy before beside the policy after.

For each seed: the whole of examples/quickstart.mk in a folder of its own, then the mean reward of fresh samples on the same
tasks before and after GRPO. Writes benchmarks/demo_gain.md.

    .venv/bin/python benchmarks/demo_gain.py 0 1 2
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def summary(graded: Path, tool: Path) -> dict[str, float]:
    """The "all" row of mle-report."""
    rows = subprocess.run(
        [str(tool / "mle-report"), "-q", "--json", str(graded)], check=True, capture_output=True
    ).stdout
    return next(row for row in map(json.loads, rows.splitlines()) if row["task"] == "all")


def main() -> None:
    tool = Path(sys.executable).parent
    lines = [
        "# The demo's gain over seeds",
        "",
        f"`python benchmarks/demo_gain.py {' '.join(sys.argv[1:])}` on {os.cpu_count()} cores. Reward: milestone, 0 to 1. Each policy: fresh",
        "samples on the same tasks; ± is the standard error of the mean over rollouts.",
        "",
        "| seed | reward before | reward after | gain | valid before | valid after | rollouts trained on | GRPO steps | whole run, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for seed in sys.argv[1:] or ["0", "1", "2"]:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            out = Path(folder) / "demo"
            environment = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"}
            started = time.monotonic()
            command = ["make", "-f", str(ROOT / "examples/quickstart.mk"), f"OUT={out}", f"SEED={seed}"]
            subprocess.run(command, check=True, env=environment)
            seconds = time.monotonic() - started
            before, after = (summary(out / f"{name}.graded.jsonl", tool) for name in ("before", "after"))
            steps = [json.loads(line) for line in (out / "grpo" / "steps.jsonl").read_text().splitlines()]
        lines.append(
            f"| {seed} | {before['reward_mean']:.3f} ± {before['reward_sem']:.3f} | {after['reward_mean']:.3f} ± {after['reward_sem']:.3f} "
            f"| {after['reward_mean'] - before['reward_mean']:+.3f} | {before['valid']:.0%} | {after['valid']:.0%} "
            f"| {sum(step['rollouts'] for step in steps)} | {len(steps)} | {seconds:.0f} |"
        )
        (ROOT / "benchmarks" / "demo_gain.md").write_text("\n".join(lines) + "\n")
        print(lines[-1], file=sys.stderr)


if __name__ == "__main__":
    main()
