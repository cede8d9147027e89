"""Columns of labels and of probabilities."""

from typing import Any

import numpy as np


def binary(rng: np.random.RandomState, rows: int) -> Any:
    """Answers 0 and 1, of both classes, shape (rows, 1)."""
    return rng.permutation(np.concatenate([np.arange(rows) % 2, rng.rand(rows) < 0.4])[:rows]).astype(float)[:, None]


def doubtful(rng: np.random.RandomState, truth: Any) -> Any:
    """Probabilities that know a little of the answers, with ties."""
    return np.round(np.clip(truth * 0.3 + rng.rand(*truth.shape) * 0.7, 0, 1), 2)


def column(*values: float) -> Any:
    return np.array(values, dtype=float)
