"""mle-train-grpo: reinforce a policy with the rewards of its recorded rollouts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..training import grpo
from ..training.advantages import BASELINES, SCALES
from ..training.algorithms import ALGORITHMS, LEVELS, LOSS_TYPES, PRESETS, settle
from ..training.durations import MODES
from ..training.publish import publisher
from ..training.recorded_trainer import IMPORTANCE_MODES
from ..training.samples import TROUBLES
from .training_session import counted, read_rollouts, read_samples, train, training_options

DEFAULTS = grpo.GrpoOptions()
COUNT = click.IntRange(1)


def _told(name: str) -> str:
    """Default, and what algorithms and presets make of it, for a help text."""
    value = getattr(DEFAULTS, name)
    others = {
        **{key: settings[name] for key, settings in ALGORITHMS.items() if settings.get(name, value) != value},
        **{key: settings[name] for key, settings in PRESETS.items() if settings.get(name, value) != value},
    }
    default = "" if value is None or value == () else f"{value:g}" if isinstance(value, float) else str(value)
    listed = [", ".join(v) if isinstance(v, tuple) else str(v) for v in others.values()]
    told = "; ".join(f"{key}: {text}" for key, text in zip(others, listed, strict=True))
    return (
        f"  [{'; '.join(part for part in ('default: ' + default if default else '', told) if part)}]"
        if default or told
        else ""
    )


# Options that stand under another heading than Loss.
_HEADINGS = {
    **dict.fromkeys(("learning_rate", "groups_per_step", "batch", "max_steps", "max_grad_norm"), "Optimiser"),
    **dict.fromkeys(("baseline", "scale_rewards"), "Advantages"),
    **dict.fromkeys(("mask", "duration_weight", "duration_clip"), "Rollouts"),
    **dict.fromkeys(("max_staleness", "publish_steps"), "Streaming"),
    **dict.fromkeys(
        (
            "use_logprobs",
            "vllm_importance_sampling_correction",
            "vllm_importance_sampling_mode",
            "vllm_importance_sampling_clip_max",
            "vllm_importance_sampling_clip_min",
            "off_policy_mask_threshold",
            "largest_ratio",
            "temperature",
        ),
        "Off-policy correction",
    ),
}


def _option(name: str, help: str, **settings: Any) -> Callable[[Any], Any]:
    """An option whose default an algorithm or a preset may set; None where it is not given."""
    flag = f"--{name.replace('_', '-')}"
    if settings.pop("switch", False):
        flag += f"/--no-{name.replace('_', '-')}"
    settings = {"cls": cli.Option, "heading": _HEADINGS.get(name, "Loss"), **settings}
    return click.option(flag, name, default=None, help=help + _told(name), **settings)


OPTIONS = [
    _option("learning_rate", "Constant.", type=float),
    _option("groups_per_step", "Whole groups an optimiser step.", type=COUNT),
    _option("batch", "Rollouts a step instead, as they came: what is late counts for a later step.", type=COUNT),
    _option("baseline", "What an advantage is measured against.", type=click.Choice(BASELINES)),
    _option("scale_rewards", "Divide advantages by this standard deviation.", type=click.Choice(SCALES)),
    _option("loss_type", "How token losses are made and averaged.", type=click.Choice(LOSS_TYPES)),
    _option("importance_sampling_level", "One ratio a token or a sequence.", type=click.Choice(LEVELS)),
    _option("epsilon", "Clip the ratio below 1 - this.", type=float),
    _option("epsilon_high", "Clip the ratio above 1 + this; default: epsilon.", type=float),
    _option("delta", "Bound the ratio by this where the advantage is negative, too.", type=float),
    _option("beta", "Weight of the KL term against the policy that the run began from.", type=float),
    _option("use_bias_correction_kl", "Weight the KL term by the ratio.", type=bool, switch=True),
    _option("entropy_coef", "Weight of the entropy, a mean over tokens.", type=float),
    _option("use_logprobs", "Take the ratio against the recorded logprobs; else it is 1.", type=bool, switch=True),
    _option(
        "vllm_importance_sampling_correction",
        "Weight by trainer over sampler probability instead of clipping that ratio.",
        type=bool,
        switch=True,
    ),
    _option("vllm_importance_sampling_mode", "How those weights are bounded.", type=click.Choice(IMPORTANCE_MODES)),
    _option("vllm_importance_sampling_clip_max", "Their upper bound.", type=float),
    _option("vllm_importance_sampling_clip_min", "Their lower bound.", type=float),
    _option("off_policy_mask_threshold", "Leave out negative rollouts farther than this off the policy.", type=float),
    _option("largest_ratio", "Stop, before the step, where a token's ratio is beyond this.", type=float),
    _option("temperature", "Default: the one that the rollouts were sampled at.", type=float),
    _option("max_completion_length", "dr_grpo divides by this.", type=COUNT),
    _option(
        "mask",
        "Leave out such rollouts, as if their group did not have them; repeatable.",
        type=click.Choice(TROUBLES),
        multiple=True,
    ),
    _option(
        "duration_weight",
        "Weight rollouts by duration / mean (mean), or by how many that were lost each stands for (auto).",
        type=click.Choice(MODES),
    ),
    _option("duration_clip", "The largest such weight.", type=float),
    _option("max_staleness", "Leave out rollouts of a policy more than so many updates old.", type=click.IntRange(0)),
    _option("publish_steps", "Publish every so many updates.", type=COUNT),
    _option(
        "max_steps",
        "End when the run has so many optimiser steps, earlier sessions' included.",
        type=COUNT,
        cls=cli.MachineOption,
    ),
    _option("max_grad_norm", "Scale longer gradients down to this.", type=float),
]


def _own_options(body: Any) -> Any:
    for option in reversed(OPTIONS):
        body = option(body)
    return body


@cli.command("mle-train-grpo", seed=True, dry_run=True, own_resume=True)
@click.option(
    "--model",
    cls=cli.Option,
    heading="Policy",
    required=True,
    help="The policy that sampled the first rollouts: a folder, adapter folder or hub name.",
)
@click.option(
    "--algorithm",
    cls=cli.Option,
    heading="Policy",
    type=click.Choice(list(ALGORITHMS)),
    help="What the options below begin from.  [grpo]",
)
@click.option(
    "--preset",
    cls=cli.Option,
    heading="Policy",
    type=click.Choice(list(PRESETS)),
    help="A paper's settings; options that are given win.",
)
@click.option(
    "--stream",
    is_flag=True,
    cls=cli.MachineOption,
    heading="Streaming",
    help="Train as rollouts come, until the input ends; one pass.",
)
@click.option(
    "--publish",
    type=click.Path(file_okay=False),
    metavar="DIR",
    cls=cli.MachineOption,
    heading="Streaming",
    help="Put the policy here, version by version, for mle-rollout --follow DIR.",
)
@click.option(
    "--publish-url",
    type=cli.URL,
    cls=cli.MachineOption,
    heading="Streaming",
    help="Load each version into this vLLM server, too, as the model --publish-name.",
)
@click.option(
    "--publish-name", default="policy", show_default=True, metavar="NAME", cls=cli.MachineOption, heading="Streaming"
)
@_own_options
@training_options(save_steps=10, defaults=_told)
def main(
    run: cli.Run,
    model: str,
    out: str,
    algorithm: str | None,
    preset: str | None,
    stream: bool,
    publish: str | None,
    publish_url: str | None,
    publish_name: str,
    export_merged: bool,
    **settings: Any,
) -> None:
    """Train a policy on FILES (graded rollouts) by reinforcement, with TRL's losses and PEFT's LoRA.

    The token ids are those that were sampled, never text tokenised again where ids are there; tokens that the policy did
    not write carry no loss. Groups of fewer than two and groups without spread are dropped and counted. Writes one
    train_step record a step. With --resume, OUT goes on where it stood: rollouts that it was trained on are skipped, new
    ones continue the run. Holds the input; with --stream it does not.

    \b
    Presets: mle-ideator (MLE-Ideator), mle-rl (MLE-RL; rewards from mle-filter --preset mle-rl),
    duration-aware (RL for MLE agents; the mean of the others instead of a critic), sandmle (SandMLE).

    \b
    Examples:
      mle-train-grpo --model runs/sft/latest --run-dir runs/grpo graded.jsonl
      mle-train-grpo --model Qwen/Qwen3-8B --preset sandmle --run-dir runs/grpo graded.jsonl
      mle-rollout -m hf:runs/grpo/latest -g 8 tasks.jsonl | mle-sandbox | mle-grade \\
        | mle-train-grpo --model runs/sft/latest --run-dir runs/grpo --resume
    """
    given = {name: value for name, value in settings.items() if value not in (None, ())}
    chosen = settle(given, algorithm, preset)
    if stream and chosen.get("epochs", 1) > 1:
        raise click.UsageError("--stream makes one pass: leave --epochs out")
    options = grpo.GrpoOptions(seed=run.seed, **chosen)
    if run.dry_run:
        held = list(read_rollouts(run, grpo.preload))
        groups = len({line.record["group"] for line in held})
        run.say(
            f"would train {model} on {len(held)} rollouts in {groups} groups for {options.epochs} epochs into {out}"
        )
        return
    sink = publisher(options, publish, publish_url, publish_name, out)
    lines = read_rollouts(run, grpo.preload, stream)
    session = grpo.GrpoRun(model, Path(out), options, run.resume, sink)
    samples = read_samples(run, session, lines)
    train(run, session, session.train_stream(samples) if stream else session.train(samples), export_merged)
    if session.retokenized:
        run.say(f"{counted(session.retokenized, 'rollout')} had no token ids: the text was tokenised again")
    if session.reward_mean is not None and not run.quiet:
        run.say(f"mean reward of the input {session.reward_mean:.3f}")
