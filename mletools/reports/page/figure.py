"""A report's figure: its title, its numbers, and lines or bars by matplotlib, as SVG for the page and as files for papers.

On the page every colour is a variable of page.css, text stays text, and ids are unique per figure, so that one document
can hold many figures, in light and dark. Needs matplotlib (the extra `report`).
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import ToolError
from ...base.visible import visible
from ..show.visible import clipped
from ..table import number

Cell = str | float | int | None
Draw = Callable[[Any], None]  # on matplotlib's Axes
Point = tuple[float, float, float | None]  # across, up, ± error
FEWEST = 2  # points of a line
FORMATS = ("svg", "png")
WIDTH = 7.0  # inches
# for colour-blind readers (Okabe and Ito)
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
BAD, GOOD = SERIES[1:3]
MEDALS = {"gold": "#c9a227", "silver": "#8a9299", "bronze": "#a65e2e"}
TEXT, FAINT = "#222222", "#bbbbbb"
_VARIABLES = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)},
    **{colour: f"var(--{medal})" for medal, colour in MEDALS.items()},
    TEXT: "currentColor",
    FAINT: "var(--faint)",
}
_STYLE = re.compile(r' style="[^"]*"')
_COLOUR = re.compile("|".join(_VARIABLES))
_NAMED = re.compile(
    r' id="((?:figure|axes|patch|line2d|text|matplotlib\.axis|xtick|ytick|legend|FillBetweenPolyCollection|PolyCollection|LineCollection)_\d+)"'
)
_REFERENCES = re.compile(r'( id="|xlink:href="#|url\(#)([A-Za-z])')
_HEAD = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_METADATA = re.compile(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", re.DOTALL)  # comments repeat the texts


@dataclass(frozen=True)
class Figure:
    """A figure and its numbers. name: of a file and in ids, without characters special to either; height: inches."""

    name: str
    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    draw: Draw
    height: float = 3.4


def curve(
    name: str,
    title: str,
    caption: str,
    header: Sequence[str],
    lines: Mapping[str, Sequence[Point]],
    across: str = "",
    sets: int = 1,
) -> Figure | None:
    """A figure of the lines with enough points; None without any. header: line, x, y and, with errors, a fourth."""
    lines = {label: points for label, points in lines.items() if len(points) >= FEWEST}
    if not lines:
        return None
    rows = [(label, *point)[: len(header)] for label, points in lines.items() for point in points]
    return Figure(name, title, caption, header, rows, line_plot(lines, across or header[1], header[2], sets))


def line_plot(lines: Mapping[str, Sequence[Point]], across: str, up: str, sets: int = 1) -> Draw:
    """One line per label, with a band if its points have errors.

    across: the x axis, a share if it begins so, else a count; sets: the number of sets, of which some may have no line.
    """

    def draw(axes: Any) -> None:
        for at, (label, points) in enumerate(lines.items()):
            x, y, errors = zip(*points, strict=True)
            colour, style = SERIES[at % len(SERIES)], ("-", "--", "-.", ":")[at % 4]
            axes.plot(x, y, color=colour, label=named(label), linewidth=1.6, linestyle=style)
            if any(errors):
                low, high = ([a + s * (b or 0.0) for a, b in zip(y, errors, strict=True)] for s in (-1, 1))
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        if across.startswith("share"):
            axes.xaxis.set_major_formatter(percent)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        legend(axes, max(len(lines), sets))

    return draw


def bar_plot(
    names: Sequence[str],
    series: Mapping[str, Sequence[float]],
    colours: Sequence[str | Sequence[str]],
    form: str = "",
    stacked: bool = False,
    places: Sequence[float] = (),
    across: str = "",
) -> Draw:
    """Horizontal bars: one per name and series, side by side or stacked, with its value in `form` at its end.

    colours: of each series, in turn, or of each of its bars; places: of the names, from top to bottom; across: the x
    axis, a share if `form` is in percent.
    """

    def draw(axes: Any) -> None:
        middles = list(places or range(len(names)))
        height = 0.8 if stacked else 0.8 / len(series)
        left = [0.0] * len(names)
        for turn, (label, widths) in enumerate(series.items()):
            shift = 0.0 if stacked else height * (turn - (len(series) - 1) / 2)
            rows = [middle + shift for middle in middles]
            colour = colours[turn % len(colours)]
            axes.barh(rows, widths, left=left, color=colour, height=height * 0.9, label=named(label))
            ends = [begin + width for begin, width in zip(left, widths, strict=True)]
            left = ends if stacked else left
            if form and (turn == len(series) - 1 if stacked else len(series) <= 2):
                for place, end in zip(rows, ends, strict=True):
                    axes.text(end, place, f" {number(end, form)}", va="center", fontsize=8, color=TEXT)
        axes.set_yticks(middles, names)
        axes.invert_yaxis()
        axes.set_xlabel(across)
        if form.endswith("%"):
            axes.set_xlim(0, 1.08)
            axes.xaxis.set_major_formatter(percent)
        elif form:
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.margins(x=0.12)
        legend(axes, len(series))

    return draw


def percent(value: float, _: Any) -> str:
    """A tick of an axis of shares."""
    return number(value, ".0%")


def log_ticks(axes: Any) -> None:
    """A logarithmic x axis with plain numbers at 1, 2 and 5 times the powers of ten, and none between them.

    Without formatters of its own an axis of about a decade labels its minor ticks in TeX, which is not parsed here.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axis, (low, high) = axes.xaxis, axes.get_xlim()
    axis.set_major_locator(LogLocator(10, (1, 2, 5) if high < 1e3 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def named(label: str) -> str:
    """The label for matplotlib, which hides labels that begin with _ from legends; long labels are clipped."""
    label = clipped(label, 24)
    return f" {label}" if label.startswith("_") else label


def legend(axes: Any, count: int) -> None:
    """A legend above the axes, with as many columns as fit; the figure's height grows with its rows."""
    if count < 2:
        return
    labels = axes.get_legend_handles_labels()[1]
    figure = axes.get_figure()
    width = 0.55 + 0.075 * max(map(len, labels), default=0)  # inches: the line, and characters of 9 points
    columns = max(1, min(4, len(labels), int((figure.get_figwidth() - 0.8) / width)))
    figure.set_figheight(figure.get_figheight() + 0.19 * max(0, -(-len(labels) // columns) - 2))
    axes.legend(frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


# --- as SVG for the page, and as files ------------------------------------------------------------------------------


def inline(figure: Figure) -> str:
    """The figure as an SVG element for the page."""
    svg = visible(_drawn(figure, "svg", "none").decode())
    svg = _METADATA.sub("", _HEAD.sub("", svg, count=1))
    svg = _REFERENCES.sub(rf"\g<1>{figure.name}-\2", _NAMED.sub("", svg))
    svg = _STYLE.sub(lambda style: _COLOUR.sub(lambda colour: _VARIABLES[colour[0]], style[0]), svg)
    head = f'role="img" aria-labelledby="title-{figure.name}" style="max-width:{round(90 * WIDTH)}px"'  # 1.25 times
    return re.sub(r'<svg ([^>]*?) width="[^"]*" height="[^"]*"', rf"<svg {head} \1", svg, count=1).strip()


def save(figures: Iterable[Figure], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write one file per figure and format, named after the figure. ToolError: matplotlib is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"{figure.name}.{kind}": (figure, kind) for figure in figures for kind in formats}
    for path, (figure, kind) in files.items():
        path.write_bytes(_drawn(figure, kind, "path"))
    return list(files)


def _drawn(figure: Figure, kind: str, fonttype: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ToolError("plots need matplotlib: pip install 'mletools[report]'") from error
    texts = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    settings: Any = {
        "svg.fonttype": fonttype,
        "svg.hashsalt": figure.name,
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.alpha": 0.45,
        "grid.linewidth": 0.6,
        **dict.fromkeys(texts, TEXT),
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.dpi": 200,
        "text.parse_math": False,  # a task may be named `$x$`
        "text.usetex": False,
    }
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=(WIDTH, figure.height), layout="constrained")
        figure.draw(canvas.add_subplot())
        sink = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        canvas.savefig(sink, format=kind, facecolor="none" if kind == "svg" else "white", metadata=metadata)
    return sink.getvalue()
