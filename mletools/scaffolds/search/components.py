"""The six components of a search: found by name, given their constants.

A name with a colon is a component of the user's own: `module:Name` or `path/to/file.py:Name`. It may also be registered
as an entry point of the group `mletools.search.KIND`.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import ToolError
from ...base.words import did_you_mean
from .. import load as load_attribute
from .data import LATER
from .protocols import Coding, Evaluation, Memory, Paths, Planning, Reasoning
from .settings import COMPONENTS, PRESET_CONSTANTS, PRESETS, Constant, SearchSettings

PROTOCOLS: dict[str, type] = {
    "planning": Planning, "paths": Paths, "reasoning": Reasoning, "memory": Memory, "coding": Coding, "evaluation": Evaluation,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Components:
    """Those of one search."""

    planning: Planning
    paths: Paths
    reasoning: Reasoning
    memory: Memory
    coding: Coding
    evaluation: Evaluation

    @classmethod
    def load(cls, settings: SearchSettings) -> "Components":
        """By their names and constants in checked settings. ToolError: as `load`."""
        return cls(*(load(kind, name or "", settings.constants[kind]) for kind, name in settings.components().items()))


def load(kind: str, name: str, constants: Mapping[str, Constant]) -> Any:
    """A component by its name, with `constants` in place of defaults. ToolError: no such component or constant."""
    component, protocol = _find(kind, name), PROTOCOLS[kind]
    members = [member for member in {**protocol.__annotations__, **vars(protocol)} if not member.startswith("_")]
    missing = [member for member in members if not hasattr(component, member)]
    if missing:
        raise ToolError(f"--{kind} {name}: no component for {kind}: it has no {' and no '.join(missing)}")
    try:
        return component(**constants)
    except (TypeError, ValueError) as error:
        raise ToolError(f"--{kind} {name}: {error}") from None


def _find(kind: str, name: str) -> Any:
    built_in = COMPONENTS[kind]
    if name in built_in:
        module, _, attribute = built_in[name].partition(":")
        return getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    if ":" in name:
        return load_attribute(name, f"--{kind} {name}")
    from importlib.metadata import entry_points

    for point in entry_points(group=f"mletools.search.{kind}", name=name):
        return point.load()
    raise ToolError(
        f"--{kind} {name}: known are {', '.join(built_in)}; one of your own is module:Name or path/to/file.py:Name"
        + did_you_mean(name, built_in)
    )


def constants_of(component: Any) -> dict[str, Constant]:
    """The constants of a component and their values: the fields of a dataclass."""
    return dataclasses.asdict(component) if dataclasses.is_dataclass(component) else {}  # type: ignore[arg-type]


def stored_constants(component: Any) -> dict[str, Constant]:
    """`constants_of`, without those that are `later` and at their defaults."""
    values = constants_of(component)
    for each in dataclasses.fields(component) if values else ():
        if LATER in each.metadata and values[each.name] == each.default:
            del values[each.name]
    return values


def preset_constants(preset: str, names: Mapping[str, str]) -> dict[str, dict[str, Constant]]:
    """{kind: {constant: value}} that a preset changes, of those of `names` (the components by kind) that are its own."""
    changed = PRESET_CONSTANTS.get(preset, {})
    return {kind: dict(values) for kind, values in changed.items() if names[kind] == PRESETS[preset][kind]}


def read_constants(assignments: Sequence[str], names: Mapping[str, str]) -> dict[str, dict[str, Constant]]:
    """{kind: {constant: value}} of texts like `paths.drafts=3`, or `drafts=3` if only one component has it.

    names: the components by kind. Values get the type of the default. ToolError: no such constant, or no such value.
    """
    defaults = {kind: constants_of(load(kind, name, {})) for kind, name in names.items()}
    constants: dict[str, dict[str, Constant]] = {}
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


def _typed(text: str, value: str, default: Constant) -> Constant:
    if isinstance(default, bool):
        if value in ("true", "false"):
            return value == "true"
        raise ToolError(f"--set {text}: true or false")
    try:
        return type(default)(value)
    except ValueError:
        raise ToolError(f"--set {text}: no {type(default).__name__}, as its default {default} is") from None
