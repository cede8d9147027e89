"""mle-filter: keep the rollouts that are worth learning from, or the tasks that are sound; cut rollouts into steps."""

from pathlib import Path

from .. import cli
from ..cli_options import options
from ..filters import FilterOptions
from .filter_options import TaskChecks, Work, refuse_mixed, settings


@cli.command("mle-filter", jobs=True, data=True)
@options(Work, "work", "Work")
@options(FilterOptions, "filters")
@options(TaskChecks, "checks", "Checks of tasks (--tasks)")
def main(run: cli.Run, work: Work, filters: FilterOptions, checks: TaskChecks) -> None:
    """Keep the rollouts in FILES that are worth learning from, or with --tasks the tasks that are sound.

    Every drop has a reason: it is counted in the summary and stands in `filter.reason` of the records in --dropped.
    Streams rollouts by group: a group is decided when its last member has arrived, or at the end of the input. --top
    holds the input, unless --calibrate is seen.

    The filters apply in this order: valid, masked, --min-score, duplicates; --top (tau_abs), --tau-adv, --tau-val,
    --window; then groups. Human ranks are those of the task's leaderboard. --tau-adv compares with the submission
    before a step in reset traces, with the memory's solution in memory traces; what has neither passes, and so does
    what was told no validation score in --tau-val. (MLE-RL says no more of tau_val than its value; that validation and
    test scores must not differ by more is another reading, which is not this one.)

    --cut-steps comes before mle-grade: a step is what the policy did from one valid submission to the next, with all that
    went before as its prompt. The turns after the last one, and rollouts without one, are counted.

    --state goes with one run at a time. With -o FILE it is written when the output is complete, and --resume decides
    again from where the run began; without, as rollouts go by.

    Streams tasks one by one in input order. Their thresholds, leaks, answers, descriptions and evaluators are checked,
    whoever made them; a task that fails several checks counts under each.

    \b
    Examples:
      mle-filter --keep-invalid graded.jsonl | mle-train-grpo --model sft --run-dir runs/grpo
      mle-filter --no-spread --min-group 1 graded.jsonl | mle-train-sft --model tiny --run-dir sft
      mle-rollout --scaffold memory -m mine --model-url $URL tasks.jsonl | mle-filter --cut-steps \\
        | mle-grade --reward human-rank \\
        | mle-filter --preset mle-rl --calibrate seen --state windows.json > steps.jsonl
      mle-import prepared/ | mle-filter --tasks -j 4 --dropped unsound.jsonl -o sound.jsonl
    """
    refuse_mixed(work.tasks, work.steps)
    chosen = settings(work.preset, filters)
    remembered = None
    run.open()
    if work.state is not None:
        from .filter_state import StateFile

        remembered = StateFile(Path(work.state), run)
    side = run.rewritten(work.dropped) if work.dropped else None
    run.progress(run.count_lines)
    if work.tasks:
        from ..filters.tasks import TaskSelection
        from ..sandbox import Limits
        from .filter_tasks import Examiner, filter_tasks
        from .metric_box import CodeBox, opened

        box = CodeBox(checks.backend, Limits(wall_s=checks.metric_timeout, memory_mb=checks.metric_memory))
        with opened:
            filter_tasks(run, Examiner(run.data, checks.check, box), TaskSelection(filters.keep_duplicates), side)
    else:
        from .filter_rollouts import cut_steps, filter_rollouts

        if work.steps:
            cut_steps(run, side)
        else:
            filter_rollouts(run, chosen, side, work.mark, remembered)
    if side is not None:
        side.commit()
