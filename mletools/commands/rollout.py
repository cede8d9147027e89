"""mle-rollout: let a model work on tasks."""

import click

from .. import cli
from ..scaffolds import SCAFFOLDS
from .boxes import BoxOptions, box_options
from .model_options import ModelOptions, model_options
from .rollout_endless import Endless, endless_options
from .rollout_options import TurnOptions, turn_options
from .rollout_single import answer_once
from .rollout_turns import play_turns


@cli.command("mle-rollout", jobs=True, seed=True, data=True, dry_run=True)
@model_options(
    "scripted (or scripted:lazy and others), hf:PATH or vllm:PATH (a checkpoint or adapter folder), or the name of a model "
    "that a server at --model-url serves.",
    default="scripted",
    sampling=True,
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
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Sampled in a rollout, all messages together (single 4096; react 32768; else no bound).",
)
@click.option(
    "--batch", type=click.IntRange(1), default=64, show_default=True, help="hf, single: answers sampled at once."
)
@endless_options
@turn_options
@box_options()
def main(
    run: cli.Run,
    models: ModelOptions,
    group_size: int,
    scaffold: str,
    prompt: str,
    temperature: float,
    top_p: float,
    max_tokens: int | None,
    batch: int,
    endless: Endless,
    turns: TurnOptions,
    box: BoxOptions,
) -> None:
    """Let a model work on the tasks in FILES; one rollout record a trajectory.

    `scripted` is built in: deterministic, offline, it writes real solutions from good to broken, and plays every part.
    -j is the number of rollouts in flight. Token ids and logprobs are recorded where the engine tells them.

    \b
    single   one answer, a plan and a program, which mle-sandbox runs (RL for MLE agents)
    improve  two answers: the second improves on the first; the better by validation counts (the same, at test time)
    react    reasons, runs programs, has them scored, answers (SandMLE)
    codeact  a Python session and a shell; with --ideator it may ask for help (MLE-Ideator)
    memory   traces that begin from scratch or from a pool of the best solutions (MLE-RL)
    idea     from states (codeact --states): one idea a rollout, carried out by a frozen model (MLE-Ideator)
    search   a graph of solutions, by six components that can be exchanged (R&D-Agent; --preset has its rivals)

    Agents in turns run their programs here, in a sandbox, and are told scores on training rows that are held out of
    what they see (--validation), never test scores or answers, unless --reveal-test says so. What they hand in is run
    already: mle-grade comes next. Every reply is kept in OUTPUT.tape until the run is complete: a killed run pays for
    nothing twice. Streams.

    \b
    Examples:
      mle-gen-task -n 8 | mle-rollout -m scripted -g 4 -o rollouts.jsonl
      mle-rollout -m Qwen/Qwen3-8B --model-url http://localhost:8000 -g 8 -j 64 tasks.jsonl --resume -o rollouts.jsonl
      mle-rollout --scaffold react -m my-model --model-url $URL -g 4 -j 64 tasks.jsonl | mle-grade -o graded.jsonl
      mle-rollout --scaffold search --preset aide --paths mcts -m my-model --max-seconds 3600 tasks.jsonl -o searched.jsonl
      mle-rollout --scaffold codeact --ideator gpt-5 --ideator-url $ADVISOR --states states.jsonl tasks.jsonl -o runs.jsonl
    """
    turns.refuse_strangers(scaffold)
    endless.check(run.beside("") is not None)
    if scaffold != "single":
        if prompt != "single":
            raise click.UsageError("--prompt is about --scaffold single")
        play_turns(run, scaffold, models, temperature, top_p, turns, box, group_size, max_tokens, endless)
        return
    answer_once(run, models, temperature, top_p, turns, group_size, max_tokens, prompt, batch, endless)
