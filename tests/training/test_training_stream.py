"""Training on rollouts as they come: what makes a step, what waits, what a kill loses, how durations are weighed."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mletools.base.errors import RecordError, ToolError
from mletools.base.published import wanted
from mletools.training import checkpoints
from mletools.training.algorithms import settle
from mletools.training.durations import arrival_weights, duration_weights
from mletools.training.group_buffer import GroupBuffer, held_steps
from mletools.training.grpo import GrpoOptions, GrpoRun
from mletools.training.microbatches import Block, Layout, blocks, cut, tensors_of, work
from mletools.training.publish import StreamOptions
from mletools.training.samples import Sample, TokenSequence, rollouts_in
from mletools.training.session import Session
from mletools.training.steps import OptimiserStep, Row, StepRecipe
from mletools.training.stream import Arrivals, Spool, as_line, from_line


def sample(identity: str, reward: float | None, size: int = 4, version: int = 0, **more) -> Sample:
    """Of group `identity[0]`."""
    return Sample(
        identity, identity[0], (TokenSequence([1, 2], [0, 1], [0.0, -1.0]),), reward, version, group_size=size, members=size,
        **more,
    )  # fmt: skip


def test_of_a_group_in_several_steps_each_has_its_share_of_the_lost() -> None:
    """Six of eight came; the two count once, and weigh as much however the steps are cut."""
    for most in (6, 3, 2):
        pool = GroupBuffer(StepRecipe(batch=most, duration_weight="auto"), {}, Counter())
        for at in range(6):
            pool.add(replace(sample(f"g{at}", float(at % 2), size=8), execution_s=4.0, duration_s=4.0))
        pool.end()
        steps = list(iter(pool.take, None))
        assert [len(step.samples) for step in steps] == [most] * (6 // most)
        assert [step.lost for step in steps] == pytest.approx([2 * most / 6] * len(steps))
        assert all(step.weights == pytest.approx(arrival_weights([4.0] * most, 2 * most / 6)) for step in steps)


def feed(pool: GroupBuffer, *samples: Sample) -> list[str] | None:
    """What the next step holds once these have come."""
    for one in samples:
        pool.add(one)
    step = pool.take()
    return None if step is None else [one.id for one in step.samples]


def test_a_batch_is_what_came_first_and_the_late_count_later() -> None:
    dropped: Counter[str] = Counter()
    pool = GroupBuffer(StepRecipe(batch=3, scale_rewards="none"), {}, dropped, stream=True)
    assert feed(pool, sample("a0", 0.0), sample("b0", 5.0), sample("a1", 1.0)) is None  # b0 has nobody to compare with
    for one in (sample("a2", 2.0), sample("b1", 5.0)):
        pool.add(one)
    step = pool.take()
    assert [one.id for one in step.samples] == ["a0", "a1", "a2"]
    assert [row.advantage for row in step.rows] == [-1.0, 0.0, 1.0]
    assert (step.in_flight, step.lost, step.weights) == (1, 0, None)
    # a3 comes late: it is measured against all of its group, trained on or not; mean of 0, 1, 2, 9 is 3
    pool.add(sample("a3", 9.0))
    pool.add(sample("b2", 8.0))
    step = pool.take()
    assert [one.id for one in step.samples] == ["b0", "b1", "a3"]
    assert {row.sample.id: row.advantage for row in step.rows} == {"b0": -1.0, "b1": -1.0, "a3": 6.0}
    pool.end()
    step = pool.take()
    assert [one.id for one in step.samples] == ["b2"] and step.lost == 1
    assert pool.take() is None and dropped == {}


def test_a_rollout_cut_into_steps_counts_once(tmp_path: Path) -> None:
    """Of three rollouts one gave four steps, all kept; of one a filter kept one step of two; one had none, and is marked."""
    whole = [sample(f"{name}0", 1.0, 1, share=0.25, arrived=1) for name in "abcd"]
    half = [sample("e0", 1.0, 1, share=0.5, arrived=1), sample("f0", None, 1, share=0.5, arrived=1, kept=False)]
    none = [sample("g0", None, 1, arrived=1, kept=False)]
    recipe = StepRecipe(batch=4, baseline="none")
    pool = GroupBuffer(recipe, {}, Counter(), stream=True)
    arrivals = Arrivals(
        iter([*whole, *half, *none]), pool, Spool(tmp_path, 0, None), lambda: False, lambda reward: None
    )
    options = SimpleNamespace(batch=4, oversample=None)

    def run(trained: float) -> Any:
        return SimpleNamespace(_arrivals=arrivals, trained=trained, options=options, recipe=recipe)

    steps = arrivals.steps()
    first = next(steps)
    assert [each.id for each in first.samples] == ["a0", "b0", "c0", "d0"] and rollouts_in(first.samples) == 1
    assert GrpoRun._rollouts_a_step.fget(run(0)) == 1  # four samples of one rollout
    assert rollouts_in(next(steps).samples) == 0.5
    assert arrivals.total == 3 and GrpoRun.refused.fget(run(1.5)) == 1.5
    assert GrpoRun._rollouts_a_step.fget(run(1.5)) == 3  # five samples of three rollouts: 2.4


def test_traces_that_go_on_coming_to_a_group_are_trained_on() -> None:
    """A run of scaffold memory has any number of traces; those that came together are a step."""
    pool = GroupBuffer(StepRecipe(groups_per_step=1), {}, Counter(), stream=True)
    assert feed(pool, sample("g0", 0.0, 2)) is None
    assert feed(pool, sample("g1", 1.0, 2)) == ["g0", "g1"]
    assert feed(pool, sample("g2", 0.0, 2)) is None
    assert feed(pool, sample("g3", 1.0, 2)) == ["g2", "g3"]


def test_groups_come_in_the_order_in_which_they_became_complete() -> None:
    pool = GroupBuffer(StepRecipe(groups_per_step=1), {}, dropped := Counter(), stream=True)
    assert feed(pool, sample("a0", 0.0, 2), sample("b0", 0.0, 2)) is None
    assert feed(pool, sample("b1", 1.0, 2)) == ["b0", "b1"]
    assert feed(pool, sample("c0", 1.0, 2), sample("c1", 1.0, 2)) is None  # no spread: goes at once
    assert feed(pool, sample("a1", None, 2)) is None  # complete, and one of it has no reward
    assert feed(pool, sample("d0", 1.0, 3)) is None
    pool.end()
    assert pool.take() is None
    assert dropped == {"no_spread": 2, "no_reward": 1, "lone": 2}


def test_groups_without_a_spread_count_where_they_are_to() -> None:
    """Two groups a step: one of equal rewards, whose rows divide the loss and teach nothing; a lone rollout is no group."""
    recipe = StepRecipe(groups_per_step=2, equal_groups=True)
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True)
    assert feed(pool, sample("a0", None, 2), sample("a1", 1.0, 2)) is None
    pool.add(sample("b0", -1.0, 2))
    pool.add(sample("b1", -1.0, 2))
    pool.add(sample("c0", 0.0, 2))
    pool.add(sample("c1", 1.0, 2))
    step = pool.take()
    assert step is not None and step.groups == 2 and step.rollouts == 4
    assert [row.advantage for row in step.rows] == pytest.approx([0, 0, -(0.5**0.5), 0.5**0.5], abs=1e-3)
    assert dropped == {"no_reward": 1, "lone": 1}


def test_the_first_rollout_that_is_too_long_is_told_of() -> None:
    said: list[str] = []
    recipe = StepRecipe(batch=1, baseline="none", context=1)
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True, say=said.append)
    assert feed(pool, sample("a0", 1.0, 1), sample("b0", 1.0, 1)) is None and dropped == {"too_long": 2}
    assert said == [
        "a rollout of 2 tokens is longer than the 1 that the model takes, and is left out, as are all such (too_long)"
    ]


@pytest.mark.parametrize("reward", [1e200, -1e7, float("inf"), float("nan")])
def test_a_reward_that_is_no_number_or_beyond_all_others_is_left_out(reward: float) -> None:
    pool = GroupBuffer(StepRecipe(groups_per_step=1), {}, dropped := Counter(), stream=True)
    assert feed(pool, sample("a0", 1.0, 3), sample("a1", reward, 3), sample("a2", 0.0, 3)) == ["a0", "a2"]
    assert dropped == {"extreme_reward": 1}


def test_a_filter_tells_how_many_of_a_group_are_to_come() -> None:
    pool = GroupBuffer(StepRecipe(groups_per_step=1, duration_weight="auto"), {}, Counter(), stream=True)
    some = {"size": 4, "arrived": 4}
    members = [sample(name, reward, **some) for name, reward in (("a0", 0.0), ("a1", 1.0))]
    step = None
    for one in members:
        pool.add(Sample(**{**vars(one), "members": 2}))
        step = pool.take() or step
    assert [one.id for one in step.samples] == ["a0", "a1"]
    assert (step.lost, step.in_flight, step.weights) == (0, 0, None)  # all four had come; two were filtered out


def test_stale_rollouts_are_left_out() -> None:
    version = [0]
    newer = GroupBuffer(StepRecipe(batch=2), {}, dropped := Counter(), stream=True, version=lambda: 3)
    assert feed(newer, sample("a0", 0.0, version=4), sample("a1", 1.0, version=3)) is None
    assert dropped == {"of_another_run": 1}
    pool = GroupBuffer(
        StepRecipe(batch=2, max_staleness=1), {}, dropped := Counter(), stream=True, version=lambda: version[0]
    )
    assert feed(pool, sample("a0", 0.0, version=0)) is None
    version[0] = 2
    assert feed(pool, sample("a1", 1.0, version=1), sample("a2", 2.0, version=2)) == ["a1", "a2"]
    assert dropped == {"stale": 1}


def test_what_has_become_stale_is_lost() -> None:
    """So the slow one that came in time stands for those that did not, over the whole step."""
    version = [1]
    recipe = StepRecipe(
        batch=3, baseline="batch", scale_rewards="none", duration_weight="auto", max_staleness=0
    )  # groups of one: they need no others
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True, version=lambda: version[0])
    for name in ("a", "b"):
        assert feed(pool, sample(name, 0.0, 1, version=0)) is None
    for name, reward, seconds in (("c", 0.0, 1.0), ("d", 3.0, 2.0), ("e", 3.0, 6.0)):
        pool.add(sample(name, reward, 1, version=1, duration_s=seconds))
    step = pool.take()
    assert dropped == {"stale": 2} and (step.lost, step.in_flight) == (2, 0)
    assert step.weights == pytest.approx(arrival_weights([1.0, 2.0, 6.0], 2)) and max(step.weights) > 1
    assert [row.advantage for row in step.rows] == pytest.approx(
        [weight * value for weight, value in zip(step.weights, [-2.0, 1.0, 1.0], strict=True)]
    )
    for name in "fgh":
        pool.add(sample(name, 1.0, 1, version=1, duration_s=1.0))
    assert (pool.take().lost, dropped["stale"]) == (0, 2)  # they count once


def test_a_group_that_a_filter_held_came_as_late_as_its_slowest() -> None:
    """So its quick members stand for as many as the slow one does: the group was late as a whole."""
    version = [1]
    recipe = StepRecipe(batch=4, scale_rewards="none", duration_weight="auto", max_staleness=0)
    pool = GroupBuffer(recipe, {}, Counter(), stream=True, version=lambda: version[0])
    for name in ("a0", "a1"):
        assert feed(pool, sample(name, 0.0, 2, version=0, arrived=2)) is None
    for name, reward, seconds in (("b0", 0.0, 1.0), ("b1", 1.0, 9.0), ("c0", 0.0, 1.0), ("c1", 1.0, 1.0)):
        pool.add(sample(name, reward, 2, version=1, duration_s=seconds, arrived=2))
    step = pool.take()
    assert step.lost == 2 and step.weights == pytest.approx(arrival_weights([9.0, 9.0, 1.0, 1.0], 2))
    assert step.weights[0] == step.weights[1] > 1


def test_oversampling_drops_what_comes_after_a_step_and_counts_it_as_lost() -> None:
    version = [0]
    recipe = StepRecipe(batch=2, baseline="batch", duration_weight="auto", max_staleness=0, oversample=2.5)
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True, version=lambda: version[0])
    for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 3.0)):  # of the five that were begun
        pool.add(sample(name, seconds, 1, duration_s=seconds))
    step = pool.take()
    assert [one.id for one in step.samples] == ["a", "b"] and step.lost == 3
    assert step.weights == pytest.approx(arrival_weights([1.0, 2.0], 3))
    version[0] = 1
    assert feed(pool, sample("d", 4.0, 1)) is None and dropped == {"stale": 2} and pool.waiting == []


def test_every_rollout_counts_where_the_baseline_is_the_step_s_mean() -> None:
    """Groups whose rewards are all equal are no reason to leave any out: every arm sees as many rollouts."""
    recipe = StepRecipe(batch=4, baseline="batch", scale_rewards="batch")
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True)
    for name, reward in (("a0", -10.0), ("a1", -10.0), ("b0", -10.0), ("b1", 1.0)):
        pool.add(sample(name, reward, 2))
    step = pool.take()
    assert [one.id for one in step.samples] == ["a0", "a1", "b0", "b1"] and dropped == {}
    advantages = [row.advantage for row in step.rows]
    assert sum(advantages) == pytest.approx(0.0) and advantages[3] == pytest.approx(1.5, abs=1e-3)  # whitened


@pytest.mark.parametrize("batch", [None, 4])
def test_groups_without_spread_can_take_their_place(batch: int | None) -> None:
    """So every arm of an ablation sees as many rollouts a step (SandMLE, table 4); a group of one still has no mean."""
    recipe = StepRecipe(groups_per_step=2, batch=batch, scale_rewards="none", equal_groups=True)
    pool = GroupBuffer(recipe, {}, dropped := Counter(), stream=True)
    for name, reward, size in (("z0", 9.0, 1), ("a0", 1.0, 2), ("a1", 1.0, 2), ("b0", 0.0, 2), ("b1", 2.0, 2)):
        pool.add(sample(name, reward, size))
    step = pool.take()
    assert [row.advantage for row in step.rows] == [0.0, 0.0, -1.0, 1.0] and step.groups == 2
    assert dropped == {"lone": 1}


def test_a_step_of_groups_without_spread_moves_nothing(nano, tmp_path) -> None:
    from safetensors.torch import load_file

    equal = [replace(one, reward=1.0) for one in arrivals(20)]
    options = GrpoOptions(**{**OPTIONS, "batch": None, "groups_per_step": 5, "equal_groups": True})
    (step,) = GrpoRun(str(nano), tmp_path / "run", options).train_stream(equal)
    assert (step["rollouts"], step["groups"], step["loss"], step["grad_norm"]) == (20, 5, 0.0, 0.0)
    before, after = (load_file(folder / "model.safetensors") for folder in (nano, tmp_path / "run" / "latest"))
    assert all((before[name] == after[name]).all() for name in after)


def test_a_member_that_comes_again_after_a_resume_completes_no_group() -> None:
    """Whether it counted (b1) or was dropped (b0)."""
    fed = [sample("a0", 0.0, 2), sample("b0", None), sample("b1", 0.0), sample("a1", 1.0, 2)]
    pool = GroupBuffer(StepRecipe(groups_per_step=1), {}, Counter(), stream=True)
    assert feed(pool, *fed) == ["a0", "a1"]
    dropped: Counter[str] = Counter()
    again = GroupBuffer(StepRecipe(groups_per_step=1), {"a0": 1, "a1": 1}, dropped, stream=True)
    again.restore(json.loads(json.dumps(pool.state())), pool.waiting)
    assert feed(again, *fed, sample("b2", 1.0)) is None
    assert feed(again, sample("b3", 0.5)) == ["b1", "b2", "b3"]
    assert dropped == {"repeated": 2, "trained": 2}


@pytest.mark.parametrize(("most", "step", "last"), [(7, 7, True), (7, 6, False), (None, 7, False)])
def test_the_last_of_max_steps_ends_the_session(nano, tmp_path, monkeypatch, most, step: int, last: bool) -> None:
    """Its record then has its checkpoint and validation."""
    asked = []
    monkeypatch.setattr("mletools.training.grpo.drive", lambda *given: asked.append(given[-1]) or iter(()))
    monkeypatch.setattr(GrpoRun, "_trainer", lambda *given: None)
    run = GrpoRun(str(nano), tmp_path, GrpoOptions(max_steps=most))
    list(run._drive(iter(()), 1.0, 20))
    run.state["step"] = step
    assert asked[0](6) is last and asked[0](19)


def test_the_validation_of_a_stream_that_ends_is_said() -> None:
    said: list[str] = []
    run = SimpleNamespace(
        step=2, options=SimpleNamespace(validate="true"), say=said.append, publish=lambda *given: None
    )
    session = Session(run, None, None, None, None, None)
    session._validate, session.save = (lambda command: 0.5), (lambda: None)
    run.step = 3
    session.end()
    assert said == ["step 3: validation reward 0.5"]


def test_an_endless_stream_does_not_fill_the_memory(monkeypatch) -> None:
    monkeypatch.setattr("mletools.training.group_buffer.FORGET", 10)
    pool = GroupBuffer(StepRecipe(groups_per_step=1), {}, Counter(), stream=True)
    for number in range(200):
        for member in range(2):
            pool.add(
                Sample(f"{number}-{member}", str(number), (TokenSequence([1, 2], [0, 1]),), float(member), members=2)
            )
        assert pool.take() is not None
    assert len(pool._groups) <= 11 and len(pool._seen) <= 10 and pool.waiting == []


# Durations


def test_weights_by_hand() -> None:
    assert duration_weights([1.0, 2.0, 6.0]) == [1 / 3, 2 / 3, 2.0]
    assert duration_weights([0.0, 0.0]) == [1.0, 1.0] and duration_weights([]) == []
    assert arrival_weights([1.0, 2.0, 6.0], 0) == [1.0, 1.0, 1.0]
    assert arrival_weights([1.0, 2.0, 6.0], 1) == [3 / 4, 3 / 4, 3 / 2]  # the slowest of four stands for two: c = 3
    assert arrival_weights([6.0, 1.0, 2.0], 3) == [3.75 / 2, 1 / 2, 1.25 / 2]  # c = 8 / 5
    assert arrival_weights([1.0, 2.0, 6.0], 6) == duration_weights([1.0, 2.0, 6.0])  # c = 1, the quickest
    assert arrival_weights([0.0, 0.0], 3) == [1.0, 1.0] and arrival_weights([], 2) == []


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=16), st.integers(0, 40))
def test_arrived_rollouts_are_weighed_for_all_that_were_begun(seconds: list[float], lost: int) -> None:
    weights = arrival_weights(seconds, lost)
    assert sum(weights) == pytest.approx(len(seconds))
    for (one, weight), (other, heavier) in itertools.pairwise(sorted(zip(seconds, weights, strict=True))):
        assert weight <= heavier * (1 + 1e-12)
        assert heavier * one <= weight * other * (1 + 1e-9) or heavier == weight  # never more than in proportion


def test_a_weight_is_clipped() -> None:
    members = [sample(f"a{n}", float(n), duration_s=seconds) for n, seconds in enumerate((1.0, 2.0, 6.0))]
    choice = StepRecipe(duration_weight="mean", duration_clip=1.5)
    asked = [replace(each, duration_s=100.0 + each.duration_s, execution_s=each.duration_s) for each in members]
    (alone,) = held_steps(asked, replace(choice, duration_of="execution"), {}, 1, Counter())
    assert alone.weights == pytest.approx([1 / 3, 2 / 3, 1.5])
    assert next(iter(held_steps(members, choice, {}, 1, Counter()))).weights == [1 / 3, 2 / 3, 1.5]


@pytest.mark.parametrize(("missing", "weighted"), [(0, False), (1, True)])
def test_auto_weighs_where_some_of_a_group_never_came(missing: int, weighted: bool) -> None:
    members = [sample(f"a{n}", float(n), duration_s=float(n + 1)) for n in range(4 - missing)]
    (step,) = held_steps(members, StepRecipe(duration_weight="auto", scale_rewards="none"), {}, 1, Counter())
    assert step.lost == missing
    if not weighted:
        assert step.weights is None and [row.advantage for row in step.rows] == [-1.5, -0.5, 0.5, 1.5]
    else:
        assert step.weights == pytest.approx([0.75, 0.9, 1.35])  # of 1, 2 and 3 s: c = 5 / 3
        assert [row.advantage for row in step.rows] == pytest.approx([-0.75, 0.0, 1.35])


# Runs


def arrivals(count: int) -> list[Sample]:
    """Rollouts of groups of four that come interleaved."""
    made = []
    for number in range(count):
        group, member = number % 5 + 5 * (number // 20), number // 5 % 4
        own = [20 + (7 * number + 3 * j) % 230 for j in range(5 + number % 4)]
        tokens = TokenSequence([1, 2, 3, *own], [0, 0, 0] + [1] * len(own), [0.0] * 3 + [-5.9] * len(own))
        name = f"g{group}"
        made.append(
            Sample(
                f"{name}-{member}", name, (tokens,), float(member), 0, 1.0 + member, 1.0, 1.0, group_size=4, members=4
            )
        )
    return made


OPTIONS = {"learning_rate": 1e-3, "batch": 6, "micro_batch": 4, "lora_rank": 0, "save_steps": 3}
MEASURED = ("duration_s", "tokens_per_s", "checkpoint", "waited_s", "elapsed_s", "received")


def comparable(steps: list[dict]) -> list[dict]:
    return [{name: value for name, value in step.items() if name not in MEASURED} for step in steps]


KILLED = """
import json, os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from mletools.training.grpo import GrpoOptions, GrpoRun
from mletools.training.stream import from_line
model, out, records, options = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
samples = [from_line(line) for line in open(records)]
for step in GrpoRun(model, out, GrpoOptions(**options)).train_stream(samples):
    print(json.dumps(step), flush=True)
    if step["step"] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_stream_that_was_killed_goes_on_as_if_nothing_had_happened(nano, tmp_path) -> None:
    """What had been read and not trained on is in the run's folder: only what comes now is given again."""
    import torch
    from safetensors.torch import load_file

    samples = arrivals(60)
    whole = list(GrpoRun(str(nano), tmp_path / "whole", GrpoOptions(**OPTIONS)).train_stream(samples))
    assert [step["rollouts"] for step in whole] == [6] * 10
    assert [step["step"] for step in whole if step["checkpoint"]] == [3, 6, 9]
    lines = tmp_path / "samples"
    lines.write_text("".join(map(as_line, samples)))
    arguments = [str(nano), str(tmp_path / "killed"), str(lines), json.dumps(OPTIONS)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert comparable(said) == comparable(whole[: len(said)])

    run = GrpoRun(str(nano), tmp_path / "killed", GrpoOptions(**OPTIONS), resume=True)
    assert run.step == 3
    spool = Spool(run.out, run.step, run.resumed_from)
    spool.restore(waiting := GroupBuffer(StepRecipe(), {}, Counter(), stream=True))
    assert spool.kept() == len(spool.earlier()) + len(waiting.waiting)
    kept = {one.id for one in [*spool.earlier(), *waiting.waiting]}
    left = [one for one in samples if one.id not in kept | set(run.passes)]
    assert len(run.passes) == 18 and len(spool.earlier()) >= 12 and len(left) + len(kept) == 42
    rest = list(run.train_stream(left))
    assert comparable(rest) == comparable(whole[3:])
    ours, theirs = (load_file(tmp_path / name / "latest" / "model.safetensors") for name in ("killed", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert checkpoints.read_state(checkpoints.load_latest(tmp_path / "killed"))["step"] == 10


def test_what_was_begun_for_a_step_and_is_late_is_written_off(nano, tmp_path) -> None:
    """A sampler may begin as many for the next step at once, whether the late ones have come or not."""
    options = GrpoOptions(
        **{**OPTIONS, "batch": 4, "oversample": 2.0, **settle({"baseline": "batch"}, None), "save_steps": 9}
    )
    publisher = StreamOptions(publish=str(tmp_path / "pub")).publisher(options, str(tmp_path / "run"))
    run = GrpoRun(str(nano), tmp_path / "run", options, publisher=publisher)
    told = []

    def rollouts():
        came = arrivals(12)
        yield from came[:6]  # two of the eight never come, two are late
        while (demand := wanted(tmp_path / "pub")) is None or demand.version == 0:
            time.sleep(0.01)
        told.append(demand)
        yield from (replace(one, policy_version=1) for one in came[6:10])

    steps = list(run.train_stream(rollouts()))
    assert [(step["rollouts"], step["lost"]) for step in steps] == [(4, 4), (4, 4)]
    assert (told[0].rollouts, told[0].used) == (8, 8)
    assert wanted(tmp_path / "pub").used == 16 and run.dropped == {"stale": 2}


@pytest.mark.slow
def test_what_was_trained_on_and_comes_again_is_counted(nano, tmp_path) -> None:
    samples = arrivals(20)
    list(GrpoRun(str(nano), tmp_path / "run", GrpoOptions(**OPTIONS)).train_stream(samples))
    run = GrpoRun(str(nano), tmp_path / "run", GrpoOptions(**OPTIONS), resume=True)
    assert list(run.train_stream(samples)) == [] and run.dropped == {"trained": 20}


def test_a_sample_survives_the_spool(tmp_path) -> None:
    one = Sample(
        "a",
        "g",
        (TokenSequence([1], [1], [-0.5]), TokenSequence([2], [1])),
        0.5,
        3,
        1.5,
        1.0,
        None,
        4,
        4,
        3,
        False,
        ("format",),
    )
    assert from_line(as_line(one)) == one
    spool = Spool(tmp_path, 0, None)
    spool.begin()
    spool.add(one)
    spool._file.write('{"id": "torn')
    spool._file.close()
    again = Spool(tmp_path, 0, None)
    assert again.earlier() == [one]
    again.begin()
    again.add(one)
    assert len(Spool(tmp_path, 0, None).earlier()) == 2


def test_a_run_that_is_told_to_stop_keeps_what_it_did(nano, tmp_path) -> None:
    def endless():
        yield from arrivals(40)
        while True:  # silent, as a pipe whose writer is busy
            import time

            time.sleep(0.1)
            yield sample("z", None)

    steps = GrpoRun(str(nano), tmp_path / "run", GrpoOptions(**OPTIONS)).train_stream(endless())
    first = next(steps)
    steps.close()
    state = checkpoints.read_state(checkpoints.load_latest(tmp_path / "run"))
    assert first["step"] == 1 and 1 <= state["step"] <= 3


def only_decided(self, steps, temperature: float, count: int | None):
    """In place of GrpoRun._drive: the rollouts of each step, which nobody takes."""
    yield from ([one.id for one in step.samples] for step in steps)


def stream(nano, out: Path, *rollouts, resume: bool = False, **options) -> list:
    return list(GrpoRun(str(nano), out, GrpoOptions(batch=4, **options), resume=resume).train_stream(rollouts))


def test_what_an_earlier_session_has_read_is_no_other_runs(nano, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(GrpoRun, "_drive", only_decided)
    early, late = arrivals(20)[::5], arrivals(20)[1::5]  # a group each
    Spool(tmp_path, 0, None).begin()
    assert stream(nano, tmp_path, *early) == [[one.id for one in early]]  # nothing had been read
    with pytest.raises(ToolError, match=r"holds a run already: go on with it \(--resume\)"):
        stream(nano, tmp_path, *late)
    assert stream(nano, tmp_path, *late, resume=True) == [[one.id for one in part] for part in (early, late)]


def test_rollouts_of_another_temperature_leave_no_run_stuck(nano, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(GrpoRun, "_drive", only_decided)
    asked, answered = ({"role": role, "content": "", "token_ids": [1]} for role in ("user", "assistant"))
    warm = {
        "id": "w", "group": "w", "messages": [asked, {**answered, "loss": True, "logprobs": [-1.0]}], "turns": [], "reward": 1.0,
        "policy": {"model": "m", "version": 0, "sampling": {"temperature": 0.7}},
    }  # fmt: skip
    with pytest.raises(RecordError, match=r"^sampled at temperature 0\.7, not 1\.0"):
        stream(nano, tmp_path, warm)
    warmer = [replace(one, temperature=0.7) for one in arrivals(20)[::5]]
    assert len(stream(nano, tmp_path, *warmer, temperature=0.7)) == 1  # nothing was kept of the one before
    again = r"^rollouts that are read again: .* 0\.7, not 1\.0.* \(take their lines out of .*/spool-000000\.jsonl\)$"
    with pytest.raises(ToolError, match=again):
        stream(nano, tmp_path, *arrivals(20)[::5], resume=True)
    run = GrpoRun(str(nano), tmp_path, GrpoOptions(), resume=True)
    run.spool = Spool(tmp_path, 0, None)
    with pytest.raises(
        ToolError, match=r"without them \(take their lines out of .*spool-000000\.jsonl\) or with a lower"
    ):
        run.abort_step(OptimiserStep([], [], 0), "the loss is nan")


# Micro-batches


def rows_of(*lengths: int) -> list[Row]:
    return [
        Row(TokenSequence([1] * length, [0] + [1] * (length - 1)), 1.0, sample(f"{at}{length}", 0.0))
        for at, length in enumerate(lengths)
    ]


def lengths(parts: list) -> list:
    return [[[len(row.tokens.input_ids) for row in rows] for rows in part] for part in parts]


def test_rows_of_like_length_go_together() -> None:
    rows = rows_of(5, 90, 10, 80, 7)
    assert lengths(cut(rows, Layout(rows=2))) == [[[90, 80], [10, 7], [5]]]
    assert lengths(cut(rows, Layout(rows=8, tokens=100))) == [[[90], [80], [10, 7, 5]]]
    assert work(cut(rows, Layout(rows=2))[0], Layout()).padding_share == pytest.approx(1 - 192 / (180 + 20 + 5))
    assert cut([], Layout()) == [[[]]] and work([[]], Layout()).padding_share == 0.0


def test_packed_rows_are_padded_to_rows_of_like_length() -> None:
    rows = rows_of(90, 80, 10, 9, 5)
    packed = Layout(rows=8, pack=True)
    assert blocks(rows, packed) == [Block(0, ((2, 90), (2, 10), (1, 5)))]
    assert blocks(rows, Layout()) == [Block(0, ((5, 90),))]
    assert work([rows], packed).padding_share == pytest.approx(1 - 194 / (180 + 20 + 5))
    assert lengths(cut(rows, Layout(rows=8, tokens=205, pack=True))) == [[[90, 80, 10, 9, 5]]]
    assert lengths(cut(rows, Layout(rows=8, tokens=204, pack=True))) == [[[90, 80, 10, 9], [5]]]


def answers(prompt: int, *lengths: int) -> list[Row]:
    """Rows of `lengths` tokens that answer a prompt of 40 tokens, all of them the number of the prompt."""
    return [
        Row(
            TokenSequence([prompt] * 40 + [1] * (n - 40), [0] * 40 + [1] * (n - 40)), 1.0, sample(f"{prompt}-{at}", 0.0)
        )
        for at, n in enumerate(lengths)
    ]


def test_rows_of_a_prompt_go_together_where_it_is_shared() -> None:
    rows = [*answers(5, 60, 50), *answers(6, 90, 45, 42), *answers(7, 55), *rows_of(20)]
    layout = Layout(rows=2, pack=True, share=True)
    parts = cut(rows, layout)
    assert lengths(parts) == [[[90, 45], [55, 20], [60, 50], [42]]]
    whole = Layout(rows=8, pack=True, share=True)
    (together,) = cut(rows, whole)[0]
    assert [len(row.tokens.input_ids) for row in together] == [90, 45, 42, 60, 50, 55, 20]
    assert blocks(together, whole) == [
        Block(39, ((1, 51), (1, 6), (1, 3))),
        Block(39, ((1, 21), (1, 11))),
        Block(0, ((1, 55), (1, 20))),
    ]
    done = work([together], whole)
    assert done.positions == 39 + 51 + 6 + 3 + 39 + 21 + 11 + 55 + 20
    assert done.shared_share == pytest.approx(3 * 39 / 362) and done.padding_share == 0.0
    # a prompt of which not all rows find room begins the next one: 39 + 51 + 6 + 3 = 99 positions, 71 more
    assert lengths(cut(rows, Layout(rows=8, tokens=169, pack=True, share=True))) == [[[60, 50, 55, 20], [90, 45, 42]]]
    assert lengths(cut(answers(6, 90, 90, 90), Layout(rows=8, tokens=150, pack=True, share=True))) == [[[90, 90], [90]]]


def test_processes_have_as_many_micro_batches_and_nearly_as_many_rows() -> None:
    rows = rows_of(5, 90, 10, 80, 7)
    assert lengths(cut(rows, Layout(rows=2), 2)) == [[[90, 10], [5]], [[80, 7], []]]
    assert lengths(cut(rows, Layout(rows=8, tokens=100), 2)) == [[[90], [10, 5]], [[80], [7]]]


def test_a_process_without_rows_has_one_without_loss() -> None:
    pytest.importorskip("torch", reason="torch is not installed: training is not tested")
    read, scored = tensors_of(rows_of(5, 3), pad=9)
    assert read["ids"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 9, 9]]
    assert read["targets"].tolist() == [[1, 1, 1, 1, -100], [1, 1, -100, -100, -100]]
    assert scored["completion_ids"].tolist() == [[1, 1, 1, 1], [1, 1, 9, 9]] and scored["prompt_ids"].shape == (2, 0)
    assert scored["completion_mask"].sum(dim=1).tolist() == [4, 2] and scored["advantages"].tolist() == [1.0, 1.0]
    read, scored = tensors_of([], pad=9)
    assert read == {"ids": read["ids"], "targets": read["targets"]} and (read["targets"] == -100).all()
    assert scored["completion_mask"].tolist() == [[0]] and scored["advantages"].tolist() == [0.0]


def test_a_rollouts_sequences_stay_together_or_go_alone() -> None:
    from dataclasses import replace

    one, *others = rows_of(50, 40, 30, 20, 10)
    several = [*(replace(row, sample=one.sample) for row in (one, *others[:2])), *others[2:]]
    assert lengths(cut(several, Layout(rows=4))) == [[[50, 40, 30, 20], [10]]]
    assert lengths(cut(several, Layout(rows=2))) == [[[50, 40], [20, 10], [30]]]
    assert lengths(cut(several, Layout(rows=2), 2)) == [[[50, 40], [20]], [[30], [10]]]
    pytest.importorskip("torch", reason="torch is not installed: training is not tested")
    read, scored = tensors_of(several, pad=9)
    assert read["ids"].shape == (5, 50) and scored["completion_mask"].sum(dim=1).tolist() == [117, 19, 9]
