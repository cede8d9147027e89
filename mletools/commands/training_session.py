"""What the two training commands share: the extra they need, reading samples, and one record a step."""

import importlib.util
import threading
from collections.abc import Callable, Sequence
from typing import Any

import click

from .. import cli
from ..records.errors import RecordError, ToolError
from ..records.ids import content_id

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def training_options(save_steps: int) -> Callable[[Any], Any]:
    """The options that both trainers have, after a command's own."""
    some = click.IntRange(1)
    machine: dict[str, Any] = {"type": some, "show_default": True, "cls": cli.MachineOption}
    latest = "The run's folder: checkpoints, and `latest` pointing to the newest."
    options = [
        click.option("--out", required=True, type=click.Path(file_okay=False), help=latest),
        click.option("--epochs", type=some, default=1, show_default=True, help="Passes over the input."),
        click.option("--micro-batch", default=8, help="Rollouts a forward pass.", **machine),
        click.option(
            "--lora-rank", type=click.IntRange(0), default=16, show_default=True, help="0 trains all weights."
        ),
        click.option("--lora-alpha", type=some, default=32, show_default=True, help="Scale: alpha / rank."),
        click.option(
            "--save-steps", default=save_steps, help="A checkpoint every so many steps, and at the end.", **machine
        ),
    ]

    def add(body: Any) -> Any:
        for option in reversed(options):
            body = option(body)
        return body

    return add


def require_libraries() -> None:
    """ToolError naming the extra to install when a library that training needs is missing."""
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise ToolError(f"needs {', '.join(missing)}: pip install 'mletools[train]'")


def read_rollouts(run: cli.Run, preload: Callable[[], None]) -> list[cli.Line]:
    """Open the output and take the whole input in; meanwhile `preload` does the slow imports."""
    require_libraries()
    run.open()
    if run.dry_run:
        return list(run.lines("rollout"))
    imports = threading.Thread(target=preload, daemon=True)
    imports.start()
    lines = list(run.lines("rollout"))
    imports.join()  # two threads must not import the same library at once
    return lines


def read_samples(run: cli.Run, session: Any, lines: Sequence[cli.Line]) -> list[Any]:
    """The training samples of the lines; a record that cannot be one is a rejected line."""
    samples = []
    for line in lines:
        try:
            samples.append(session.sample(line.record))
        except RecordError as error:
            run.reject(line, str(error))
    return samples


def train(run: cli.Run, session: Any, samples: Sequence[Any]) -> None:
    """Write a train_step record for every step as it is done, and count what was not trained on."""
    run.progress(None, "steps")
    for step in session.train(samples):
        identity = content_id("train_step", step["algorithm"], str(session.out), step["step"])
        run.emit({"kind": "train_step", "version": 1, "id": identity, "lineage": [], **step})
    for reason, count in session.dropped.items():
        run.counts[f"not trained on ({reason.replace('_', ' ')})"] += count
