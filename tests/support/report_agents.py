"""Rollouts of agents in turns, for reports."""

from typing import Any

from report_builders import rollout

BOARD = {"human_rank": 0.5, "human_rank_rule": "dojo", "normalised_score": 50.0, "teams": 10}


def agent(task: str, sample: int, *turns: tuple[str, dict[str, Any] | None], **more: Any) -> dict[str, Any]:
    """A graded rollout of an agent that took these actions, with what the test says of each submission."""
    taken = [
        {"message": 2 * at + 1, "action": action, "problem": None, "code": None, "duration_s": 1.0, "grade": grade}
        for at, (action, grade) in enumerate(turns)
    ]
    return {**rollout(task, sample, 0.5, **more), "scaffold": "codeact", "settings": {}, "turns": taken}
