"""mle-filter: keep the rollouts that are worth learning from, or the tasks that are sound."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .. import cli
from ..filters import FilterOptions, Selection
from ..filters.tasks import DUPLICATE, TaskSelection, failed
from ..records import workers
from ..records.errors import RecordError, ToolError
from ..records.output import Output

if TYPE_CHECKING:
    from .metric_box import CodeBox

# Options that say something about one kind of record only.
OF_ROLLOUTS = ("keep_invalid", "min_score", "min_group", "spread")
OF_TASKS = ("check", "data", "jobs", "keep_order", "backend", "metric_timeout", "metric_memory")


@dataclass(frozen=True)
class Examiner:
    """Puts a task to the checks; a class, so that it travels to worker processes."""

    data: Path
    names: tuple[str, ...]
    code_box: "CodeBox"

    def __call__(self, line: cli.Line) -> dict[str, str]:
        from ..grading import check_task, score_bytes, standing
        from ..tasks.soundness import examine, read_case

        task = line.record
        folder = self.data / task["data"]["dir"]
        by_code = "file" in task["metric"]
        if not by_code:
            check_task({name: value for name, value in task.items() if name != "thresholds"})

        def score(submission: bytes) -> float:
            if by_code:
                return self.code_box(task, folder, submission)
            return score_bytes(task, answers, submission)

        case = read_case(task, self.data, score)
        answers = (folder / task["answers"]).read_bytes()
        thresholds = task.get("thresholds") or standing(task, folder, None, None).thresholds
        if thresholds:
            case = replace(case, task={**task, "thresholds": thresholds})
        return examine(case, self.names)


def _checks(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if value:
        from ..tasks.soundness import CHECKS

        unknown = [name for name in value if name not in CHECKS]
        if unknown:
            raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(CHECKS)}")
    return value


@cli.command("mle-filter", jobs=True, data=True)
@click.option("--tasks", is_flag=True, help="FILES are tasks: keep those that pass the checks of their data.")
@click.option(
    "--keep-invalid", is_flag=True, help="Keep rollouts without a valid submission: failures teach GRPO, too."
)
@click.option(
    "--keep-duplicates",
    is_flag=True,
    help="Keep equal programs (up to formatting) of one task; tasks of the same DNA, rule and scenario, or data.",
)
@click.option("--min-score", type=float, help="Drop valid scores worse than this, in the metric's direction.")
@click.option(
    "--min-group", type=click.IntRange(1), default=2, show_default=True, help="Drop groups with fewer members left."
)
@click.option("--spread/--no-spread", default=True, show_default=True, help="Drop groups whose rewards are all equal.")
@click.option(
    "--check",
    multiple=True,
    metavar="NAME",
    callback=_checks,
    help="Tasks: this check alone (default: all; a wrong name lists them). Repeatable.",
)
@click.option(
    "--backend",
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    cls=cli.MachineOption,
    help="Tasks whose metric is code: the sandbox it runs in.",
)
@click.option(
    "--metric-timeout",
    type=float,
    default=300.0,
    show_default=True,
    metavar="S",
    cls=cli.MachineOption,
    help="Tasks whose metric is code: wall seconds for one.",
)
@click.option(
    "--metric-memory",
    type=click.IntRange(64),
    default=4096,
    show_default=True,
    metavar="MB",
    cls=cli.MachineOption,
    help="Tasks whose metric is code: memory of one.",
)
@click.option(
    "--dropped",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Write what is dropped here, with the reason.",
)
def main(
    run: cli.Run,
    tasks: bool,
    dropped: str | None,
    check: tuple[str, ...],
    backend: str,
    metric_timeout: float,
    metric_memory: int,
    **options: Any,
) -> None:
    """Keep the rollouts in FILES that are worth learning from, or with --tasks the tasks that are sound.

    Every drop has a reason: it is counted in the summary and stands in `filter.reason` of the records in --dropped.
    Streams rollouts by group: a group is decided when its last member has arrived, or at the end of the input.

    Streams tasks one by one in input order. Their thresholds, leaks, answers, descriptions and evaluators are checked,
    whoever made them; a task that fails several checks counts under each.

    \b
    Examples:
      mle-filter --keep-invalid --keep-duplicates graded.jsonl | mle-train-grpo --model runs/sft --out runs/grpo
      mle-filter --no-spread --min-group 1 graded.jsonl | mle-train-sft --model runs/tiny --out runs/sft
      mle-import prepared/ | mle-filter --tasks -j 4 --dropped unsound.jsonl -o sound.jsonl
    """
    _refuse_mixed(tasks)
    run.open()
    side = Output(Path(dropped), None, False, lambda record: record["id"]) if dropped else None
    run.progress(run.count_lines)
    if tasks:
        from ..sandbox import Limits
        from .metric_box import CodeBox, opened

        box = CodeBox(backend, Limits(wall_s=metric_timeout, memory_mb=metric_memory))
        with opened:
            _filter_tasks(run, Examiner(run.data, check, box), TaskSelection(options["keep_duplicates"]), side)
    else:
        _filter_rollouts(run, Selection(FilterOptions(**options)), side)
    if side is not None:
        side.commit()


def _refuse_mixed(tasks: bool) -> None:
    """UsageError for an option on the command line that is about the other kind of record."""
    context = click.get_current_context()
    given = {
        param.name: param.opts[-1]
        for param in context.command.params
        if context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    }
    wrong = next((given[name] for name in (OF_ROLLOUTS if tasks else OF_TASKS) if name in given), None)
    if wrong:
        other = "is for rollouts and does nothing with --tasks" if tasks else "needs --tasks"
        raise click.UsageError(f"{wrong} {other}")


def _filter_tasks(run: cli.Run, examiner: Examiner, selection: TaskSelection, side: Output | None) -> None:
    def unfinished() -> Iterable[cli.Line]:
        for line in run.lines("task"):
            if run.finished(line.record["id"]):
                selection.took(line.record, _keys(line.record))
            else:
                yield line

    # In input order whatever -j is: which of two equal tasks is the earlier one must not depend on it.
    for line, checks, error in workers.run(examiner, unfinished(), run.jobs, keep_order=True, processes=True):
        if isinstance(error, RecordError):
            run.reject(line, str(error))
        elif isinstance(error, ToolError):
            raise ToolError(f"{line.place}: {error}") from error
        elif error is not None or checks is None:
            raise error or ToolError(f"{line.place}: no outcome")
        else:
            decision = selection.decide(line.record, checks, _keys(line.record))
            record = {**line.record, "filter": decision}
            if decision["kept"]:
                run.emit(record)
                continue
            run.counts["dropped"] += 1
            for name in failed(decision):
                run.counts[f"failed {name}" if name != DUPLICATE else "nearly the same as an earlier one"] += 1
            if side is not None:
                side.write(run.stamp(record))


def _keys(task: dict[str, Any]) -> list[str]:
    """What two nearly equal tasks share: DNA, rule and scenario where the task has these, or the data."""
    from ..tasks.likeness import likeness

    return list(dict.fromkeys([likeness(task), str(task["data"]["digest"])]))


def _filter_rollouts(run: cli.Run, selection: Selection, side: Output | None) -> None:
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
