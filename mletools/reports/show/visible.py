"""Lines of a limited length."""

from collections.abc import Sequence
from typing import TypeVar

Line = TypeVar("Line")


def shortened(line: str, most: int) -> str:
    """A line of at most about `most` characters: the beginning and the end of a longer one."""
    if len(line) <= most:
        return line
    tail = most // 4
    return f"{line[: most - tail]} … {len(line) - most:,} characters … {line[-tail:]}"


def clipped(text: str, most: int = 36) -> str:
    """A text of at most `most` characters: the beginning of a longer one."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut(lines: Sequence[Line], head: int, tail: int) -> list[Line | int]:
    """The first and the last lines, and between them how many were left out; all where that saves nothing."""
    if len(lines) <= head + tail + 1:
        return list(lines)
    return [*lines[:head], len(lines) - head - tail, *lines[len(lines) - tail :]]
