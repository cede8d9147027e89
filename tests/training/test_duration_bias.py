"""What benchmarks/duration_bias.py computes exactly, and what its batches come to in the tool's own steps."""

import itertools
import math
import random
import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import duration_bias as bias
import duration_family as family
import duration_policy as policy
import duration_ways as ways

TWO = bias.Bandit("two", (0.0, 1.0), (1, 2), 4)
HALVES = np.array([0.5, 0.5])


def test_a_worker_begins_anew_when_it_is_done() -> None:
    # U(1) = 1 + U(0)/2; U(2) = 1 + U(1)/2 + U(0)/2
    assert bias.renewals(HALVES, (1, 2), 2).tolist() == [1.0, 1.5, 2.25]


def test_the_first_of_two() -> None:
    # the quick one loses only to another quick one, and then half of the time
    assert bias.chance_of_first(np.array([0.0, 0.5]), HALVES, 1, 2).tolist() == pytest.approx([0.75, 0.25])
    assert bias.chance_of_first(np.array([0.0]), np.array([1.0]), 3, 4).tolist() == pytest.approx([0.75], abs=1e-5)


def test_gradients_by_hand() -> None:
    found = {}
    for way, mode in itertools.product(("wait", "thinned"), ("off", "mean")):
        inclusions = bias.inclusion(way, HALVES, TWO)
        q = HALVES * inclusions
        found[way, mode] = bias.gradient(q, HALVES, TWO, bias.weighted(mode, q, TWO, inclusions)).tolist()
    assert found["wait", "off"] == pytest.approx([-1 / 4, 1 / 4])
    # shares 2/3 and 1/3, a mean of 1/3: 2/3 of -1/3 and 1/3 of 2/3
    assert found["thinned", "off"] == pytest.approx([-2 / 9, 2 / 9])
    # weights of 3/4 and 3/2 make halves of the shares: -1/6 and 1/3, less their sum by p
    assert found["thinned", "mean"] == pytest.approx([-1 / 4, 1 / 4])
    # weights of 2/3 and 4/3: 1/3 of -1/2 and 2/3 of 1/2, less half of the sum: they have lost nothing but the scale
    assert found["wait", "mean"] == pytest.approx([-1 / 4, 1 / 4])


@pytest.mark.parametrize("bandit", bias.BANDITS, ids=lambda bandit: bandit.name)
def test_which_weights_have_a_bias(bandit: bias.Bandit) -> None:
    p = np.arange(1.0, 9.0) / 36
    true = bias.gradient(p, p, bandit, np.ones(8))

    def cosine(way: str, mode: str) -> float:
        inclusions = bias.inclusion(way, p, bandit)
        q = p * inclusions
        return bias.bias(bias.gradient(q, p, bandit, bias.weighted(mode, q, bandit, inclusions)), true)[0]

    for way, mode in (("wait", "off"), ("kept", "off"), ("thinned", "mean"), ("window", "inverse")):
        assert cosine(way, mode) == pytest.approx(1.0, abs=1e-12)
    for way, mode in (("wait", "mean"), ("thinned", "off"), ("window", "mean"), ("first", "off"), ("first", "mean")):
        assert cosine(way, mode) < 0.95
    assert cosine("window", "mean") < cosine("window", "off")


@pytest.mark.parametrize("bandit", bias.BANDITS, ids=lambda bandit: bandit.name)
def test_auto_has_next_to_no_bias_where_what_is_slow_can_come(bandit: bias.Bandit) -> None:
    p = np.full(8, 1 / 8)
    true = bias.gradient(p, p, bandit, np.ones(8))
    for way in ("wait", "thinned", "window", "kept"):
        inclusions = bias.inclusion(way, p, bandit)
        q, lost = p * inclusions, bias.lost_share(way, p, bandit)
        cosines = {
            mode: bias.bias(bias.gradient(q, p, bandit, bias.weighted(mode, q, bandit, inclusions, lost)), true)[0]
            for mode in ("off", "mean", "auto")
        }
        assert cosines["auto"] >= max(cosines.values()) - 1e-5
        assert cosines["auto"] >= (0.985 if way == "window" else 0.99999)


@pytest.mark.parametrize(("way", "mode"), [("thinned", "mean"), ("window", "inverse"), ("kept", "off")])
def test_batches_of_the_tool_have_the_exact_gradient(way: str, mode: str) -> None:
    bandit, p = bias.BANDITS[0], np.full(8, 1 / 8)
    true = bias.gradient(p, p, bandit, np.ones(8))
    found, _ = bias.sampled(way, mode, p, bandit, 100, 0)
    assert bias.bias(found, true)[0] > 0.98


def test_auto_weighs_wherever_something_is_lost() -> None:
    weighed = {way: bias.sampled(way, "auto", np.full(8, 1 / 8), bias.BANDITS[0], 3, 0)[1] for way in ways.WAYS}
    assert weighed == {"wait": 0.0, "thinned": 1.0, "window": 1.0, "kept": 0.0, "first": 1.0}


def test_a_window_ends() -> None:
    rng = random.Random(0)
    batch = ways.window(lambda: (None, rng.choice((1.0, 2.0))), 3, 4.0)
    assert all(each.begun + each.seconds <= 4.0 for each in batch.arrivals)
    ends = [each.begun + each.seconds for each in batch.arrivals]
    assert ends == sorted(ends) and len(batch.begun) >= len(batch.arrivals)


def test_weights_by_what_was_begun_early_enough() -> None:
    arrivals = [ways.Arrival("a", 1.0), ways.Arrival("b", 3.0), ways.Arrival("c", 1.0, 1.0)]
    # the end is at 3: four were begun by 2, two by 0
    assert ways.inverse_weights(ways.Batch(arrivals, [0.0, 0.0, 1.0, 2.0])) == pytest.approx([0.75, 1.5, 0.75])


def test_texts_are_drawn_with_their_chances() -> None:
    problem = family.Problem({}, [], [[0, 2], [1, 2]], [1.0, 1.0], [0.0, 1.0])
    chances = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [[0.5, 0.3, 0.2], [0.0, 0.5, 0.5]]])
    with np.errstate(divide="ignore"):
        told = policy.Beliefs(np.log(chances), np.array([0.4, 0.15]))
    rng, sums = random.Random(0), np.cumsum(chances, axis=-1)
    drawn = [policy.write(told, problem, sums, rng) for _ in range(4000)]
    assert sum(text.program == 0 for text in drawn) / 4000 == pytest.approx(0.4, abs=0.03)
    assert sum(text.program == 1 for text in drawn) / 4000 == pytest.approx(0.15, abs=0.03)
    assert {tuple(text.ids) for text in drawn if text.program is None} == {(2,), (0, 0), (0, 1), (1, 1)}
    assert all(text.logps[0] == math.log([0.5, 0.3, 0.2][text.ids[0]]) for text in drawn)


def test_a_reward_is_the_share_of_the_others_that_are_beaten() -> None:
    assert [family.place(score, [0.1, 0.2, 0.2, 0.9]) for score in (0.1, 0.2, 0.9)] == [0.0, 0.5, 1.0]
