"""The parts of a report's figure: title, numbers, drawing by matplotlib, colours by role."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    """A figure and its numbers. name: of a file and in ids, without characters special to either; size: inches."""

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    draw: Draw
    size: tuple[float, float] = (7.0, 3.4)


def line_plot(lines: Mapping[str, Sequence[Point]], across: str, up: str, share: bool = False, sets: int = 1) -> Draw:
    """One line per label, with a band if its points have errors.

    share: the x axis is a share, else a count; sets: the number of sets, of which some may have no line.
    """

    def draw(axes: Any, palette: Palette) -> None:
        for number, (label, points) in enumerate(lines.items()):
            x, y = [point[0] for point in points], [point[1] for point in points]
            error = [point[2] or 0.0 for point in points]
            colour = palette.of(number)
            axes.plot(
                x, y, color=colour, label=named(label), linewidth=1.6, linestyle=("-", "--", "-.", ":")[number % 4]
            )
            if any(error):
                low, high = ([a + s * b for a, b in zip(y, error, strict=True)] for s in (-1, 1))
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        if share:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        legend(axes, max(len(lines), sets))

    return draw


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


def clipped(text: str, most: int = 36) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
