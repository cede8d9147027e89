"""Graded rollouts made by hand, for the tests of mle-filter."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TASK = {
    "kind": "task",
    "version": 1,
    "id": "mill",
    "lineage": [],
    "name": "mill",
    "description": "# The mill\n",
    "modality": "tabular",
    "problem": "regression",
    "data": {"dir": "tasks/mill", "public": ["train.csv"], "digest": "sha256:0", "private_digest": "sha256:0"},
    "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 2},
    "metric": {"name": "mae", "params": {}, "lower_is_better": True},
    "answers": "private/answers.csv",
    "thresholds": {"median": 4.0, "bronze": 3.0, "silver": 2.0, "gold": 1.0},
    "provenance": {"source": "test", "seed": 0},
}


def one_graded(number: int, reward: float | None, **changed: Any) -> dict[str, Any]:
    """A graded rollout of one turn, a group of its own, whose program is no other's; without a reward it is invalid.

    `changed` goes over its keys, that of `grade` and `task` over what is in them.
    """
    valid = reward is not None
    grade = {
        "valid": valid, "reason": None if valid else "no submission.csv", "score": 1.5 if valid else None,
        "medal": None, "above_median": False, "thresholds": None, "position": 1 if valid else None, "teams": 9,
        "human_rank": reward,
        "human_rank_rule": "dojo", "metric": "mae", "lower_is_better": True, "digest": None,
        "reward": {"rule": "human-rank"},
    }  # fmt: skip
    made: dict[str, Any] = {
        "kind": "rollout", "version": 1, "id": f"r{number}", "lineage": [], "task": TASK, "group": f"g{number}",
        "group_size": 1, "sample": 0, "seed": 0, "scaffold": "memory",
        "policy": {"model": "m", "version": None, "sampling": {}},
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!", "loss": True}],
        "turns": [{"action": "execute_code", "duration_s": 1.0, "message": 1, "problem": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "seconds": 1.0, "usd": None},
        "stop_reason": "finished", "code": f"x = {number}", "reward": reward,
    }  # fmt: skip
    for name in ("grade", "task"):
        made[name] = {**(grade if name == "grade" else TASK), **changed.pop(name, {})}
    return {**made, **changed}


def cut_from(human_rank: float | None, rule: str = "dojo", score: float = 2.0) -> dict[str, Any]:
    """The `cut` of a step, with a reference of that human rank, or without one."""
    reference = {"of": "previous", "score": score, "human_rank": human_rank, "human_rank_rule": rule}
    told = None if human_rank is None else reference
    return {"rollout": "whole", "group": "g", "sample": 0, "step": 2, "turns": [1, 1], "reference": told}


def as_lines(*rollouts: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in rollouts).encode()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
