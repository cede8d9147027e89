"""What mle-gen-task does once its options are read: make tasks in parallel, drop doubles, tell of every draft.

Not covered: one task (tasks.make, task_llm).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import cli
from ..grading import Leaderboard, check_task, metrics, score_bytes
from ..records.errors import ToolError
from ..records.ids import content_id
from ..records.jsonl import dumps
from ..records.output import Output
from ..tasks.likeness import likeness
from ..tasks.make import STAGES, Dropped, Made, NoTask, Shape, make_task
from ..tasks.marking import Marking
from . import task_trial
from .llm_options import LlmOptions
from .task_summary import Told

Wanted = tuple[str, int]
LLM = ["llm"]
# Attempts of one task that are like an earlier one, before it is given up.
MOST_ALIKE = 20


@dataclass(frozen=True)
class Asked:
    """The options: `number` of tasks in all, `samples` from least to most, `trials` (backend, seconds) or None."""

    number: int
    sources: list[str]
    samples: tuple[int, int]
    mutations: int
    trials: tuple[str, float] | None
    llm: LlmOptions


@dataclass(frozen=True)
class Maker:
    """Makes the task that a (source, index) pair names; a class, so that it travels to worker processes."""

    seed: int
    data: Path
    shape: Shape
    trials: task_trial.Trials | None

    def __call__(self, wanted: Wanted, first: int = 0) -> Made:
        """The task of the first sound attempt from `first` on."""
        source, index = wanted
        marking = Marking(score_bytes, metrics.lower_is_better, _definition, _medals, self.trials)
        made = make_task(source, index, self.seed, self.data, marking, self.shape, first)
        check_task(made.record)
        return made


def _definition(name: str) -> str:
    return metrics.find(name).definition


def _medals(scores: Iterable[float], lower_is_better: bool) -> dict[str, float]:
    return Leaderboard(tuple(sorted(scores, reverse=not lower_is_better)), lower_is_better).thresholds


def make_tasks(run: cli.Run, asked: Asked, rejected: str | None) -> None:
    """Makes the tasks that are not finished yet and writes their records; dropped drafts go to the file `rejected`.

    ToolError at the end where one could not be made; of a language model's some may fail, not all.
    """
    run.open(key=lambda task: (task["provenance"]["source"], task["provenance"]["index"], likeness(task)))
    side = Output(Path(rejected), None, run.resume, lambda record: record["id"], run.force) if rejected else None
    earlier = run.finished_keys
    seen = {like for _, _, like in earlier}
    done = {(name, index) for name, index, _ in earlier}
    turns: Callable[[int], Wanted] = lambda i: (asked.sources[i % len(asked.sources)], i // len(asked.sources))  # noqa: E731
    wanted = [pair for pair in map(turns, range(asked.number)) if pair not in done]
    trials = task_trial.Trials(*asked.trials) if asked.trials else None
    told, failed = Told(), []
    run.progress(len(wanted), "tasks")
    run.counts.update(dict.fromkeys(STAGES, 0))
    with task_trial.opened, _opened_maker(run, asked, trials) as maker:
        # In order, because a task must be unlike every earlier one.
        for pair, result, error in run.map(maker, wanted, processes=asked.sources != LLM, in_order=True):
            made, dropped = _unlike(maker, pair, result, error, seen)
            for each in dropped:
                _count(run, each.stage)
                if side is not None:
                    _reject(run, side, pair, each)
            if made is None:
                last = dropped[-1].reason if dropped else "no draft was made"
                failed.append(f"{pair[0]} number {pair[1]}: {len(dropped)} drafts dropped, the last one: {last}")
                continue
            _count(run, STAGES[-1])
            seen.add(likeness(made.record))
            told.add(made)
            run.emit(made.record)
    if side is not None:
        side.commit()
    if not run.quiet:
        told.say(run)
    if failed and (asked.sources != LLM or not (told.samples or earlier)):
        raise ToolError(f"{len(failed)} of {asked.number} tasks could not be made, for example {failed[0]}")


@contextmanager
def _opened_maker(run: cli.Run, asked: Asked, trials: task_trial.Trials | None) -> Iterator[Callable[..., Made]]:
    """What makes the task of a (source, index) pair."""
    if asked.sources != LLM:
        yield Maker(run.seed, run.data, Shape(asked.samples, asked.mutations), trials)
        return
    from .metric_box import CodeBox, opened
    from .task_llm import LlmTasks
    from .task_roles import LIMITS, open_maker

    backend = trials.backend if trials else "auto"
    with opened, open_maker(asked.llm, run.seed, run.data, backend=backend, jobs=run.jobs) as maker:
        yield LlmTasks(maker, trials, CodeBox(backend, LIMITS))


def _unlike(
    maker: Callable[..., Made], pair: Wanted, made: Made | None, error: Exception | None, seen: set[str]
) -> tuple[Made | None, list[Dropped]]:
    """The task of a pair that is like none in `seen`, made again where it is; all drafts that were dropped."""
    dropped: list[Dropped] = []
    for _ in range(MOST_ALIKE):
        if isinstance(error, NoTask):
            return None, dropped + error.dropped
        if error is not None:
            raise error
        assert made is not None
        dropped += made.dropped
        if likeness(made.record) not in seen:
            return made, dropped
        attempt, origin = made.record["provenance"]["attempt"], made.record["provenance"]
        dropped.append(
            Dropped(attempt, STAGES[-1], "not_alike: an earlier task has the same scenario and rule", origin)
        )
        try:
            made, error = maker(pair, attempt + 1), None
        except NoTask as none:
            made, error = None, none
    return None, dropped


def _count(run: cli.Run, stage: str) -> None:
    for name in STAGES[: STAGES.index(stage) + 1]:
        run.counts[name] += 1


def _reject(run: cli.Run, side: Output, pair: Wanted, dropped: Dropped) -> None:
    record = {
        "kind": "reject",
        "version": 1,
        "id": content_id("draft", run.seed, *pair, dropped.attempt),
        "lineage": [],
        "source": f"{pair[0]}:{pair[1]}",
        "line_number": dropped.attempt + 1,
        "reason": dropped.reason,
        "line": dumps(dropped.drawn),
    }
    if not side.finished[record["id"]]:
        side.write(run.stamp(record))
