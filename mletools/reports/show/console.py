"""Styled lines as bytes for a terminal, or as plain text."""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

BATCH = 500  # lines


def printer(colour: bool) -> Callable[[Iterable["Text"]], Iterator[str]]:
    """A function from lines to text, some lines at a time, each with its line end.

    Sixteen colours, so that the terminal's own palette decides; every line ends its colours, as `less -R` wants it.
    """
    from rich.console import Console
    from rich.segment import Segment, Segments

    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=colour,
        force_jupyter=False,
        color_system="standard" if colour else None,
        no_color=False,
        markup=False,
        emoji=False,
        highlight=False,
        width=1000,
        legacy_windows=False,
    )

    def written(lines: Iterable["Text"]) -> Iterator[str]:
        remaining = iter(lines)
        while batch := list(islice(remaining, BATCH)):
            # not as renderables: those would be wrapped, and their tabs replaced
            segments = [segment for line in batch for segment in (*line.render(console), Segment.line())]
            console.print(Segments(segments), end="", soft_wrap=True)
            yield file.getvalue()
            file.seek(0)
            file.truncate()

    return written
