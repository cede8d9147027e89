"""Recordings by bands, the course of loudness, its swinging, the course of the pitch, overtones, clicks and bursts."""

import wave
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import ndimage


def sounds(column):
    levels = []
    for path in column:
        with wave.open("input/" + path) as file:
            rate = file.getframerate()
            levels.append(np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768)
    level = np.stack(levels)
    loud = level.std(axis=1, keepdims=True) + 1e-4
    jumps, calm = clicks(level / loud)
    return pd.DataFrame(np.hstack([np.log(loud), jumps, bands(calm), course(calm, rate), pitch(calm, rate)]))


def clicks(level):
    jump = np.zeros_like(level)
    jump[:, 1:-1] = np.abs(2 * level[:, 1:-1] - level[:, :-2] - level[:, 2:])
    usual = np.median(jump, axis=1, keepdims=True)
    local = ndimage.uniform_filter1d(np.minimum(jump, 4 * usual), 201, axis=1) + 0.02
    counts, peak = [], jump == ndimage.maximum_filter1d(jump, 25, axis=1)
    for limit in (4, 5, 7, 10):
        counts.append((peak & (jump > limit * local)).sum(axis=1))
    near = ndimage.maximum_filter1d((peak & (jump > 5 * local)).astype(np.int8), 7, axis=1) > 0
    return np.column_stack([*counts, usual, jump.max(axis=1)]), np.where(near, 0, level)


def bands(level):
    power = np.abs(np.fft.rfft(level, axis=1)[:, 1:]) ** 2
    edges = np.unique(np.geomspace(8, power.shape[1], 25).astype(int))
    rows = [np.log(power[:, low:high].mean(axis=1) + 1e-3) for low, high in pairwise(edges)]
    floors = [np.log(np.median(power[:, at : at + 125], axis=1) + 1e-3) for at in range(0, power.shape[1], 125)]
    return np.column_stack([*rows, *floors])


def course(level, rate):
    slow = np.abs(level)[:, : level.shape[1] // 20 * 20].reshape(len(level), -1, 20).mean(axis=2)
    parts = [part.mean(axis=1) for part in np.array_split(slow, 10, axis=1)]
    calm = ndimage.gaussian_filter1d(slow, 8, axis=1)
    swing = slow / (calm + 0.1) - 1
    size = np.abs(np.fft.rfft(swing * np.hanning(swing.shape[1]), n=1024, axis=1))
    hertz = np.fft.rfftfreq(1024, 20 / rate)
    inside = (hertz > 7) & (hertz < 32)
    best = hertz[inside][size[:, inside].argmax(axis=1)]
    steps = [size[:, (hertz >= low) & (hertz < low + 4)].mean(axis=1) for low in range(4, 36, 4)]
    wave = np.fft.rfft(level, axis=1)
    tones = np.fft.rfftfreq(level.shape[1], 1 / rate)
    bursts = []
    for low in np.arange(0.5, 0.95, 0.09) * rate / 2:
        part = np.fft.irfft(wave * ((tones >= low) & (tones < low + 0.1 * rate / 2)), n=level.shape[1], axis=1)
        energy = ndimage.uniform_filter1d(part**2, int(0.02 * rate), axis=1)
        bursts += [energy.argmax(axis=1), np.log(energy.max(axis=1) / (energy.mean(axis=1) + 1e-9) + 1e-9)]
    return np.column_stack([*parts, calm.std(axis=1), best, *steps, *bursts])


def pitch(level, rate):
    starts = np.arange(0, level.shape[1] - 255, 64)
    frames = level[:, starts[:, None] + np.arange(256)] * np.hanning(256)
    size = np.abs(np.fft.rfft(frames, n=1024, axis=2))
    hertz = np.fft.rfftfreq(1024, 1 / rate)
    low, high = np.searchsorted(hertz, [150, 620])
    both = size[:, :, low:high] + 0.5 * size[:, :, 2 * low : 2 * high : 2]
    away = starts / level.shape[1] - (starts / level.shape[1]).mean()
    shifts = np.arange(-24, 25, 3)
    moved = [np.rint(shift * away / np.ptp(away)).astype(int) for shift in shifts]
    at = np.arange(24, high - low - 24)
    scores = np.stack([sum(both[:, t, :][:, at + move[t]] for t in range(len(starts))) for move in moved], axis=1)
    flat = scores.reshape(len(level), -1)
    steep, best = np.divmod(flat.argmax(axis=1), len(at))
    middle, slope = hertz[low + at[best]], shifts[steep]
    trust = flat.max(axis=1) / flat.mean(axis=1)
    whole = size.mean(axis=1)
    tone = [np.log(whole[np.arange(len(level)), np.rint(k * middle / hertz[1]).astype(int)] + 1e-3) for k in (1, 2, 3)]
    between = [
        np.log(whole[np.arange(len(level)), np.rint(k * middle / hertz[1]).astype(int)] + 1e-3) for k in (1.5, 2.5)
    ]
    return np.column_stack(
        [middle, slope, trust, *tone, *between, tone[1] - tone[0], tone[2] - tone[0], tone[0] - between[0]]
    )
