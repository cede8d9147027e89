"""Styled lines as bytes for a terminal, as plain text, or as one HTML page that loads nothing."""

import io
from collections.abc import Callable, Iterable, Iterator
from html import escape
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

BATCH = 500  # lines
FLAGS = ("bold", "dim", "italic", "underline", "reverse")
Printer = Callable[[Iterable["Text"]], Iterator[str]]
# whatever an agent's text may be, a browser is told to load nothing
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>mle-show</title>
<style>{style}</style>
</head>
<body>
<div id="viewer"><pre>
{lines}</pre></div>
</body>
</html>
"""


def page() -> tuple[str, str]:
    """What stands before and after the lines of `html_printer` in a page of their own, in the colours of the report."""
    style = files("mletools.reports.page").joinpath("page.css").read_text(encoding="utf-8")
    before, _, after = _PAGE.partition("{lines}")
    return before.replace("{style}", style), after


def printer(colour: bool) -> Printer:
    """A function from lines to text, some lines at a time, each with its line end.

    Sixteen colours, so that the terminal's own palette decides; every line ends its colours, as `less -R` wants it.
    """
    from rich.segment import Segment, Segments

    console = _console(colour)

    def written(lines: Iterable["Text"]) -> Iterator[str]:
        remaining = iter(lines)
        while batch := list(islice(remaining, BATCH)):
            # not as renderables: those would be wrapped, and their tabs replaced
            segments = [segment for line in batch for segment in (*line.render(console), Segment.line())]
            with console.capture() as captured:
                console.print(Segments(segments), end="", soft_wrap=True)
            yield captured.get()

    return written


def html_printer() -> Printer:
    """A function from lines to HTML: text is escaped, styles are classes of page.css."""
    from rich.segment import Segment

    console = _console(True)

    def written(lines: Iterable["Text"]) -> Iterator[str]:
        for line in lines:
            # a line's own style is no span
            segments = Segment.apply_style(line.render(console), console.get_style(line.style))
            yield "".join(map(_span, segments)) + "\n"

    return written


def _span(segment: "Segment") -> str:
    """Its classes are such as `bold red` and `on-red`; colours are the terminal's sixteen."""
    text, style = escape(segment.text), segment.style
    if style is None:
        return text
    classes = [name for name in FLAGS if getattr(style, name)]
    for colour, prefix in ((style.color, ""), (style.bgcolor, "on-")):
        if colour is not None and not colour.is_default:
            classes.append(prefix + colour.name.replace("_", "-"))
    return f'<span class="{" ".join(classes)}">{text}</span>' if classes else text


def _console(colour: bool) -> "Console":
    from rich.console import Console

    return Console(
        file=io.StringIO(),
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
