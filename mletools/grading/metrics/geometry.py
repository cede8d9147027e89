"""Metrics on points of a sphere: places on the earth and directions in space. Not covered: the earth's flattening."""

from collections.abc import Sequence
from typing import Any

from .means import at_least, groups_by_size, mean
from .registry import Unsuited, metric


def _two_columns(name: str, truth: Any, guess: Any, what: str) -> None:
    for values in (truth, guess):
        if values.shape[1] != 2:
            raise Unsuited(f"{name} needs two target columns, {what}, not {values.shape[1]}")


def _angle(across: Any, along: Any, shrink: Any) -> Any:
    """The angle in radians between two directions, from half the differences of their two coordinates.

    shrink: how much closer together the second coordinate's circles lie there. The haversine formula: exact for equal
    points, where the arccosine of a scalar product is 1e-8 off.
    """
    import numpy as np

    return 2 * np.arcsin(np.sqrt(np.clip(np.sin(across) ** 2 + shrink * np.sin(along) ** 2, 0, 1)))


def _distances(name: str, truth: Any, guess: Any, radius: Any) -> Any:
    """Great-circle distances in the radius' unit between rows of latitude and longitude in degrees."""
    import numpy as np

    _two_columns(name, truth, guess, "latitude and longitude")
    truth, guess = np.radians(truth), np.radians(guess)
    across, along = (truth / 2 - guess / 2).T
    return at_least("radius_m", radius, 0) * _angle(across, along, np.cos(truth[:, 0]) * np.cos(guess[:, 0]))


@metric("haversine_mean", lower_is_better=True, best=0.0, parse="number", columns="joint")
def haversine_mean(truth: Any, guess: Any, *, radius_m: float = 6371000) -> float:
    """Mean great-circle distance in metres on a sphere of radius_m; target columns: latitude, longitude, in degrees."""
    return mean(_distances("haversine_mean", truth, guess, radius_m))


@metric("haversine_quantiles", lower_is_better=True, best=0.0, parse="number", columns="joint")
def haversine_quantiles(
    truth: Any, guess: Any, *, group: Any, quantiles: Sequence[float] = (0.5, 0.95), radius_m: float = 6371000
) -> float:
    """Quantiles of the great-circle distances (metres) in each group, averaged, then the mean over groups.

    Target columns: latitude, longitude, in degrees. Quantiles between two rows are interpolated linearly. Source: the
    evaluation page of Kaggle's Google Smartphone Decimeter Challenge 2022; earth radius as in MLE-bench's grader.
    """
    import numpy as np

    if not isinstance(quantiles, list | tuple) or not quantiles:
        raise Unsuited(f"metric.params.quantiles is {quantiles!r}, not a list of numbers from 0 to 1")
    shares = [at_least("quantiles", each, 0) for each in quantiles]
    if max(shares) > 1:
        raise Unsuited(f"metric.params.quantiles holds {max(shares):g}, which is above 1")
    distances = _distances("haversine_quantiles", truth, guess, radius_m)
    return mean(
        np.concatenate([np.quantile(distances[rows], shares, axis=1).mean(axis=0) for rows in groups_by_size(group)])
    )


@metric("angular_error_mean", lower_is_better=True, best=0.0, parse="number", columns="joint")
def angular_error_mean(truth: Any, guess: Any) -> float:
    """Mean angle in radians, 0 to pi, between predicted and true direction; target columns: azimuth, zenith, in radians.

    Source: the evaluation page of Kaggle's IceCube Neutrinos in Deep Ice.
    """
    import numpy as np

    _two_columns("angular_error_mean", truth, guess, "azimuth and zenith")
    along, across = (truth / 2 - guess / 2).T
    return mean(_angle(across, along, np.sin(truth[:, 1]) * np.sin(guess[:, 1])))
