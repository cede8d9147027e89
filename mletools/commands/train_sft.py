"""mle-train-sft: fine-tune a model on rollouts, or make a tiny one."""

from dataclasses import replace
from pathlib import Path

from .. import cli
from ..base.errors import OptionError
from ..base.words import counted
from ..cli_options import options
from ..training import conversations, dry_run, policy, tiny
from ..training.options import FOLDER, OPTIMISER, POLICY, RunFolder
from ..training.sft import SftOptions, SftPolicy, SftRun
from ..training.step_loader import leads, processes

USUAL = (
    "--model",
    "--from-scratch",
    "--run-dir",
    "--epochs",
    "--max-seconds",
    "--batch",
    "--learning-rate",
    "--lora-rank",
    "--save-steps",
    "--validate",
)


@cli.command("mle-train-sft", seed=True, own_resume=True, usual=USUAL)
@options(SftPolicy, "start", POLICY)
@options(RunFolder, "folder", FOLDER)
@options(SftOptions, "chosen", OPTIMISER)
def main(run: cli.Run, start: SftPolicy, folder: RunFolder, chosen: SftOptions) -> None:
    """Fine-tune a model on the policy's own messages in FILES (rollouts), with TRL and PEFT.

    \b
    Examples:
      mle-filter --no-spread --min-group 1 graded.jsonl \\
        | mle-train-sft --from-scratch tiny --run-dir runs/sft
      mle-train-sft --model Qwen/Qwen3-8B --run-dir runs/sft \\
        --epochs 3 kept.jsonl --resume

    Only tokens that the policy wrote carry loss. Recorded token ids are used where present; other records are tokenized
    with the chat template, and so are lines of chat data, {"messages": [...]}, of which every message of the assistant
    counts as the policy's.

    Reads the whole input first, and writes a train_step record per optimiser step.
    """
    start.check()
    policy.require_libraries()
    if not leads():
        run.stand_by()
    if run.dry_run:
        held = list(conversations.lines(run))
        run.say(
            f"would train {start.model or start.from_scratch} on {counted(len(held), 'rollouts')} for {counted(chosen.epochs, 'epochs')} into "
            f"{folder.out}"
        )
        if start.model is not None:
            for text in dry_run.describe(start.model, chosen, held, run.reject, chosen.batch):
                run.say(text)
        return
    if start.from_scratch is not None and processes() > 1:
        raise OptionError("--from-scratch is one process: a tiny model needs no launcher")
    run.open()
    run.checkpoint = Path(folder.out) / "latest"
    lines = policy.hold(conversations.lines(run))
    out, model, chosen = Path(folder.out), start.model, replace(chosen, seed=run.seed)
    if start.from_scratch is not None:
        records = [line.record for line in lines]
        model = str(tiny.make_from_scratch(records, out, start.from_scratch, run.seed, run.resume))
        chosen = replace(chosen, lora_rank=0)
    session = SftRun(str(model), out, chosen, run.resume)
    steps = session.train(session.samples(lines, run.reject))
    run.progress(None, "steps")
    run.counts.update(session.record_steps(steps, run.emit, run.say, folder.export_merged, run.allow_empty))
    for text in () if run.quiet else session.account_lines():
        run.say(text)
