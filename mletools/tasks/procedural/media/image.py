"""Small pictures: stripes on clouds, spots, a marker. What they are like are the factors.

Not covered: painting (image_scene), finding the properties again (image_features), what goes wrong with pictures
(image_flaws), problems with a target a pixel (image_mask, image_gap).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..world import Category, Number, Rendered
from .image_features import measure, quick
from .image_files import as_bytes, asset, size_note
from .image_flaws import MUTATIONS, flawed, turned
from .image_gap import reconstruction
from .image_mask import segmentation
from .image_scene import MARKER, MARKERS, NUMBERS, QUADRANT, QUADRANTS, Look, paint

__all__ = ["DENSE", "MUTATIONS", "factors", "render"]

DENSE = {"segmentation": segmentation, "reconstruction": reconstruction}
SIDES = (28, 32, 36)


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six numbers of the scene, spread evenly or in a bell, and the marker's shape, at times its quadrant."""
    found: list[Number | Category] = []
    names = list(NUMBERS)
    for at in rng.permutation(len(names))[: int(rng.randint(5, 7))]:
        unit, low, high, decimals = NUMBERS[names[at]]
        found.append(Number(names[at], unit, low, high, decimals, _places(names[at], rows, rng)))
    levels = [MARKERS[at] for at in rng.permutation(len(MARKERS))[: int(rng.randint(3, 5))]]
    found.append(Category(MARKER, levels, rng.randint(len(levels), size=rows)))
    if rng.randint(2):
        found.append(Category(QUADRANT, QUADRANTS, rng.randint(len(QUADRANTS), size=rows)))
    return found


def _places(name: str, rows: int, rng: Any) -> Any:
    import numpy as np

    even = rng.randint(2)
    place = rng.uniform(size=rows) if even else np.clip(rng.normal(0.5, 0.22, size=rows), 0, 1)
    if name == "image_spot_count":
        _, low, high, _ = NUMBERS[name]
        # Spots are whole.
        place = np.rint(np.round(place * (high - low), 6)) / (high - low)
    return np.round(place, 6)


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """One PNG a sample, of one size. Properties that are no factor stay near a value that the whole task shares."""
    import numpy as np

    seen = {each.name: each.place if isinstance(each, Number) else each.code for each in factors}
    marker = next(each for each in factors if isinstance(each, Category) and each.name == MARKER)
    rows = len(marker.code)
    look = Look(
        side=int(SIDES[rng.randint(len(SIDES))]),
        channels=3 if rng.randint(2) or "image_tint" in seen else 1,
        markers=tuple(marker.levels),
        sign=1 if rng.randint(2) else -1,
    )
    for name in NUMBERS:
        if name not in seen:
            middle = rng.uniform(0.25, 0.75)
            seen[name] = np.clip(rng.normal(middle, 0.12, size=rows), 0, 1)
    seen.setdefault(QUADRANT, rng.randint(len(QUADRANTS), size=rows))
    pictures = turned(paint(look, seen, rng), mutations, rng)
    pixels = as_bytes(flawed(pictures, mutations, rng))
    found = measure(look, pixels)
    return Rendered(
        assets=[asset(scenario, pixels)],
        plain=quick(pixels),
        measured={each.name: found[each.name] for each in factors},
        notes=[size_note(pixels)],
    )
