"""mle-report: what sets of graded rollouts amount to."""

from typing import Any

import click

from .. import cli
from ..reports.comparison import BY, compare
from ..reports.runs import POLICIES
from ..reports.summary import summaries
from ..reports.tables import comparison, report
from .report_asked import TABLES, Asked
from .report_follow import follow
from .report_sets import labels, read


@cli.command("mle-report", text=True)
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
@click.option("--compare", is_flag=True, help="Compare the second of two sets with the first, task by task.")
@click.option("--by", type=click.Choice(list(BY)), help="--compare: the quantity.  [default: reward]")
@click.option(
    "--over-time",
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
    is_flag=True,
    help="Of agents in turns: how many ask for help, and what they have so far, after each turn.",
)
@click.option(
    "--over-traces",
    is_flag=True,
    help="Of runs of traces (scaffold memory): human rank over time, of those from memory and from scratch, and by submission.",
)
@click.option(
    "--html", is_flag=True, help="One HTML page with figures, a table of rollouts, and a viewer; it loads nothing."
)
@click.option("--full", is_flag=True, help="--html: the viewer shows all of every text (a larger page).")
@click.option("--title", metavar="TEXT", help="--html: of the page.  [default: Report]")
@click.option(
    "--train-steps",
    "steps",
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
    is_flag=True,
    help="Watch FILES, and --train-steps, as a running pipe writes them: a dashboard on standard error, until Ctrl-C.",
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
def main(run: cli.Run, **options: Any) -> None:
    """Print what the graded rollouts in FILES amount to, per task and over tasks.

    Each file is a set: valid, above median, medals, reward, score, costs, and human rank and normalised score where a
    task has a leaderboard. --json has more (every mean with its SEM and interval).

    A repeat is a seed of mle-rollout and a sample. A task's mean is over its repeats; "all" is the mean of the tasks'
    means. SEM is over repeats, sd / sqrt(n) with ddof 1. Intervals are Student's t over repeats, of
    shares (valid, medals) Wilson's over runs. Every task of any set should have
    as many runs as the set's fullest (or as its group size says): the rest is missing, and counted as invalid unless
    --missing says otherwise. Avg@k leaves invalid runs out and is 0 only if all k are invalid; Best@k is the best of k;
    with more than k runs both are means over all choices of k.

    Of searches (mle-rollout --scaffold search) there is a table more: loops, the share of them that improved, seconds to
    the first medal, costs by phase. --over-time shows what they would have handed in at each tenth of their budgets, and
    what perfect selection would have, instead of the other tables. --over-turns shows agents in turns after each of their
    turns: who asks an ideator for help, and the best submission so far. --over-traces shows runs of several traces: what those
    from memory and from scratch have over time, and the first k valid submissions.

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
      mle-report --html --train-steps steps.jsonl -o report.html graded.jsonl
      mle-report --follow --train-steps steps.jsonl graded.jsonl
    """
    asked = Asked(**options)
    files = run.files or ("-",)
    asked.check(len(files))
    if asked.follow:
        follow(run, files, asked.steps, asked.interval)
    names = asked.label or labels(files)
    if len(set(names)) < len(names):
        raise click.UsageError("two sets have the same name; --label tells them apart")
    run.open()
    if asked.html or asked.plots:
        from .report_page import draw

        sets = draw(run, asked, names, files)
        if asked.html:
            return
    else:
        sets = [read(run, name, path, asked.best_trace) for name, path in zip(names, files, strict=True)]
    if asked.compare:
        first, second = sets
        record = compare(first, second, *asked.how, run.seed)
        records, text = [record], comparison(record)
    else:
        records = summaries(sets, asked.runs, asked.missing, asked.confidence)
        text = TABLES[asked.tables[0]](records) if asked.tables else report(records)
    if asked.as_json:
        for record in records:
            run.emit(record)
    else:
        run.emit_text(text + "\n")
