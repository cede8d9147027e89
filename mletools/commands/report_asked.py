"""What mle-report is asked for, and which of its options go together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ..reports.course_tables import by_trace, by_turn, over_time

TABLES: dict[str, Callable[[Sequence[dict[str, Any]]], str]] = {  # instead of the whole report, one a run
    "over_time": over_time,
    "over_turns": by_turn,
    "over_traces": by_trace,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of mle-report, as the command line names them."""

    label: tuple[str, ...]
    as_json: bool
    runs: int | None
    missing: str
    confidence: float
    compare: bool
    by: str | None
    over_time: bool
    over_turns: bool
    over_traces: bool
    best_trace: bool
    html: bool
    full: bool
    title: str | None
    steps: tuple[str, ...]
    tasks: tuple[str, ...]
    plots: str | None
    follow: bool
    interval: float

    @property
    def tables(self) -> list[str]:
        """What is asked for instead of the whole report."""
        return [name for name in TABLES if getattr(self, name)]

    def check(self, files: int) -> None:
        """UsageError where options of different outputs meet, or what is given does not fit this number of files."""
        if self.label and len(self.label) != files:
            raise click.UsageError(f"{len(self.label)} labels for {files} files")
        if self.compare and files != 2:
            raise click.UsageError(f"--compare needs two files, not {files}")
        drawn = self.html or self.plots
        if self.by and not (self.compare or drawn):
            raise click.UsageError("--by is about --compare")
        if len(self.tables) + self.compare > 1:
            raise click.UsageError(
                "--compare, --over-time, --over-turns and --over-traces are different tables: give one"
            )
        if self.html and (self.as_json or self.compare or self.tables):
            raise click.UsageError(
                "--html is a page of its own: --json, --compare and --over-... are about other output"
            )
        if not self.html and (self.full or self.title):
            raise click.UsageError("--full and --title are about --html")
        if self.steps and not (drawn or self.follow):
            raise click.UsageError("--train-steps is drawn: give --html, --plots DIR or --follow too")
        if self.best_trace and (drawn or self.over_turns or self.over_traces):
            raise click.UsageError(
                "--best-trace is about tables of runs; the page, figures, --over-turns and --over-traces show every trace"
            )
        if self.tasks and not drawn:
            raise click.UsageError("--tasks are drawn: give --html or --plots DIR too")
        if self.follow and (drawn or self.as_json or self.compare or self.tables):
            raise click.UsageError("--follow shows what a running pipe does, and nothing else")

    @property
    def how(self) -> tuple[str, int | None, str, float]:
        """What comparisons go by: the quantity, the runs of a task, what a missing one counts as, the intervals' confidence."""
        return self.by or "reward", self.runs, self.missing, self.confidence
