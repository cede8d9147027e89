"""Sound: a second a sample, a gliding tone with overtones, tremolo, noise, clicks and one burst of hiss, as WAV.

Factors that a task did not draw vary all the same, as do phases, loudness and the times of the clicks. `measure` finds
pitch and glide as the straight line in the spectrogram that the tone and its octave follow; the tone is then mixed down
to 0 Hz, which shows its loudness over time. Gaps to fill are at the end. Not covered: several tones.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft
from scipy.io import wavfile
from scipy.ndimage import gaussian_filter1d, maximum_filter1d, uniform_filter1d

from ...dataset import Asset, Target
from ...table import Column, fixed
from ..arrays import Array, Rng
from ..scenario import Scenario
from ..world import Category, Dense, Factor, Rendered
from .common import (
    Menu,
    apply_steps,
    codes,
    draw_numbers,
    least_squares,
    measured_places,
    number_values,
    pick,
    shuffled,
)

MUTATIONS = {
    "background_noise": "a coloured noise lies over the recordings, in some louder than in others",
    "clipping": "loud parts are cut off",
    "gain_change": "the gain jumps at some moment of a recording",
    "echo": "the room answers: a delayed, weaker copy is added",
    "dropouts": "short stretches are silent",
    "hum": "the mains hum at 50 Hz and its odd multiples",
    "resampled": "some recordings passed through a narrow channel that takes the high tones away",
}
RATE, LENGTH = 8000, 8000
SECONDS = LENGTH / RATE
FILE_FORMAT = (
    f"Each recording is a WAV file of {SECONDS:g} s: one channel, 16 bit, {RATE} samples a second. The loudness was not "
    "calibrated."
)
# The largest number that a sample of 16 bit holds stands for an amplitude of 1.
FULL = 32767
NUMBERS: Menu = {
    "audio_pitch": ("Hz in the middle of the recording", 300.0, 700.0, 0),
    "audio_glide": ("Hz per second that the pitch rises", -300.0, 300.0, 0),
    "audio_tremolo_rate": ("Hz", 6.0, 24.0, 1),
    "audio_click_count": ("clicks", 0.0, 8.0, 0),
    "audio_noise_share": ("of the power", 0.02, 0.4, 2),
    "audio_overtones": ("of the amplitude of the next lower tone", 0.05, 0.8, 2),
    "audio_burst_time": ("s", 0.1, 0.9, 2),
}
WHOLE = {"audio_click_count"}
ENVELOPE = "audio_envelope"
ENVELOPES = ("rising", "falling", "steady", "pulsed")
# Samples between the starts of two clicks, at least half of it.
CLICK_SPACING = 160
TREMOLO_DEPTH = 0.4
BURST_HZ, BURST_WIDTH, BURST_SECONDS = 3300.0, 80.0, 0.06


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Five or six properties of the sound, and the course of its loudness."""
    names = shuffled(list(NUMBERS), rng)[: 5 + int(rng.randint(2))]
    numbers = draw_numbers(NUMBERS, names, WHOLE, rows, rng)
    return [*numbers, Category(ENVELOPE, ENVELOPES, rng.randint(len(ENVELOPES), size=rows))]


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
    """A WAV file a sample, blemished by `mutations` (name: strength between 0 and 1)."""
    values = number_values(NUMBERS, factors, WHOLE, rng)
    level = _sound(values, codes(factors, ENVELOPE, ENVELOPES, rng), rng)
    samples = quantised(spoil(level, mutations, rng))
    return Rendered(
        assets=[asset(samples)],
        plain=plain_features(samples),
        measured=measured_places(factors, measure(samples)),
        notes=[FILE_FORMAT],
    )


def quantised(level: Array) -> Array:
    """Amplitudes between -1 and 1, cut off beyond, as whole numbers of 16 bit; the same shape."""
    return np.rint(np.round(np.clip(level, -1, 1) * FULL, 3)).astype("<i2")


def asset(samples: Array, meaning: str = "the recording") -> Asset:
    """One file a row of `samples` (rows, LENGTH), which are 16 bit."""
    contents = []
    for row in samples:
        file = io.BytesIO()
        wavfile.write(file, RATE, row)
        contents.append(file.getvalue())
    return Asset("audio", meaning, "audio", "wav", contents)


def _turns(pitch: Array, glide: Array) -> Array:
    """The phase in periods, (rows, LENGTH), of a tone that has `pitch` in the middle and rises by `glide` Hz a second."""
    time = np.arange(LENGTH) / RATE
    return pitch[:, None] * time + glide[:, None] * (time**2 - SECONDS * time) / 2


def _sound(values: Mapping[str, Array], envelope: Array, rng: Rng) -> Any:
    """(rows, LENGTH) between -1 and 1, from the factors' values in their units and the codes of the envelope."""
    rows, time = len(envelope), np.arange(LENGTH) / RATE
    turns, fall = _turns(values["audio_pitch"], values["audio_glide"]), values["audio_overtones"][:, None]
    starts = rng.uniform(size=(3, rows, 1))
    level = sum(fall ** (at - 1) * np.sin(2 * np.pi * (at * turns + starts[at - 1])) for at in (1, 2, 3))
    place, floor, bend = time / SECONDS, rng.uniform(0.15, 0.35, size=(rows, 1)), rng.uniform(0.7, 1.5, size=(rows, 1))
    shapes = [place**bend, (1 - place) ** bend, np.ones((rows, LENGTH)), np.sin(2 * np.pi * place) ** 2 + 0 * floor]
    level = level * (floor + (1 - floor) * np.choose(envelope[:, None], shapes))
    swing = 2 * np.pi * (values["audio_tremolo_rate"][:, None] * time + rng.uniform(size=(rows, 1)))
    level = level * (1 + TREMOLO_DEPTH * np.sin(swing))
    share = values["audio_noise_share"][:, None]
    level = level / np.sqrt(np.mean(level**2, axis=1, keepdims=True)) * np.sqrt(1 - share)
    level = level + np.sqrt(share) * rng.normal(size=(rows, LENGTH))
    away = (time - values["audio_burst_time"][:, None]) / (BURST_SECONDS / 2)
    hiss = BURST_HZ + rng.uniform(-BURST_WIDTH / 2, BURST_WIDTH / 2, size=(rows, 1))
    burst = np.cos(np.pi * np.clip(away, -1, 1) / 2) ** 2 * np.sin(
        2 * np.pi * (hiss * time + rng.uniform(size=(rows, 1)))
    )
    level = level + rng.uniform(0.5, 0.9, size=(rows, 1)) * burst + _clicks(values["audio_click_count"], rng)
    loudness = rng.uniform(0.35, 0.9, size=(rows, 1))
    return np.round(level * loudness / np.max(np.abs(level), axis=1, keepdims=True), 9)


def _clicks(count: Array, rng: Rng) -> Array:
    """So many clicks of three samples each, at drawn times that do not touch: (rows, LENGTH)."""
    level = np.zeros((len(count), LENGTH + 3))
    for row, clicks in zip(level, np.rint(count).astype(int), strict=True):
        for slot in rng.permutation(LENGTH // CLICK_SPACING)[:clicks]:
            start = slot * CLICK_SPACING + rng.randint(CLICK_SPACING // 2)
            size = rng.uniform(3.0, 4.5) * (1 if rng.randint(2) else -1)
            row[start : start + 3] += size * np.array([1.0, -0.7, 0.2])
    return level[:, :LENGTH]


def spoil(level: Array, mutations: Mapping[str, float], rng: Rng) -> Array:
    """`level` (rows, LENGTH) after the mutations, in the order of a recording chain."""
    return np.round(apply_steps(FAULTS, level, mutations, rng), 9)


def _filtered(level: Array, weight: Array) -> Array:
    """`level` (rows, samples) with its spectrum multiplied by `weight`, for each of the frequencies of rfft."""
    return np.fft.irfft(np.fft.rfft(level, axis=1) * weight, n=level.shape[1], axis=1)


def _loudness(level: Array) -> Any:
    return np.sqrt(np.mean(level**2, axis=1, keepdims=True))


def _echo(level: Array, strength: float, rng: Rng) -> Array:
    delay = rng.randint(int(0.03 * RATE), int(0.09 * RATE), size=len(level))
    gain = strength * rng.uniform(0.3, 0.9, size=len(level))
    padded = np.zeros((len(level), LENGTH))
    for row, start in enumerate(delay):
        padded[row, start:] = gain[row] * level[row, :-start]
    return (level + padded) / (1 + gain[:, None])


def _noise(level: Array, strength: float, rng: Rng) -> Any:
    """Noise whose power falls with the frequency, by a power of it that is drawn once."""
    weight = (1 + np.fft.rfftfreq(LENGTH, 1 / RATE) / 200) ** -rng.uniform(0.2, 1.0)
    noise = _filtered(rng.normal(size=level.shape), weight / np.sqrt(np.mean(weight**2)))
    return level + strength * rng.uniform(0.2, 1.0, size=(len(level), 1)) * _loudness(level) * noise


def _hum(level: Array, strength: float, rng: Rng) -> Any:
    time, starts = np.arange(LENGTH) / RATE, rng.uniform(size=(3, len(level), 1))
    wave = sum(np.sin(2 * np.pi * (50 * at * time + starts[at // 2])) / at for at in (1, 3, 5))
    return level + strength * rng.uniform(0.4, 1.5, size=(len(level), 1)) * _loudness(level) * wave


def _gain(level: Array, strength: float, rng: Rng) -> Array:
    rows = len(level)
    late = np.arange(LENGTH) >= rng.randint(LENGTH // 6, 5 * LENGTH // 6, size=(rows, 1))
    factor = 1 - strength * rng.uniform(0.4, 0.85, size=(rows, 1))
    return np.where(late == (rng.uniform(size=(rows, 1)) < 0.5), factor, 1.0) * level


def _clip(level: Array, strength: float, rng: Rng) -> Array:
    """Cuts off at a share of the 98 % quantile of the amplitude, so that clicks do not save the rest."""
    loud = np.quantile(np.abs(level), 0.98, axis=1, keepdims=True)
    top = loud * (1 - strength * rng.uniform(0.25, 0.75, size=(len(level), 1)))
    return np.clip(level, -top, top)


def _dropouts(level: Array, strength: float, rng: Rng) -> Array:
    silent = np.zeros(level.shape, dtype=bool)
    for _ in range(2 + int(6 * strength)):
        start = rng.randint(LENGTH, size=(len(level), 1))
        size = rng.randint(int(0.01 * RATE), int(0.04 * RATE), size=(len(level), 1))
        silent |= (np.arange(LENGTH) >= start) & (np.arange(LENGTH) < start + size)
    return np.where(silent, 0.0, level)


def _narrow(level: Array, strength: float, rng: Rng) -> Array:
    top = 2800 - 1500 * strength * rng.uniform(0.3, 1.0, size=(len(level), 1))
    passes = 1 / (1 + (np.fft.rfftfreq(LENGTH, 1 / RATE) / top) ** 16)
    weak = rng.uniform(size=(len(level), 1)) < 0.4 + 0.5 * strength
    return np.where(weak, _filtered(level, passes), level)


# From the room to the file.
FAULTS: dict[str, Callable[[Array, float, Rng], Array]] = {
    "echo": _echo,
    "background_noise": _noise,
    "hum": _hum,
    "gain_change": _gain,
    "clipping": _clip,
    "resampled": _narrow,
    "dropouts": _dropouts,
}


def plain_features(samples: Array) -> Array:
    """(rows, 31) quick statistics of 16 bit samples (rows, LENGTH).

    Loudness of the whole and of fifths, peak, zero crossings, 16 bands and their centroid; of quarters the loudness of
    the upper treble; of halves the centroid below 1200 Hz; how much the rectified wave swings in two bands of rates.
    """
    level, rows = samples / FULL, len(samples)
    spectrum, pitch = np.fft.rfft(level, axis=1), np.fft.rfftfreq(LENGTH, 1 / RATE)
    power = np.abs(spectrum[:, 1:]) ** 2
    bands = np.log(power.reshape(rows, 16, -1).mean(axis=2) + 1e-3)
    fifths = np.sqrt(np.mean(level.reshape(rows, 5, -1) ** 2, axis=2))
    crossings = np.mean(np.diff(np.signbit(level), axis=1), axis=1)
    treble = np.fft.irfft(spectrum * (pitch > 0.78 * RATE / 2), n=LENGTH, axis=1)
    quarters = np.log(np.mean(treble.reshape(rows, 4, -1) ** 2, axis=2) + 1e-7)
    halves = np.abs(np.fft.rfft(level.reshape(rows, 2, -1), axis=2)) ** 2
    low = np.fft.rfftfreq(LENGTH // 2, 1 / RATE) < 1200
    centroids = [_centroid(power, pitch[1:]), *_centroid(halves[:, :, low], np.arange(low.sum())).T]
    slow = np.abs(np.fft.rfft(np.abs(level), axis=1)) / (_loudness(level) * LENGTH + 1e-9)
    swings = [slow[:, first : first + 9].mean(axis=1) for first in (6, 15)]
    whole = [_loudness(level)[:, 0], np.abs(level).max(axis=1), crossings]
    return np.round(np.column_stack([*whole, fifths, bands, quarters, *centroids, *swings]), 6)


def _centroid(power: Array, pitch: Array) -> Any:
    """The mean of `pitch` weighted by `power` along the last axis."""
    return (power * pitch).sum(axis=-1) / (power.sum(axis=-1) + 1e-9)


# What moves slower than this in Hz belongs to a tone; the share of white noise that such a band holds.
HALF_BAND = 30.0
PASSED = 4 * HALF_BAND / RATE
# A click's jump against the usual one; of noise alone, one in some ten thousand is as large.
CLICK_RATIO = 5.0
WINDOW, HOP, PADDED = 512, 256, 2048


def measure(samples: Array) -> dict[str, Array]:
    """Each factor in its own unit, (rows,), and codes of the envelope, from 16 bit samples (rows, LENGTH)."""
    level = (samples / FULL).astype(np.float32)
    clicks, cleaned = _find_clicks(level / (_loudness(level) + np.float32(1e-9)))
    pitch, glide = _find_line(cleaned)
    # Tones and, halfway between them, the noise: each is mixed down by the one before and half a tone.
    back = np.exp(-1j * np.pi * np.mod(_turns(pitch, glide), 2.0)).astype(np.complex64)
    mixed, slow = cleaned * back, []
    for _ in range(6):
        mixed = mixed * back
        slow.append(_low_band(mixed))
    tones, between = slow[0::2], slow[1::2]
    # The median of an exponentially distributed power is ln 2 of its mean; both sides of the spectrum hold noise.
    floor = np.median(np.hstack([np.abs(each[:, ::2]) ** 2 for each in between]), axis=1) / np.log(2) / PASSED * 2
    power = [np.maximum(2 * np.mean(np.abs(tone) ** 2, axis=1) - floor * PASSED, 1e-6) for tone in tones]
    loud = np.abs(tones[0])
    envelope, course = _find_envelope(loud)
    swings = loud / np.maximum(course, 0.1)
    swings = swings - swings.mean(axis=1, keepdims=True)
    rates = np.fft.rfftfreq(8192, HOP_DOWN / RATE)
    inside = (rates >= 5) & (rates <= 26)
    size = np.abs(np.fft.rfft(swings * np.hanning(swings.shape[1]), n=8192, axis=1))
    high = np.fft.rfftfreq(LENGTH, 1 / RATE)
    step = RATE / HOP_DOWN
    hiss = _filtered(cleaned, np.abs(high - BURST_HZ) < BURST_WIDTH)
    hiss = np.mean(hiss.reshape(len(hiss), -1, HOP_DOWN) ** 2, axis=2)
    return {
        "audio_pitch": pitch,
        "audio_glide": glide,
        "audio_tremolo_rate": rates[inside][np.round(size[:, inside], 6).argmax(axis=1)],
        "audio_click_count": clicks,
        "audio_noise_share": floor / (floor + sum(power)),
        "audio_overtones": np.sqrt((power[1] + power[2]) / (power[0] + power[1])),
        "audio_burst_time": (np.round(_slow(hiss, 0.012 * step), 6).argmax(axis=1) + 0.5) / step,
        ENVELOPE: envelope,
    }


def _slow(course: Array, width: float) -> Any:
    """`course` (rows, steps) smoothed by a Gaussian of `width` steps."""
    return gaussian_filter1d(course, width, axis=1, mode="reflect")


def _find_clicks(level: Array) -> tuple[Array, Array]:
    """(number of clicks (rows,), the recording without them): jumps that stick out of their neighbourhood."""
    jump = np.zeros_like(level)
    jump[:, 1:-1] = np.abs(2 * level[:, 1:-1] - level[:, :-2] - level[:, 2:])
    usual = uniform_filter1d(np.minimum(jump, 3 * np.median(jump, axis=1, keepdims=True)), 201, axis=1, mode="nearest")
    ratio = np.round(jump / (usual + 0.05), 6)
    peak = (ratio == maximum_filter1d(ratio, 25, axis=1)) & (ratio > CLICK_RATIO)
    near = maximum_filter1d(peak.astype(np.int8), 7, axis=1) > 0
    return peak.sum(axis=1).astype(float), np.where(near, 0.0, level)


def _find_line(level: Array) -> tuple[Array, Array]:
    """(pitch in the middle, glide in Hz per second) of the tone: the best straight line through the spectrogram."""
    starts = np.arange(0, LENGTH - WINDOW + 1, HOP)
    frames = level[:, starts[:, None] + np.arange(WINDOW)] * np.hanning(WINDOW)
    size = np.abs(fft.rfft(frames.astype(np.float32), n=PADDED, axis=2))
    away = (starts + WINDOW / 2) / RATE - SECONDS / 2
    pitches, glides = np.arange(290.0, 711.0, 5.0), np.arange(-340.0, 341.0, 40.0)
    line = pitches[:, None, None] + glides[None, :, None] * away
    score = np.zeros((len(level), len(pitches), len(glides)), dtype=np.float32)
    for frame in range(len(starts)):
        bins = np.rint(line[:, :, frame] * PADDED / RATE).astype(int)
        score += size[:, frame][:, bins] + 0.4 * size[:, frame][:, 2 * bins]
    score = np.round(score, 3)
    best = score.reshape(len(level), -1).argmax(axis=1)
    row, (high, steep) = np.arange(len(level)), np.unravel_index(best, score.shape[1:])
    high, steep = np.clip(high, 1, len(pitches) - 2), np.clip(steep, 1, len(glides) - 2)
    pitch = pitches[high] + 5 * _vertex([score[row, high + step, steep] for step in (-1, 0, 1)])
    glide = glides[steep] + 40 * _vertex([score[row, high, steep + step] for step in (-1, 0, 1)])
    return np.round(pitch, 4), np.round(glide, 4)


def _vertex(beside: Sequence[Array]) -> Any:
    """Where a parabola through three values at -1, 0 and 1 is highest, between -1 and 1."""
    bend = np.minimum(beside[0] - 2 * beside[1] + beside[2], -1e-6)
    return np.clip((beside[0] - beside[2]) / (2 * bend), -1, 1)


# One of so many samples of a tone mixed down is kept.
HOP_DOWN = 20


def _low_band(mixed: Array) -> Any:
    """(rows, LENGTH / HOP_DOWN) of a complex wave (rows, LENGTH): what moves no faster than HALF_BAND."""
    spectrum, kept = fft.fft(mixed, axis=1), LENGTH // HOP_DOWN
    low = np.concatenate([spectrum[:, : kept // 2], spectrum[:, -(kept // 2) :]], axis=1)
    slow = np.abs(np.fft.fftfreq(kept, HOP_DOWN / RATE)) <= HALF_BAND
    return fft.ifft(np.where(slow, low, 0), axis=1) / HOP_DOWN


def _find_envelope(loud: Array) -> tuple[Array, Array]:
    """(codes of the envelope, its slow course): the shape that the smoothed loudness is most like."""
    slow = _slow(loud, 0.06 * RATE / HOP_DOWN)
    place = np.linspace(0, 1, loud.shape[1])
    shapes = np.array(
        [0.25 + 0.75 * place, 1 - 0.75 * place, np.ones(len(place)), 0.25 + 0.75 * np.sin(2 * np.pi * place) ** 2]
    )
    shapes = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    code = np.round((slow / (np.linalg.norm(slow, axis=1, keepdims=True) + 1e-9)) @ shapes.T, 6).argmax(axis=1)
    return code, shapes[code] * (slow * shapes[code]).sum(axis=1, keepdims=True)


# Recordings with a gap: a stretch of 24 to 32 samples is silent, and the wave around it follows a drawn rule.
#
# Not covered: how a solver hears the rule; `right` knows the rule but not the wave in the gap.

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

    clean: Array
    words: str
    guess: Callable[[Array, Array, Array], Array]


def reconstruction(scenario: Scenario, rows: int, mutations: Mapping[str, float], noise: float, rng: Rng) -> Dense:
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
        f"{units} samples from `gap_start` on were silenced. Wanted are their amplitudes, between -1 and 1 (a sample divided by "
        f"{FULL}), as they were at the microphone, before any fault of the recording."
    )
    return Dense(
        rendered=Rendered(
            columns=[Column("gap_start", "number of the first silenced sample of the recording, counted from 0")],
            cells={"gap_start": [str(int(each)) for each in start]},
            assets=[asset(samples, "the recording with its gap")],
            notes=[FILE_FORMAT, wanted],
        ),
        target=Target(
            problem="reconstruction",
            asked=f"Fill the gap in each recording: predict its {units} silenced samples, `{names[0]}` to `{names[-1]}`.",
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


def _nearby(heard: Array, at: Array) -> Array:
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


def _tones(rows: int, rng: Rng) -> Wave:
    ratios = [1.0, round(float(rng.uniform(1.6, 2.6)), 3), round(float(rng.uniform(3.2, 4.8)), 3)]
    words = f"three tones, the second {ratios[1]} and the third {ratios[2]} times as high as the first"
    sizes = np.array([1.0, 0.8, 0.6])[:, None, None] * rng.uniform(0.7, 1.3, size=(3, rows, 1))
    return _chord(ratios, sizes, (110.0, 220.0), 0.0, words, rng)


def _tremolo(rows: int, rng: Rng) -> Wave:
    """A swelling tone is three tones; the outer two are of one size."""
    part, depth = int(rng.randint(3, 8)), rng.uniform(0.5, 0.9, size=rows) / 2
    words = f"a tone that swells and fades once in {part} of its periods"
    sizes = np.stack([depth, np.ones(rows), depth])[:, :, None]
    return _chord([1 - 1 / part, 1.0, 1 + 1 / part], sizes, (180.0, 440.0), 0.0, words, rng)


def _glide(rows: int, rng: Rng) -> Wave:
    rate = round(float((1 if rng.randint(2) else -1) * rng.uniform(80, 200)), 1)
    words = f"a tone and its octave whose pitch changes by {rate} Hz a second"
    sizes = np.stack([np.ones((rows, 1)), rng.uniform(0.3, 0.7, size=(rows, 1))])
    return _chord([1.0, 2.0], sizes, (220.0, 380.0), rate, words, rng)


def _chord(
    ratios: Sequence[float], sizes: Array, pitches: tuple[float, float], rate: float, words: str, rng: Rng
) -> Wave:
    """Tones at `ratios` of a pitch between `pitches`, which changes by `rate` Hz a second; `sizes` (tones, rows, 1)."""
    rows, time = sizes.shape[1], np.arange(LENGTH) / RATE
    bend = rate * (time**2 - SECONDS * time) / 2
    starts = rng.uniform(size=(len(ratios), rows, 1))
    turns = rng.uniform(*pitches, size=(rows,))[:, None] * time + bend
    tones = zip(ratios, sizes, starts, strict=True)
    clean = sum(size * np.sin(2 * np.pi * (ratio * turns + start)) for ratio, size, start in tones)
    trial = np.arange(pitches[0] - 5, pitches[1] + 5, 0.1)

    def guess(level: Array, known: Array, at: Array) -> Array:
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


def _fitted(level: Array, known: Array, at: Array, angles: Sequence[Array]) -> Array:
    """(rows, units, 1 + angles): least squares of sines and cosines of the angles beside the gap, and each one's part."""
    near = at[:, :1] + np.arange(-AROUND, at.shape[1] + AROUND)
    base = np.stack(
        [wave(np.take_along_axis(angle, near, axis=1)) for angle in angles for wave in (np.sin, np.cos)], axis=2
    )
    heard, beside = (np.take_along_axis(each, near, axis=1) for each in (level, known))
    parts = base[:, AROUND:-AROUND, :] * least_squares(base, heard, beside, 1e-2)[:, None, :]
    pairs = parts.reshape(*parts.shape[:2], len(angles), 2).sum(axis=3)
    return np.concatenate([pairs.sum(axis=2, keepdims=True), pairs], axis=2)


def _murmur(rows: int, length: int, rng: Rng) -> Any:
    """Noise (rows, length) without high tones, of deviation 1."""
    noise = gaussian_filter1d(rng.normal(size=(rows, length)), 5, axis=1, mode="wrap")
    return noise / noise.std(axis=1, keepdims=True)


def _repeat(rows: int, rng: Rng) -> Wave:
    """A pattern of noise that comes again and again, each time weaker and perhaps turned over."""
    period, sign = int(rng.randint(140, 320)), 1 if rng.randint(2) else -1
    keep = round(sign * float(rng.uniform(0.96, 0.99)), 3)
    words = f"a sample is {keep} times the one {period} samples before"
    clean = _murmur(rows, period, rng)[:, np.arange(LENGTH) % period] * keep ** (np.arange(LENGTH) // period)

    def guess(level: Array, known: Array, at: Array) -> Array:
        back = [np.take_along_axis(level, at + step * period, axis=1) * keep**-step for step in (-2, -1, 1, 2)]
        return np.stack([sum(back) / 4, *back], axis=2)

    return Wave(clean, words, guess)


def _mirror(rows: int, rng: Rng) -> Wave:
    """Noise whose second half is the first one played backwards."""
    sign, middle = 1 if rng.randint(2) else -1, LENGTH // 2 + int(rng.randint(-40, 41))
    words = f"from sample {middle} on the recording is {'' if sign > 0 else 'minus '}the part before it, backwards"
    place = np.arange(LENGTH)
    source = np.abs(np.where(place < middle, place, 2 * middle - 1 - place))
    clean = _murmur(rows, LENGTH, rng)[:, source] * np.where(place < middle, 1, sign)

    def guess(level: Array, known: Array, at: Array) -> Array:
        other = 2 * middle - 1 - at
        return np.stack([sign * np.take_along_axis(level, other + shift, axis=1) for shift in (0, -1, 1)], axis=2)

    return Wave(clean, words, guess)


WAVES: dict[str, Callable[[int, Rng], Wave]] = {
    "tones": _tones,
    "tremolo": _tremolo,
    "glide": _glide,
    "repeat": _repeat,
    "mirror": _mirror,
}


DENSE = {"reconstruction": reconstruction}
