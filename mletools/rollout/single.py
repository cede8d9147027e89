"""One answer a rollout, for the scaffold single: asked in batches, the programs left for mle-sandbox."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..models import ContextExceeded, Reply, Request
from ..models.options import ModelOptions
from ..records.errors import OptionError, RecordError
from ..records.ids import derive_seed
from ..records.jsonl import Line
from ..run import Run
from ..scaffolds import single
from ..scaffolds.previous import Previous, PreviousPool
from .endless import EndlessOptions
from .runner import Sampling, policy_version

IMPROVE_RATIO = 0.5  # where there is a pool (RL for MLE agents, section 3.3)
Asked = tuple[Line, Any]
Refused = tuple[Line, RecordError]


def answer_once(
    run: Run,
    settings: single.SingleSettings,
    models: ModelOptions,
    sampled: Sampling,
    group_size: int,
    endless: EndlessOptions,
) -> None:
    """Have each of the run's tasks answered `group_size` times."""
    max_tokens = settings.max_tokens
    sampling = single.Sampling(sampled.temperature, sampled.top_p, max_tokens)
    if run.dry_run:
        tasks = sum(1 for _ in run.lines("task"))
        answers = f"{tasks * group_size} answers ({tasks} tasks x {group_size}) of at most {max_tokens} tokens"
        run.say(f"would ask {models.model} for {answers}{', again and again' if endless.forever else ''}")
        return
    ratio = settings.improve_ratio if settings.improve_ratio is not None else IMPROVE_RATIO
    if settings.improve_ratio and not settings.pool:
        raise OptionError("--improve-ratio: improve on what? --pool FILE holds executed rollouts")
    run.open()
    earlier = PreviousPool.read([Path(path) for path in settings.pool])
    engine = endless.model(run, models, settings.batch)
    version = policy_version(run, models, engine, sampled)
    source = endless.tasks(run, "task", group_size)
    if engine.batch > 1:
        run.jobs = 1  # one call at a time: the engine works on a batch at once
    run.progress(lambda: (run.count_lines() or 0) * group_size or None, "rollouts")

    def asked() -> Iterator[Asked]:
        for line, seed in source:
            for job in single.jobs(
                line.record,
                group_size=group_size,
                seed=seed,
                model_name=str(models.model),
                model_version=engine.version if endless.follow else version,
                sampling=sampling,
                prompt=settings.prompt,
                previous=_previous(earlier, line.record["id"], ratio, seed),
            ):
                yield line, job

    def answer(batch: list[Asked]) -> tuple[list[dict[str, Any]], list[Refused]]:
        """The rollouts of a batch, and of those whose question the model cannot take the line and why."""
        started, used = time.perf_counter(), engine.version
        left, replies, refused = list(batch), list[Reply](), list[Refused]()
        while left and not replies:
            requests = [
                Request(job.messages, job.seed, sampled.temperature, sampled.top_p, max_tokens, job.task)
                for _, job in left
            ]
            try:
                replies = engine.sample(requests)
            except ContextExceeded as error:
                refused.append((left.pop(error.index)[0], error))
            except RecordError as error:
                if len(left) > 1:
                    raise
                refused.append((left.pop()[0], error))
        seconds = round((time.perf_counter() - started) / len(batch), 4)
        source.finished(len(left))
        records = [single.record(job, reply, seconds) for (_, job), reply in zip(left, replies, strict=True)]
        return [source.stamped(rollout, used) for rollout in records], refused

    # batches are cut before finished rollouts are skipped: a resumed run samples in the same company
    size = min(engine.batch, group_size) if endless.forever else engine.batch  # no group waits for the next to be begun
    batches = (b for b in _batches(asked(), size) if not all(run.finished(job.id) for _, job in b))
    with contextlib.closing(engine):
        for _, answered, error in run.map(answer, batches):
            if error is not None:
                raise error
            rollouts, refused = answered
            for line, why in refused:
                if line.record["id"] not in source.refused:  # once a task, however many rollouts it was to have
                    run.reject(line, str(why))
                source.refuse(line.record["id"], 1)
            for rollout in rollouts:
                run.counts[rollout["stop_reason"]] += run.emit(rollout)


def _previous(pool: PreviousPool, task: str, ratio: float, seed: int) -> Previous | None:
    """The solution that a task's rollouts are to improve on, all of them the same: a group answers one question."""
    if derive_seed(seed, "improve", task) / 2**62 >= ratio:
        return None
    return pool.draw(task, derive_seed(seed, "previous", task))


def _batches(items: Iterator[Asked], size: int) -> Iterator[list[Asked]]:
    while batch := list(itertools.islice(items, size)):
        yield batch
