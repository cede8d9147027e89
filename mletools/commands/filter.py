"""mle-filter: keep the rollouts that are worth learning from."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..filters import FilterOptions, Selection
from ..records.output import Output


@cli.command("mle-filter")
@click.option(
    "--keep-invalid", is_flag=True, help="Keep rollouts without a valid submission: failures teach GRPO, too."
)
@click.option("--keep-duplicates", is_flag=True, help="Keep equal programs (up to formatting) of one task.")
@click.option("--min-score", type=float, help="Drop valid scores worse than this, in the metric's direction.")
@click.option(
    "--min-group", type=click.IntRange(1), default=2, show_default=True, help="Drop groups with fewer members left."
)
@click.option("--spread/--no-spread", default=True, show_default=True, help="Drop groups whose rewards are all equal.")
@click.option(
    "--dropped",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Write what is dropped here, with the reason.",
)
def main(run: cli.Run, dropped: str | None, **options: Any) -> None:
    """Keep the rollouts in FILES that are worth learning from.

    Every drop has a reason: it is counted in the summary and stands in `filter.reason` of the records in --dropped.
    Streams by group: a group is decided when its last member has arrived, or at the end of the input.

    \b
    Examples:
      mle-filter --keep-invalid --keep-duplicates graded.jsonl | mle-train-grpo --model runs/sft --out runs/grpo
      mle-filter --no-spread --min-group 1 graded.jsonl | mle-train-sft --model runs/tiny --out runs/sft
    """
    run.open()
    side = Output(Path(dropped), None, False, lambda record: record["id"]) if dropped else None
    selection = Selection(FilterOptions(**options))
    run.progress(run.count_lines)

    def settle(decisions: Iterable[tuple[dict[str, Any], str | None]]) -> None:
        for rollout, reason in decisions:
            record = {**rollout, "filter": {"kept": reason is None, "reason": reason}}
            if reason is None:
                run.emit(record)
                continue
            run.counts[f"dropped ({reason.split(':')[0]})"] += 1
            if side is not None:
                side.write(run.stamp(record))

    for line in run.lines("rollout"):
        problem = next(
            (f'no "{key}": was this written by mle-grade?' for key in ("grade", "reward") if key not in line.record),
            None,
        )
        if problem:
            run.reject(line, problem)
        else:
            settle(selection.add(line.record))
    settle(selection.flush())
    if side is not None:
        side.commit()
