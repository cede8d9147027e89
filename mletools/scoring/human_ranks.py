"""Human ranks of scores that mle-grade has not ranked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..grading import standing
from ..tasks.private_data import check_data


@dataclass(frozen=True)
class HumanRanks:
    """How many of a leaderboard's teams a score leaves behind, with the task's folder below `data`."""

    data: Path

    def __call__(self, task: Mapping[str, Any], score: float, rule: str = "dojo") -> dict[str, Any]:
        """{human_rank, human_rank_rule}, None both without a leaderboard. RecordError: the folder is not the task's."""
        if "leaderboard" not in task and "public_leaderboard" not in task:
            return {"human_rank": None, "human_rank_rule": None}
        folder = self.data / task["data"]["dir"]
        check_data(folder, task)
        verdict = standing(task, folder, score, None, rule)
        return {"human_rank": verdict.human_rank, "human_rank_rule": verdict.human_rank_rule}
