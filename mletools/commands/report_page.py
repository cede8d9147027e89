"""mle-report --html and --plots: figures as a page of their own, and as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__, cli
from ..records.errors import ToolError
from ..reports.comparison import compare
from ..reports.page import Page, figures
from ..reports.page.plots import save
from ..reports.runs import RunSet
from ..reports.summary import summaries
from .report_asked import Asked
from .report_sets import fates, labels, read, steps


def draw(run: cli.Run, asked: Asked, names: Sequence[str], files: Sequence[str]) -> list[RunSet]:
    """Write the files of --plots, and the page of --html; what was read."""
    page = Page(asked.full)
    sets = [read(run, name, path, keep=page.add) for name, path in zip(names, files, strict=True)]
    summed = summaries(sets, asked.runs, asked.missing, asked.confidence)
    drawn = _figures(run, asked, page, sets, summed)
    if asked.plots:
        run.say(f"{len(save(drawn, Path(asked.plots)))} files in {asked.plots}")
    if asked.html:
        for text in page.html(asked.title or "Report", summed, drawn, __version__):
            run.emit_text(text)
    return sets


def _figures(
    run: cli.Run, asked: Asked, page: Page, sets: Sequence[RunSet], summed: Sequence[dict[str, Any]]
) -> list[Any]:
    """Each further set is compared with the first, where they compare."""
    curves = dict(zip(labels(asked.steps), (steps(run, path) for path in asked.steps), strict=True))
    pairs = []
    for other in sets[1:]:
        try:
            pairs.append(compare(sets[0], other, *asked.how, run.seed))
        except ToolError as error:
            run.say(f"{other.label} is not compared with {sets[0].label}: {error}")
    made = dict(zip(labels(asked.tasks), (fates(run, path) for path in asked.tasks), strict=True))
    return figures(page.runs, curves, pairs, made, summed)
