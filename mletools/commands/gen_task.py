"""mle-gen-task: make tasks."""

import click

from .. import cli
from ..cli_options import options
from ..records.errors import ToolError
from ..sandbox import BACKENDS
from ..tasks.procedural.dna import MODALITIES, MUTATIONS, SAMPLES
from ..tasks.sources import sources
from .llm_options import LlmOptions

LLM = "llm"


def _sources(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    if any(LLM in spec.split(",") for spec in value):
        if value != (LLM,):
            raise click.BadParameter("llm is a source of its own: run it apart from the others")
        return [LLM]
    try:
        return [name for spec in value for name in sources(spec)]
    except (ToolError, ValueError) as error:
        raise click.BadParameter(str(error)) from None


def _range(context: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    low, _, high = value.partition("-")
    try:
        found = int(low), int(high or low)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor two with a dash, e.g. 50-200") from None
    if not 40 <= found[0] <= found[1] <= 2000:
        raise click.BadParameter(f"{value!r}: from 40 to 2000 samples, the fewer first")
    return found


@cli.command("mle-gen-task", inputs=False, jobs=True, seed=True, data=True)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    cls=cli.MachineOption,
    help="How many tasks; the sources take turns.",
)
@click.option(
    "--source",
    multiple=True,
    default=(",".join(MODALITIES),),
    show_default=True,
    callback=_sources,
    help="Kinds of data, made from a hidden rule; or sklearn:NAME[,NAME...] (iris, wine, breast_cancer, digits, diabetes, linnerud), sklearn for all of them; or llm. Repeatable.",
)
@click.option(
    "--samples",
    default=f"{SAMPLES[0]}-{SAMPLES[1]}",
    show_default=True,
    metavar="N-M",
    callback=_range,
    help="Samples of a made task, train and test together.",
)
@click.option(
    "--mutations",
    type=click.IntRange(0, 8),
    default=MUTATIONS,
    show_default=True,
    help="What is done to the data of a made task: noise, gaps, shifts, distractors ...",
)
@click.option(
    "--backend",
    type=click.Choice([*BACKENDS, "auto", "none"]),
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    help="The sandbox where a standard solution is tried on each task; none: it is not.",
)
@click.option(
    "--trial-timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that the standard solution has.",
)
@click.option(
    "--rejects",
    "rejected",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Write the drafts that were dropped here, with the reason.",
)
@click.option(
    "--describe",
    "described",
    type=click.Path(),
    metavar="FILE",
    cls=cli.MachineOption,
    help="Make nothing: print the tasks of FILE for a human, with rule and baselines.",
)
@options(LlmOptions, "llm", "Model (--source llm)")
def main(
    run: cli.Run,
    number: int,
    source: list[str],
    samples: tuple[int, int],
    mutations: int,
    backend: str,
    trial_timeout: float,
    rejected: str | None,
    described: str | None,
    llm: LlmOptions,
) -> None:
    """Make tasks: a folder of data each under --data, and a record each on standard output.

    A made task has 50-200 samples of a kind of data, whose target follows a hidden rule. Some forty baselines are trained
    on it and scored on its hidden test set: they are its leaderboard, and its thresholds come from there. A draft that
    fails a check (order of the thresholds, learnable, not trivial, no leak ...) is drawn again. sklearn:NAME holds out a
    part of a real table that ships inside scikit-learn. Same seed, same bytes. Streams.

    llm lets a model write tasks in the likeness of --seeds, in SandMLE's four roles: a strategist, a developer of the data's
    generator, an engineer of the evaluator, a writer. Their scripts run in a sandbox, errors are fed back, and the tasks
    go through the same checks; what fails is dropped, so fewer than -n may be left. Every reply is kept in --journal and
    never paid twice. -j is the number of tasks at once.

    \b
    Examples:
      mle-gen-task -n 64 -j 4 --seed 0 -o tasks.jsonl --rejects dropped.jsonl
      mle-gen-task --describe tasks.jsonl | less
      mle-gen-task --source llm --seeds tasks.jsonl -m Qwen/Qwen3-32B --model-url $URL -n 50 -j 8
      mle-gen-task --source image,audio -n 8 | jq -r '[.name, .problem, .metric.name] | @tsv'
    """
    if described is not None:
        _describe(run, described)
        return
    from .task_making import Asked, make_tasks

    trials = None if backend == "none" else (backend, trial_timeout)
    make_tasks(run, Asked(number, source, samples, mutations, trials, llm), rejected)


def _describe(run: cli.Run, path: str) -> None:
    """The tasks of a file as text where records would go."""
    from ..tasks.show import show

    run.files, run.writes_text = [path], True
    run.open()
    for at, line in enumerate(run.lines("task")):
        run.emit_text("\n\n" * bool(at) + show(line.record, run.data / line.record["data"]["dir"]))
        run.counts["tasks described"] += 1
