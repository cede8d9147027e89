"""Series whose next steps, or some in the middle, are asked for: each value follows a drawn rule (series_rule).

Not covered: scenarios with several series a sample.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ...table import Column, fixed
from ..world import Asset, Dense, Rendered, Target
from .series_file import LENGTHS, Beside, Scale, read_carefully, read_cells, read_value, write_files
from .series_rule import FAMILIES, PLAN, Course, Setting


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
    import numpy as np

    series, scale = scenario["series"], Scale.of(scenario)
    setting = Setting(rows, steps, series["season"], asked, noise, scale, series["unit"])
    family = list(FAMILIES)[rng.randint(len(FAMILIES))]
    course = FAMILIES[family](setting, rng)
    values, at = scale.value(course.level), list(asked)
    shown = steps if letter == "g" else asked[0]
    empty = np.zeros((rows, shown), dtype=bool)
    empty[:, [step for step in at if step < shown]] = True
    beside = None if course.plan is None else Beside(PLAN, course.plan)
    contents, notes = write_files(scenario, values[:, :shown], mutations, rng, beside, empty)
    names = [f"{letter}_{number}" for number in range(1, len(at) + 1)]
    cells = {
        name: [fixed(value, scale.decimals) for value in column]
        for name, column in zip(names, values[:, at].T, strict=True)
    }
    expected = scale.low + course.expected[:, at] * (scale.high - scale.low)
    known = np.clip(expected, max(scale.low, 10.0**-scale.decimals), scale.high)
    plain = _plain(contents, scale, setting, letter, beside is not None)
    return Dense(
        rendered=Rendered(
            assets=[Asset("series", "the series, a line a step", "series", "csv", contents)],
            notes=[_told(scenario, asked, shown, beside), *notes],
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


def _told(scenario: Mapping[str, Any], asked: range, shown: int, beside: Beside | None) -> str:
    series = scenario["series"]
    text = (
        f"Each series covers {shown} steps, counted from 0; a step is one {series['step']}. {series['name']} is the "
        f"{series['meaning']} in {series['unit']}. Wanted are the true values of steps {asked[0]} to {asked[-1]}"
    )
    text += ", which are empty in the files." if asked[0] < shown else ", which follow."
    if beside:
        text += f" {beside.name} is planned ahead" + ("." if asked[0] < shown else " and known for the steps wanted.")
    return text


def _right(contents: Sequence[bytes], scale: Scale, setting: Setting, course: Course, shown: int) -> Any:
    import numpy as np

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
    import numpy as np

    units, season = len(setting.asked), setting.season
    found = []
    for content in contents:
        lines = sorted(read_cells(content), key=lambda line: float(line[0]))
        values = [read_value(line) for line in lines]
        share = np.clip((np.array(values) - scale.low) / (scale.high - scale.low), -0.5, 1.5)
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
