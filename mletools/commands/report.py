"""mle-report: what sets of graded rollouts amount to."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from .. import __version__, cli
from ..base.errors import OptionError, ToolError
from ..cli_options import options
from ..filters.overlap import KnownTasks, task_of
from ..records.rollout import Rollout
from ..reports.comparison import compare
from ..reports.live import follow
from ..reports.options import TABLE, ReportOptions
from ..reports.page import Page, figures, headline, save
from ..reports.reading import drop_reason, file_date, labels, read_set
from ..reports.runs import GradedRun, RunSet, divided
from ..reports.searches import Searches, names_searches, summary
from ..reports.summary import summaries
from ..reports.tables import comparison, course, report

USUAL = (
    "--label",
    "--compare",
    "--by",
    "--json",
    "--format",
    "--html",
    "--plots",
    "--train-steps",
    "--tasks",
    "--follow",
)


@cli.command("mle-report", writes="text", usual=USUAL)
@options(ReportOptions, "chosen", "Sets")
@click.option(
    "--seed",
    cls=cli.Option,
    heading=TABLE,
    type=int,
    default=0,
    show_default=True,
    help="--compare, --html: of the bootstrap (20 tasks and more).",
)
def main(run: cli.Run, chosen: ReportOptions) -> None:
    """Summarise the graded rollouts in FILES, per task and over tasks; each file is a set.

    \b
    Examples:
      mle-report --label before --label after before.jsonl after.jsonl
      mle-report --compare --by medal before.jsonl after.jsonl
      mle-report --html --train-steps steps.jsonl -o report.html graded.jsonl
      mle-report --follow --train-steps steps.jsonl graded.jsonl

    The tables show valid submissions, those above the median, medals, reward, score and costs; for tasks with a
    leaderboard also human rank and normalised score. --json has more: every mean with its SEM and interval. The last
    lines say what the results rest on: hardware, sandbox, test feedback, budget, models, seeds.

    --compare pairs two sets by task: win, tie, loss, and the mean difference. Its interval is over runs for shares
    (Newcombe), and over tasks for all other quantities (Student's t; from 20 tasks on a bootstrap). Two sets without a
    common task are an error.

    --html writes one file for a browser. It begins with the comparison: which set is better, by how much, who made it,
    what changed most. Figures follow: training, differences by task, medals by kind of task, scores beside thresholds
    and baselines, reward against cost, pass@k, the course of runs, funnels, running times. Then come the tables, a
    table of rollouts to sort and filter, and every rollout as mle-show prints it. --plots writes the figures as files.

    --follow watches a running pipe through the files that `tee` and -o write (FILE.partial as well): rollouts per
    minute, valid share and reward of the last 100, busy sandboxes, updates, staleness, waiting times.

    --complexity adds rows for the complexities that mle-import recorded. --trained adds rows for the tasks that were
    trained on and for the others (the same by id or data, as for mle-filter --disjoint-from). --sets-by makes one set
    per model that played a role, such as several ideators in one file.

    Searches (mle-rollout --scaffold search) have a table of their own: nodes, the share of them that improved, seconds
    to the first medal, costs by phase. --over-time shows what they would have submitted after each tenth of their
    budgets, and what perfect selection would have submitted. --over-turns shows agents in turns after each turn:
    requests to an ideator, and the best submission so far. --over-traces shows runs of several traces: the best over
    time from memory and from scratch, and the first k valid submissions.

    FILES may also be searches that are running or have ended: graphs (in --graph DIR of mle-rollout), a folder of
    graphs, or the unfinished output (FILE or FILE.partial). The report then shows their nodes by operation and outcome,
    the best score over time, their cost, and the time that is left. That needs no grades, and takes only --format.

    A repeat is a seed of mle-rollout and a sample. A task's mean is over its repeats; "all" is the mean of the tasks'
    means. SEM is over repeats, sd / sqrt(n) with ddof 1; --spread sd shows their standard deviation with ddof 0 instead
    (MLE-RL's). Intervals are Student's t over repeats, and Wilson's over runs for shares (valid, medals).

    Every task should have as many runs as the set's fullest task (or its group size). Others are missing, and count as
    invalid unless --missing says otherwise. Tasks may differ in their number of traces and of states: a run of several
    traces is missing where all of them are, and rollouts from a state up to its group size. Avg@k leaves invalid runs out and is 0 only if all k are invalid; Best@k is
    the best of k. With more than k runs both are means over all choices of k.

    Reads the whole input before it prints (not with --follow). docs/glossary.md explains the words.
    """
    files = run.files or ("-",)
    chosen.check(len(files))
    if any(map(names_searches, files)):
        _report_searches(run, chosen, files)
        return
    names = chosen.names(files)
    run.end_dry_run("rollout")
    if chosen.follow:
        follow(files, chosen.steps, chosen.interval, run.say)
    run.open()
    page = Page(chosen.full) if chosen.drawn else None

    known, trained = KnownTasks(), set[str]()
    for path in chosen.trained:
        for line in run.lines("task", "rollout", files=(path,), whole=True):
            known.add(task_of(line.record), path)

    def keep(rollout: Rollout, graded: GradedRun, label: str) -> None:
        run.counts["rollouts"] += 1
        if chosen.trained and known.overlap(rollout["task"]):
            trained.add(graded.task)
        if page is not None:
            page.add(rollout, graded, label)

    sets = [
        read_set(name, run.lines("rollout", files=(path,)), run.reject, keep, chosen.best_trace)
        for name, path in zip(names, files, strict=True)
    ]
    if chosen.sets_by:
        sets = [part for run_set in sets for part in divided(run_set, chosen.sets_by)]
    if page is not None:
        _draw(run, chosen, page, sets)
    if chosen.html:
        return
    room = run.reader_columns
    records: list[Any]
    if chosen.compare:
        first, second = sets
        record = compare(first, second, **chosen.comparison(run.seed))
        records, text = [record], comparison(record, chosen.form, room)
    else:
        records = summaries(
            sets,
            chosen.runs,
            chosen.missing,
            chosen.confidence,
            chosen.complexity,
            chosen.spread,
            trained if chosen.trained else None,
        )
        shown = partial(course, chosen.tables[0]) if chosen.tables else report
        text = shown(records, chosen.form, room)
    if chosen.as_json:
        for each in records:
            run.emit(each)
    else:
        run.emit_text(text + "\n")


def _report_searches(run: cli.Run, chosen: ReportOptions, files: Sequence[str]) -> None:
    """The summary of searches that may still run. ToolError: a file is none of theirs."""
    if replace(chosen, form="text") != ReportOptions():
        raise OptionError(
            "graphs of searches have a summary of their nodes, in a --format; no other option goes with that"
        )
    for path in files:
        if not names_searches(path):
            raise ToolError(f"{path}: holds rollouts, beside graphs of searches: report one or the other")
    run.end_dry_run()
    run.open()
    searches = [progress for path in files for progress in Searches(path).look()]
    run.counts["searches"] = len(searches)
    run.emit_text(summary(searches, chosen.form, run.reader_columns) + "\n")


def _draw(run: cli.Run, chosen: ReportOptions, page: Page, sets: Sequence[RunSet]) -> None:
    """Write the figures of --plots and the page of --html."""
    records = summaries(sets, chosen.runs, chosen.missing, chosen.confidence)
    steps = {
        name: [line.record for line in run.lines("train_step", files=(path,))]
        for name, path in zip(labels(chosen.steps), chosen.steps, strict=True)
    }
    compared = [headline(sets[0], other, chosen.comparison(run.seed), chosen.quantity, run.say) for other in sets[1:]]
    headlines = [each for each in compared if each is not None]
    reasons = {
        name: [drop_reason(line.record) for line in run.lines("task", "reject", files=(path,), may_be_empty=True)]
        for name, path in zip(labels(chosen.tasks), chosen.tasks, strict=True)
    }
    drawn = figures(sets, steps, [each["record"] for each in headlines], reasons, records)
    if chosen.plots:
        run.say(f"{len(save(drawn, Path(chosen.plots)))} files in {chosen.plots}")
    if chosen.html:
        written = {each.label: date for each, path in zip(sets, run.files, strict=False) if (date := file_date(path))}
        for text in page.html(chosen.title or "Report", sets, records, drawn, __version__, headlines, steps, written):
            run.emit_text(text, styled=True)
