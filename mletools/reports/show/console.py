"""Styled lines as bytes for a terminal, as plain text, or as one HTML page that loads nothing."""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BATCH = 500  # lines


# before and after the lines of a page; whatever an agent's text may be, a browser is told to load nothing
PAGE = (
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>mle-show</title>
</head>
<body style="margin: 1em; color: #d9d9d9; background-color: #0c0c0c">
<pre style="font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; line-height: 1.25">
""",
    """</pre>
</body>
</html>
""",
)


def printer(colour: bool) -> Callable[[Iterable["Text"]], Iterator[str]]:
    """A function from lines to text, some lines at a time, each with its line end.

    Sixteen colours, so that the terminal's own palette decides; every line ends its colours, as `less -R` wants it.
    """
    file = io.StringIO()
    console = _console(file, colour)

    def written(lines: Iterable["Text"]) -> Iterator[str]:
        for _ in _batches(console, lines):
            yield file.getvalue()
            file.seek(0)
            file.truncate()

    return written


def page() -> Callable[[Iterable["Text"]], Iterator[str]]:
    """A function from lines to HTML, to stand between the two parts of PAGE: text is escaped, styles are inline."""
    from rich.terminal_theme import MONOKAI

    console = _console(io.StringIO(), True, record=True)

    def written(lines: Iterable["Text"]) -> Iterator[str]:
        for _ in _batches(console, lines):
            yield console.export_html(theme=MONOKAI, code_format="{code}", inline_styles=True)
            console.file = io.StringIO()

    return written


def _console(file: IO[str], colour: bool, record: bool = False) -> "Console":
    from rich.console import Console

    return Console(
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
        record=record,
    )


def _batches(console: "Console", lines: Iterable["Text"]) -> Iterator[None]:
    """Have the console print the lines, some at a time."""
    from rich.segment import Segment, Segments

    remaining = iter(lines)
    while batch := list(islice(remaining, BATCH)):
        # not as renderables: those would be wrapped, and their tabs replaced
        segments = [segment for line in batch for segment in (*line.render(console), Segment.line())]
        console.print(Segments(segments), end="", soft_wrap=True)
        yield
