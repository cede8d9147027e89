"""What the parts of a procedural task are made of: factors behind a sample, the files that show them, the target.

A *factor* is a property of a sample that the hidden rule may look at: a column of a table, how fine the stripes of a
picture are, which of two words comes first. A *medium* (a module in media/) draws factors, renders them into files and
says what can be measured from these files again. Not covered: the rule over factors (rule), the target that its value
becomes (target), splitting and the files' names (tasks.draft).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..table import Column, fixed

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
    place: Any

    def at(self, place: float) -> str:
        """A place between 0 and 1 in the factor's own unit, as text."""
        decimals = max(self.decimals, 1)
        return f"{fixed(self.low + place * (self.high - self.low), decimals)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Category:
    """A factor with levels: `code` holds each sample's index into `levels`, ints of shape (rows,)."""

    name: str
    levels: Sequence[str]
    code: Any


@dataclass(frozen=True)
class Asset:
    """One file a sample: folder/ID.ending, named in the column `column` of train.csv and test.csv; `contents` by row."""

    column: str
    meaning: str
    folder: str
    ending: str
    contents: list[bytes]


@dataclass(frozen=True)
class SideTable:
    """A further public CSV: its first column is the sample's id, then `columns`; `rows[sample]` are that sample's lines."""

    name: str
    meaning: str
    columns: list[Column]
    rows: list[list[list[str]]]


@dataclass(frozen=True)
class Rendered:
    """What a medium shows of its factors.

    `columns` and `cells` go into train.csv and test.csv. `plain` is what a quick standard pipeline makes of the files,
    floats of shape (rows, k) without NaN. `measured` is what the best measurement finds of each factor in the files,
    by the factor's name: places between 0 and 1 of shape (rows,), or codes of levels. `notes` are sentences on the data for
    the description, and must not hint at the rule.
    """

    columns: list[Column] = field(default_factory=list)
    cells: dict[str, list[str]] = field(default_factory=dict)
    assets: list[Asset] = field(default_factory=list)
    sides: list[SideTable] = field(default_factory=list)
    plain: Any = None
    measured: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """What is asked for, by sample.

    `problem` is one of the record's. `columns` are the target columns of train.csv and `cells` their text. `y` has shape
    (rows, columns): class numbers, 0/1 of tags, or numbers; of a dense target (rows, units). `known` is the prediction of one who knows the
    rule: probabilities of shape (rows, labels) for classes, else of the shape of `y`. `labels` are the classes, in an
    order that means something where one exists, or the tags. `groups` holds each row's query of a ranking. `words` say
    how the rule's value became the target. `asked` is the task in a sentence, "" where the form of the files says it; `event`
    is what the last of two labels says, as a clause.
    """

    problem: str
    columns: list[Column]
    cells: dict[str, list[str]]
    y: Any
    known: Any
    words: str
    labels: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    asked: str = ""
    event: str = ""


@dataclass(frozen=True)
class Dense:
    """A problem whose target is many numbers a sample (a mask, a future, a gap): the medium draws rule and target itself.

    `plain` and `right` have the shape (rows, units, k): what a quick pipeline, and one with the right features, knows of
    each unit. `families` name the rule's terms and `rule` is the rule in words. `params` are parameters that the metric
    needs (the height and width of masks).
    """

    rendered: Rendered
    target: Target
    plain: Any
    right: Any
    families: list[str]
    rule: str
    params: dict[str, Any] = field(default_factory=dict)


class Medium(Protocol):
    """A module of media/. MUTATIONS: {name: what it does to the data}; DENSE: {problem: function like `dense`}."""

    MUTATIONS: Mapping[str, str]
    DENSE: Mapping[str, Any]

    def factors(self, scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]: ...

    def render(
        self,
        scenario: Mapping[str, Any],
        factors: Sequence[Number | Category],
        mutations: Mapping[str, float],
        rng: Any,
    ) -> Rendered: ...


@dataclass(frozen=True)
class TaskWorld:
    """A whole drawn data set, before it is split.

    `rendered` are its media's; `right` (rows, m) or (rows, units, m) are the features that the rule looks at, as far as
    the files tell; `tilt` (rows,) are weights with which a row is drawn into the test set, None for equal ones.
    `origin` goes into the record's provenance and gives the rule away: it is never shown to the one who solves the task.
    """

    name: str
    title: str
    context: list[str]
    sample: Mapping[str, str]
    modality: str
    rendered: list[Rendered]
    target: Target
    plain: Any
    right: Any
    tilt: Any
    origin: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def sides(self) -> list[SideTable]:
        return [side for rendered in self.rendered for side in rendered.sides]

    @property
    def files(self) -> dict[str, str]:
        """The meanings of the public files beside the usual tables; "images/" is a folder with a file for each row."""
        assets = [asset for rendered in self.rendered for asset in rendered.assets]
        folders = {
            f"{asset.folder}/": f"{asset.meaning}, one file `ID.{asset.ending}` for each row" for asset in assets
        }
        return folders | {side.name: side.meaning for side in self.sides}
