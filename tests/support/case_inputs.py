"""The larger inputs of tests/cases, which builders make: a case's file `records` names one of INPUTS.

To see one, or to run a case by hand: python tests/support/case_inputs.py NAME
"""

import json
import sys
from pathlib import Path
from typing import Any

from shown_rollouts import codeact, react, single

CASES = Path(__file__).parents[1] / "cases"


def in_turns() -> list[dict[str, Any]]:
    """mle-show: two rollouts in turns."""
    return [react(), codeact()]


def shown() -> list[dict[str, Any]]:
    """mle-show: a rollout of each of three scaffolds."""
    return [*in_turns(), single()]


def listed() -> list[dict[str, Any]]:
    """mle-show --list: beside these, one of hostile text, and one whose agent was shown test scores."""
    hostile = json.loads((CASES / "mle-show/hostile-text/input").read_text())
    return [*shown(), hostile, {**react(), "id": "shown", "reveal_test": True}]


# Task, sample, score (None: an invalid submission), reward, medal, human rank, normalised score.
COMPARED: list[tuple[str, int, float | None, float, str | None, float | None, float | None]] = [
    ("houses", 0, 12.5, 0.4, None, 0.6, 55.0),
    ("houses", 1, None, 0.1, None, None, None),
    ("houses", 2, 9.0, 0.8, "bronze", 0.9, 80.0),
    ("wine", 0, 0.81, 0.3, None, None, None),
    ("wine", 1, 0.97, 0.9, "silver", None, None),
    ("wine", 2, None, 0.0, None, None, None),
    ("houses", 0, 8.0, 0.9, "silver", 0.95, 90.0),
    ("houses", 1, 9.5, 0.8, "bronze", 0.9, 75.0),
    ("houses", 2, 14.0, 0.3, None, 0.5, 40.0),
    ("wine", 0, 0.99, 1.0, "gold", None, None),
    ("wine", 2, 0.95, 0.4, None, None, None),
]
BELOW_MEDIAN = (0.81, 14.0)


def compared() -> list[dict[str, Any]]:
    """mle-report: two sets of graded rollouts on two tasks, six of the first set and five of the second."""
    return [
        graded(task, sample, score, reward, medal, human_rank, normalised)
        for task, sample, score, reward, medal, human_rank, normalised in COMPARED
    ]


def graded(
    name: str,
    sample: int,
    score: float | None,
    reward: float,
    medal: str | None,
    human_rank: float | None,
    normalised: float | None,
) -> dict[str, Any]:
    """A graded rollout of `houses`, which has a leaderboard, or of `wine`, which has none."""
    lower, metric = name == "houses", {"houses": "rmse", "wine": "auc"}[name]
    task = {
        "kind": "task", "version": 1, "id": name, "lineage": [], "name": name, "description": "",
        "modality": "tabular", "problem": "regression",
        "data": {"dir": name, "public": [], "digest": "", "private_digest": ""},
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 1},
        "metric": {"name": metric, "params": {}, "lower_is_better": lower}, "answers": "private/answers.csv",
        "provenance": {"source": "by hand", "seed": 0},
    }  # fmt: skip
    grade: dict[str, Any] = {
        "valid": score is not None, "reason": None, "score": score, "medal": medal,
        "above_median": score is not None and score not in BELOW_MEDIAN, "metric": metric, "lower_is_better": lower,
        "digest": None, "reward": {"rule": "milestone", "format_rate": 1.0},
    }  # fmt: skip
    if name == "houses":
        rule = None if human_rank is None else "dojo"
        grade |= {"human_rank": human_rank, "human_rank_rule": rule, "normalised_score": normalised, "teams": 120}
    return {
        "kind": "rollout", "version": 1, "id": f"{name}-0-{sample}",
        "lineage": [{"tool": "mle-rollout", "version": "0.1.0", "options": {}, "seed": 0}], "task": task,
        "group": f"{name}-0", "group_size": 1, "sample": sample, "seed": 0, "scaffold": "single",
        "policy": {"model": "scripted", "version": 1, "sampling": {}}, "messages": [{"role": "user", "content": ""}],
        "turns": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 250, "seconds": 2.0, "usd": 0.01},
        "stop_reason": "finished", "code": None, "grade": grade, "reward": reward,
    }  # fmt: skip


INPUTS = {"compared": compared, "in-turns": in_turns, "listed": listed, "shown": shown}


def lines(name: str) -> bytes:
    """The input of that name, as JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in INPUTS[name]()).encode()


if __name__ == "__main__":
    sys.stdout.buffer.write(lines(sys.argv[1]))
