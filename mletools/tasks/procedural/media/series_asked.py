"""Series whose next steps, or some in the middle, are asked for: each value follows a drawn rule.

The rules are families by which a value follows from the step, earlier values or a second column; courses are shares of
the scenario's range. Not covered: scenarios with several series a sample.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...table import Column, fixed
from ..world import Asset, Dense, Rendered, Target
from .common import pick
from .series import (
    LENGTHS,
    SHAPES,
    Beside,
    Scale,
    file_facts,
    read_carefully,
    read_cells,
    read_value,
    season_shape,
    write_files,
)

PLAN = "plan_percent"


@dataclass(frozen=True)
class Setting:
    """What a family may build on: `asked` are the steps that are asked for, one after the other, of `steps` in all."""

    rows: int
    steps: int
    season: int
    asked: range
    noise: float
    scale: Scale
    unit: str

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

    level: Any
    expected: Any
    words: str
    guess: Callable[[Any, Any, Any], Any]
    plan: Any = None


def forecasting(
    scenario: Mapping[str, Any], rows: int, mutations: Mapping[str, float], noise: float, rng: Any
) -> Dense:
    """The file ends at some step; the next 6 to 10 values are asked for."""
    length = LENGTHS[scenario["series"]["season"]]
    units = int(rng.randint(6, 11))
    asked = range(length, length + units)
    return _asked(scenario, rows, mutations, noise, rng, asked, length + units, "h")


def reconstruction(
    scenario: Mapping[str, Any], rows: int, mutations: Mapping[str, float], noise: float, rng: Any
) -> Dense:
    """The cells of 6 to 10 steps in the middle are empty, and asked for."""
    length = LENGTHS[scenario["series"]["season"]]
    units = int(rng.randint(6, 11))
    start = (length - units) // 2
    return _asked(scenario, rows, mutations, noise, rng, range(start, start + units), length, "g")


def _asked(
    scenario: Mapping[str, Any],
    rows: int,
    mutations: Mapping[str, float],
    noise: float,
    rng: Any,
    asked: range,
    steps: int,
    letter: str,
) -> Dense:
    series, scale = scenario["series"], Scale.of(scenario)
    setting = Setting(rows, steps, series["season"], asked, noise, scale, series["unit"])
    family = pick(list(FAMILIES), rng)
    course = FAMILIES[family](setting, rng)
    values, at = scale.value(course.level), list(asked)
    shown = steps if letter == "g" else asked[0]
    empty = np.zeros((rows, shown), dtype=bool)
    empty[:, [step for step in at if step < shown]] = True
    beside = None if course.plan is None else Beside(PLAN, course.plan)
    contents = write_files(scenario, values[:, :shown], mutations, rng, beside, empty)
    names = [f"{letter}_{number}" for number in range(1, len(at) + 1)]
    cells = {
        name: [fixed(value, scale.decimals) for value in column]
        for name, column in zip(names, values[:, at].T, strict=True)
    }
    expected = scale.low + course.expected[:, at] * scale.span
    known = np.clip(expected, max(scale.low, 10.0**-scale.decimals), scale.high)
    plain = _plain(contents, scale, setting, letter, beside is not None)
    return Dense(
        rendered=Rendered(
            assets=[Asset("series", "the series, a line a step", "series", "csv", contents)],
            facts=file_facts(scenario, shown, mutations, _remarks(asked, shown, beside)),
        ),
        target=Target(
            problem="reconstruction" if letter == "g" else "forecasting",
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
        right=_right(contents, scale, setting, course, shown),
        families=[family],
        rule=course.words,
    )


def _remarks(asked: range, shown: int, beside: Beside | None) -> list[str]:
    inside = asked[0] < shown
    where = "are empty in the files" if inside else "follow"
    remarks = [f"Wanted are the true values of steps {asked[0]} to {asked[-1]}, which {where}."]
    if beside:
        remarks.append(f"{beside.name} is planned ahead{'' if inside else ' and known for the steps wanted'}.")
    return remarks


def _right(contents: Sequence[bytes], scale: Scale, setting: Setting, course: Course, shown: int) -> Any:
    known = np.ones(setting.steps, dtype=bool)
    known[list(setting.asked)] = False
    seen = np.zeros((setting.rows, setting.steps))
    seen[:, :shown] = scale.share(read_carefully(contents, scale, shown)[0])
    plan = None if course.plan is None else read_carefully(contents, scale, setting.steps, column=2)[0]
    mean = seen[:, known].mean(axis=1)
    found = course.guess(seen, known, plan)
    own = np.broadcast_to(mean[:, None, None], (*found.shape[:2], 1))
    return np.round(np.concatenate([found, own], axis=2), 4)


def _plain(contents: Sequence[bytes], scale: Scale, setting: Setting, letter: str, planned: bool) -> Any:
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
        around = share[start - 1 : start], share[start + units : start + units + 1] if letter == "g" else share[:0]
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


def _fitted(seen: Any, known: Any, design: Any, ridge: float = 1e-3) -> Any:
    """(rows, steps): least squares of `design` (rows or 1, steps, p) on the known steps, at all steps."""
    design = np.broadcast_to(design, (len(seen), *design.shape[1:]))
    weighed = design * known[None, :, None]
    square = np.einsum("rti,rtj->rij", weighed, design) + ridge * np.eye(design.shape[2])
    wanted = np.einsum("rti,rt->ri", weighed, seen)
    return np.einsum("rti,ri->rt", design, np.linalg.solve(square, wanted[:, :, None])[:, :, 0])


def _phases(setting: Setting) -> Any:
    """(1, steps, season): 1 in the column of a step's phase."""
    return np.eye(setting.season)[np.arange(setting.steps) % setting.season][None]


def _line(setting: Setting) -> Any:
    """(1, steps, 1): from -0.5 at the first step to 0.5 at the last one."""
    return np.linspace(-0.5, 0.5, setting.steps)[None, :, None]


def _season(setting: Setting, rng: Any) -> tuple[str, Any]:
    """(its shape in words, (rows, steps) between -1 and 1): one shape for all, a high point of its own for each row."""
    shape = pick(SHAPES, rng)
    turns = np.arange(setting.steps) / setting.season - rng.uniform(size=(setting.rows, 1))
    return f"a {shape} season of {setting.season} steps", season_shape(shape, turns)


def _noisy(signal: Any, setting: Setting, rng: Any) -> Any:
    """`signal` with noise of `setting.noise` of its spread inside a series."""
    spread = np.round(signal.std(axis=1).mean(), 9)
    return signal + setting.noise * spread * rng.normal(size=signal.shape)


def _picked(setting: Setting, *features: Any) -> Any:
    """Features (rows, steps) at the steps asked for: (rows, units, m)."""
    at = list(setting.asked)
    return np.stack([np.broadcast_to(each, (setting.rows, setting.steps))[:, at] for each in features], axis=2)


def _before(values: Any, lag: int) -> Any:
    """`values` (rows, steps) as they were `lag` steps before, later ones where it is negative; 0.5 where there are none."""
    found = np.full_like(values, 0.5)
    if lag >= 0:
        found[:, lag:] = values[:, : values.shape[1] - lag]
    else:
        found[:, :lag] = values[:, -lag:]
    return found


def _seasonal(setting: Setting, rng: Any) -> Course:
    words, season = _season(setting, rng)
    middle, rise = rng.uniform(0.4, 0.6, size=(setting.rows, 1)), rng.uniform(-0.3, 0.3, size=(setting.rows, 1))
    expected = middle + rise * _line(setting)[:, :, 0] + rng.uniform(0.08, 0.2, size=(setting.rows, 1)) * season

    def guess(seen: Any, known: Any, plan: Any) -> Any:
        trend, phases = _line(setting), _phases(setting)
        fit = _fitted(seen, known, np.concatenate([trend, phases], axis=2))
        return _picked(setting, fit, _fitted(seen, known, phases), _last_season(seen, setting))

    return Course(_noisy(expected, setting, rng), expected, f"a straight trend and {words}", guess)


def _last_season(seen: Any, setting: Setting) -> Any:
    """The value (rows, steps) of the same phase, as many seasons before as it takes to be before the steps asked for."""
    back = -(-len(setting.asked) // setting.season) * setting.season
    return _before(seen, back)


def _swing(setting: Setting, rng: Any) -> Course:
    """The season is the larger the higher, or the lower, the trend is."""
    words, season = _season(setting, rng)
    up = bool(rng.randint(2))
    middle, rise = rng.uniform(0.42, 0.58, size=(setting.rows, 1)), rng.uniform(-0.5, 0.5, size=(setting.rows, 1))
    line = _line(setting)[:, :, 0]

    def swing(level: Any) -> Any:
        return 0.2 + 1.6 * np.clip(level if up else 1 - level, 0, 1)

    level = middle + rise * line
    expected = level + rng.uniform(0.1, 0.18, size=(setting.rows, 1)) * swing(level) * season

    def guess(seen: Any, known: Any, plan: Any) -> Any:
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


def _lags(setting: Setting, rng: Any) -> Course:
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

    def expects(away: Any) -> Any:
        past = first * _before(away, lag) + second * _before(away, 2 * lag)
        if setting.asked[-1] == steps - 1:
            return past
        # In a gap the values after it tell as much: least squares of the three equations that hold a value.
        late, later = _before(away, -lag), _before(away, -2 * lag)
        after = first * (late - second * _before(away, lag)) + second * (later - first * late)
        return (past + after) / (1 + first**2 + second**2)

    def guess(seen: Any, known: Any, plan: Any) -> Any:
        mean = seen[:, known].mean(axis=1, keepdims=True)
        return _picked(setting, mean + expects(seen - mean), _before(seen, lag), _before(seen, 2 * lag), mean)

    words = (
        f"a value's distance from its series' mean is {first} times that {lag} steps before and {second} times that "
    )
    return Course(middle + away, middle + expects(away), words + f"{2 * lag} steps before", guess)


def _lag(setting: Setting, rng: Any) -> int:
    """A lag that reaches over all steps asked for and is no season."""
    lags = [lag for lag in range(len(setting.asked), len(setting.asked) + 4) if lag % setting.season]
    return int(pick(lags, rng))


def _regime(setting: Setting, rng: Any) -> Course:
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

    def guess(seen: Any, known: Any, plan: Any) -> Any:
        side = np.where(_before(seen, lag) > cut, jump, -jump)
        phases = _fitted(seen - side, known & (np.arange(steps) >= lag), _phases(setting))
        return _picked(setting, phases + side, side, _before(seen, lag), phases)

    expected = base + np.where(_before(level, lag) > cut, jump, -jump)
    words = f"{words}; {setting.size(abs(jump))} {'more' if jump > 0 else 'less'} where the value {lag} steps before was above "
    return Course(level, expected, words + f"{setting.value(cut)}, else {'less' if jump > 0 else 'more'}", guess)


def _driver(setting: Setting, rng: Any) -> Course:
    """A second column, known ahead, acts some steps later."""
    rows, steps = setting.rows, setting.steps
    words, season = _season(setting, rng)
    lag, bent = int(rng.randint(2, 9)), bool(rng.randint(2))
    force = round(float(rng.choice([-1, 1]) * rng.uniform(0.3, 0.45)), 3)
    plan = np.round(100 * _planned(rows, steps, rng), 1)

    def acts(plan: Any) -> Any:
        earlier = _before(np.asarray(plan) / 100, lag)
        return force * (2 * np.maximum(earlier - 0.5, 0) if bent else earlier)

    base = rng.uniform(0.4, 0.6, size=(rows, 1)) - force / (4 if bent else 2)
    expected = base + rng.uniform(0.08, 0.16, size=(rows, 1)) * season + acts(plan)

    def guess(seen: Any, known: Any, plan: Any) -> Any:
        phases = _fitted(seen - acts(plan), known & (np.arange(steps) >= lag), _phases(setting))
        return _picked(setting, phases + acts(plan), acts(plan), phases, _before(plan, lag))

    words = f"{words}, and {PLAN} of {lag} steps before: over its range {'more' if force > 0 else 'less'} by "
    words += setting.size(abs(force)) + (", but only its part above 50" if bent else "")
    return Course(_noisy(expected, setting, rng), expected, words, guess, plan)


def _planned(rows: int, steps: int, rng: Any) -> Any:
    """(rows, steps) between 0 and 1: levels that are kept for 2 to 7 steps, a little uneven."""
    change = rng.uniform(size=(rows, steps)) < 0.3
    block = np.cumsum(change, axis=1)
    levels = np.take_along_axis(rng.uniform(0.05, 0.95, size=(rows, steps + 1)), block, axis=1)
    return np.clip(levels + 0.03 * rng.normal(size=levels.shape), 0, 1)


FAMILIES: dict[str, Callable[[Setting, Any], Course]] = {
    "seasonal_trend": _seasonal,
    "level_dependent_season": _swing,
    "lags": _lags,
    "threshold_regime": _regime,
    "driver": _driver,
}
