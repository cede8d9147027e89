"""mle-train-sft: fine-tune a model on rollouts, or make a tiny one."""

import os
import shutil
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..records.errors import ToolError
from ..training import sft, tiny
from .training_session import read_rollouts, read_samples, train, training_options

FROM_SCRATCH = "from-scratch"


def make_model(records: list[dict[str, Any]], out: Path, preset: str, seed: int) -> Path:
    """The folder of a model made from scratch inside `out`; one that an earlier run made is taken as it is."""
    folder = out / FROM_SCRATCH
    if folder.exists():
        return folder
    if not records:
        raise ToolError("--from-scratch needs rollouts to learn a tokenizer from, and the input is empty")
    unfinished = out / f"{FROM_SCRATCH}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.replace(tiny.make_tiny(records, unfinished, preset, seed), folder)
    return folder


@cli.command("mle-train-sft", seed=True, dry_run=True, own_resume=True)
@click.option("--model", help="A folder, adapter folder or hub name to start from.")
@click.option(
    "--from-scratch",
    type=click.Choice(list(tiny.PRESETS)),
    help="Make a new, tiny model and its tokenizer instead (in OUT/from-scratch), and train all its weights.",
)
@click.option("--max-seconds", type=float, help="Stop after this much training time, whichever comes first.")
@click.option("--batch", type=click.IntRange(1), default=32, show_default=True, help="Rollouts an optimiser step.")
@click.option("--learning-rate", type=float, default=1e-4, show_default=True, help="Highest rate of the schedule.")
@click.option("--schedule", type=click.Choice(sft.SCHEDULES), default="cosine", show_default=True)
@click.option("--warmup", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of the run.")
@training_options(save_steps=100)
def main(
    run: cli.Run, model: str | None, from_scratch: str | None, out: str, export_merged: bool, **settings: Any
) -> None:
    """Fine-tune a model on the policy's own messages in FILES (rollouts), with TRL and PEFT.

    Only tokens that the policy wrote carry loss. Recorded token ids are used where they are; other records go through
    the chat template. Writes one train_step record a step. Holds the input.

    \b
    Examples:
      mle-filter --no-spread --min-group 1 graded.jsonl \\
        | mle-train-sft --from-scratch tiny --run-dir runs/sft
      mle-train-sft --model Qwen/Qwen3-8B --run-dir runs/sft --epochs 3 kept.jsonl --resume
    """
    if (model is None) == (from_scratch is None):
        raise click.UsageError("give either --model or --from-scratch")
    lines = list(read_rollouts(run, sft.preload))
    if run.dry_run:
        run.say(
            f"would train {model or from_scratch} on {len(lines)} rollouts for {settings['epochs']} epochs into {out}"
        )
        return
    if from_scratch is not None:
        settings["lora_rank"] = 0
        model = str(make_model([line.record for line in lines], Path(out), from_scratch, run.seed))
    options = sft.SftOptions(seed=run.seed, **settings)
    session = sft.SftRun(str(model), Path(out), options, run.resume)
    train(run, session, session.train(read_samples(run, session, lines)), export_merged)
