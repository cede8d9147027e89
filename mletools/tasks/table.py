"""What a source hands over: one table of text cells with its columns explained, not yet split into train and test.

Cells are text from the start, so the bytes of a task do not depend on how some version of pandas prints a number.
Not covered: splitting, metrics and files (draft), and where tables come from (real, procedural).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.csv_files import MISSING as MISSING
from ..base.csv_files import csv_text

# In the digits that pandas reads; others, such as Arabic ones, are text.
NUMBER = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")


class Rejected(Exception):
    """A draft that does not make a sound task; `reason` says why. The next attempt draws another one."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Column:
    """One column: its name in the files, its meaning in words, its unit ("" for none), whether it is numeric."""

    name: str
    meaning: str
    unit: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table to make a task of.

    `cells[column]` is the column's text, one string a row, "" where missing; targets have no missing cells.
    `labels` are the values of the only target of a classification, in an order that means something where one exists;
    `positive` is the one of two labels whose probability is asked for. `ids` are the rows' own ids, one in no row twice,
    in the column `id_name`; without any, they are made. Rows of one of `groups` (a text a row) belong together: all are
    in train.csv or all in the test. With `times` (a number a row) the test holds the latest rows. Without a `metric`
    one is drawn. `origin` goes into the record's provenance and may give the rule away: it is never shown to the one
    who solves the task.
    """

    name: str
    title: str
    context: str
    problem: str
    features: list[Column]
    targets: list[Column]
    cells: dict[str, list[str]]
    labels: list[str] = field(default_factory=list)
    positive: str = ""
    origin: Mapping[str, object] = field(default_factory=dict)
    id_name: str = "id"
    ids: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    metric: str = ""

    @property
    def rows(self) -> int:
        return len(self.cells[self.targets[0].name])


def generator(seed: int) -> Any:
    """A numpy RandomState for a seed in [0, 2**64): the one generator of numpy whose streams are frozen for good."""
    import numpy as np

    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32])


def fixed(value: float, decimals: int) -> str:
    """`value` with so many decimals, never "-0.0": fixed(-0.04, 1) is "0.0"."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def shortest(value: float) -> str:
    """The shortest text that reads back as the same number, whole numbers without a point; "" for NaN."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else repr(float(value))


def csv_bytes(header: list[str], columns: list[list[str]]) -> bytes:
    """A CSV file, UTF-8 with "\\n" line ends, from columns of text cells of one length."""
    return csv_text([header, *zip(*columns, strict=True)]).encode()
