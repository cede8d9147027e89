"""A report as one HTML page that needs no server and no network: overview, figures, tables, rollouts, a viewer.

The page of several sets begins with the comparison of each further set with the first (headline). The template (jinja2,
autoescape) or `piece` escapes all text; the page's security policy allows only its own script. Rollouts are packed
pieces, many in one block, and a browser unpacks a block when it needs one of them: gzip in base64 has no character that
could end the enclosing element. Not covered: the formulas (reports.summary), the lines of a rollout (reports.show).
"""

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from ...base.errors import ToolError
from ...base.visible import visible_line
from ...records.rollout import Rollout
from ...records.training import TrainStep
from .. import show
from ..disclosure import described
from ..runs import RANKS, GradedRun, RunSet, ranked_against
from ..search import is_search
from ..searches import Progress
from ..show.header import STILL_COUNTS
from ..summary import ALL
from ..table import NONE, Record, Table, interval, number
from ..tables import notes, tables
from .figure import Cell, Figure, inline, save
from .figures import fields, figures
from .headline import Headline, Makers, headline

__all__ = ["Page", "figures", "headline", "save"]
WIDTH = 122  # columns of a rollout: prompts have 120, indented by 2
# lines of a tree are not broken, so on a narrow screen it is scrolled, also by the keyboard
TREE = ' class="tree" tabindex="0" role="region" aria-label="exploration graph"'
SIZE = 150_000  # approximate characters per block: unpacked in milliseconds, and large enough to compress well
SECTIONS = {
    "training": ("Training", ("training-", "version-")),
    "compare": ("Comparison", ("compare-",)),
    "medals": ("Medals", ("medals-",)),
    "scores": ("Scores", ("scores-",)),
    "cost": ("Cost", ("cost-",)),
    "tries": ("pass@k", ("pass-",)),
    "within": ("Within runs", ("within-",)),
    "funnel": ("Funnels", ("tasks", "funnel", "filters")),
    "time": ("Running time", ("times",)),
}
COLUMNS = (
    *("id", "set", "task", "modality", "scaffold", "policy", "turns", "stopped", "status", "valid", "medal", "score"),
    *("reward", "human_rank", "seconds", "execution_s", "tokens", "usd", "reading", "filter", "block", "place"),
)


class Page:
    """Collects graded rollouts with `add`; `html` is the page. full: the viewer shows texts in full."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self._rows: list[list[Any]] = []
        self._blocks: list[str] = []  # packed
        self._pieces: list[str] = []  # of the next block
        self._makers = Makers()

    def add(self, rollout: Rollout, run: GradedRun, label: str) -> None:
        self._makers.add(rollout, label)
        self._rows.append(cells(run, label, (len(self._blocks), len(self._pieces))))
        self._pieces.append(piece(rollout, self.full))
        if sum(map(len, self._pieces)) >= SIZE:
            self._close_block()

    def _close_block(self) -> None:
        self._blocks.append(packed(self._pieces))
        self._pieces = []

    def html(
        self,
        title: str,
        sets: Sequence[RunSet],
        summaries: Sequence[Record],
        drawn: Sequence[Figure],
        version: str,
        headlines: Sequence[Headline] = (),
        steps: Mapping[str, Sequence[TrainStep]] | None = None,
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
        if self._pieces:
            self._close_block()
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        overall = [row for row in summaries if row["task"] == ALL]
        groups = [
            (id, name, [_for_template(figure) for figure in drawn if figure.name.startswith(prefixes)])
            for id, (name, prefixes) in SECTIONS.items()
        ]
        groups = [group for group in groups if group[2]]
        shown_tables = [
            _with_ends(table, sets).filled() if table.title == "By task" else table for table in tables(summaries)
        ]
        sections = [("overview", "Overview"), *((id, name) for id, name, _ in groups)]
        sections += [("tables", "Tables")] if shown_tables else []
        sections += [("rollouts", "Rollouts")] if self._rows else []
        runs = [run for run_set in sets for run in run_set.runs]
        labels = [run_set.label for run_set in sets if run_set.tasks]
        yield from (
            Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_visible)
            .from_string(template)
            .generate(
                title=title,
                subtitle=f"{len(labels)} set{'s' if len(labels) != 1 else ''}: {', '.join(labels)}",
                version=version,
                script_hash=f"sha256-{digest}",
                script=Markup(script),
                style=Markup(style),
                sections=sections,
                headlines=headlines,
                makers=self._makers.table(written or {}) if self._rows else None,
                cards=list(_cards(runs, overall)),
                tables=shown_tables,
                notes=notes(overall) if overall else [],
                rests_on=described(overall),
                groups=groups,
                step_data=packed(fields(steps)) if steps else None,
                rollouts=bool(self._rows),
                columns=Markup(json.dumps(COLUMNS)),
                row_data=packed(self._rows),
                blocks=self._blocks,
                still_counts=STILL_COUNTS,
                rank=RANKS[ranked_against(runs)],
                footer=f"Made by mle-report {version}. The file is self-contained and loads nothing.",
            )
        )


def packed(value: Any) -> str:
    """A JSON value as base64 of gzip; the same value gives the same text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def piece(rollout: Rollout, full: bool = False) -> str:
    """The HTML of one valid rollout record: the lines of mle-show, its headings as sections, its styles as classes.

    The first heading is "summary": the viewer has the rollout's id above it. full: texts are not cut.
    """
    from markupsafe import escape

    written, view = show.html_printer(), show.View(full, WIDTH)

    def details(title: str, after: str, text: str, attributes: str = "") -> str:
        small = f" <small>{escape(after)}</small>" if after else ""
        return f"<details open><summary>{escape(title)}{small}</summary><pre{attributes}>{text}</pre></details>"

    sections = list[str]()
    for section in show.sections(rollout, view):
        lines = list(section.lines)
        while lines and not lines[-1].plain:
            lines.pop()
        after = visible_line(section.after).strip("─ ")
        title = section.name.strip("─ ") if sections else "summary"
        of = "" if sections else f' data-rollout="{escape(visible_line(rollout["id"]))}"'
        sections.append(details(title, after, "".join(written(lines)), of))
    if is_search(rollout):
        tree = "".join(written(show.graph(rollout, view, Progress.ended(rollout).standing())))
        sections.insert(1, details("exploration graph", "", tree, TREE))
    return "".join(sections)


def cells(run: GradedRun, label: str, place: tuple[int, int]) -> list[Any]:
    """The row of COLUMNS. label: of its set; place: the position of its details, block and index."""

    prompt, completion = run.usage["prompt_tokens"], run.usage["completion_tokens"]
    tokens = None if completion is None else (prompt or 0) + completion
    policy = run.models["policy"] if run.version is None else f"{run.models['policy']} {run.version}"
    execution_s = None if run.execution_s is None else round(run.execution_s, 2)
    row = [
        *(run.id, label, run.name, run.modality, run.scaffold, policy, run.length, run.stop_reason, run.status),
        *(run.valid, run.medal, run.score, run.reward, run.human_rank),
        *(round(run.usage["seconds"], 1), execution_s, tokens, run.usage["usd"]),
        *(" | ".join(run.ways) or None, run.decision, *place),
    ]
    return [visible_line(cell) if isinstance(cell, str) else cell for cell in row]


def _visible(value: Any) -> Any:
    """A text of the template as one line in which nothing is hidden; other values, and finished HTML, as they are."""
    return value if not isinstance(value, str) or hasattr(value, "__html__") else visible_line(value)


def _for_template(figure: Figure) -> Record:
    from markupsafe import Markup

    def words(cell: Cell) -> str:
        if cell is None or isinstance(cell, str):
            return cell or NONE
        return f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}"

    rows = [[words(cell) for cell in row] for row in figure.rows]
    numbers = Table(figure.header, rows, figure.header[:1], f"{figure.title}: numbers")
    return {**vars(figure), "numbers": numbers, "svg": Markup(inline(figure))}


def _cards(runs: Sequence[GradedRun], overall: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    """The overview's numbers: name, value, remark."""
    yield "Rollouts", f"{len(runs):,}", ""
    yield "Tasks", f"{len({run.task for run in runs}):,}", ""
    for row in overall if len(overall) == 1 else ():
        level = f"({100 * row['confidence']:.4g} % CI)"
        for name, words, mean, form in (
            ("valid", "Valid", row["valid"], ".1%"),
            ("medal", "Any medal", row["medal"], ".1%"),
            ("reward", "Reward", row["reward_mean"], ".3f"),
        ):
            ends = row[f"{name}_ci"]
            if mean is not None:
                yield words, number(mean, form), f"{interval(ends, form.replace('.1', '.0'))} {level}" if ends else ""
    hours = sum(run.usage["seconds"] for run in runs) / 3600
    yield "Rollout hours", f"{hours:,.1f}" if hours >= 0.05 else f"{hours:.2g}", "total of requests and programs"
    paid = [usd for run in runs if (usd := run.usage["usd"]) is not None]
    if paid:
        yield "Cost", f"{sum(paid):,.2f} USD", "" if len(paid) == len(runs) else f"known for {len(paid)} of {len(runs)}"


def _with_ends(table: Table, sets: Sequence[RunSet]) -> Table:
    """The table of tasks with links, (address, words), to the two best and two worst rollouts of each task and set."""
    links: dict[tuple[str, str], list[tuple[str, str]]] = {}
    ids = Counter(run.id for run_set in sets for run in run_set.runs)
    for run_set in sets:
        for task, runs in run_set.tasks.items():
            ranked = sorted(runs, key=_rank)
            label = run_set.label
            links[task, label] = [(_address(run, label if ids[run.id] > 1 else None), _verdict(run)) for run in ranked]
    ends = [links.get((row[0], row[1]), []) for row in table.rows]
    rows = [[*row, of[:2], of[2:][-2:]] for row, of in zip(table.rows, ends, strict=True)]
    return Table([*table.header, "best", "worst"], rows, (*table.left, "best", "worst"), table.title)


def _address(run: GradedRun, label: str | None) -> str:
    """The address of a rollout in the page; label: of its set, where several sets have the rollout."""
    of_set = "" if label is None else f"&set={quote(visible_line(label))}"
    return f"#{quote(visible_line(run.id))}{of_set}"


def _rank(run: GradedRun) -> tuple[float, float, str]:
    """The sort key of a rollout among those of its task: by reward, then score, the best come first."""
    score = float("inf") if run.score is None else run.score if run.lower_is_better else -run.score
    return float("inf") if run.reward is None else -run.reward, score, run.id


def _verdict(run: GradedRun) -> str:
    return run.medal or (number(run.score, ".4g") if run.valid else "invalid")
