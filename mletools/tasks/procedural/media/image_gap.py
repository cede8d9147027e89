"""A hidden square in a picture whose texture goes on beneath it.

The texture follows a drawn family, the same in all pictures of a task, with other sizes in each. Not covered: factors
of a whole picture (image), masks (image_mask).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...table import Column
from ..world import Dense, Rendered, Target
from .image_files import as_bytes, asset, size_note
from .image_flaws import flawed, smooth, turned

SIDES = (16, 18, 20)
GAP = 5
# Brightness of the square in the files.
COVER = 128
FREQUENCIES = (1.5, 4.0)
RING_FREQUENCIES = (3.2, 5.2)


@dataclass(frozen=True)
class Hole:
    """The hidden square: its first row and column, counted from 0, in pictures of `side` pixels a side."""

    side: int
    top: int
    left: int

    @property
    def units(self) -> Any:
        """The hidden pixels as flat indices, (25,), row by row."""
        import numpy as np

        down, across = np.divmod(np.arange(GAP * GAP), GAP)
        return (self.top + down) * self.side + self.left + across


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
    """The 25 grey values of a hidden square of 5 x 5 pixels, which lies at one place in all pictures of a task."""
    import numpy as np

    side = int(SIDES[rng.randint(len(SIDES))])
    # Inside one quarter of the picture, and not at its edge.
    top, left = (int(rng.randint(1, side // 2 - GAP + 1)) for _ in range(2))
    hole = Hole(side, top if rng.randint(2) else side - GAP - top, left if rng.randint(2) else side - GAP - left)
    family = list(TEXTURES)[rng.randint(len(TEXTURES))]
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
    plain = _quick(seen, hole)
    guess = np.round(np.clip(texture.guess(seen), 0, 255), 4)
    names = [f"px_{at // GAP}_{at % GAP}" for at in range(GAP * GAP)]
    return Dense(
        rendered=Rendered(assets=[asset(scenario, pixels)], notes=[size_note(pixels), _place_note(hole)]),
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


def _place_note(hole: Hole) -> str:
    return (
        f"In every picture a square of {GAP} x {GAP} pixels is lost and was filled with the grey value {COVER}: rows "
        f"{hole.top} to {hole.top + GAP - 1} and columns {hole.left} to {hole.left + GAP - 1}, counted from 0. px_R_C is "
        f"the lost grey value, 0 (black) to 255 (white), in row R and column C of the square, counted from 0."
    )


def _quick(seen: Any, hole: Hole) -> Any:
    """(rows, 25, 8): the visible neighbours left, right, above and below the square in the pixel's row and column, their
    mean weighted by nearness, the picture's mean, where the pixel lies."""
    import numpy as np

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


def _fit(seen: Any, hole: Hole, waves: Any) -> Any:
    """The hidden values of that one of `waves` (candidates, pixels, k) which, with a mean, fits the visible best."""
    import numpy as np

    bases = np.concatenate([np.ones((*waves.shape[:2], 1)), waves], axis=2)
    visible = np.setdiff1d(np.arange(hole.side**2), hole.units)
    flat = seen.reshape(len(seen), -1)[:, visible]
    axes, corners = np.linalg.qr(bases[:, visible])
    count, pixels, size = axes.shape
    along = flat @ axes.transpose(1, 0, 2).reshape(pixels, -1)
    strength = (along.reshape(len(seen), count, size) ** 2).sum(axis=2)
    best = np.round(strength, 3).argmax(axis=1)
    own = along.reshape(len(seen), count, size)[np.arange(len(seen)), best]
    weights = np.linalg.solve(corners[best], own[:, :, None])
    return (bases[:, hole.units][best] @ weights)[:, :, 0]


def _wave(side: int, frequency: Any, degrees: Any) -> Any:
    """Phases of shape (candidates, pixels) of plane waves, periods a side and degrees of shape (candidates,)."""
    import numpy as np

    at = np.arange(side) / side
    turn = np.radians(degrees)[:, None, None]
    along = np.cos(turn) * at[None, None, :] + np.sin(turn) * at[None, :, None]
    return (2 * np.pi * frequency[:, None, None] * along).reshape(len(frequency), -1)


def _both(phases: Any) -> list[Any]:
    import numpy as np

    return [np.cos(phases), np.sin(phases)]


def _grid(steps: int, degrees: Any) -> tuple[Any, Any]:
    import numpy as np

    pairs = np.meshgrid(np.linspace(*FREQUENCIES, steps), degrees)
    return pairs[0].ravel(), pairs[1].ravel()


def _stripes(rows: int, hole: Hole, rng: Any) -> Texture:
    import numpy as np

    frequency, degrees = rng.uniform(*FREQUENCIES, size=rows), rng.uniform(0, 180, size=rows)
    phase = rng.uniform(0, 2 * np.pi, size=(rows, 1))
    fields = np.sqrt(2) * np.sin(_wave(hole.side, frequency, degrees) + phase)

    def guess(seen: Any) -> Any:
        waves = _wave(hole.side, *_grid(21, np.arange(0, 180, 6)))
        return _fit(seen, hole, np.stack(_both(waves), axis=-1))

    words = "straight stripes, a sine whose period, direction and phase differ from picture to picture, run through"
    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _crossing(rows: int, hole: Hole, rng: Any) -> Texture:
    import numpy as np

    turn = float(rng.choice([60, 75, 90]))
    frequency, degrees = rng.uniform(*FREQUENCIES, size=rows), rng.uniform(0, 180, size=rows)
    phase = rng.uniform(0, 2 * np.pi, size=(2, rows, 1))
    fields = sum(
        np.sin(_wave(hole.side, frequency, each) + own)
        for each, own in zip((degrees, degrees + turn), phase, strict=True)
    )

    def guess(seen: Any) -> Any:
        periods, angles = _grid(21, np.arange(0, 180, 6))
        parts = [_both(_wave(hole.side, periods, each)) for each in (angles, angles + turn)]
        return _fit(seen, hole, np.stack([*parts[0], *parts[1]], axis=-1))

    words = f"two sets of stripes of one period cross at {turn:.0f} degrees; period and direction differ from picture to picture"
    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _rings(rows: int, hole: Hole, rng: Any) -> Texture:
    import numpy as np

    centre = [round(float(each), 1) for each in rng.uniform(0, hole.side - 1, size=2)]
    at = np.arange(hole.side)
    away = np.hypot(at[:, None] - centre[0], at[None, :] - centre[1]).ravel()[None, :] / hole.side
    frequency, phase = rng.uniform(*RING_FREQUENCIES, size=(rows, 1)), rng.uniform(0, 2 * np.pi, size=(rows, 1))
    fields = np.sqrt(2) * np.sin(2 * np.pi * frequency * away + phase)

    def guess(seen: Any) -> Any:
        waves = 2 * np.pi * np.linspace(*RING_FREQUENCIES, 41)[:, None] * away
        return _fit(seen, hole, np.stack(_both(waves), axis=-1))

    words = (
        f"rings around row {centre[0]}, column {centre[1]}, a sine of the distance whose period and phase differ from "
        "picture to picture"
    )
    return Texture(words, fields.reshape(rows, hole.side, hole.side), guess)


def _tiles(rows: int, hole: Hole, rng: Any) -> Texture:
    import numpy as np

    down, across = (int(each) for each in rng.randint(GAP, GAP + 3, size=2))
    motif = rng.normal(size=(rows, 3 * down, 3 * across))[:, :down, :across]
    # Smoothed as a part of its own repetition, so that tiles have no seams.
    motif = smooth(np.tile(motif, (1, 3, 3)), 0.8)[:, down : 2 * down, across : 2 * across]
    motif = (motif - motif.mean(axis=(1, 2), keepdims=True)) / motif.std(axis=(1, 2), keepdims=True)
    at = np.arange(hole.side)
    fields = motif[:, at[:, None] % down, at[None, :] % across]

    def guess(seen: Any) -> Any:
        row, column = np.divmod(hole.units, hole.side)
        toward = [1 if start < hole.side // 2 - 2 else -1 for start in (hole.top, hole.left)]
        steps = ((toward[0] * down, 0), (0, toward[1] * across), (toward[0] * down, toward[1] * across))
        return np.mean([seen[:, row + step[0], column + step[1]] for step in steps], axis=0)

    return Texture(
        f"a motif, another one in each picture, repeats every {down} rows and {across} columns", fields, guess
    )


def _mirror(rows: int, hole: Hole, rng: Any) -> Texture:
    import numpy as np

    reflections: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("the right half mirrors the left half", lambda each: each[:, :, ::-1]),
        ("the lower half mirrors the upper half", lambda each: each[:, ::-1, :]),
        ("the picture is the same when turned by 180 degrees", lambda each: each[:, ::-1, ::-1]),
    )
    words, flip = reflections[rng.randint(3)]
    sign = 1 if rng.randint(2) else -1
    field = smooth(rng.normal(size=(rows, hole.side, hole.side)), 1.1)
    field = field + sign * flip(field)
    field = field - field.mean(axis=(1, 2), keepdims=True)
    fields = field / field.std(axis=(1, 2), keepdims=True)

    def guess(seen: Any) -> Any:
        other = flip(seen).reshape(len(seen), -1)[:, hole.units]
        visible = np.setdiff1d(np.arange(hole.side**2), hole.units)
        middle = np.median(seen.reshape(len(seen), -1)[:, visible], axis=1)[:, None]
        return middle + sign * (other - middle)

    return Texture(words + (", light and dark exchanged" if sign < 0 else ""), fields, guess)


TEXTURES: dict[str, Callable[[int, Hole, Any], Texture]] = {
    "stripes": _stripes,
    "crossing": _crossing,
    "rings": _rings,
    "tiles": _tiles,
    "mirror": _mirror,
}
