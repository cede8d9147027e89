"""What a program prints of a run in debug mode: how long it took, and how long the whole run will take by its estimate.

R&D-Agent, appendix E.5. Covered: the last complete block, found in the head and tail that are kept of an output. Not
covered: whether the numbers are true; a block that was cut in the middle of a long output.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

BEGIN = "==== Start of Debug Information ===="
END = "==== End of Debug Information ===="
_LINE = re.compile(r"(debug_time|estimated_time) ?: ?([0-9][0-9.eE+-]{0,31}) ?(?:s|sec|seconds)?")
_MOST = 200  # characters of a line that is looked at


def read_block(text: str) -> tuple[float, float] | None:
    """(debug_time, estimated_time), in seconds, of the last complete block of a text; None: there is no such block.

    A block without both numbers, or with one that is negative or not finite, is not complete.
    """
    times: tuple[float, float] | None = None
    block: dict[str, float] | None = None
    for line in text.split("\n"):
        line = line[:_MOST].strip()
        if line == BEGIN:
            block = {}
        elif line == END:
            if block is not None and len(block) == 2:
                times = block["debug_time"], block["estimated_time"]
            block = None
        elif block is not None and (match := _LINE.fullmatch(line)) is not None:
            seconds = _seconds(match.group(2))
            if seconds is None:
                block.pop(match.group(1), None)
            else:
                block[match.group(1)] = seconds
    return times


def timing_of(output: Mapping[str, Any]) -> tuple[float, float] | None:
    """`read_block` of a recorded output {head, tail, bytes}: of its tail, which is empty in a short one, or of its head."""
    return read_block(output["tail"]) or read_block(output["head"])


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
