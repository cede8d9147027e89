"""mle-show: rollouts for a human to read in a terminal or a browser."""

import click
from click.core import ParameterSource

from .. import cli
from ..cli_options import options
from ..records.errors import ToolError
from ..reports import show
from ..reports.search import is_search
from ..reports.show.options import ShowOptions


@cli.command("mle-show", text=True)
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
    run.emit_text(before)
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
            run.emit_text(text)
    for text in written(show.table(rows, chosen.width or terminal)):
        run.emit_text(text)
    run.emit_text(after)
    if chosen.prefixes and not run.counts["rollouts"]:
        raise ToolError(f"no rollout begins with {' or '.join(chosen.prefixes)}")
