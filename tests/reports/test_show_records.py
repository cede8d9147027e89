"""mle-show of tasks and of training steps."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from shown_rollouts import react

from mletools.records import schema

EVIL = "evil\x1b[2J"


def task(**more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "kind": "task", "version": 1, "id": "pond-1", "lineage": [], "name": "pond", "description": f"# Pond\n\nFish. {EVIL}",
        "modality": "tabular", "problem": "binary_classification",
        "data": {"dir": "tasks/pond-1", "public": ["test.csv", "train.csv"], "digest": "", "private_digest": ""},
        "submission": {"id": ["id"], "target": ["y"], "parse": "label", "rows": 72, "labels": ["a", "b"]},
        "metric": {"name": "auc", "params": {"average": "macro"}, "lower_is_better": False}, "answers": "private/answers.csv",
        "leaderboard": "private/leaderboard.csv",
        "thresholds": {"median": 0.5, "bronze": 0.6, "silver": 0.7, "gold": 0.8},
        "provenance": {
            "source": "tabular", "seed": 3, "baselines": [{"name": "ceiling", "score": 0.9}, {"name": "dummy", "score": 0.1}],
            "sanity": {"learnable": "passed", "no_leak_ids": "passed", "other": "skipped: nothing there"},
        },
        **more,
    }  # fmt: skip
    schema.check(made, "task")
    return made


def step(at: int, **more: Any) -> dict[str, Any]:
    made = {
        "kind": "train_step", "version": 1, "id": f"{at:016x}", "lineage": [], "algorithm": "grpo", "step": at,
        "loss": 0.5 / at, "reward_mean": 0.1 * at, "reward_std": 0.2, "grad_norm": 1.0, "tokens": 1000, "rollouts": 16,
        "groups": 4, "duration_s": 1.5, "policy_version": at, **more,
    }  # fmt: skip
    schema.check(made, "train_step")
    return made


def written(folder: Path, *records: dict[str, Any]) -> Path:
    (folder / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def shown(folder: Path, *options: str, **more: Any) -> str:
    return run_command("mle-show", "-q", *options, "x.jsonl", cwd=folder, **more).stdout.decode()


def test_a_task_with_its_files_and_its_ladder(tmp_path: Path) -> None:
    public = written(tmp_path, task()) / "data" / "tasks" / "pond-1" / "public"
    public.mkdir(parents=True)
    (public / "train.csv").write_text("id,y\n" * 300)
    text = shown(tmp_path, "--data", "data")
    assert text.startswith("── task pond-1 ──")
    for line in (
        "name       pond: tabular, binary classification",
        "metric     auc, higher is better, average macro",
        "submission id and y (label), 72 rows; 2 labels: a, b",
        "files      test.csv",
        "           train.csv 1,500 bytes",
        "ranks      against baselines, not people",
        "source     tabular, seed 3",
        "checks     2 passed, 1 skipped",
    ):
        assert f"\n{line}\n" in text
    rungs = [
        line.split()[0].replace("---", "") or line.split()[1]
        for line in text.split("\n")
        if "#####" in line or " 0." in line
    ]
    assert rungs == ["dummy", "median", "bronze", "silver", "gold", "ceiling"]
    assert "\n  # Pond\n" in text and "evil␛[2J" in text and "\x1b" not in text


def test_a_task_of_a_competition_has_people_behind_its_ranks(tmp_path: Path) -> None:
    made = task(provenance={"source": "mle-bench", "seed": 0, "competition": "spooky"})
    made["metric"]["lower_is_better"] = True
    written(tmp_path, made)
    text = shown(tmp_path)
    assert "ranks      against people\n" in text and "source     mle-bench, spooky, seed 0\n" in text
    assert "lower is better" in text and "test.csv\n" in text  # no folder, no sizes
    del made["leaderboard"], made["thresholds"]
    written(tmp_path, made)
    assert "ranks      none: no leaderboard\n" in shown(tmp_path) and "thresholds" not in shown(tmp_path)


def test_training_steps_are_one_table_after_what_the_run_came_to(tmp_path: Path) -> None:
    steps = [step(at, lost=at - 1, sampler_kl=0.25, checkpoint="run/3" if at == 3 else None) for at in (1, 2, 3)]
    written(tmp_path, *steps)
    text = shown(tmp_path)
    assert text.startswith("── training steps of x.jsonl ──")
    assert "\nrun        grpo, 3 steps, 3,000 tokens, 4.5 s in total\n" in text
    assert "\nloss       0.5 in the first step, 0.1667 in the last\n" in text
    assert "\nleft out   3 rollouts\n" in text and "\nsaved      1 checkpoint, the last run/3\n" in text
    head, *rows = [line.split() for line in text.partition("\nstep")[2].partition("\nKL")[0].split("\n")]
    assert head == [
        "loss",
        "reward",
        "±",
        "sd",
        "KL",
        "grad",
        "norm",
        "rollouts",
        "left",
        "out",
        "tokens",
        "seconds",
        "checkpoint",
    ]
    assert rows[2] == ["3", "0.1667", "0.3", "0.2", "0.2500", "1", "16", "2", "1,000", "1.5", "yes"]
    written(tmp_path, step(1, loss=None, reward_mean=None, reward_std=None, grad_norm=None, algorithm="sft"))
    alone = shown(tmp_path)
    assert "loss" not in alone and "KL" not in alone and "sft, 1 step," in alone


def test_records_of_all_kinds_are_listed_and_chosen(tmp_path: Path) -> None:
    written(tmp_path, task(), react(), step(1))
    listed = shown(tmp_path, "--list").split("\n")
    assert listed[0].split()[:2] == ["id", "task"] and listed[1].startswith("react-1")
    assert listed[2].split() == ["id", "modality", "problem", "metric", "better", "rows", "median", "gold"]
    assert listed[3].split()[-5:] == ["auc", "higher", "72", "0.5", "0.8"]
    assert "training steps" not in shown(tmp_path, "--id", "pond") and "task pond-1" in shown(tmp_path, "--id", "pond")
    none = run_command("mle-show", "-q", "--id", "zzz", "x.jsonl", cwd=tmp_path, check=False)
    assert (none.returncode, none.stderr) == (1, b"mle-show: no record begins with zzz\n")


@pytest.mark.parametrize("record", [task(), step(1)], ids=["task", "step"])
def test_turns_and_trees_are_of_rollouts(tmp_path: Path, record: dict[str, Any]) -> None:
    written(tmp_path, record)
    for option, reason in (("--turn=1", b"no rollout, so there are no turns"), ("--tree", b"no search: --tree")):
        done = run_command("mle-show", "-q", option, "x.jsonl", cwd=tmp_path, check=False)
        assert done.returncode == 1 and b"x.jsonl:1: " + reason in done.stderr
