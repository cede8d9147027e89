"""The types of a scenario: one file of scenarios/, the story that a procedural task is told in."""

from typing import Literal, TypedDict

Lean = Literal["+", "-"]


class Named(TypedDict):
    """A column's name and what it means."""

    name: str
    meaning: str


class Measured(Named):
    """A number: its unit, its range, and the decimals of its values."""

    unit: str
    low: float
    high: float
    decimals: int


class Levelled(Named):
    """A category and its levels, of classes the lowest first."""

    levels: list[str]


class Caused(TypedDict):
    """What moves a target: lines that `rule.Cause.parse` reads, and whether the scenario's condition raises it."""

    causes: list[str]
    lean: Lean


class Quantity(Measured, Caused):
    """The target of a regression."""


class Classes(Levelled, Caused):
    """The target of a classification."""


class Tags(Named):
    """The target of a classification with several labels: causes by tag."""

    levels: dict[str, Caused]


class Grade(Named, Caused):
    """What the rows of a query are ranked by."""


class Ranking(TypedDict):
    """The target of a ranking: the column that groups rows, and what counts inside a group."""

    query: Named
    grade: Grade


class Shown(TypedDict):
    """A medium in the story: a sentence about it, and the signs of the condition as lines of causes."""

    context: str
    signs: list[str]


class Pictures(Shown):
    """Grey (1) or coloured (3) pictures, and what their spots and stripes are called."""

    channels: int
    spots: str
    stripes: str


class Weight(TypedDict):
    """What the weight of a link means."""

    meaning: str
    unit: str


class Networks(Shown):
    """Networks, and what their nodes and links are called."""

    node: str
    edge: str
    weight: Weight


class Series(Shown, Measured):
    """A series: what a step is called, the steps of a season, and a second column that is known in advance."""

    step: str
    season: int
    plan: Named


class Notes(Shown):
    """Notes: the words and sentences that they are made of; `theme` is the one of `themes` that is a sign."""

    theme: str
    themes: dict[str, list[str]]
    subjects: list[str]
    praise: list[str]
    blame: list[str]
    events: list[str]
    filler: list[str]


class Scenario(TypedDict):
    """A story: who records what of which samples, what may be asked for, and what each medium shows.

    `sample` names one sample and many ("one", "many").
    """

    key: str
    domain: str
    title: str
    context: str
    experts: str
    condition: str
    sample: dict[str, str]
    numbers: list[Measured]
    categories: list[Levelled]
    links: list[str]
    quantity: Quantity
    binary: Classes
    classes: Classes
    tags: Tags
    ranking: Ranking
    image: Pictures
    audio: Shown
    graph: Networks
    series: Series
    text: Notes
