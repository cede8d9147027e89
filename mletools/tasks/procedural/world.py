"""What the parts of a procedural task are made of: factors behind a sample, the files that show them.

A *factor* is a property of a sample that the hidden rule may look at: a column of a table, how fine the stripes of a
picture are, which of two words comes first. A *medium* (a module in media/) draws factors, renders them into files and
says what can be measured from these files again. Not covered: the rule over factors (rule), the target that its value
becomes (target), splitting and the files' names (tasks.draft).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..dataset import Features, Target
from ..table import fixed
from .arrays import Array, Rng
from .scenario import Scenario

# Units of which thousandths are given: not counts, shares, degrees or months.
DIVISIBLE = (
    "A Ah Gbit/s L/m² MPa MWh Mt N V bar cN g g/kg g/m² h kN kN/m kPa kW kWh kWh/m² kg kg/m² kg/m³ klx·h km km/h m m/min m/s "
    "mL mg mg/L min mm mm/min mm/s mmol/L mol/m² mΩ m² m³ m³/h m³/s s t t/h µg/L µm µmol/L"
)


def divisible(unit: str) -> bool:
    """Whether thousandths of a unit are given."""
    return unit in DIVISIBLE.split()


@dataclass(frozen=True)
class Number:
    """A factor with a size: `place` holds where each sample lies between `low` (0.0) and `high` (1.0), shape (rows,)."""

    name: str
    unit: str
    low: float
    high: float
    decimals: int
    place: Array

    def at(self, place: float) -> str:
        """A place between 0 and 1 in the factor's own unit, as text."""
        decimals = max(self.decimals, 1)
        return f"{fixed(self.low + place * (self.high - self.low), decimals)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Category:
    """A factor with levels: `code` holds each sample's index into `levels`, ints of shape (rows,)."""

    name: str
    levels: Sequence[str]
    code: Array


Factor = Number | Category


@dataclass(frozen=True)
class Rendered(Features):
    """What a medium shows of its factors.

    `plain` is what a quick standard pipeline makes of the files, floats of shape (rows, k) without NaN. `measured` is what
    the best measurement finds of each factor in the files, by the factor's name: places between 0 and 1 of shape (rows,),
    or codes of levels.
    """

    plain: Any = None
    measured: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Dense:
    """A problem whose target is many numbers a sample (a mask, a future, a gap): the medium draws rule and target itself.

    `plain` and `right` have the shape (rows, units, k): what a quick pipeline, and one with the right features, knows of
    each unit. `families` name the rule's terms and `rule` is the rule in words. `params` are parameters that the metric
    needs (the height and width of masks).
    """

    rendered: Rendered
    target: Target
    plain: Array
    right: Array
    families: list[str]
    rule: str
    params: dict[str, int] = field(default_factory=dict)


# (scenario, rows, mutations, noise, rng)
DrawDense = Callable[[Scenario, int, Mapping[str, float], float, Rng], Dense]


class Medium(Protocol):
    """A module of media/. MUTATIONS: {name: what it does to the data}; DENSE: {problem: what draws it}."""

    MUTATIONS: Mapping[str, str]
    DENSE: Mapping[str, DrawDense]

    def factors(self, scenario: Scenario, rows: int, rng: Rng) -> list[Factor]: ...

    def render(
        self,
        scenario: Scenario,
        factors: Sequence[Factor],
        mutations: Mapping[str, float],
        rng: Rng,
    ) -> Rendered: ...
