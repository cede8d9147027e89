"""What can be found in pictures: the quick features of a standard pipeline, and the best measurement of each property.

Everything is read from the pixels of the files. The measurement knows what one sees at a glance (the shapes of the
markers, whether spots are dark) and nothing about a single picture. Not covered: dense problems, which have features of
their own (image_mask, image_gap).
"""

from typing import Any

from .image_flaws import mended, smooth
from .image_scene import MARKER, NUMBERS, QUADRANT, Look, place, stamp, stamp_size

TILES, HARMONICS = 4, 5
# Measured on pictures of known properties: what the measurement makes of these, as a straight line.
SPOT_SHRINK, SPOT_OFFSET = 0.54, -4.0
SYMMETRY_SHRINK = 0.67


def quick(pixels: Any) -> Any:
    """(rows, k): a thumbnail of 4 x 4, the spread of the greys, mean steps between neighbours, how steps across and
    down go together, the mean spectrum of lines and of columns, mean colours."""
    import numpy as np

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


def measure(look: Look, pixels: Any) -> dict[str, Any]:
    """Places and codes by the name of the property, (rows,) each; all of NUMBERS (the tint only of colour pictures)."""
    import numpy as np

    colours = mended(pixels / 255.0)
    grey = colours.mean(axis=3)
    found: dict[str, Any] = {}
    wave = np.zeros_like(grey)
    spots = np.zeros(grey.shape, dtype=bool)
    candidates = _candidates(look.side)
    # Marker and spots are found better where the stripes are gone, stripes where marker and spots are known.
    for _ in range(2):
        found[MARKER], found[QUADRANT], covered = _find_marker(look, grey - wave)
        ignored = covered | spots
        waves, wave = _find_waves(candidates, _levelled(grey, _halves(grey, ignored)), ignored)
        balance = _halves(grey - wave, covered)
        calm = _levelled(grey - wave, balance)
        count, radius, spots = _find_spots(look, calm, covered)
    found |= {**waves, "image_spot_count": count, "image_spot_radius": radius, "image_side_balance": 100 * balance}
    found["image_mirror_symmetry"] = _symmetry(calm, covered | spots)
    found["image_grain"] = 100 * _grain(grey)
    if pixels.shape[3] == 3:
        found["image_tint"] = 100 * np.round((colours[..., 0] - colours[..., 2]).mean(axis=(1, 2)), 6)
    return {
        name: np.round(place(name, np.round(values, 6)), 6) if name in NUMBERS else values
        for name, values in found.items()
    }


def _find_marker(look: Look, grey: Any) -> tuple[Any, Any, Any]:
    """(level, quadrant, pixels that it covers) where a stamp without its mean answers most."""
    import numpy as np

    size = stamp_size(look)
    stamps = np.stack([stamp(shape, size).ravel() for shape in look.markers])
    stamps = stamps - stamps.mean(axis=1, keepdims=True)
    stamps /= np.sqrt((stamps**2).sum(axis=1, keepdims=True))
    signed = look.sign * np.clip(grey, 0.1, 0.9)
    windows = np.lib.stride_tricks.sliding_window_view(signed, (size, size), axis=(1, 2))
    rows, places = len(grey), windows.shape[1]
    answers = np.round(windows.reshape(rows, places * places, size * size) @ stamps.T, 6).reshape(rows, -1)
    best = answers.argmax(axis=1)
    at, level = np.divmod(best, len(look.markers))
    top, left = np.divmod(at, places)
    middle = (look.side - size) / 2
    quadrant = 2 * (top > middle) + (left > middle)
    line = np.arange(look.side)[None, :]
    down = (line >= top[:, None]) & (line < top[:, None] + size)
    across = (line >= left[:, None]) & (line < left[:, None] + size)
    return level, quadrant.astype(int), down[:, :, None] & across[:, None, :]


def _halves(grey: Any, covered: Any) -> Any:
    """How much brighter the right half is by the medians of what no marker covers, (rows,)."""
    import numpy as np

    seen = np.where(covered, np.nan, grey)
    half = grey.shape[2] // 2
    rows = len(grey)
    middle = [np.nanmedian(part.reshape(rows, -1), axis=1) for part in (seen[:, :, :half], seen[:, :, half:])]
    return np.round(middle[1] - middle[0], 6)


def _levelled(grey: Any, balance: Any) -> Any:
    """The pictures without the difference between the halves, about 0."""
    import numpy as np

    side = grey.shape[2]
    half = np.where(np.arange(side) >= side / 2, 0.5, -0.5)
    level = grey - balance[:, None, None] * half[None, None, :]
    return level - np.median(level.reshape(len(grey), -1), axis=1)[:, None, None]


def _candidates(side: int) -> tuple[Any, Any, Any]:
    """Frequencies and angles of plane waves, (candidates,), and their cosines and sines, (2, candidates, pixels)."""
    import numpy as np

    _, low, high, _ = NUMBERS["image_stripe_frequency"]
    grid = np.meshgrid(np.linspace(low, high, 19), np.linspace(12, 168, 53))
    frequency, angle = (each.ravel() for each in grid)
    at = np.arange(side) / side
    turn = np.radians(angle)
    along = np.cos(turn)[:, None, None] * at[None, None, :] + np.sin(turn)[:, None, None] * at[None, :, None]
    phase = (2 * np.pi * frequency[:, None, None] * along).reshape(len(frequency), -1)
    return frequency, angle, np.stack([np.cos(phase), np.sin(phase)])


def _find_waves(candidates: tuple[Any, Any, Any], level: Any, ignored: Any) -> tuple[dict[str, Any], Any]:
    """Frequency, angle and contrast of the plane wave that explains most of what is not ignored, and that wave."""
    import numpy as np

    frequency, angle, waves = candidates
    rows, side = level.shape[:2]
    fade = np.sin(np.pi * (np.arange(side) + 0.5) / side)
    window = (fade[:, None] * fade[None, :]).ravel()
    # What sticks out still is cut down to the stripes' own range, and weighs nothing once these are known.
    flat = np.where(ignored, 0.0, level).reshape(rows, -1)
    cut = np.clip(flat, -0.17, 0.17) * window
    even, odd = (cut @ wave.T for wave in waves)
    best = np.round(even**2 + odd**2, 6).argmax(axis=1)
    wave = waves[:, best]
    free = window * ~ignored.reshape(rows, -1)
    weight = free
    for _ in range(2):
        even, odd = (2 * (flat * weight * part).sum(axis=1) / np.maximum(weight.sum(axis=1), 1) for part in wave)
        found = even[:, None] * wave[0] + odd[:, None] * wave[1]
        weight = free * (np.round(np.abs(flat - found), 6) < 0.15)
    sizes = {
        "image_stripe_frequency": frequency[best],
        "image_stripe_angle": angle[best],
        "image_stripe_contrast": 200 * np.hypot(even, odd),
    }
    return sizes, found.reshape(level.shape)


def _find_spots(look: Look, calm: Any, covered: Any) -> tuple[Any, Any, Any]:
    """(count, radius in percent of the side, covered pixels) of what sticks out against the marker's direction."""
    import numpy as np

    depth = np.where(covered, 0.0, -look.sign * calm)
    depth = np.where(covered, 0.0, depth - smooth(np.minimum(depth, 0.12), 0.16 * look.side))
    near = np.round(smooth(depth, 0.7), 6)
    peak = near > 0.12
    padded = np.pad(near, ((0, 0), (2, 2), (2, 2)), mode="constant", constant_values=-1.0)
    side = look.side
    for r in range(5):
        for c in range(5):
            other = padded[:, r : r + side, c : c + side]
            peak &= (near > other) if (r, c) < (2, 2) else (near >= other)
    count = np.maximum(peak.sum(axis=(1, 2)), 1)
    reach = 0.05 * side
    around = np.round(smooth(peak.astype(float), reach) * reach**2, 6) > 0.0175
    bottom = np.partition(np.where(around, depth, 0).reshape(len(depth), -1), -4, axis=1)[:, -4:].mean(axis=1)
    share = np.clip(depth / np.maximum(bottom, 0.2)[:, None, None], 0, 1) * around
    area = share.sum(axis=(1, 2)) / count
    radius = 100 * np.sqrt(area / np.pi) / side
    return count.astype(float), SPOT_OFFSET + radius / SPOT_SHRINK, around


def _symmetry(calm: Any, covered: Any) -> Any:
    """Correlation of the left half with the mirrored right half, over pairs of which neither is covered."""
    import numpy as np

    free = (~(covered | covered[:, :, ::-1])).astype(float)
    soft = smooth(np.clip(calm, -0.2, 0.2), 0.8)
    total = np.maximum(free.sum(axis=(1, 2)), 1)[:, None, None]
    soft = soft - (soft * free).sum(axis=(1, 2), keepdims=True) / total
    # A lens darkens all corners alike, which says nothing about the scene.
    at = np.linspace(-1, 1, calm.shape[1])
    far = at[:, None] ** 2 + at[None, :] ** 2
    far = far - (far * free).sum(axis=(1, 2), keepdims=True) / total
    slope = (soft * far * free).sum(axis=(1, 2)) / np.maximum((far**2 * free).sum(axis=(1, 2)), 1e-9)
    soft = soft - slope[:, None, None] * far
    together = (soft * soft[:, :, ::-1] * free).sum(axis=(1, 2))
    return together / np.maximum((soft**2 * free).sum(axis=(1, 2)), 1e-9) / SYMMETRY_SHRINK


def _grain(grey: Any) -> Any:
    """The deviation of the grain by the median size of second differences across and down, which smooth shapes lack."""
    import numpy as np

    rough = np.diff(grey, 2, axis=1)
    rough = np.diff(rough, 2, axis=2)
    return np.median(np.abs(np.round(rough, 6)).reshape(len(grey), -1), axis=1) / 0.6745 / 6
