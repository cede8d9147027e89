"""Clamped rewards that leave no signal are reported."""

from typing import Any

import pytest
from conftest import start_command
from filtered import as_lines, one_graded

from mletools.grading import rewards
from mletools.grading.grader import Signal


def clamped(number: int, task: str, group: str, reward: float = -9.3, was: bool = True, **more: Any) -> dict[str, Any]:
    how = {"rule": "partial-credit", "failure": -10, "clamped": was}
    grade = {"reward": how, "human_rank": None, "human_rank_rule": None, "position": None, "teams": None}
    made = one_graded(number, reward, task={"id": task}, grade=grade, **more)
    return {**made, "group": group, "group_size": 2, "sample": number % 2}


def test_scores_on_the_scale_of_the_thresholds() -> None:
    assert rewards.scaled(60.0, 50.0, 45.0) == -2 and rewards.scaled(45.0, 50.0, 45.0) == 1  # an error
    assert rewards.scaled(0.9, 0.5, 0.7) == pytest.approx(2) and rewards.scaled(None, 0.5, 0.7) is None
    with pytest.raises(ValueError, match="median and gold are equal"):
        rewards.scaled(0.9, 0.5, 0.5)


def test_tasks_and_groups_without_signal_are_counted() -> None:
    signal = Signal()
    for rollout in (
        clamped(0, "a", "a1"), clamped(1, "a", "a1"),
        clamped(2, "a", "a2"), clamped(3, "a", "a2", -10.0, False, valid=False),  # has a signal
        clamped(4, "b", "b1", -3.0, False), clamped(5, "b", "b1"),
        clamped(6, "c", "c1", -3.0, False), clamped(7, "c", "c1", -3.0, False),  # equal, but not by clamping
    ):  # fmt: skip
        rollout["grade"]["valid"] = rollout.pop("valid", True)
        signal.add(rollout)
    tasks, groups = signal.warnings()
    assert tasks.startswith("1 of 3 tasks: every valid score was raised to the best failure's reward")
    assert groups.startswith("1 of 4 groups have no signal")


def test_the_filter_reports_them_even_when_it_is_quiet() -> None:
    lost = [clamped(0, "a", "a1"), clamped(1, "a", "a1")]
    good = [clamped(2, "b", "b1", -3.0, False), clamped(3, "b", "b1")]
    done = start_command("mle-filter", "-q", input=as_lines(*lost, *good))
    assert done.stderr.decode().startswith("mle-filter: 1 of 2 tasks have no signal: ")
    assert start_command("mle-filter", "-q", input=as_lines(*good)).stderr == b""
