"""mle-report: what sets of graded rollouts amount to."""

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import __version__, cli
from ..records.errors import ToolError
from ..reports.comparison import BY, compare
from ..reports.runs import POLICIES, RunSet, graded_run
from ..reports.show.visible import visible_line
from ..reports.summary import summaries
from ..reports.tables import by_turn, comparison, over_time, report
from ..reports.traces import Traces
from .report_follow import follow

if TYPE_CHECKING:
    from ..reports.page import Page


@cli.command("mle-report")
@click.option(
    "--label", multiple=True, metavar="NAME", help="Name the sets, one a file, in order (default: the file names)."
)
@click.option("--json", "as_json", is_flag=True, help="Write records (kind summary, or comparison) instead of tables.")
@click.option(
    "--runs",
    type=click.IntRange(1),
    metavar="K",
    help="The k of Avg@k and Best@k, and the fewest runs a task should have (default: what the sets hold).",
)
@click.option(
    "--missing",
    type=click.Choice(POLICIES),
    default="invalid",
    show_default=True,
    help="What a run that is not there counts as.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)
@click.option(
    "--compare", "comparing", is_flag=True, help="Compare the second of two sets with the first, task by task."
)
@click.option("--by", type=click.Choice(list(BY)), help="--compare: the quantity.  [default: reward]")
@click.option(
    "--over-time",
    "by_share",
    is_flag=True,
    help="Of searches: medals and normalised scores by the share of the budget that was used.",
)
@click.option(
    "--best-trace",
    is_flag=True,
    help="Of the traces of a run (scaffold memory) count one, the best by validation, with the cost of all.",
)
@click.option(
    "--over-turns",
    "by_number",
    is_flag=True,
    help="Of agents in turns: how many ask for help, and what they have so far, after each turn.",
)
@click.option(
    "--html", is_flag=True, help="One HTML page with figures, a table of rollouts, and a viewer; it loads nothing."
)
@click.option("--full", is_flag=True, help="--html: the viewer shows all of every text (a larger page).")
@click.option("--title", metavar="TEXT", help="--html: of the page.  [default: Report]")
@click.option(
    "--steps",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="--html, --plots, --follow: train_step records, whose curves are drawn too (repeatable).",
)
@click.option(
    "--tasks",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="--html, --plots: task records in the order of their making, also --rejects and --dropped files: a funnel (repeatable).",
)
@click.option(
    "--follow",
    "following",
    is_flag=True,
    help="Watch FILES, and --steps, as a running pipe writes them: a dashboard on standard error, until Ctrl-C.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="S",
    help="--follow: seconds between its lines where there is no terminal.",
)
@click.option("--plots", metavar="DIR", help="Write every figure into DIR too, as SVG and PNG.")
@click.option("--seed", type=int, default=0, show_default=True, help="--compare, --html: of the bootstrap.")
def main(
    run: cli.Run,
    label: tuple[str, ...],
    as_json: bool,
    runs: int | None,
    missing: str,
    confidence: float,
    comparing: bool,
    by: str | None,
    by_share: bool,
    by_number: bool,
    best_trace: bool,
    html: bool,
    full: bool,
    title: str | None,
    steps: tuple[str, ...],
    tasks: tuple[str, ...],
    plots: str | None,
    following: bool,
    interval: float,
) -> None:
    """Print what the graded rollouts in FILES amount to, per task and over tasks.

    Each file is a set: valid, above median, medals, reward, score, costs, and human rank and normalised score where a
    task has a leaderboard. --json has more (every mean with its SEM and interval).

    A repeat is a seed of mle-rollout and a sample. A task's mean is over its repeats; "all" is the mean of the tasks'
    means. SEM is over repeats, sd / sqrt(n) with ddof 1; intervals are Student's t. Every task of any set should have
    as many runs as the set's fullest (or as its group size says): the rest is missing, and counted as invalid unless
    --missing says otherwise. Avg@k leaves invalid runs out and is 0 only if all k are invalid; Best@k is the best of k;
    with more than k runs both are means over all choices of k.

    Of searches (mle-rollout --scaffold search) there is a table more: loops, the share of them that improved, seconds to
    the first medal, costs by phase. --over-time shows what they would have handed in at each tenth of their budgets, and
    what perfect selection would have, instead of the other tables. --over-turns shows agents in turns after each of their
    turns: who asks an ideator for help, and the best submission so far.

    --compare pairs by task: win, tie, loss, and the mean difference with a bootstrap interval over tasks.

    --html is a page for a browser, in one file: the same numbers, figures (reward over training and by policy version, how
    far tasks and rollouts came, filters' reasons, running times, medals by kind of task, each further set against the first), a table
    of rollouts to sort and search, and every rollout as mle-show shows it. --plots has the figures as files.

    --follow shows a pipe at work, from files that `tee` and -o write (also as .partial): rollouts a minute, valid ones and
    reward of the last 100, how many sandboxes are busy, updates, staleness, who waits for whom.

    Holds the input: reads all of it before it prints (--follow does not).

    \b
    Examples:
      mle-report --label before --label after before.jsonl after.jsonl
      mle-report --compare --by medal before.jsonl after.jsonl
      mle-report --html --steps steps.jsonl -o report.html graded.jsonl
      mle-report --follow --steps steps.jsonl graded.jsonl
    """
    files = run.files or ("-",)
    if label and len(label) != len(files):
        raise click.UsageError(f"{len(label)} labels for {len(files)} files")
    if comparing and len(files) != 2:
        raise click.UsageError(f"--compare needs two files, not {len(files)}")
    if by and not (comparing or html or plots):
        raise click.UsageError("--by is about --compare")
    if (by_share or by_number) and (comparing or (by_share and by_number)):
        raise click.UsageError("--compare, --over-time and --over-turns are different tables: give one")
    if html and (as_json or comparing or by_share or by_number):
        raise click.UsageError("--html is a page of its own: --json, --compare and --over-... are about other output")
    if not html and (full or title):
        raise click.UsageError("--full and --title are about --html")
    if steps and not (html or plots or following):
        raise click.UsageError("--steps is drawn: give --html, --plots DIR or --follow too")
    if best_trace and (html or plots or by_number):
        raise click.UsageError(
            "--best-trace is about tables of runs; the page, figures and --over-turns show every trace"
        )
    if tasks and not (html or plots):
        raise click.UsageError("--tasks are drawn: give --html or --plots DIR too")
    if following:
        if html or plots or as_json or comparing or by_share or by_number:
            raise click.UsageError("--follow shows what a running pipe does, and nothing else")
        follow(run, files, steps, interval)
    names = label or _labels(files)
    if len(set(names)) < len(names):
        raise click.UsageError("two sets have the same name; --label tells them apart")
    run.open()
    page = None
    if html or plots:
        from ..reports.page import Page

        page = Page(full)
    sets = [_read(run, name, path, page, best_trace) for name, path in zip(names, files, strict=True)]
    if page is not None:
        drawn = _figures(run, page, sets, steps, tasks, (by or "reward", runs, missing, confidence, run.seed))
        if plots:
            from ..reports.page.plots import save

            run.say(f"{len(save(drawn, Path(plots)))} files in {plots}")
        if html:
            summed = summaries(sets, runs, missing, confidence)
            for text in page.html(title or "Report", summed, drawn, __version__):
                run.emit_text(text)
            return
    if comparing:
        record = compare(sets[0], sets[1], by or "reward", runs, missing, confidence, run.seed)
        records, text = [record], comparison(record)
    else:
        records = summaries(sets, runs, missing, confidence)
        text = over_time(records) if by_share else by_turn(records) if by_number else report(records)
    if as_json:
        for record in records:
            run.emit(record)
    else:
        run.emit_text(text + "\n")


def _figures(
    run: cli.Run,
    page: "Page",
    sets: Sequence[RunSet],
    steps: Sequence[str],
    tasks: Sequence[str],
    how: tuple[Any, ...],
) -> list[Any]:
    """The figures of the page; each further set is compared with the first, where they compare."""
    from ..reports.page import figures

    curves = dict(zip(_labels(steps), (_steps(run, path) for path in steps), strict=True))
    pairs = []
    for other in sets[1:]:
        try:
            pairs.append(compare(sets[0], other, *how))
        except ToolError as error:
            run.say(f"{other.label} is not compared with {sets[0].label}: {error}")
    made = dict(zip(_labels(tasks), (_fates(run, path) for path in tasks), strict=True))
    return figures(page.runs, curves, pairs, made)


def _fates(run: cli.Run, path: str) -> list[str | None]:
    """Of each task in a file, and of what was rejected there, why it was dropped; None: it was not."""
    run.files = (path,)
    return [_fate(line.record) for line in run.lines("task", "reject")]


def _fate(record: dict[str, Any]) -> str | None:
    if record["kind"] == "reject":
        return visible_line(record["reason"])
    decision = record.get("filter") or {"kept": True}
    return None if decision["kept"] else visible_line(decision.get("reason") or "dropped")


def _steps(run: cli.Run, path: str) -> list[dict[str, Any]]:
    run.files = (path,)
    return [line.record for line in run.lines("train_step")]


def _read(run: cli.Run, name: str, path: str, page: "Page | None", best_trace: bool) -> RunSet:
    """The graded rollouts of one file, which the page gets too; others, and a rollout that came before, are rejected."""
    run_set, traces = RunSet(name), Traces()
    seen: dict[str, int] = {}
    run.files = (path,)
    for line in run.lines("rollout"):
        if "grade" not in line.record:
            run.reject(line, 'no "grade": was this written by mle-grade?')
        elif (id := line.record["id"]) in seen:
            run.reject(line, f"rollout {id} again, first in line {seen[id]}: a run counts once")
        else:
            seen[id] = line.number
            graded = graded_run(line.record)
            if best_trace and "trace" in line.record:
                traces.add(line.record, graded)
            else:
                run_set.add(graded)
            if page is not None:
                page.add(line.record, name)
            run.counts["rollouts"] += 1
    for graded in traces.runs():
        run_set.add(graded)
    return run_set


def _labels(files: Sequence[str]) -> list[str]:
    """What tells the files apart: their names, or else the folders in which they differ (runs/a/steps.jsonl: a)."""
    names = ["stdin" if path == "-" else os.path.basename(path).removesuffix(".jsonl") for path in files]
    if len(set(names)) == len(names):
        return names
    if len(set(files)) < len(files):
        return list(files)
    parts = [os.path.normpath(path).removesuffix(".jsonl").split(os.sep) for path in files]
    first = _alike(parts)
    last = _alike([path[:first:-1] for path in parts])
    found = ["/".join(path[first : len(path) - last]) for path in parts]
    return found if all(found) and len(set(found)) == len(found) else list(files)


def _alike(parts: Sequence[Sequence[str]]) -> int:
    """In how many of their first parts all of them agree."""
    return sum(1 for _ in takewhile(lambda found: len(set(found)) == 1, zip(*parts, strict=False)))
