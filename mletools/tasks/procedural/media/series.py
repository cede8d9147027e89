"""Short series: 63 to 96 steps a sample, with trend, season, a shift of level, spikes and a scatter that remembers, as CSV.

Factors that a task did not draw vary all the same. `measure` fits trend, season and shift at once: the step of the shift
is the one that explains most, what then remains is the scatter. Not covered: several shifts, a season that changes;
futures and gaps (series_asked).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...table import csv_bytes, fixed
from ..world import Asset, Category, Facts, Number, Rendered
from .common import Menu, codes, draw_numbers, measured_places, number_values, of_module, shuffled

MUTATIONS = {
    "missing_steps": "lines are left out",
    "outliers": "some values are ten times too large",
    "drift": "the sensor drifts slowly, in each series in its own way",
    "time_jitter": "the steps are not evenly spaced",
    "rounding": "values are rounded coarsely",
    "unit_change": "from some step on a series is given in thousandths of its unit, which a further column says",
    "duplicate_steps": "some steps have two lines, of which the later one counts",
    "shuffled_steps": "the lines of a series are in no order",
}
REMARKS = {
    "missing_steps": "Not every step was recorded.",
    "outliers": "Implausible readings were left in.",
    "time_jitter": "The moment of a reading is given in steps, which are not always whole.",
    "unit_change": "The column unit says in which unit a line is given.",
    "duplicate_steps": "Where a moment has two lines, the later line corrects the earlier one.",
    "shuffled_steps": "The lines are not in the order of time.",
}
MILLI = "1/1000"
# Steps of a series by the length of its season: whole seasons, three at least.
LENGTHS = {7: 63, 12: 72, 24: 96}
# The latest high point of a season, as a share of it: a place must not run into itself.
LAST_PHASE = 0.75
# Factors measured in the series' own unit, as shares of its range; the others are in steps or have no unit.
IN_RANGE = {
    "series_trend": (-0.24, 0.24),
    "series_season_size": (0.02, 0.14),
    "series_shift_size": (0.06, 0.24),
    "series_scatter": (0.008, 0.045),
}
SHAPE = "series_season_shape"
SHAPES = ("sine", "sawtooth", "square", "twin")
WHOLE = {"series_spike_count"}


DENSE = {
    "forecasting": of_module("series_asked", "forecasting"),
    "reconstruction": of_module("series_asked", "reconstruction"),
}


def _menu(scenario: Mapping[str, Any]) -> Menu:
    series = scenario["series"]
    span, season = series["high"] - series["low"], series["season"]
    length, decimals = LENGTHS[season], series["decimals"] + 1
    return {
        **{name: (series["unit"], low * span, high * span, decimals) for name, (low, high) in IN_RANGE.items()},
        "series_season_phase": ("steps from the start of a season to its high point", 0, LAST_PHASE * season, 1),
        "series_shift_step": ("steps before the level shifts", 0.15 * length, 0.85 * length, 0),
        "series_memory": ("of the deviation of one step is left in the next", 0.0, 0.9, 2),
        "series_spike_count": ("spikes", 0, 6, 0),
        "series_late_scatter": ("doublings of the scatter from the first half to the second", -1.8, 1.8, 2),
    }


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six properties of the series and the shape of its season."""
    menu = _menu(scenario)
    names = shuffled(list(menu), rng)[: 5 + int(rng.randint(2))]
    return [*draw_numbers(menu, names, WHOLE, rows, rng), Category(SHAPE, SHAPES, rng.randint(len(SHAPES), size=rows))]


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """A CSV file a sample, blemished by `mutations` (name: strength between 0 and 1)."""
    scale, season = Scale.of(scenario), scenario["series"]["season"]
    values, length = number_values(_menu(scenario), factors, WHOLE, rng), LENGTHS[season]
    shares = {name: value / (scale.span if name in IN_RANGE else 1) for name, value in values.items()}
    level = _course(shares, codes(factors, SHAPE, SHAPES, rng), season, length, rng)
    contents = write_files(scenario, scale.value(level), mutations, rng)
    read, own = read_carefully(contents, scale, length)
    measured = measure(scale.share(read), own, season)
    measured |= {name: measured[name] * scale.span for name in IN_RANGE}
    return Rendered(
        assets=[Asset("series", "the series, a line a step", "series", "csv", contents)],
        plain=plain_features(contents, scale),
        measured=measured_places(factors, measured),
        facts=file_facts(scenario, length, mutations),
    )


def file_facts(
    scenario: Mapping[str, Any], steps: int, mutations: Mapping[str, float], remarks: Sequence[str] = ()
) -> Facts:
    """What a file holds."""
    series = scenario["series"]
    words = (
        "Each series covers {steps} steps, counted from 0; a step is one {step}. {column} is the {meaning} in {unit}."
    )
    values = {"steps": steps, "step": series["step"], "column": series["name"]}
    values |= {"meaning": series["meaning"], "unit": series["unit"]}
    faults = [REMARKS[name] for name in MUTATIONS if name in mutations and name in REMARKS]
    return Facts("series", words, values, [*remarks, *faults])


def season_shape(shape: str, turns: Any) -> Any:
    """A season between about -1 and 1 whose high point lies at whole `turns`; the same shape as `turns`."""
    place = np.mod(turns, 1.0)
    if shape == "sine":
        return np.cos(2 * np.pi * place)
    if shape == "sawtooth":
        return np.where(place < 0.2, 1 - 10 * place, 2 * (place - 0.2) / 0.8 - 1)
    if shape == "square":
        return np.clip(4 * np.cos(2 * np.pi * place), -1, 1)
    return (np.cos(4 * np.pi * place) + 0.4 * np.cos(2 * np.pi * place)) / 1.2


def _course(sizes: Mapping[str, Any], shape: Any, season: int, length: int, rng: Any) -> Any:
    """(rows, length) as shares of the range, from the factors' sizes (shares, steps, numbers) and the codes of the shape."""
    rows, step = len(shape), np.arange(length)
    size = {name: value[:, None] for name, value in sizes.items()}
    shifted = step >= np.rint(size["series_shift_step"])
    turns = (step - size["series_season_phase"]) / season
    level = rng.uniform(0.41, 0.49, size=(rows, 1)) + size["series_trend"] * (step / (length - 1) - 0.5)
    level = level + size["series_shift_size"] * (shifted - np.mean(shifted, axis=1, keepdims=True))
    level = level + size["series_season_size"] * np.choose(
        shape[:, None], [season_shape(name, turns) for name in SHAPES]
    )
    # Scatter of deviation 1, of which each step keeps a share.
    memory, scatter = sizes["series_memory"], rng.normal(size=(rows, length))
    for at in range(1, length):
        scatter[:, at] = memory * scatter[:, at - 1] + np.sqrt(1 - memory**2) * scatter[:, at]
    late = 2 ** (size["series_late_scatter"] * np.where(step >= length // 2, 0.5, -0.5))
    level = level + size["series_scatter"] * late * scatter
    # Spikes of one step, four steps apart.
    count, start = np.rint(sizes["series_spike_count"]).astype(int), int(rng.randint(1, 3))
    for row, values in enumerate(level):
        values[rng.permutation(length // 4)[: count[row]] * 4 + start] += rng.uniform(0.2, 0.32, size=count[row])
    return np.round(level, 9)


@dataclass(frozen=True)
class Scale:
    """The range of a series in its unit, and the decimals of its values."""

    low: float
    high: float
    decimals: int

    @classmethod
    def of(cls, scenario: Mapping[str, Any]) -> "Scale":
        series = scenario["series"]
        return cls(float(series["low"]), float(series["high"]), int(series["decimals"]))

    @property
    def span(self) -> float:
        return self.high - self.low

    def value(self, share: Any) -> Any:
        """Shares of the range in the series' unit, inside the range, above 0 and with its decimals."""
        inside = np.clip(self.low + share * self.span, max(self.low, 10.0**-self.decimals), self.high)
        return np.round(np.round(inside, 6), self.decimals)

    def share(self, value: Any) -> Any:
        """Values in the series' unit as shares of its range."""
        return np.round((value - self.low) / self.span, 9)


@dataclass(frozen=True)
class Beside:
    """A second column of numbers, (rows, steps) with one decimal: it may go on after the series has ended."""

    name: str
    values: Any


def write_files(
    scenario: Mapping[str, Any],
    values: Any,
    faults: Mapping[str, float],
    rng: Any,
    beside: Beside | None = None,
    empty: Any = None,
) -> list[bytes]:
    """A file a row of `values` (rows, steps), with the faults: names and unit are the scenario's.

    Cells where `empty` (rows, steps) holds are left empty, and so are the steps that only `beside` covers.
    """
    (rows, length), scale, unit = values.shape, Scale.of(scenario), scenario["series"]["unit"]
    gone = np.zeros(values.shape, dtype=bool) if empty is None else empty
    values, moments, other = _measured_badly(values, scale, faults, beside, rng)
    moments = np.where(gone, np.arange(length), moments)
    share, changes = faults.get("missing_steps", 0.0), "unit_change" in faults
    left_out = (rng.uniform(size=values.shape) < (0.04 + 0.16 * share if share else 0.0)) & ~gone
    milli = np.zeros(values.shape, dtype=bool)
    if changes:
        changed = rng.uniform(size=(rows, 1)) < 0.3 + 0.6 * faults["unit_change"]
        milli = (np.arange(length) >= rng.randint(length // 5, length, size=(rows, 1))) & changed
    header = ["step", scenario["series"]["name"], *([beside.name] if beside else []), *(["unit"] if changes else [])]
    contents = []
    for row in range(rows):
        lines = []
        for at in np.flatnonzero(~left_out[row]).tolist():
            small, moment = milli[row, at], moments[row, at]
            shown = fixed(values[row, at] * (1000 if small else 1), max(0, scale.decimals - 3 * int(small)))
            line = [str(int(moment)) if moment == int(moment) else fixed(moment, 2), "" if gone[row, at] else shown]
            line += [fixed(other[row, at], 1)] if beside else []
            lines.append(line + ([f"{MILLI} {unit}" if small else unit] if changes else []))
        lines = _reordered(lines, faults, rng)
        for at in range(length, other.shape[1] if beside else 0):
            lines.append([str(at), "", fixed(other[row, at], 1), *([unit] if changes else [])])
        contents.append(csv_bytes(header, [list(column) for column in zip(*lines, strict=True)]))
    return contents


def _measured_badly(
    values: Any, scale: Scale, faults: Mapping[str, float], beside: Beside | None, rng: Any
) -> tuple[Any, Any, Any]:
    """(values, their moments in steps, the second column), after the faults of the sensor."""
    rows, length = values.shape
    step, least = np.arange(length, dtype=float), 10.0**-scale.decimals
    moments, other = np.tile(step, (rows, 1)), np.array(beside.values) if beside else np.zeros((rows, 0))
    if "time_jitter" in faults:
        moments = np.clip(step + faults["time_jitter"] * rng.uniform(-0.4, 0.4, size=values.shape), 0, length - 1)
        moments = np.round(moments, 2)
        values = np.stack([np.interp(*pair, own) for pair, own in zip(_each(moments, step), values, strict=True)])
        if beside:
            planned = zip(_each(moments, step), other[:, :length], strict=True)
            other[:, :length] = [np.interp(*pair, own) for pair, own in planned]
    if "drift" in faults:
        bend = rng.uniform(0.5, 2.0, size=(rows, 1))
        size = faults["drift"] * scale.span * rng.uniform(-0.25, 0.25, size=(rows, 1))
        values = values + size * (step / (length - 1)) ** bend
    if "rounding" in faults:
        coarse = max(least, round(scale.span * (0.03 + 0.07 * faults["rounding"]), scale.decimals))
        values = np.rint(np.round(values / coarse, 6)) * coarse
    if "outliers" in faults:
        values = np.where(rng.uniform(size=values.shape) < 0.01 + 0.04 * faults["outliers"], 10 * values, values)
    return np.round(np.maximum(np.round(values, 6), least), scale.decimals), moments, other


def _each(moments: Any, step: Any) -> list[tuple[Any, Any]]:
    return [(row, step) for row in moments]


def _reordered(lines: list[list[str]], faults: Mapping[str, float], rng: Any) -> list[list[str]]:
    """The lines shuffled, and some preceded by a wrong one, as the faults say."""
    if "shuffled_steps" in faults:
        # A few swaps where the fault is weak, near to a full shuffle where it is strong.
        for _ in range(int(len(lines) * faults["shuffled_steps"])):
            one, two = rng.randint(len(lines), size=2)
            lines[one], lines[two] = lines[two], lines[one]
    if "duplicate_steps" not in faults:
        return lines
    doubled: list[list[str]] = []
    for line in lines:
        if rng.uniform() < 0.04 + 0.16 * faults["duplicate_steps"]:
            wrong = lines[rng.randint(len(lines))]
            doubled += [[line[0], wrong[1], *line[2:]]] if line[1] and wrong[1] else []
        doubled.append(line)
    return doubled


def read_cells(content: bytes) -> list[list[str]]:
    """The cells of a file by line, without the header."""
    return [line.split(",") for line in content.decode("utf-8").split("\n")[1:-1]]


def read_value(line: Sequence[str]) -> float:
    """The value of a line in the series' usual unit; NaN where it is empty."""
    return float(line[1]) / (1000 if line[-1].startswith(MILLI) else 1) if line[1] else float("nan")


def read_carefully(contents: Sequence[bytes], scale: Scale, length: int, column: int = 1) -> tuple[Any, Any]:
    """Column `column` of each file by step, in its usual unit, corrected, with holes bridged straight: (rows, length).

    Beside it, of the same shape, whether a step has a line of its own. A value further outside the range than half of
    it is a hole.
    """
    values, own = np.zeros((len(contents), length)), np.zeros((len(contents), length), dtype=bool)
    for row, content in enumerate(contents):
        lines = [line for line in read_cells(content) if line[column]]
        known = {float(line[0]): read_value(line) if column == 1 else float(line[column]) for line in lines}
        near = (scale.low - scale.span / 2, scale.high + scale.span / 2) if column == 1 else (-np.inf, np.inf)
        known = {moment: value for moment, value in known.items() if near[0] <= value <= near[1]}
        moments = sorted(known)
        values[row] = np.interp(np.arange(length), moments, [known[moment] for moment in moments])
        own[row, [round(moment) for moment in moments if moment < length]] = True
    return np.round(values, 6), own


def plain_features(contents: Sequence[bytes], scale: Scale) -> Any:
    """(rows, 27) of values in the order of the lines, as shares of the range, cut off far outside of it.

    Count, mean, spread, ends, quantiles, changes; means of six stretches; spread and usual change of halves.
    """
    rows = []
    for content in contents:
        values = np.array([read_value(line) for line in read_cells(content) if line[1]])
        share = np.clip(scale.share(values), -0.5, 1.5)
        change = np.abs(np.diff(share))
        ends = [share[0], share[-1], share[:5].mean(), share[-5:].mean()]
        spread = [share.mean(), share.std(), share.min(), share.max(), change.mean(), change.max(), np.median(change)]
        stretches = [part.mean() for part in np.array_split(share, 6)]
        halves = [part.std() for part in np.array_split(share, 2)]
        halves += [np.median(part) for part in np.array_split(change, 2)]
        quantiles = np.quantile(share, (0.1, 0.25, 0.5, 0.75, 0.9))
        rows.append([len(share), *spread, *ends, *quantiles, *stretches, *halves])
    return np.round(np.array(rows), 6)


# High points of the season that are tried, a season's share apart.
PHASES = 96
# A spike stands out of its neighbours by this share of the range.
SPIKE = 0.11


def measure(level: Any, known: Any, season: int) -> dict[str, Any]:
    """Each factor, (rows,): sizes as shares of the range, steps, numbers, codes of the shape.

    `level` (rows, steps) are shares of the range, of which those where `known` (rows, steps) does not hold are a guess,
    made better by fitting again.
    """
    padded, length = np.pad(level, ((0, 0), (1, 1)), mode="reflect"), level.shape[1]
    before, after = padded[:, :-2], padded[:, 2:]
    # One neighbour of a fall of the season is low; both neighbours of a spike are.
    spike = known & (np.round(level - np.maximum(before, after), 6) > SPIKE)
    level = np.where(spike, (before + after) / 2, level)
    for _ in range(3):
        weights, size, cut, fit = _fit(level, season)
        level = np.where(known, level, fit)
    rest, half = np.where(known, level - fit, 0), np.arange(length) < length // 2
    # A fit of this many means leaves less than the scatter there was.
    free = np.sqrt(length / (length - season - 3))
    spreads = [np.sqrt((rest[:, part] ** 2).sum(axis=1) / known[:, part].sum(axis=1)) for part in (half, ~half)]
    early, late = np.round(np.array(spreads) * free, 9) + 1e-6
    pairs = (known[:, 1:] & known[:, :-1]).sum(axis=1)
    memory = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / pairs / ((rest**2).sum(axis=1) / known.sum(axis=1) + 1e-9)
    shape, phase, height = _find_season(weights[:, 1:])
    return {
        "series_trend": weights[:, 0],
        "series_season_size": height,
        "series_shift_size": size,
        "series_scatter": np.sqrt(early * late),
        "series_season_phase": phase * season,
        "series_shift_step": cut.astype(float),
        # The fit also draws the memory of what is left down.
        "series_memory": memory + (1 + season / 3) / length,
        "series_spike_count": spike.sum(axis=1).astype(float),
        "series_late_scatter": np.log2(late / early),
        SHAPE: shape,
    }


def _fit(level: Any, season: int) -> tuple[Any, Any, Any, Any]:
    """(rise and means of the season (rows, 1 + season), size of the shift, its step, the fitted series) of each row."""
    length = level.shape[1]
    step = np.arange(length)
    # Whole seasons keep these columns far from depending on each other.
    base = np.column_stack([step / (length - 1) - 0.5, np.eye(season)[step % season]])
    solve = np.linalg.pinv(base)
    cuts = np.arange(int(0.12 * length), int(0.88 * length) + 1)
    shifted = (step >= cuts[:, None]).astype(float)
    rest, shifted_rest = (values - values @ solve.T @ base.T for values in (level, shifted))
    along, square = rest @ shifted_rest.T, (shifted_rest**2).sum(axis=1)
    best = np.round(along**2 / square, 8).argmax(axis=1)
    size = along[np.arange(len(level)), best] / square[best]
    jump = size[:, None] * shifted[best]
    weights = (level - jump) @ solve.T
    return weights, size, cuts[best], jump + weights @ base.T


def _find_season(means: Any) -> tuple[Any, Any, Any]:
    """(codes of the shape, high point as a share of a season, size) of the means (rows, season) of its phases."""
    season = means.shape[1]
    means = means - means.mean(axis=1, keepdims=True)
    turns = np.arange(season) / season - np.arange(PHASES)[:, None] / PHASES
    tried = np.concatenate([season_shape(shape, turns) for shape in SHAPES])
    tried = tried - tried.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(tried, axis=1)
    likeness = np.round(means @ tried.T / norms, 7)
    # High points beyond the last one that is drawn would be another shape's.
    likeness[:, np.arange(len(tried)) % PHASES > 0.78 * PHASES] = -1
    best = likeness.argmax(axis=1)
    return best // PHASES, best % PHASES / PHASES, likeness[np.arange(len(means)), best] / norms[best]
