"""The six components of a search by name, the presets that combine them (R&D-Agent, table 1), and the settings.

A name with a colon is a component of the user's own: `module:Name` or `path/to/file.py:Name`. It may also be registered
as an entry point of the group `mletools.search.KIND`.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...records.errors import ToolError
from ...records.options import option
from .. import load as load_attribute
from ..interface import Job, Settings
from . import interfaces

COMPONENTS: dict[str, dict[str, str]] = {
    "planning": {"none": "planning:NoPlanning", "dynamic": "planning:DynamicPlanning"},
    "paths": {
        "chain": "paths:Chain",
        "greedy": "paths:Greedy",
        "greedy-merge": "paths:GreedyMerge",
        "mcts": "paths:Mcts",
        "evolution": "paths:Evolution",
        "adaptive": "paths:Adaptive",
    },
    "reasoning": {"one-step": "reasoning:OneStep", "scientific": "reasoning:Scientific"},
    "memory": {
        "none": "memory:NoMemory",
        "siblings": "memory:Siblings",
        "chain": "memory:Chain",
        "kernel": "memory:Kernel",
    },
    "coding": {"once": "coding:Once", "node-debug": "coding:NodeDebug", "efficient": "coding:Efficient"},
    "evaluation": {
        "agent": "evaluation:AgentReported",
        "standard": "evaluation:Standard",
        "judged": "evaluation:Judged",
        "aggregated": "evaluation:Aggregated",
    },
}
# Table 1, in the order of COMPONENTS. AIRA's coding is not in it; its own paper has a debug operator. MLE-STAR's memory is
# "sibling" there; in its chain these are the earlier steps.
PRESETS: dict[str, dict[str, str]] = {
    preset: dict(zip(COMPONENTS, names.split(), strict=True))
    for preset, names in {
        "rd-agent": "dynamic adaptive scientific kernel efficient aggregated",
        "aide": "none greedy one-step none node-debug agent",
        "ml-master": "none mcts one-step siblings node-debug agent",
        "aira-greedy": "none greedy one-step siblings node-debug agent",
        "aira-mcts": "none mcts one-step siblings node-debug agent",
        "aira-evo": "none evolution one-step siblings node-debug agent",
        "mle-star": "none chain one-step chain node-debug agent",
        "kompete": "none greedy-merge one-step siblings node-debug agent",
    }.items()
}


def _component(kind: str) -> Any:
    names = ", ".join(COMPONENTS[kind])
    return option(f"Component for {kind}: {names}, or module:Name (default: the preset's).", metavar="NAME")


def _server(of: str) -> Any:
    return option(f"The {of} server (default: --model-url).", kind="url", machine=True)


@dataclasses.dataclass(frozen=True)
class SearchSettings(Settings):
    """The budget of R&D-Agent's evaluation, the six components by name, and the models."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("context_tokens", "hand_in", "tool_calls", "reveal_test", "refit", "format")
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {
        "researcher": ("research_model", "research_url"),
        "developer": ("develop_model", "develop_url"),
    }

    max_turns: int = option("Nodes of the graph.", default=500, at_least=1, metavar="N")
    max_seconds: float | None = option(
        "Time of model calls and runs in a search; concurrent work counts once.", default=43200.0, above=0, metavar="S"
    )
    max_answer_tokens: int = 16384
    execution_seconds: float = 3600.0
    preset: str = option("Agent whose components are used.", default="rd-agent", choices=tuple(PRESETS), metavar="NAME")
    planning: str | None = _component("planning")
    paths: str | None = _component("paths")
    reasoning: str | None = _component("reasoning")
    memory: str | None = _component("memory")
    coding: str | None = _component("coding")
    evaluation: str | None = _component("evaluation")
    set: tuple[str, ...] = option(
        "A constant of a component, e.g. paths.branches=4; --dry-run lists them. Repeatable.",
        default=(),
        metavar="NAME=VALUE",
    )
    research_model: str | None = option("Proposes the ideas (default: -m).", metavar="MODEL")
    research_url: str | None = _server("researcher's")
    develop_model: str | None = option("Writes the programs (default: -m).", metavar="MODEL")
    develop_url: str | None = _server("developer's")
    knowledge: str | None = option(
        "Texts (.md, .txt); relevant passages are shown to the researcher.", kind="existing folder", metavar="DIR"
    )
    embedding_model: str | None = option(
        "Embeddings for the similarity of hypotheses (default: TF-IDF).", metavar="MODEL"
    )
    embedding_url: str | None = _server("embeddings'")
    graph: str | None = option(
        "Keep the exploration graphs here (default: OUTPUT.graph until the run is complete).",
        kind="folder",
        metavar="DIR",
        machine=True,
    )
    steps: str | None = option(
        "Write each of the policy's answers as a rollout of its own here, to train on.",
        flags=("--write-steps",),
        kind="output file",
        metavar="FILE",
        machine=True,
    )
    constants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)  # {component: {name: value}}

    def own(self) -> dict[str, Any]:
        """See Settings.own. `constants` has all values, so `set` is left out."""
        return {name: value for name, value in super().own().items() if name != "set"}


SearchJob = Job[SearchSettings]


def load(kind: str, name: str, constants: Mapping[str, Any]) -> Any:
    """A component by its name, with `constants` in place of defaults. ToolError: no such component or constant."""
    component, protocol = _find(kind, name), vars(interfaces)[kind.capitalize()]  # e.g. paths: interfaces.Paths
    members = [member for member in {**protocol.__annotations__, **vars(protocol)} if not member.startswith("_")]
    missing = [member for member in members if not hasattr(component, member)]
    if missing:
        raise ToolError(f"--{kind} {name}: no component for {kind}: it has no {' and no '.join(missing)}")
    try:
        return component(**constants)
    except (TypeError, ValueError) as error:
        raise ToolError(f"--{kind} {name}: {error}") from None


def _find(kind: str, name: str) -> Any:
    known = COMPONENTS[kind]
    if name in known:
        module, _, attribute = known[name].partition(":")
        return getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    if ":" in name:
        return load_attribute(name, f"--{kind} {name}")
    from importlib.metadata import entry_points

    for point in entry_points(group=f"mletools.search.{kind}", name=name):
        return point.load()
    raise ToolError(
        f"--{kind} {name}: known are {', '.join(known)}; one of your own is module:Name or path/to/file.py:Name"
    )


def constants_of(component: Any) -> dict[str, Any]:
    """The constants of a component and their values: the fields of a dataclass."""
    return dataclasses.asdict(component) if dataclasses.is_dataclass(component) else {}  # type: ignore[arg-type]


def read_constants(assignments: Sequence[str], names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """{kind: {constant: value}} of texts like `paths.drafts=3`, or `drafts=3` if only one component has it.

    names: the components by kind. Values get the type of the default. ToolError: no such constant, or no such value.
    """
    defaults = {kind: constants_of(load(kind, name, {})) for kind, name in names.items()}
    constants: dict[str, dict[str, Any]] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        kind, dot, constant = key.strip().rpartition(".")
        owners = [owner for owner in defaults if constant in defaults[owner] and (not dot or owner == kind)]
        if not equals or len(owners) != 1:
            several = f": {' or '.join(f'{owner}.{constant}' for owner in owners)}" if len(owners) > 1 else ""
            known = ", ".join(f"{owner}.{name}={was}" for owner, own in defaults.items() for name, was in own.items())
            raise ToolError(f"--set {text}: which constant{several or '?'} These components have {known}")
        constants.setdefault(owners[0], {})[constant] = _typed(text, value.strip(), defaults[owners[0]][constant])
    return constants


def _typed(text: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value in ("true", "false"):
            return value == "true"
        raise ToolError(f"--set {text}: true or false")
    try:
        return type(default)(value)
    except ValueError:
        raise ToolError(f"--set {text}: no {type(default).__name__}, as its default {default} is") from None
