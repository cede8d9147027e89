"""Bounds on the cost of comparing predictions with answers, where it grows faster than their length.

A metric of pairs (characters of two texts, boxes of two lists) counts them first. The bound is the larger of a constant
(a few seconds) and TIMES the pairs among the answers. Not covered: the length of cells (parsing.LIMITS).
"""

from .registry import TooExpensive

TIMES = 5


def affordable(what: str, needed: float, among_answers: float, always: float) -> None:
    """TooExpensive unless `needed` steps of the work `what` are at most `always`, or TIMES those `among_answers`."""
    if needed > max(always, TIMES * among_answers):
        raise TooExpensive(f"{needed:.3g} {what}, far more than such answers need")
