"""mle-instrument: make each solution report its progress."""

import functools
from contextlib import closing

import click

from .. import cli
from ..base.errors import OptionError
from ..cli_options import flags_on_command_line, options
from ..models.options import ModelOptions
from ..records.rollout import Rollout
from ..rollout.instrumenting import AnswerOptions, ModelInstrumenter, add_reports
from ..rollout.metered_model import judging

LM = "Model (--mode lm)"
MODEL = "scripted, hf:PATH, llama:FILE, or the name of a model at --model-url; not the one in training."
PLAIN = "with --plain-markers a solution can print the reports itself, and earn their credit for nothing"


USUAL = ("--mode", "--plain-markers", "--model", "--model-url")


@cli.command("mle-instrument", jobs=True, seed=True, usual=USUAL)
@click.option(
    "--mode",
    cls=cli.Option,
    type=click.Choice(("ast", "lm")),
    default="ast",
    show_default=True,
    help="ast: by syntax tree and a table of calls, offline. lm: ask -m, as in the paper.",
)
@click.option(
    "--plain-markers",
    cls=cli.Option,
    is_flag=True,
    help="Use the paper's plain texts without a nonce. A solution could print them itself.",
)
@options(ModelOptions, "models", LM, model={"help": MODEL}, structured=None)  # the answer is a program, no JSON
@options(AnswerOptions, "answers", LM)
def main(run: cli.Run, mode: str, plain_markers: bool, models: ModelOptions, answers: AnswerOptions) -> None:
    """Make the programs in FILES (rollouts) report their progress, for partial credit (RL for MLE agents).

    \b
    Examples:
      mle-instrument rollouts.jsonl | mle-sandbox \\
        | mle-grade --reward partial-credit
      mle-instrument --mode lm -j 16 rollouts.jsonl \\
        -m Qwen/Qwen2.5-3B-Instruct --model-url $URL
      mle-instrument < rollouts.jsonl | jq -r .instrument.code | head -40

    There are seven reports: imported packages, loaded data, defined model, training loss, trained model, testing loss,
    predicted test labels. This command finds the calls that may earn them, mle-sandbox watches these calls while the
    program runs, and mle-grade --reward partial-credit gives credit. A program that does not parse passes unchanged,
    and is marked.

    \b
    ast  after the calls of a table: scikit-learn, xgboost, lightgbm, catboost,
         torch, keras
    lm   where a frozen model puts them. Only the places are taken from its
         answer, which must be the program with reports inserted; otherwise ast is
         used, and instrument.refusal has the reason. A failure of the server
         stops the run.

    Reads and writes one record at a time.
    """
    if (mode == "lm") != (models.model is not None):
        raise OptionError("--mode lm needs a model: -m MODEL" if mode == "lm" else "-m is about --mode lm")
    models.check()
    run.end_dry_run("rollout")
    if plain_markers:
        run.say(PLAIN)
    if mode == "ast":
        by_tree = functools.partial(add_reports, seed=run.seed, plain=plain_markers)
        run.each(by_tree, "rollout", processes=True)
        return

    def count(rollout: Rollout) -> None:
        entry = rollout.get("instrument")
        if entry and entry.get("model") is not None:
            run.counts["by the model" if entry.get("mode") == "lm" else "refused, by syntax tree"] += 1

    with closing(models.open()) as engine:
        model = judging(engine, models, answers, "seed" in flags_on_command_line())
        work = ModelInstrumenter(model, run.seed, plain_markers, answers.max_tokens)
        run.each(work, "rollout", watch=count)
