"""The options of mle-filter: what each sets, which go together, and the papers' constants under one name."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .. import cli
from ..filters import FilterOptions

# Options that say something about one kind of record only, or about choosing and not about cutting.
CHOICES = tuple(field.name for field in fields(FilterOptions))
OF_ROLLOUTS = (*(name for name in CHOICES if name != "keep_duplicates"), "steps", "preset", "mark", "state")
OF_TASKS = ("check", "jobs", "keep_order", "backend", "metric_timeout", "metric_memory")
OF_VALUE = ("top", "tau_adv", "tau_val", "window")
OF_WINDOW = ("window_min", "prune", "tau_rm", "binarise", "normalise")

# MLE-RL, sections 4.1 and 5.1. It drops neither equal programs nor groups.
PRESETS: dict[str, dict[str, Any]] = {
    "mle-rl": {
        "mask_invalid": True,
        "top": 0.3,
        "tau_adv": 0.01,
        "tau_val": 0.1,
        "window": 8,
        "prune": 2.0,
        "tau_rm": 0.03,
        "binarise": True,
        "keep_duplicates": True,
        "min_group": 1,
        "spread": False,
    }
}


def settings(preset: str | None, given: dict[str, Any]) -> FilterOptions:
    """The filters' options: a preset's, and over them what the command line says. UsageError: they do not agree."""
    context = click.get_current_context()
    told = {name for name in CHOICES if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    chosen = {**given, **(PRESETS[preset] if preset else {}), **{name: given[name] for name in told}}
    names = {param.name: param.opts[0] for param in context.command.params}
    if not chosen["window"]:
        wrong = next((name for name in OF_WINDOW if name in told), None)
        if wrong:
            raise click.UsageError(f"{names[wrong]} needs --window N: it is about the running mean")
        chosen |= {"window": None, "tau_rm": None, "binarise": False, "normalise": False}
    elif chosen["window_min"] > chosen["window"]:
        told_min, most = chosen["window_min"], chosen["window"]
        raise click.UsageError(f"--window-min {told_min}: a window of {most} never holds so many")
    if chosen["normalise"] and chosen["binarise"]:
        if "binarise" in told:
            raise click.UsageError("--binarise and --normalise are two rewards: give one")
        chosen["binarise"] = False  # the preset's
    if chosen["top"] is None and "calibrate" in told:
        raise click.UsageError("--calibrate needs --top SHARE")
    value = next((name for name in OF_VALUE if chosen[name] is not None), None)
    if chosen["keep_invalid"] and value:
        raise click.UsageError(f"--keep-invalid does not go with {names[value]}, which compares valid rollouts")
    return FilterOptions(**chosen)


def refuse_mixed(tasks: bool, steps: bool) -> None:
    """UsageError for an option on the command line that is about another kind of record or of work."""
    context = click.get_current_context()
    given = {
        param.name: param.opts[-1]
        for param in context.command.params
        if context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    }
    wrong = next((given[name] for name in (OF_ROLLOUTS if tasks else OF_TASKS) if name in given), None)
    if wrong:
        other = "is for rollouts and does nothing with --tasks" if tasks else "needs --tasks"
        raise click.UsageError(f"{wrong} {other}")
    wrong = next((given[name] for name in (*CHOICES, "preset", "mark", "state") if name in given and steps), None)
    if wrong:
        raise click.UsageError(f"{wrong} does nothing with --steps: it is for what mle-grade made of the steps")


def _checks(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if value:
        from ..tasks.soundness import CHECKS

        unknown = [name for name in value if name not in CHECKS]
        if unknown:
            raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(CHECKS)}")
    return value


def _told(preset: str) -> str:
    """What a preset sets, as it would stand on a command line."""
    words = []
    for name, value in PRESETS[preset].items():
        option = name.replace("_", "-")
        words.append(
            f"--{option}" if value is True else f"--no-{option}" if value is False else f"--{option} {value:g}"
        )
    return " ".join(words)


_SHARE = click.FloatRange(0, 1, min_open=True)
_SHOWN = {"show_default": True}
_MACHINE: dict[str, Any] = {"show_default": True, "cls": cli.MachineOption}
_FAILED = "Keep rollouts without a valid submission: failures teach GRPO, too."
_GROUP = "Drop groups with fewer members left."
_EQUAL = "Keep equal programs (up to formatting) of one task; tasks of the same DNA, rule and scenario, or data."
_OWN: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--tasks",), {"is_flag": True, "help": "FILES are tasks: keep those that pass the checks of their data."}),
    (("--steps",), {"is_flag": True, "help": "Cut rollouts in turns into one rollout for each valid submission."}),
    (("--preset",), {"type": click.Choice(list(PRESETS)), "help": f"mle-rl: {_told('mle-rl')}. Options win over it."}),
    (("--keep-invalid",), {"is_flag": True, "help": _FAILED}),
    (("--keep-duplicates/--drop-duplicates",), {"default": False, "help": _EQUAL}),
    (("--min-score",), {"type": float, "help": "Drop valid scores worse than this, in the metric's direction."}),
    (("--min-group",), {"type": click.IntRange(1), "default": 2, "help": _GROUP, **_SHOWN}),
    (("--spread/--no-spread",), {"default": True, "help": "Drop groups whose rewards are all equal.", **_SHOWN}),
    (("--open-groups",), {"type": click.IntRange(1), "default": 10_000, "metavar": "N",
     "help": "Groups that wait for members; with more, the oldest is decided as it is.", **_SHOWN}),
    (("--mask-invalid/--no-mask-invalid",), {"default": False,
     "help": "List the policy's messages in bad form and its invalid hand-ins in filter.masked: no loss on them."}),
    (("--top",), {"type": _SHARE, "metavar": "SHARE", "help": "Keep a task's best rewards, about this share."}),
    (("--calibrate",), {"type": click.Choice(["input", "seen"]), "default": "input",
     "help": "--top of the input, which is held, or of what came so far: the first are in the top.", **_SHOWN}),
    (("--tau-adv",), {"type": float, "metavar": "X",
     "help": "Drop what gains no more human rank than X on its reference."}),
    (("--tau-val",), {"type": float, "metavar": "X",
     "help": "Drop what has a validation score of human rank below X."}),
    (("--window",), {"type": click.IntRange(0), "metavar": "W",
     "help": "Compare with the mean of the task's last W rewards, reset and memory traces apart. 0: do not."}),
    (("--window-min",), {"type": click.IntRange(1), "default": 1, "metavar": "N",
     "help": "Drop what meets fewer rewards in the window: it is warming up.", **_SHOWN}),
    (("--prune",), {"type": click.FloatRange(0), "default": 2.0, "metavar": "SIGMAS",
     "help": "Leave rewards so far below the window's mean out of it.", **_SHOWN}),
    (("--tau-rm",), {"type": click.FloatRange(0), "metavar": "X",
     "help": "Drop what lies less than X off the running mean."}),
    (("--binarise/--no-binarise",), {"default": False, "help": "filter.reward: 1 above the running mean, else 0."}),
    (("--normalise",), {"is_flag": True, "help": "filter.reward: the reward less the running mean."}),
    (("--state",), {"type": click.Path(dir_okay=False, path_type=Path), "metavar": "FILE",
     "help": "Remember the rewards of --top and --window here, from run to run."}),
    (("--mark",), {"is_flag": True, "help": "Write what is dropped, too, with filter.kept false and the reason."}),
    (("--dropped",), {"type": click.Path(), "metavar": "FILE", "cls": cli.MachineOption,
     "help": "Write what is dropped here, with the reason."}),
    (("--check",), {"multiple": True, "metavar": "NAME", "callback": _checks,
     "help": "Tasks: this check alone (default: all; a wrong name lists them). Repeatable."}),
    (("--backend",), {"default": "local", "envvar": "MLE_SANDBOX", "show_envvar": True, **_MACHINE,
     "help": "Tasks whose metric is code: the sandbox it runs in."}),
    (("--metric-timeout",), {"type": float, "default": 300.0, "metavar": "S", **_MACHINE,
     "help": "Tasks whose metric is code: wall seconds for one."}),
    (("--metric-memory",), {"type": click.IntRange(64), "default": 4096, "metavar": "MB", **_MACHINE,
     "help": "Tasks whose metric is code: memory of one."}),
)  # fmt: skip


# The first option under each heading of the help.
_HEADINGS = {
    "--tasks": "Work",
    "--keep-invalid": "Single rollouts",
    "--min-group": "Groups",
    "--mask-invalid/--no-mask-invalid": "Loss mask",
    "--top": "Informative steps",
    "--window": "Running mean",
    "--state": "Kept and dropped",
    "--check": "Tasks",
}


def filter_options(body: Callable[..., None]) -> Callable[..., None]:
    """The command's own options, in the order of its help."""
    heading, options = "", []
    for names, settings in _OWN:
        heading = _HEADINGS.get(names[0], heading)
        options.append(click.option(*names, **{"cls": cli.Option, **settings, "heading": heading}))
    for option in reversed(options):
        body = option(body)
    return body
