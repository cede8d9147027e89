"""Columns of a table: measurements with units and categories, as a scenario names them.

Factors are columns that train.csv shows. Mutations blemish the cells, move columns into a second file, or add columns
that mean nothing. Not covered: the rule and the target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...dataset import SideTable
from ...table import Column, Rejected, fixed
from ..arrays import Array, Rng
from ..scenario import Scenario
from ..world import Category, DrawDense, Factor, Number, Rendered, divisible
from .common import shuffled

MUTATIONS = {
    "missing_values": "cells of some columns are empty, in some tasks mostly where another column is high",
    "outliers": "some cells of a numeric column are ten times too large",
    "drift": "readings of a column rise or fall over time, which a further column counts in days",
    "irrelevant_columns": "columns of noise are added",
    "distractor": "a column is named like a forecast of the target but does not follow it",
    "mixed_encodings": "some numbers carry their unit or a decimal comma, some categories other capitals or blanks",
    "mixed_units": "some rows of a column are given in thousandths of its unit, which a second column says",
    "duplicated_join": "columns lie in a second file, where an id may have several lines of which the last revision counts",
}
DENSE: dict[str, DrawDense] = {}
MOST_LEVELS = 12
# The days over which records were collected.
DAYS = 365
# The correlation of linked numbers.
LINKED = 0.75


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Five to nine numbers and one to three categories of the scenario, spread evenly or in a bell over their range.

    Numbers that the scenario links ("- A B": B falls where A rises) are correlated, so that what does not act may look as
    if it did.
    """
    found: list[Factor] = []
    links = {(two, one): sign for sign, one, two in map(str.split, scenario["links"])}
    links |= {(two, one): sign for (one, two), sign in links.items()}
    count = int(rng.randint(5, 10))
    for entry in shuffled(scenario["numbers"], rng)[:count]:
        low, high, decimals = entry["low"], entry["high"], entry["decimals"]
        place = rng.uniform(size=rows) if rng.randint(2) else np.clip(rng.normal(0.5, 0.2, size=rows), 0, 1)
        linked = next((each for each in found if (entry["name"], each.name) in links), None)
        if isinstance(linked, Number):
            sign = 1 if links[entry["name"], linked.name] == "+" else -1
            place = np.clip(0.5 + LINKED * sign * (linked.place - 0.5) + (1 - LINKED**2) ** 0.5 * (place - 0.5), 0, 1)
        # The rule sees the rounded values that the files show.
        value = np.array([float(fixed(each, decimals)) for each in low + place * (high - low)])
        found.append(Number(entry["name"], entry["unit"], low, high, decimals, (value - low) / (high - low)))
    count = int(rng.randint(1, 4))
    for kind in shuffled(scenario["categories"], rng)[:count]:
        found.append(Category(kind["name"], kind["levels"], rng.randint(len(kind["levels"]), size=rows)))
    return found


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
    """The columns and their cells, blemished by `mutations` (name: strength between 0 and 1)."""
    about = {entry["name"]: entry["meaning"] for entry in scenario["numbers"] + scenario["categories"]}
    columns, cells, measured = [], {}, {}
    for factor in factors:
        if isinstance(factor, Number):
            columns.append(Column(factor.name, about[factor.name], factor.unit))
            values = factor.low + factor.place * (factor.high - factor.low)
            cells[factor.name] = [fixed(value, factor.decimals) for value in values]
            measured[factor.name] = np.array(factor.place)
        else:
            columns.append(Column(factor.name, about[factor.name], number=False))
            cells[factor.name] = [factor.levels[code] for code in factor.code]
            measured[factor.name] = np.array(factor.code)
    table = _Blemished(scenario, list(factors), columns, cells, measured)
    for name, work in STEPS.items():
        if name in mutations:
            work(table, mutations[name], rng)
    plain = encode_cells(table.columns, {**table.cells, **table.moved()})
    return Rendered(
        columns=[column for column in table.columns if column.name in table.cells],
        cells=table.cells,
        sides=table.sides,
        plain=plain,
        measured=table.measured,
        notes=table.notes,
    )


def encode_cells(columns: Sequence[Column], cells: Mapping[str, Sequence[str]]) -> Array:
    """Floats of shape (rows, k): numbers with gaps filled by the median, a 0/1 column for each of the commonest levels.

    What does not read as a number is a gap, as it is to a pipeline that nobody adapted.
    """
    made = []
    for column in columns:
        text = cells[column.name]
        if column.number:
            values = np.array([_number(cell) for cell in text])
            known = values[np.isfinite(values)]
            made.append(np.where(np.isfinite(values), values, np.median(known) if len(known) else 0.0))
            continue
        levels = sorted(set(text), key=lambda level: (-text.count(level), level))[:MOST_LEVELS]
        made += [np.array([float(cell == level) for cell in text]) for level in levels]
    return np.round(np.column_stack(made), 6)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


@dataclass
class _Blemished:
    """A table on its way through the mutations, which change it in place."""

    scenario: Scenario
    factors: list[Factor]
    columns: list[Column]
    cells: dict[str, list[str]]
    measured: dict[str, Array]
    sides: list[SideTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return len(next(iter(self.cells.values())))

    def numbers(self, rng: Rng) -> list[Number]:
        """The numeric factors that are still columns, in a drawn order."""
        found = [each for each in self.factors if isinstance(each, Number) and each.name in self.cells]
        return [found[at] for at in rng.permutation(len(found))]

    def moved(self) -> dict[str, list[str]]:
        """The first line of each sample in the side tables, by column."""
        return {
            column.name: [lines[0][at] for lines in side.rows]
            for side in self.sides
            for at, column in enumerate(side.columns)
        }


def _join(table: _Blemished, strength: float, rng: Rng) -> None:
    """Moves two or three columns into a file of their own; superseded lines hold other rows' values."""
    names = [each.name for each in table.numbers(rng)[: 2 + int(rng.randint(2))]]
    columns = [Column("revision", "number of the revision; the highest of an id counts"), *_named(table, names)]
    rows = []
    for at in range(table.rows):
        lines = []
        revisions = 1 + int(rng.uniform() < 0.4 * strength) + int(rng.uniform() < 0.2 * strength)
        for revision in range(1, revisions + 1):
            source = at if revision == revisions else int(rng.randint(table.rows))
            lines.append([str(revision), *(table.cells[name][source] for name in names)])
        rows.append(lines)
    table.sides.append(SideTable("revisions.csv", "further columns; an id may have several revisions", columns, rows))
    table.columns.insert(0, columns[0])
    for name in names:
        del table.cells[name]


def _named(table: _Blemished, names: Sequence[str]) -> list[Column]:
    return [next(column for column in table.columns if column.name == name) for name in names]


def _gaps(table: _Blemished, strength: float, rng: Rng) -> None:
    names = sorted(table.cells)
    numbers = table.numbers(rng)
    for at in rng.permutation(len(names))[: 1 + int(strength * 3)]:
        name = names[at]
        # Whether a cell is empty may depend on another column: with a place of 0 never, of 1 twice as often.
        others = [factor for factor in numbers if factor.name != name]
        weight = 2 * others[0].place if others and rng.randint(2) else 1.0
        gone = rng.uniform(size=table.rows) < (0.05 + 0.15 * strength) * weight
        table.cells[name] = ["" if empty else cell for cell, empty in zip(table.cells[name], gone, strict=True)]
        if name in table.measured:
            seen = table.measured[name]
            middle = np.median(seen[~gone]) if seen.dtype.kind == "f" else np.bincount(seen[~gone]).argmax()
            table.measured[name] = np.where(gone, middle, seen)
    table.notes.append("Some cells are empty: the value was not recorded.")


def _outliers(table: _Blemished, strength: float, rng: Rng) -> None:
    for factor in table.numbers(rng)[: 1 + int(strength * 2)]:
        wrong = rng.uniform(size=table.rows) < 0.02 + 0.05 * strength
        table.cells[factor.name] = [
            fixed(10 * float(cell), factor.decimals) if bad else cell
            for cell, bad in zip(table.cells[factor.name], wrong, strict=True)
        ]
        # Ten times a value within the range is recognised as such where it leaves the range.
        value = factor.low + factor.place * (factor.high - factor.low)
        lost = wrong & (10 * value >= factor.low) & (10 * value <= factor.high)
        table.measured[factor.name] = np.where(lost, 0.5, table.measured[factor.name])
    table.notes.append("Implausible values were left in as they were recorded.")


def _drift(table: _Blemished, strength: float, rng: Rng) -> None:
    """What is measured stays the true place: the days allow one to correct it."""
    day = rng.randint(DAYS, size=table.rows)
    factor = table.numbers(rng)[0]
    slope = (1 if rng.randint(2) else -1) * (0.3 + 0.6 * strength)
    table.cells[factor.name] = [
        fixed(float(cell) * (1 + slope * (at / DAYS - 0.5)), factor.decimals)
        for cell, at in zip(table.cells[factor.name], day, strict=True)
    ]
    table.columns.append(Column("day", "days since the first record", "days"))
    table.cells["day"] = [str(at) for at in day]
    table.notes.append("How values were recorded changed little by little over the days.")


def _irrelevant(table: _Blemished, strength: float, rng: Rng) -> None:
    for number in range(1, 2 + int(strength * 4)):
        name = f"extra_{number}"
        table.columns.append(Column(name, "value of an undocumented field"))
        table.cells[name] = [fixed(value, 2) for value in rng.normal(50, 12, size=table.rows)]


def _distractor(table: _Blemished, strength: float, rng: Rng) -> None:
    entry = table.scenario["quantity"]
    name = f"expected_{entry['name']}"
    place = rng.uniform(size=table.rows)
    table.columns.append(Column(name, f"rough guess made in advance: {entry['meaning']}", entry["unit"]))
    values = entry["low"] + place * (entry["high"] - entry["low"])
    table.cells[name] = [fixed(value, entry["decimals"]) for value in values]


def _encodings(table: _Blemished, strength: float, rng: Rng) -> None:
    units = {f"{factor.name}_unit" for factor in table.factors} & set(table.cells)
    numbers = [factor for factor in table.numbers(rng) if f"{factor.name}_unit" not in units]
    for factor in numbers[: 1 + int(strength * 2)]:
        unit = factor.unit or "units"
        kinds = rng.choice(3, size=table.rows, p=[1 - 0.5 * strength, 0.25 * strength, 0.25 * strength])
        table.cells[factor.name] = [
            (cell, f"{cell} {unit}", cell.replace(".", ",") if "." in cell else f"{cell},0")[kind] if cell else ""
            for cell, kind in zip(table.cells[factor.name], kinds, strict=True)
        ]
    for column in (each for each in table.columns if not each.number and each.name in set(table.cells) - units):
        odd = rng.uniform(size=table.rows) < 0.3 * strength
        table.cells[column.name] = [
            f" {cell.upper()}" if strange and cell else cell
            for cell, strange in zip(table.cells[column.name], odd, strict=True)
        ]
    table.notes.append("The entries were made by several people, not all in the same way.")


def _units(table: _Blemished, strength: float, rng: Rng) -> None:
    factor = next((each for each in table.numbers(rng) if divisible(each.unit)), None)
    if factor is None:
        raise Rejected("mixed_units: no column has a unit of which thousandths are given")
    small = rng.uniform(size=table.rows) < 0.2 + 0.3 * strength
    table.cells[factor.name] = [
        fixed(1000 * float(cell), max(0, factor.decimals - 3)) if milli and _number(cell) == _number(cell) else cell
        for cell, milli in zip(table.cells[factor.name], small, strict=True)
    ]
    name = f"{factor.name}_unit"
    at = next(at for at, column in enumerate(table.columns) if column.name == factor.name)
    table.columns[at] = Column(factor.name, table.columns[at].meaning, f"in the unit of `{name}`")
    table.columns.append(Column(name, f"unit of {factor.name}", number=False))
    table.cells[name] = [f"1/1000 {factor.unit}" if milli else factor.unit for milli in small]


# In this order: what moves columns comes first, what spoils their cells for a parser last.
STEPS = {
    "drift": _drift,
    "outliers": _outliers,
    "irrelevant_columns": _irrelevant,
    "distractor": _distractor,
    "mixed_units": _units,
    "duplicated_join": _join,
    "missing_values": _gaps,
    "mixed_encodings": _encodings,
}
