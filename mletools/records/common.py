"""What every record has, and constraints that several have.

The modules common, task, rollout, training and report of this package are the one declaration of the records: `schema`
validates by them, and `make docs` writes schemas/*.json and the tables of docs/records.md from them. A field that is not
declared passes. What a record has to have is plain, the rest `NotRequired`. The text below a field describes it.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from msgspec import Meta

Id = Annotated[str, Meta(min_length=1)]  # derived from content and seed, never from a clock
Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
if TYPE_CHECKING:
    JsonValue = object  # a value that no type describes: whoever reads it has to look
else:
    JsonValue = Any  # which msgspec lets pass
LARGEST_REWARD = 1e6  # that is learnt from: one that is larger, or no number, would end the training of all others


class LineageEntry(TypedDict):
    """One command that worked on a record."""

    tool: str
    version: str
    """Of mletools."""

    options: dict[str, Any]
    """The options that differ from their defaults and can change results."""

    seed: int


Lineage = Annotated[
    list[LineageEntry], Meta(description="One entry per command that worked on the record, oldest first.")
]


class Reject(TypedDict):
    """An input line that could not be processed."""

    kind: Literal["reject"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    source: str
    line_number: Positive
    reason: str
    line: str


class LongText(TypedDict):
    """The head and the tail of a long output, and its size in bytes."""

    head: str
    tail: str
    """Empty when head holds everything."""

    bytes: Count
