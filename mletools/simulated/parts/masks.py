"""Run-length codes of masks, with pixels counted from 1."""

import numpy as np


def mask_of(code, size):
    mask = np.zeros(size, dtype=int)
    runs = [int(number) for number in code.split()] if isinstance(code, str) else []
    for start, length in zip(runs[::2], runs[1::2], strict=True):
        mask[start - 1 : start - 1 + length] = 1
    return mask


def code_of(mask):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True))
