"""mle-gen-task: make tasks."""

from typing import Any

from .. import cli
from ..cli_options import Option, click_option, options, value_of
from ..making.options import LLM, LlmOptions, TaskOptions, read_roles, role_options


def _roles(args: list[str]) -> list[Option]:
    """The options of the roles of --source llm."""
    if value_of(args, "--source", "") != LLM:
        return []
    return [click_option(name, declared, "Roles (--source llm)") for name, declared in role_options().items()]


def _hint(option: str) -> str | None:
    """That an option needs --source llm."""
    known = any(option in each.opts for each in _roles(["--source", LLM]))
    return f"{option} is about --source llm" if known else None


@cli.command("mle-gen-task", inputs=False, jobs=True, seed=True, data=True, extended=_roles, hint=_hint)
@options(TaskOptions, "task_options")
@options(LlmOptions, "llm", "Model (--source llm)")
def main(run: cli.Run, task_options: TaskOptions, llm: LlmOptions, **own: Any) -> None:
    """Make tasks: a folder of data each under --data, and a record each on standard output.

    A made task has 50-200 samples of a kind of data, whose target follows a hidden rule. Some forty baselines are
    trained on it and scored on its hidden test set: they are its leaderboard, and its thresholds come from there. A
    draft that fails a check (order of the thresholds, learnable, not trivial, no leak ...) is drawn again.
    tables holds out a part of real tables that ship inside Python packages. Same seed, same bytes. Streams.

    llm lets a model write tasks in the likeness of --seeds, in SandMLE's four roles: a strategist, a developer of the
    data's generator, an engineer of the evaluator, a writer. Their scripts run in a sandbox, errors are fed back, and
    the tasks go through the same checks; what fails is dropped, so fewer than -n may be left. Every reply is kept in
    --journal and never paid twice. -j is the number of tasks at once. Each role may have a model of its own:
    `--source llm --help` shows --strategist, --developer, --evaluator, --writer and their options.

    \b
    Examples:
      mle-gen-task -n 64 -j 4 --seed 0 -o tasks.jsonl --rejects dropped.jsonl
      mle-gen-task --describe tasks.jsonl | less
      mle-gen-task --source llm --seeds tasks.jsonl -m Qwen/Qwen3-32B --model-url $URL -n 50 -j 8
      mle-gen-task --source llm --seeds tasks.jsonl -m my-model --model-url $URL --developer gpt-5
      mle-gen-task --source tables -n 94 -o held-out.jsonl
      mle-gen-task --source image,audio -n 8 | jq -r '[.name, .problem, .metric.name] | @tsv'
    """
    roles = read_roles(own)
    task_options.check(llm, roles)
    run.end_dry_run()
    if task_options.described is not None:
        describe(run, task_options.described)
        return
    from ..making.tasks import make_tasks

    make_tasks(run, task_options, llm, roles)


def describe(run: cli.Run, path: str) -> None:
    """The tasks of a file as text where records would go."""
    from ..tasks.show import show

    run.files, run.writes_text = [path], True
    run.open()
    for at, line in enumerate(run.lines("task")):
        run.emit_text("\n\n" * bool(at) + show(line.record, run.data / line.record["data"]["dir"]))
        run.counts["tasks described"] += 1
