"""Is the demo's gain real? Sets the policy before beside the policy after, for finished demo folders of several seeds.

    for seed in 0 1 2; do make demo SEED=$seed DEMO=demo-$seed; done
    .venv/bin/python benchmarks/demo_gain.py demo-0 demo-1 demo-2 > benchmarks/demo_gain.md

Each policy's numbers are over fresh samples on the same tasks.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from mletools.reports.statistics import mean, sem


def read(graded: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in graded.read_bytes().split(b"\n") if line]


def summary(graded: Path) -> dict[str, float]:
    """Mean and standard error of the reward over rollouts, which are the samples of one trained policy here; rates."""
    rollouts = read(graded)
    rewards = [rollout["reward"] for rollout in rollouts]
    return {
        "reward_mean": mean(rewards) or 0.0,
        "reward_sem": sem(rewards) or 0.0,
        "valid": mean([float(rollout["grade"]["valid"]) for rollout in rollouts]) or 0.0,
        "medal": mean([float(rollout["grade"]["medal"] is not None) for rollout in rollouts]) or 0.0,
        "rollouts": len(rollouts),
    }


def spelling(graded: Path) -> str:
    """How many of the invalid rollouts failed by a syntax error."""
    rollouts = read(graded)
    invalid = [rollout for rollout in rollouts if not rollout["grade"]["valid"]]
    errors = [rollout for rollout in invalid if "SyntaxError" in json.dumps(rollout["execution"]["stderr"])]
    return f"{len(errors)} of {len(invalid)}"


def row(folder: Path) -> str:
    """One line of the table."""
    seed = json.loads((folder / "tasks.jsonl").read_bytes().split(b"\n")[0])["lineage"][0]["seed"]
    before, after = summary(folder / "before.graded.jsonl"), summary(folder / "after.graded.jsonl")
    steps = [json.loads(line) for line in (folder / "grpo" / "steps.jsonl").read_bytes().splitlines()]
    epochs = steps[0]["lineage"][0]["options"]["epochs"]
    seconds = (folder / "report.txt").stat().st_mtime - (folder / "tasks.jsonl").stat().st_mtime
    gain = after["reward_mean"] - before["reward_mean"]
    error = (before["reward_sem"] ** 2 + after["reward_sem"] ** 2) ** 0.5
    cells = [
        str(seed),
        f"{before['reward_mean']:.3f} ± {before['reward_sem']:.3f}",
        f"{after['reward_mean']:.3f} ± {after['reward_sem']:.3f}",
        f"{gain:+.3f} ({gain / error:.0f} SEM)",
        f"{before['valid']:.0%} → {after['valid']:.0%}",
        f"{spelling(folder / 'before.graded.jsonl')} → {spelling(folder / 'after.graded.jsonl')}",
        f"{before['medal']:.0%} → {after['medal']:.0%}",
        f"{before['rollouts']} + {after['rollouts']}",
        str(sum(step["rollouts"] for step in steps) // epochs),
        str(len(steps)),
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    heads = [
        "seed",
        "reward before",
        "reward after",
        "gain",
        "valid",
        "invalid by syntax error",
        "any medal",
        "samples",
        "trained on",
        "steps",
        "s",
    ]
    print("# The demo's gain over seeds\n")
    print(
        f"`benchmarks/demo_gain.py` on {os.cpu_count()} cores, no GPU. Reward: milestone, 0 to 1; ± is the standard error of the"
    )
    print(
        "mean over rollouts (fresh samples, before and after, on the same four tasks). Trained on: rollouts, each in four passes."
    )
    print("s: wall seconds of the whole demo without the set-up.\n")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in sys.argv[1:]:
        print(row(Path(name)))


if __name__ == "__main__":
    main()
