"""Small pictures: stripes on clouds, spots, a marker, grain. What they are like are the factors; a PNG file a sample.

Properties that a task did not draw stay near a value that all its pictures share. `measure` reads the pixels of the
files and knows what one sees at a glance (the markers' shapes, whether spots are dark) and nothing about a single
picture. Two problems have a target a pixel: masks, and a hidden square (at the end of this module).
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, maximum_filter, median_filter, uniform_filter, uniform_filter1d

from ...dataset import Asset, Target
from ...forms import rle
from ...table import Column, Rejected
from ..arrays import Array, Rng
from ..scenario import Scenario
from ..world import Category, Dense, Factor, Rendered
from .common import (
    Menu,
    apply_steps,
    codes,
    draw_numbers,
    measured_places,
    number_values,
    pick,
    row_count,
    shuffled,
)

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
SIDES = (28, 32, 36)
# Percent are of the way from black to white, a side is that of the picture.
NUMBERS: Menu = {
    "image_stripe_frequency": ("periods a side", 2.0, 5.0, 2),
    "image_stripe_angle": ("degrees", 15.0, 165.0, 0),
    "image_stripe_contrast": ("percent", 6.0, 30.0, 1),
    "image_spot_count": ("spots", 1.0, 9.0, 0),
    "image_spot_radius": ("percent of the side", 4.5, 8.5, 1),
    "image_grain": ("percent", 0.5, 5.0, 1),
    "image_side_balance": ("percent", -20.0, 20.0, 1),
    "image_mirror_symmetry": ("", -1.0, 1.0, 2),
    "image_tint": ("percent", -20.0, 20.0, 1),
}
WHOLE = {"image_spot_count"}
MARKER, QUADRANT, TINT = "image_marker", "image_marker_quadrant", "image_tint"
MARKERS = ("ring", "cross", "saltire", "disc", "bars")
QUADRANTS = ("upper left", "upper right", "lower left", "lower right")
CLOUDS = 0.05
# Spots lie in the cells of a grid, the marker in four of them, so that none hides another.
GRID = 4


@dataclass(frozen=True)
class Look:
    """What all pictures of a task share: pixels a side, channels, the marker's levels, whether markers are bright and
    spots dark (1) or the other way round (-1)."""

    side: int
    channels: int
    markers: tuple[str, ...]
    sign: int

    @property
    def stamps(self) -> Array:
        """The markers, (levels, size, size), 0 to 1."""
        return np.stack([_stamp(shape, 7 if self.side < 30 else 9) for shape in self.markers])


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Five or six numbers of the scene and the marker's shape, at times its quadrant; a tint in colour pictures only."""
    names = [name for name in shuffled(list(NUMBERS), rng) if name != TINT or scenario["image"]["channels"] == 3]
    numbers = draw_numbers(NUMBERS, names[: 5 + int(rng.randint(2))], WHOLE, rows, rng)
    levels = shuffled(MARKERS, rng)[: 3 + int(rng.randint(2))]
    found: list[Factor] = [*numbers, Category(MARKER, levels, rng.randint(len(levels), size=rows))]
    if rng.randint(2):
        found.append(Category(QUADRANT, QUADRANTS, rng.randint(len(QUADRANTS), size=rows)))
    return found


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
    """One PNG a sample, of one size, spoiled by `mutations` (name: strength between 0 and 1)."""
    rows, names = row_count(factors), {factor.name for factor in factors}
    marker = next((each for each in factors if isinstance(each, Category) and each.name == MARKER), None)
    markers = tuple(marker.levels) if marker else MARKERS[:3]
    look = Look(pick(SIDES, rng), scenario["image"]["channels"], markers, 1 if rng.randint(2) else -1)
    values = number_values(NUMBERS, factors, WHOLE, rng)
    for name, (_, low, high, _) in NUMBERS.items():
        if name not in names:
            place = np.clip(rng.normal(rng.uniform(0.25, 0.75), 0.12, size=rows), 0, 1)
            values[name] = low + place * (high - low)
    shape, quadrant = codes(factors, MARKER, markers, rng), codes(factors, QUADRANT, QUADRANTS, rng)
    pictures = turned(_paint(look, values, shape, quadrant, rng), mutations, rng)
    pixels = as_bytes(flawed(pictures, mutations, rng))
    marks = sorted(f"two {mark}" if mark == "bars" else f"a {mark}" for mark in markers)
    return Rendered(
        assets=[asset(pixels)],
        plain=plain_features(pixels),
        measured=measured_places(factors, measure(look, pixels)),
        notes=[
            file_format(pixels),
            f"The camera puts a mark into each picture: {', '.join(marks[:-1])} or {marks[-1]}.",
        ],
    )


def as_bytes(pictures: Array) -> Array:
    """The nearest grey values, uint8 of the same shape; rounded first, so that a last bit cannot move one."""
    return np.clip(np.rint(np.round(pictures * 255, 3)), 0, 255).astype(np.uint8)


def asset(pixels: Array) -> Asset:
    """A PNG file a picture, uint8 of shape (rows, side, side, 1 or 3).

    Stored, not compressed: all files have one size, and no release of a compressor changes a byte.
    """
    from PIL import Image

    files = []
    for picture in pixels:
        file = io.BytesIO()
        Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture).save(file, "PNG", compress_level=0)
        files.append(file.getvalue())
    return Asset("image", "the picture", "images", "png", files)


def file_format(pixels: Array) -> str:
    """The format of the files, in a sentence."""
    height, width, channels = pixels.shape[1:]
    colour = "grey" if channels == 1 else "in colour (RGB)"
    return f"The pictures are PNG files of {width} x {height} pixels, {colour}."


def smooth(fields: Array, sigma: Any) -> Any:
    """Fields of shape (rows, height, width, ...) blurred by a Gaussian of `sigma` pixels, a number or one a row."""
    if np.ndim(sigma) == 0:
        return gaussian_filter(fields, sigma, axes=(1, 2), mode="nearest")
    return np.stack(
        [gaussian_filter(row, one, axes=(0, 1), mode="nearest") for row, one in zip(fields, sigma, strict=True)]
    )


def _paint(look: Look, values: Mapping[str, Array], shape: Array, quadrant: Array, rng: Rng) -> Any:
    """Pictures of shape (rows, side, side, channels) for values of all NUMBERS, codes of the marker and its quadrant."""
    rows, side = len(shape), look.side
    value = {name: each[:, None, None] for name, each in values.items()}
    # Clouds whose right half follows the mirrored left half with the asked correlation.
    field = smooth(rng.normal(size=(rows, side, side)), 0.08 * side)
    field = field - field.mean(axis=(1, 2), keepdims=True)
    share = (1 + value["image_mirror_symmetry"]) / 2
    grey = 0.5 + rng.uniform(-0.04, 0.04, size=(rows, 1, 1))
    for weight, part in ((share, field + field[:, :, ::-1]), (1 - share, field - field[:, :, ::-1])):
        grey = grey + CLOUDS * np.sqrt(weight) * part / part.std(axis=(1, 2), keepdims=True)
    at, angle = np.arange(side) / side, np.radians(value["image_stripe_angle"])
    along = np.cos(angle) * at[None, None, :] + np.sin(angle) * at[None, :, None]
    phase = value["image_stripe_frequency"] * along + rng.uniform(size=(rows, 1, 1))
    grey = grey + value["image_stripe_contrast"] / 200 * np.sin(2 * np.pi * phase)
    grey = grey + value["image_side_balance"] / 100 * np.where(at >= 0.5, 0.5, -0.5)[None, None, :]
    depth = look.sign * rng.uniform(0.3, 0.4, size=(2, rows, 1, 1))
    grey = grey - depth[0] * _spots(look, values, quadrant, rng) + depth[1] * _markers(look, shape, quadrant, rng)
    grey = grey + value["image_grain"] / 100 * rng.normal(size=grey.shape)
    if look.channels == 1:
        return grey[..., None]
    tint, shade = value[TINT] / 100, rng.uniform(-0.06, 0.06, size=3)
    return np.stack([grey + shade[at] + weight * tint for at, weight in enumerate((0.5, 0.0, -0.5))], axis=-1)


def _spots(look: Look, values: Mapping[str, Array], quadrant: Array, rng: Rng) -> Array:
    """How far a spot covers each pixel, 0 to 1: round spots in drawn cells of the grid outside of the marker's quadrant."""
    cell, at = look.side / GRID, np.arange(look.side)
    down, across = np.divmod(np.arange(GRID * GRID), GRID)
    part = 2 * (down >= GRID // 2) + (across >= GRID // 2)
    covered = np.zeros((len(quadrant), look.side, look.side))
    for row, picture in enumerate(covered):
        free = rng.permutation(np.flatnonzero(part != quadrant[row]))
        for spot in free[: round(values["image_spot_count"][row])]:
            middle = (np.array([down[spot], across[spot]]) + rng.uniform(0.35, 0.65, size=2)) * cell - 0.5
            radius = look.side * values["image_spot_radius"][row] / 100 * rng.uniform(0.92, 1.08)
            away = np.hypot(at[:, None] - middle[0], at[None, :] - middle[1])
            np.maximum(picture, np.clip(radius - away + 0.5, 0, 1), out=picture)
    return covered


def _stamp(shape: str, size: int) -> Any:
    """A marker of `size` pixels a side, 0 to 1."""
    at = np.abs(np.arange(size) - (size - 1) / 2)
    down, across = np.meshgrid(at, at, indexing="ij")
    far, end = np.hypot(down, across), size / 2
    return {
        "ring": (far <= end) & (far > end - 1.7),
        "cross": (down < 0.9) | (across < 0.9),
        "saltire": np.abs(down - across) < 0.9,
        "disc": far < 0.34 * size,
        "bars": (down > end - 2.1) & (down < end - 0.1) & (across <= end),
    }[shape].astype(float)


def _markers(look: Look, shape: Array, quadrant: Array, rng: Rng) -> Array:
    """The marker of each picture, 0 to 1, at a drawn place inside its quadrant: (rows, side, side)."""
    stamps, half = look.stamps, look.side // 2
    size = stamps.shape[1]
    painted = np.zeros((len(shape), look.side, look.side))
    for row, picture in enumerate(painted):
        top, left = (half * int(part) + rng.randint(half - size + 1) for part in divmod(int(quadrant[row]), 2))
        picture[top : top + size, left : left + size] = stamps[shape[row]]
    return painted


def flawed(pictures: Array, mutations: Mapping[str, float], rng: Rng) -> Array:
    """The pictures (rows, side, side, channels) after the mutations but rotation, in the order of FLAWS."""
    return apply_steps(FLAWS, pictures, mutations, rng)


def turned(pictures: Array, mutations: Mapping[str, float], rng: Rng) -> Array:
    """The pictures, a share of them turned by quarter turns where "rotation" is among the mutations."""
    if "rotation" not in mutations:
        return pictures
    moved = rng.uniform(size=len(pictures)) < 0.04 + 0.16 * mutations["rotation"]
    turns = np.where(moved, rng.randint(1, 4, size=len(pictures)), 0)
    return np.stack([np.rot90(picture, count) for picture, count in zip(pictures, turns, strict=True)])


def _blur(pictures: Array, strength: float, rng: Rng) -> Any:
    return smooth(pictures, 0.2 + strength * rng.uniform(0.1, 0.6, size=len(pictures)))


def _motion(pictures: Array, strength: float, rng: Rng) -> Array:
    """The mean over one to three positions of the camera, across in one half of the pictures, down in the other."""
    steps = 1 + rng.randint(2 + (strength > 0.6), size=len(pictures))
    axes = rng.randint(2, size=len(pictures))
    shaken = [uniform_filter1d(*each, mode="nearest") for each in zip(pictures, steps, axes, strict=True)]
    return np.stack(shaken)


def _noise(pictures: Array, strength: float, rng: Rng) -> Array:
    level = rng.uniform(0.005, 0.02 + 0.04 * strength, size=(len(pictures), 1, 1, 1))
    return pictures + level * rng.normal(size=pictures.shape)


def _occlude(pictures: Array, strength: float, rng: Rng) -> Array:
    side, found = pictures.shape[1], pictures.copy()
    for picture in found:
        high, wide = (round(side * rng.uniform(0.1, 0.18 + 0.12 * strength)) for _ in range(2))
        top, left = rng.randint(side - high + 1), rng.randint(side - wide + 1)
        picture[top : top + high, left : left + wide] = rng.uniform(0.3, 0.7)
    return found


def _brightness(pictures: Array, strength: float, rng: Rng) -> Any:
    gain, shift = rng.uniform(-1, 1, size=(2, len(pictures), 1, 1, 1)) * strength
    return np.clip(0.5 + np.exp(0.3 * gain) * (pictures - 0.5) + 0.12 * shift, 0, 1)


def _vignette(pictures: Array, strength: float, rng: Rng) -> Array:
    at = np.linspace(-1, 1, pictures.shape[1])
    far = (at[:, None] ** 2 + at[None, :] ** 2) / 2
    return pictures * (1 - strength * rng.uniform(0.1, 0.5, size=(len(pictures), 1, 1, 1)) * far[None, :, :, None])


def _levels(pictures: Array, strength: float, rng: Rng) -> Array:
    steps = 16 - round(8 * strength)
    return np.rint(np.round(np.clip(pictures, 0, 1) * steps, 6)) / steps


def _pepper(pictures: Array, strength: float, rng: Rng) -> Array:
    struck = rng.uniform(size=pictures.shape[:3]) < 0.005 + 0.03 * strength
    white = rng.randint(2, size=pictures.shape[:3]).astype(float)
    return np.where(struck[..., None], white[..., None], pictures)


def _dead(pictures: Array, strength: float, rng: Rng) -> Array:
    found = pictures.copy()
    for picture in found:
        dead = rng.uniform(size=len(picture)) < 0.01 + 0.04 * strength
        (picture if rng.randint(2) else picture.swapaxes(0, 1))[dead] = 0
    return found


FLAWS: dict[str, Callable[[Array, float, Rng], Array]] = {
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


def mended(colours: Array) -> Array:
    """Black lines become the mean of the lines beside them, single black or white pixels the median around them."""
    for axis in (1, 2):
        dead = np.expand_dims((colours < 0.01).all(axis=3).mean(axis=3 - axis) > 0.9, (3 - axis, 3))
        padded = np.pad(colours, [(int(each == axis),) * 2 for each in range(4)], mode="reflect")
        before, after = (np.take(padded, np.arange(colours.shape[axis]) + step, axis=axis) for step in (0, 2))
        colours = np.where(dead, (before + after) / 2, colours)
    extreme = ((colours < 0.01) | (colours > 0.99)).all(axis=3)
    if extreme.any():
        around = median_filter(colours, size=3, axes=(1, 2), mode="nearest")
        struck = extreme & (np.round(np.abs(colours - around).mean(axis=3), 6) > 0.3)
        colours = np.where(struck[..., None], around, colours)
    return colours


TILES, HARMONICS = 4, 5


def plain_features(pixels: Array) -> Array:
    """(rows, k): a thumbnail of 4 x 4, the spread of the greys, mean steps between neighbours, how steps across and
    down go together, the mean spectrum of lines and of columns, mean colours."""
    colours = pixels / 255.0
    grey = colours.mean(axis=3)
    rows, side = grey.shape[:2]
    pool = np.eye(TILES)[np.arange(side) * TILES // side].T
    pool /= pool.sum(axis=1, keepdims=True)
    flat = grey.reshape(rows, -1)
    across, down = np.diff(grey, axis=2), np.diff(grey, axis=1)
    parts = [
        (pool @ grey @ pool.T).reshape(rows, -1),
        np.column_stack([flat.mean(axis=1), flat.std(axis=1)]),
        np.quantile(flat, (0, 0.05, 0.25, 0.75, 0.95, 1), axis=1).T,
        np.column_stack([np.abs(each).mean(axis=(1, 2)) for each in (across, down, np.diff(across, axis=2))]),
        (across[:, :-1] * down[:, :, :-1]).mean(axis=(1, 2))[:, None],
        np.abs(np.fft.rfft(grey, axis=2))[:, :, 1 : 1 + HARMONICS].mean(axis=1) / side,
        np.abs(np.fft.rfft(grey, axis=1))[:, 1 : 1 + HARMONICS].mean(axis=2) / side,
    ]
    if pixels.shape[3] == 3:
        parts.append(colours.mean(axis=(1, 2)))
    return np.round(np.hstack(parts), 6)


# Measured on pictures of known properties: what the measurement makes of these, as a straight line.
SPOT_SHRINK, SPOT_OFFSET = 0.54, -4.0
SYMMETRY_SHRINK = 0.67


def measure(look: Look, pixels: Array) -> dict[str, Array]:
    """Each of NUMBERS in its unit (the tint only of colour pictures) and codes of the categories, (rows,) each."""
    colours = mended(pixels / 255.0)
    grey = colours.mean(axis=3)
    wave, spots = np.zeros_like(grey), np.zeros(grey.shape, dtype=bool)
    candidates = _candidates(look.side)
    # Marker and spots are seen better where the stripes are gone, stripes where marker and spots are known.
    for _ in range(2):
        marker, quadrant, covered = _find_marker(look, grey - wave)
        ignored = covered | spots
        waves, wave = _find_waves(candidates, _levelled(grey, _side_balance(grey, ignored)), ignored)
        balance = _side_balance(grey - wave, covered)
        calm = _levelled(grey - wave, balance)
        count, radius, spots = _find_spots(look, calm, covered)
    rough = np.diff(np.diff(grey, 2, axis=1), 2, axis=2).reshape(len(grey), -1)
    return {
        **waves,
        "image_spot_count": count,
        "image_spot_radius": radius,
        "image_side_balance": 100 * balance,
        "image_mirror_symmetry": _symmetry(calm, covered | spots),
        # The median size of second differences across and down, which smooth shapes lack.
        "image_grain": 100 * np.median(np.abs(np.round(rough, 6)), axis=1) / 0.6745 / 6,
        TINT: 100 * np.round((colours[..., 0] - colours[..., -1]).mean(axis=(1, 2)), 6),
        MARKER: marker,
        QUADRANT: quadrant,
    }


def _find_marker(look: Look, grey: Array) -> tuple[Array, Array, Array]:
    """(level, quadrant, pixels that it covers) where a stamp without its mean answers most."""
    stamps = look.stamps
    size, rows = stamps.shape[1], len(grey)
    flat = stamps.reshape(len(stamps), -1)
    flat = flat - flat.mean(axis=1, keepdims=True)
    flat /= np.sqrt((flat**2).sum(axis=1, keepdims=True))
    signed = look.sign * np.clip(grey, 0.1, 0.9)
    windows = np.lib.stride_tricks.sliding_window_view(signed, (size, size), axis=(1, 2))
    places = windows.shape[1]
    answers = np.round(windows.reshape(rows, places * places, size * size) @ flat.T, 6).reshape(rows, -1)
    at, level = np.divmod(answers.argmax(axis=1), len(stamps))
    top, left = np.divmod(at, places)
    middle, line = (look.side - size) / 2, np.arange(look.side)[None, :]
    down, across = ((line >= start[:, None]) & (line < start[:, None] + size) for start in (top, left))
    return level, (2 * (top > middle) + (left > middle)).astype(int), down[:, :, None] & across[:, None, :]


def _side_balance(grey: Array, covered: Array) -> Any:
    """How much brighter the right half is by the medians of what no marker covers, (rows,)."""
    halves = np.split(np.where(covered, np.nan, grey), 2, axis=2)
    left, right = (np.nanmedian(part.reshape(len(grey), -1), axis=1) for part in halves)
    return np.round(right - left, 6)


def _levelled(grey: Array, balance: Array) -> Any:
    """The pictures without the difference between the halves, about 0."""
    half = np.repeat([-0.5, 0.5], grey.shape[2] // 2)
    level = grey - balance[:, None, None] * half[None, None, :]
    return level - np.median(level, axis=(1, 2), keepdims=True)


def _candidates(side: int) -> tuple[Array, Array, Array]:
    """Frequencies and angles of plane waves, (candidates,), and their cosines and sines, (2, candidates, pixels)."""
    _, low, high, _ = NUMBERS["image_stripe_frequency"]
    frequency, angle = (each.ravel() for each in np.meshgrid(np.linspace(low, high, 19), np.linspace(12, 168, 53)))
    phase = plane_waves(side, frequency, angle)
    return frequency, angle, np.stack([np.cos(phase), np.sin(phase)]).astype(np.float32)


def plane_waves(side: int, frequency: Array, degrees: Array) -> Array:
    """Phases of shape (candidates, pixels) of plane waves, periods a side and degrees of shape (candidates,)."""
    at, turn = np.arange(side) / side, np.radians(degrees)[:, None, None]
    along = np.cos(turn) * at[None, None, :] + np.sin(turn) * at[None, :, None]
    return (2 * np.pi * frequency[:, None, None] * along).reshape(len(frequency), -1)


def _find_waves(candidates: tuple[Array, Array, Array], level: Array, ignored: Array) -> tuple[dict[str, Array], Array]:
    """Frequency, angle and contrast of the plane wave that explains most of what is not ignored, and that wave."""
    frequency, angle, waves = candidates
    rows, side = level.shape[:2]
    fade = np.sin(np.pi * (np.arange(side) + 0.5) / side)
    window = (fade[:, None] * fade[None, :]).ravel()
    # What sticks out still is cut down to the stripes' own range, and weighs nothing once these are known.
    flat = np.where(ignored, 0.0, level).reshape(rows, -1)
    cut = (np.clip(flat, -0.17, 0.17) * window).astype(np.float32)
    even, odd = (cut @ wave.T for wave in waves)
    best = np.round(even**2 + odd**2, 3).argmax(axis=1)
    wave = waves[:, best].astype(float)
    free = window * ~ignored.reshape(rows, -1)
    weight = free
    for _ in range(2):
        even, odd = (2 * (flat * weight * part).sum(axis=1) / np.maximum(weight.sum(axis=1), 1) for part in wave)
        fitted = even[:, None] * wave[0] + odd[:, None] * wave[1]
        weight = free * (np.round(np.abs(flat - fitted), 6) < 0.15)
    sizes = {
        "image_stripe_frequency": frequency[best],
        "image_stripe_angle": angle[best],
        "image_stripe_contrast": 200 * np.hypot(even, odd),
    }
    return sizes, fitted.reshape(level.shape)


def _find_spots(look: Look, calm: Array, covered: Array) -> tuple[Array, Array, Array]:
    """(count, radius in percent of the side, covered pixels) of what sticks out against the marker's direction."""
    depth = np.where(covered, 0.0, -look.sign * calm)
    depth = np.where(covered, 0.0, depth - smooth(np.minimum(depth, 0.12), 0.16 * look.side))
    near = np.round(smooth(depth, 0.7), 6)
    peak = (near > 0.12) & (near == maximum_filter(near, 5, axes=(1, 2)))
    count = np.maximum(peak.sum(axis=(1, 2)), 1)
    reach = 0.05 * look.side
    around = np.round(smooth(peak.astype(float), reach) * reach**2, 6) > 0.0175
    bottom = np.partition(np.where(around, depth, 0).reshape(len(depth), -1), -4, axis=1)[:, -4:].mean(axis=1)
    share = np.clip(depth / np.maximum(bottom, 0.2)[:, None, None], 0, 1) * around
    radius = 100 * np.sqrt(share.sum(axis=(1, 2)) / count / np.pi) / look.side
    return count.astype(float), SPOT_OFFSET + radius / SPOT_SHRINK, around


def _symmetry(calm: Array, covered: Array) -> Any:
    """Correlation of the left half with the mirrored right half, over pairs of which neither is covered."""
    free = (~(covered | covered[:, :, ::-1])).astype(float)
    total = np.maximum(free.sum(axis=(1, 2), keepdims=True), 1)
    # A lens darkens all corners alike, which says nothing about the scene.
    at = np.linspace(-1, 1, calm.shape[1])
    far, soft = at[:, None] ** 2 + at[None, :] ** 2, smooth(np.clip(calm, -0.2, 0.2), 0.8)
    far, soft = (each - (each * free).sum(axis=(1, 2), keepdims=True) / total for each in (far, soft))
    slope = (soft * far * free).sum(axis=(1, 2)) / np.maximum((far**2 * free).sum(axis=(1, 2)), 1e-9)
    soft = soft - slope[:, None, None] * far
    together = (soft * soft[:, :, ::-1] * free).sum(axis=(1, 2))
    return together / np.maximum((soft**2 * free).sum(axis=(1, 2)), 1e-9) / SYMMETRY_SHRINK


# Problems with a target a pixel: masks of regions whose texture a rule asks for, and textures under a hidden square.
#
# A mask's picture is cut into regions, each with its own brightness and stripes; the rule looks at one or two of their
# traits, the others mean nothing. A hidden square's texture is of one family in all pictures of a task, with other sizes
# in each.

MASK_SIDES, GAP_SIDES = (18, 20), (16, 18, 20)
# Of the noise of the task, the share of regions that are marked wrongly.
WRONG = 0.25
# Pixels that the measurement averages over, as the deviation of a Gaussian.
WINDOW = 1.8


@dataclass(frozen=True)
class Trait:
    """A property of a region: what it is called where a region has it, its range without and with it."""

    words: str
    without: tuple[float, float]
    having: tuple[float, float]


# Brightness and amplitude as shares of the way from black to white, periods in pixels, angles in degrees.
TRAITS = {
    "bright": Trait("it is brighter than its picture in the middle", (-0.13, -0.06), (0.06, 0.13)),
    "fine": Trait("its stripes repeat within less than 4 pixels", (5.0, 7.0), (2.6, 3.4)),
    "steep": Trait("its stripes run steeper than 45 degrees", (65.0, 115.0), (-25.0, 25.0)),
    "strong": Trait("its stripes are of strong contrast", (0.04, 0.07), (0.15, 0.2)),
    "rough": Trait("its surface is grainy", (0.01, 0.02), (0.07, 0.1)),
}
# How two traits make the rule; each takes and gives shares between 0 and 1.
FORMS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "alone": ("{0}", lambda one, other: one),
    "both": ("{0}, and {1}", lambda one, other: one * other),
    "unless": ("{0}, unless {1}", lambda one, other: one * (1 - other)),
    "differ": ("either {0} or {1}, but not both", lambda one, other: one + other - 2 * one * other),
}


def segmentation(scenario: Scenario, rows: int, mutations: Mapping[str, float], noise: float, rng: Rng) -> Dense:
    """Masks of pictures of 18 or 20 pixels a side: one unit a pixel, in row-major order."""
    side, form = pick(MASK_SIDES, rng), pick(list(FORMS), rng)
    # What brightness alone decides is no texture: it comes second, or not at all.
    first = pick([name for name in TRAITS if name != "bright"], rng)
    second = first if form == "alone" else pick([name for name in TRAITS if name != first], rng)
    region = _regions(rows, side, rng)
    has = {name: rng.uniform(size=(rows, region.max() + 1)) < 0.5 for name in TRAITS}
    belongs = FORMS[form][1](has[first].astype(int), has[second].astype(int))
    # An empty mask teaches little, so one region belongs where none did.
    empty = np.flatnonzero(~belongs.any(axis=1))
    chosen = rng.randint(belongs.shape[1], size=rows)[empty]
    has[second][empty, chosen] = form == "both"
    has[first][empty, chosen] = True
    belongs[empty, chosen] = 1
    wrong = rng.uniform(size=belongs.shape) < WRONG * noise
    known, marked = _spread(belongs, region), _spread(np.where(wrong, 1 - belongs, belongs), region)
    pictures = _paint_regions(region, has, scenario["image"]["channels"], rng)
    # A picture is turned with its mask.
    stacked = turned(np.concatenate([pictures, known[..., None], marked[..., None]], axis=3), mutations, rng)
    known, y = (np.rint(stacked[..., at]).astype(int).reshape(rows, -1) for at in (-2, -1))
    if not 0.05 < y.mean() < 0.8:
        raise Rejected(f"segmentation: {y.mean():.0%} of the pixels belong to a mask")
    pixels = as_bytes(flawed(stacked[..., :-2], mutations, rng))
    marked_by = scenario["experts"][0].lower() + scenario["experts"][1:]
    order = (
        f"A mask counts the {side * side} pixels of its picture row by row from 1: pixel 1 is the upper left one, pixel "
        f"{side} the upper right one, pixel {side + 1} the first of the second row."
    )
    return Dense(
        rendered=Rendered(assets=[asset(pixels)], notes=[file_format(pixels), order]),
        target=Target(
            problem="segmentation",
            asked=f"In each picture, {marked_by} marked the area that they take as a sign of {scenario['condition']}. "
            "Predict this `mask`.",
            columns=[Column("mask", f"the pixels marked as a sign of {scenario['condition']}", number=False)],
            cells={"mask": [rle(row) for row in y]},
            y=y,
            known=known.astype(float),
            words=f"each region is marked wrongly with probability {WRONG * noise:.3f}",
        ),
        plain=_plain_pixels(pixels),
        right=_right_pixels(_measure_traits(pixels), first, second, form),
        families=[f"mask_{form}", *dict.fromkeys([first, second])],
        rule="a pixel belongs to the mask where of its region is true: "
        + FORMS[form][0].format(TRAITS[first].words, TRAITS[second].words),
        params={"height": side, "width": side},
    )


def _regions(rows: int, side: int, rng: Rng) -> Any:
    """The number of each pixel's region, (rows, side, side): the nearest of four drawn centres."""
    places = np.array([[0.25, 0.25, 0.75, 0.75], [0.25, 0.75, 0.25, 0.75]])
    down, across = places[:, None, :] + rng.uniform(-0.17, 0.17, size=(2, rows, 4))
    pixel = (np.arange(side) + 0.5) / side
    away = (pixel[None, :, None, None] - down[:, None, None, :]) ** 2
    away = away + (pixel[None, None, :, None] - across[:, None, None, :]) ** 2
    return np.round(away, 9).argmin(axis=3)


def _spread(values: Array, region: Array) -> Array:
    """Values of regions, (rows, regions), at the pixels, (rows, side, side)."""
    return values[np.arange(len(region))[:, None, None], region]


def _paint_regions(region: Array, has: Mapping[str, Array], channels: int, rng: Rng) -> Array:
    rows, side = region.shape[:2]
    own = {}
    for name, trait in TRAITS.items():
        low, high = (np.where(has[name], trait.having[at], trait.without[at]) for at in (0, 1))
        own[name] = _spread(low + rng.uniform(size=low.shape) * (high - low), region)
    phase = _spread(rng.uniform(size=has["fine"].shape), region)
    at, turn = np.arange(side), np.radians(own["steep"])
    along = np.cos(turn) * at[None, None, :] + np.sin(turn) * at[None, :, None]
    grey = rng.uniform(0.4, 0.6, size=(rows, 1, 1)) + own["bright"]
    grey = grey + own["strong"] * np.sin(2 * np.pi * (along / own["fine"] + phase))
    grey = grey + own["rough"] * rng.normal(size=grey.shape)
    shades = rng.uniform(-0.05, 0.05, size=3) if channels == 3 else [0.0]
    return np.stack([grey + shade for shade in shades], axis=-1)


def _plain_pixels(pixels: Array) -> Array:
    """(rows, pixels, 8): grey value, mean and deviation of 3 x 3, difference to the picture's mean, the mean steps across
    and down of 3 x 3, where the pixel lies."""

    def near(fields: Array) -> Any:
        return uniform_filter(fields, 3, axes=(1, 2), mode="nearest")

    grey = pixels.mean(axis=3) / 255
    at = np.arange(grey.shape[1])
    down, across = (np.broadcast_to(each, grey.shape) for each in np.meshgrid(at, at, indexing="ij"))
    steps = [near(each) for each in np.abs(np.gradient(grey, axis=(2, 1)))]
    spread = np.sqrt(np.maximum(near(grey**2) - near(grey) ** 2, 0))
    apart = grey - grey.mean(axis=(1, 2), keepdims=True)
    features = np.stack([grey, near(grey), spread, apart, *steps, down, across], axis=-1)
    return np.round(features.reshape(len(grey), len(at) ** 2, -1), 6)


def _measure_traits(pixels: Array) -> dict[str, Array]:
    """How much of each trait the surroundings of each pixel show, (rows, side, side), any scale."""
    grey = mended(pixels / 255.0).mean(axis=3)
    level = smooth(grey, 2.0)
    # Energy of the stripes by (fine, steep).
    energy = {}
    for fine in (False, True):
        for steep in (False, True):
            period, middle = (
                np.mean(trait.having if has else trait.without)
                for trait, has in ((TRAITS["fine"], fine), (TRAITS["steep"], steep))
            )
            angles = np.array([middle - 16.0, middle, middle + 16.0])
            waves = plane_waves(grey.shape[1], np.full(3, grey.shape[1] / period), angles)
            phases = waves.reshape(3, 1, *grey.shape[1:])
            parts = [
                [smooth((grey - level) * wave(phase), WINDOW) ** 2 for wave in (np.cos, np.sin)] for phase in phases
            ]
            energy[fine, steep] = np.max([one + other for one, other in parts], axis=0) + 1e-5
    rough = np.abs(np.diff(np.diff(grey, 2, axis=1), 2, axis=2))
    rough = median_filter(np.pad(rough, ((0, 0), (1, 1), (1, 1)), mode="edge"), 3, axes=(1, 2), mode="nearest")
    fine, coarse, steep, flat = (
        np.maximum(energy[one], energy[other])
        for one, other in (
            ((True, True), (True, False)),
            ((False, True), (False, False)),
            ((True, True), (False, True)),
            ((True, False), (False, False)),
        )
    )
    return {
        "bright": level - np.median(level, axis=(1, 2), keepdims=True),
        "fine": np.log(fine / coarse),
        "steep": np.log(steep / flat),
        "strong": np.log(np.maximum(fine, coarse)),
        "rough": np.log(smooth(rough, 1.5) + 0.02),
    }


def _right_pixels(seen: Mapping[str, Array], first: str, second: str, form: str) -> Array:
    """(rows, pixels, k): the traits of the rule, and the rule over them, each squeezed between 0 and 1."""
    squeezed = {}
    for name in dict.fromkeys([first, second]):
        far = (seen[name] - seen[name].mean()) / seen[name].std()
        squeezed[name] = 1 / (1 + np.exp(-2 * far))
    features = [*squeezed.values(), FORMS[form][1](squeezed[first], squeezed[second])]
    return np.round(np.stack(features, axis=-1).reshape(len(seen[first]), -1, len(features)), 6)


GAP = 5
# Brightness of the square in the files.
COVER = 128
FREQUENCIES, RING_FREQUENCIES = (1.5, 4.0), (3.2, 5.2)


@dataclass(frozen=True)
class Hole:
    """The hidden square: its first row and column, counted from 0, in pictures of `side` pixels a side."""

    side: int
    top: int
    left: int

    @property
    def units(self) -> Array:
        """The hidden pixels as flat indices, (25,), row by row."""
        down, across = np.divmod(np.arange(GAP * GAP), GAP)
        return (self.top + down) * self.side + self.left + across

    @property
    def visible(self) -> Array:
        """The other pixels as flat indices."""
        return np.setdiff1d(np.arange(self.side**2), self.units)


@dataclass(frozen=True)
class Texture:
    """Fields of shape (rows, side, side) around 0 of deviation near 1, the rule in words, and `guess`, which finds
    (rows, 25) grey values of the hidden square from pictures (rows, side, side) by that rule."""

    words: str
    fields: Array
    guess: Callable[[Array], Array]


def reconstruction(scenario: Scenario, rows: int, mutations: Mapping[str, float], noise: float, rng: Rng) -> Dense:
    """The 25 grey values of a hidden square of 5 x 5 pixels, which lies at one place in all (grey) pictures of a task."""
    side = pick(GAP_SIDES, rng)
    # Inside one quarter of the picture, and not at its edge.
    top, left = (int(rng.randint(1, side // 2 - GAP + 1)) for _ in range(2))
    hole = Hole(side, top if rng.randint(2) else side - GAP - top, left if rng.randint(2) else side - GAP - left)
    family = pick(list(TEXTURES), rng)
    texture = TEXTURES[family](rows, hole, rng)
    level, size = rng.uniform(0.4, 0.6, size=(rows, 1, 1)), rng.uniform(0.08, 0.17, size=(rows, 1, 1))
    clean = level + size * texture.fields
    real = clean + size * noise * rng.normal(size=clean.shape)
    stacked = turned(np.stack([np.clip(real, 0, 1), np.clip(clean, 0, 1)], axis=-1), mutations, rng)
    y = as_bytes(stacked[..., 0]).reshape(rows, -1)[:, hole.units]
    known = np.round(255 * stacked[..., 1].reshape(rows, -1)[:, hole.units], 3)
    pixels = as_bytes(flawed(stacked[..., :1], mutations, rng))
    pixels[:, hole.top : hole.top + GAP, hole.left : hole.left + GAP] = COVER
    seen = pixels[..., 0].astype(float)
    plain, guess = _plain_gap(seen, hole), np.round(np.clip(texture.guess(seen), 0, 255), 4)
    names = [f"px_{at // GAP}_{at % GAP}" for at in range(GAP * GAP)]
    place = (
        f"In every picture a square of {GAP} x {GAP} pixels is lost and was filled with the grey value {COVER}: rows "
        f"{hole.top} to {hole.top + GAP - 1} and columns {hole.left} to {hole.left + GAP - 1}, counted from 0. `px_R_C` is "
        f"the lost grey value, 0 (black) to 255 (white), in row R and column C of the square, counted from 0."
    )
    return Dense(
        rendered=Rendered(assets=[asset(pixels)], notes=[file_format(pixels), place]),
        target=Target(
            problem="reconstruction",
            asked=f"Fill the hole in each picture: predict its {len(names)} lost grey values, `{names[0]}` to `{names[-1]}`.",
            columns=[Column(name, f"grey value of the hidden pixel {name[3:]}, 0 to 255") for name in names],
            cells={name: [str(int(value)) for value in y[:, at]] for at, name in enumerate(names)},
            y=y.astype(float),
            known=known,
            words=f"each pixel has noise of {noise} of the texture's deviation",
        ),
        plain=plain,
        right=np.concatenate([guess[:, :, None], plain[:, :, 4:6]], axis=2),
        families=[f"texture_{family}"],
        rule=f"{texture.words}; brightness and contrast differ from picture to picture",
    )


def _plain_gap(seen: Array, hole: Hole) -> Array:
    """(rows, 25, 8): the visible neighbours left, right, above and below the square in the pixel's row and column, their
    mean weighted by nearness, the picture's mean, where the pixel lies."""
    rows, last = len(seen), GAP - 1
    inner = [slice(hole.top, hole.top + GAP), slice(hole.left, hole.left + GAP)]
    left, right = seen[:, inner[0], hole.left - 1], seen[:, inner[0], hole.left + GAP]
    above, below = seen[:, hole.top - 1, inner[1]], seen[:, hole.top + GAP, inner[1]]
    down, across = np.divmod(np.arange(GAP * GAP), GAP)
    edges = [left[:, down], right[:, down], above[:, across], below[:, across]]
    weights = [1 / (1 + away) for away in (across, last - across, down, last - down)]
    mean = sum(edge * weight for edge, weight in zip(edges, weights, strict=True)) / sum(weights)
    whole = np.repeat(seen.mean(axis=(1, 2))[:, None], GAP * GAP, axis=1)
    places = [np.broadcast_to(each, (rows, GAP * GAP)) for each in (down, across)]
    return np.round(np.stack([*edges, mean, whole, *places], axis=-1), 6)


def _fit(seen: Array, hole: Hole, phases: Sequence[Array]) -> Any:
    """The hidden values of the waves that fit the visible pixels best: for one of `phases` (sets, candidates, pixels) the
    candidate whose sines and cosines, with a mean, explain most."""
    waves = [wave(phase) for phase in phases for wave in (np.cos, np.sin)]
    bases = np.stack([np.ones_like(waves[0]), *waves], axis=-1)
    flat = seen.reshape(len(seen), -1)[:, hole.visible]
    axes, corners = np.linalg.qr(bases[:, hole.visible])
    along = np.einsum("rp,cpk->rck", flat, axes, optimize=True)
    best = np.round((along**2).sum(axis=2), 3).argmax(axis=1)
    own = along[np.arange(len(seen)), best]
    weights = np.linalg.solve(corners[best], own[:, :, None])
    return (bases[:, hole.units][best] @ weights)[:, :, 0]


def _stripes(rows: int, hole: Hole, rng: Rng) -> Texture:
    words = "straight stripes, a sine whose period, direction and phase differ from picture to picture, run through"
    return _striped(rows, hole, [0.0], words, rng)


def _crossing(rows: int, hole: Hole, rng: Rng) -> Texture:
    turn = float(pick([60, 75, 90], rng))
    words = f"two sets of stripes of one period cross at {turn:.0f} degrees; period and direction differ from picture to picture"
    return _striped(rows, hole, [0.0, turn], words, rng)


def _striped(rows: int, hole: Hole, turns: list[float], words: str, rng: Rng) -> Texture:
    """Sets of stripes of one period, at `turns` degrees to the first."""
    frequency, degrees = rng.uniform(*FREQUENCIES, size=rows), rng.uniform(0, 180, size=rows)
    fields = sum(
        np.sin(plane_waves(hole.side, frequency, degrees + turn) + rng.uniform(0, 2 * np.pi, size=(rows, 1)))
        for turn in turns
    )
    fields = np.sqrt(2 / len(turns)) * fields

    def guess(seen: Array) -> Any:
        trial, angles = (each.ravel() for each in np.meshgrid(np.linspace(*FREQUENCIES, 21), np.arange(0, 180, 6)))
        return _fit(seen, hole, [plane_waves(hole.side, trial, angles + turn) for turn in turns])

    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _rings(rows: int, hole: Hole, rng: Rng) -> Texture:
    centre = [round(float(each), 1) for each in rng.uniform(0, hole.side - 1, size=2)]
    at = np.arange(hole.side)
    away = np.hypot(at[:, None] - centre[0], at[None, :] - centre[1]).ravel()[None, :] / hole.side
    frequency, phase = rng.uniform(*RING_FREQUENCIES, size=(rows, 1)), rng.uniform(0, 2 * np.pi, size=(rows, 1))
    fields = np.sqrt(2) * np.sin(2 * np.pi * frequency * away + phase)

    def guess(seen: Array) -> Any:
        return _fit(seen, hole, [2 * np.pi * np.linspace(*RING_FREQUENCIES, 41)[:, None] * away])

    words = (
        f"rings around row {centre[0]}, column {centre[1]}, a sine of the distance whose period and phase differ from "
        "picture to picture"
    )
    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _normed(fields: Array) -> Any:
    """Fields (rows, height, width) with mean 0 and deviation 1 each."""
    fields = fields - fields.mean(axis=(1, 2), keepdims=True)
    return fields / fields.std(axis=(1, 2), keepdims=True)


def _tiles(rows: int, hole: Hole, rng: Rng) -> Texture:
    down, across = (int(each) for each in rng.randint(GAP, GAP + 3, size=2))
    # Smoothed across its own edges, so that tiles have no seams.
    motif = _normed(gaussian_filter(rng.normal(size=(rows, down, across)), 0.8, axes=(1, 2), mode="wrap"))
    at = np.arange(hole.side)
    fields = motif[:, at[:, None] % down, at[None, :] % across]

    def guess(seen: Array) -> Any:
        row, column = np.divmod(hole.units, hole.side)
        toward = [1 if start < hole.side // 2 - 2 else -1 for start in (hole.top, hole.left)]
        steps = ((toward[0] * down, 0), (0, toward[1] * across), (toward[0] * down, toward[1] * across))
        return np.mean([seen[:, row + step[0], column + step[1]] for step in steps], axis=0)

    words = f"a motif, another one in each picture, repeats every {down} rows and {across} columns"
    return Texture(words, fields, guess)


REFLECTIONS: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("the right half mirrors the left half", lambda each: each[:, :, ::-1]),
    ("the lower half mirrors the upper half", lambda each: each[:, ::-1, :]),
    ("the picture is the same when turned by 180 degrees", lambda each: each[:, ::-1, ::-1]),
)


def _mirror(rows: int, hole: Hole, rng: Rng) -> Texture:
    words, flip = pick(REFLECTIONS, rng)
    sign = 1 if rng.randint(2) else -1
    field = smooth(rng.normal(size=(rows, hole.side, hole.side)), 1.1)

    def guess(seen: Array) -> Any:
        other = flip(seen).reshape(len(seen), -1)[:, hole.units]
        middle = np.median(seen.reshape(len(seen), -1)[:, hole.visible], axis=1)[:, None]
        return middle + sign * (other - middle)

    return Texture(
        words + (", light and dark exchanged" if sign < 0 else ""), _normed(field + sign * flip(field)), guess
    )


TEXTURES: dict[str, Callable[[int, Hole, Rng], Texture]] = {
    "stripes": _stripes,
    "crossing": _crossing,
    "rings": _rings,
    "tiles": _tiles,
    "mirror": _mirror,
}


DENSE = {"segmentation": segmentation, "reconstruction": reconstruction}
