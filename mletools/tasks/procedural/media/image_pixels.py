"""Pictures with a target a pixel: masks of regions whose texture a rule asks for, and textures under a hidden square.

A mask's picture is cut into regions, each with its own brightness and stripes; the rule looks at one or two of their
traits, the others mean nothing. A hidden square's texture is of one family in all pictures of a task, with other sizes
in each. Not covered: factors of a whole picture (image).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, median_filter, uniform_filter

from ...forms import rle
from ...table import Column, Rejected
from ..world import Dense, Rendered, Target
from .common import pick
from .image import as_bytes, asset, file_facts, flawed, mended, plane_waves, smooth, turned

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
FORMS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "alone": ("{0}", lambda one, other: one),
    "both": ("{0}, and {1}", lambda one, other: one * other),
    "unless": ("{0}, unless {1}", lambda one, other: one * (1 - other)),
    "differ": ("either {0} or {1}, but not both", lambda one, other: one + other - 2 * one * other),
}


def segmentation(
    scenario: Mapping[str, Any], rows: int, mutations: Mapping[str, float], noise: float, rng: Any
) -> Dense:
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
    order = (
        f"A mask counts the {side * side} pixels of its picture row by row from 1: pixel 1 is the upper left one, pixel "
        f"{side} the upper right one, pixel {side + 1} the first of the second row."
    )
    return Dense(
        rendered=Rendered(assets=[asset(scenario, pixels)], facts=file_facts(pixels, [order])),
        target=Target(
            problem="segmentation",
            columns=[Column("mask", "the pixels that belong to the mask, in run-length code", number=False)],
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


def _regions(rows: int, side: int, rng: Any) -> Any:
    """The number of each pixel's region, (rows, side, side): the nearest of four drawn centres."""
    places = np.array([[0.25, 0.25, 0.75, 0.75], [0.25, 0.75, 0.25, 0.75]])
    down, across = places[:, None, :] + rng.uniform(-0.17, 0.17, size=(2, rows, 4))
    pixel = (np.arange(side) + 0.5) / side
    away = (pixel[None, :, None, None] - down[:, None, None, :]) ** 2
    away = away + (pixel[None, None, :, None] - across[:, None, None, :]) ** 2
    return np.round(away, 9).argmin(axis=3)


def _spread(values: Any, region: Any) -> Any:
    """Values of regions, (rows, regions), at the pixels, (rows, side, side)."""
    return values[np.arange(len(region))[:, None, None], region]


def _paint_regions(region: Any, has: Mapping[str, Any], channels: int, rng: Any) -> Any:
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


def _plain_pixels(pixels: Any) -> Any:
    """(rows, pixels, 8): grey value, mean and deviation of 3 x 3, difference to the picture's mean, the mean steps across
    and down of 3 x 3, where the pixel lies."""

    def near(fields: Any) -> Any:
        return uniform_filter(fields, 3, axes=(1, 2), mode="nearest")

    grey = pixels.mean(axis=3) / 255
    at = np.arange(grey.shape[1])
    down, across = (np.broadcast_to(each, grey.shape) for each in np.meshgrid(at, at, indexing="ij"))
    steps = [near(each) for each in np.abs(np.gradient(grey, axis=(2, 1)))]
    spread = np.sqrt(np.maximum(near(grey**2) - near(grey) ** 2, 0))
    apart = grey - grey.mean(axis=(1, 2), keepdims=True)
    features = np.stack([grey, near(grey), spread, apart, *steps, down, across], axis=-1)
    return np.round(features.reshape(len(grey), len(at) ** 2, -1), 6)


def _measure_traits(pixels: Any) -> dict[str, Any]:
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
            energy[fine, steep] = np.max([sum(pair) for pair in parts], axis=0) + 1e-5
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


def _right_pixels(seen: Mapping[str, Any], first: str, second: str, form: str) -> Any:
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
    def units(self) -> Any:
        """The hidden pixels as flat indices, (25,), row by row."""
        down, across = np.divmod(np.arange(GAP * GAP), GAP)
        return (self.top + down) * self.side + self.left + across

    @property
    def visible(self) -> Any:
        """The other pixels as flat indices."""
        return np.setdiff1d(np.arange(self.side**2), self.units)


@dataclass(frozen=True)
class Texture:
    """Fields of shape (rows, side, side) around 0 of deviation near 1, the rule in words, and `guess`, which finds
    (rows, 25) grey values of the hidden square from pictures (rows, side, side) by that rule."""

    words: str
    fields: Any
    guess: Callable[[Any], Any]


def reconstruction(
    scenario: Mapping[str, Any], rows: int, mutations: Mapping[str, float], noise: float, rng: Any
) -> Dense:
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
        f"{hole.top} to {hole.top + GAP - 1} and columns {hole.left} to {hole.left + GAP - 1}, counted from 0. px_R_C is "
        f"the lost grey value, 0 (black) to 255 (white), in row R and column C of the square, counted from 0."
    )
    return Dense(
        rendered=Rendered(assets=[asset(scenario, pixels)], facts=file_facts(pixels, [place])),
        target=Target(
            problem="reconstruction",
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


def _plain_gap(seen: Any, hole: Hole) -> Any:
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


def _fit(seen: Any, hole: Hole, phases: Any) -> Any:
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


def _stripes(rows: int, hole: Hole, rng: Any) -> Texture:
    words = "straight stripes, a sine whose period, direction and phase differ from picture to picture, run through"
    return _striped(rows, hole, [0.0], words, rng)


def _crossing(rows: int, hole: Hole, rng: Any) -> Texture:
    turn = float(pick([60, 75, 90], rng))
    words = f"two sets of stripes of one period cross at {turn:.0f} degrees; period and direction differ from picture to picture"
    return _striped(rows, hole, [0.0, turn], words, rng)


def _striped(rows: int, hole: Hole, turns: list[float], words: str, rng: Any) -> Texture:
    """Sets of stripes of one period, at `turns` degrees to the first."""
    frequency, degrees = rng.uniform(*FREQUENCIES, size=rows), rng.uniform(0, 180, size=rows)
    fields = sum(
        np.sin(plane_waves(hole.side, frequency, degrees + turn) + rng.uniform(0, 2 * np.pi, size=(rows, 1)))
        for turn in turns
    )
    fields = np.sqrt(2 / len(turns)) * fields

    def guess(seen: Any) -> Any:
        trial, angles = (each.ravel() for each in np.meshgrid(np.linspace(*FREQUENCIES, 21), np.arange(0, 180, 6)))
        return _fit(seen, hole, [plane_waves(hole.side, trial, angles + turn) for turn in turns])

    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _rings(rows: int, hole: Hole, rng: Any) -> Texture:
    centre = [round(float(each), 1) for each in rng.uniform(0, hole.side - 1, size=2)]
    at = np.arange(hole.side)
    away = np.hypot(at[:, None] - centre[0], at[None, :] - centre[1]).ravel()[None, :] / hole.side
    frequency, phase = rng.uniform(*RING_FREQUENCIES, size=(rows, 1)), rng.uniform(0, 2 * np.pi, size=(rows, 1))
    fields = np.sqrt(2) * np.sin(2 * np.pi * frequency * away + phase)

    def guess(seen: Any) -> Any:
        return _fit(seen, hole, [2 * np.pi * np.linspace(*RING_FREQUENCIES, 41)[:, None] * away])

    words = (
        f"rings around row {centre[0]}, column {centre[1]}, a sine of the distance whose period and phase differ from "
        "picture to picture"
    )
    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _normed(fields: Any) -> Any:
    """Fields (rows, height, width) with mean 0 and deviation 1 each."""
    fields = fields - fields.mean(axis=(1, 2), keepdims=True)
    return fields / fields.std(axis=(1, 2), keepdims=True)


def _tiles(rows: int, hole: Hole, rng: Any) -> Texture:
    down, across = (int(each) for each in rng.randint(GAP, GAP + 3, size=2))
    # Smoothed across its own edges, so that tiles have no seams.
    motif = _normed(gaussian_filter(rng.normal(size=(rows, down, across)), 0.8, axes=(1, 2), mode="wrap"))
    at = np.arange(hole.side)
    fields = motif[:, at[:, None] % down, at[None, :] % across]

    def guess(seen: Any) -> Any:
        row, column = np.divmod(hole.units, hole.side)
        toward = [1 if start < hole.side // 2 - 2 else -1 for start in (hole.top, hole.left)]
        steps = ((toward[0] * down, 0), (0, toward[1] * across), (toward[0] * down, toward[1] * across))
        return np.mean([seen[:, row + step[0], column + step[1]] for step in steps], axis=0)

    words = f"a motif, another one in each picture, repeats every {down} rows and {across} columns"
    return Texture(words, fields, guess)


REFLECTIONS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("the right half mirrors the left half", lambda each: each[:, :, ::-1]),
    ("the lower half mirrors the upper half", lambda each: each[:, ::-1, :]),
    ("the picture is the same when turned by 180 degrees", lambda each: each[:, ::-1, ::-1]),
)


def _mirror(rows: int, hole: Hole, rng: Any) -> Texture:
    words, flip = pick(REFLECTIONS, rng)
    sign = 1 if rng.randint(2) else -1
    field = smooth(rng.normal(size=(rows, hole.side, hole.side)), 1.1)

    def guess(seen: Any) -> Any:
        other = flip(seen).reshape(len(seen), -1)[:, hole.units]
        middle = np.median(seen.reshape(len(seen), -1)[:, hole.visible], axis=1)[:, None]
        return middle + sign * (other - middle)

    return Texture(
        words + (", light and dark exchanged" if sign < 0 else ""), _normed(field + sign * flip(field)), guess
    )


TEXTURES: dict[str, Callable[[int, Hole, Any], Texture]] = {
    "stripes": _stripes,
    "crossing": _crossing,
    "rings": _rings,
    "tiles": _tiles,
    "mirror": _mirror,
}
