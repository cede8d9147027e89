"""A data set of any source before it is split: samples with columns, files and a target.

Not covered: where it comes from (procedural, table), splitting it and naming its files (draft).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .table import Column


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
class Features:
    """What files show of the samples.

    `columns` and `cells` go into train.csv and test.csv. `notes` are sentences on the data for the description, and must not
    hint at a rule.
    """

    columns: list[Column] = field(default_factory=list)
    cells: dict[str, list[str]] = field(default_factory=dict)
    assets: list[Asset] = field(default_factory=list)
    sides: list[SideTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """What is asked for, by sample.

    `problem` is one of the record's. `columns` are the target columns of train.csv and `cells` their text. `y` has shape
    (rows, columns): class numbers, 0/1 of tags, or numbers; of a dense target (rows, units). `known` is the prediction of one who knows the
    rule, None if nobody does: probabilities of shape (rows, labels) for classes, else of the shape of `y`. `labels` are the classes, in an
    order that means something where one exists, or the tags. `groups` holds each row's query of a ranking. `words` say
    how the rule's value became the target. `asked` is the task in a sentence, "" where the form of the files says it; `event`
    is what the last of two labels says, as a clause.
    """

    problem: str
    columns: list[Column]
    cells: dict[str, list[str]]
    y: Any
    known: Any = None
    words: str = ""
    labels: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    asked: str = ""
    event: str = ""


@dataclass(frozen=True)
class Dataset:
    """Samples with features, files and a target, before they are split, whatever their source.

    `sample` names one sample and many ("one", "many"). `params` are parameters that the metric needs (the height and width
    of masks). `origin` goes into the record's provenance and may give the rule away: it is never shown to the one who
    solves the task. Of a hidden rule, else None: `plain` is what a quick standard pipeline makes of the files, floats of
    shape (rows, k) or (rows, units, k) without NaN; `right` (rows, m) or (rows, units, m) are the features that the rule
    looks at, as far as the files tell; `tilt` (rows,) are weights with which a row is drawn into the test set, None for
    equal ones.
    """

    name: str
    title: str
    context: list[str]
    sample: Mapping[str, str]
    modality: str
    features: Sequence[Features]
    target: Target
    origin: Mapping[str, object]
    params: Mapping[str, object] = field(default_factory=dict)
    plain: Any = None
    right: Any = None
    tilt: Any = None

    @property
    def sides(self) -> list[SideTable]:
        return [side for shown in self.features for side in shown.sides]

    @property
    def files(self) -> dict[str, str]:
        """The meanings of the public files beside the usual tables; "images/" is a folder with a file for each row."""
        assets = [asset for shown in self.features for asset in shown.assets]
        folders = {
            f"{asset.folder}/": f"{asset.meaning}, one file `ID.{asset.ending}` for each row" for asset in assets
        }
        return folders | {side.name: side.meaning for side in self.sides}
