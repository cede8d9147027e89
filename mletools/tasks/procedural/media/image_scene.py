"""The scene of a picture: clouds, stripes, spots, a marker and grain, each as a property of the sample says.

Not covered: which properties are factors (image), what goes wrong with a picture (image_flaws), how the properties are
found again (image_features).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Name: (unit, low, high, decimals). Percent are of the way from black to white, a side is that of the picture.
NUMBERS = {
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
MARKER, QUADRANT = "image_marker", "image_marker_quadrant"
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


def value(name: str, place: Any) -> Any:
    """Places between 0 and 1 of a number in its own unit."""
    _, low, high, _ = NUMBERS[name]
    return low + place * (high - low)


def place(name: str, values: Any) -> Any:
    """Values in the number's own unit as places, cut off at 0 and 1."""
    import numpy as np

    _, low, high, _ = NUMBERS[name]
    return np.clip((values - low) / (high - low), 0, 1)


def paint(look: Look, seen: Mapping[str, Any], rng: Any) -> Any:
    """Pictures of shape (rows, side, side, channels) for places and codes by name, of all of NUMBERS but the tint, which
    needs colour, and of the marker and its quadrant."""
    import numpy as np

    rows, side = len(seen[MARKER]), look.side
    grey = 0.5 + rng.uniform(-0.04, 0.04, size=(rows, 1, 1)) + CLOUDS * _clouds(look, seen, rng)
    grey = grey + _stripes(look, seen, rng)
    half = np.where(np.arange(side) >= side / 2, 0.5, -0.5)[None, None, :]
    grey = grey + _each(seen, "image_side_balance") / 100 * half
    grey = grey - look.sign * rng.uniform(0.3, 0.4, size=(rows, 1, 1)) * _spots(look, seen, rng)
    grey = grey + look.sign * rng.uniform(0.3, 0.4, size=(rows, 1, 1)) * _markers(look, seen, rng)
    grey = grey + _each(seen, "image_grain") / 100 * rng.normal(size=grey.shape)
    if look.channels == 1:
        return grey[..., None]
    tint = _each(seen, "image_tint") / 100
    shade = rng.uniform(-0.06, 0.06, size=3)
    return np.stack([grey + shade[at] + weight * tint for at, weight in enumerate((0.5, 0.0, -0.5))], axis=-1)


def _each(seen: Mapping[str, Any], name: str) -> Any:
    """The number's values, (rows, 1, 1)."""
    return value(name, seen[name])[:, None, None]


def _clouds(look: Look, seen: Mapping[str, Any], rng: Any) -> Any:
    """Fields of deviation 1 whose right half follows the mirrored left half with the asked correlation."""
    import numpy as np

    rows, side, knots = len(seen[MARKER]), look.side, 8
    at = np.linspace(0, knots - 1, side)
    spread = np.clip(1 - np.abs(at[:, None] - np.arange(knots)[None, :]), 0, 1)
    field = spread @ rng.normal(size=(rows, knots, knots)) @ spread.T
    field = field - field.mean(axis=(1, 2), keepdims=True)
    even, odd = field + field[:, :, ::-1], field - field[:, :, ::-1]
    share = (1 + _each(seen, "image_mirror_symmetry")) / 2
    return sum(
        np.sqrt(weight) * part / part.std(axis=(1, 2), keepdims=True)
        for weight, part in ((share, even), (1 - share, odd))
    )


def _stripes(look: Look, seen: Mapping[str, Any], rng: Any) -> Any:
    import numpy as np

    rows = len(seen[MARKER])
    angle = np.radians(_each(seen, "image_stripe_angle"))
    at = np.arange(look.side) / look.side
    along = np.cos(angle) * at[None, None, :] + np.sin(angle) * at[None, :, None]
    phase = rng.uniform(size=(rows, 1, 1))
    wave = np.sin(2 * np.pi * (_each(seen, "image_stripe_frequency") * along + phase))
    return _each(seen, "image_stripe_contrast") / 200 * wave


def _spots(look: Look, seen: Mapping[str, Any], rng: Any) -> Any:
    """How far a spot covers each pixel, 0 to 1: round spots in drawn cells of the grid outside of the marker's quadrant."""
    import numpy as np

    rows, cell = len(seen[MARKER]), look.side / GRID
    down, across = np.divmod(np.arange(GRID * GRID), GRID)
    quadrant = 2 * (down >= GRID // 2) + (across >= GRID // 2)
    order = rng.uniform(size=(rows, GRID * GRID)) + 9.0 * (quadrant[None, :] == seen[QUADRANT][:, None])
    most = int(NUMBERS["image_spot_count"][2])
    chosen = np.argsort(order, axis=1, kind="stable")[:, :most]
    there = np.arange(most)[None, :] < np.rint(value("image_spot_count", seen["image_spot_count"]))[:, None]
    jitter = rng.uniform(0.35, 0.65, size=(2, rows, most)) * cell
    centre = np.stack([down[chosen], across[chosen]]) * cell + jitter - 0.5
    at = np.arange(look.side)
    radius = look.side * value("image_spot_radius", seen["image_spot_radius"])[:, None] / 100
    radius = radius * rng.uniform(0.92, 1.08, size=(rows, most))
    away = np.hypot(
        at[None, None, :, None] - centre[0][:, :, None, None], at[None, None, None, :] - centre[1][:, :, None, None]
    )
    covered = np.clip(radius[:, :, None, None] - away + 0.5, 0, 1) * there[:, :, None, None]
    return covered.max(axis=1)


def stamp(shape: str, size: int) -> Any:
    """A marker of `size` pixels a side, 0 to 1."""
    import numpy as np

    at = np.arange(size) - (size - 1) / 2
    down, across = np.abs(at)[:, None] + 0 * at, np.abs(at)[None, :] + 0 * at[:, None]
    far, end = np.hypot(down, across), size / 2
    return {
        "ring": (far <= end) & (far > end - 1.7),
        "cross": (down < 0.9) | (across < 0.9),
        "saltire": np.abs(down - across) < 0.9,
        "disc": far < 0.34 * size,
        "bars": (down > end - 2.1) & (down < end - 0.1) & (across <= end),
    }[shape].astype(float)


def stamp_size(look: Look) -> int:
    """Pixels a side of the marker."""
    return 7 if look.side < 30 else 9


def _markers(look: Look, seen: Mapping[str, Any], rng: Any) -> Any:
    import numpy as np

    rows, side, size = len(seen[MARKER]), look.side, stamp_size(look)
    stamps = np.stack([stamp(shape, size) for shape in look.markers])[seen[MARKER]]
    room = side // 2 - size
    start = np.floor(rng.uniform(size=(2, rows)) * (room + 1)).astype(int)
    start += np.stack(np.divmod(seen[QUADRANT], 2)) * (side // 2)
    found = np.zeros((rows, side, side))
    for at in range(rows):
        top, left = start[:, at]
        found[at, top : top + size, left : left + size] = stamps[at]
    return found
