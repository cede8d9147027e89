"""A pixel is told by brightness, roughness and stripes of its surroundings, of several lengths and directions."""

import numpy as np
from PIL import Image
from scipy import ndimage


def units(table):
    grey = (
        np.stack([np.asarray(Image.open("input/" + path).convert("L"), dtype=float) for path in table["image"]]) / 255
    )
    side = grey.shape[1]
    level = blurred(grey, 2.0)
    apart = level - np.median(level, axis=(1, 2), keepdims=True)
    found = [grey, blurred(grey, 1.0) - level, apart]
    found += [np.log(blurred((grey - level) ** 2, width) + 1e-5) for width in (1.2, 2.2)]
    bend = np.abs(np.pad(np.diff(np.diff(grey, 2, axis=1), 2, axis=2), ((0, 0), (1, 1), (1, 1)), mode="edge"))
    found.append(np.log(blurred(bend, 1.5) + 0.01))
    found.append(np.log(ndimage.percentile_filter(bend, 30, size=(1, 5, 5)) + 0.01))
    strength = np.zeros((3, 6, *grey.shape))
    down, across = np.indices((side, side))
    for row, period in enumerate((3.0, 4.2, 6.0)):
        for column, angle in enumerate(np.arange(0, np.pi, np.pi / 6)):
            phase = 2 * np.pi / period * (np.cos(angle) * across + np.sin(angle) * down)
            real, imaginary = (blurred((grey - level) * wave(phase), 1.7) for wave in (np.cos, np.sin))
            strength[row, column] = real**2 + imaginary**2 + 1e-5
    found += [np.log(strength[at].max(axis=0)) for at in range(3)]
    found.append(np.log(strength[0].max(axis=0) / strength[2].max(axis=0)))
    found += [np.log(strength[:, at].max(axis=0) / strength.mean(axis=(0, 1))) for at in range(6)]
    return np.stack(found, axis=-1).reshape(len(grey), side * side, -1)


def blurred(fields, width):
    return ndimage.gaussian_filter(fields, (0, width, width))
