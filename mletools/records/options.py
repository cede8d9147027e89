"""Options that are declared once: the fields of a frozen dataclass carry the type, default and help of an option.

    @dataclass(frozen=True)
    class Sampling:
        temperature: float = option("Sampling temperature; 0 is greedy.", default=1.0, at_least=0)

`mletools.cli_options` makes the command line of it. A subclass that sets another default (`max_turns: int = 20`) keeps
the rest of the declaration. Nothing here depends on a command line: settings can be made and read without one.
"""

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from .errors import ToolError

_KEY = "option"
_BOUNDS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}
Kind = Literal["file", "folder", "existing file", "existing folder", "existing path", "url"]


@dataclass(frozen=True)
class Declaration:
    """What `option` says of a field; `type` and `default` are the field's own."""

    help: str
    flags: tuple[str, ...] = ()  # instead of --name-of-the-field
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    suggested: tuple[str, ...] = ()  # what a shell completes, of a value that may be others
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    kind: Kind | None = None
    switch: bool = False  # a flag with a --no-... of its own
    machine: bool = False  # says how to work, and cannot change what records say
    envvar: str | None = None
    # The value of a text, of a repeatable option a list of values, too; ValueError says what is wrong with it.
    read: Callable[[str], Any] | None = None
    show_default: bool | str = True
    required: bool = False
    heading: str | None = None  # that it stands under in the help; None: the command's for all of them
    type: Any = None
    default: Any = None


def option(help: str = "", *, default: Any = None, **declared: Any) -> Any:
    """A dataclass's field that is an option; see Declaration. A default that is None or empty is not shown."""
    return dataclasses.field(default=default, metadata={_KEY: Declaration(help, **declared)})


def declarations(settings: type, without: tuple[str, ...] = ()) -> dict[str, Declaration]:
    """The options of a dataclass by name, with the type and the default that hold for it."""
    types = get_type_hints(settings)
    return {
        field.name: dataclasses.replace(declared, type=types[field.name], default=field.default)
        for field in dataclasses.fields(settings)
        if field.name not in without and (declared := _declared(settings, field.name)) is not None
    }


def check_values(settings: Any) -> None:
    """ToolError for a value of these settings that is none of its option's choices, or beyond a bound."""
    for name, declared in declarations(type(settings)).items():
        value = getattr(settings, name)
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            if declared.choices and each not in declared.choices:
                raise ToolError(f"{name} {each!r}: choose one of {', '.join(declared.choices)}")
            for bound, holds in _BOUNDS.items():
                limit = getattr(declared, bound)
                if limit is not None and not holds(each, limit):
                    raise ToolError(f"{name} must be {bound.replace('_', ' ')} {limit:g}, not {each}")


def _declared(settings: type, name: str) -> Declaration | None:
    for kind in settings.__mro__:
        field: Mapping[str, Any] = getattr(kind, "__dataclass_fields__", {})
        if name in field and _KEY in field[name].metadata:
            found: Declaration = field[name].metadata[_KEY]
            return found
    return None
