"""mle-train-grpo: reinforce a policy with the rewards of its recorded rollouts."""

from pathlib import Path
from typing import Any

import click

from .. import cli
from ..training import grpo
from .training_session import read_rollouts, read_samples, train, training_options


@cli.command("mle-train-grpo", seed=True, dry_run=True, own_resume=True)
@click.option(
    "--model", required=True, help="The policy that sampled the first rollouts: a folder, adapter folder or hub name."
)
@click.option(
    "--groups-per-step", type=click.IntRange(1), default=16, show_default=True, help="Groups an optimiser step."
)
@click.option("--learning-rate", type=float, default=1e-5, show_default=True, help="Constant.")
@click.option(
    "--loss-type",
    type=click.Choice(grpo.LOSS_TYPES),
    default="grpo",
    show_default=True,
    help="How token losses are averaged.",
)
@click.option("--epsilon", type=float, default=0.2, show_default=True, help="Clip the ratio below 1 - this.")
@click.option("--epsilon-high", type=float, default=0.28, show_default=True, help="Clip the ratio above 1 + this.")
@click.option("--beta", type=float, default=0.0, show_default=True, help="Weight of the KL term.")
@click.option("--temperature", type=float, help="Default: the one that the rollouts were sampled at.")
@click.option(
    "--max-completion-length", type=click.IntRange(1), default=1024, show_default=True, help="dr_grpo divides by this."
)
@click.option(
    "--scale-rewards/--no-scale-rewards",
    default=True,
    show_default=True,
    help="Divide advantages by the group's standard deviation.",
)
@click.option(
    "--use-logprobs/--no-use-logprobs",
    default=True,
    show_default=True,
    help="Take the ratio against the recorded logprobs; else REINFORCE with the group's baseline.",
)
@click.option(
    "--max-grad-norm", type=float, default=1.0, show_default=True, help="Scale longer gradients down to this."
)
@training_options(save_steps=10)
def main(run: cli.Run, model: str, out: str, **settings: Any) -> None:
    """Train a policy on FILES (graded rollouts) with GRPO, by TRL's trainer and PEFT's LoRA.

    The token ids are those that were sampled, never text tokenised again; tokens that the policy did not write carry no
    loss. The advantage is (reward - mean) / (standard deviation + 1e-4) within the group. Groups of fewer than two and
    groups without spread are dropped and counted. Writes one train_step record a step. With --resume, OUT goes on where
    it stood: rollouts that it was trained on are skipped, new ones continue the run. Holds the input.

    \b
    Examples:
      mle-train-grpo --model runs/sft/latest --out runs/grpo graded.jsonl
      mle-rollout -m hf:runs/grpo/latest -g 8 tasks.jsonl | mle-sandbox | mle-grade \\
        | mle-train-grpo --model runs/sft/latest --out runs/grpo --resume
    """
    lines = read_rollouts(run, grpo.preload)
    if run.dry_run:
        groups = len({line.record["group"] for line in lines})
        run.say(
            f"would train {model} on {len(lines)} rollouts in {groups} groups for {settings['epochs']} epochs into {out}"
        )
        return
    session = grpo.GrpoRun(model, Path(out), grpo.GrpoOptions(seed=run.seed, **settings), run.resume)
    train(run, session, read_samples(run, session, lines))
    if session.reward_mean is not None and not run.quiet:
        run.say(f"mean reward of the input {session.reward_mean:.3f}")
