"""A hidden pixel is guessed from the edges of the hole, from mirrors, shifts and waves, and linearly from all others."""

import numpy as np
from PIL import Image
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict


def units(table, goals, train):
    grey = np.stack([np.asarray(Image.open("input/" + path).convert("L"), dtype=float) for path in table["image"]])
    side = grey.shape[1]
    places = np.array([[int(part) for part in goal.split("_")[1:]] for goal in goals])
    same = (grey == grey[:1]).all(axis=0)
    down, across = np.nonzero(same)
    hole = places + np.array([down.min(), across.min()])
    hidden = np.zeros((side, side), dtype=bool)
    hidden[hole[:, 0], hole[:, 1]] = True
    middle = grey[:, ~hidden].mean(axis=1)[:, None]
    spread = grey[:, ~hidden].std(axis=1)[:, None] + 1e-6
    flat = (grey - middle[:, :, None]) / spread[:, :, None]
    flat[:, hidden] = 0
    top, left = hole.min(axis=0)
    low, right = hole.max(axis=0)
    edges = [
        flat[:, hole[:, 0], left - 1],
        flat[:, hole[:, 0], right + 1],
        flat[:, top - 1, hole[:, 1]],
        flat[:, low + 1, hole[:, 1]],
    ]
    weights = [1 / (1 + away) for away in (hole[:, 1] - left, right - hole[:, 1], hole[:, 0] - top, low - hole[:, 0])]
    found = [sum(edge * weight for edge, weight in zip(edges, weights, strict=True)) / sum(weights), *edges]
    for other in (flat[:, :, ::-1], flat[:, ::-1], flat[:, ::-1, ::-1]):
        found.append(other[:, hole[:, 0], hole[:, 1]])
    found += shifted(flat, hidden, hole)
    found.append(waves(flat, hidden)[:, hidden])
    wanted = (train[goals].to_numpy(dtype=float) - middle[: len(train)]) / spread[: len(train)]
    model, count = Ridge(60.0), len(train)
    seen = flat[:, ~hidden]
    linear = np.vstack(
        [cross_val_predict(model, seen[:count], wanted, cv=5), model.fit(seen[:count], wanted).predict(seen[count:])]
    )
    found.append(linear)
    found += [np.tile(each, (len(grey), 1)).astype(float) for each in places.T]
    return np.stack(found, axis=2), linear * spread + middle, spread


def shifted(flat, hidden, hole):
    """What lies the steps away at which the pictures are most like themselves."""
    side, likely = len(hidden), []
    for down in range(-9, 10):
        for across in range(-9, 10):
            at = hole + np.array([down, across])
            if (at < 0).any() or (at >= side).any() or hidden[at[:, 0], at[:, 1]].any():
                continue
            rows, columns = slice(max(0, -down), side - max(0, down)), slice(max(0, -across), side - max(0, across))
            there = slice(max(0, down), side - max(0, -down)), slice(max(0, across), side - max(0, -across))
            one, other = flat[:, rows, columns], flat[:, there[0], there[1]]
            likely.append((abs((one * other).mean()) / np.sqrt((one**2).mean() * (other**2).mean()), down, across))
    best = sorted(likely, reverse=True)[:4]
    found = [flat[:, hole[:, 0] + down, hole[:, 1] + across] for _, down, across in best]
    return (found + [np.zeros((len(flat), len(hole)))] * 4)[:4]


def waves(flat, hidden):
    """The hole filled by the strongest waves, again and again."""
    side = len(hidden)
    filled = flat.copy()
    window = np.hanning(side + 2)[1:-1] ** 0.5
    window = window[:, None] * window
    for step in range(30):
        spectrum = np.fft.fft2(filled * window, s=(2 * side, 2 * side))
        size = np.abs(spectrum)
        limit = size.max(axis=(1, 2), keepdims=True) * (0.9 - 0.025 * step)
        kept = np.fft.ifft2(np.where(size >= limit, spectrum, 0)).real[:, :side, :side] / np.maximum(window, 0.2)
        filled[:, hidden] = kept[:, hidden]
    return filled
