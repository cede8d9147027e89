"""The options of mle-filter, which of them go together, and the papers' constants under one name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from ..base.errors import OptionError
from ..base.options import option
from ..base.words import did_you_mean
from .draws import DrawOptions

SINGLE, GROUPS, STEPS, MEAN = "Single rollouts", "Groups", "Informative steps", "Running mean"  # headings


@dataclass(frozen=True)
class FilterOptions:
    """min_score is compared in the metric's direction; min_group counts members that passed the single filters.

    calibrate: "input" takes the top share of the whole input, which is held; "seen" of what came so far, the rollout
    itself among it: a task's first rollout is always in the top, and so is each that is better than all before.
    window: that many rewards; None: no running mean. Ranks and rewards are shares, 0 to 1, in MLE-RL.
    """

    keep_invalid: bool = option(
        "Keep rollouts without a valid submission: GRPO also learns from failures. With --no-spread, also keep those "
        "without a reward: imitation needs none.",
        default=False,
        heading=SINGLE,
    )
    keep_duplicates: bool = option(
        "Keep programs of a task that are equal up to formatting; with --tasks, tasks with the same DNA, rule and "
        "scenario, or data.",
        default=False,
        flags=("--keep-duplicates/--drop-duplicates",),
        switch=True,
        heading=SINGLE,
    )
    min_score: float | None = option(
        "Drop valid scores worse than this, in the metric's direction.", metavar="X", heading=SINGLE
    )
    min_reward: float | None = option("Drop rollouts with a reward below this.", metavar="X", heading=SINGLE)
    min_medal: str | None = option(
        "Drop rollouts without a medal, or with a lower one.", choices=("bronze", "silver", "gold"), heading=SINGLE
    )
    min_group: int = option("Drop groups with fewer than N members left.", default=2, at_least=1, heading=GROUPS)
    spread: bool = option("Drop groups whose rewards are all equal.", default=True, switch=True, heading=GROUPS)
    mask_invalid: bool = option(
        "List the policy's malformed messages and invalid submissions in filter.masked: they carry no loss.",
        default=False,
        switch=True,
        heading="Loss mask",
    )
    top: float | None = option(
        "Keep about this share of each task's rollouts, those with the best rewards.",
        above=0,
        at_most=1,
        metavar="SHARE",
        heading=STEPS,
    )
    calibrate: str = option(
        "--top of the whole input, which is held, or of the rollouts seen so far, so that the first ones always pass.",
        default="input",
        choices=("input", "seen"),
        heading=STEPS,
    )
    tau_adv: float | None = option(
        "Drop rollouts whose human rank exceeds their reference's by X or less.", metavar="X", heading=STEPS
    )
    tau_val: float | None = option(
        "Drop rollouts whose validation score has a human rank below X.", metavar="X", heading=STEPS
    )
    window: int | None = option(
        "Compare with the mean of the task's last W rewards, separately for reset and memory traces. 0: off.",
        at_least=0,
        metavar="W",
        heading=MEAN,
    )
    window_min: int = option(
        "Drop rollouts while the window has fewer than N rewards (warm-up).",
        default=1,
        at_least=1,
        metavar="N",
        heading=MEAN,
    )
    prune: float = option(
        "Leave rewards more than SIGMAS standard deviations below the window's mean out of the mean.",
        default=2.0,
        at_least=0,
        metavar="SIGMAS",
        heading=MEAN,
    )
    tau_rm: float | None = option("Drop rewards within X of the running mean.", at_least=0, metavar="X", heading=MEAN)
    binarise: bool = option(
        "Set filter.reward to 1 above the running mean, else to 0.", default=False, switch=True, heading=MEAN
    )
    normalise: bool = option("Set filter.reward to the reward minus the running mean.", default=False, heading=MEAN)
    open_groups: int = option(
        "Maximum number of groups that wait for members. Beyond it, the oldest group is decided as it is.",
        default=10_000,
        at_least=1,
        metavar="N",
        heading=GROUPS,
    )


CHOICES = tuple(field.name for field in fields(FilterOptions))
# Options about one kind of record only.
OF_ROLLOUTS = (
    *(name for name in CHOICES if name != "keep_duplicates"),
    "steps",
    "failed_steps",
    "preset",
    "mark",
    "state",
)
OF_TASKS = ("check", "jobs", "keep_order", "backend", "metric_timeout", "metric_memory")
OF_VALUE = ("top", "tau_adv", "tau_val", "window")
OF_WINDOW = ("window_min", "prune", "tau_rm", "binarise", "normalise")

# MLE-RL, sections 4.1 and 5.1. It drops neither equal programs nor groups.
PRESETS: dict[str, dict[str, bool | float]] = {
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


def _flag(name: str, value: bool | float) -> str:
    """The option with this value, as it stands on a command line."""
    flag = name.replace("_", "-")
    return f"--{flag}" if value is True else f"--no-{flag}" if value is False else f"--{flag} {value:g}"


PRESET_FLAGS = " ".join(_flag(name, value) for name, value in PRESETS["mle-rl"].items())


@dataclass(frozen=True)
class WorkOptions:
    """What is filtered, and where what is dropped goes."""

    tasks: bool = option("FILES are tasks: keep those that pass all checks.", default=False)
    steps: bool = option(
        "Cut each multi-turn rollout into one rollout per valid submission.", default=False, flags=("--cut-steps",)
    )
    failed_steps: bool = option(
        "--cut-steps: also write a step for each submitted program without a valid submission, and for the remaining "
        "turns.",
        default=False,
    )
    preset: str | None = option(
        f"mle-rl: {PRESET_FLAGS}. Options on the command line override it.", choices=tuple(PRESETS)
    )
    state: str | None = option(
        "File that keeps the rewards of --top and --window from run to run.", kind="state file", metavar="FILE"
    )
    mark: bool = option(
        "Also write dropped rollouts, with filter.kept false and the reason; with --cut-steps, rollouts without a "
        "step.",
        default=False,
    )
    dropped: str | None = option(
        "Write dropped records to FILE, with the reason.", kind="output file", metavar="FILE", machine=True
    )


@dataclass(frozen=True)
class ApartOptions:
    """Whose tasks the records must not be of: of training and evaluation, say."""

    disjoint_from: tuple[str, ...] = option(
        "Fail, and name the tasks, where FILE (say, an evaluation set) has the same task or its data. Repeatable.",
        default=(),
        kind="existing file",
        metavar="FILE",
    )
    exclude: tuple[str, ...] = option(
        "Leave out records whose task or data is also in FILE. Repeatable.",
        default=(),
        kind="existing file",
        metavar="FILE",
    )


def check_scope(work: WorkOptions, flags: Mapping[str, str]) -> None:
    """OptionError for an option on the command line that is about another kind of record or of work.

    `flags` are the options on the command line: {field: flag}.
    """
    wrong = next((flags[name] for name in (OF_ROLLOUTS if work.tasks else OF_TASKS) if name in flags), None)
    if wrong:
        raise OptionError(
            f"{wrong} is for rollouts and does nothing with --tasks" if work.tasks else f"{wrong} needs --tasks"
        )
    if work.failed_steps and not work.steps:
        raise OptionError("--failed-steps needs --cut-steps")
    wrong = next((flags[name] for name in (*CHOICES, "preset", "state") if name in flags), None)
    if work.steps and wrong:
        raise OptionError(f"{wrong} does nothing with --cut-steps: it is for what mle-grade made of the steps")


def check_draws(draws: DrawOptions, apart: ApartOptions, flags: Mapping[str, str]) -> bool:
    """Whether records are drawn, or held apart from others. OptionError for options that a draw needs or that do nothing
    with it.

    `flags` are the options on the command line: {field: flag}.
    """
    for name, needed, value in (
        ("per", "sample", draws.sample),
        ("split_by", "split", draws.split),
        ("exact", "split", draws.split),
    ):
        if name in flags and value is None:
            raise OptionError(f"{flags[name]} needs --{needed}")
    if (draws.split is None) != (draws.part is None):
        raise OptionError("--split needs --part NAME, the part to write" if draws.split else "--part needs --split")
    if draws.split is not None and draws.part not in draws.split:
        near = did_you_mean(draws.part or "", draws.split)
        raise OptionError(f"--part {draws.part}: --split has the parts {', '.join(draws.split)}{near}")
    drawing = draws.sample is not None or draws.split is not None
    if not drawing and "seed" in flags:
        raise OptionError("--seed needs --sample or --split")
    others = (*OF_ROLLOUTS, *OF_TASKS, "tasks", "keep_duplicates")
    wrong = next((flags[name] for name in others if name in flags), None)
    choosing = next((flags[name] for name in ("sample", "split", "disjoint_from", "exclude") if name in flags), None)
    if choosing and wrong:
        raise OptionError(
            f"{wrong} does nothing with {choosing}, which chooses from any records: filter in a mle-filter before it"
        )
    return choosing is not None


def with_preset(preset: str | None, options: FilterOptions, flags: Mapping[str, str]) -> FilterOptions:
    """The options of a preset, and over them those on the command line: `flags`, {field: flag}.

    OptionError: they do not agree.
    """
    values = asdict(options)
    chosen = values | (PRESETS[preset] if preset else {}) | {name: values[name] for name in CHOICES if name in flags}
    if not chosen["window"]:
        wrong = next((flags[name] for name in OF_WINDOW if name in flags), None)
        if wrong:
            raise OptionError(f"{wrong} needs --window N: it is about the running mean")
        chosen |= {"window": None, "tau_rm": None, "binarise": False, "normalise": False}
    elif chosen["window_min"] > chosen["window"]:
        raise OptionError(f"--window-min {chosen['window_min']}: a window of {chosen['window']} never holds so many")
    if chosen["normalise"] and chosen["binarise"]:
        if "binarise" in flags:
            raise OptionError("--binarise and --normalise are two rewards: give one")
        chosen["binarise"] = False  # the preset's
    if chosen["top"] is None and "calibrate" in flags:
        raise OptionError("--calibrate needs --top SHARE")
    of_value = next((name.replace("_", "-") for name in OF_VALUE if chosen[name] is not None), None)
    if chosen["keep_invalid"] and of_value:
        raise OptionError(f"--keep-invalid does not go with --{of_value}, which compares valid rollouts")
    return FilterOptions(**chosen)
