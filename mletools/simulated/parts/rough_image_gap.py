"""A hidden pixel is told by its place and by what all the picture is like."""

import numpy as np
from PIL import Image


def units(table, goals, train):
    rows = []
    for path in table["image"]:
        pixels = np.asarray(Image.open("input/" + path).convert("L"), dtype=float)
        seen = [pixels.mean(), pixels.std(), *np.quantile(pixels, [0.1, 0.9])]
        rows.append([[*map(float, goal.split("_")[1:]), *seen] for goal in goals])
    return np.array(rows), np.zeros((len(table), len(goals))), np.ones((len(table), 1))
