"""mle-import: tasks out of other people's folders."""

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


@cli.command("mle-import", inputs=False, jobs=True, seed=True, data=True)
@click.argument("paths", nargs=-1, metavar="FOLDER...", type=click.Path())
@options(ImportOptions, "import_options", metric={"read": read_metric})
def main(run: cli.Run, paths: tuple[str, ...], import_options: ImportOptions) -> None:
    """Convert folders of MLE-bench, MLE-Dojo, SandMLE or Kaggle, and tables, into tasks.

    \b
    Examples:
      mle-import ~/.cache/mle-bench/data --repo ~/mle-bench -j 4 -o tasks.jsonl
      mle-import house-prices --metric rmsle --target SalePrice | jq .thresholds
      mle-import wine.csv --target quality -o tasks.jsonl

    A FOLDER is one competition, or contains many; a table is CSV, TSV, Parquet or Excel. Folders that are not prepared
    are skipped, with the reason on standard error. Files are hard-linked below --data where the file system allows it,
    else copied; the folders do not change. The grading of MLE-bench's and MLE-Dojo's competitions is built in. A plain
    folder or a table needs --metric or --target; where the answers are unknown, some of its rows become the test set.

    Writes each task when it is done.
    """
    if not paths:
        raise click.UsageError("name a folder or a table to import, e.g. mle-import ~/.cache/mle-bench/data")
    import_options.check()
    run.end_dry_run()
    from ..making.importing import import_tasks

    import_tasks(run, paths, import_options)
