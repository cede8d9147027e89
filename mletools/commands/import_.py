"""mle-import: tasks out of other people's folders."""

from typing import Any

import click

from .. import cli
from ..cli_options import options
from ..tasks.importing.options import ImportOptions


def read_metric(name: str) -> str:
    """The name of a metric. ValueError: there is none of that name."""
    from ..grading import metrics
    from ..records.errors import RecordError

    try:
        metrics.find(name)
    except RecordError as error:
        raise ValueError(str(error)) from None
    return name


def read_record(path: str) -> dict[str, Any]:
    """The fields of a task record in a file. ValueError says what is wrong with it."""
    from ..tasks.importing.own_record import read_record

    return read_record(path)


@cli.command("mle-import", inputs=False, jobs=True, seed=True, data=True)
@click.argument("paths", nargs=-1, metavar="FOLDER...", type=click.Path())
@options(ImportOptions, "import_options", metric={"read": read_metric}, record={"read": read_record})
def main(run: cli.Run, paths: tuple[str, ...], import_options: ImportOptions) -> None:
    """Convert folders of MLE-bench, MLE-Dojo, SandMLE or Kaggle, and tables, into tasks.

    \b
    Examples:
      mle-import ~/.cache/mle-bench/data --repo ~/mle-bench -j 4 -o tasks.jsonl
      mle-import house-prices --metric rmsle --target SalePrice | jq .thresholds
      mle-import wine.csv --target quality -o tasks.jsonl
      mle-import ferry --record ferry.json -o tasks.jsonl
      mle-import --seal my-tasks.jsonl -o tasks.jsonl

    A FOLDER is one competition, or contains many; a table is CSV, TSV, Parquet or Excel. Folders that are not prepared
    are skipped, with the reason on standard error. Files are hard-linked below --data where the file system allows it,
    else copied; the folders do not change. The grading of MLE-bench's and MLE-Dojo's competitions is built in. A plain
    folder or a table needs --metric or --target; where the answers are unknown, some of its rows become the test set.

    --record states any field of the task record yourself; one that names the answers describes a folder of any layout.
    --seal completes the records of folders that have public/ and private/ already, below --data: what is not written is
    derived, the digests are computed, and the task is checked: files, hidden answers, sample submission, and that the
    answers score as perfect. docs/importing.md has an example.

    Writes each task when it is done.
    """
    if not paths and import_options.seal is None:
        raise click.UsageError("name a folder or a table to import, e.g. mle-import ~/.cache/mle-bench/data")
    if paths and import_options.seal is not None:
        raise click.UsageError(f"--seal reads records, in which data.dir names the folder: leave {paths[0]} out")
    import_options.check()
    run.end_dry_run()
    from ..making.importing import import_tasks, seal_tasks

    if import_options.seal is not None:
        seal_tasks(run, import_options)
        return
    import_tasks(run, paths, import_options)
