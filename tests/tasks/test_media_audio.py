"""Sounds of procedural tasks: files that standard readers take, factors that can be heard again, gaps with a rule."""

import io
import wave

import numpy as np
import pytest

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import audio
from mletools.tasks.table import generator

ROWS = 80


def drawn(seed, mutations=None):
    draws = generator(seed)
    factors = audio.factors(scenarios()[0], ROWS, draws)
    return factors, audio.render(scenarios()[0], factors, mutations or {}, draws)


def samples(content):
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 8000)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_files_are_small_wav_files_of_one_size_of_the_length_and_rate_that_the_notes_say():
    _, rendered = drawn(1)
    contents = rendered.assets[0].contents
    assert len(contents) == ROWS
    assert {len(content) for content in contents} == {16044}
    assert {len(samples(content)) for content in contents} == {8000}
    assert len(set(contents)) == ROWS
    assert "WAV file of 1 s: one channel, 16 bit, 8000 samples a second" in rendered.notes[0]


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
