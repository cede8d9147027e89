"""Recordings with a gap: a stretch of 24 to 32 samples is silent, and the wave around it follows a drawn rule.

Not covered: how a solver hears the rule; `right` knows the rule but not the wave in the gap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from ...table import Column, fixed
from ..world import Dense, Rendered, Target
from .audio import FULL, LENGTH, RATE, SECONDS, asset, file_facts, quantised, spoil
from .common import pick

DECIMALS = 3
# Samples on either side of a gap that are looked at.
AROUND = 300
# No gap starts nearer to either end.
MARGIN = 1000


@dataclass(frozen=True)
class Wave:
    """Waves that follow one rule: `clean` (rows, LENGTH), the rule in words, and what it says of a gap.

    `guess(level, known, at)` gives (rows, units, m) from what is heard: `level` (rows, LENGTH), 0 in the gap, `known`
    (rows, LENGTH) where it is not the gap, and `at` (rows, units) the gap's samples.
    """

    clean: Any
    words: str
    guess: Callable[[Any, Any, Any], Any]


def reconstruction(
    scenario: Mapping[str, Any], rows: int, mutations: Mapping[str, float], noise: float, rng: Any
) -> Dense:
    """Recordings of one drawn family of waves, with a gap a recording whose samples are asked for."""
    units = int(rng.randint(24, 33))
    family = pick(list(WAVES), rng)
    wave = WAVES[family](rows, rng)
    scale = rng.uniform(0.4, 0.75, size=(rows, 1)) / np.max(np.abs(wave.clean), axis=1, keepdims=True)
    clean = np.round(wave.clean * scale, 9)
    level = clean + noise * np.std(clean, axis=1, keepdims=True) * rng.normal(size=clean.shape)
    start = rng.randint(MARGIN, LENGTH - MARGIN - units, size=rows)
    if family == "mirror":
        start = np.where(start < LENGTH // 2, start - 100, start + 100)
    at = start[:, None] + np.arange(units)
    y = np.round(np.clip(np.take_along_axis(level, at, axis=1), -1, 1), DECIMALS)
    known = np.ones(level.shape, dtype=bool)
    np.put_along_axis(known, at, False, axis=1)
    samples = np.where(known, quantised(spoil(level, mutations, rng)), 0).astype("<i2")
    heard = samples / FULL
    names = [f"s_{unit}" for unit in range(units)]
    cells = {name: [fixed(value, DECIMALS) for value in column] for name, column in zip(names, y.T, strict=True)}
    wanted = (
        f"{units} samples from gap_start on were silenced. Wanted are their amplitudes, between -1 and 1 (a sample divided by "
        f"{FULL}), as they were at the microphone, before any fault of the recording."
    )
    return Dense(
        rendered=Rendered(
            columns=[Column("gap_start", "number of the first silenced sample of the recording, counted from 0")],
            cells={"gap_start": [str(int(each)) for each in start]},
            assets=[asset(samples, "the recording with its gap")],
            facts=file_facts([wanted]),
        ),
        target=Target(
            problem="reconstruction",
            columns=[Column(name, f"amplitude {unit} samples after gap_start") for unit, name in enumerate(names)],
            cells=cells,
            y=np.array([[float(cell) for cell in column] for column in cells.values()]).T,
            known=np.round(np.take_along_axis(clean, at, axis=1), 6),
            words=f"the wave in a gap of {units} samples, with noise of {noise} of its deviation",
        ),
        plain=_nearby(heard, at),
        right=np.round(np.concatenate([wave.guess(heard, known, at), _nearby(heard, at)[:, :, :3]], axis=2), 4),
        families=[family],
        rule=wave.words,
    )


def _nearby(heard: Any, at: Any) -> Any:
    """(rows, units, 10): the position in the gap, lines and a cubic between its edges, the samples beside them, loudness."""
    units = at.shape[1]
    before = np.take_along_axis(heard, at[:, :1] - np.arange(3, 0, -1), axis=1)
    after = np.take_along_axis(heard, at[:, -1:] + np.arange(1, 4), axis=1)
    place = (np.arange(units) + 1) / (units + 1)
    straight = before[:, 2:] * (1 - place) + after[:, :1] * place
    slopes = (before[:, 2:] - before[:, 1:2]) * (units + 1), (after[:, 1:2] - after[:, :1]) * (units + 1)
    rise = after[:, :1] - before[:, 2:]
    cubic = straight + place * (1 - place) * ((1 - place) * (slopes[0] - rise) - place * (slopes[1] - rise))
    around = np.take_along_axis(heard, at[:, :1] + np.arange(-100, 0), axis=1).std(axis=1)
    sides = [np.repeat(side[:, [column]], units, axis=1) for side in (before, after) for column in range(3)]
    loud = np.repeat(around[:, None], units, axis=1)
    return np.round(np.stack([0 * straight + place, straight, cubic, *sides, loud], axis=2), 6)


def _tones(rows: int, rng: Any) -> Wave:
    ratios = [1.0, round(float(rng.uniform(1.6, 2.6)), 3), round(float(rng.uniform(3.2, 4.8)), 3)]
    words = f"three tones, the second {ratios[1]} and the third {ratios[2]} times as high as the first"
    sizes = np.array([1.0, 0.8, 0.6])[:, None, None] * rng.uniform(0.7, 1.3, size=(3, rows, 1))
    return _chord(ratios, sizes, (110.0, 220.0), 0.0, words, rng)


def _tremolo(rows: int, rng: Any) -> Wave:
    """A swelling tone is three tones; the outer two are of one size."""
    part, depth = int(rng.randint(3, 8)), rng.uniform(0.5, 0.9, size=rows) / 2
    words = f"a tone that swells and fades once in {part} of its periods"
    sizes = np.stack([depth, np.ones(rows), depth])[:, :, None]
    return _chord([1 - 1 / part, 1.0, 1 + 1 / part], sizes, (180.0, 440.0), 0.0, words, rng)


def _glide(rows: int, rng: Any) -> Wave:
    rate = round(float((1 if rng.randint(2) else -1) * rng.uniform(80, 200)), 1)
    words = f"a tone and its octave whose pitch changes by {rate} Hz a second"
    sizes = np.stack([np.ones((rows, 1)), rng.uniform(0.3, 0.7, size=(rows, 1))])
    return _chord([1.0, 2.0], sizes, (220.0, 380.0), rate, words, rng)


def _chord(
    ratios: Sequence[float], sizes: Any, pitches: tuple[float, float], rate: float, words: str, rng: Any
) -> Wave:
    """Tones at `ratios` of a pitch between `pitches`, which changes by `rate` Hz a second; `sizes` (tones, rows, 1)."""
    rows, time = sizes.shape[1], np.arange(LENGTH) / RATE
    bend = rate * (time**2 - SECONDS * time) / 2
    starts = rng.uniform(size=(len(ratios), rows, 1))
    turns = rng.uniform(*pitches, size=rows)[:, None] * time + bend
    tones = zip(ratios, sizes, starts, strict=True)
    clean = sum(size * np.sin(2 * np.pi * (ratio * turns + start)) for ratio, size, start in tones)
    trial = np.arange(pitches[0] - 5, pitches[1] + 5, 0.1)

    def guess(level: Any, known: Any, at: Any) -> Any:
        padded = 1 << 15
        score = np.zeros((rows, len(trial)))
        for ratio in ratios:
            still = level * np.hanning(LENGTH) * np.exp(-2j * np.pi * ratio * bend)
            power = np.abs(np.fft.fft(still, n=padded, axis=1))
            score += power[:, np.rint(ratio * trial * padded / RATE).astype(int)]
        found = trial[np.round(score, 5).argmax(axis=1)]
        angle = 2 * np.pi * (found[:, None] * time + bend)
        return _fitted(level, known, at, [ratio * angle for ratio in ratios])

    return Wave(clean, words, guess)


def _fitted(level: Any, known: Any, at: Any, angles: Sequence[Any]) -> Any:
    """(rows, units, 1 + angles): least squares of sines and cosines of the angles beside the gap, and each one's part."""
    near = at[:, :1] + np.arange(-AROUND, at.shape[1] + AROUND)
    base = np.stack(
        [wave(np.take_along_axis(angle, near, axis=1)) for angle in angles for wave in (np.sin, np.cos)], axis=2
    )
    weighed = base * np.take_along_axis(known, near, axis=1)[:, :, None]
    square = np.einsum("rti,rtj->rij", weighed, base) + 1e-2 * np.eye(base.shape[2])
    wanted = np.einsum("rti,rt->ri", weighed, np.take_along_axis(level, near, axis=1))
    size = np.linalg.solve(square, wanted[:, :, None])
    parts = base[:, AROUND:-AROUND, :] * size[:, :, 0][:, None, :]
    pairs = parts.reshape(*parts.shape[:2], len(angles), 2).sum(axis=3)
    return np.concatenate([pairs.sum(axis=2, keepdims=True), pairs], axis=2)


def _murmur(rows: int, length: int, rng: Any) -> Any:
    """Noise (rows, length) without high tones, of deviation 1."""
    noise = gaussian_filter1d(rng.normal(size=(rows, length)), 5, axis=1, mode="wrap")
    return noise / noise.std(axis=1, keepdims=True)


def _repeat(rows: int, rng: Any) -> Wave:
    """A pattern of noise that comes again and again, each time weaker and perhaps turned over."""
    period, sign = int(rng.randint(140, 320)), 1 if rng.randint(2) else -1
    keep = round(sign * float(rng.uniform(0.96, 0.99)), 3)
    words = f"a sample is {keep} times the one {period} samples before"
    clean = _murmur(rows, period, rng)[:, np.arange(LENGTH) % period] * keep ** (np.arange(LENGTH) // period)

    def guess(level: Any, known: Any, at: Any) -> Any:
        back = [np.take_along_axis(level, at + step * period, axis=1) * keep**-step for step in (-2, -1, 1, 2)]
        return np.stack([sum(back) / 4, *back], axis=2)

    return Wave(clean, words, guess)


def _mirror(rows: int, rng: Any) -> Wave:
    """Noise whose second half is the first one played backwards."""
    sign, middle = 1 if rng.randint(2) else -1, LENGTH // 2 + int(rng.randint(-40, 41))
    words = f"from sample {middle} on the recording is {'' if sign > 0 else 'minus '}the part before it, backwards"
    place = np.arange(LENGTH)
    source = np.abs(np.where(place < middle, place, 2 * middle - 1 - place))
    clean = _murmur(rows, LENGTH, rng)[:, source] * np.where(place < middle, 1, sign)

    def guess(level: Any, known: Any, at: Any) -> Any:
        other = 2 * middle - 1 - at
        return np.stack([sign * np.take_along_axis(level, other + shift, axis=1) for shift in (0, -1, 1)], axis=2)

    return Wave(clean, words, guess)


WAVES: dict[str, Callable[[int, Any], Wave]] = {
    "tones": _tones,
    "tremolo": _tremolo,
    "glide": _glide,
    "repeat": _repeat,
    "mirror": _mirror,
}
