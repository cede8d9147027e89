"""mle-gen-task: make tasks."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..grading import check_task, metrics, score_bytes
from ..records.errors import ToolError
from ..tasks import Rejected, make_task, sources


@dataclass(frozen=True)
class Maker:
    """Makes the task that a (source, index) pair names; a class, so that it travels to worker processes."""

    seed: int
    data: Path

    def __call__(self, wanted: tuple[str, int]) -> tuple[dict[str, Any], list[str]]:
        source, index = wanted
        task, reasons = make_task(source, index, self.seed, self.data, score_bytes, metrics.lower_is_better)
        check_task(task)
        return task, reasons


def _sources(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    try:
        return [name for spec in value for name in sources(spec)]
    except (ToolError, ValueError) as error:
        raise click.BadParameter(str(error)) from None


@cli.command("mle-gen-task", inputs=False, jobs=True, seed=True, data=True)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    cls=cli.MachineOption,
    help="How many tasks; the sources take turns.",
)
@click.option(
    "--source",
    multiple=True,
    default=("sklearn", "tabular"),
    show_default=True,
    callback=_sources,
    help="sklearn:NAME[,NAME...] (iris, wine, breast_cancer, digits, diabetes, linnerud), sklearn for all of them, or tabular. Repeatable.",
)
def main(run: cli.Run, number: int, source: list[str]) -> None:
    """Make tasks: a folder of data each under --data, and a record each on standard output.

    sklearn:NAME holds out a part of a real table that ships inside scikit-learn; tabular makes a table of 50-200 rows
    from a hidden rule. Thresholds come from baselines that are trained and scored on the held-out part; a draft whose
    thresholds are not strictly ordered is drawn again. Same seed, same bytes. Streams.

    \b
    Examples:
      mle-gen-task --source sklearn:wine -n 2 --seed 0 -o tasks.jsonl
      mle-gen-task -n 64 -j 4 | jq -r '[.name, .metric.name, .thresholds.gold] | @tsv'
    """
    run.open(key=lambda task: (task["provenance"]["source"], task["provenance"]["index"]))
    turns: Callable[[int], tuple[str, int]] = lambda i: (source[i % len(source)], i // len(source))  # noqa: E731
    wanted = [pair for pair in itertools.islice(map(turns, itertools.count()), number) if not run.finished(pair)]
    run.progress(len(wanted), "tasks")
    failed = []
    for pair, result, error in run.map(Maker(run.seed, run.data), wanted, processes=True):
        if isinstance(error, Rejected):
            failed.append(f"{pair[0]} number {pair[1]}: {error}")
            continue
        if error is not None:
            raise error
        task, reasons = result
        run.counts["drafts rejected"] += len(reasons)
        run.emit(task)
    if failed:
        raise ToolError(f"{len(failed)} of {number} tasks could not be made, for example {failed[0]}")
