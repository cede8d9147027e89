"""mle-train-grpo: reinforce a policy with the rewards of its recorded rollouts."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from .. import cli
from ..base.errors import OptionError
from ..base.options import declarations
from ..base.words import counted
from ..cli_options import options
from ..records.rollout import Rollout
from ..training import dry_run, policy
from ..training.algorithms import settle, shown_defaults
from ..training.grpo import GrpoRun, temperature_of
from ..training.handover import EngineOptions, HandoverRun, describe, left_to_the_engine
from ..training.options import ENGINE, FOLDER, POLICY, PRIME_RL, STREAMING, GrpoOptions, GrpoPolicy, RunFolder
from ..training.publish import StreamOptions
from ..training.samples import check_sampling
from ..training.step_loader import leads, processes

# algorithms and presets set defaults: an option that is not on the command line is None
SETTLED_LATER: dict[str, Any] = {
    name: {"default": None, "help": declared.help + shown_defaults(name, declared.default)}
    for name, declared in declarations(GrpoOptions).items()
}


USUAL = (
    "--model",
    "--preset",
    "--algorithm",
    "--run-dir",
    "--epochs",
    "--learning-rate",
    "--groups-per-step",
    "--max-steps",
    "--lora-rank",
    "--beta",
    "--save-steps",
    "--validate",
    "--stream",
    "--publish",
)


@cli.command("mle-train-grpo", seed=True, own_resume=True, usual=USUAL)
@options(GrpoPolicy, "start", POLICY)
@options(RunFolder, "folder", FOLDER)
@options(GrpoOptions, "overrides", build=dict, **SETTLED_LATER)
@options(StreamOptions, "streaming", STREAMING)
@options(EngineOptions, "engine", ENGINE)
def main(
    run: cli.Run,
    start: GrpoPolicy,
    folder: RunFolder,
    overrides: dict[str, Any],
    streaming: StreamOptions,
    engine: EngineOptions,
) -> None:
    """Train a policy on FILES (graded rollouts) by reinforcement learning, with TRL's losses and PEFT's LoRA.

    \b
    Examples:
      mle-train-grpo --model runs/sft/latest --run-dir runs/grpo graded.jsonl
      mle-train-grpo --model Qwen/Qwen3-8B --preset sandmle \\
        --run-dir runs/grpo graded.jsonl
      mle-rollout -m hf:runs/grpo/latest -g 8 tasks.jsonl \\
        | mle-sandbox | mle-grade \\
        | mle-train-grpo --model runs/sft/latest --run-dir runs/grpo --resume

    \b
    Presets: mle-ideator (MLE-Ideator), mle-rl (MLE-RL; rewards from mle-filter
    --preset mle-rl), duration-aware (RL for MLE agents; the mean of the step
    instead of a critic), sandmle (SandMLE).

    Sampled token ids are used where present, never the text tokenized again. Tokens that the policy did not write carry
    no loss. Groups of fewer than two and groups without reward spread are dropped and counted. With --resume the run in
    RUN_DIR continues: rollouts that it was trained on are skipped, new ones are trained on.

    Reads the whole input first (not with --stream), and writes a train_step record per optimiser step.
    """
    settings = settle(overrides, start.preset)
    streaming.check(overrides, settings)
    chosen = GrpoOptions(seed=run.seed, **settings)
    engine.check(chosen, {**overrides, "export_merged": folder.export_merged or None})
    handed_over = chosen.engine == PRIME_RL
    if handed_over and processes() > 1:
        raise OptionError(f"--engine {PRIME_RL} is one process: launch the trainer with torchrun, not this command")
    publisher = streaming.publisher(chosen, folder.out)
    policy.require_libraries()
    if not leads():
        run.stand_by()
    lines: Iterable[cli.Line[Rollout]] = run.lines("rollout")
    left = left_to_the_engine(settings) if handed_over else None
    if left and not run.quiet:
        run.say(left)
    if run.dry_run:
        held = list(lines)
        groups = len({line.record["group"] for line in held})
        what = f"would hand over, for {start.model}, " if handed_over else f"would train {start.model} on "
        place = f"to {PRIME_RL} in {engine.engine_dir}" if handed_over else f"into {folder.out}"
        given = (
            f"{counted(len(held), 'rollouts')} in {counted(groups, 'groups')} for {counted(chosen.epochs, 'epochs')}"
        )
        run.say(f"{what}{given} {place}")
        if handed_over:
            run.say(describe(chosen, engine, held, run.reject))
            return
        reference = chosen.beta != 0.0
        temperature = 1.0 if streaming.stream and chosen.temperature is None else chosen.temperature
        check = partial(check_sampling, temperature=temperature, logprobs=chosen.mismatch != "off", mask=chosen.mask)
        together = partial(temperature_of, options=chosen)
        for text in dry_run.describe(
            start.model, chosen, held, run.reject, chosen.batch, chosen.groups_per_step, reference, check, together
        ):
            run.say(text)
        return
    run.open()
    run.checkpoint = Path(folder.out) / "latest"
    if handed_over:
        lines = lines if streaming.stream else list(lines)
        session: GrpoRun = HandoverRun(start.model, Path(folder.out), chosen, engine, run.resume, publisher, run.pause)
    else:
        if streaming.stream:
            policy.preload()
        else:
            lines = policy.hold(lines)
        session = GrpoRun(start.model, Path(folder.out), chosen, run.resume, publisher)
    samples = session.samples(lines, run.reject)
    steps = session.train_stream(samples) if streaming.stream else session.train(samples)
    run.progress(None, "steps")
    run.counts.update(session.record_steps(steps, run.emit, run.say, folder.export_merged, run.allow_empty))
    for text in () if run.quiet else session.account_lines():
        run.say(text)
    if session.retokenized:
        rollouts = "1 rollout" if session.retokenized == 1 else f"{session.retokenized} rollouts"
        run.say(f"{rollouts} had no token ids: the text was tokenised again")
    if session.reward_mean is not None and not run.quiet:
        run.say(f"mean reward of the input {session.reward_mean:.3f}")
