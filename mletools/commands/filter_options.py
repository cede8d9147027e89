"""The options of mle-filter: what each sets, which go together, and the papers' constants under one name."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from ..filters import FilterOptions
from ..records.options import option

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


def settings(preset: str | None, filters: FilterOptions) -> FilterOptions:
    """The filters' options: a preset's, and over them what the command line says. UsageError: they do not agree."""
    context, given = click.get_current_context(), asdict(filters)
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
        raise click.UsageError(f"{wrong} does nothing with --cut-steps: it is for what mle-grade made of the steps")


def _told(preset: str) -> str:
    """What a preset sets, as it would stand on a command line."""
    words = []
    for name, value in PRESETS[preset].items():
        option = name.replace("_", "-")
        words.append(
            f"--{option}" if value is True else f"--no-{option}" if value is False else f"--{option} {value:g}"
        )
    return " ".join(words)


def check_name(name: str) -> str:
    """The name of a check of tasks. ValueError: there is none."""
    from ..tasks.soundness import CHECKS

    if name not in CHECKS:
        raise ValueError(f"{name!r} is none of {', '.join(CHECKS)}")
    return name


@dataclass(frozen=True)
class Work:
    """What is filtered, and where what is dropped goes."""

    tasks: bool = option("FILES are tasks: keep those that pass the checks of their data.", default=False)
    steps: bool = option(
        "Cut rollouts in turns into one rollout for each valid submission.", default=False, flags=("--cut-steps",)
    )
    preset: str | None = option(f"mle-rl: {_told('mle-rl')}. Options win over it.", choices=tuple(PRESETS))
    state: str | None = option(
        "Remember the rewards of --top and --window here, from run to run.", kind="file", metavar="FILE"
    )
    mark: bool = option("Write what is dropped, too, with filter.kept false and the reason.", default=False)
    dropped: str | None = option(
        "Write what is dropped here, with the reason.", kind="file", metavar="FILE", machine=True
    )


@dataclass(frozen=True)
class TaskChecks:
    """Which checks of tasks, and where metrics that are code run."""

    check: tuple[str, ...] = option(
        "This check alone (default: all; a wrong name lists them). Repeatable.",
        default=(),
        metavar="NAME",
        read=check_name,
    )
    backend: str = option("The sandbox of metrics that are code.", default="local", envvar="MLE_SANDBOX", machine=True)
    metric_timeout: float = option("Wall seconds for one metric.", default=300.0, metavar="S", machine=True)
    metric_memory: int = option("Memory of one metric.", default=4096, at_least=64, metavar="MB", machine=True)
