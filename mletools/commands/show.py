"""mle-show: rollouts, tasks and training steps for a human to read in a terminal or a browser."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, cast

import click
from click.core import ParameterSource

from .. import cli
from ..base.errors import OptionError, ToolError
from ..base.options import option
from ..base.streams import is_stream
from ..cli_options import options
from ..records.rollout import Rollout
from ..records.task import Task
from ..records.training import TrainStep
from ..reports import show
from ..reports.search import is_search
from ..reports.searches import Progress, Searches, names_searches
from ..reports.show.visible import cut
from ..reports.turns import numbers

if TYPE_CHECKING:
    from rich.text import Text

Shown: TypeAlias = Rollout | Task | TrainStep
KINDS = ("rollout", "task", "train_step")
HOME, CLEAR = "\x1b[H", "\x1b[J"  # the top of the screen; and all from there
MARGIN = 2  # lines of the screen for what a shell says


@dataclass(frozen=True)
class ShowOptions:
    """Which records are shown, how much of them, and where to."""

    prefixes: tuple[str, ...] = option(
        "Only records whose id, or whose group's, begins so (repeatable; default: all).",
        default=(),
        flags=("--id",),
        metavar="PREFIX",
    )
    listing: bool = option("One line per rollout or task.", default=False, flags=("--list",))
    tree: bool = option("Searches (--scaffold search): their graph, one line per node.", default=False)
    watch: bool = option("--tree: look again until the searches have ended.", default=False)
    interval: float = option("--watch: seconds between looks.", default=2.0, above=0, kind="seconds")
    turns: tuple[int, ...] = option(
        "Only this turn, counted from 1, or this node of a search (repeatable; default: all).",
        default=(),
        flags=("--turn", "--node"),
        at_least=0,
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
            raise OptionError("--list has one line per rollout, --tree one per node: choose one")
        if self.watch and (not self.tree or self.html):
            raise OptionError("--watch is about --tree in a terminal or a pipe")
        if self.html and colour_chosen:
            raise OptionError("--color is about terminals; --html has its own colours")

    def wants(self, record: Shown) -> bool:
        """Whether the record is one of those to show."""
        group = record["group"] if record["kind"] == "rollout" else ""
        return not self.prefixes or record["id"].startswith(self.prefixes) or group.startswith(self.prefixes)

    def columns(self, terminal: int | None) -> int:
        """The width of lines; `terminal` is that of the terminal, None where there is none."""
        columns = os.environ.get("COLUMNS", "")
        return self.width or max(int(columns if columns.isdecimal() else 0) or terminal or show.View.width, 40)

    def in_colours(self, terminal: bool) -> bool:
        """Whether text has colours; `terminal`: it goes to one."""
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.colour == "always" or (self.colour == "auto" and terminal and not plain)


@cli.command("mle-show", data=True, writes="text")
@options(ShowOptions, "chosen")
def main(run: cli.Run, chosen: ShowOptions) -> None:
    """Show the rollouts, tasks or training steps in FILES to a reader.

    \b
    Examples:
      mle-show -q --color always graded.jsonl | less -R
      mle-show --list graded.jsonl
      mle-show --id 3f2a --turn 4 --full graded.jsonl
      mle-show --data data tasks.jsonl
      mle-show runs/grpo/steps.jsonl
      mle-show --tree --html -o search.html graded.jsonl
      mle-show --tree --watch night.jsonl.partial

    Rollouts begin with a summary: the grade among its thresholds, the cost, and a line per turn. What the agent saw,
    wrote and ran follows turn by turn; `/turn 7` finds a turn in less, `/node 7` a node of a search. A program is
    printed once, later versions as differences. Long texts are cut in the middle. Code, also between fences, keeps its
    lines, so that it can be copied; other text of the agent is indented and wrapped at the width. Characters that would
    control the terminal are spelled out, as in ␛[2J. The width is that of the terminal, also behind a pipe.

    Tasks are shown with metric, form of a submission, files (with sizes, if --data holds them), thresholds among the
    baselines, and description; training steps with what the run came to, and a table with a line per step.

    --tree prints each node below its parent. Where a node has several children, the line continues with the one that
    leads to the chosen node, or has most descendants, and ├ begins the others. Rollouts that are no search are
    rejected.

    FILES may also be searches that are running: graphs (in --graph DIR of mle-rollout), a folder of graphs, or the
    unfinished output (FILE or FILE.partial). They are shown as far as they have come, with the time that is left.
    --watch does so again and again: in place on a terminal, else whenever there is something new. It ends when no
    process works on FILES any more.

    Shows one record at a time; --list and training steps are read whole first. --resume begins again.
    docs/glossary.md explains the words.
    """
    chosen.check(click.get_current_context().get_parameter_source("colour") is ParameterSource.COMMANDLINE)
    files = run.files or ("-",)
    if any(map(names_searches, files)) or chosen.watch:
        run.end_dry_run()
    run.end_dry_run(*KINDS)
    terminal = run.terminal_columns
    coloured = chosen.in_colours(terminal is not None)
    written = show.html_printer() if chosen.html else show.printer(coloured)
    before, after = show.page() if chosen.html else ("", "")
    width = chosen.columns(terminal if chosen.html else run.reader_columns)
    view = show.View(chosen.full, width, frozenset(chosen.turns))
    run.open()
    if chosen.watch:
        _watch(run, chosen, written)
        return
    run.emit_text(before, styled=True)
    rows, tasks, there = [], list[dict[str, str]](), set[int]()
    steps: dict[str, list[TrainStep]] = {}  # by file
    for shown in _shown(run, chosen, files):
        if isinstance(shown, cli.Line):
            run.counts["training steps"] += 1
            steps.setdefault(shown.source, []).append(shown.record)
            continue
        record, standing = (shown.record, shown.standing()) if isinstance(shown, Progress) else (shown, "")
        if record["kind"] == "task":
            run.counts["tasks"] += 1
            tasks.append(show.task_row(record))
            lines = show.task_lines(record, view, run.data)
        else:
            run.counts["rollouts"] += 1
            there |= numbers(record)
            rows.append(show.row(record))
            lines = show.graph(record, view, standing) if chosen.tree else show.lines(record, view)
        for text in written(lines) if not chosen.listing else ():
            run.emit_text(text, styled=True)
    listed = (rows, tasks) if chosen.listing else ()
    for text in written(line for each in listed for line in show.table(each, chosen.width or terminal)):
        run.emit_text(text, styled=True)
    for text in written(line for name, of in steps.items() for line in show.step_lines(name, of, view)):
        run.emit_text(text, styled=True)
    run.emit_text(after, styled=True)
    if chosen.prefixes and not run.counts.total():
        raise ToolError(f"no record begins with {' or '.join(chosen.prefixes)}")
    if chosen.turns and run.counts["rollouts"] and there.isdisjoint(chosen.turns):
        raise ToolError(f"no rollout has turn or node {' or '.join(map(str, chosen.turns))}")


def _shown(
    run: cli.Run, chosen: ShowOptions, files: Sequence[str]
) -> Iterator[Rollout | Task | Progress | cli.Line[TrainStep]]:
    """The records to show, training steps with their files, and the searches of files that may still be written."""
    live = [file for file in files if names_searches(file)]
    yield from _wanted([Searches(file) for file in live], chosen)
    rest = tuple(file for file in files if file not in live)
    lines: Iterable[cli.Line[Shown]] = run.lines(*KINDS, files=rest) if rest else ()
    for line in lines:
        record = line.record
        if not chosen.wants(record):
            continue
        if chosen.tree:
            if record["kind"] == "rollout" and is_search(record):
                yield Progress.ended(record)
            else:
                run.reject(line, "no search: --tree shows what mle-rollout --scaffold search made")
        elif record["kind"] != "rollout" and chosen.turns:
            run.reject(line, "no rollout, so there are no turns: --turn is about rollouts")
        elif record["kind"] == "train_step":
            yield cast(cli.Line[TrainStep], line)
        else:
            yield record


def _wanted(files: Sequence[Searches], chosen: ShowOptions) -> Iterator[Progress]:
    """The searches of the files, each once: a kept graph and an output have the same."""
    seen = set()
    for progress in chain.from_iterable(file.look() for file in files):
        if chosen.wants(progress.record) and progress.record["id"] not in seen:
            seen.add(progress.record["id"])
            yield progress


def _watch(run: cli.Run, chosen: ShowOptions, written: show.Printer) -> None:
    """Draw the searches of FILES until nobody works on them any more. ToolError: a pipe cannot be watched."""
    if not run.files or any(map(is_stream, run.files)):
        raise ToolError("--watch looks at files that grow: a graph, a folder of graphs, or the -o FILE of mle-rollout")
    watched = [Searches(file) for file in run.files]
    in_place = run.terminal_columns is not None and os.environ.get("TERM") != "dumb"
    before: object = None
    if in_place:
        run.emit_text(HOME + CLEAR, styled=True)
    while True:
        running = any(each.running() for each in watched)
        searches = list(_wanted(watched, chosen))
        state = [(each.record["id"], each.state, len(each.record["turns"])) for each in searches]
        view = show.View(width=chosen.columns(run.terminal_columns))
        lines = [line for each in searches for line in show.graph(each.record, view, each.standing())]
        lines = lines or [show.styled("no search has begun")]
        if in_place and running:
            lines = _fitting(lines, run.terminal_lines or 0)
        if in_place or state != before:
            run.emit_text((HOME + CLEAR if in_place else "") + "".join(written(lines)), styled=True)
        before = state
        if not running:
            run.counts["rollouts"] = len(searches)
            return
        run.pause(chosen.interval)


def _fitting(lines: list["Text"], room: int) -> list["Text"]:
    """The lines, without the middle of what a screen has no room for."""
    room = max(room - MARGIN, 4)
    kept = lines if len(lines) <= room else cut(lines, room // 2, room - room // 2 - 1)
    return [show.left_out(each) if isinstance(each, int) else each for each in kept]
