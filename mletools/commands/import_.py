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
    """Make tasks out of folders of MLE-bench, MLE-Dojo, SandMLE or Kaggle, and out of tables.

    A FOLDER is one competition, or holds many; a table is CSV, TSV, Parquet or Excel. What is not prepared is skipped,
    with the reason on standard error. The folders stay as they are: files are linked below --data where the file system
    can, else copied. How the competitions of MLE-bench and MLE-Dojo are graded is known here; a plain folder or a table
    needs --metric or --target, and rows of it are held out where the answers are not known. Streams.

    \b
    Examples:
      mle-import ~/.cache/mle-bench/data --repo ~/mle-bench -j 4 -o tasks.jsonl
      mle-import house-prices --metric rmsle --target SalePrice | jq .thresholds
      mle-import wine.csv --target quality -o tasks.jsonl
    """
    if not paths:
        raise click.UsageError("name a folder or a table to import, e.g. mle-import ~/.cache/mle-bench/data")
    import_options.check()
    run.end_dry_run()
    from ..making.importing import import_tasks

    import_tasks(run, paths, import_options)
