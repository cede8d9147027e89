"""mle-show: rollouts for a human to read in a terminal or a browser."""

import os
import shutil
import sys
from typing import Any

import click

from .. import cli
from ..records.errors import ToolError
from ..reports import show
from ..reports.search import is_search

COLOURS = ("auto", "always", "never")


def _colour(context: click.Context, param: click.Parameter, value: str) -> str:
    """`never` for `auto` without a terminal; looked up here, where standard output is still the user's."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return "never" if value == "auto" and plain else value


def _columns(context: click.Context, param: click.Parameter, value: int | None) -> int:
    return value or max(shutil.get_terminal_size((120, 50)).columns, 40)


@cli.command("mle-show", text=True)
@click.option(
    "--id",
    "prefixes",
    multiple=True,
    metavar="PREFIX",
    help="Only rollouts whose id, or whose group's, begins so (repeatable; default: all).",
)
@click.option("--list", "listing", is_flag=True, help="A line a rollout instead.")
@click.option("--tree", is_flag=True, help="Of searches (--scaffold search): their graph, a line a node.")
@click.option(
    "--turn",
    "turns",
    type=click.IntRange(1),
    multiple=True,
    metavar="K",
    help="Only this turn, counted from 1 (repeatable; default: all).",
)
@click.option("--full", is_flag=True, help="All of every text, and whole programs instead of what changed.")
@click.option(
    "--width",
    type=click.IntRange(40),
    callback=_columns,
    metavar="N",
    help="Columns.  [default: the terminal's, else 120]",
)
@click.option(
    "--color",
    "colour",
    type=click.Choice(COLOURS),
    default="auto",
    show_default=True,
    callback=_colour,
    help="auto: on a terminal, and unless NO_COLOR is set.",
)
@click.option("--html", is_flag=True, help="One HTML page, in colours, that loads nothing; else plain text.")
def main(
    run: cli.Run,
    prefixes: tuple[str, ...],
    listing: bool,
    tree: bool,
    turns: tuple[int, ...],
    full: bool,
    width: int,
    colour: str,
    html: bool,
) -> None:
    """Show the rollouts in FILES: what each came to, then turn by turn what the agent saw, wrote and ran.

    At the top the grade among its thresholds, the cost, and a line for each turn; `/turn 7` finds one in less. A program
    stands there once; of the next of its kind, what changed. Long texts are cut in the middle. Code can be copied as it
    stands; all else that an agent wrote is indented, and what would steer the terminal is spelled out, as in ␛[2J.

    --tree: a node stands below the one that it was made from; where several were, the line goes on with the one that leads
    to the chosen node, or has most below it, and ├ begins another. What is no search is rejected.

    Streams: shows one rollout at a time. --list reads all first. Text cannot be gone on with: --resume begins again.

    \b
    Examples:
      mle-show -q --color always graded.jsonl | less -R
      mle-show --list graded.jsonl
      mle-show --id 3f2a --turn 4 --full graded.jsonl
      mle-show --tree --html -o search.html graded.jsonl
    """
    if (listing or tree) and (turns or full):
        which = "--tree" if tree else "--list"
        raise click.UsageError(f"{which} shows no turns: --turn and --full are about the other way of showing")
    if listing and tree:
        raise click.UsageError("--list is a line a rollout, --tree a line a node: choose one")
    context = click.get_current_context()
    if html and context.get_parameter_source("colour") == click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--color is about terminals; --html has its own colours")
    to_file = context.params["output"] not in (None, "-")
    written = show.page() if html else show.printer(colour == "always" or (colour == "auto" and not to_file))
    before, after = show.PAGE if html else ("", "")
    run.open()
    view = show.View(full, width, frozenset(turns))
    run.emit_text(before)
    rows = []
    for line in run.lines("rollout"):
        if not _wanted(line.record, prefixes):
            continue
        if tree and not is_search(line.record):
            run.reject(line, "no search: --tree shows what mle-rollout --scaffold search made")
            continue
        run.counts["rollouts"] += 1
        if listing:
            rows.append(show.row(line.record))
            continue
        made = show.graph(line.record, view) if tree else show.lines(line.record, view)
        for text in written(made):
            run.emit_text(text)
    for text in written(show.table(rows)):
        run.emit_text(text)
    run.emit_text(after)
    if prefixes and not run.counts["rollouts"]:
        raise ToolError(f"no rollout begins with {' or '.join(prefixes)}")


def _wanted(rollout: dict[str, Any], prefixes: tuple[str, ...]) -> bool:
    return not prefixes or rollout["id"].startswith(prefixes) or rollout["group"].startswith(prefixes)
