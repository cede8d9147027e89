"""mle-report: what sets of graded rollouts amount to."""

import os
from collections.abc import Sequence

import click

from .. import cli
from ..reports.comparison import BY, compare
from ..reports.runs import POLICIES, RunSet, graded_run
from ..reports.summary import summaries
from ..reports.tables import comparison, over_time, report


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
@click.option("--seed", type=int, default=0, show_default=True, help="--compare: of the bootstrap.")
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
    what perfect selection would have, instead of the other tables.

    --compare pairs by task: win, tie, loss, and the mean difference with a bootstrap interval over tasks.

    Holds the input: reads all of it before it prints.

    \b
    Examples:
      mle-report --label before --label after before.jsonl after.jsonl
      mle-report --compare --by medal before.jsonl after.jsonl
    """
    files = run.files or ("-",)
    if label and len(label) != len(files):
        raise click.UsageError(f"{len(label)} labels for {len(files)} files")
    if comparing and len(files) != 2:
        raise click.UsageError(f"--compare needs two files, not {len(files)}")
    if by and not comparing:
        raise click.UsageError("--by is about --compare")
    if by_share and comparing:
        raise click.UsageError("--over-time shows sets side by side; --compare pairs two")
    names = label or _labels(files)
    if len(set(names)) < len(names):
        raise click.UsageError("two sets have the same name; --label tells them apart")
    run.open()
    sets = [_read(run, name, path) for name, path in zip(names, files, strict=True)]
    if comparing:
        record = compare(sets[0], sets[1], by or "reward", runs, missing, confidence, run.seed)
        records, text = [record], comparison(record)
    else:
        records = summaries(sets, runs, missing, confidence)
        text = over_time(records) if by_share else report(records)
    if as_json:
        for record in records:
            run.emit(record)
    else:
        run.emit_text(text + "\n")


def _read(run: cli.Run, name: str, path: str) -> RunSet:
    """The graded rollouts of one file; others, and a rollout that came before, are rejected."""
    run_set = RunSet(name)
    seen: dict[str, int] = {}
    run.files = (path,)
    for line in run.lines("rollout"):
        if "grade" not in line.record:
            run.reject(line, 'no "grade": was this written by mle-grade?')
        elif (id := line.record["id"]) in seen:
            run.reject(line, f"rollout {id} again, first in line {seen[id]}: a run counts once")
        else:
            seen[id] = line.number
            run_set.add(graded_run(line.record))
            run.counts["rollouts"] += 1
    return run_set


def _labels(files: Sequence[str]) -> list[str]:
    names = ["stdin" if path == "-" else os.path.basename(path).removesuffix(".jsonl") for path in files]
    return names if len(set(names)) == len(names) else list(files)
