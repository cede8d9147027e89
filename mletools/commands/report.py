"""mle-report: what sets of graded rollouts amount to."""

import os
from collections.abc import Sequence

import click

from .. import cli


@cli.command("mle-report")
@click.option(
    "--label", multiple=True, metavar="NAME", help="Name the sets, one a file, in order (default: the file names)."
)
@click.option("--json", "as_json", is_flag=True, help="Write the rows as records (kind summary) instead.")
def main(run: cli.Run, label: tuple[str, ...], as_json: bool) -> None:
    """Print a table of the graded rollouts in FILES: valid and medal rate, mean reward and score, per task and over all.

    Each file is a set; several are shown under one another, task by task. The table goes to standard output. Reads all
    input before it prints.

    \b
    Examples:
      mle-report graded.jsonl
      mle-report --label before --label after before.jsonl after.jsonl
    """
    from ..reports.summary import summaries, table, tally

    files = run.files or ("-",)
    if label and len(label) != len(files):
        raise click.UsageError(f"{len(label)} labels for {len(files)} files")
    run.open()
    sets = {}
    for name, path in zip(label or _labels(files), files, strict=True):
        run.files = (path,)
        rollouts = []
        for line in run.lines("rollout"):
            if "grade" not in line.record:
                run.reject(line, 'no "grade": was this written by mle-grade?')
            else:
                rollouts.append(line.record)
        sets[name] = tally(rollouts)
        run.counts["rollouts"] += len(rollouts)
    if as_json:
        for record in summaries(sets):
            run.emit(record)
    else:
        run.emit_text(table(sets) + "\n")


def _labels(files: Sequence[str]) -> list[str]:
    names = ["stdin" if path == "-" else os.path.basename(path).removesuffix(".jsonl") for path in files]
    return names if len(set(names)) == len(names) else list(files)
