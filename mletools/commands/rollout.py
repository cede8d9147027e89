"""mle-rollout: let a model work on tasks."""

import contextlib
import importlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import click

from .. import cli
from ..models import Request, open_model
from ..records.errors import RecordError, ToolError
from ..records.jsonl import Line
from ..scaffolds import SCAFFOLDS

Asked = tuple[Line, Any]


@cli.command("mle-rollout", jobs=True, seed=True, dry_run=True)
@click.option(
    "-m",
    "--model",
    default="scripted",
    show_default=True,
    help="scripted, hf:PATH (a checkpoint or adapter folder), or the name of a model that a server at --model-url serves.",
)
@click.option(
    "--model-url",
    envvar="MLE_MODEL_URL",
    show_envvar=True,
    cls=cli.MachineOption,
    metavar="URL",
    help="An OpenAI-compatible server (vLLM, SGLang, ...).",
)
@click.option(
    "--model-key-file",
    type=click.Path(exists=True, dir_okay=False),
    cls=cli.MachineOption,
    metavar="FILE",
    help="Holds the server's key (default: OPENAI_API_KEY).",
)
@click.option(
    "--request-timeout",
    type=float,
    default=600.0,
    show_default=True,
    cls=cli.MachineOption,
    metavar="S",
    help="Seconds for one request to a server.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=6,
    show_default=True,
    cls=cli.MachineOption,
    help="Further tries of a request that a server failed.",
)
@click.option("-g", "--group-size", type=click.IntRange(1), default=1, show_default=True, help="Rollouts a task.")
@click.option(
    "--scaffold", type=click.Choice(list(SCAFFOLDS)), default="single", show_default=True, help="How the agent works."
)
@click.option(
    "--prompt",
    default="single",
    show_default=True,
    help="single, single-brief, or the path of a Markdown file with {{name}} placeholders.",
)
@click.option(
    "--temperature", type=click.FloatRange(0), default=1.0, show_default=True, help="0 takes the likeliest token."
)
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("--max-tokens", type=click.IntRange(1), default=4096, show_default=True, help="Of one answer.")
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="hf: answers sampled at once.")
def main(
    run: cli.Run,
    model: str,
    model_url: str | None,
    model_key_file: str | None,
    request_timeout: float,
    retries: int,
    group_size: int,
    scaffold: str,
    prompt: str,
    temperature: float,
    top_p: float,
    max_tokens: int,
    batch: int,
) -> None:
    """Let a model work on the tasks in FILES; one rollout record an answer.

    `scripted` is built in: deterministic, offline, it writes real solutions from good to broken. -j is the number of
    requests to a server at once. Token ids and logprobs are recorded where the engine tells them. Answers are shown a
    task's description and public facts, never thresholds, answers or scores. Streams.

    \b
    Examples:
      mle-gen-task -n 8 | mle-rollout -m scripted -g 4 -o rollouts.jsonl
      mle-rollout -m Qwen/Qwen3-8B --model-url http://localhost:8000 -g 8 -j 64 tasks.jsonl --resume -o rollouts.jsonl
    """
    room = importlib.import_module(SCAFFOLDS[scaffold])
    sampling = room.Sampling(temperature, top_p, max_tokens)
    if run.dry_run:
        tasks = sum(1 for _ in run.lines("task"))
        run.say(
            f"would ask {model} for {tasks * group_size} answers ({tasks} tasks x {group_size}) of at most {max_tokens} tokens"
        )
        return
    run.open()
    engine = open_model(
        model, url=model_url, key_file=model_key_file, timeout=request_timeout, retries=retries, batch=batch
    )
    if run.earlier is not None and run.earlier["policy"]["version"] != engine.version:
        raise ToolError(
            f"cannot resume with another policy: {model} was at version {run.earlier['policy']['version']}, "
            f"now at {engine.version}; choose another -o"
        )
    if engine.batch > 1:
        run.jobs = 1  # one call at a time: the engine works on a batch at once
    run.progress(lambda: (run.count_lines() or 0) * group_size or None, "rollouts")

    def asked() -> Iterator[Asked]:
        for line in run.lines("task"):
            for job in room.jobs(
                line.record,
                group_size=group_size,
                seed=run.seed,
                model_name=model,
                model_version=engine.version,
                sampling=sampling,
                prompt=prompt,
            ):
                yield line, job

    def answer(asked: list[Asked]) -> list[dict[str, Any]]:
        started = time.perf_counter()
        requests = [Request(job.messages, job.seed, temperature, top_p, max_tokens, job.task) for _, job in asked]
        replies = engine.sample(requests)
        seconds = round((time.perf_counter() - started) / len(asked), 4)
        return [room.record(job, reply, seconds) for (_, job), reply in zip(asked, replies, strict=True)]

    # batches are cut before finished rollouts are skipped: a resumed run samples in the same company
    batches = (b for b in _batches(asked(), engine.batch) if not all(run.finished(job.id) for _, job in b))
    with contextlib.closing(engine):
        for batch_asked, rollouts, error in run.map(answer, batches):
            if isinstance(error, RecordError) and engine.batch == 1:
                run.reject(batch_asked[0][0], str(error))
                continue
            if error is not None:
                raise error
            for rollout in rollouts:
                run.counts[rollout["stop_reason"]] += run.emit(rollout)


def _batches(items: Iterator[Asked], size: int) -> Iterator[list[Asked]]:
    while batch := list(itertools.islice(items, size)):
        yield batch
