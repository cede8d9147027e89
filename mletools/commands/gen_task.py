"""mle-gen-task: make tasks."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from .. import cli
from ..base.errors import ToolError
from ..base.jsonl import dumps
from ..cli_options import Option, click_option, options, value_of
from ..records.common import Reject
from ..records.rejects import reject_record
from ..tasks.options import LLM, LlmOptions, TaskOptions, TaskRole, read_roles, role_options

if TYPE_CHECKING:
    from ..tasks.make import Dropped, Made
    from ..tasks.record import Origin

Place = tuple[str, int]  # the task's source, and its index there
MAX_ALIKE = 20  # attempts at one task that may be like an earlier task


def _roles(args: list[str]) -> list[Option]:
    """The options of the roles of --source llm."""
    if value_of(args, "--source", "") != LLM:
        return []
    return [click_option(name, declared, "Roles (--source llm)") for name, declared in role_options().items()]


def _hint(option: str) -> str | None:
    """That an option needs --source llm."""
    known = any(option in each.opts for each in _roles(["--source", LLM]))
    return f"{option} is about --source llm" if known else None


USUAL = (
    "--number",
    "--source",
    "--samples",
    "--mutations",
    "--rejects",
    "--describe",
    "--model",
    "--model-url",
    "--seeds",
    "--temperature",
)


@cli.command(
    "mle-gen-task", inputs=False, jobs=True, seed=True, data=True, usual=USUAL, extended=cli.Extension(_roles, _hint)
)
@options(TaskOptions, "task_options")
@options(LlmOptions, "llm", "Model (--source llm)")
def main(run: cli.Run, task_options: TaskOptions, llm: LlmOptions, **own: Any) -> None:
    """Make tasks: a folder of data for each below --data, and a record for each on standard output.

    \b
    Examples:
      mle-gen-task -n 64 -j 4 --seed 0 -o tasks.jsonl --rejects dropped.jsonl
      mle-gen-task --describe tasks.jsonl | less
      mle-gen-task --source llm --seeds tasks.jsonl \\
        -m Qwen/Qwen3-32B --model-url $URL -n 50 -j 8
      mle-gen-task --source llm --seeds tasks.jsonl \\
        -m my-model --model-url $URL --developer gpt-5
      mle-gen-task --source tables -n 94 -o held-out.jsonl
      mle-gen-task --source image,audio -n 8 | jq -r '[.name, .problem] | @tsv'

    Procedural tasks (the default) have 50-200 samples whose target follows a hidden rule. About forty baselines are
    trained on each task and scored on its hidden test set. Their scores take the place of a leaderboard and give the
    thresholds: a human rank of such a task is a rank among baselines. A draft
    that fails a check (order of the thresholds, learnable, not trivial, no leak, ...) is drawn again. The same seed
    gives the same bytes.

    --source tables holds out rows of real tables that ship inside Python packages.

    --source llm lets a language model write tasks similar to --seeds, in SandMLE's four roles: strategist, developer of
    the data generator, engineer of the evaluator, writer. Their scripts run in a sandbox, errors are fed back, and the
    tasks pass the same checks (--check NAME: only that one). Failed tasks are dropped, so the output may have fewer than
    -n. Replies are kept in --journal and never paid twice. -j is the number of concurrent tasks. `--source llm --help`
    shows the options of each role.

    Writes each task when it is done.
    """
    roles = read_roles(own)
    task_options.check(llm, roles)
    run.end_dry_run()
    if task_options.described is not None:
        describe(run, task_options.described)
        return
    make_tasks(run, task_options, llm, roles)


def make_tasks(run: cli.Run, options: TaskOptions, llm: LlmOptions, roles: Mapping[str, TaskRole]) -> None:
    """Make the unfinished tasks and write their records; dropped drafts go to options.rejected.

    ToolError at the end if a task could not be made; with a language model, if none could.
    """
    from ..sandbox.lazy import LazySandbox
    from ..tasks.code_metrics import CodeMetrics
    from ..tasks.likeness import likeness
    from ..tasks.make import STAGES, Maker, Shape
    from ..tasks.summary import Summary
    from ..tasks.trials import Trials

    run.open(key=lambda task: (task["provenance"]["source"], task["provenance"]["index"], likeness(task)))
    by_llm = options.source == (LLM,)
    side = run.side_output(options.rejected) if options.rejected else None
    finished = run.finished_keys
    seen = {like for _, _, like in finished}
    done = {(source, index) for source, index, _ in finished}
    turns = ((options.source[at % len(options.source)], at // len(options.source)) for at in range(options.number))
    places = [place for place in turns if place not in done]
    summary, failed = Summary(), []
    run.progress(len(places), "tasks")
    run.counts.update(dict.fromkeys(STAGES, 0))
    with ExitStack() as stack:
        trials = None
        if options.backend != "none":
            trials = Trials(stack.enter_context(LazySandbox(options.backend)), options.trial_timeout)
        maker: Callable[..., Made] = Maker(run.seed, run.data, Shape(options.samples, options.mutations), trials)
        if by_llm:
            from ..rollout.task_models import LIMITS, open_maker
            from ..tasks.roles.checked import LlmTasks

            backend = options.backend if trials else "auto"
            code_metrics = stack.enter_context(CodeMetrics(backend, LIMITS))
            roles_maker = open_maker(llm, run.seed, run.data, backend=backend, jobs=run.jobs, roles=roles)
            maker = LlmTasks(stack.enter_context(roles_maker), trials, code_metrics, llm.dropped_by)
        # In order, because a task must be unlike every earlier one.
        for place, result, error in run.map(maker, places, processes=not by_llm, in_order=True):
            task, dropped = _unlike(maker, place, result, error, seen)
            for draft in dropped:
                _count(run, draft.stage)
                if side is not None:
                    side.emit(_reject(run.seed, place, draft))
            if task is None:
                last = dropped[-1].reason if dropped else "no draft was made"
                failed.append(f"{place[0]} number {place[1]}: {len(dropped)} drafts dropped, the last one: {last}")
                continue
            _count(run, STAGES[-1])
            seen.add(likeness(task.record))
            summary.add(task)
            run.emit(task.record)
    if side is not None:
        side.output.commit()  # also if the run fails below
    if not run.quiet:
        for line in summary.lines():
            run.say(line)
    if failed and not (by_llm and (summary.samples or finished)):
        raise ToolError(f"{len(failed)} of {options.number} tasks could not be made, for example {failed[0]}")


def _unlike(
    maker: "Callable[..., Made]", place: Place, task: "Made | None", error: Exception | None, seen: set[str]
) -> "tuple[Made | None, list[Dropped]]":
    """(the task, made again while it is like one in `seen`, or None after MAX_ALIKE attempts; the dropped drafts)."""
    from ..tasks.likeness import likeness
    from ..tasks.make import STAGES, Dropped, NoTask

    dropped: list[Dropped] = []
    for _ in range(MAX_ALIKE):
        if isinstance(error, NoTask):
            return None, dropped + error.dropped
        if error is not None:
            raise error
        assert task is not None
        dropped += task.dropped
        if likeness(task.record) not in seen:
            return task, dropped
        origin = cast("Origin", task.record["provenance"])
        attempt = origin.get("attempt", 0)  # a language model drafts a task once
        dropped.append(
            Dropped(attempt, STAGES[-1], "not_alike: an earlier task has the same scenario and rule", origin)
        )
        try:
            task, error = maker(place, attempt + 1), None
        except NoTask as none:
            task, error = None, none
    return None, dropped


def _count(run: cli.Run, stage: str) -> None:
    from ..tasks.make import STAGES

    for name in STAGES[: STAGES.index(stage) + 1]:
        run.counts[name] += 1


def _reject(seed: int, place: Place, draft: "Dropped") -> Reject:
    id_parts = ("draft", seed, *place, draft.attempt)
    return reject_record(id_parts, f"{place[0]}:{place[1]}", draft.attempt + 1, draft.reason, dumps(draft.drawn))


def describe(run: cli.Run, path: str) -> None:
    """The tasks of a file as text where records would go."""
    from ..tasks.show import show

    run.files, run.writes_text = [path], True
    run.open()
    for at, line in enumerate(run.lines("task")):
        folder = run.data / line.record["data"]["dir"]
        run.emit_text("\n\n" * bool(at) + show(line.record, folder, run.terminal_columns))
        run.counts["tasks described"] += 1
