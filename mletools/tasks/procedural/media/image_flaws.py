"""What happens to pictures between the scene and the file: blur, noise, occlusion, turns;
and what of it can be mended.

Pictures are floats of shape (rows, side, side, channels), 0 black to 1 white. Not covered: what is seen in them (image,
image_scene, image_mask, image_gap), the files (image_files).
"""

from collections.abc import Callable, Mapping
from typing import Any

MUTATIONS = {
    "rotation": "some pictures are turned by one, two or three quarter turns",
    "vignette": "the pictures darken towards the corners, some more than others",
    "blur": "the pictures are out of focus, some more than others",
    "motion_blur": "the camera moved across or down during the exposure",
    "sensor_noise": "each pixel has noise of its own, in some pictures more than in others",
    "occlusion": "a grey rectangle covers a part of each picture",
    "brightness_shift": "brightness and contrast differ from picture to picture",
    "coarse_levels": "the pictures have only a few levels of brightness",
    "salt_and_pepper": "single pixels are black or white",
    "dead_lines": "some lines of pixels are black",
}


def flawed(pictures: Any, mutations: Mapping[str, float], rng: Any) -> Any:
    """The pictures after the mutations but rotation, in the order of MUTATIONS, whatever the order of `mutations`."""
    for name, work in FLAWS.items():
        if name in mutations:
            pictures = work(pictures, mutations[name], rng)
    return pictures


def turned(pictures: Any, mutations: Mapping[str, float], rng: Any) -> Any:
    """The pictures, a share of them turned by quarter turns where "rotation" is among the mutations."""
    import numpy as np

    if "rotation" not in mutations:
        return pictures
    moved = rng.uniform(size=len(pictures)) < 0.04 + 0.16 * mutations["rotation"]
    turns = np.where(moved, rng.randint(1, 4, size=len(pictures)), 0)
    found = pictures.copy()
    for count in (1, 2, 3):
        found[turns == count] = np.rot90(pictures[turns == count], count, axes=(1, 2))
    return found


def smooth(fields: Any, sigma: Any) -> Any:
    """Fields of shape (rows, height, width, ...) blurred by a Gaussian of `sigma` pixels, a number or one a row."""
    import numpy as np

    for axis in (1, 2):
        size = fields.shape[axis]
        distance = np.arange(size)[:, None] - np.arange(size)[None, :]
        width = np.maximum(np.broadcast_to(np.asarray(sigma, dtype=float), (len(fields),)), 1e-3)
        kernel = np.exp(-0.5 * (distance / width[:, None, None]) ** 2)
        kernel /= kernel.sum(axis=2, keepdims=True)
        moved = np.moveaxis(fields, axis, 1)
        flat = moved.reshape(len(fields), size, -1)
        fields = np.moveaxis((kernel @ flat).reshape(moved.shape), 1, axis)
    return fields


def mended(colours: Any) -> Any:
    """Black lines become the mean of the lines beside them, single black or white pixels the median around them."""
    import numpy as np

    side = colours.shape[1]
    at = np.arange(side)
    before, after = np.abs(at - 1), side - 1 - np.abs(side - 2 - at)
    for axis in (1, 2):
        dead = np.expand_dims((colours < 0.01).all(axis=3).mean(axis=3 - axis) > 0.9, (3 - axis, 3))
        beside = (np.take(colours, before, axis=axis) + np.take(colours, after, axis=axis)) / 2
        colours = np.where(dead, beside, colours)
    extreme = ((colours < 0.01) | (colours > 0.99)).all(axis=3)
    row, down, across = np.nonzero(extreme)
    padded = np.pad(colours, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    around = np.stack([padded[row, down + r, across + c] for r in range(3) for c in range(3) if (r, c) != (1, 1)])
    middle = np.median(around, axis=0)
    found = colours.copy()
    struck = np.round(np.abs(found[row, down, across] - middle).mean(axis=1), 6) > 0.3
    found[row[struck], down[struck], across[struck]] = middle[struck]
    return found


def _blur(pictures: Any, strength: float, rng: Any) -> Any:
    return smooth(pictures, 0.2 + strength * rng.uniform(0.1, 0.6, size=len(pictures)))


def _motion(pictures: Any, strength: float, rng: Any) -> Any:
    """The mean over one to three positions of the camera, across in one half of the pictures, down in the other."""
    import numpy as np

    steps = 1 + rng.randint(2 + (strength > 0.6), size=len(pictures))
    across = rng.randint(2, size=len(pictures)).astype(bool)
    found = np.zeros_like(pictures)
    for step in range(int(steps.max())):
        seen = (step < steps)[:, None, None, None]
        shifted = np.where(across[:, None, None, None], _moved(pictures, step, 2), _moved(pictures, step, 1))
        found += np.where(seen, shifted, 0.0)
    return found / steps[:, None, None, None]


def _moved(pictures: Any, step: int, axis: int) -> Any:
    """The pictures `step` pixels further on; what comes in is the edge again."""
    import numpy as np

    return np.take(pictures, np.maximum(np.arange(pictures.shape[axis]) - step, 0), axis=axis)


def _noise(pictures: Any, strength: float, rng: Any) -> Any:
    level = rng.uniform(0.005, 0.02 + 0.04 * strength, size=(len(pictures), 1, 1, 1))
    return pictures + level * rng.normal(size=pictures.shape)


def _occlude(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, side = pictures.shape[:2]
    inside = np.ones((rows, side, side), dtype=bool)
    for axis in (1, 2):
        length = np.rint(side * rng.uniform(0.1, 0.18 + 0.12 * strength, size=rows)).astype(int)
        start = np.floor(rng.uniform(size=rows) * (side - length + 1)).astype(int)
        at = np.arange(side)[None, :]
        line = (at >= start[:, None]) & (at < (start + length)[:, None])
        inside &= line[:, :, None] if axis == 1 else line[:, None, :]
    grey = rng.uniform(0.3, 0.7, size=(rows, 1, 1, 1))
    return np.where(inside[:, :, :, None], grey, pictures)


def _brightness(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    size = (len(pictures), 1, 1, 1)
    gain = np.exp(strength * rng.uniform(-0.3, 0.3, size=size))
    shift = strength * rng.uniform(-0.12, 0.12, size=size)
    return np.clip(0.5 + gain * (pictures - 0.5) + shift, 0, 1)


def _vignette(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    at = np.linspace(-1, 1, pictures.shape[1])
    far = (at[:, None] ** 2 + at[None, :] ** 2) / 2
    return pictures * (1 - strength * rng.uniform(0.1, 0.5, size=(len(pictures), 1, 1, 1)) * far[None, :, :, None])


def _levels(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    steps = 16 - round(8 * strength)
    return np.rint(np.round(np.clip(pictures, 0, 1) * steps, 6)) / steps


def _pepper(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    struck = rng.uniform(size=pictures.shape[:3]) < 0.005 + 0.03 * strength
    white = rng.randint(2, size=pictures.shape[:3]).astype(float)
    return np.where(struck[..., None], white[..., None], pictures)


def _dead(pictures: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, side = pictures.shape[:2]
    dead = rng.uniform(size=(rows, side)) < 0.01 + 0.04 * strength
    across = rng.randint(2, size=rows).astype(bool)
    lines = np.where(across[:, None, None], dead[:, :, None], dead[:, None, :])
    return np.where(lines[..., None], 0.0, pictures)


Flaw = Callable[[Any, float, Any], Any]
FLAWS: dict[str, Flaw] = {
    "vignette": _vignette,
    "blur": _blur,
    "motion_blur": _motion,
    "sensor_noise": _noise,
    "occlusion": _occlude,
    "brightness_shift": _brightness,
    "coarse_levels": _levels,
    "salt_and_pepper": _pepper,
    "dead_lines": _dead,
}
