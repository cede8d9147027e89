"""The six components of a search by name, and the presets that compose them (R&D-Agent, table 1).

A name with a colon is a component of the user's own: `module:Name` or `path/to/file.py:Name`; it may also be registered
as an entry point of the group `mletools.search.KIND`. Covered: finding, constants by --set, what is refused. Not covered:
what they do.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...records.errors import ToolError
from ..loading import load as load_attribute

_HERE = "mletools.scaffolds.search"
COMPONENTS: dict[str, dict[str, str]] = {
    "planning": {"none": "planning:NoPlanning", "dynamic": "planning:DynamicPlanning"},
    "paths": {
        "chain": "paths.chain:Chain",
        "greedy": "paths.greedy:Greedy",
        "greedy-merge": "paths.greedy:GreedyMerge",
        "mcts": "paths.mcts:Mcts",
        "evolution": "paths.evolution:Evolution",
        "adaptive": "paths.adaptive:Adaptive",
    },
    "reasoning": {"one-step": "reasoning:OneStep", "scientific": "reasoning:Scientific"},
    "memory": {"none": "memory:NoMemory", "siblings": "memory:Siblings", "kernel": "memory:Kernel"},
    "coding": {"once": "coding:Once", "node-debug": "coding:NodeDebug", "efficient": "coding:Efficient"},
    "evaluation": {
        "agent": "evaluation:AgentReported",
        "standard": "evaluation:Standard",
        "judged": "evaluation:Judged",
        "aggregated": "evaluation:Aggregated",
    },
}
METHODS = {
    "planning": ("begin", "plan"),
    "paths": ("select",),
    "reasoning": ("reason",),
    "memory": ("recall", "lesson"),
    "coding": ("repairs", "develop"),
    "evaluation": ("reports", "score", "reserve", "choose"),
}
_BASE = {
    "planning": "none",
    "paths": "greedy",
    "reasoning": "one-step",
    "memory": "none",
    "coding": "node-debug",
    "evaluation": "agent",
}
# Table 1. AIRA's coding is not in it; its own paper has a debug operator, and so has the preset.
PRESETS: dict[str, dict[str, str]] = {
    "rd-agent": {
        "planning": "dynamic",
        "paths": "adaptive",
        "reasoning": "scientific",
        "memory": "kernel",
        "coding": "efficient",
        "evaluation": "aggregated",
    },
    "aide": _BASE,
    "ml-master": {**_BASE, "paths": "mcts", "memory": "siblings"},
    "aira-greedy": {**_BASE, "memory": "siblings"},
    "aira-mcts": {**_BASE, "paths": "mcts", "memory": "siblings"},
    "aira-evo": {**_BASE, "paths": "evolution", "memory": "siblings"},
    "mle-star": {**_BASE, "paths": "chain", "memory": "siblings"},
    "kompete": {**_BASE, "paths": "greedy-merge", "memory": "siblings"},
}


def load(kind: str, name: str, constants: Mapping[str, Any]) -> Any:
    """The component of a kind by its name, with `constants` in place of its defaults.

    ToolError: no such component, or one that has no such constant.
    """
    component = _find(kind, name)
    lacking = [method for method in METHODS[kind] if not hasattr(component, method)]
    if lacking:
        raise ToolError(f"--{kind} {name}: no component for {kind}: it has no {' and no '.join(lacking)}")
    try:
        return component(**constants)
    except (TypeError, ValueError) as error:
        raise ToolError(f"--{kind} {name}: {error}") from None


def _find(kind: str, name: str) -> Any:
    known = COMPONENTS[kind]
    if name in known:
        module, _, attribute = known[name].partition(":")
        return getattr(importlib.import_module(f"{_HERE}.{module}"), attribute)
    if ":" not in name:
        from importlib.metadata import entry_points

        for point in entry_points(group=f"mletools.search.{kind}", name=name):
            return point.load()
        raise ToolError(
            f"--{kind} {name}: known are {', '.join(known)}; one of your own is module:Name or path/to/file.py:Name"
        )
    return load_attribute(name, f"--{kind} {name}")


def constants_of(component: Any) -> dict[str, Any]:
    """A component's constants and their values: its fields, where it is a dataclass."""
    return dataclasses.asdict(component) if dataclasses.is_dataclass(component) else {}  # type: ignore[arg-type]


def read_constants(assignments: Sequence[str], names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """{kind: {constant: value}} of texts like `paths.drafts=3`, or `drafts=3` where one component has it.

    names: the components in use by kind. Values take the type of the default. ToolError: what is not one of theirs.
    """
    defaults = {kind: constants_of(load(kind, name, {})) for kind, name in names.items()}
    constants: dict[str, dict[str, Any]] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        kind, dot, constant = key.strip().rpartition(".")
        owners = [each for each in defaults if constant in defaults[each] and (not dot or each == kind)]
        if not equals or len(owners) != 1:
            several = f": {' or '.join(f'{each}.{constant}' for each in owners)}" if len(owners) > 1 else ""
            known = ", ".join(
                f"{each}.{name}={default}" for each, own in defaults.items() for name, default in own.items()
            )
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
