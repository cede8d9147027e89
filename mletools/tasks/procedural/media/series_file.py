"""Files of series: a line a step, what goes wrong with the lines, and two ways to read them again.

Not covered: the course of the series.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...table import csv_bytes, fixed

FAULTS = {
    "missing_steps": "lines are left out",
    "outliers": "some values are ten times too large",
    "drift": "the sensor drifts slowly, in each series in its own way",
    "time_jitter": "the steps are not evenly spaced",
    "rounding": "values are rounded coarsely",
    "unit_change": "from some step on a series is given in thousandths of its unit, which a further column says",
    "duplicate_steps": "some steps have two lines, of which the later one counts",
    "shuffled_steps": "the lines of a series are in no order",
}
NOTES = {
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

    def value(self, share: Any) -> Any:
        """Shares of the range in the series' unit, inside the range, above 0 and with its decimals."""
        import numpy as np

        least = max(self.low, 10.0**-self.decimals)
        inside = np.clip(self.low + share * (self.high - self.low), least, self.high)
        return np.round(np.round(inside, 6), self.decimals)

    def share(self, value: Any) -> Any:
        """Values in the series' unit as shares of its range."""
        import numpy as np

        return np.round((value - self.low) / (self.high - self.low), 9)


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
) -> tuple[list[bytes], list[str]]:
    """(a file a row of `values` (rows, steps), notes about the faults): names and unit are the scenario's.

    Cells where `empty` (rows, steps) holds are left empty, and so are the steps that only `beside` covers.
    """
    import numpy as np

    rows, length = values.shape
    scale = Scale.of(scenario)
    gone = np.zeros(values.shape, dtype=bool) if empty is None else empty
    values, moments, other = _spoiled(values, scale, faults, beside, rng)
    moments = np.where(gone, np.arange(length), moments)
    share = faults.get("missing_steps", 0.0)
    left_out = rng.uniform(size=values.shape) < (0.04 + 0.16 * share if share else 0.0)
    milli = np.zeros(values.shape, dtype=bool)
    if "unit_change" in faults:
        start = rng.randint(length // 5, length, size=(rows, 1))
        changed = rng.uniform(size=(rows, 1)) < 0.3 + 0.6 * faults["unit_change"]
        milli = (np.arange(length) >= start) & changed
    header = ["step", scenario["series"]["name"], *([beside.name] if beside else [])]
    header += ["unit"] if "unit_change" in faults else []
    contents = []
    for row in range(rows):
        lines = []
        for at in range(length):
            if left_out[row, at] and not gone[row, at]:
                continue
            value = values[row, at] * (1000 if milli[row, at] else 1)
            decimals = max(0, scale.decimals - 3) if milli[row, at] else scale.decimals
            cells = [_moment(moments[row, at]), "" if gone[row, at] else fixed(value, decimals)]
            cells += [fixed(other[row, at], 1)] if beside else []
            unit = scenario["series"]["unit"]
            lines.append(cells + ([f"{MILLI} {unit}" if milli[row, at] else unit] if "unit_change" in faults else []))
        lines = _reordered(lines, faults, rng)
        for at in range(length, other.shape[1] if beside else 0):
            unit_cell = [scenario["series"]["unit"]] if "unit_change" in faults else []
            lines.append([str(at), "", fixed(other[row, at], 1), *unit_cell])
        contents.append(csv_bytes(header, [list(column) for column in zip(*lines, strict=True)]))
    return contents, [NOTES[name] for name in FAULTS if name in faults and name in NOTES]


def _moment(step: float) -> str:
    return str(int(step)) if step == int(step) else fixed(step, 2)


def _spoiled(
    values: Any, scale: Scale, faults: Mapping[str, float], beside: Beside | None, rng: Any
) -> tuple[Any, Any, Any]:
    """(values, their moments in steps, the second column), after the faults of the sensor."""
    import numpy as np

    rows, length = values.shape
    span, step = scale.high - scale.low, np.arange(length, dtype=float)
    least = 10.0**-scale.decimals
    moments, other = np.tile(step, (rows, 1)), np.array(beside.values) if beside else np.zeros((rows, 0))
    if "time_jitter" in faults:
        moments = np.clip(step + faults["time_jitter"] * rng.uniform(-0.4, 0.4, size=values.shape), 0, length - 1)
        moments = np.round(moments, 2)
        values = _between(values, moments)
        if beside:
            other[:, :length] = _between(other[:, :length], moments)
    if "drift" in faults:
        bend = rng.uniform(0.5, 2.0, size=(rows, 1))
        size = faults["drift"] * span * rng.uniform(-0.25, 0.25, size=(rows, 1))
        values = values + size * (step / (length - 1)) ** bend
    if "rounding" in faults:
        coarse = max(least, round(span * (0.03 + 0.07 * faults["rounding"]), scale.decimals))
        values = np.rint(np.round(values / coarse, 6)) * coarse
    if "outliers" in faults:
        values = np.where(rng.uniform(size=values.shape) < 0.01 + 0.04 * faults["outliers"], 10 * values, values)
    return np.round(np.maximum(np.round(values, 6), least), scale.decimals), moments, other


def _between(values: Any, moments: Any) -> Any:
    """`values` (rows, steps) at `moments` between the steps, on straight lines."""
    import numpy as np

    left = np.minimum(np.floor(moments).astype(int), values.shape[1] - 2)
    first, second = np.take_along_axis(values, left, axis=1), np.take_along_axis(values, left + 1, axis=1)
    return first + (moments - left) * (second - first)


def _reordered(lines: list[list[str]], faults: Mapping[str, float], rng: Any) -> list[list[str]]:
    """The lines shuffled, and some preceded by a wrong one, as the faults say."""
    if "shuffled_steps" in faults:
        # A few swaps where the fault is weak, near to a full shuffle where it is strong.
        for _ in range(int(len(lines) * faults["shuffled_steps"])):
            one, two = rng.randint(len(lines), size=2)
            lines[one], lines[two] = lines[two], lines[one]
    if "duplicate_steps" not in faults:
        return lines
    found: list[list[str]] = []
    for line in lines:
        if rng.uniform() < 0.04 + 0.16 * faults["duplicate_steps"]:
            wrong = lines[rng.randint(len(lines))]
            if line[1] and wrong[1]:
                found.append([line[0], wrong[1], *line[2:]])
        found.append(line)
    return found


def read_cells(content: bytes) -> list[list[str]]:
    """The cells of a file by line, without the header."""
    return [line.split(",") for line in content.decode("utf-8").split("\n")[1:-1]]


def read_value(line: Sequence[str]) -> float:
    """The value of a line in the series' usual unit; NaN where it is empty."""
    if not line[1]:
        return float("nan")
    return float(line[1]) / (1000 if line[-1].startswith(MILLI) else 1)


def read_plainly(contents: Sequence[bytes]) -> list[Any]:
    """The values of each file in the order of its lines, in the usual unit; doubled ones and mistakes too."""
    import numpy as np

    return [np.array([read_value(line) for line in read_cells(content) if line[1]]) for content in contents]


def read_carefully(contents: Sequence[bytes], scale: Scale, length: int, column: int = 1) -> tuple[Any, Any]:
    """Column `column` of each file by step, in its usual unit, corrected, with holes bridged straight: (rows, length).

    Beside it, of the same shape, whether a step has a line of its own. A value further outside the range than half of
    it is a hole.
    """
    import numpy as np

    far = (scale.high - scale.low) / 2
    found, own = np.zeros((len(contents), length)), np.zeros((len(contents), length), dtype=bool)
    for row, content in enumerate(contents):
        known: dict[float, float] = {}
        for line in read_cells(content):
            if line[column]:
                known[float(line[0])] = read_value(line) if column == 1 else float(line[column])
        if column == 1:
            known = {moment: value for moment, value in known.items() if scale.low - far <= value <= scale.high + far}
        moments = sorted(known)
        found[row] = np.interp(np.arange(length), moments, [known[moment] for moment in moments])
        own[row, [round(moment) for moment in moments if moment < length]] = True
    return np.round(found, 6), own
