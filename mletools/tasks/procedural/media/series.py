"""Short series: 63 to 96 steps a sample, with trend, season, a shift of level, spikes and a scatter that remembers, as CSV.

Factors that a task did not draw vary all the same. `measure` fits trend, season and shift at once: the step of the shift
is the one that explains most, what then remains is the scatter. Futures and gaps are at the
end. Not covered: several shifts, a season that changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...dataset import Asset, Target
from ...table import Column, csv_bytes, fixed
from ..arrays import Array, Rng
from ..scenario import Named, Scenario
from ..world import Category, Dense, Factor, Rendered
from .common import Menu, codes, draw_numbers, least_squares, measured_places, number_values, pick, shuffled

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
    "unit_change": "The column `unit` says in which unit a line is given.",
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


def _menu(scenario: Scenario) -> Menu:
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


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Five or six properties of the series and the shape of its season."""
    menu = _menu(scenario)
    names = shuffled(list(menu), rng)[: 5 + int(rng.randint(2))]
    return [*draw_numbers(menu, names, WHOLE, rows, rng), Category(SHAPE, SHAPES, rng.randint(len(SHAPES), size=rows))]


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
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
        notes=file_notes(scenario, length, mutations),
    )


def file_notes(
    scenario: Scenario, steps: int, mutations: Mapping[str, float], remarks: Sequence[str] = ()
) -> list[str]:
    """What a file holds, in sentences."""
    series = scenario["series"]
    # "visits with food" need no unit.
    unit = "" if series["unit"] in series["meaning"].split() else f" in {series['unit']}"
    held = (
        f"Each series covers {steps} steps, counted from 0 in the column `step`; a step is one {series['step']}. "
        f"`{series['name']}` holds the {series['meaning']}{unit}."
    )
    return [held, *remarks, *(REMARKS[name] for name in MUTATIONS if name in mutations and name in REMARKS)]


def season_shape(shape: str, turns: Array) -> Any:
    """A season between about -1 and 1 whose high point lies at whole `turns`; the same shape as `turns`."""
    place = np.mod(turns, 1.0)
    if shape == "sine":
        return np.cos(2 * np.pi * place)
    if shape == "sawtooth":
        return np.where(place < 0.2, 1 - 10 * place, 2 * (place - 0.2) / 0.8 - 1)
    if shape == "square":
        return np.clip(4 * np.cos(2 * np.pi * place), -1, 1)
    return (np.cos(4 * np.pi * place) + 0.4 * np.cos(2 * np.pi * place)) / 1.2


def _course(sizes: Mapping[str, Array], shape: Array, season: int, length: int, rng: Rng) -> Any:
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
    def of(cls, scenario: Scenario) -> "Scale":
        series = scenario["series"]
        return cls(float(series["low"]), float(series["high"]), int(series["decimals"]))

    @property
    def span(self) -> float:
        return self.high - self.low

    def value(self, share: Array) -> Array:
        """Shares of the range in the series' unit, inside the range, above 0 and with its decimals."""
        inside = np.clip(self.low + share * self.span, max(self.low, 10.0**-self.decimals), self.high)
        return np.round(np.round(inside, 6), self.decimals)

    def share(self, value: Array) -> Array:
        """Values in the series' unit as shares of its range."""
        return np.round((value - self.low) / self.span, 9)


@dataclass(frozen=True)
class Beside:
    """A second column of numbers, (rows, steps) with one decimal: it may go on after the series has ended."""

    name: str
    values: Array


def write_files(
    scenario: Scenario,
    values: Array,
    faults: Mapping[str, float],
    rng: Rng,
    beside: Beside | None = None,
    empty: "Array | None" = None,
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
    values: Array, scale: Scale, faults: Mapping[str, float], beside: Beside | None, rng: Rng
) -> tuple[Array, Array, Array]:
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


def _each(moments: Array, step: Array) -> list[tuple[Array, Array]]:
    return [(row, step) for row in moments]


def _reordered(lines: list[list[str]], faults: Mapping[str, float], rng: Rng) -> list[list[str]]:
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


def read_carefully(contents: Sequence[bytes], scale: Scale, length: int, column: int = 1) -> tuple[Array, Array]:
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


def plain_features(contents: Sequence[bytes], scale: Scale) -> Array:
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


def measure(level: Array, known: Array, season: int) -> dict[str, Array]:
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


def _fit(level: Array, season: int) -> tuple[Array, Array, Array, Array]:
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


def _find_season(means: Array) -> tuple[Array, Array, Array]:
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


# Series whose next steps, or some in the middle, are asked for: each value follows a drawn rule.
#
# The rules are families by which a value follows from the step, earlier values or a second column; courses are shares of
# the scenario's range. Not covered: scenarios with several series a sample.


@dataclass(frozen=True)
class Setting:
    """What a family may build on: `asked` are the steps that are asked for, one after the other, of `steps` in all;
    `plan` is the name of the second column, where a family has one."""

    rows: int
    steps: int
    season: int
    asked: range
    noise: float
    scale: Scale
    unit: str
    plan: str

    def value(self, share: float) -> str:
        """A share of the range as a value, in words."""
        return self._worded(self.scale.low + share * (self.scale.high - self.scale.low))

    def size(self, share: float) -> str:
        """The difference of two shares, in words."""
        return self._worded(share * (self.scale.high - self.scale.low))

    def _worded(self, value: float) -> str:
        return f"{fixed(value, self.scale.decimals + 1)} {self.unit}"


@dataclass(frozen=True)
class Course:
    """A drawn rule and its series, (rows, steps) each.

    `level` holds the noise. `expected` is what one expects who knows the rule, its parameters, and the steps not asked for
    (of threshold_regime, those before).
    `guess(seen, known, plan)` gives features (rows, units, m) of the steps asked for; `seen` (rows, steps) was read from
    the files and counts where `known` (steps,) holds. `plan` is the second column, if the rule has one.
    """

    level: Array
    expected: Array
    words: str
    guess: Callable[[Array, Array, Any], Array]
    plan: "Array | None" = None


def _asked(scenario: Scenario, rows: int, mutations: Mapping[str, float], noise: float, rng: Rng, gap: bool) -> Dense:
    """The next 6 to 10 values are asked for, or those of a gap in the middle, whose cells are empty."""
    length, units = LENGTHS[scenario["series"]["season"]], int(rng.randint(6, 11))
    start = (length - units) // 2 if gap else length
    asked, steps = range(start, start + units), length if gap else length + units
    series, scale = scenario["series"], Scale.of(scenario)
    setting = Setting(rows, steps, series["season"], asked, noise, scale, series["unit"], series["plan"]["name"])
    family = pick(list(FAMILIES), rng)
    course = FAMILIES[family](setting, rng)
    values, at = scale.value(course.level), list(asked)
    empty = np.zeros((rows, length), dtype=bool)
    empty[:, [step for step in at if step < length]] = True
    beside = None if course.plan is None else Beside(setting.plan, course.plan)
    contents = write_files(scenario, values[:, :length], mutations, rng, beside, empty)
    names = [f"{'g' if gap else 'h'}_{number}" for number in range(1, len(at) + 1)]
    cells = {
        name: [fixed(value, scale.decimals) for value in column]
        for name, column in zip(names, values[:, at].T, strict=True)
    }
    expected = scale.low + course.expected[:, at] * scale.span
    known = np.clip(expected, max(scale.low, 10.0**-scale.decimals), scale.high)
    plain = _plain(contents, scale, setting, gap, beside is not None)
    return Dense(
        rendered=Rendered(
            assets=[Asset("series", "the series, a line a step", "series", "csv", contents)],
            notes=file_notes(scenario, length, mutations, _remarks(asked, gap, series["plan"] if beside else None)),
        ),
        target=Target(
            problem="reconstruction" if gap else "forecasting",
            asked=_asked_for(scenario, names, gap),
            columns=[
                Column(name, f"{series['meaning']} at step {step}", series["unit"])
                for name, step in zip(names, at, strict=True)
            ],
            cells=cells,
            y=np.array([[float(cell) for cell in column] for column in cells.values()]).T,
            known=np.round(known, 6),
            words=f"the values of {len(at)} steps, with noise of {noise} of the deviation inside a series",
        ),
        plain=plain,
        right=_right(contents, scale, setting, course, length),
        families=[family],
        rule=course.words,
    )


def _asked_for(scenario: Scenario, names: Sequence[str], gap: bool) -> str:
    series, steps = scenario["series"], f"{len(names)} {scenario['series']['step']}s"
    columns = f"`{names[0]}` to `{names[-1]}`"
    if gap:
        return (
            f"Fill the gap in each series: predict the {series['meaning']} in the {steps} that are missing, {columns}."
        )
    return f"For each {scenario['sample']['one']}, forecast the {series['meaning']} over the next {steps}, {columns}."


def _remarks(asked: range, gap: bool, plan: Named | None) -> list[str]:
    where = "are empty in the files" if gap else "follow"
    remarks = [f"Wanted are the true values of steps {asked[0]} to {asked[-1]}, which {where}."]
    if plan:
        known = "the missing steps, too" if gap else "the steps to come, too"
        remarks.append(f"`{plan['name']}` is the {plan['meaning']} in percent; it is known for {known}.")
    return remarks


def _right(contents: Sequence[bytes], scale: Scale, setting: Setting, course: Course, shown: int) -> Array:
    known = np.ones(setting.steps, dtype=bool)
    known[list(setting.asked)] = False
    seen = np.zeros((setting.rows, setting.steps))
    seen[:, :shown] = scale.share(read_carefully(contents, scale, shown)[0])
    plan = None if course.plan is None else read_carefully(contents, scale, setting.steps, column=2)[0]
    mean = seen[:, known].mean(axis=1)
    found = course.guess(seen, known, plan)
    own = np.broadcast_to(mean[:, None, None], (*found.shape[:2], 1))
    return np.round(np.concatenate([found, own], axis=2), 4)


def _plain(contents: Sequence[bytes], scale: Scale, setting: Setting, gap: bool, planned: bool) -> Array:
    """(rows, units, 9): position, the values beside, mean, spread, least, largest, one season before and after.

    By the place of a line in the order of its steps, whether it is doubled or not; values far out of the
    range are cut off. A second column at the same line is the tenth.
    """
    units, season = len(setting.asked), setting.season
    found = []
    for content in contents:
        lines = sorted(read_cells(content), key=lambda line: float(line[0]))
        values = [read_value(line) for line in lines]
        share = np.clip(scale.share(np.array(values)), -0.5, 1.5)
        holes, known = np.flatnonzero(np.isnan(share)), share[~np.isnan(share)]
        start = int(holes[0]) if len(holes) else len(lines)
        usual = float(np.mean(known))
        around = share[start - 1 : start], share[start + units : start + units + 1] if gap else share[:0]
        before = float(around[0][0]) if len(around[0]) else usual
        after = float(around[1][0]) if len(around[1]) else before
        own = [before, after, usual, float(np.std(known)), float(known.min()), float(known.max())]
        for unit in range(units):
            sides = [start + unit - season * (1 + unit // season), start + unit + season]
            row = [float(unit), *own, *(share[at] if 0 <= at < len(share) else usual for at in sides)]
            if planned:
                row.append(float(lines[min(start + unit, len(lines) - 1)][2]))
            found.append([usual if np.isnan(each) else each for each in row])
    return np.round(np.array(found).reshape(len(contents), units, -1), 6)


def _fitted(seen: Array, known: Array, design: Array, ridge: float = 1e-3) -> Any:
    """(rows, steps): least squares of `design` (rows or 1, steps, p) on the known steps, at all steps."""
    design = np.broadcast_to(design, (len(seen), *design.shape[1:]))
    return np.einsum("rti,ri->rt", design, least_squares(design, seen, known, ridge))


def _phases(setting: Setting) -> Array:
    """(1, steps, season): 1 in the column of a step's phase."""
    return np.eye(setting.season)[np.arange(setting.steps) % setting.season][None]


def _line(setting: Setting) -> Array:
    """(1, steps, 1): from -0.5 at the first step to 0.5 at the last one."""
    return np.linspace(-0.5, 0.5, setting.steps)[None, :, None]


def _season(setting: Setting, rng: Rng) -> tuple[str, Array]:
    """(its shape in words, (rows, steps) between -1 and 1): one shape for all, a high point of its own for each row."""
    shape = pick(SHAPES, rng)
    turns = np.arange(setting.steps) / setting.season - rng.uniform(size=(setting.rows, 1))
    return f"a {shape} season of {setting.season} steps", season_shape(shape, turns)


def _noisy(signal: Array, setting: Setting, rng: Rng) -> Any:
    """`signal` with noise of `setting.noise` of its spread inside a series."""
    spread = np.round(signal.std(axis=1).mean(), 9)
    return signal + setting.noise * spread * rng.normal(size=signal.shape)


def _picked(setting: Setting, *features: Array) -> Array:
    """Features (rows, steps) at the steps asked for: (rows, units, m)."""
    at = list(setting.asked)
    return np.stack([np.broadcast_to(each, (setting.rows, setting.steps))[:, at] for each in features], axis=2)


def _before(values: Array, lag: int) -> Array:
    """`values` (rows, steps) as they were `lag` steps before, later ones where it is negative; 0.5 where there are none."""
    found = np.full_like(values, 0.5)
    if lag >= 0:
        found[:, lag:] = values[:, : values.shape[1] - lag]
    else:
        found[:, :lag] = values[:, -lag:]
    return found


def _seasonal(setting: Setting, rng: Rng) -> Course:
    words, season = _season(setting, rng)
    middle, rise = rng.uniform(0.4, 0.6, size=(setting.rows, 1)), rng.uniform(-0.3, 0.3, size=(setting.rows, 1))
    expected = middle + rise * _line(setting)[:, :, 0] + rng.uniform(0.08, 0.2, size=(setting.rows, 1)) * season

    def guess(seen: Array, known: Array, plan: Array) -> Array:
        trend, phases = _line(setting), _phases(setting)
        fit = _fitted(seen, known, np.concatenate([trend, phases], axis=2))
        return _picked(setting, fit, _fitted(seen, known, phases), _last_season(seen, setting))

    return Course(_noisy(expected, setting, rng), expected, f"a straight trend and {words}", guess)


def _last_season(seen: Array, setting: Setting) -> Array:
    """The value (rows, steps) of the same phase, as many seasons before as it takes to be before the steps asked for."""
    back = -(-len(setting.asked) // setting.season) * setting.season
    return _before(seen, back)


def _swing(setting: Setting, rng: Rng) -> Course:
    """The season is the larger the higher, or the lower, the trend is."""
    words, season = _season(setting, rng)
    up = bool(rng.randint(2))
    middle, rise = rng.uniform(0.42, 0.58, size=(setting.rows, 1)), rng.uniform(-0.5, 0.5, size=(setting.rows, 1))
    line = _line(setting)[:, :, 0]

    def swing(level: Array) -> Array:
        return 0.2 + 1.6 * np.clip(level if up else 1 - level, 0, 1)

    level = middle + rise * line
    expected = level + rng.uniform(0.1, 0.18, size=(setting.rows, 1)) * swing(level) * season

    def guess(seen: Array, known: Array, plan: Array) -> Array:
        design = np.concatenate([_line(setting), _phases(setting)], axis=2)
        flat = _fitted(seen, known, np.concatenate([np.ones((1, setting.steps, 1)), _line(setting)], axis=2))
        weighed = np.concatenate(
            [design[:, :, :1] + 0 * flat[:, :, None], swing(flat)[:, :, None] * _phases(setting)], axis=2
        )
        weighed = np.concatenate([np.ones((setting.rows, setting.steps, 1)), weighed], axis=2)
        return _picked(setting, _fitted(seen, known, weighed), _fitted(seen, known, design), flat, swing(flat))

    words = f"a straight trend and {words} whose size is in proportion to 0.2 + 1.6 times the place of the trend "
    words += f"{'above the lower' if up else 'below the upper'} end of the range"
    return Course(_noisy(expected, setting, rng), expected, words, guess)


def _lags(setting: Setting, rng: Rng) -> Course:
    """Deviations come back after a lag and after twice the lag, the first time perhaps upturned."""
    rows, steps = setting.rows, setting.steps
    lag = _lag(setting, rng)
    first, second = (
        round(float(rng.choice([-1, 1]) * rng.uniform(0.4, 0.7)), 2),
        round(float(rng.uniform(0.25, 0.4)), 2),
    )
    # At the edge of what dies out, or noise would be all that is left at the end.
    second = round(min(second, 0.97 - abs(first)), 2)
    middle = rng.uniform(0.4, 0.6, size=(rows, 1))
    turns = np.arange(2 * lag) / rng.uniform(6, 20, size=(rows, 1)) + rng.uniform(size=(rows, 1))
    away = np.zeros((rows, steps))
    away[:, : 2 * lag] = 0.2 * np.sin(2 * np.pi * turns) + 0.1 * rng.normal(size=(rows, 2 * lag))
    noise = setting.noise * 0.15 * rng.normal(size=(rows, steps))
    for at in range(2 * lag, steps):
        away[:, at] = first * away[:, at - lag] + second * away[:, at - 2 * lag] + noise[:, at]

    def expects(away: Array) -> Array:
        past = first * _before(away, lag) + second * _before(away, 2 * lag)
        if setting.asked[-1] == steps - 1:
            return past
        # In a gap the values after it tell as much: least squares of the three equations that hold a value.
        late, later = _before(away, -lag), _before(away, -2 * lag)
        after = first * (late - second * _before(away, lag)) + second * (later - first * late)
        return (past + after) / (1 + first**2 + second**2)

    def guess(seen: Array, known: Array, plan: Array) -> Array:
        mean = seen[:, known].mean(axis=1, keepdims=True)
        return _picked(setting, mean + expects(seen - mean), _before(seen, lag), _before(seen, 2 * lag), mean)

    words = (
        f"a value's distance from its series' mean is {first} times that {lag} steps before and {second} times that "
    )
    return Course(middle + away, middle + expects(away), words + f"{2 * lag} steps before", guess)


def _lag(setting: Setting, rng: Rng) -> int:
    """A lag that reaches over all steps asked for and is no season."""
    lags = [lag for lag in range(len(setting.asked), len(setting.asked) + 4) if lag % setting.season]
    return int(pick(lags, rng))


def _regime(setting: Setting, rng: Rng) -> Course:
    """A level that switches once a value some steps before passed a threshold."""
    rows, steps = setting.rows, setting.steps
    words, season = _season(setting, rng)
    lag, cut = _lag(setting, rng), round(float(rng.uniform(0.45, 0.55)), 3)
    jump = round(float(rng.choice([-1, 1]) * rng.uniform(0.1, 0.16)), 3)
    base = rng.uniform(0.44, 0.56, size=(rows, 1)) + rng.uniform(0.06, 0.14, size=(rows, 1)) * season
    noise = setting.noise * 0.15 * rng.normal(size=(rows, steps))
    level = base + noise + jump * rng.choice([-1, 1], size=(rows, steps))
    for at in range(lag, steps):
        level[:, at] = base[:, at] + np.where(level[:, at - lag] > cut, jump, -jump) + noise[:, at]

    def guess(seen: Array, known: Array, plan: Array) -> Array:
        side = np.where(_before(seen, lag) > cut, jump, -jump)
        phases = _fitted(seen - side, known & (np.arange(steps) >= lag), _phases(setting))
        return _picked(setting, phases + side, side, _before(seen, lag), phases)

    expected = base + np.where(_before(level, lag) > cut, jump, -jump)
    words = f"{words}; {setting.size(abs(jump))} {'more' if jump > 0 else 'less'} where the value {lag} steps before was above "
    return Course(level, expected, words + f"{setting.value(cut)}, else {'less' if jump > 0 else 'more'}", guess)


def _driver(setting: Setting, rng: Rng) -> Course:
    """A second column, known ahead, acts some steps later."""
    rows, steps = setting.rows, setting.steps
    words, season = _season(setting, rng)
    lag, bent = int(rng.randint(2, 9)), bool(rng.randint(2))
    force = round(float(rng.choice([-1, 1]) * rng.uniform(0.3, 0.45)), 3)
    plan = np.round(100 * _planned(rows, steps, rng), 1)

    def acts(plan: Array) -> Array:
        earlier = _before(np.asarray(plan) / 100, lag)
        return force * (2 * np.maximum(earlier - 0.5, 0) if bent else earlier)

    base = rng.uniform(0.4, 0.6, size=(rows, 1)) - force / (4 if bent else 2)
    expected = base + rng.uniform(0.08, 0.16, size=(rows, 1)) * season + acts(plan)

    def guess(seen: Array, known: Array, plan: Array) -> Array:
        phases = _fitted(seen - acts(plan), known & (np.arange(steps) >= lag), _phases(setting))
        return _picked(setting, phases + acts(plan), acts(plan), phases, _before(plan, lag))

    words = f"{words}, and {setting.plan} of {lag} steps before: over its range {'more' if force > 0 else 'less'} by "
    words += setting.size(abs(force)) + (", but only its part above 50" if bent else "")
    return Course(_noisy(expected, setting, rng), expected, words, guess, plan)


def _planned(rows: int, steps: int, rng: Rng) -> Array:
    """(rows, steps) between 0 and 1: levels that are kept for 2 to 7 steps, a little uneven."""
    change = rng.uniform(size=(rows, steps)) < 0.3
    block = np.cumsum(change, axis=1, dtype=int)
    levels = np.take_along_axis(rng.uniform(0.05, 0.95, size=(rows, steps + 1)), block, axis=1)
    return np.clip(levels + 0.03 * rng.normal(size=levels.shape), 0, 1)


FAMILIES: dict[str, Callable[[Setting, Rng], Course]] = {
    "seasonal_trend": _seasonal,
    "level_dependent_season": _swing,
    "lags": _lags,
    "threshold_regime": _regime,
    "driver": _driver,
}


DENSE = {"forecasting": partial(_asked, gap=False), "reconstruction": partial(_asked, gap=True)}
