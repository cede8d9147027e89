"""Pictures as PNG files of one size.

Not covered: what is in them.
"""

import io
from collections.abc import Mapping
from typing import Any

from ..world import Asset

COLUMN, FOLDER = "image", "images"


def as_bytes(pictures: Any) -> Any:
    """The nearest grey values, uint8 of the same shape; rounded first, so that a last bit cannot move one."""
    import numpy as np

    return np.clip(np.rint(np.round(pictures * 255, 3)), 0, 255).astype(np.uint8)


def pngs(pixels: Any) -> list[bytes]:
    """A PNG file a picture, uint8 of shape (rows, side, side, 1 or 3).

    Stored, not compressed: all files have one size, and no release of a compressor changes a byte.
    """
    from PIL import Image

    files = []
    for picture in pixels:
        kept = io.BytesIO()
        Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture).save(kept, "PNG", compress_level=0)
        files.append(kept.getvalue())
    return files


def asset(scenario: Mapping[str, Any], pixels: Any) -> Asset:
    """The pictures as files of the column "image"."""
    return Asset(COLUMN, f"picture of the {scenario['sample']['one']}", FOLDER, "png", pngs(pixels))


def size_note(pixels: Any) -> str:
    """A sentence on the format for the description."""
    side, channels = pixels.shape[1], pixels.shape[3]
    kind = "grey" if channels == 1 else "in colour (RGB)"
    return f"The pictures are PNG files of {side} x {side} pixels, {kind}, with 8 bits a channel."
