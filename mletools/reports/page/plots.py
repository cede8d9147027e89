"""Figures as SVG for the page, in the page's colours, and as files for papers.

matplotlib draws both. On the page every colour is a variable of page.css, text stays text, and ids are unique per
figure, so that one document can hold many figures, in light and dark. Needs matplotlib (the extra `report`).
"""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...records.errors import ToolError
from ..show.visible import visible
from .figure import Figure, Palette

# placeholder colours, and the variables of page.css that replace them
_STAND_INS = Palette(
    series=tuple(f"#0a00{number:02x}" for number in range(1, 7)),
    medals=("#0a0011", "#0a0012", "#0a0013"),
    good="#0a0021",
    bad="#0a0022",
    text="#0a0031",
    faint="#0a0032",
)
_VARIABLES = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_STAND_INS.series, 1)},
    **dict(zip(_STAND_INS.medals, ("var(--gold)", "var(--silver)", "var(--bronze)"), strict=True)),
    _STAND_INS.good: "var(--good)",
    _STAND_INS.bad: "var(--bad)",
    _STAND_INS.text: "currentColor",
    _STAND_INS.faint: "var(--faint)",
}
_NAMED = re.compile(
    r' id="((?:figure|axes|patch|line2d|text|matplotlib\.axis|xtick|ytick|legend|FillBetweenPolyCollection|PolyCollection|LineCollection)_\d+)"'
)
_REFERENCES = re.compile(r'( id="|xlink:href="#|url\(#)([A-Za-z])')
_HEAD = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_METADATA = re.compile(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", re.DOTALL)  # comments repeat the texts
_COLOUR = re.compile(r"#0a00[0-9a-f]{2}")
FORMATS = ("svg", "png")
WIDTH = 7.0  # inches


def inline(figure: Figure) -> str:
    """The figure as an SVG element for the page."""
    svg = visible(_drawn(figure, _STAND_INS, "svg", "none").decode())
    svg = _METADATA.sub("", _HEAD.sub("", svg, count=1))
    svg = _REFERENCES.sub(rf"\g<1>{figure.name}-\2", _NAMED.sub("", svg))
    svg = _COLOUR.sub(lambda match: _VARIABLES[match[0]], svg)
    width = round(90 * WIDTH)  # 1.25 times its size in points
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    return svg.replace(
        "<svg ", f'<svg role="img" aria-labelledby="title-{figure.name}" style="max-width:{width}px" ', 1
    ).strip()


def save(figures: Iterable[Figure], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write one file per figure and format, named after the figure. ToolError: matplotlib is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in figures:
        for kind in formats:
            path = folder / f"{figure.name}.{kind}"
            path.write_bytes(_drawn(figure, Palette(), kind, "path"))
            paths.append(path)
    return paths


def _drawn(figure: Figure, palette: Palette, kind: str, fonttype: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ToolError("plots need matplotlib: pip install 'mletools[report]'") from error
    settings: Any = {
        "svg.fonttype": fonttype,
        "svg.hashsalt": figure.name,
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": palette.faint,
        "grid.alpha": 0.45,
        "grid.linewidth": 0.6,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), palette.text
        ),
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.dpi": 200,
        "text.parse_math": False,  # a task may be named `$x$`
        "text.usetex": False,
    }
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=(WIDTH, figure.height), layout="constrained")
        axes = canvas.add_subplot()
        figure.draw(axes, palette)
        sink = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        canvas.savefig(sink, format=kind, facecolor="none" if kind == "svg" else "white", metadata=metadata)
    return sink.getvalue()
