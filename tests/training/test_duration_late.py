"""What the steps of a pipe hold where some programs take long, by benchmarks/duration_late.py on the tool's filter and buffer."""

import sys

import pytest
from conftest import ROOT, run_command

sys.path.insert(0, str(ROOT / "benchmarks"))

from duration_late import Found, Pipe

from mletools.training.options import GrpoOptions

STEPS = 24


def found(way: str, weight: str = "off", slow: float = 0.2) -> Found:
    return Pipe(way, weight, (slow, 1200.0), batch=64).run(STEPS)


@pytest.mark.parametrize("slow", [0.2, 0.05])
def test_a_late_rollout_joins_a_later_step(slow: float) -> None:
    """The steps hold what the policy writes: nothing is lost, so no weight is due; eq. 3 is a bias."""
    late = found("late", "auto", slow)
    assert late.share == pytest.approx(slow, abs=0.03) and late.left_out["stale"] == 0
    assert late.weight == late.share and late.largest == 1.0 and late.lost == 0 and late.oldest > 1
    assert found("late", "mean", slow).weight > 4 * slow


def test_a_bound_on_age_loses_what_is_slow_and_the_weights_know() -> None:
    bound = found("bound", "auto", 0.05)
    assert bound.share < 0.01 and bound.left_out["stale"] > 0 and bound.oldest <= 1
    assert bound.lost > 0


def test_groups_wait_for_their_slowest() -> None:
    groups, late = found("groups"), found("late")
    assert groups.seconds > 1.5 * late.seconds


def test_dropped_rollouts_are_lost_and_no_weight_brings_them_back() -> None:
    dropped = found("dropped", "auto")
    assert dropped.share < 0.02 and dropped.lost == dropped.steps * 64
    assert dropped.oldest == 0


def test_options_of_oversampling() -> None:
    from mletools.base.errors import ToolError

    with pytest.raises(ToolError, match="oversample is about the rollouts of a batch: give a batch"):
        GrpoOptions(oversample=2.0)
    with pytest.raises(ToolError, match="it goes with max_staleness 0 and publish_steps 1"):
        GrpoOptions(oversample=2.0, batch=8, max_staleness=1)
    with pytest.raises(ToolError, match="oversample"):
        GrpoOptions(oversample=1.0, batch=8)
    line = ("mle-train-grpo", "--model", "x", "--run-dir", "run", "--batch", "8", "--oversample", "2")
    done = run_command(*line, check=False)
    assert done.returncode == 2 and b"--oversample needs --stream and --publish" in done.stderr
