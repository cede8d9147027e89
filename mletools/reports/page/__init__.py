"""A report as one HTML page that needs no server and no network: overview, figures, a table of rollouts, a viewer.

The template (jinja2, autoescape) or viewer escapes all text; the page's security policy allows only its own script.
Details are packed (blocks) and unpacked when a rollout is opened. Not covered: the formulas (reports.summary), the
lines of a rollout (reports.show).
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from ...records.errors import ToolError
from ..courses import ALL
from ..lines import HANDLING, OVERALL
from ..means import RATES
from ..show.visible import visible_line
from ..tables import notes
from . import plots
from .blocks import Blocks, packed
from .figure import Cell, Figure
from .figures import figures
from .shown import COLUMNS, Shown, cells, shown
from .viewer import piece

__all__ = ["Page", "figures", "plots"]
Record = dict[str, Any]
NONE = "-"
SECTIONS = {
    "training": ("Training", ("training-", "version-")),
    "within": ("Within runs", ("within-",)),
    "funnel": ("Task and rollout funnels", ("tasks", "funnel", "filters")),
    "time": ("Running time", ("times",)),
    "medals": ("Medals", ("medals-",)),
    "compare": ("Comparison", ("compare-",)),
}


class Page:
    """Collects graded rollouts with `add`; `html` is the page. full: the viewer shows texts in full."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.runs: list[Shown] = []
        self._rows: list[list[Any]] = []
        self._blocks = Blocks()

    def add(self, rollout: Mapping[str, Any], label: str) -> None:
        each = shown(rollout, label)
        self.runs.append(each)
        row = cells(each, self._blocks.add(piece(rollout, self.full)))
        self._rows.append([visible_line(cell) if isinstance(cell, str) else cell for cell in row])

    def html(self, title: str, summaries: Sequence[Record], drawn: Sequence[Figure], version: str) -> Iterator[str]:
        """The page, in pieces. summaries: of reports.summary; drawn: of `figures`. ToolError: a library is missing."""
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
        sections = [("overview", "Overview"), *((id, name) for id, name, _ in groups)]
        if self.runs:
            sections.append(("rollouts", "Rollouts"))
        sets = list(dict.fromkeys(each.set for each in self.runs))
        yield from (
            Environment(autoescape=True)
            .from_string(template)
            .generate(
                title=visible_line(title),
                subtitle=visible_line(f"{len(sets)} set{'s' if len(sets) != 1 else ''}: {', '.join(sets)}"),
                version=version,
                script_hash=f"sha256-{digest}",
                script=Markup(script),
                style=Markup(style),
                sections=sections,
                cards=list(_cards(self.runs, overall)),
                tables=[table for table in (_over_tasks(overall), _by_task(summaries), _costs(overall)) if table],
                notes=notes(overall).split("\n") if overall else [],
                groups=groups,
                rollouts=bool(self.runs),
                columns=Markup(json.dumps(COLUMNS)),
                row_data=packed(self._rows),
                blocks=self._blocks.done(),
                footer=f"Made by mle-report {version}. The file is self-contained and loads nothing.",
            )
        )


def _of(drawn: Sequence[Figure], prefixes: Sequence[str]) -> list[dict[str, Any]]:
    """The figures of a section for the template."""
    from markupsafe import Markup

    return [
        {
            "name": figure.name,
            "title": figure.title,
            "caption": figure.caption,
            "header": figure.header,
            "rows": [[_cell(cell) for cell in row] for row in figure.rows],
            "svg": Markup(plots.inline(figure)),
        }
        for figure in drawn
        if figure.name.startswith(tuple(prefixes))
    ]


def _cell(cell: Cell) -> str:
    if cell is None:
        return NONE
    return visible_line(cell) if isinstance(cell, str) else f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}"


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


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _over_tasks(overall: Sequence[Record]) -> dict[str, Any] | None:
    rows = []
    for name, words in OVERALL.items():
        field = name if name in RATES else f"{name}_mean"
        form = ".1%" if name in RATES else ".1f" if name == "normalised" else ".4g" if name == "score" else ".3f"
        for row in overall:
            if row[field] is not None:
                interval = row[f"{name}_ci"]
                ends = NONE if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"
                values = (_number(row[field], form), _number(row[f"{name}_sem"], form), ends)
                rows.append([words, visible_line(row["set"]), *values])
    confidence = f"{100 * overall[0]['confidence']:.4g} % CI" if overall else ""
    header = ("over tasks", "set", "mean", "± SEM", confidence)
    return {"title": "Means over tasks", "header": header, "rows": rows, "left": (0, 1)} if rows else None


def _by_task(summaries: Sequence[Record]) -> dict[str, Any] | None:
    rows = [
        [
            visible_line(row["task"]), visible_line(row["set"]), f"{row['rollouts']:,}", f"{row['valid']:.0%}",
            f"{row['above_median']:.0%}", *(f"{row[name]:.0%}" for name in ("bronze", "silver", "gold", "medal")),
            _number(row["reward_mean"], ".3f"), _number(row["reward_sem"], ".3f"), _number(row["score_mean"], ".4g"),
            _number(row["human_rank_mean"], ".3f"), row["metric"],
        ]
        for row in summaries if row["task"] != ALL
    ]  # fmt: skip
    header = ("task", "set", "runs", "valid", "> median", "bronze", "silver", "gold", "any medal", "reward", "± SEM", "score", "human rank", "metric")  # fmt: skip
    return {"title": "By task", "header": header, "rows": rows, "left": (0, 1, 13)} if rows else None


def _costs(overall: Sequence[Record]) -> dict[str, Any] | None:
    rows = [
        [
            visible_line(row["set"]), f"{row['rollouts']:,}", f"{row['missing']:,} ({HANDLING[row['missing_policy']]})",
            f"{row['seconds']:,.0f}", _number(row["prompt_tokens"], ",d"), _number(row["completion_tokens"], ",d"), _number(row["usd"], ",.2f"),
        ]
        for row in overall
    ]  # fmt: skip
    header = ("set", "rollouts", "missing", "seconds", "prompt tokens", "completion tokens", "USD")
    return {"title": "Cost", "header": header, "rows": rows, "left": (0,)} if rows else None
