"""The types of what the observer is told: of a task's data, and of a program's calls.

`observer` and `evidence` name them in annotations alone, so that this module is no part of the text that runs in the
sandbox.
"""

from typing import Any, TypedDict

Sites = dict[str, list[list[Any]]]  # calls, loops and places, see sites.py


class ColumnFacts(TypedDict, total=False):
    """A column: the shares of its few values, or a sample of the keys of its values and the last key of the sample."""

    shares: list[float]
    keys: list[int]
    last: int


class DataFacts(TypedDict):
    """The data of a task, see tables.describe."""

    rows: list[int]
    least: int
    columns: list[ColumnFacts]


class ObserverSettings(TypedDict):
    """The configuration of an observer."""

    tokens: list[str]  # by marker
    calls: list[list[Any]]
    loops: list[list[Any]]
    places: list[list[Any]]
    waits: bool  # for the places
    data: DataFacts
    table: list[tuple[int, str, str]]  # marker, when, pattern of names
