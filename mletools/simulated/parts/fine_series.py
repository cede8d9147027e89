"""Series put in order and freed of outliers, by trend, season, shift of level, spikes, scatter and memory."""

import csv

import numpy as np
import pandas as pd
from scipy.ndimage import median_filter


def series(column):
    kept = [reading("input/" + path) for path in column]
    length = int(np.median([len(each) for each in kept]))
    level = np.stack([np.interp(np.linspace(0, 1, length), np.linspace(0, 1, len(each)), each) for each in kept])
    return pd.DataFrame(np.hstack([whole(level), turns(level), shifts(level)]))


def reading(path):
    known = {}
    with open(path, newline="") as file:
        for line in list(csv.reader(file))[1:]:
            if line[1]:
                milli = any(cell.startswith("1/1000") for cell in line[2:])
                known[round(float(line[0]))] = float(line[1].replace(",", ".")) / (1000 if milli else 1)
    steps = np.array(sorted(known))
    value = np.array([known[step] for step in steps])
    usual = median_filter(value, 7)
    value = np.where(value > 4 * np.abs(usual) + 1e-9, value / 10, value)
    return np.interp(np.arange(steps[0], steps[-1] + 1), steps, value)


def whole(level):
    length = level.shape[1]
    time = np.linspace(-0.5, 0.5, length)
    centred = level - level.mean(axis=1, keepdims=True)
    slope = centred @ time / (time**2).sum()
    rest = centred - slope[:, None] * time
    parts = [part.mean(axis=1) for part in np.array_split(level, 6, axis=1)]
    ends = [np.quantile(level, q, axis=1) for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
    step = np.diff(level, axis=1)
    usual = np.median(np.abs(step), axis=1)
    bend = np.abs(np.diff(level, 2, axis=1))
    jumps = [(bend > k * np.median(bend, axis=1, keepdims=True)).sum(axis=1) for k in (4, 6, 9)]
    half = length // 2
    late = np.log((np.median(bend[:, half:], axis=1) + 1e-6) / (np.median(bend[:, :half], axis=1) + 1e-6))
    memory = [(rest[:, k:] * rest[:, :-k]).mean(axis=1) / (rest**2).mean(axis=1).clip(1e-9) for k in (1, 2, 3)]
    sizes = [rest.std(axis=1), step.std(axis=1), usual, np.median(bend, axis=1), bend.max(axis=1)]
    return np.column_stack([level.mean(axis=1), slope, *parts, *ends, *sizes, *jumps, late, *memory])


def turns(level):
    length = level.shape[1]
    time = np.arange(length)
    flat = level - np.stack([np.polyval(np.polyfit(time, each, 2), time) for each in level])
    power = np.abs(np.fft.rfft(flat * np.hanning(length), n=4 * length, axis=1)) ** 2
    share = (power / power.sum(axis=1, keepdims=True).clip(1e-9)).mean(axis=0)
    best = 12 + share[12:].argmax()
    period = 4 * length / best
    found = [np.log(power[:, low : low + 8].mean(axis=1) + 1e-9) for low in range(8, 88, 8)]
    for k in (1, 2, 3):
        wave = np.exp(-2j * np.pi * k * time / period)
        size = flat @ wave
        found += [np.abs(size), size.real, size.imag, np.angle(size)]
    fold = np.floor(time / period * 8).astype(int) % 8
    shape = np.stack(
        [np.median(flat[:, fold == at], axis=1) if (fold == at).any() else flat[:, 0] for at in range(8)], axis=1
    )
    rest = flat - shape[:, fold]
    high = shape - shape.mean(axis=1, keepdims=True)
    spread = np.ptp(high, axis=1).clip(1e-9)
    sharp = [(high**3).mean(axis=1) / spread**3, high.max(axis=1) / spread, np.abs(high).mean(axis=1) / spread]
    calm = np.median(np.abs(rest), axis=1)
    spikes = [(np.abs(rest) > k * calm[:, None]).sum(axis=1) for k in (4, 6, 8)]
    halves = np.log(
        (np.median(np.abs(rest[:, length // 2 :]), axis=1) + 1e-6)
        / (np.median(np.abs(rest[:, : length // 2]), axis=1) + 1e-6)
    )
    memory = [(rest[:, k:] * rest[:, :-k]).mean(axis=1) / (rest**2).mean(axis=1).clip(1e-9) for k in (1, 2, 3)]
    return np.column_stack([*found, shape, shape.argmax(axis=1), spread, *sharp, calm, *spikes, halves, *memory])


def shifts(level):
    length = level.shape[1]
    total = np.cumsum(level - level.mean(axis=1, keepdims=True), axis=1)
    cuts = np.arange(8, length - 8)
    before = np.stack([level[:, at - 8 : at].mean(axis=1) for at in cuts], axis=1)
    after = np.stack([level[:, at : at + 8].mean(axis=1) for at in cuts], axis=1)
    best = np.abs(after - before).argmax(axis=1)
    row = np.arange(len(level))
    return np.column_stack(
        [cuts[best], (after - before)[row, best], np.abs(total).argmax(axis=1), np.abs(total).max(axis=1)]
    )
