"""The options of mle-report: which sets are read, and what is printed, drawn or watched of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..records.errors import OptionError
from ..records.options import option
from .comparison import BY
from .course_tables import TABLES
from .reading import labels
from .runs import POLICIES

TABLE, PAGE, WATCH = "Tables", "Page and figures", "Following"


@dataclass(frozen=True)
class ReportOptions:
    """What is read and how it is counted; then tables, page and figures, and following a running pipe."""

    label: tuple[str, ...] = option(
        "Name the sets, one a file, in order (default: the file names).", default=(), metavar="NAME"
    )
    runs: int | None = option(
        "The k of Avg@k and Best@k, and the fewest runs a task should have (default: what the sets hold).",
        at_least=1,
        metavar="K",
    )
    missing: str = option("What a run that is not there counts as.", default="invalid", choices=POLICIES)
    best_trace: bool = option(
        "Of the traces of a run (scaffold memory) count one, the best by validation, with the cost of all.",
        default=False,
    )
    confidence: float = option("Of the intervals.", default=0.95, above=0, below=1)
    as_json: bool = option(
        "Write records (kind summary, or comparison) instead of tables.",
        default=False,
        flags=("--json",),
        heading=TABLE,
    )
    compare: bool = option("Compare the second of two sets with the first, task by task.", default=False, heading=TABLE)
    by: str | None = option("--compare: the quantity.  [default: reward]", choices=tuple(BY), heading=TABLE)
    over_time: bool = option(
        "Of searches: medals and normalised scores by the share of the budget that was used.",
        default=False,
        heading=TABLE,
    )
    over_turns: bool = option(
        "Of agents in turns: how many ask for help, and what they have so far, after each turn.",
        default=False,
        heading=TABLE,
    )
    over_traces: bool = option(
        "Of runs of traces (scaffold memory): human rank over time, of those from memory and from scratch, and by "
        "submission.",
        default=False,
        heading=TABLE,
    )
    html: bool = option(
        "One HTML page with figures, a table of rollouts, and a viewer; it loads nothing.",
        default=False,
        heading=PAGE,
    )
    full: bool = option("--html: the viewer shows all of every text (a larger page).", default=False, heading=PAGE)
    title: str | None = option("--html: of the page.  [default: Report]", metavar="TEXT", heading=PAGE)
    plots: str | None = option("Write every figure into DIR too, as SVG and PNG.", metavar="DIR", heading=PAGE)
    steps: tuple[str, ...] = option(
        "--html, --plots, --follow: train_step records, whose curves are drawn too (repeatable).",
        default=(),
        flags=("--train-steps",),
        kind="file",
        metavar="FILE",
        heading=PAGE,
    )
    tasks: tuple[str, ...] = option(
        "--html, --plots: task records in the order of their making, also --rejects and --dropped files: a funnel "
        "(repeatable).",
        default=(),
        kind="file",
        metavar="FILE",
        heading=PAGE,
    )
    follow: bool = option(
        "Watch FILES, and --train-steps, as a running pipe writes them: a dashboard on standard error, until Ctrl-C.",
        default=False,
        heading=WATCH,
    )
    interval: float = option(
        "--follow: seconds between its lines where there is no terminal.",
        default=10.0,
        above=0,
        metavar="S",
        heading=WATCH,
    )

    @property
    def tables(self) -> list[str]:
        """The tables that replace the whole report, of TABLES."""
        return [name for name in TABLES if getattr(self, name)]

    @property
    def drawn(self) -> bool:
        """Whether figures are drawn."""
        return bool(self.html or self.plots)

    @property
    def comparison(self) -> dict[str, Any]:
        """What comparisons go by, as `comparison.compare` names it."""
        settings = {"runs": self.runs, "missing": self.missing, "confidence": self.confidence}
        return {"by": self.by or "reward", **settings}

    def names(self, files: Sequence[str]) -> Sequence[str]:
        """The name of each file's set. OptionError: two have the same."""
        names = self.label or labels(files)
        if len(set(names)) < len(names):
            raise OptionError("two sets have the same name; --label tells them apart")
        return names

    def check(self, files: int) -> None:
        """OptionError for options of different outputs, and for options that do not fit this number of files."""
        if self.label and len(self.label) != files:
            raise OptionError(f"{len(self.label)} labels for {files} files")
        if self.compare and files != 2:
            raise OptionError(f"--compare needs two files, not {files}")
        if self.by and not (self.compare or self.drawn):
            raise OptionError("--by is about --compare")
        if len(self.tables) + self.compare > 1:
            raise OptionError("--compare, --over-time, --over-turns and --over-traces are different tables: give one")
        if self.html and (self.as_json or self.compare or self.tables):
            raise OptionError("--html is a page of its own: --json, --compare and --over-... are about other output")
        if not self.html and (self.full or self.title):
            raise OptionError("--full and --title are about --html")
        if self.steps and not (self.drawn or self.follow):
            raise OptionError("--train-steps is drawn: give --html, --plots DIR or --follow too")
        if self.best_trace and (self.drawn or self.over_turns or self.over_traces):
            raise OptionError(
                "--best-trace is about tables of runs; the page, figures, --over-turns and --over-traces show every "
                "trace"
            )
        if self.tasks and not self.drawn:
            raise OptionError("--tasks are drawn: give --html or --plots DIR too")
        if self.follow and (self.drawn or self.as_json or self.compare or self.tables):
            raise OptionError("--follow shows what a running pipe does, and nothing else")
