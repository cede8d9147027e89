"""Options declared once, as fields of a frozen dataclass with type, default and help.

    @dataclass(frozen=True)
    class Sampling:
        temperature: float = option("Sampling temperature; 0 is greedy.", default=1.0, at_least=0)

`mletools.cli_options` makes the command line. A subclass that sets another default (`max_turns: int = 20`) keeps the
rest of the declaration. Settings can be made and read without a command line.
"""

import dataclasses
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from .errors import ToolError

_KEY = "option"
_BOUNDS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}
Kind = Literal[
    "file",
    "path",
    "output file",
    "state file",  # it is read, and replaced
    "folder",
    "existing file",
    "existing folder",
    "existing path",
    "url",
    "seconds",
]


@dataclass(frozen=True)
class Declaration:
    """The arguments of `option`; `type` and `default` come from the field."""

    help: str
    flags: tuple[str, ...] = ()  # default: --name-of-the-field
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    suggested: tuple[str, ...] = ()  # for shell completion; other values are allowed
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    kind: Kind | None = None
    switch: bool = False  # a flag with a --no- form
    machine: bool = False  # about speed, places or servers: it cannot change the content of records
    envvar: str | None = None
    # Parses the text; for a repeatable option, also into a list of values. ValueError has the message.
    read: Callable[[str], Any] | None = None
    show_default: bool | str = True
    required: bool = False
    heading: str | None = None  # in the help; None: the heading of the whole dataclass
    type: Any = None
    default: Any = None  # as it is written, where `read` parses it


def option(help: str = "", *, default: Any = None, **declared: Any) -> Any:
    """A dataclass field that is an option; see Declaration. The help shows no default that is None or empty."""
    declaration = Declaration(help, default=default, **declared)
    return dataclasses.field(default=parsed(default, declaration.read), metadata={_KEY: declaration})


def parsed(text: Any, read: Callable[[str], Any] | None) -> Any:
    """The value of a text, or of the texts of a repeatable option, each of which `read` may make a list. ValueError: its."""
    if read is None or text is None:
        return text
    if isinstance(text, tuple):
        lists = (item if isinstance(item, list) else [item] for item in map(read, text))
        return tuple(item for items in lists for item in items)
    return read(text)


def declarations(settings: type, without: tuple[str, ...] = ()) -> dict[str, Declaration]:
    """The options of a dataclass by name, with the field's type and default."""
    types = get_type_hints(settings)
    return {
        field.name: dataclasses.replace(
            declared,
            type=types[field.name],
            default=declared.default if field.default == parsed(declared.default, declared.read) else field.default,
        )
        for field in dataclasses.fields(settings)
        if field.name not in without and (declared := _declared(settings, field.name)) is not None
    }


def flag_of(name: str) -> str:
    """How the command at hand spells the option of a field, --with-dashes where no command runs."""
    import click

    context = click.get_current_context(silent=True)
    for param in context.command.params if context else ():
        if param.name == name and param.opts:
            return max(param.opts, key=len)
    return f"--{name.replace('_', '-')}"


def check_values(settings: Any) -> None:
    """ToolError for a value that is not among its option's choices, or out of bounds, or no finite number."""
    for name, declared in declarations(type(settings)).items():
        value = getattr(settings, name)
        for item in value if isinstance(value, tuple) else () if value is None else (value,):
            if declared.choices and item not in declared.choices:
                raise ToolError(f"{name} {item!r}: choose one of {', '.join(declared.choices)}")
            if isinstance(item, float) and not math.isfinite(item):
                raise ToolError(f"{name} must be a finite number, not {item}")
            for bound, holds in _BOUNDS.items():
                limit = getattr(declared, bound)
                if limit is not None and not holds(item, limit):
                    raise ToolError(f"{name} must be {bound.replace('_', ' ')} {limit:g}, not {item}")


def _declared(settings: type, name: str) -> Declaration | None:
    """The declaration of a field, in the class or in its nearest base class that declares it."""
    fields = (getattr(kind, "__dataclass_fields__", {}).get(name) for kind in settings.__mro__)
    return next((field.metadata[_KEY] for field in fields if field is not None and _KEY in field.metadata), None)
