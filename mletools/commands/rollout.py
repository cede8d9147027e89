"""mle-rollout: let a model work on tasks."""

from dataclasses import replace
from typing import Any

from .. import cli
from ..base.options import declarations
from ..cli_options import Option, changed, click_option, flags_on_command_line, options, value_of
from ..models.options import KeyOptions, ModelOptions, RoleOptions, SampledModelOptions, role_declarations
from ..rollout.endless import EndlessOptions
from ..rollout.metered_model import RunModels, Sampling
from ..rollout.runner import Runner, RunOptions
from ..sandbox.options import SandboxOptions
from ..scaffolds import SCAFFOLDS, open_scaffold
from ..scaffolds.interface import Settings
from ..tasks.code_metrics import CodeMetricOptions

MODEL = (
    "scripted (or scripted:lazy and others), hf:PATH or vllm:PATH (a checkpoint or adapter folder), llama:FILE (a GGUF "
    "file), or the name of a model that a server at --model-url serves."
)

EMBEDDING = "embedding"  # a role whose model does not answer


def _options(args: list[str]) -> list[Option]:
    """The options of the scaffold that a command line names, with its defaults for training or evaluation."""
    name = value_of(args, "--scaffold", "single")
    settings = open_scaffold(name).settings
    declared = declarations(settings, settings.WITHOUT)
    if value_of(args, "--defaults", "training") == "evaluation":
        of_evaluation = {field: {"default": value} for field, value in settings.EVALUATION.items() if field in declared}
        declared = changed(declared, of_evaluation)
    for role, prefix in settings.prefixes().items():
        declared |= role_declarations(prefix, f"--{settings.MODELS[role][0].replace('_', '-')}")
    if settings.EMBEDS:
        declared |= role_declarations(EMBEDDING, "", KeyOptions)
    made = [click_option(field, declaration, f"Scaffold {name}") for field, declaration in declared.items()]
    for each in made:
        each.usual = value_of(args, "--scaffold", "") == name
    return made


def _role_options(own: dict[str, Any], settings: type[Settings]) -> dict[str, KeyOptions]:
    """The options of the other models' servers by role, taken out of the scaffold's own."""

    def taken(prefix: str, options: type[KeyOptions]) -> KeyOptions:
        names = role_declarations(prefix, "", options)
        return options(**{name.removeprefix(f"{prefix}_"): own.pop(name) for name in names})

    roles = {role: taken(prefix, RoleOptions) for role, prefix in settings.prefixes().items()}
    return roles | ({EMBEDDING: taken(EMBEDDING, KeyOptions)} if settings.EMBEDS else {})


def _hint(option: str) -> str | None:
    """Which scaffolds have an option that this one does not."""
    names = [each for each in SCAFFOLDS if any(option in one.opts for one in _options(["--scaffold", each]))]
    others = [each for each in SCAFFOLDS if each not in names]
    if set(others) <= {"single", "command"}:
        return f"{option} is about agents in turns, not --scaffold {' or '.join(others)}"
    return f"{option} is about --scaffold {' or '.join(names)}" if names else None


USUAL = (
    "--model",
    "--model-url",
    "--model-key-env",
    "--temperature",
    "--group-size",
    "--scaffold",
)


@cli.command("mle-rollout", jobs=True, seed=True, data=True, usual=USUAL, extended=cli.Extension(_options, _hint))
@options(SampledModelOptions, "models", "Model", model={"help": MODEL, "default": "scripted"})
@options(Sampling, "sampling", "Sampling")
@options(RunOptions, "plan", "Running")
@options(EndlessOptions, "endless", "Endless")
@options(SandboxOptions, "sandbox", "Sandbox")
def main(
    run: cli.Run,
    models: ModelOptions,
    sampling: Sampling,
    plan: RunOptions,
    endless: EndlessOptions,
    sandbox: SandboxOptions,
    **own: Any,
) -> None:
    """Let a model work on the tasks in FILES, and write a rollout for each trajectory.

    \b
    Examples:
      mle-gen-task -n 8 | mle-rollout -m scripted -g 4 -o rollouts.jsonl
      mle-rollout -m Qwen/Qwen3-8B --model-url $URL -g 8 -j 64 tasks.jsonl \\
        --resume -o rollouts.jsonl
      mle-rollout --scaffold react -m my-model --model-url $URL -g 4 -j 64 \\
        tasks.jsonl | mle-grade
      mle-rollout --scaffold search --preset aide -m my-model \\
        --max-seconds 3600 tasks.jsonl
      mle-rollout --scaffold codeact --ideator gpt-5 \\
        --write-states states.jsonl tasks.jsonl

    \b
    single   one answer, a plan and a program, for mle-sandbox (RL for MLE agents)
    improve  two answers: the second improves on the first; the better by
             validation counts
    react    reasons, runs programs, gets their scores, answers (SandMLE)
    codeact  a Python session and a shell; with --ideator it may ask for help
             (MLE-Ideator)
    memory   traces that begin from scratch or from a pool of the best solutions
             (MLE-RL)
    idea     from states (codeact --write-states): one idea per rollout, executed
             by a frozen model
    search   a graph of solutions, by six exchangeable components (R&D-Agent)
    command  somebody else's agent, a command line on its own in the sandbox
             (docs/agents-outside.md)
    x.py:Me  a scaffold of your own (docs/agents.md)

    `-m scripted` is a built-in simulated agent: deterministic and offline, with programs from good to broken; it can
    play every scaffold and role. -j is the number of concurrent rollouts. Token ids and log-probabilities are recorded
    where the engine returns them.

    Agents in turns (all but single) run their programs in a sandbox of this command. They see scores on held-out
    training rows (--validation; a task without such rows is played without scores), never test scores or answers,
    unless --reveal-test is given. Their submissions have been run already, so mle-grade comes next. Every reply is kept
    in OUTPUT.tape until the run is complete: resuming a killed run repeats no paid request.

    Reads one task at a time and writes each rollout when it is done.
    """
    endless.check(run.sidecar_path("") is not None, plan.group_size)
    seeded = "seed" in flags_on_command_line()
    scaffold = open_scaffold(plan.scaffold)
    roles = _role_options(own, scaffold.settings)
    settings = scaffold.settings(**own)
    if sandbox.timeout is not None:
        settings = replace(settings, execution_seconds=sandbox.timeout)
    settings = scaffold.check(settings)
    endless.check_rollouts(scaffold.needs(settings).rollouts)
    with CodeMetricOptions(sandbox.backend).open() as code_metrics:
        run_models = RunModels(models, sampling, settings, roles, plan.defaults == "training", seeded)
        Runner(run, scaffold, settings, run_models, plan, endless, sandbox, code_metrics).play()
