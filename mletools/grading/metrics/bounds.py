"""What it may cost to compare predictions with answers, where that grows faster than their length.

A metric of pairs (characters of two texts, boxes of two lists) counts them before it looks at any. As many are
affordable as take a few seconds, or TIMES as many as the answers have among themselves, whichever is more: an honest
submission looks like the answers. Not covered: the length of cells (parsing.LIMITS).
"""

from .registry import TooDear

TIMES = 5


def affordable(what: str, needed: float, among_answers: float, always: float) -> None:
    """TooDear unless `needed` steps of the work `what` are at most `always`, or TIMES those `among_answers`."""
    if needed > max(always, TIMES * among_answers):
        raise TooDear(f"{needed:.3g} {what}, far more than such answers need")
