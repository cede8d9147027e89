"""Notes on how an answer was read: what was not in the form that was asked for, and what was replaced by a default.

NodeContext.read opens a Reading around each reader; readers and the functions of replies add to it. Outside of one,
notes are dropped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Reading:
    """The notes on one answer. last: no correction follows, so a default is better than no answer."""

    last: bool = False
    lenient: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)


_current: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(last: bool) -> Iterator[Reading]:
    """Collect the notes of the readers in the block."""
    notes = Reading(last)
    token = _current.set(notes)
    try:
        yield notes
    finally:
        _current.reset(token)


def read_leniently(how: str) -> None:
    """Note that a value was not in the form that was asked for, and how it was read."""
    notes = _current.get()
    if notes is not None and how not in notes.lenient:
        notes.lenient.append(how)


def fall_back(what: str) -> bool:
    """Whether a default may replace a value, which is noted then: only in the last answer."""
    notes = _current.get()
    if notes is None or not notes.last:
        return False
    if what not in notes.fallbacks:
        notes.fallbacks.append(what)
    return True
