"""mle-export: write tasks and rollouts in the formats of others."""

import shlex
import shutil
from collections.abc import Iterator
from typing import Any

import click

from .. import __version__, cli
from ..base.errors import OptionError, RecordError, ToolError
from ..base.jsonl import dumps
from ..cli_options import flags_on_command_line, options
from ..exports.harbor import HarborOptions
from ..grading import ranked_on
from ..grading.one_submission import REWARDS_ALONE
from ..grading.options import GradingOptions
from ..records.rollout import Rollout

FORMATS = ("harbor", "atif", "chat", "completion", "pairs")
HARBOR = "Folders of tasks (--to harbor)"
GRADING = ("reward", "milestone", "human_rank")


USUAL = ("--to", "--every-pair", "--image", "--verifier", "--agent-timeout", "--reward")


@cli.command("mle-export", data=True, writes="text or folder", usual=USUAL)
@click.option(
    "--to",
    "form",
    cls=cli.Option,
    type=click.Choice(FORMATS),
    required=True,
    help="Format. harbor writes one folder per task; the others write one line per rollout: a trajectory, messages, "
    "a prompt with its completion, or pairs within a group.",
)
@options(HarborOptions, "harbor", HARBOR)
@options(
    GradingOptions,
    "grading",
    HARBOR,
    reward={"choices": REWARDS_ALONE, "help": "What the verifier rewards."},
    failure_reward=None,
    marker_credit=None,
    scale_score=None,
    max_submission=None,
    build=dict,
)
@click.option(
    "--every-pair",
    cls=cli.Option,
    is_flag=True,
    help="pairs: every pair of rollouts of a group with unequal rewards, not only the best with the worst.",
)
def main(run: cli.Run, form: str, harbor: HarborOptions, grading: dict[str, Any], every_pair: bool) -> None:
    """Write FILES (tasks, or rollouts) as other trainers and agents read them.

    \b
    Examples:
      mle-gen-task -n 100 | mle-export --to harbor -o tasks/
      mle-export --to atif graded.jsonl -o trajectories.jsonl
      mle-filter --keep-invalid graded.jsonl | mle-export --to chat > chat.jsonl
      mle-export --to pairs graded.jsonl -o preferences.jsonl

    \b
    harbor       -o DIR: one folder per task in Harbor's format, with instruction,
                 public files, a verifier by mle-grade, and a solution
    atif         a trajectory in the Agent Trajectory Interchange Format, with
                 token ids and log-probabilities where they are known
    chat         {"messages": [...]}
    completion   {"prompt": [...], "completion": [...]}
    pairs        {"prompt": [...], "chosen": [...], "rejected": [...]}

    A task that cannot be graded elsewhere, or whose public files hold its answers, is refused. With --resume finished
    folders are checked and kept.

    Reads one record at a time; pairs one group at a time (of scaffold memory: the whole input).
    """
    _check(form, run, every_pair)
    GradingOptions(**grading).check()
    if form == "harbor":
        _folders(run, harbor.named(__version__), grading)
        return
    run.end_dry_run("rollout")
    run.open()
    run.progress(run.count_lines)
    for document in _documents(run, form, every_pair):
        run.emit_text(dumps(document) + "\n", styled=True)
        run.counts["records"] += 1


def _check(form: str, run: cli.Run, every_pair: bool) -> None:
    """OptionError: an option of another format."""
    if every_pair and form != "pairs":
        raise OptionError("--every-pair is about --to pairs")
    if form == "harbor":
        if run.folder is None:
            raise OptionError("--to harbor needs -o DIR, the folder that the tasks' folders are written to")
        return
    names = {*HarborOptions.__dataclass_fields__, *GRADING}
    if given := sorted(flag for name, flag in flags_on_command_line().items() if name in names):
        raise OptionError(f"{given[0]} is about --to harbor")
    if run.folder is not None and run.folder.is_dir():
        raise OptionError(f"-o {run.folder} is a folder; --to {form} writes a file")


def _documents(run: cli.Run, form: str, every_pair: bool) -> Iterator[dict[str, Any]]:
    from ..exports import atif, chat

    if form == "pairs":
        for group in _groups(run):
            yield from chat.pairs(group, every_pair)
        return
    for line in run.lines("rollout"):
        if form == "atif":
            yield atif.trajectory(line.record)
            continue
        if chat.dropped(line.record):
            run.counts["dropped by mle-filter"] += 1
            continue
        found = (chat.chat if form == "chat" else chat.completion)(line.record)
        if not found:
            run.counts["without a message of the policy that carries loss"] += 1
        elif chat.has_masked(line.record):
            run.counts["with masked messages, which stay in"] += 1
        yield from found


def _groups(run: cli.Run) -> Iterator[list[Rollout]]:
    """The rollouts of each group, when it is complete; those of incomplete ones at the end, and those of traces, of which
    a run has any number.
    """
    waiting: dict[str, list[Rollout]] = {}
    for line in run.lines("rollout"):
        group = waiting.setdefault(line.record["group"], [])
        group.append(line.record)
        if "trace" not in line.record and _is_complete(group):
            yield waiting.pop(line.record["group"])
    yield from waiting.values()


def _is_complete(group: list[Rollout]) -> bool:
    """Whether all of a group have come: those that mle-filter has kept, where it has decided on all."""
    decision = group[-1].get("filter", {})
    if decision.get("arrived", 0) < group[-1]["group_size"]:
        return len(group) >= group[-1]["group_size"]
    kept = sum(rollout.get("filter", {}).get("kept", False) for rollout in group)
    return kept >= decision.get("members", 0) if decision["kept"] else len(group) >= group[-1]["group_size"]


def _folders(run: cli.Run, settings: HarborOptions, grading: dict[str, Any]) -> None:
    from ..exports import harbor
    from ..tasks.folder import write_folder

    run.end_dry_run("task")
    run.open_rejects()
    assert run.folder is not None
    told = [f"--{name.replace('_', '-')} {shlex.quote(value)}" for name, value in grading.items()]
    run.progress(run.count_lines)
    for line in run.lines("task"):
        folder = run.folder / line.record["id"]
        if grading["reward"] == "human-rank" and not ranked_on(line.record, grading["human_rank"]):
            run.reject(line, "--reward human-rank: the task has no leaderboard that it is taken of")
            continue
        try:
            files = harbor.files(line.record, run.data, settings, told)
        except RecordError as error:
            run.reject(line, str(error))
            continue
        if folder.exists() and not run.resume:
            if not run.force:
                raise ToolError(f"{folder} exists; --resume checks and keeps it, --force replaces it")
            shutil.rmtree(folder)
        write_folder(folder, files, whole=True)
        run.counts["tasks"] += 1


if __name__ == "__main__":
    main()
