"""mle-filter: keep the rollouts that are worth learning from, or the tasks that are sound; cut rollouts into steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from .. import cli
from ..base.errors import RecordError, ToolError
from ..base.options import option
from ..base.output import AnyRecord, Output
from ..base.words import counted
from ..cli_options import flags_on_command_line, options
from ..filters import Decision, FilterOptions, Selection
from ..filters.draws import DrawOptions, Record, Sample, parted
from ..filters.measures import measured
from ..filters.options import ApartOptions, WorkOptions, check_draws, check_scope, with_preset
from ..filters.overlap import KnownTasks, task_of
from ..filters.state import StateFile
from ..filters.steps import cut
from ..filters.tasks import TaskSelection
from ..records.rollout import Execution, Rollout, Turn
from ..tasks.code_metrics import CodeMetricOptions
from ..tasks.options import check_name

TASKS = "Checks of tasks (--tasks)"
APART = "Tasks of training and evaluation"
MOST_NAMED = 5  # tasks of both sets in an error


@dataclass(frozen=True)
class TaskCheckOptions:
    """Which checks tasks are put to; none: all."""

    check: tuple[str, ...] = option(
        "Run only this check (default: all; a wrong name lists them). Repeatable.",
        default=(),
        metavar="NAME",
        read=check_name,
    )


USUAL = (
    "--tasks",
    "--cut-steps",
    "--preset",
    "--dropped",
    "--keep-invalid",
    "--min-score",
    "--min-reward",
    "--min-medal",
    "--min-group",
    "--spread",
    "--sample",
    "--split",
    "--exact",
    "--part",
    "--exclude",
)


@cli.command("mle-filter", jobs=True, seed=True, data=True, usual=USUAL)
@options(WorkOptions, "work", "Work")
@options(FilterOptions, "filters")
@options(DrawOptions, "draws", "Random choice")
@options(ApartOptions, "apart", APART)
@options(TaskCheckOptions, "checks", TASKS)
@options(CodeMetricOptions, "code_metrics", TASKS)
def main(
    run: cli.Run,
    work: WorkOptions,
    filters: FilterOptions,
    draws: DrawOptions,
    apart: ApartOptions,
    checks: TaskCheckOptions,
    code_metrics: CodeMetricOptions,
) -> None:
    """Keep the rollouts in FILES that are worth training on, or with --tasks the sound tasks; or draw records at random.

    \b
    Examples:
      mle-filter --keep-invalid graded.jsonl \\
        | mle-train-grpo --model sft --run-dir runs/grpo
      mle-filter --min-medal silver --no-spread --min-group 1 graded.jsonl \\
        | mle-train-sft --model tiny --run-dir sft
      mle-rollout --scaffold memory -m mine --model-url $URL tasks.jsonl \\
        | mle-filter --cut-steps \\
        | mle-grade --reward human-rank \\
        | mle-filter --preset mle-rl --calibrate seen --state windows.json \\
        > steps.jsonl
      mle-gen-task -n 200 \\
        | mle-filter --split train=0.8,test=0.2 --exact \\
          --part train -o train.jsonl
      mle-import prepared/ | mle-filter --tasks --dropped bad.jsonl -o sound.jsonl
      mle-filter --disjoint-from held-out.jsonl train.jsonl > /dev/null

    Every drop has a reason. The summary counts it, and `filter.reason` of the records in --dropped states it.

    Filters apply in this order: valid, masked, --min-score, --min-reward, --min-medal, duplicates; --top (tau_abs), --tau-adv, --tau-val,
    --window; then groups. Human ranks refer to the task's leaderboard. --tau-adv compares with the previous submission
    in reset traces and with the memory's solution in memory traces; records without either pass. --tau-val drops
    records whose validation score has a low human rank; those without a validation score pass. (MLE-RL gives only the
    value of tau_val; a bound on the difference between validation and test score is another reading, not used here.)

    --cut-steps comes before mle-grade. A step is what the policy did from one valid submission to the next, with
    everything before as its prompt. Turns after the last submission, and rollouts without one, are counted; with
    --failed-steps they become steps, too, so that everything the policy wrote is in some step. In a stream give --mark:
    a rollout without a step then reaches the trainer, which counts it, and the sampler goes on.

    --state belongs to one run at a time. With -o FILE it is written when the output is complete, and --resume decides
    again from the run's beginning; without -o it is written as rollouts pass.

    --sample and --split take tasks and rollouts of any stage unchanged, and apply no filter. Calls with the same
    --split and --seed and each of its parts divide the records without overlap, in any order. A task's part depends on
    its id alone: it stays when tasks are added, and shares hold on average. With --exact it depends on the input's other
    tasks, too: give each call the same input. With both options the sample is of the part. --sample has N records, or N
    per task. An empty part is an error without --allow-empty.

    --disjoint-from and --exclude also take any records unchanged, and compare their tasks with those of FILE (tasks or
    rollouts): ids, digests of data and answers, and the table or competition that a task is made of. So renamed copies
    and other splits of one table are found. --disjoint-from passes what differs and fails at the end of the input.

    --tasks checks thresholds, leaks, answers, descriptions and evaluators of tasks from any source; a task that fails
    several checks counts under each.

    Decides each group when its last member has arrived, or at the end of the input. --top (without --calibrate seen),
    --sample and --exact read the whole input first.
    """
    flags = flags_on_command_line()
    drawing = check_draws(draws, apart, flags)
    check_scope(work, flags)
    filters = with_preset(work.preset, filters, flags)
    run.end_dry_run(*(("task", "rollout") if drawing else ("task",) if work.tasks else ("rollout",)))
    run.open()
    state = None
    if work.state is not None:
        state = StateFile(Path(work.state), run.sidecar_path("partial"), run.resume, bool(run.finished_keys))
    side = run.rewritten(work.dropped) if work.dropped else None
    run.progress(run.count_lines)
    if drawing:
        draw(run, draws, apart, side)
    elif work.tasks:
        from ..tasks.selection import Examiner, filter_tasks

        with code_metrics.open() as metrics:
            examiner = Examiner(run.data, checks.check, metrics)
            filter_tasks(run, examiner, TaskSelection(filters.keep_duplicates), side)
    elif work.steps:
        cut_steps(run, side, work.failed_steps, work.mark)
    else:
        filter_rollouts(run, filters, side, work.mark, state)
    if side is not None:
        side.commit()


def filter_rollouts(
    run: cli.Run, filters: FilterOptions, side: Output | None, mark: bool, state: StateFile | None
) -> None:
    """Keep the rollouts of the run's input that are worth learning from; what is dropped goes to `side`."""
    from ..grading.grader import HumanRanks

    selection = Selection(filters, state.remembered) if state else Selection(filters)
    tasks, kept, equal = set(), set(), set()  # ids of all, of those with something kept, of those without spread
    compares, told = filters.spread or filters.min_group > 1, False
    human_ranks = HumanRanks(run.data)

    def write(decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            record = decision.as_record()
            task = record["task"]["id"]
            tasks.add(task)
            if decision.reason is None:
                kept.add(task)
            elif decision.reason.startswith("no spread") and record["grade"]["reward"].get("clamped"):
                equal.add(task)
            if decision.reason is None or mark:
                run.emit(record)
            if decision.reason is not None:
                run.counts[f"dropped ({decision.reason.split(':')[0]})"] += 1
                if side is not None:
                    side.write(run.stamp(record))
            if state is not None:
                state.record_written()

    with state or nullcontext():
        for line in run.lines("rollout"):
            if compares and not told and "trace" in line.record and "cut" not in line.record:
                told = True
                run.say(
                    "traces of a run do not answer one prompt, and are compared as they come: --min-group 1 --no-spread"
                )
            try:
                measures = measured(line.record, filters, human_ranks)
            except RecordError as error:
                run.reject(line, str(error))
            else:
                write(selection.add(line.record, measures))
        write(selection.flush())
    if lost := len(equal - kept):
        run.say(
            f"{lost} of {len(tasks)} tasks have no signal: the rewards of their groups are equal, and mle-grade raised "
            "valid scores to the best failure's reward (--scale-score thresholds)"
        )
    if selection.decided_early:
        run.counts["groups decided before they were complete (--open-groups)"] = selection.decided_early


def tasks_of(run: cli.Run, paths: Sequence[str]) -> KnownTasks:
    """The tasks of files of tasks or rollouts. ToolError: a line is invalid, or a file has none: what it held is unknown."""
    known = KnownTasks()
    for path in paths:
        for line in run.lines("task", "rollout", files=(path,), whole=True):
            known.add(task_of(line.record), path)
    return known


def draw(run: cli.Run, draws: DrawOptions, apart: ApartOptions, side: Output | None) -> None:
    """Keep records of other tasks than `apart` names, and of these such as are drawn at random; the rest goes to `side`.

    ToolError: tasks that must not be in the input are.
    """
    sample = Sample(draws.sample, draws.per, run.seed) if draws.sample else None
    refused, excluded = tasks_of(run, apart.disjoint_from), tasks_of(run, apart.exclude)
    both: dict[str, str] = {}  # what is refused, in words, by task
    seen = 0

    def leave_out(record: AnyRecord, reason: str) -> None:
        run.counts[reason.partition(":")[0]] += 1
        if side is not None:
            earlier = record.get("filter")
            decision = {**(earlier if isinstance(earlier, dict) else {}), "kept": False, "reason": reason}
            side.write(run.stamp({**record, "filter": decision}))

    def apart_ones() -> Iterator[Record]:
        for line in run.lines("task", "rollout"):
            task = task_of(line.record)
            if overlap := refused.overlap(task):
                both[overlap.task] = f"{overlap.task} is in {overlap.file} ({overlap.why})"
            elif overlap := excluded.overlap(task):
                leave_out(line.record, f"in {overlap.file}: {overlap.why}")
            else:
                yield line.record

    for record, part in parted(apart_ones(), draws, run.seed):
        if part != draws.part:
            leave_out(record, f"in other parts: {part}")
            continue
        seen += 1
        if sample is None:
            run.emit(record)
        elif (out := sample.add(record)) is not None:
            leave_out(out, "not drawn: others have a smaller hash")
    if both:
        named = "; ".join(list(both.values())[:MOST_NAMED])
        more = f"; and {len(both) - MOST_NAMED} more" if len(both) > MOST_NAMED else ""
        raise ToolError(f"--disjoint-from: {named}{more}. --exclude FILE leaves such tasks out")
    if draws.split is not None and not seen and not run.allow_empty:
        how = "whole tasks stay together, and it was given none" if draws.exact else "--exact gives it its share"
        raise ToolError(
            f"--split: the part {draws.part} has none of {counted(run.counts['in other parts'], 'records')}; {how}, another "
            "--seed divides otherwise, and --allow-empty accepts it"
        )
    if sample is not None:
        for record in sample.drawn():
            run.emit(record)
        if sample.short:
            what = "tasks have" if draws.per == "task" else "the input has"
            number = f"{sample.short} " if draws.per == "task" else ""
            run.say(f"{number}{what} fewer than {draws.sample} records")


def cut_steps(run: cli.Run, side: Output | None, failed: bool, mark: bool) -> None:
    """Cut the rollouts of the run's input into steps; one without any goes to `side`, and marked to the output."""
    from ..grading.grader import HumanRanks

    human_ranks = HumanRanks(run.data)
    for line in run.lines("rollout"):
        try:
            result = cut(line.record, hand_in, human_ranks, failed)
        except RecordError as error:
            run.reject(line, str(error))
            continue
        for step in result.steps:
            run.emit(step)
        if result.reason is None:
            run.counts["rollouts cut"] += 1
            run.counts["turns after the last valid submission"] += result.turns_left
            continue
        run.counts[f"rollouts without a step ({result.reason.partition(': ')[2]})"] += 1
        dropped: Rollout = {**line.record, "filter": {"kept": False, "reason": result.reason}}
        if mark:
            run.emit(dropped)
        if side is not None:
            side.write(run.stamp(dropped))


def hand_in(turns: Sequence[Turn], turn: Turn | None, box: Mapping[str, object]) -> tuple[str | None, Execution]:
    """The program that a turn hands in, and its execution; see filters.steps.HandIn."""
    from ..scaffolds.episode import code_of, execution_of

    return code_of(turns, turn), execution_of(turns, turn, box)
