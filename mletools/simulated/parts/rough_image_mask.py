"""A pixel is told by its brightness, that of its neighbours, and its place."""

import numpy as np
from PIL import Image
from scipy import ndimage


def units(table):
    grey = np.stack([np.asarray(Image.open("input/" + path).convert("L"), dtype=float) for path in table["image"]])
    places = np.broadcast_to(np.indices(grey.shape[1:])[:, None], (2, *grey.shape))
    found = np.stack([grey, ndimage.uniform_filter(grey, (0, 3, 3)), *places], axis=-1)
    return found.reshape(len(grey), -1, found.shape[-1])
