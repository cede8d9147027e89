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
    """Make tasks: a folder of data for each below --data, and a record for each on standard output.

    \b
    Examples:
      mle-gen-task -n 64 -j 4 --seed 0 -o tasks.jsonl --rejects dropped.jsonl
      mle-gen-task --describe tasks.jsonl | less
      mle-gen-task --source llm --seeds tasks.jsonl \\
        -m Qwen/Qwen3-32B --model-url $URL -n 50 -j 8
      mle-gen-task --source llm --seeds tasks.jsonl \\
        -m my-model --model-url $URL --developer gpt-5
      mle-gen-task --source tables -n 94 -o held-out.jsonl
      mle-gen-task --source image,audio -n 8 | jq -r '[.name, .problem] | @tsv'

    Procedural tasks (the default) have 50-200 samples whose target follows a hidden rule. About forty baselines are
    trained on each task and scored on its hidden test set; they are its leaderboard and give its thresholds. A draft
    that fails a check (order of the thresholds, learnable, not trivial, no leak, ...) is drawn again. The same seed
    gives the same bytes.

    --source tables holds out rows of real tables that ship inside Python packages.

    --source llm lets a language model write tasks similar to --seeds, in SandMLE's four roles: strategist, developer of
    the data generator, engineer of the evaluator, writer. Their scripts run in a sandbox, errors are fed back, and the
    tasks pass the same checks. Failed tasks are dropped, so the output may have fewer than -n. Replies are kept in
    --journal and never paid twice. -j is the number of concurrent tasks. `--source llm --help` shows the options of
    each role.

    Writes each task when it is done.
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
        folder = run.data / line.record["data"]["dir"]
        run.emit_text("\n\n" * bool(at) + show(line.record, folder, run.terminal_columns))
        run.counts["tasks described"] += 1
