"""mle-show: rollouts for a human to read in a terminal or a browser."""

import os
from dataclasses import dataclass

import click
from click.core import ParameterSource

from .. import cli
from ..base.errors import OptionError, ToolError
from ..base.options import option
from ..cli_options import options
from ..records.rollout import Rollout
from ..reports import show
from ..reports.search import is_search


@dataclass(frozen=True)
class ShowOptions:
    """Which rollouts are shown, how much of them, and where to."""

    prefixes: tuple[str, ...] = option(
        "Only rollouts whose id, or whose group's, begins so (repeatable; default: all).",
        default=(),
        flags=("--id",),
        metavar="PREFIX",
    )
    listing: bool = option("A line a rollout instead.", default=False, flags=("--list",))
    tree: bool = option("Of searches (--scaffold search): their graph, a line a node.", default=False)
    turns: tuple[int, ...] = option(
        "Only this turn, counted from 1 (repeatable; default: all).",
        default=(),
        flags=("--turn",),
        at_least=1,
        metavar="K",
    )
    full: bool = option("All of every text, and whole programs instead of what changed.", default=False)
    width: int | None = option("Columns.  [default: the terminal's, else 122: prompts have 120]", at_least=40)
    colour: str = option(
        "auto: on a terminal, and unless NO_COLOR is set.",
        default="auto",
        choices=("auto", "always", "never"),
        flags=("--color",),
    )
    html: bool = option("One HTML page, in colours, that loads nothing; else plain text.", default=False)

    def check(self, colour_chosen: bool) -> None:
        """OptionError for options that do not go together. colour_chosen: --color is on the command line."""
        if (self.listing or self.tree) and (self.turns or self.full):
            flag = "--tree" if self.tree else "--list"
            raise OptionError(f"{flag} shows no turns: --turn and --full are about the other way of showing")
        if self.listing and self.tree:
            raise OptionError("--list is a line a rollout, --tree a line a node: choose one")
        if self.html and colour_chosen:
            raise OptionError("--color is about terminals; --html has its own colours")

    def wants(self, rollout: Rollout) -> bool:
        """Whether the rollout is one of those to show."""
        return (
            not self.prefixes or rollout["id"].startswith(self.prefixes) or rollout["group"].startswith(self.prefixes)
        )

    def columns(self, terminal: int | None) -> int:
        """The width of lines; `terminal` is that of the terminal, None where there is none."""
        columns = os.environ.get("COLUMNS", "")
        return self.width or max(int(columns if columns.isdecimal() else 0) or terminal or show.View.width, 40)

    def in_colours(self, terminal: bool) -> bool:
        """Whether text has colours; `terminal`: it goes to one."""
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.colour == "always" or (self.colour == "auto" and terminal and not plain)


@cli.command("mle-show", writes="text")
@options(ShowOptions, "chosen")
def main(run: cli.Run, chosen: ShowOptions) -> None:
    """Show the rollouts in FILES to a reader: a summary, then turn by turn what the agent saw, wrote and ran.

    \b
    Examples:
      mle-show -q --color always graded.jsonl | less -R
      mle-show --list graded.jsonl
      mle-show --id 3f2a --turn 4 --full graded.jsonl
      mle-show --tree --html -o search.html graded.jsonl

    The summary has the grade among its thresholds, the cost, and a line per turn; `/turn 7` finds one in less. A
    program is printed once, later versions as differences. Long texts are cut in the middle. Code, also between fences,
    keeps its lines, so that it can be copied; other text of the agent is indented and broken at the width. Characters
    that would control the terminal are spelled out, as in ␛[2J.

    --tree prints each node below its parent. Where a node has several children, the line continues with the one that
    leads to the chosen node, or has most descendants, and ├ begins the others. Rollouts that are no search are
    rejected.

    Shows one rollout at a time; --list reads all first. --resume begins again.
    """
    chosen.check(click.get_current_context().get_parameter_source("colour") is ParameterSource.COMMANDLINE)
    run.end_dry_run("rollout")
    terminal = run.terminal_columns
    coloured = chosen.in_colours(terminal is not None)
    written = show.html_printer() if chosen.html else show.printer(coloured)
    before, after = show.page() if chosen.html else ("", "")
    view = show.View(chosen.full, chosen.columns(terminal), frozenset(chosen.turns))
    run.open()
    run.emit_text(before, styled=True)
    rows = []
    for line in run.lines("rollout"):
        if not chosen.wants(line.record):
            continue
        if chosen.tree and not is_search(line.record):
            run.reject(line, "no search: --tree shows what mle-rollout --scaffold search made")
            continue
        run.counts["rollouts"] += 1
        if chosen.listing:
            rows.append(show.row(line.record))
            continue
        for text in written(show.graph(line.record, view) if chosen.tree else show.lines(line.record, view)):
            run.emit_text(text, styled=True)
    for text in written(show.table(rows, chosen.width or terminal)):
        run.emit_text(text, styled=True)
    run.emit_text(after, styled=True)
    if chosen.prefixes and not run.counts["rollouts"]:
        raise ToolError(f"no rollout begins with {' or '.join(chosen.prefixes)}")
