"""What can be heard again: quick statistics of a recording, and a careful measurement of each factor.

Pitch and glide come from a search for the straight line in the spectrogram that the tone and its octave follow; the
tone is then turned back to rest, which shows its loudness over time. Not covered: separating several tones.
"""

from typing import Any

from .audio_wav import FULL, LENGTH, RATE, SECONDS

BANDS = 16
WINDOW = 256
HOP = 64
# Zeros after each window, for a spectrum of 3.9 Hz a step.
PADDED = 1024


def plain_features(samples: Any) -> Any:
    """(rows, 31) of 16 bit samples (rows, LENGTH), each a quick statistic of the whole or of a few long slices.

    Loudness of the whole and of fifths, peak, zero crossings, bands and their centroid; of quarters the loudness of the
    upper treble; of halves the centroid below 700 Hz; how much the rectified wave swings in two bands of slow rates.
    """
    import numpy as np

    level = samples / FULL
    rows = len(level)
    spectrum = np.fft.rfft(level, axis=1)[:, 1:]
    power, pitch = np.abs(spectrum) ** 2, np.fft.rfftfreq(LENGTH, 1 / RATE)[1:]
    wide = power.shape[1] // BANDS
    bands = np.log(power[:, : BANDS * wide].reshape(rows, BANDS, wide).mean(axis=2) + 1e-3)
    loud = np.sqrt(np.mean(level**2, axis=1))
    slices = np.sqrt(np.mean(level.reshape(rows, 5, -1) ** 2, axis=2))
    crossings = np.mean(np.diff(np.signbit(level), axis=1), axis=1)
    treble = np.fft.irfft(np.hstack([0 * spectrum[:, :1], spectrum * (pitch > 1750)]), n=LENGTH, axis=1)
    quarters = np.log(np.mean(treble.reshape(rows, 4, -1) ** 2, axis=2) + 1e-7)
    halves = np.abs(np.fft.rfft(level.reshape(rows, 2, -1), axis=2)) ** 2
    low = np.fft.rfftfreq(LENGTH // 2, 1 / RATE) < 700
    centroids = [_centroid(power, pitch), *_centroid(halves[:, :, low], np.arange(low.sum())).T]
    slow = np.abs(np.fft.rfft(np.abs(level), axis=1)) / (loud[:, None] * LENGTH + 1e-9)
    swings = [slow[:, first : first + 5].mean(axis=1) for first in (5, 10)]
    whole = [loud, np.abs(level).max(axis=1), crossings]
    return np.round(np.column_stack([*whole, slices, bands, quarters, *centroids, *swings]), 6)


def _centroid(power: Any, pitch: Any) -> Any:
    """The mean of `pitch` weighted by `power` along the last axis."""
    return (power * pitch).sum(axis=-1) / (power.sum(axis=-1) + 1e-9)


def measure(samples: Any) -> dict[str, Any]:
    """Each factor of audio in its own unit, (rows,), and codes of the envelope, from 16 bit samples (rows, LENGTH)."""
    import numpy as np

    level = samples / FULL
    level = level / np.sqrt(np.mean(level**2, axis=1, keepdims=True) + 1e-9)
    clicks, cleaned = _clicks(level)
    pitch, glide = _line(cleaned)
    courses = [_at_rest(cleaned, at * pitch, at * glide) for at in (1, 2, 3)]
    tone = np.abs(courses[0])
    floor = _floor(cleaned, pitch, glide)
    power = [np.mean(np.abs(course) ** 2, axis=1) * 2 for course in courses]
    # The pass band of _at_rest lets its share of the noise through.
    bare = [np.maximum(each - floor * PASSED, 1e-6) for each in power]
    overtones = np.sqrt((bare[1] + bare[2]) / (bare[0] + bare[1]))
    envelope, shape = _envelope(tone)
    return {
        "audio_pitch": pitch,
        "audio_glide": glide,
        "audio_tremolo_rate": _tremolo(tone / np.maximum(shape, 0.1)),
        "audio_click_count": clicks,
        "audio_noise_share": floor / (floor + sum(bare)),
        "audio_overtones": overtones,
        "audio_burst_time": _burst(cleaned),
        "audio_envelope": envelope,
    }


def _clicks(level: Any) -> tuple[Any, Any]:
    """(number of clicks (rows,), the recording without them): jumps that stick out of their neighbourhood."""
    import numpy as np
    from scipy.ndimage import maximum_filter1d, uniform_filter1d

    jump = np.zeros_like(level)
    jump[:, 1:-1] = np.abs(2 * level[:, 1:-1] - level[:, :-2] - level[:, 2:])
    usual = uniform_filter1d(np.minimum(jump, 3 * np.median(jump, axis=1, keepdims=True)), 201, axis=1, mode="nearest")
    ratio = np.round(jump / (usual + 0.05), 6)
    peak = (ratio == maximum_filter1d(ratio, 25, axis=1)) & (ratio > CLICK_RATIO)
    near = maximum_filter1d(peak.astype(np.int8), 7, axis=1) > 0
    return peak.sum(axis=1).astype(float), np.where(near, 0.0, level)


def _line(level: Any) -> tuple[Any, Any]:
    """(pitch in the middle, glide in Hz per second) of the tone: the best straight line through the spectrogram."""
    import numpy as np

    starts = np.arange(0, LENGTH - WINDOW + 1, HOP)
    frames = level[:, starts[:, None] + np.arange(WINDOW)] * np.hanning(WINDOW)
    size = np.abs(np.fft.rfft(frames, n=PADDED, axis=2))
    away = (starts + WINDOW / 2) / RATE - SECONDS / 2
    pitches, glides = np.arange(210.0, 491.0, 5.0), np.arange(-350.0, 351.0, 50.0)
    pitch = pitches[:, None, None] + glides[None, :, None] * away
    each = np.arange(len(starts))
    score = sum(
        weight * size[:, each, np.rint(at * pitch * PADDED / RATE).astype(int)].sum(axis=3)
        for at, weight in ((1, 1.0), (2, 0.4))
    )
    score = np.round(np.asarray(score), 6)
    best = score.reshape(len(level), -1).argmax(axis=1)
    row, (high, steep) = np.arange(len(level)), np.unravel_index(best, score.shape[1:])
    high, steep = np.clip(high, 1, len(pitches) - 2), np.clip(steep, 1, len(glides) - 2)
    found = []
    for grid, at, beside in (
        (pitches, high, [score[row, high + step, steep] for step in (-1, 0, 1)]),
        (glides, steep, [score[row, high, steep + step] for step in (-1, 0, 1)]),
    ):
        bend = beside[0] - 2 * beside[1] + beside[2]
        shift = np.where(bend < -1e-6, (beside[0] - beside[2]) / (2 * np.minimum(bend, -1e-6)), 0)
        found.append(grid[at] + np.clip(shift, -1, 1) * (grid[1] - grid[0]))
    return np.round(found[0], 4), np.round(found[1], 4)


def _at_rest(level: Any, pitch: Any, glide: Any) -> Any:
    """The complex amplitude (rows, LENGTH) of a gliding tone, without what moves faster than HALF_BAND."""
    import numpy as np

    time = np.arange(LENGTH) / RATE
    turns = pitch[:, None] * time + glide[:, None] * (time**2 - SECONDS * time) / 2
    spectrum = np.fft.fft(level * np.exp(-2j * np.pi * turns), axis=1)
    return np.fft.ifft(np.where(np.abs(np.fft.fftfreq(LENGTH, 1 / RATE)) <= HALF_BAND, spectrum, 0), axis=1)


def _floor(level: Any, pitch: Any, glide: Any) -> Any:
    """The power (rows,) of the noise, from bands between the tones: halfway to the next one."""
    import numpy as np

    between = [np.abs(_at_rest(level, at * pitch, at * glide)) ** 2 for at in (1.5, 2.5, 3.5)]
    # The median of an exponentially distributed power is ln 2 of its mean; both sides of the spectrum hold noise.
    return np.median(np.hstack([each[:, ::50] for each in between]), axis=1) / np.log(2) / PASSED * 2


def _smooth(course: Any, top: float) -> Any:
    """`course` (rows, LENGTH), mirrored at its ends, without what is faster than `top` Hz."""
    import numpy as np

    mirrored = np.hstack([course, course[:, ::-1]])
    spectrum = np.fft.rfft(mirrored, axis=1)
    weight = np.fft.rfftfreq(2 * LENGTH, 1 / RATE) <= top
    return np.fft.irfft(spectrum * weight, axis=1)[:, :LENGTH]


def _envelope(tone: Any) -> tuple[Any, Any]:
    """(codes of the envelope, its slow course): the shape that the smoothed loudness is most like."""
    import numpy as np

    slow = _smooth(tone, 6.0)
    place = np.arange(LENGTH) / LENGTH
    shapes = np.array(
        [0.25 + 0.75 * place, 1 - 0.75 * place, np.ones(LENGTH), 0.25 + 0.75 * np.sin(2 * np.pi * place) ** 2]
    )
    shapes = shapes / np.linalg.norm(shapes, axis=1, keepdims=True)
    likeness = np.round((slow / (np.linalg.norm(slow, axis=1, keepdims=True) + 1e-9)) @ shapes.T, 6)
    code = likeness.argmax(axis=1)
    return code, shapes[code] * (slow * shapes[code]).sum(axis=1, keepdims=True)


def _tremolo(course: Any) -> Any:
    """The rate (rows,) in Hz at which the loudness swings fastest, between 8 and 30 Hz."""
    import numpy as np

    course = course[:, ::10] - course[:, ::10].mean(axis=1, keepdims=True)
    size = np.abs(np.fft.rfft(course * np.hanning(course.shape[1]), n=4096, axis=1))
    rate = np.fft.rfftfreq(4096, 10 / RATE)
    inside = (rate >= 8) & (rate <= 30)
    return rate[inside][np.round(size[:, inside], 6).argmax(axis=1)]


def _burst(level: Any) -> Any:
    """The middle (rows,) in seconds of the loudest stretch above all overtones."""
    import numpy as np

    high = np.fft.rfftfreq(LENGTH, 1 / RATE)
    spectrum = np.fft.rfft(level, axis=1) * ((high > 1770) & (high < 1930))
    loud = _smooth(np.fft.irfft(spectrum, n=LENGTH, axis=1) ** 2, 25.0)
    return np.round(loud, 6).argmax(axis=1) / RATE


# What moves slower than this in Hz belongs to a tone; the share of white noise that such a band holds.
HALF_BAND = 40.0
PASSED = 4 * HALF_BAND / RATE
# A click's jump against the usual one; of noise alone, one in some ten thousand is as large.
CLICK_RATIO = 5.0
