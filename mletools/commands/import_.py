"""mle-import: tasks out of other people's folders."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..grading import check_direction, check_task, metrics, score_bytes
from ..records.errors import RecordError, ToolError
from ..tasks.importing.asked import FORMATS, Asked, Candidate, Grading, Unprepared
from ..tasks.importing.layouts import candidates
from ..tasks.importing.task import import_task
from ..tasks.table import Rejected

_FILE = {"type": click.Path(exists=True, dir_okay=False, path_type=Path), "metavar": "FILE"}


@dataclass(frozen=True)
class Importer:
    """Imports one candidate; a class, so that it travels to worker processes."""

    asked: Asked
    data: Path

    def __call__(self, candidate: Candidate) -> tuple[dict[str, Any], list[str]]:
        grading = Grading(score_bytes, check_task, check_direction, metrics.find)
        return import_task(candidate, self.asked, self.data, grading)


def _metric(context: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            metrics.find(value)
        except RecordError as error:
            raise click.BadParameter(str(error)) from None
    return value


def _params(context: click.Context, param: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.BadParameter("not a JSON object")
    return found


def _refuse(paths: tuple[str, ...], options: dict[str, Any]) -> None:
    """UsageError for options that contradict each other."""
    if not paths:
        raise click.UsageError("name a folder or a table to import, e.g. mle-import ~/.cache/mle-bench/data")
    plain = options["format"] in ("kaggle", "table")
    if options["format"] == "kaggle" and not options["metric"]:
        raise click.UsageError("--format kaggle needs --metric: a plain folder does not say how it is graded")
    if options["format"] == "table" and not options["target"]:
        raise click.UsageError("--format table needs --target: a table does not say what is to be predicted")
    if options["metric_params"] is not None and not options["metric"]:
        raise click.UsageError("--metric-params goes with --metric")
    if options["metric"] and options["lower_is_better"] is not None:
        raise click.UsageError("--metric has its direction: leave --lower-is-better and --higher-is-better out")
    if plain and options["repo"]:
        raise click.UsageError(f"--repo goes with mle-bench and mle-dojo, not with --format {options['format']}")


def _found(run: cli.Run, paths: tuple[str, ...], wanted: str) -> list[Candidate]:
    """What the paths hold, each once; what is not prepared is told and counted."""
    found = []
    for path in paths:
        for each in candidates(Path(path), wanted):
            if isinstance(each, Unprepared):
                _skip(run, each.name, each.reason)
            else:
                found.append(each)
    places: dict[str, Path] = {}
    for candidate in found:
        other = places.setdefault(candidate.source, candidate.path)
        if other != candidate.path:
            raise ToolError(f"{other} and {candidate.path} would both be {candidate.source}: import them in two runs")
    return list({candidate.source: candidate for candidate in found}.values())


def _skip(run: cli.Run, name: str, reason: str) -> None:
    run.say(f"skipped {name}: {reason}")
    run.counts["skipped"] += 1


@cli.command("mle-import", inputs=False, jobs=True, seed=True, data=True)
@click.argument("paths", nargs=-1, metavar="FOLDER...", type=click.Path())
@click.option(
    "--format",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="What the folders are; auto looks.",
)
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    cls=cli.MachineOption,
    help="A checkout of MLE-bench or MLE-Dojo: descriptions, leaderboards and graders lie there.",
)
@click.option("--metric", metavar="NAME", callback=_metric, help="Grade with this metric (mle-grade --list-metrics).")
@click.option("--metric-params", metavar="JSON", callback=_params, help="Its parameters, as a JSON object.")
@click.option(
    "--target",
    multiple=True,
    metavar="COLUMN",
    help="What to predict. Repeatable. [default: the sample's other columns]",
)
@click.option("--id", metavar="COLUMN", help="The id's column. [default: the sample's first]")
@click.option("--answers", help="The answers to test.csv of a plain folder.", **_FILE)  # type: ignore[arg-type]
@click.option("--description", help="The task's description, Markdown.", **_FILE)  # type: ignore[arg-type]
@click.option(
    "--test-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="The share of rows to hold out where answers are not known.",
)
@click.option(
    "--thresholds",
    type=click.Choice(["baselines", "none"]),
    default="baselines",
    show_default=True,
    help="Where there is no leaderboard: medals from trained baselines, or no medals.",
)
@click.option(
    "--lower-is-better/--higher-is-better",
    default=None,
    help="The direction of a grader that is code, where nothing else says it.",
)
def main(run: cli.Run, paths: tuple[str, ...], **options: Any) -> None:
    """Make tasks out of folders of MLE-bench, MLE-Dojo, SandMLE or Kaggle, and out of tables.

    A FOLDER is one competition, or holds many; a table is CSV, TSV, Parquet or Excel. What is not prepared is skipped
    and told. The folders stay as they are: files are linked below --data where the file system can, else copied. How
    the competitions of MLE-bench and MLE-Dojo are graded is known here; a plain folder or a table needs --metric or
    --target, and rows of it are held out where the answers are not known. Streams.

    \b
    Examples:
      mle-import ~/.cache/mle-bench/data --repo ~/mle-bench -j 4 -o tasks.jsonl
      mle-import house-prices --metric rmsle --target SalePrice | jq .thresholds
      mle-import wine.csv --target quality -o tasks.jsonl
    """
    _refuse(paths, options)
    asked = Asked(
        seed=run.seed,
        format=options["format"],
        repo=options["repo"].resolve() if options["repo"] else None,
        metric=options["metric"],
        params=options["metric_params"] or {},
        targets=options["target"],
        id=options["id"],
        answers=options["answers"],
        description=options["description"],
        test_share=options["test_share"],
        thresholds=options["thresholds"] == "baselines",
        lower_is_better=options["lower_is_better"],
    )
    run.open(key=lambda task: task["provenance"]["source"])
    found = _found(run, paths, options["format"])
    for name in ("answers", "description"):
        if options[name] and len(found) > 1:
            raise click.UsageError(f"--{name} is for one task, and {len(found)} are found")
    before = sum(run.finished(candidate.source) for candidate in found)
    todo = [candidate for candidate in found if not run.finished(candidate.source)]
    run.progress(len(todo), "tasks")
    for candidate, result, error in run.map(Importer(asked, run.data), todo, processes=True):
        if isinstance(error, Rejected):
            _skip(run, candidate.name, error.reason)
        elif error is not None:
            raise error
        else:
            task, notes = result
            for note in notes:
                run.say(f"{candidate.name}: {note}")
            run.emit(task)
    if not run.counts["records"] and not before:
        raise ToolError("nothing was imported")


__all__ = ["Importer", "main"]
