"""What a series tells of its factors: quick statistics, and a fit of trend, season and shift at once.

The step of the shift is the one that explains most beside a trend and a mean a phase of the season; what then remains
is the scatter. Not covered: several shifts, or a season that changes.
"""

from collections.abc import Sequence
from typing import Any

from .series_file import Scale

SHAPES = ("sine", "sawtooth", "square", "twin")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
# High points of the season that are tried, a season's share apart.
PHASES = 96
# A spike stands out of its neighbours by this share of the range.
SPIKE = 0.11


def season_shape(shape: str, turns: Any) -> Any:
    """A season between about -1 and 1 whose high point lies at whole `turns`; the same shape as `turns`."""
    import numpy as np

    place = np.mod(turns, 1.0)
    if shape == "sine":
        return np.cos(2 * np.pi * place)
    if shape == "sawtooth":
        return np.where(place < 0.2, 1 - 10 * place, 2 * (place - 0.2) / 0.8 - 1)
    if shape == "square":
        return np.clip(4 * np.cos(2 * np.pi * place), -1, 1)
    return (np.cos(4 * np.pi * place) + 0.4 * np.cos(2 * np.pi * place)) / 1.2


def plain_features(series: Sequence[Any], scale: Scale) -> Any:
    """(rows, 27) of values in the order of the lines, as shares of the range, cut off far outside of it.

    Count, mean, spread, ends, quantiles, changes; means of six stretches; spread and usual change of halves.
    """
    import numpy as np

    found = []
    for values in series:
        share = np.clip((values - scale.low) / (scale.high - scale.low), -0.5, 1.5)
        change = np.abs(np.diff(share))
        ends = [share[0], share[-1], share[:5].mean(), share[-5:].mean()]
        spread = [share.mean(), share.std(), share.min(), share.max(), change.mean(), change.max(), np.median(change)]
        stretches = [part.mean() for part in np.array_split(share, 6)]
        halves = [part.std() for part in np.array_split(share, 2)]
        halves += [np.median(part) for part in np.array_split(change, 2)]
        found.append([len(share), *spread, *ends, *np.quantile(share, QUANTILES), *stretches, *halves])
    return np.round(np.array(found), 6)


def measure(level: Any, known: Any, season: int) -> dict[str, Any]:
    """Each factor of series, (rows,): sizes as shares of the range, steps, numbers.

    `level` (rows, steps) are shares of the range, of which those where `known` (rows, steps) does not hold are a guess,
    made better by fitting twice.
    """
    import numpy as np

    spikes, level = _despiked(level, known)
    length = level.shape[1]
    for _ in range(3):
        weights, size, cut, fit = _fit(level, season)
        level = np.where(known, level, fit)
    rest = np.where(known, level - fit, 0)
    half = np.arange(length) < length // 2
    # A fit of this many means leaves less than the scatter there was.
    free = np.sqrt(length / (length - season - 3))
    spreads = [np.sqrt((rest[:, part] ** 2).sum(axis=1) / known[:, part].sum(axis=1)) for part in (half, ~half)]
    early, late = np.round(np.array(spreads) * free, 9) + 1e-6
    pairs = (known[:, 1:] & known[:, :-1]).sum(axis=1)
    memory = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / pairs / ((rest**2).sum(axis=1) / known.sum(axis=1) + 1e-9)
    shape, phase, height = _season(weights[:, 1:])
    return {
        "series_trend": weights[:, 0],
        "series_season_size": height,
        "series_shift_size": size,
        "series_scatter": np.sqrt(early * late),
        "series_season_phase": phase * season,
        "series_shift_step": cut.astype(float),
        # The fit also draws the memory of what is left down.
        "series_memory": memory + (1 + season / 3) / length,
        "series_spike_count": spikes,
        "series_late_scatter": np.log2(late / early),
        "series_season_shape": shape,
    }


def _fit(level: Any, season: int) -> tuple[Any, Any, Any, Any]:
    """(rise and means of the season (rows, 1 + season), size of the shift, its step, the fitted series) of each row."""
    import numpy as np

    length = level.shape[1]
    step = np.arange(length)
    # Whole seasons keep these columns far from depending on each other.
    base = np.column_stack([step / (length - 1) - 0.5, np.eye(season)[step % season]])
    cuts = np.arange(int(0.12 * length), int(0.88 * length) + 1)
    shifted = (step >= cuts[:, None]).astype(float)
    rest, shifted_rest = _without(level, base), _without(shifted, base)
    along, square = rest @ shifted_rest.T, (shifted_rest**2).sum(axis=1)
    best = np.round(along**2 / square, 8).argmax(axis=1)
    size = along[np.arange(len(level)), best] / square[best]
    jump = size[:, None] * shifted[best]
    weights = np.linalg.solve(base.T @ base, base.T @ (level - jump).T).T
    return weights, size, cuts[best], jump + weights @ base.T


def _without(values: Any, base: Any) -> Any:
    """The rows of `values` less what the columns of `base` explain of them."""
    import numpy as np

    weights = np.linalg.solve(base.T @ base, base.T @ values.T)
    return values - (base @ weights).T


def _despiked(level: Any, known: Any) -> tuple[Any, Any]:
    """(number of spikes (rows,), the series with the mean of their neighbours in their places)."""
    import numpy as np

    padded = np.pad(level, ((0, 0), (1, 1)), mode="reflect")
    before, after = padded[:, :-2], padded[:, 2:]
    spike = known & (np.round(level - np.maximum(before, after), 6) > SPIKE)
    # One neighbour of a fall of the season is low; both neighbours of a spike are.
    return spike.sum(axis=1).astype(float), np.where(spike, (before + after) / 2, level)


def _season(means: Any) -> tuple[Any, Any, Any]:
    """(codes of the shape, high point as a share of a season, size) of the means (rows, season) of its phases."""
    import numpy as np

    season = means.shape[1]
    means = means - means.mean(axis=1, keepdims=True)
    tried = np.array(
        [
            season_shape(shape, np.arange(season) / season - phase / PHASES)
            for shape in SHAPES
            for phase in range(PHASES)
        ]
    )
    tried = tried - tried.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(tried, axis=1)
    likeness = np.round(means @ tried.T / norms, 7)
    # High points beyond the last one that is drawn would be another shape's.
    likeness[:, np.arange(len(tried)) % PHASES > 0.78 * PHASES] = -1
    best = likeness.argmax(axis=1)
    size = likeness[np.arange(len(means)), best] / norms[best]
    return best // PHASES, best % PHASES / PHASES, size
