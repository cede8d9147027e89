"""Pictures by colour, blocks, gradients, their spectrum by length and direction, symmetry, grain, and spots."""

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage


def pictures(column):
    pixels = np.stack([np.asarray(Image.open("input/" + path).convert("RGB"), dtype=float) for path in column])
    grey, shades = pixels.mean(axis=3), pixels.mean(axis=(1, 2))
    count, side = len(grey), grey.shape[1]
    blocks = ndimage.zoom(ndimage.uniform_filter(grey, (0, side // 4, side // 4)), (1, 4 / side, 4 / side), order=1)
    found = [shades[:, :2] - shades[:, 1:], blocks.reshape(count, -1), grey.std(axis=(1, 2))[:, None]]
    found.append((blocks[:, :, :2].mean(axis=(1, 2)) - blocks[:, :, 2:].mean(axis=(1, 2)))[:, None])
    found.append((blocks[:, :2].mean(axis=(1, 2)) - blocks[:, 2:].mean(axis=(1, 2)))[:, None])
    found += [gradients(grey), spectrum(grey), likeness(grey), grain(grey), *(spots(sign * grey) for sign in (1, -1))]
    return pd.DataFrame(np.hstack(found))


def gradients(grey):
    down, across = np.gradient(ndimage.gaussian_filter(grey, (0, 0.8, 0.8)), axis=(1, 2))
    size, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi
    sectors = [(size * (angle // (np.pi / 9) == at)).sum(axis=(1, 2)) for at in range(9)]
    return np.column_stack([np.log1p(size.mean(axis=(1, 2))), *(each / size.sum(axis=(1, 2)) for each in sectors)])


def spectrum(grey):
    side = grey.shape[1]
    flat = grey - grey.mean(axis=(1, 2), keepdims=True)
    power = np.abs(np.fft.fft2(flat * np.hanning(side)[:, None] * np.hanning(side), s=(64, 64)))[:, :, :33] ** 2
    down, across = np.meshgrid(np.fft.fftfreq(64) * side, np.arange(33) / 64 * side, indexing="ij")
    length, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi
    bands = [np.log(power[:, (length >= low) & (length < low + 1)].mean(axis=1) + 1) for low in range(1, 10)]
    inside = (length > 1.7) & (length < 7)
    sectors = [np.log(power[:, inside & (angle // (np.pi / 8) == at)].mean(axis=1) + 1) for at in range(8)]
    best = power[:, inside].argmax(axis=1)
    turn = angle[inside][best]
    peak = np.log(power[:, inside].max(axis=1) / power[:, inside].mean(axis=1))
    steep = np.where(turn > np.pi / 2, np.pi - turn, turn)
    return np.column_stack(
        [*bands, *sectors, length[inside][best], np.cos(2 * turn), np.sin(2 * turn), steep, turn, peak]
    )


def likeness(grey):
    calm = ndimage.gaussian_filter(grey, (0, 1, 1))
    flat = (calm - calm.mean(axis=(1, 2), keepdims=True)) / (calm.std(axis=(1, 2), keepdims=True) + 1e-6)
    turned = [flat[:, :, ::-1], flat[:, ::-1], flat[:, ::-1, ::-1], flat.transpose(0, 2, 1)]
    return np.column_stack([(flat * each).mean(axis=(1, 2)) for each in turned])


def grain(grey):
    rough = np.abs(np.diff(np.diff(grey, 2, axis=1), 2, axis=2))
    fine = np.abs(grey - ndimage.gaussian_filter(grey, (0, 0.7, 0.7)))
    return np.column_stack([np.log1p(np.median(each, axis=(1, 2))) for each in (rough, fine)])


def spots(grey):
    side = grey.shape[1]
    calm = ndimage.gaussian_filter(grey, (0, 0.8, 0.8))
    apart = calm - ndimage.gaussian_filter(grey, (0, side / 8, side / 8))
    rows = []
    for field, whole in zip(apart, calm - np.median(calm, axis=(1, 2), keepdims=True), strict=True):
        line = [np.quantile(whole, 0.99), np.quantile(whole, 0.9)]
        for limit in (20, 35):
            marks, count = ndimage.label(whole > limit)
            sizes = np.bincount(marks.ravel())[1:] if count else np.zeros(1)
            line += [count, (sizes >= 3).sum(), sizes.max(), np.median(sizes), sizes.sum()]
        peaks = (field == ndimage.maximum_filter(field, 5)) & (field > 12)
        down, across = np.unravel_index(field.argmax(), field.shape)
        near = np.hypot(*(np.arange(side)[:, None] - down, np.arange(side) - across))
        rings = [whole[(near >= low) & (near < low + 1)].mean() for low in range(5)]
        rows.append([*line, peaks.sum(), down, across, down > side / 2, across > side / 2, *rings])
    return np.array(rows, dtype=float)
