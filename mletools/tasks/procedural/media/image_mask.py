"""Masks: which pixels of a picture lie in regions whose texture is as a drawn rule asks for.

A picture is cut into regions, each with its own brightness and stripes; the rule looks at one or two of their
properties, the others mean nothing. Not covered: factors of a whole picture (image).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...forms import rle
from ...table import Column, Rejected
from ..world import Dense, Rendered, Target
from .image_files import as_bytes, asset, size_note
from .image_flaws import flawed, mended, smooth, turned

SIDES = (18, 20)
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
    """Masks of pictures of 16 to 20 pixels a side: one unit a pixel, in row-major order."""
    import numpy as np

    side = int(SIDES[rng.randint(len(SIDES))])
    form = list(FORMS)[rng.randint(len(FORMS))]
    # What brightness alone decides is no texture: it comes second, or not at all.
    names = [name for name in TRAITS if name != "bright"]
    first = names[rng.randint(len(names))]
    second = [name for name in TRAITS if name != first][rng.randint(len(TRAITS) - 1)]
    if form == "alone":
        second = first
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
    pictures = _paint(region, has, rng)
    # A picture is turned with its mask.
    stacked = turned(np.concatenate([pictures, known[..., None], marked[..., None]], axis=3), mutations, rng)
    known, y = (np.rint(stacked[..., at]).astype(int).reshape(rows, -1) for at in (-2, -1))
    if not 0.05 < y.mean() < 0.8:
        raise Rejected(f"segmentation: {y.mean():.0%} of the pixels belong to a mask")
    pixels = as_bytes(flawed(stacked[..., :-2], mutations, rng))
    seen = _measure(pixels)
    return Dense(
        rendered=Rendered(assets=[asset(scenario, pixels)], notes=[size_note(pixels), _order_note(side)]),
        target=Target(
            problem="segmentation",
            columns=[Column("mask", "the pixels that belong to the mask, in run-length code", number=False)],
            cells={"mask": [rle(row) for row in y]},
            y=y,
            known=known.astype(float),
            words=f"each region is marked wrongly with probability {WRONG * noise:.3f}",
        ),
        plain=_quick(pixels),
        right=_right(seen, first, second, form),
        families=[f"mask_{form}", *dict.fromkeys([first, second])],
        rule="a pixel belongs to the mask where of its region is true: "
        + FORMS[form][0].format(TRAITS[first].words, TRAITS[second].words),
        params={"height": side, "width": side},
    )


def _order_note(side: int) -> str:
    return (
        f"A mask counts the {side * side} pixels of its picture row by row from 1: pixel 1 is the upper left one, pixel "
        f"{side} the upper right one, pixel {side + 1} the first of the second row."
    )


def _regions(rows: int, side: int, rng: Any) -> Any:
    """The number of each pixel's region, (rows, side, side): the nearest of four drawn centres."""
    import numpy as np

    places = np.array([[0.25, 0.25, 0.75, 0.75], [0.25, 0.75, 0.25, 0.75]])
    centre = places[:, None, :] + rng.uniform(-0.17, 0.17, size=(2, rows, 4))
    pixel = (np.arange(side) + 0.5) / side
    away = (pixel[None, :, None, None] - centre[0][:, None, None, :]) ** 2
    away = away + (pixel[None, None, :, None] - centre[1][:, None, None, :]) ** 2
    return np.round(away, 9).argmin(axis=3)


def _spread(values: Any, region: Any) -> Any:
    """Values of regions, (rows, regions), at the pixels, (rows, side, side)."""
    import numpy as np

    return values[np.arange(len(region))[:, None, None], region]


def _paint(region: Any, has: Mapping[str, Any], rng: Any) -> Any:
    import numpy as np

    rows, side = region.shape[:2]
    own = {}
    for name, trait in TRAITS.items():
        low, high = (np.where(has[name], trait.having[at], trait.without[at]) for at in (0, 1))
        own[name] = _spread(low + rng.uniform(size=low.shape) * (high - low), region)
    phase = _spread(rng.uniform(size=has["fine"].shape), region)
    at = np.arange(side)
    turn = np.radians(own["steep"])
    along = np.cos(turn) * at[None, None, :] + np.sin(turn) * at[None, :, None]
    grey = rng.uniform(0.4, 0.6, size=(rows, 1, 1)) + own["bright"]
    grey = grey + own["strong"] * np.sin(2 * np.pi * (along / own["fine"] + phase))
    grey = grey + own["rough"] * rng.normal(size=grey.shape)
    colours = rng.uniform(-0.05, 0.05, size=3) if rng.randint(2) else np.zeros(1)
    return np.stack([grey + shade for shade in colours], axis=-1)


def _quick(pixels: Any) -> Any:
    """(rows, pixels, 8): grey value, mean and deviation of 3 x 3, difference to the picture's mean, the mean steps across
    and down of 3 x 3, where the pixel lies."""
    import numpy as np

    grey = pixels.mean(axis=3) / 255
    side = grey.shape[1]
    at = np.arange(side)
    down, across = (np.broadcast_to(each, grey.shape) for each in np.meshgrid(at, at, indexing="ij"))
    steps = [_near(each).mean(axis=0) for each in np.abs(np.gradient(grey, axis=(2, 1)))]
    around = _near(grey)
    apart = grey - grey.mean(axis=(1, 2), keepdims=True)
    found = np.stack([grey, around.mean(axis=0), around.std(axis=0), apart, *steps, down, across], axis=-1)
    return np.round(found.reshape(len(grey), side * side, -1), 6)


def _near(fields: Any) -> Any:
    """The 3 x 3 neighbours of each pixel, (9, rows, side, side), the edge repeated."""
    import numpy as np

    padded = np.pad(fields, ((0, 0), (1, 1), (1, 1)), mode="edge")
    side = fields.shape[1]
    return np.stack([padded[:, r : r + side, c : c + side] for r in range(3) for c in range(3)])


def _measure(pixels: Any) -> dict[str, Any]:
    """How much of each trait the surroundings of each pixel show, (rows, side, side), any scale."""
    import numpy as np

    grey = mended(pixels / 255.0).mean(axis=3)
    level = smooth(grey, 2.0)
    energy = {}
    for fine in (False, True):
        for steep in (False, True):
            frequency = 1 / _middle(TRAITS["fine"].having if fine else TRAITS["fine"].without)
            middle = _middle(TRAITS["steep"].having if steep else TRAITS["steep"].without)
            answers = [_answer(grey - level, frequency, middle + turn) for turn in (-16.0, 0.0, 16.0)]
            energy[fine, steep] = np.max(answers, axis=0) + 1e-5
    rough = _near(np.abs(_mixed(grey)))
    return {
        "bright": level - np.median(level.reshape(len(level), -1), axis=1)[:, None, None],
        "fine": np.log(
            np.maximum(energy[True, True], energy[True, False]) / np.maximum(energy[False, True], energy[False, False])
        ),
        "steep": np.log(
            np.maximum(energy[True, True], energy[False, True]) / np.maximum(energy[True, False], energy[False, False])
        ),
        "strong": np.log(np.max(list(energy.values()), axis=0)),
        "rough": np.log(smooth(np.median(rough, axis=0), 1.5) + 0.02),
    }


def _middle(span: tuple[float, float]) -> float:
    return (span[0] + span[1]) / 2


def _answer(grey: Any, frequency: float, degrees: float) -> Any:
    """The local energy of stripes of this frequency, in periods a pixel, and direction, (rows, side, side)."""
    import numpy as np

    at = np.arange(grey.shape[1])
    turn = np.radians(degrees)
    phase = 2 * np.pi * frequency * (np.cos(turn) * at[None, :] + np.sin(turn) * at[:, None])
    return smooth(grey * np.cos(phase), WINDOW) ** 2 + smooth(grey * np.sin(phase), WINDOW) ** 2


def _mixed(grey: Any) -> Any:
    """Second differences across and down, of the shape of `grey`, the edge repeated."""
    import numpy as np

    inner = np.diff(np.diff(grey, 2, axis=1), 2, axis=2)
    return np.pad(inner, ((0, 0), (1, 1), (1, 1)), mode="edge")


def _right(seen: Mapping[str, Any], first: str, second: str, form: str) -> Any:
    """(rows, pixels, k): the traits of the rule, and the rule over them, each squeezed between 0 and 1."""
    import numpy as np

    squeezed = {}
    for name in dict.fromkeys([first, second]):
        far = (seen[name] - seen[name].mean()) / seen[name].std()
        squeezed[name] = 1 / (1 + np.exp(-2 * far))
    found = [*squeezed.values(), FORMS[form][1](squeezed[first], squeezed[second])]
    return np.round(np.stack(found, axis=-1).reshape(len(found[0]), -1, len(found)), 6)
