"""Short series: 63 to 96 steps a sample, with trend, season, a shift of level, spikes and a scatter that remembers, as CSV.

Factors not drawn for a task vary all the same. Not covered: files and their faults (series_file), what is measured from
them (series_measure), futures and gaps (series_future).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..world import Asset, Category, Number, Rendered
from .series_file import FAULTS, LENGTHS, Scale, read_carefully, read_plainly, write_files
from .series_future import forecasting, reconstruction
from .series_measure import SHAPES, measure, plain_features, season_shape

MUTATIONS = FAULTS
DENSE: dict[str, Any] = {"forecasting": forecasting, "reconstruction": reconstruction}

MOST_SPIKES = 6
# The latest high point of a season, as a share of it: a place must not run into itself.
LAST_PHASE = 0.75
# Factors measured in the series' own unit, as shares of its range; the others are in steps or have no unit.
IN_RANGE = {
    "series_trend": (-0.24, 0.24),
    "series_season_size": (0.02, 0.14),
    "series_shift_size": (0.06, 0.24),
    "series_scatter": (0.008, 0.045),
}


def _menu(scenario: Mapping[str, Any]) -> dict[str, tuple[str, float, float, int]]:
    """Each numeric factor: unit, low, high, decimals."""
    series = scenario["series"]
    span, length = series["high"] - series["low"], LENGTHS[series["season"]]
    in_unit = {
        name: (series["unit"], low * span, high * span, series["decimals"] + 1)
        for name, (low, high) in IN_RANGE.items()
    }
    return {
        **in_unit,
        "series_season_phase": (
            "steps from the start of a season to its high point",
            0,
            LAST_PHASE * series["season"],
            1,
        ),
        "series_shift_step": ("steps before the level shifts", 0.15 * length, 0.85 * length, 0),
        "series_memory": ("of the deviation of one step is left in the next", 0.0, 0.9, 2),
        "series_spike_count": ("spikes", 0, MOST_SPIKES, 0),
        "series_late_scatter": ("doublings of the scatter from the first half to the second", -1.8, 1.8, 2),
    }


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six properties of the series and the shape of its season, all evenly spread."""
    import numpy as np

    menu = _menu(scenario)
    names = list(menu)
    found: list[Number | Category] = []
    for name in (names[at] for at in sorted(int(at) for at in rng.permutation(len(names))[: 5 + int(rng.randint(2))])):
        found.append(Number(name, *menu[name], _places(name, rows, rng)))
    found.append(Category("series_season_shape", SHAPES, np.asarray(rng.randint(len(SHAPES), size=rows))))
    return found


def _places(name: str, rows: int, rng: Any) -> Any:
    """Places between 0 and 1; spikes come in whole numbers."""
    import numpy as np

    if name == "series_spike_count":
        return np.round(rng.randint(MOST_SPIKES + 1, size=rows) / MOST_SPIKES, 6)
    return np.round(rng.uniform(size=rows), 6)


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """A CSV file a sample, blemished by `mutations` (name: strength between 0 and 1)."""
    import numpy as np

    menu, scale = _menu(scenario), Scale.of(scenario)
    rows = len(factors[0].place if isinstance(factors[0], Number) else factors[0].code)
    place = {factor.name: factor.place for factor in factors if isinstance(factor, Number)}
    place = {name: place[name] if name in place else _places(name, rows, rng) for name in menu}
    shape = next(factor.code for factor in factors if isinstance(factor, Category))
    sizes = {name: low + place[name] * (high - low) for name, (_, low, high, _) in menu.items()}
    span, season = scale.high - scale.low, scenario["series"]["season"]
    shares = {name: value / span if name in IN_RANGE else value for name, value in sizes.items()}
    level = _course(shares, shape, season, LENGTHS[season], rng)
    contents, notes = write_files(scenario, scale.value(level), mutations, rng)
    read, own = read_carefully(contents, scale, level.shape[1])
    seen = measure(scale.share(read), own, season)
    measured = {}
    for factor in factors:
        if isinstance(factor, Number):
            size = seen[factor.name] * (span if factor.name in IN_RANGE else 1)
            measured[factor.name] = np.round(np.clip((size - factor.low) / (factor.high - factor.low), 0, 1), 6)
        else:
            measured[factor.name] = seen[factor.name]
    return Rendered(
        assets=[Asset("series", "the series, a line a step", "series", "csv", contents)],
        plain=plain_features(read_plainly(contents), scale),
        measured=measured,
        notes=[told(scenario, level.shape[1]), *notes],
    )


def told(scenario: Mapping[str, Any], length: int) -> str:
    """What a file holds, in a sentence."""
    series = scenario["series"]
    return (
        f"Each series covers {length} steps, counted from 0; a step is one {series['step']}. {series['name']} is the "
        f"{series['meaning']} in {series['unit']}."
    )


def _course(sizes: Mapping[str, Any], shape: Any, season: int, length: int, rng: Any) -> Any:
    """(rows, length) as shares of the range, from the factors' sizes (shares, steps, numbers) and the codes of the shape."""
    import numpy as np

    rows, step = len(shape), np.arange(length)
    at = {name: value[:, None] for name, value in sizes.items()}
    middle = rng.uniform(0.41, 0.49, size=(rows, 1))
    level = middle + at["series_trend"] * (step / (length - 1) - 0.5)
    shifted = step >= np.rint(at["series_shift_step"])
    level = level + at["series_shift_size"] * (shifted - np.mean(shifted, axis=1, keepdims=True))
    turns = (step - at["series_season_phase"]) / season
    seasons = np.choose(shape[:, None], [season_shape(name, turns) for name in SHAPES])
    level = level + at["series_season_size"] * seasons
    late = 2 ** (at["series_late_scatter"] * np.where(step >= length // 2, 0.5, -0.5))
    level = level + at["series_scatter"] * late * _remembering(sizes["series_memory"], length, rng)
    return np.round(level + _spikes(sizes["series_spike_count"], length, rng), 9)


def _remembering(memory: Any, length: int, rng: Any) -> Any:
    """Noise (rows, length) of deviation 1, each step keeping the share `memory` (rows,) of the last one."""
    import numpy as np

    fresh = rng.normal(size=(len(memory), length))
    found = [fresh[:, 0]]
    for at in range(1, length):
        found.append(memory * found[-1] + np.sqrt(1 - memory**2) * fresh[:, at])
    return np.column_stack(found)


def _spikes(count: Any, length: int, rng: Any) -> Any:
    """So many spikes (rows,) of one step, three steps apart or more: (rows, length)."""
    import numpy as np

    rows, slots = len(count), length // 4
    order = np.argsort(rng.uniform(size=(rows, slots)), axis=1)
    size = np.where(np.arange(slots) < np.rint(count)[:, None], rng.uniform(0.2, 0.32, size=(rows, slots)), 0)
    found = np.zeros((rows, length))
    np.put_along_axis(found, order * 4 + int(rng.randint(1, 3)), size, axis=1)
    return found
