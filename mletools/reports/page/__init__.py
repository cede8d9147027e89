"""A report as one HTML page that needs no server and no network: overview, figures, tables, rollouts, a viewer.

The page of several sets begins with the comparison of each further set with the first (headline). The template (jinja2,
autoescape) or viewer escapes all text; the page's security policy allows only its own script. Details are packed
(viewer) and unpacked when a rollout is opened. Not covered: the formulas (reports.summary), the lines of a rollout
(reports.show).
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from ...records.errors import ToolError
from ..courses import ALL
from ..lines import Table, number
from ..show.visible import visible_line
from ..tables import notes, tables
from . import plots
from .curves import fields
from .figure import Cell, Figure
from .figures import figures
from .headline import Makers, headline
from .shown import COLUMNS, Shown, cells, shown
from .viewer import Blocks, packed, piece

__all__ = ["Page", "figures", "headline", "plots"]
Record = dict[str, Any]
NONE = "-"
SECTIONS = {
    "training": ("Training", ("training-", "version-")),
    "compare": ("Comparison", ("compare-",)),
    "medals": ("Medals", ("medals-",)),
    "within": ("Within runs", ("within-",)),
    "funnel": ("Task and rollout funnels", ("tasks", "funnel", "filters")),
    "time": ("Running time", ("times",)),
}


class Page:
    """Collects graded rollouts with `add`; `html` is the page. full: the viewer shows texts in full."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.runs: list[Shown] = []
        self._rows: list[list[Any]] = []
        self._blocks = Blocks()
        self._makers = Makers()

    def add(self, rollout: Mapping[str, Any], label: str) -> None:
        each = shown(rollout, label)
        self.runs.append(each)
        self._makers.add(rollout, label)
        row = cells(each, self._blocks.add(piece(rollout, self.full)))
        self._rows.append([visible_line(cell) if isinstance(cell, str) else cell for cell in row])

    def html(
        self,
        title: str,
        summaries: Sequence[Record],
        drawn: Sequence[Figure],
        version: str,
        headlines: Sequence[Mapping[str, Any]] = (),
        steps: Mapping[str, Sequence[Record]] | None = None,
        written: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """The page, in pieces. ToolError: a library is missing.

        summaries: of reports.summary; drawn: of `figures`; headlines: of `headline`, one for each further set; steps:
        train_step records by run; written: the date of each set's file.
        """
        try:
            from jinja2 import Environment
            from markupsafe import Markup
        except ImportError as error:
            raise ToolError("the page needs jinja2: pip install 'mletools[report]'") from error
        own = files(__package__)
        script, style, template = (
            (own / name).read_text(encoding="utf-8") for name in ("page.js", "page.css", "page.html")
        )
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        overall = [row for row in summaries if row["task"] == ALL]
        groups = [(id, name, _of(drawn, prefixes)) for id, (name, prefixes) in SECTIONS.items()]
        groups = [group for group in groups if group[2]]
        ends = _best_and_worst(self.runs)
        shown_tables = [_for_template(table, ends) for table in tables(summaries)]
        sections = [("overview", "Overview"), *((id, name) for id, name, _ in groups)]
        if shown_tables:
            sections.append(("tables", "Tables"))
        if self.runs:
            sections.append(("rollouts", "Rollouts"))
        sets = list(dict.fromkeys(each.set for each in self.runs))
        yield from (
            Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_visible)
            .from_string(template)
            .generate(
                title=title,
                subtitle=f"{len(sets)} set{'s' if len(sets) != 1 else ''}: {', '.join(sets)}",
                version=version,
                script_hash=f"sha256-{digest}",
                script=Markup(script),
                style=Markup(style),
                sections=sections,
                headlines=headlines,
                makers=self._makers.table(written or {}) if self.runs else None,
                cards=list(_cards(self.runs, overall)),
                tables=shown_tables,
                notes=notes(overall).split("\n") if overall else [],
                groups=groups,
                step_data=packed(fields(steps)) if steps else None,
                rollouts=bool(self.runs),
                columns=Markup(json.dumps(COLUMNS)),
                row_data=packed(self._rows),
                blocks=self._blocks.done(),
                footer=f"Made by mle-report {version}. The file is self-contained and loads nothing.",
            )
        )


def _visible(value: Any) -> Any:
    """A text of the template as one line in which nothing is hidden; other values, and finished HTML, as they are."""
    return value if not isinstance(value, str) or hasattr(value, "__html__") else visible_line(value)


def _of(drawn: Sequence[Figure], prefixes: Sequence[str]) -> list[dict[str, Any]]:
    """The figures of a section for the template."""
    from markupsafe import Markup

    return [
        {
            "name": figure.name,
            "title": figure.title,
            "caption": figure.caption,
            "numbers": {
                "title": f"{figure.title}: numbers",
                "header": figure.header,
                "rows": [[_cell(cell) for cell in row] for row in figure.rows],
                "left": (0,),
            },
            "svg": Markup(plots.inline(figure)),
        }
        for figure in drawn
        if figure.name.startswith(tuple(prefixes))
    ]


def _cell(cell: Cell) -> str:
    if cell is None:
        return NONE
    return cell if isinstance(cell, str) else f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}"


# --- the overview ---------------------------------------------------------------------------------------------------


def _cards(runs: Sequence[Shown], overall: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    yield "Rollouts", f"{len(runs):,}", ""
    yield "Tasks", f"{len({each.run.task for each in runs}):,}", ""
    for row in overall if len(overall) == 1 else ():
        for name, words in (("valid", "Valid"), ("medal", "Any medal")):
            yield words, f"{row[name]:.1%}", _range(row[f"{name}_ci"], "{:.0%}", row["confidence"])
        if row["reward_mean"] is not None:
            yield "Reward", f"{row['reward_mean']:.3f}", _range(row["reward_ci"], "{:.3f}", row["confidence"])
    hours = sum(each.run.seconds for each in runs) / 3600
    yield "Rollout hours", f"{hours:,.1f}" if hours >= 0.05 else f"{hours:.2g}", "requests and programs, summed"
    paid = [each.run.usd for each in runs if each.run.usd is not None]
    if paid:
        yield "Cost", f"{sum(paid):,.2f} USD", "" if len(paid) == len(runs) else f"known for {len(paid)} of {len(runs)}"


def _range(interval: Sequence[float] | None, form: str, confidence: float) -> str:
    if interval is None:
        return ""
    low, high = (form.format(value) for value in interval)
    return f"{low} to {high} ({100 * confidence:.4g} % CI)"


# --- tables ---------------------------------------------------------------------------------------------------------


def _for_template(table: Table, ends: Mapping[tuple[str, str], tuple[list[Any], list[Any]]]) -> Record:
    """A table without its empty columns; that of tasks has links to the best and worst rollouts."""
    header, rows = list(table.header), [list[Any](map(visible_line, row)) for row in table.rows]
    if table.title == "By task":
        header += ["best", "worst"]
        rows = [[*row, *ends.get((row[0], row[1]), ([], []))] for row in rows]
    kept = [at for at in range(len(header)) if any(row[at] not in (NONE, "", []) for row in rows)]
    return {
        "title": table.title,
        "header": [header[at] for at in kept],
        "rows": [[row[at] for at in kept] for row in rows],
        "left": [place for place, at in enumerate(kept) if header[at] in (*table.left, "best", "worst")],
    }


def _best_and_worst(runs: Sequence[Shown]) -> dict[tuple[str, str], tuple[list[Any], list[Any]]]:
    """By task and set, links to the two best and two worst rollouts, by reward, then score: (address, words)."""
    groups: dict[tuple[str, str], list[Shown]] = {}
    for each in runs:
        groups.setdefault((visible_line(each.run.task), each.set), []).append(each)
    found = {}
    for key, of in groups.items():
        links = [(f"#{quote(visible_line(each.run.id))}", _verdict(each)) for each in sorted(of, key=_rank)]
        found[key] = links[:2], links[2:][-2:]
    return found


def _rank(each: Shown) -> tuple[float, float, str]:
    """The sort key of a rollout among those of its task: the best come first."""
    run = each.run
    score = float("inf") if run.score is None else run.score if run.lower_is_better else -run.score
    return float("inf") if run.reward is None else -run.reward, score, run.id


def _verdict(each: Shown) -> str:
    return each.run.medal or ("invalid" if not each.run.valid else number(each.run.score, ".4g"))
