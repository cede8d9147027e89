"""A family of short programs on two real tables, run once each, and a tiny policy that was taught to write them.

For duration_policy.py. A program chooses one of scikit-learn's models and its size. What it is worth and the CPU seconds
that it takes come from mle-sandbox and mle-grade. Not covered: programs outside of the family.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mletools.base.ids import content_id

GIVEN_UP = 0.5  # of the quickest program's seconds: what a text that is no program takes

PROGRAM = """```python
import pandas as pd
from sklearn.{where} import {model} as Model
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
names = [c for c in test if c != "id"]
model = Model({settings})
model.fit(train[names], train[sub.columns[1]])
sub[sub.columns[1]] = model.predict(test[names])
sub.to_csv("submission.csv", index=False)
```"""
MODELS = [
    *(("ensemble", "ExtraTreesClassifier", f"n_estimators={n}, random_state=0") for n in (1, 3, 10, 30, 100, 300, 1000, 3000)),
    *(("ensemble", "RandomForestClassifier", f"n_estimators={n}, random_state=0") for n in (3, 10, 30, 100, 300, 1000)),
    *(("ensemble", "GradientBoostingClassifier", f"n_estimators={n}, random_state=0") for n in (3, 10, 30, 100)),
    *(("tree", "DecisionTreeClassifier", f"max_depth={n}, random_state=0") for n in (2, 4, 8)),
    ("naive_bayes", "GaussianNB", ""),
    ("discriminant_analysis", "LinearDiscriminantAnalysis", ""),
]  # fmt: skip
TEXTS = [PROGRAM.format(where=where, model=model, settings=settings) for where, model, settings in MODELS]


def command(name: str, *arguments: str) -> None:
    subprocess.run([str(Path(sys.executable).parent / name), "-q", *arguments], check=True)


def rollout(task: dict[str, Any], text: str, index: int, **more: Any) -> dict[str, Any]:
    """A record as mle-rollout writes it."""
    record = {
        "kind": "rollout", "version": 1, "lineage": [], "task": task, "group": task["id"], "group_size": len(TEXTS),
        "sample": index, "seed": 0, "scaffold": "single", "stop_reason": "finished",
        "policy": {"model": "hand-made", "version": None, "sampling": {"temperature": 1.0, "top_p": 1.0}},
        "messages": [{"role": "user", "content": task["name"]}, {"role": "assistant", "content": text, "loss": True}],
        "turns": [{"action": "solve", "duration_s": 0.0}],
        "usage": {"prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None},
        "code": text.removeprefix("```python\n").removesuffix("```"),
    }  # fmt: skip
    return {**record, "id": content_id([task["id"], text]), **more}


def prepare(out: Path) -> None:
    """Tasks, the family's graded runs, and the policy that knows the family; a step that is done is not done again."""
    tasks, made, graded = out / "tasks.jsonl", out / "family.jsonl", out / "family.graded.jsonl"
    data = ["--data", str(out), "--resume"]
    if not tasks.exists():
        command("mle-gen-task", "--source", "sklearn:digits,breast_cancer", "-n", "2", *data, "-o", str(tasks))
    if not graded.exists():
        records = [rollout(task, text, i) for task in read(tasks) for i, text in enumerate(TEXTS)]
        made.write_text("".join(json.dumps(record) + "\n" for record in records))
        ran = out / "family.ran.jsonl"
        command("mle-sandbox", *data, "--timeout", "3000", "-o", str(ran), str(made))
        command("mle-grade", *data, "--reward", "raw", "-o", str(graded), str(ran))
    if not (out / "sft" / "done").exists():
        rates = ["--learning-rate", "6e-3", "--batch", "23", "--micro-batch", "23", "--save-steps", "1000000"]
        where = [
            "--from-scratch",
            "nano",
            "--run-dir",
            str(out / "sft"),
            "-o",
            str(out / "sft.steps.jsonl"),
            "--resume",
        ]
        command("mle-train-sft", *where, *rates, "--epochs", "500", str(graded))
        (out / "sft" / "done").touch()


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


@dataclass(frozen=True)
class Problem:
    """A task's programs: ids (tokens, with the end) of each, its seconds of CPU and its reward.

    The reward is the share of the family's other programs that score lower, ties counted half.
    """

    task: dict[str, Any]
    prompt: list[int]
    ids: list[list[int]]
    seconds: list[float]
    rewards: list[float]


def problems(out: Path, tokenizer: Any) -> list[Problem]:
    from mletools.training.samples import render

    records: dict[str, list[dict[str, Any]]] = {}
    for record in read(out / "family.graded.jsonl"):
        records.setdefault(record["task"]["id"], []).append(record)
    found = []
    for group in records.values():
        rendered = [render(record["messages"], tokenizer)[0] for record in group]
        start = rendered[0].loss_mask.index(1)
        scores = [float(record["reward"]) for record in group]
        found.append(
            Problem(
                group[0]["task"],
                rendered[0].input_ids[:start],
                [sequence.input_ids[start:] for sequence in rendered],
                [float(record["execution"]["cpu_s"]) for record in group],
                [place(score, scores) for score in scores],
            )
        )
    return found


def place(score: float, scores: Sequence[float]) -> float:
    """Share of the other `scores` that are lower, ties counted half."""
    return (sum((score > other) + 0.5 * (score == other) for other in scores) - 0.5) / (len(scores) - 1)


def quickest(problem: Problem) -> float:
    return GIVEN_UP * min(problem.seconds)
