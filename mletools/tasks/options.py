"""The options of task making. Importing this module is cheap, because --help does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import OptionError, ToolError
from ..base.options import Declaration, declarations, option
from ..base.words import did_you_mean
from ..models.options import ModelOptions, RoleOptions, role_declarations
from ..models.prices import read_price
from ..sandbox import BACKENDS
from .procedural.dna import MODALITIES, MUTATIONS, SAMPLES
from .sources import sources

LLM = "llm"
ROLES = ("strategist", "developer", "evaluator", "writer")
JOURNAL = Path("roles") / "journal.jsonl"


def read_sources(text: str) -> list[str]:
    """The sources named by one --source. ValueError: an unknown one."""
    names = text.split(",")
    return names if LLM in names else sources(text)


def read_range(text: str) -> tuple[int, int]:
    """The minimum and maximum of N-M or N. ValueError: not a range within 40 to 2000."""
    low, _, high = text.partition("-")
    try:
        least, most = int(low), int(high or low)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor a range such as 50-200") from None
    if not 40 <= least <= most <= 2000:
        raise ValueError(f"{text!r} is not a range within 40-2000")
    return least, most


def check_name(name: str) -> str:
    """The name of a check of tasks. ValueError: there is none."""
    from .soundness import CHECKS

    if name not in CHECKS:
        raise ValueError(f"{name!r} is none of {', '.join(CHECKS)}{did_you_mean(name, CHECKS)}")
    return name


@dataclass(frozen=True)
class TaskOptions:
    """The tasks to make; `samples` is (minimum, maximum), `trial_timeout` is wall time in seconds."""

    number: int = option(
        "Number of tasks; the sources take turns.", default=1, at_least=0, flags=("-n", "--number"), machine=True
    )
    source: tuple[str, ...] = option(
        "Modalities of procedural data; or tables, real tables of Python packages: all of them, of one package "
        "(sklearn) or by name (sklearn:iris,wine); or llm. Repeatable.",
        default=(",".join(MODALITIES),),
        show_default=", ".join(MODALITIES),
        metavar="NAMES",
        read=read_sources,
    )
    samples: tuple[int, int] = option(
        "Number of samples of a procedural task, training and test together.",
        default=f"{SAMPLES[0]}-{SAMPLES[1]}",
        metavar="N-M",
        read=read_range,
    )
    mutations: int = option(
        "Number of mutations of a procedural task's data: noise, gaps, shifts, distractors ...",
        default=MUTATIONS,
        at_least=0,
        at_most=8,
    )
    backend: str = option(
        "Sandbox that runs a standard solution on each task. none: do not run one.",
        default="local",
        choices=(*BACKENDS, "auto", "none"),
        envvar="MLE_SANDBOX",
    )
    trial_timeout: float = option("Time limit of the standard solution.", default=60.0, above=0, kind="seconds")
    rejected: str | None = option(
        "Write dropped drafts and the reasons to FILE.",
        flags=("--rejects",),
        kind="output file",
        metavar="FILE",
        machine=True,
    )
    described: str | None = option(
        "Print a human-readable description of the tasks in FILE, with rule and baselines, and make nothing.",
        flags=("--describe",),
        kind="file",
        metavar="FILE",
        machine=True,
    )

    def check(self, llm: "LlmOptions", roles: Mapping[str, "TaskRole"]) -> None:
        """OptionError for sources that exclude each other; ToolError for a model that cannot be opened."""
        if LLM in self.source and self.source != (LLM,):
            raise OptionError("--source llm excludes other sources: use it in a separate run")
        if LLM in self.source and self.described is None:
            llm.check_roles(roles)


@dataclass(frozen=True)
class LlmOptions(ModelOptions):
    """The model that writes tasks; `price` is in USD per million tokens (prompt, completion)."""

    model: str | None = option(
        "Name of a model served at --model-url, hf:PATH, llama:FILE, or scripted.", flags=("-m", "--model")
    )
    temperature: float | None = option(
        "Sampling temperature; 0 is greedy (default: the server's default; 1 for a model on this machine).", at_least=0
    )
    top_p: float | None = option(
        "Nucleus sampling (default: the server's default; 1 for a model on this machine).", above=0, at_most=1
    )
    max_tokens: int = option("Maximum tokens per reply.", default=16384, at_least=1)
    seeds: tuple[str, ...] = option(
        "File of task records, or folder with such files and their tasks/. Repeatable.",
        default=(),
        kind="existing path",
        metavar="PATH",
    )
    journal: str | None = option(
        f"File that stores every paid reply (default: {JOURNAL} below --data).",
        kind="state file",
        metavar="FILE",
        machine=True,
    )
    dropped_by: tuple[str, ...] = option(
        "Drop a task only by this check; what the others say is recorded (default: all; a wrong name lists them). "
        "Repeatable.",
        default=(),
        flags=("--check",),
        metavar="NAME",
        read=check_name,
    )
    price: tuple[float, float] | None = option(
        "USD per million tokens, to record the cost of a task (default: the server's usage.cost, or the list price).",
        read=read_price,
        metavar="PROMPT,COMPLETION",
    )

    def check_roles(self, roles: Mapping[str, "TaskRole"]) -> None:
        """ToolError: no seeds, a role without a model, or with one that cannot be opened."""
        if not self.seeds:
            raise ToolError(
                "--source llm needs seed tasks: give --seeds, e.g. the file that mle-gen-task or mle-import wrote"
            )
        for role in ROLES:
            given = roles.get(role, TaskRole())
            if given.model is None and self.model is None:
                raise ToolError(
                    f"--source llm needs a model: give -m NAME --model-url URL, or -m hf:PATH (or --{role}, which has none)"
                )
            if given.model is not None:
                self.check_role(given.model, given.url, given.options)
        self.check()


@dataclass(frozen=True)
class TaskRole:
    """One role's own model and server, each -m's own where it is None, and its other options."""

    model: str | None = option("Model for this role (default: -m).")
    url: str | None = option("URL of its server (default: --model-url).", kind="url", machine=True)
    options: RoleOptions = field(default_factory=RoleOptions)


def role_options() -> dict[str, Declaration]:
    """The options of all roles by their names on the command line, e.g. writer, writer_url, writer_key_env."""
    declared: dict[str, Declaration] = {}
    for role in ROLES:
        own = declarations(TaskRole)
        declared |= {role: own["model"], f"{role}_url": own["url"], **role_declarations(role, f"--{role}")}
    return declared


def read_roles(values: dict[str, Any]) -> dict[str, TaskRole]:
    """The roles of the values of `role_options`."""
    names = tuple(declarations(RoleOptions))
    return {
        role: TaskRole(
            values[role], values[f"{role}_url"], RoleOptions(**{name: values[f"{role}_{name}"] for name in names})
        )
        for role in ROLES
        if role in values
    }
