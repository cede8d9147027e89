"""mle-classify-ideas: what kind of idea each one of an ideator's was, and which were effective."""

from collections.abc import Callable
from contextlib import ExitStack, closing

import click

from .. import cli
from ..base.errors import OptionError, RecordError, ToolError
from ..cli_options import flags_on_command_line, options
from ..models.options import ModelOptions
from ..records.rollout import Rollout
from ..reports.idea_types import Tally, ideator
from ..reports.idea_types import per_model as columns
from ..rollout.idea_judges import AnswerOptions, Classifier, Judge, ModelJudge, by_words
from ..rollout.metered_model import judging
from ..scaffolds.idea_types import TYPES

BY_MODEL = "Model (--by model)"
MODEL = "scripted, hf:PATH, llama:FILE, or the name of a model that a server at --model-url serves."


USUAL = ("--by", "--table", "--per-model", "--model", "--model-url")


@cli.command("mle-classify-ideas", jobs=True, seed=True, usual=USUAL)
@click.option(
    "--by",
    cls=cli.Option,
    type=click.Choice(("keywords", "model")),
    default="keywords",
    show_default=True,
    help="keywords: by a table of words, offline and rough. model: ask -m.",
)
@options(ModelOptions, "models", BY_MODEL, model={"help": MODEL})
@options(AnswerOptions, "answers", BY_MODEL)
@click.option("--table", cls=cli.Option, is_flag=True, help="Write the table instead of records.")
@click.option(
    "--per-model",
    cls=cli.Option,
    is_flag=True,
    help="Give the table columns per ideator model, and the difference to the first.",
)
def main(run: cli.Run, by: str, models: ModelOptions, answers: AnswerOptions, table: bool, per_model: bool) -> None:
    """Classify each idea in FILES (rollouts of scaffold codeact with --ideator, or idea) by its type (MLE-Ideator).

    \b
    Examples:
      mle-classify-ideas graded.jsonl -o typed.jsonl
      mle-classify-ideas --by model -m my-model --model-url $URL \\
        graded.jsonl -o typed.jsonl
      mle-classify-ideas -q --table graded.jsonl

    Adds idea_types to each rollout: Data Preparation, Feature Engineering, Model Architecture, Hyperparameter Tuning,
    Model Training or Others, who classified it and why, and whether the idea was effective. The type is null where a
    model's answer cannot be read. A rollout without ideas gets an empty list.

    \b
    effective, codeact  the next submission has a better test score than the last
                        valid one before the idea; null: no submission followed
    effective, idea     the reward of mle-grade --reward improvement is above 0,
                        or else the test score beats the state's; null: not graded
    Any valid submission is better than none. An invalid one is not better.

    Prints a table to standard error at the end: each type's ideas, their share of the classified ones, and how many of
    those with a known effect were effective. --per-model compares ideators (MLE-Ideator's table 3): the policy of
    scaffold idea, else the --ideator of codeact.

    Reads and writes one record at a time. --table reads all and writes the table instead; --resume then begins again.
    """
    model = models.model
    if (by == "model") != (model is not None):
        raise OptionError("--by model needs a model: -m MODEL" if by == "model" else "-m is about --by model")
    models.check()
    run.end_dry_run("rollout")
    tallies: dict[str, Tally] = {}

    def count(rollout: Rollout) -> None:
        model = ideator(rollout) if per_model else ""
        tallies.setdefault(model, Tally()).add(rollout["idea_types"])

    def text(room: int | None) -> str:
        return columns(tallies, TYPES, room) if per_model else tallies.get("", Tally()).text(TYPES, room)

    with ExitStack() as stack:
        judge: Judge = by_words
        if model is not None:
            engine = stack.enter_context(closing(models.open()))
            metered = judging(engine, models, answers, "seed" in flags_on_command_line())
            judge = ModelJudge(metered, run.seed, answers)
        classifier = Classifier(judge, model or "keywords")
        if table:
            _write_table(run, classifier, count, text)
            return
        run.each(classifier, "rollout", watch=count)
    if any(map(len, tallies.values())) and not run.quiet:
        for row in text(run.message_columns).split("\n"):
            run.say(row)
        if run.counts["finished before"]:
            run.say("the table leaves out the records that were finished before")


def _write_table(
    run: cli.Run, classifier: Classifier, count: Callable[[Rollout], None], text: Callable[[int | None], str]
) -> None:
    """The table as text where records would go."""
    run.writes_text = True
    run.open()
    for line, result, error in run.map(lambda line: classifier(line.record), run.lines("rollout")):
        if isinstance(error, RecordError):
            run.reject(line, str(error))
        elif isinstance(error, ToolError):
            raise ToolError(f"{line.place}: {error}") from error
        elif error is not None:
            raise error
        else:
            count(result)
            run.counts["ideas"] += len(result["idea_types"])
    run.emit_text(text(run.terminal_columns) + "\n")
