"""Makes tasks in parallel, drops duplicates, and records every dropped draft.

Not covered: making one task (tasks.make, llm_tasks).
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..grading import Leaderboard, check_task, metrics, score_bytes
from ..records.common import Reject
from ..records.errors import ToolError
from ..records.jsonl import dumps
from ..records.rejects import reject_record
from ..run import Run
from ..scoring.code_metrics import LazySandbox
from ..scoring.trials import Trials
from ..tasks.likeness import likeness
from ..tasks.make import STAGES, Dropped, Made, Marking, NoTask, Shape, make_task
from .options import LLM, LlmOptions, TaskOptions, TaskRole
from .summary import Summary

Place = tuple[str, int]  # the task's source, and its index there
MAX_ALIKE = 20  # attempts at one task that may be like an earlier task


@dataclass(frozen=True)
class Maker:
    """Makes procedural tasks and tasks of real tables. Picklable."""

    seed: int
    data: Path
    shape: Shape
    trials: Trials | None

    def __call__(self, place: Place, first: int = 0) -> Made:
        """The task of the first attempt from `first` on that passes the checks."""
        source, index = place
        marking = Marking(
            score_bytes, metrics.lower_is_better, lambda name: metrics.find(name).definition, _medals, self.trials
        )
        task = make_task(source, index, self.seed, self.data, marking, self.shape, first)
        check_task(task.record)
        return task


def _medals(scores: Iterable[float], lower_is_better: bool) -> dict[str, float]:
    return Leaderboard(tuple(sorted(scores, reverse=not lower_is_better)), lower_is_better).thresholds


def make_tasks(run: Run, options: TaskOptions, llm: LlmOptions, roles: Mapping[str, TaskRole]) -> None:
    """Make the unfinished tasks and write their records; dropped drafts go to options.rejected.

    ToolError at the end if a task could not be made; with a language model, if none could.
    """
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
        maker: Callable[..., Made] = (
            _open_llm(stack, run, options, llm, roles, trials)
            if by_llm
            else Maker(run.seed, run.data, Shape(options.samples, options.mutations), trials)
        )
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
        summary.say(run)
    if failed and not (by_llm and (summary.samples or finished)):
        raise ToolError(f"{len(failed)} of {options.number} tasks could not be made, for example {failed[0]}")


def _open_llm(
    stack: ExitStack,
    run: Run,
    options: TaskOptions,
    llm: LlmOptions,
    roles: Mapping[str, TaskRole],
    trials: Trials | None,
) -> Callable[..., Made]:
    """A maker of tasks by a language model, closed with `stack`."""
    from ..scoring.code_metrics import CodeMetrics
    from .llm_tasks import LlmTasks
    from .roles import LIMITS, open_maker

    backend = options.backend if trials else "auto"
    code_metrics = stack.enter_context(CodeMetrics(backend, LIMITS))
    maker = stack.enter_context(open_maker(llm, run.seed, run.data, backend=backend, jobs=run.jobs, roles=roles))
    return LlmTasks(maker, trials, code_metrics)


def _unlike(
    maker: Callable[..., Made], place: Place, task: Made | None, error: Exception | None, seen: set[str]
) -> tuple[Made | None, list[Dropped]]:
    """(the task, made again while it is like one in `seen`, or None after MAX_ALIKE attempts; the dropped drafts)."""
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
        origin = task.record["provenance"]
        dropped.append(
            Dropped(origin["attempt"], STAGES[-1], "not_alike: an earlier task has the same scenario and rule", origin)
        )
        try:
            task, error = maker(place, origin["attempt"] + 1), None
        except NoTask as none:
            task, error = None, none
    return None, dropped


def _count(run: Run, stage: str) -> None:
    for name in STAGES[: STAGES.index(stage) + 1]:
        run.counts[name] += 1


def _reject(seed: int, place: Place, draft: Dropped) -> Reject:
    id_parts = ("draft", seed, *place, draft.attempt)
    return reject_record(id_parts, f"{place[0]}:{place[1]}", draft.attempt + 1, draft.reason, dumps(draft.drawn))
