"""mle-import: tasks out of other people's folders, and rollouts out of other people's jobs."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from .. import cli
from ..base.errors import OptionError, ToolError
from ..base.jsonl import Line
from ..cli_options import options
from ..records.task import Task, WrittenTask
from ..tasks.code_metrics import CodeMetricOptions, CodeMetrics
from ..tasks.importing.options import AUTHOR, HARBOR, Candidate, ImportOptions, TrialOptions, Unprepared


def read_metric(name: str) -> str:
    """The name of a metric. ValueError: there is none of that name."""
    from ..base.errors import RecordError
    from ..grading import metrics

    try:
        metrics.find(name)
    except RecordError as error:
        raise ValueError(str(error)) from None
    return name


def read_record(path: str) -> WrittenTask:
    """The fields of a task record in a file. ValueError says what is wrong with it."""
    from ..tasks.importing.own_record import read_record

    return read_record(path)


USUAL = (
    "--format",
    "--target",
    "--metric",
    "--id",
    "--answers",
    "--description",
    "--test-share",
    "--thresholds",
    "--repo",
    "--record",
    "--seal",
)


@cli.command("mle-import", inputs=False, jobs=True, seed=True, data=True, usual=USUAL)
@click.argument("paths", nargs=-1, metavar="FOLDER...", type=click.Path())
@options(ImportOptions, "import_options", metric={"read": read_metric}, record={"read": read_record})
@options(TrialOptions, "trials", "Harbor's jobs (--format harbor)")
@options(CodeMetricOptions, "code_metrics", "Metrics that are code")
def main(
    run: cli.Run,
    paths: tuple[str, ...],
    import_options: ImportOptions,
    trials: TrialOptions,
    code_metrics: CodeMetricOptions,
) -> None:
    """Convert folders of MLE-bench, MLE-Dojo, SandMLE or Kaggle, and tables, into tasks.

    \b
    Examples:
      mle-import ~/.cache/mle-bench/data --repo ~/mle-bench -j 4 -o tasks.jsonl
      mle-import house-prices --metric rmsle --target SalePrice | jq .thresholds
      mle-import wine.csv --target quality -o tasks.jsonl
      mle-import ferry --record ferry.json -o tasks.jsonl
      mle-import --seal my-tasks.jsonl -o tasks.jsonl
      mle-import --format harbor jobs --tasks tasks.jsonl | mle-grade

    A FOLDER is one competition, or contains many; a table is CSV, TSV, Parquet or Excel. Folders that are not prepared
    are skipped, with the reason on standard error; a file that was named and cannot be imported is an error at the end.
    Files are hard-linked below --data where the file system allows it,
    else copied; the folders do not change. The grading of MLE-bench's and MLE-Dojo's competitions is built in. A plain
    folder or a table needs --metric or --target; where the answers are unknown, some of its rows become the test set.

    --record states any field of the task record yourself; one that names the answers describes a folder of any layout.
    --seal completes the records of folders that have public/ and private/ already, below --data: what is not written is
    derived, the digests are computed, and the task is checked: files, hidden answers, sample submission, and that the
    answers score as perfect. docs/importing.md has an example.

    --format harbor makes rollouts of the trials in folders of Harbor's jobs: the messages of their trajectories (ATIF), and
    the submissions among their artifacts, for mle-grade. The tasks are found by id in --tasks, their data below --data. A
    broken trial is rejected by its path (--rejects, --max-rejects).

    Writes each record when it is done.
    """
    if not paths and import_options.seal is None:
        raise click.UsageError("name a folder or a table to import, e.g. mle-import ~/.cache/mle-bench/data")
    if paths and import_options.seal is not None:
        raise click.UsageError(f"--seal reads records, in which data.dir names the folder: leave {paths[0]} out")
    import_options.check()
    trials.check(import_options.format)
    run.end_dry_run()
    with code_metrics.open() as by_code:
        if import_options.seal is not None:
            seal_tasks(run, import_options, by_code)
        elif import_options.format == HARBOR:
            import_trials(run, paths, trials)
        else:
            import_tasks(run, paths, import_options, by_code)


def import_tasks(run: cli.Run, paths: Iterable[str], options: ImportOptions, code_metrics: CodeMetrics) -> None:
    """Write a record for each task in `paths`; report and count skipped ones. ToolError: nothing was imported."""
    from ..tasks.importing.copies import copies_of
    from ..tasks.importing.task import import_task
    from ..tasks.table import Rejected

    run.open(key=lambda task: task["provenance"]["source"])
    by_author = options.record is not None and "answers" in options.record
    unused: list[str] = []  # files that were named
    sources = _candidates(run, paths, AUTHOR if by_author else options.format, unused)
    for name in ("answers", "description", "record"):
        if getattr(options, name) is not None and len(sources) > 1:
            raise OptionError(f"--{name} applies to one task, but the input has {len(sources)}")
    remaining = [candidate for candidate in sources if not run.finished(candidate.source)]
    for copy in copies_of(remaining):
        run.say(copy)
    run.progress(len(remaining), "tasks")
    importer = partial(import_task, options=replace(options, seed=run.seed), data=run.data, code_metrics=code_metrics)
    for candidate, result, error in run.map(importer, remaining, processes=True):
        if isinstance(error, Rejected):
            _skip(run, candidate.name, error.reason)
            if candidate.format == "table":
                unused.append(str(candidate.path))
        elif error is not None:
            raise error
        else:
            task, notes = result
            for note in notes:
                run.say(f"{candidate.name}: {note}")
            run.emit(task)
    if not run.counts["records"] and len(remaining) == len(sources):
        raise ToolError("nothing was imported")
    if unused:
        raise ToolError(f"not imported, although named: {', '.join(unused)}")


def import_trials(run: cli.Run, paths: Iterable[str], options: TrialOptions) -> None:
    """Write a rollout for each trial in `paths`; reject broken ones. ToolError: there is no trial, or no data of its task."""
    from ..rollout.harbor_jobs import grouped, line_of, read_tasks, rollout_of, trial_folders

    assert options.tasks is not None
    run.open()
    found, broken = grouped(trial_folders(paths), read_tasks(options.tasks))
    run.progress(len(found), "trials")
    for folder, reason in broken:
        run.reject(line_of(folder), reason)
    for trial, rollout, error in run.map(partial(rollout_of, data=run.data), found, processes=True):
        if isinstance(error, ValueError):
            run.reject(trial.line, str(error))
        elif error is not None:
            raise error
        else:
            run.emit(rollout)


def seal_tasks(run: cli.Run, options: ImportOptions, code_metrics: CodeMetrics) -> None:
    """Write the completed record of each task in options.seal. ToolError: the place of one that is not sound, and why."""
    from ..tasks.importing.own_record import read_records
    from ..tasks.table import Rejected

    assert options.seal is not None
    run.open(key=lambda task: task["data"]["dir"])
    lines = [line for line in read_records(options.seal) if not run.finished(line.record.get("data", {}).get("dir"))]
    run.progress(len(lines), "tasks")
    sealer = partial(_seal, options=replace(options, seed=run.seed), data=run.data, code_metrics=code_metrics)
    for line, result, error in run.map(sealer, lines, processes=True):
        if isinstance(error, (Rejected, ToolError)):
            raise ToolError(f"{line.place}: {error}")
        if error is not None:
            raise error
        task, notes = result
        for note in notes:
            run.say(f"{task['name']}: {note}")
        run.emit(task)


def _seal(line: Line, options: ImportOptions, data: Path, code_metrics: CodeMetrics) -> tuple[Task, list[str]]:
    from ..tasks.importing.task import seal_task

    return seal_task(line.record, options, data, code_metrics)


def _candidates(run: cli.Run, paths: Iterable[str], format: str, unused: list[str]) -> list[Candidate]:
    """The competitions and tables in the paths, each once. Unprepared ones are skipped; those that are no folder are added
    to `unused`.
    """
    from ..tasks.importing.layouts import candidates

    by_source: dict[str, Candidate] = {}
    for path in paths:
        for candidate in candidates(Path(path), format):
            if isinstance(candidate, Unprepared):
                _skip(run, candidate.name, candidate.reason)
                if not Path(path).is_dir():
                    unused.append(path)
                continue
            other = by_source.setdefault(candidate.source, candidate)
            if other.path != candidate.path:
                both = f"{other.path} and {candidate.path}"
                raise ToolError(f"{both} would both be {candidate.source}: import them in two runs")
    return list(by_source.values())


def _skip(run: cli.Run, name: str, reason: str) -> None:
    run.say(f"skipped {name}: {reason}")
    run.counts["skipped"] += 1
