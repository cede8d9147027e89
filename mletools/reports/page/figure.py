"""The parts of a report's figure: title, numbers, lines and bars by matplotlib, colours by role."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..show.visible import clipped

Cell = str | float | int | None
Draw = Callable[[Any, "Palette"], None]  # on matplotlib's Axes
Point = tuple[float, float, float | None]  # across, up, ± error
FEWEST = 2  # points of a line


@dataclass(frozen=True)
class Palette:
    """Colours by role. series: of the sets, a palette for colour-blind readers (Okabe and Ito)."""

    series: tuple[str, ...] = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    medals: tuple[str, ...] = ("#C9A227", "#8A9299", "#A65E2E")  # gold, silver, bronze
    good: str = "#009E73"
    bad: str = "#D55E00"
    text: str = "#222222"
    faint: str = "#BBBBBB"

    def of(self, number: int) -> str:
        return self.series[number % len(self.series)]


@dataclass(frozen=True)
class Figure:
    """A figure and its numbers. name: of a file and in ids, without characters special to either; height: inches."""

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    draw: Draw
    height: float = 3.4


def curve(
    name: str,
    title: str,
    caption: str,
    header: tuple[str, ...],
    lines: Mapping[str, Sequence[Point]],
    across: str = "",
    sets: int = 1,
) -> Figure | None:
    """A figure of the lines with enough points; None without any. header: line, x, y and, with errors, a fourth."""
    lines = {label: points for label, points in lines.items() if len(points) >= FEWEST}
    if not lines:
        return None
    rows: list[tuple[Cell, ...]] = [
        (label, *point)[: len(header)] for label, points in lines.items() for point in points
    ]
    return Figure(name, title, caption, header, rows, line_plot(lines, across or header[1], header[2], sets))


def line_plot(lines: Mapping[str, Sequence[Point]], across: str, up: str, sets: int = 1) -> Draw:
    """One line per label, with a band if its points have errors.

    across: the x axis, a share if it begins so, else a count; sets: the number of sets, of which some may have no line.
    """

    def draw(axes: Any, palette: Palette) -> None:
        for number, (label, points) in enumerate(lines.items()):
            x, y = [point[0] for point in points], [point[1] for point in points]
            error = [point[2] or 0.0 for point in points]
            colour, style = palette.of(number), ("-", "--", "-.", ":")[number % 4]
            axes.plot(x, y, color=colour, label=named(label), linewidth=1.6, linestyle=style)
            if any(error):
                low, high = ([a + s * b for a, b in zip(y, error, strict=True)] for s in (-1, 1))
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
    colour: Callable[[Palette, int, int], str],
    form: str = "",
    stacked: bool = False,
    places: Sequence[float] = (),
    across: str = "",
) -> Draw:
    """Horizontal bars: one per name and series, side by side or stacked, with its value in `form` at its end.

    colour: of a series and a name, by their numbers; places: of the names, from top to bottom; across: the x axis, a
    share if `form` is in percent.
    """

    def draw(axes: Any, palette: Palette) -> None:
        middles = list(places or range(len(names)))
        height = 0.8 if stacked else 0.8 / len(series)
        left = [0.0] * len(names)
        for number, (label, widths) in enumerate(series.items()):
            shift = 0.0 if stacked else height * (number - (len(series) - 1) / 2)
            at = [middle + shift for middle in middles]
            colours = [colour(palette, number, name) for name in range(len(names))]
            axes.barh(at, widths, left=left, color=colours, height=height * 0.9, label=named(label))
            ends = [begin + width for begin, width in zip(left, widths, strict=True)]
            left = ends if stacked else left
            if form and (number == len(series) - 1 if stacked else len(series) <= 2):
                for place, end in zip(at, ends, strict=True):
                    axes.text(end, place, f" {end:{form}}", va="center", fontsize=8, color=palette.text)
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
    return f"{value:.0%}"


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
