"""Sounds of procedural tasks: files that standard readers take, factors that can be heard again, gaps with a rule."""

import io
import wave
from statistics import mean

import numpy as np
import pytest
from conftest import mostly_slow

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import audio
from mletools.tasks.procedural.world import Number
from mletools.tasks.table import generator

ROWS = 80
# Correlation of what is measured with the truth (share of right codes for the envelope) that is reached at least.
REACHED = {
    "audio_pitch": 0.95,
    "audio_glide": 0.95,
    "audio_tremolo_rate": 0.9,
    "audio_click_count": 0.8,
    "audio_noise_share": 0.9,
    "audio_overtones": 0.9,
    "audio_burst_time": 0.9,
    "audio_envelope": 0.95,
}


def drawn(seed, mutations=None):
    draws = generator(seed)
    factors = audio.factors(scenarios()[0], ROWS, draws)
    return factors, audio.render(scenarios()[0], factors, mutations or {}, draws)


def samples(content):
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 8000)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def agreement(seeds, mutations=None):
    """{factor: its agreement with the truth, the mean over the seeds that drew it}"""
    found = {}
    for seed in seeds:
        factors, rendered = drawn(seed, mutations)
        for factor in factors:
            seen = rendered.measured[factor.name]
            if isinstance(factor, Number):
                found.setdefault(factor.name, []).append(np.corrcoef(seen, factor.place)[0, 1])
            else:
                found.setdefault(factor.name, []).append((seen == factor.code).mean())
    return {name: mean(values) for name, values in found.items()}


@pytest.fixture(scope="module")
def undisturbed():
    return agreement([1])


def test_files_are_small_wav_files_of_one_size_of_the_length_and_rate_that_the_notes_say():
    _, rendered = drawn(1)
    contents = rendered.assets[0].contents
    assert len(contents) == ROWS
    assert {len(content) for content in contents} == {16044}
    assert {len(samples(content)) for content in contents} == {8000}
    assert len(set(contents)) == ROWS
    assert "WAV file of 1 s: one channel, 16 bit, 8000 samples a second" in rendered.notes[0]


def test_a_seed_gives_the_same_bytes_and_features_again():
    every = {name: 0.5 for name in audio.MUTATIONS}
    one, two = drawn(3, every)[1], drawn(3, every)[1]
    assert one.assets[0].contents == two.assets[0].contents
    assert np.array_equal(one.plain, two.plain)
    assert all(np.array_equal(one.measured[name], two.measured[name]) for name in one.measured)


def test_factors_are_five_to_seven_and_lie_inside_their_range():
    for seed in range(10):
        factors = audio.factors(scenarios()[0], 50, generator(seed))
        assert 5 <= len(factors) <= 7
        for factor in factors:
            if isinstance(factor, Number):
                assert factor.place.min() >= 0 and factor.place.max() <= 1 and factor.place.std() > 0.15
            else:
                assert set(factor.code) == set(range(len(factor.levels)))


def test_every_factor_can_be_measured_in_undisturbed_files():
    found = agreement(range(3))
    assert set(found) == set(REACHED)
    assert {name: value for name, value in found.items() if value < REACHED[name]} == {}


@pytest.mark.parametrize("name", mostly_slow(audio.MUTATIONS))
def test_a_fault_changes_the_files_and_helps_no_measurement(name, undisturbed):
    spoilt = drawn(1, {name: 0.9})[1]
    assert spoilt.assets[0].contents != drawn(1)[1].assets[0].contents
    assert np.isfinite(spoilt.plain).all()
    worse = agreement([1], {name: 0.9})
    assert mean(worse.values()) <= mean(undisturbed.values()) + 0.005


def test_the_plain_features_are_few_and_finite_even_if_all_goes_wrong():
    _, rendered = drawn(2, {name: 1.0 for name in audio.MUTATIONS})
    assert rendered.plain.shape[0] == ROWS and rendered.plain.shape[1] <= 60
    assert np.isfinite(rendered.plain).all()
    assert all(np.isfinite(values).all() for values in rendered.measured.values())


def skill(guess, y):
    return 1 - ((guess - y) ** 2).mean() / y.var()


def learnt(features, y):
    """R2 of a small forest on the last third of the rows."""
    from sklearn.ensemble import ExtraTreesRegressor

    cut, width = len(y) * 2 // 3, features.shape[2]
    model = ExtraTreesRegressor(10, min_samples_leaf=3, random_state=0)
    model.fit(features[:cut].reshape(-1, width)[:1500], y[:cut].ravel()[:1500])
    return skill(model.predict(features[cut:].reshape(-1, width)), y[cut:].ravel())


@pytest.mark.parametrize("family", list(audio.WAVES))
def test_the_rule_of_a_wave_fills_its_gap_and_a_quick_pipeline_does_not(family, monkeypatch):
    monkeypatch.setattr(audio, "WAVES", {family: audio.WAVES[family]})
    made = audio.reconstruction(scenarios()[0], 60, {}, 0.1, generator(5))
    y, units = made.target.y, made.target.y.shape[1]
    assert made.families == [family] and 24 <= units <= 32
    assert made.plain.shape[:2] == made.right.shape[:2] == y.shape == made.target.known.shape
    assert skill(made.target.known, y) > 0.95
    right, plain = learnt(made.right, y), learnt(made.plain, y)
    assert right > 0.85
    assert right > plain + 0.15


def test_a_gap_is_silent_and_its_samples_are_asked_for():
    made = audio.reconstruction(scenarios()[0], 60, {"hum": 0.5, "echo": 0.5}, 0.2, generator(6))
    units = made.target.y.shape[1]
    starts = [int(cell) for cell in made.rendered.cells["gap_start"]]
    for start, content in zip(starts, made.rendered.assets[0].contents, strict=True):
        heard = samples(content)
        assert not heard[start : start + units].any()
        assert heard.any()
    assert [column.name for column in made.target.columns] == [f"s_{at}" for at in range(units)]
    assert made.target.cells["s_0"][0] == f"{made.target.y[0, 0]:.3f}"
    assert np.abs(made.target.y).max() <= 1
