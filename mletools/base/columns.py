"""Tables of text on a terminal: which columns stand beside each other. Not covered: how cells are written and aligned."""

import os
from collections.abc import Sequence

UNKNOWN, UNKNOWN_LINES = 80, 24  # columns and lines of a terminal that does not say its size
GAP = 2  # blanks between columns
BESIDE = ("±", "per ")  # how the names of columns begin that say something of the column before


def terminal_columns(descriptor: int) -> int | None:
    """The width of the terminal behind a file descriptor, None where it is no terminal."""
    try:
        return os.get_terminal_size(descriptor).columns or UNKNOWN
    except OSError:
        return None


def terminal_lines(descriptor: int) -> int | None:
    """The height of the terminal behind a file descriptor, None where it is no terminal."""
    try:
        return os.get_terminal_size(descriptor).lines or UNKNOWN_LINES
    except OSError:
        return None


def blocks(header: Sequence[str], widths: Sequence[int], keys: int, room: int | None) -> list[list[int]]:
    """The numbers of the columns in each block of a table, which is at most `room` wide where cells allow it.

    A table that is too wide is continued in blocks that repeat its first `keys` columns. A column whose name begins
    with one of BESIDE stays beside the one before it. Without a room there is one block.
    """
    first = list(range(keys))
    units: list[list[int]] = []
    for at in range(keys, len(header)):
        if units and header[at].startswith(BESIDE):
            units[-1].append(at)
        else:
            units.append([at])
    found = [list(first)]
    for unit in units:
        width = sum(widths[at] + GAP for at in (*found[-1], *unit)) - GAP
        if room is not None and width > room and len(found[-1]) > keys:
            found.append(list(first))
        found[-1] += unit
    return found


def middle_cut(text: str, most: int) -> str:
    """A text of at most `most` characters: the beginning and the end of a longer one."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
