"""mle-gen-task: make tasks."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from .. import cli
from ..grading import Leaderboard, check_task, metrics, score_bytes
from ..records.errors import ToolError
from ..records.ids import content_id
from ..records.jsonl import dumps
from ..records.output import Output
from ..sandbox import BACKENDS
from ..tasks import (
    MODALITIES,
    MUTATIONS,
    SAMPLES,
    STAGES,
    Dropped,
    Made,
    Marking,
    NoTask,
    Shape,
    likeness,
    make_task,
    show,
    sources,
)
from . import task_trial
from .task_roles import LlmOptions, llm_options
from .task_summary import Told

Wanted = tuple[str, int]
LLM = "llm"
# Attempts of one task that are like an earlier one, before it is given up.
MOST_ALIKE = 20


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


def _sources(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    if LLM in value:
        if len(value) > 1:
            raise click.BadParameter("llm is a source of its own: run it apart from the others")
        return [LLM]
    try:
        return [name for spec in value for name in sources(spec)]
    except (ToolError, ValueError) as error:
        raise click.BadParameter(str(error)) from None


def _range(context: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    low, _, high = value.partition("-")
    try:
        found = int(low), int(high or low)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor two with a dash, e.g. 50-200") from None
    if not 40 <= found[0] <= found[1] <= 2000:
        raise click.BadParameter(f"{value!r}: from 40 to 2000 samples, the fewer first")
    return found


@cli.command("mle-gen-task", inputs=False, jobs=True, seed=True, data=True)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    cls=cli.MachineOption,
    help="How many tasks; the sources take turns.",
)
@click.option(
    "--source",
    multiple=True,
    default=(",".join(MODALITIES),),
    show_default=True,
    callback=_sources,
    help="Kinds of data, made from a hidden rule; or sklearn:NAME[,NAME...] (iris, wine, breast_cancer, digits, diabetes, linnerud), sklearn for all of them; or llm. Repeatable.",
)
@click.option(
    "--samples",
    default=f"{SAMPLES[0]}-{SAMPLES[1]}",
    show_default=True,
    metavar="N-M",
    callback=_range,
    help="Samples of a made task, train and test together.",
)
@click.option(
    "--mutations",
    type=click.IntRange(0, 8),
    default=MUTATIONS,
    show_default=True,
    help="What is done to the data of a made task: noise, gaps, shifts, distractors ...",
)
@click.option(
    "--backend",
    type=click.Choice([*BACKENDS, "auto", "none"]),
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    help="The sandbox where a standard solution is tried on each task; none: it is not.",
)
@click.option(
    "--trial-timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that the standard solution has.",
)
@click.option(
    "--rejects",
    "rejected",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Write the drafts that were dropped here, with the reason.",
)
@click.option(
    "--describe",
    "described",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Make nothing: print the tasks of FILE for a human, with rule and baselines.",
)
@llm_options
def main(
    run: cli.Run,
    number: int,
    source: list[str],
    samples: tuple[int, int],
    mutations: int,
    backend: str,
    trial_timeout: float,
    rejected: str | None,
    described: str | None,
    llm: LlmOptions,
) -> None:
    """Make tasks: a folder of data each under --data, and a record each on standard output.

    A made task has 50-200 samples of a kind of data, whose target follows a hidden rule. Some forty baselines are trained
    on it and scored on its hidden test set: they are its leaderboard, and its thresholds come from there. A draft that
    fails a check (order of the thresholds, learnable, not trivial, no leak ...) is drawn again. sklearn:NAME holds out a
    part of a real table that ships inside scikit-learn. Same seed, same bytes. Streams.

    llm lets a model write tasks in the likeness of --seeds, in SandMLE's four roles: a strategist, a developer of the data's
    generator, an engineer of the evaluator, a writer. Their scripts run in a sandbox, errors are fed back, and the tasks
    go through the same checks; what fails is dropped, so fewer than -n may be left. Every reply is kept in --journal and
    never paid twice. -j is the number of tasks at once.

    \b
    Examples:
      mle-gen-task -n 64 -j 4 --seed 0 -o tasks.jsonl --rejects dropped.jsonl
      mle-gen-task --describe tasks.jsonl | less
      mle-gen-task --source llm --seeds tasks.jsonl -m Qwen/Qwen3-32B --model-url http://localhost:8000 -n 50 -j 8
      mle-gen-task --source image,audio -n 8 | jq -r '[.name, .problem, .metric.name, .thresholds.gold] | @tsv'
    """
    if described is not None:
        _describe(run, described)
        return
    run.open(key=lambda task: (task["provenance"]["source"], task["provenance"]["index"], likeness(task)))
    side = Output(Path(rejected), None, run.resume, lambda record: record["id"]) if rejected else None
    earlier = run.finished_keys
    seen = {like for _, _, like in earlier}
    done = {(name, index) for name, index, _ in earlier}
    turns: Callable[[int], Wanted] = lambda i: (source[i % len(source)], i // len(source))  # noqa: E731
    wanted = [pair for pair in map(turns, range(number)) if pair not in done]
    trials = None if backend == "none" else task_trial.Trials(backend, trial_timeout)
    told, failed = Told(), []
    run.progress(len(wanted), "tasks")
    run.counts.update(dict.fromkeys(STAGES, 0))
    with task_trial.opened, _opened_maker(run, source, Shape(samples, mutations), trials, llm) as maker:
        # In order, because a task must be unlike every earlier one.
        for pair, result, error in run.map(maker, wanted, processes=LLM not in source, in_order=True):
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
    if failed and LLM not in source:
        raise ToolError(f"{len(failed)} of {number} tasks could not be made, for example {failed[0]}")


@contextmanager
def _opened_maker(
    run: cli.Run, source: list[str], shape: Shape, trials: task_trial.Trials | None, llm: LlmOptions
) -> Iterator[Callable[..., Made]]:
    """What makes the task of a (source, index) pair."""
    if LLM not in source:
        yield Maker(run.seed, run.data, shape, trials)
        return
    from .metric_box import CodeBox, opened
    from .task_llm import LlmTasks
    from .task_roles import LIMITS, open_maker

    backend = trials.backend if trials else "auto"
    with opened, open_maker(llm, run.seed, run.data, backend=backend, jobs=run.jobs) as maker:
        yield LlmTasks(maker, trials, CodeBox(backend, LIMITS))


def _describe(run: cli.Run, path: str) -> None:
    """The tasks of a file as text where records would go."""
    run.files = [path]
    run.open()
    for at, line in enumerate(run.lines("task")):
        run.emit_text("\n\n" * bool(at) + show(line.record, run.data / line.record["data"]["dir"]))
        run.counts["tasks described"] += 1


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
