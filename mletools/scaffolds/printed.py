"""The validation score that a program prints of itself, for searches and memories that hold no rows out.

It is the agent's word: nothing here is a grade.
"""

import re
from math import isfinite

from ..records.common import LongText

_LINE = re.compile(r"\s*validation score\s*[:=]", re.IGNORECASE)
_MOST_DIGITS = 64


def printed_score(output: LongText) -> float | None:
    """The number in the last line of a recorded output that begins with the mark; None: there is none, or it is not finite."""
    lines = output["head"].split("\n")
    if output["tail"]:  # the middle was not recorded, so the lines next to it may be incomplete
        lines = lines[:-1] + output["tail"].split("\n")[1:]
    marks = [found for line in lines if (found := _LINE.match(line))]
    number = marks[-1].string[marks[-1].end() :].strip() if marks else ""
    if len(number) > _MOST_DIGITS or "_" in number or not number.isascii():
        return None
    try:
        value = float(number)
    except ValueError:
        return None
    return value if isfinite(value) else None
