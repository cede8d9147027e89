"""What a training says at its end."""

from collections import Counter
from pathlib import Path
from typing import Any

from mletools.training.account import account, left_out


def step(number: int, loss: float | None, reward: float | None) -> Any:
    return {"step": number, "loss": loss, "reward_mean": reward}


def test_the_ends_of_a_session_and_its_policy() -> None:
    first, last = step(3, 1.23456, 0.125), step(12, -0.004, 0.5)
    assert account(first, last, 10, Path("run/latest")) == (
        "10 steps, to step 12; loss 1.235 first, -0.004 last; reward 0.125 first, 0.5 last; the policy is in run/latest"
    )
    assert account(first, first, 1, None) == "1 step, to step 3; loss 1.235; reward 0.125; no checkpoint was due"
    assert account(step(1, 2.0, None), step(2, 1.0, None), 2, None).startswith(
        "2 steps, to step 2; loss 2 first, 1 last; no "
    )
    assert (
        account(step(1, None, 0.5), step(1, None, 0.5), 1, None)
        == "1 step, to step 1; reward 0.5; no checkpoint was due"
    )


def test_what_was_left_out_names_the_limit() -> None:
    dropped = Counter(no_spread=4, too_long=2, masked_max_turns=1, stale=0)
    assert left_out(dropped) == (
        "not trained on: 4 in groups of equal rewards (--equal-groups), 2 longer than the model's context, "
        "1 masked as max turns (--mask)"
    )
    assert left_out(Counter(stale=0)) == ""
