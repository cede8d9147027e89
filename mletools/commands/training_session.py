"""What the two training commands share: the extra they need, reading samples, and one record a step."""

import importlib.util
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from .. import cli
from ..records.errors import RecordError, ToolError
from ..records.ids import content_id
from ..training import checkpoints, policy

LOGGERS = ("none", "tensorboard", "wandb", "trackio")
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def training_options(save_steps: int, defaults: Callable[[str], str] | None = None) -> Callable[[Any], Any]:
    """The options that both trainers have, after a command's own.

    defaults: where presets may set them, so that click knows no default: what a help text says of one, by name.
    """
    some, settled = click.IntRange(1), defaults is not None

    def number(default: int, **more: Any) -> dict[str, Any]:
        return {"type": some, **more} if settled else {"type": some, "default": default, "show_default": True, **more}

    def told(help: str, name: str) -> str:
        return help + defaults(name) if defaults else help

    machine: dict[str, Any] = {"cls": cli.MachineOption, "heading": "Run folder"}
    own: dict[str, Any] = {"cls": cli.Option, "heading": "Weights"}
    latest = "The run's folder: checkpoints, and `latest` pointing to the newest."
    every = "A checkpoint every so many steps, and at the end."
    validated = (
        "At each checkpoint run this line of bash, which samples from the policy in $MLE_POLICY and writes graded rollouts; "
        "OUT/best points at the checkpoint with the best mean reward."
    )
    logger = "Keep curves, beside the records: in OUT/logs, or at a service."
    rank = {**number(16, **own), "type": click.IntRange(0)}
    options = [
        click.option(
            "--run-dir",
            "out",
            cls=cli.Option,
            heading="Run folder",
            required=True,
            type=click.Path(file_okay=False),
            help=latest,
        ),
        click.option(
            "--epochs", help=told("Passes over the input.", "epochs"), **number(1, **{**own, "heading": "Optimiser"})
        ),
        click.option(
            "--micro-batch", help=told("Rollouts a forward pass, at most.", "micro_batch"), **number(8, **machine)
        ),
        click.option("--lora-rank", help=told("0 trains all weights.", "lora_rank"), **rank),
        click.option("--lora-alpha", help=told("Scale: alpha / rank.", "lora_alpha"), **number(32, **own)),
        click.option("--save-steps", help=told(every, "save_steps"), **number(save_steps, **machine)),
        click.option("--keep", help=told("Checkpoints that stay.", "keep"), **number(3, **machine)),
        click.option(
            "--export-merged",
            is_flag=True,
            help="At the end, write the policy as one full model into OUT/merged.",
            **machine,
        ),
        click.option("--validate", metavar="COMMAND", help=validated, **machine),
        click.option("--logger", type=click.Choice(LOGGERS), default="none", help=logger, show_default=True, **machine),
    ]
    if settled:
        tokens = "Tokens a forward pass, padding and all, at most."
        options.insert(3, click.option("--micro-tokens", type=some, help=tokens, **machine))

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


def read_rollouts(run: cli.Run, preload: Callable[[], None], stream: bool = False) -> Iterable[cli.Line]:
    """Open the output and take the whole input in; meanwhile `preload` does the slow imports. A stream is not held.

    Of several processes (torchrun, accelerate launch) the first reads and writes; it tells the others.
    """
    require_libraries()
    if not run_leads():
        run.stand_by()
    run.open()
    if run.dry_run:
        return list(run.lines("rollout"))
    if stream:
        preload()
        return run.lines("rollout")
    imports = threading.Thread(target=preload, daemon=True)
    imports.start()
    lines = list(run.lines("rollout"))
    imports.join()  # two threads must not import the same library at once
    return lines


def read_samples(run: cli.Run, session: Any, lines: Iterable[cli.Line]) -> Iterator[Any]:
    """The training samples of the lines; a record that cannot be one is a rejected line."""
    for line in lines:
        try:
            yield session.sample(line.record)
        except RecordError as error:
            run.reject(line, str(error))


def run_leads() -> bool:
    """Whether this process is the one that reads and writes, of several of this command (torchrun, accelerate launch)."""
    return os.environ.get("RANK", "0") == "0"


def train(run: cli.Run, session: Any, steps: Iterable[dict[str, Any]], export_merged: bool = False) -> None:
    """Write a train_step record for every step as it is done, and count what was not trained on.

    ToolError where no step could be taken, unless --allow-empty says that this may be.
    """
    run.progress(None, "steps")
    taken = 0
    for step in steps:
        taken += 1
        identity = content_id("train_step", step["algorithm"], str(session.out), step["step"])
        run.emit({"kind": "train_step", "version": 1, "id": identity, "lineage": [], **step})
    if export_merged and run_leads() and (latest := checkpoints.load_latest(session.out)) is not None:
        run.say(f"the policy as one model: {policy.export_merged(latest, session.out / 'merged')}")
    left_out = {reason.replace("_", " "): count for reason, count in session.dropped.items() if count}
    if not (taken or session.nothing_left or run.allow_empty) and run_leads():
        told = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "no rollout came"
        ungraded = "; mle-grade gives rollouts a reward" if "no reward" in left_out else ""
        raise ToolError(
            f"nothing to train on, no step was taken: {told}{ungraded}; where that may be, --allow-empty takes it"
        )
    for reason, count in left_out.items():
        run.counts[f"not trained on ({reason})"] += count


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
