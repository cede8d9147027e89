"""The options of mle-report: input sets, tables, page and figures, following."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from ..base.errors import OptionError
from ..base.options import option
from .comparison import BY, By, ComparisonSettings
from .reading import labels
from .runs import POLICIES, ROLES, Missing
from .table import FORMATS
from .tables import COURSES

OF_RUNS = ("missing", "runs", "confidence")  # options about a set's finished runs
TABLE, PAGE, WATCH = "Tables", "Page and figures", "Following"
_flag = partial(option, default=False)
_table, _page = partial(_flag, heading=TABLE), partial(option, heading=PAGE)
_files = partial(_page, default=(), kind="file", metavar="FILE")


@dataclass(frozen=True)
class ReportOptions:
    """Input and counting; then tables, page and figures, and following a running pipe."""

    label: tuple[str, ...] = option(
        "Names of the sets, one per file, in order (default: the file names).", default=(), metavar="NAME"
    )
    runs: int | None = option(
        "The k of Avg@k and Best@k, and the minimum number of runs per task (default: from the sets).",
        at_least=1,
        metavar="K",
    )
    missing: str = option("How a missing run counts.", default="invalid", choices=POLICIES)
    best_trace: bool = _flag(
        "Count one trace per run (scaffold memory), the best by the score that the run showed, with the cost of all."
    )
    sets_by: str | None = option(
        "Divide each file's rollouts into sets by the model that played this role.", choices=ROLES
    )
    complexity: bool = _table(
        "Also rows over the competitions of low, medium and high complexity (MLE-bench's, as imported)."
    )
    trained: tuple[str, ...] = option(
        "Tasks or rollouts that were trained on: also rows over the tasks of these, and over the others. Repeatable.",
        default=(),
        kind="existing file",
        metavar="FILE",
        heading=TABLE,
    )
    spread: str = option(
        "What stands behind ±: the standard error over repeats (ddof 1), or their standard deviation (ddof 0).",
        default="sem",
        choices=("sem", "sd"),
        heading=TABLE,
    )
    confidence: float = option("Confidence level of the intervals.", default=0.95, above=0, below=1)
    as_json: bool = _table("Write records (kind summary, or comparison) instead of tables.", flags=("--json",))
    form: str = option("Form of the tables.", default="text", choices=FORMATS, flags=("--format",), heading=TABLE)
    compare: bool = _table("Compare the second of two sets with the first, task by task.")
    by: str | None = option(
        "--compare, --html: the quantity.  [default: reward; --html: medal, if there are any]",
        choices=tuple(BY),
        heading=TABLE,
    )
    over_time: bool = _table("Searches: medals and normalised scores by share of the budget used.")
    over_turns: bool = _table("Agents in turns: share asking for help, and results so far, after each turn.")
    over_traces: bool = _table(
        "Runs of traces (scaffold memory): human rank over time, from memory and from scratch, and by submission."
    )
    html: bool = _page(
        "Write one HTML page with figures, a table of rollouts, and a viewer; it loads nothing.", default=False
    )
    full: bool = _page("--html: the viewer shows texts in full (a larger page).", default=False)
    title: str | None = _page("--html: title of the page.  [default: Report]", metavar="TEXT")
    plots: str | None = _page("Also write every figure into DIR, as SVG and PNG.", kind="folder", metavar="DIR")
    steps: tuple[str, ...] = _files(
        "--html, --plots, --follow: train_step records, to draw training curves (repeatable).",
        flags=("--train-steps",),
    )
    tasks: tuple[str, ...] = _files(
        "--html, --plots: task records in order of generation, also --rejects and --dropped files, for the funnel "
        "(repeatable)."
    )
    follow: bool = _flag(
        "Watch FILES and --train-steps while a pipe writes them: a dashboard on standard error, until Ctrl-C.",
        heading=WATCH,
    )
    interval: float = option(
        "--follow: seconds between lines, without a terminal.", default=10.0, above=0, kind="seconds", heading=WATCH
    )

    @property
    def tables(self) -> list[str]:
        """The chosen names of COURSES, which replace the whole report."""
        return [name for name in COURSES if getattr(self, name)]

    @property
    def drawn(self) -> bool:
        """Whether figures are drawn."""
        return bool(self.html or self.plots)

    @property
    def quantity(self) -> By | None:
        """What `by` names."""
        return cast(By | None, self.by)

    def comparison(self, seed: int) -> ComparisonSettings:
        """The settings of `comparison.compare`, by name."""
        return {
            "by": self.quantity or "reward",
            "runs": self.runs,
            "missing": cast(Missing, self.missing),
            "confidence": self.confidence,
            "seed": seed,
        }

    def names(self, files: Sequence[str]) -> Sequence[str]:
        """The name of each file's set. OptionError: two names are equal."""
        names = self.label or labels(files)
        if len(set(names)) < len(names):
            raise OptionError("two sets have the same name: give --label for each")
        return names

    def check(self, files: int) -> None:
        """OptionError: options of different outputs, or options that do not fit this number of files."""
        complaints = {
            f"{len(self.label)} labels for {files} files": self.label and len(self.label) != files,
            f"--compare needs two files, not {files}": self.compare and files != 2,
            "--by needs --compare, --html or --plots": self.by and not (self.compare or self.drawn),
            "--compare, --over-time, --over-turns and --over-traces are different tables: give one": (
                len(self.tables) + self.compare > 1
            ),
            "--html excludes --json, --compare and --over-..., which are other outputs": (
                self.html and (self.as_json or self.compare or self.tables)
            ),
            "--format is for tables: not with --json, --html, --follow": (
                self.form != "text" and (self.as_json or self.html or self.follow)
            ),
            "--full and --title need --html": not self.html and (self.full or self.title),
            "--train-steps needs --html, --plots DIR or --follow": self.steps and not (self.drawn or self.follow),
            "--best-trace is for tables of runs; the page, figures, --over-turns and --over-traces show every trace": (
                self.best_trace and (self.drawn or self.over_turns or self.over_traces)
            ),
            "--sets-by and --complexity are for tables: not with --html, --plots, --compare, --follow": (
                (self.sets_by or self.complexity) and (self.drawn or self.compare or self.follow)
            ),
            "--trained and --spread are for the whole report's tables: not with --html, --plots, --compare, --over-..., --follow": (
                (self.trained or self.spread != "sem") and (self.drawn or self.compare or self.tables or self.follow)
            ),
            "--tasks needs --html or --plots DIR": self.tasks and not self.drawn,
            "--follow excludes all other outputs": (
                self.follow and (self.drawn or self.as_json or self.compare or self.tables)
            ),
            "--missing, --best-trace, --runs and --confidence are for tables and figures: not with --follow": self.follow
            and (self.best_trace or any(getattr(self, each) != getattr(ReportOptions, each) for each in OF_RUNS)),
            "--interval needs --follow": self.interval != ReportOptions.interval and not self.follow,
            "--complexity is for the whole report's tables: not with --over-...": self.complexity and self.tables,
        }
        for complaint, holds in complaints.items():
            if holds:
                raise OptionError(complaint)
