"""Command lines made of declared options (records.options): click's options, their values as a dataclass, the help.

`options` adds those of one dataclass to a command's body, which gets them as one argument. Options that depend on what
else is on the command line, as those of a scaffold do, are made by the command (`Command.extended`).
"""

import functools
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from click.core import ParameterSource

from .records.options import Declaration, declarations

Body = TypeVar("Body", bound=Callable[..., Any])
COMMON = "Common"


class Option(click.Option):
    """An option with the heading that it stands under. `machine`: see records.options."""

    def __init__(self, names: Sequence[str], heading: str = "", machine: bool = False, **settings: Any):
        super().__init__(names, **settings)
        self.heading, self.machine, self.extends = heading, machine, False


class _Url(click.ParamType[Any]):
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not re.match(r"https?://[^/\s]+\S*$", value):
            self.fail(f"{value!r} is no address such as http://localhost:8000/v1", param, ctx)
        return value


URL = _Url()
_KINDS: dict[str, click.ParamType[Any]] = {
    "file": click.Path(dir_okay=False),
    "folder": click.Path(file_okay=False),
    "existing file": click.Path(exists=True, dir_okay=False),
    "existing folder": click.Path(exists=True, file_okay=False),
    "existing path": click.Path(exists=True),
    "url": URL,
}


def options(
    settings: type,
    parameter: str,
    heading: str = "",
    build: Callable[..., Any] | None = None,
    **changes: Mapping[str, Any],
) -> Callable[[Body], Body]:
    """Adds the options of a dataclass to a command's body, which gets them as `parameter`.

    build: makes the parameter of the values by name, e.g. dict (default: the dataclass).
    changes: of some declarations, by the field's name, e.g. model={"help": "..."}; None leaves the option out.
    """
    declared = changed(declarations(settings), changes)

    def decorate(body: Body) -> Body:
        @functools.wraps(body)
        def with_settings(*args: Any, **given: Any) -> Any:
            values = {name: given.pop(name) for name in declared}
            return body(*args, **{parameter: (build or settings)(**values)}, **given)

        params = getattr(body, "__click_params__", [])
        with_settings.__click_params__ = [  # type: ignore[attr-defined]
            *params,
            *(click_option(name, each, heading) for name, each in reversed(declared.items())),
        ]
        return with_settings  # type: ignore[return-value]

    return decorate


def changed(declared: Mapping[str, Declaration], changes: Mapping[str, Any]) -> dict[str, Declaration]:
    """The declarations with changes by name; without those whose change is None."""
    kept = {name: each for name, each in declared.items() if changes.get(name, {}) is not None}
    return {name: Declaration(**{**vars(each), **changes.get(name, {})}) for name, each in kept.items()}


def click_option(name: str, declared: Declaration, heading: str) -> Option:
    """The option of a field."""
    flag = f"--{name.replace('_', '-')}"
    value_type, several = _value_type(declared.type)
    settings: dict[str, Any] = {
        "help": declared.help or None,
        "metavar": declared.metavar or {int: "N", float: "X"}.get(value_type),
        "envvar": declared.envvar,
        "show_envvar": declared.envvar is not None,
        "required": declared.required,
        "heading": heading if declared.heading is None else declared.heading,
        "machine": declared.machine,
    }
    if not declared.required:
        settings["default"] = None if several and not declared.default else declared.default
        shown = declared.default is not None and declared.default is not False and declared.default not in ((), "")
        settings["show_default"] = declared.show_default if shown else False
    flags = list(declared.flags or (flag,))
    if value_type is bool and declared.switch:
        flags = [flags[0] if "/" in flags[0] else f"{flag}/--no-{name.replace('_', '-')}"]
    elif value_type is bool:
        settings["is_flag"] = True
    else:
        settings.update(type=_click_type(value_type, declared), multiple=several)
    if declared.suggested:
        settings["shell_complete"] = _completer(declared.suggested)
    if declared.read is not None:
        settings["callback"] = _reader(declared.read)
    return Option([*flags, name], **settings)


def _completer(names: tuple[str, ...]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda context, param, begun: [name for name in names if name.startswith(begun)]


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """The type of one value, and whether the option may be given several times."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is tuple and get_args(annotation)[-1] is Ellipsis:
        return get_args(annotation)[0], True
    return annotation, False


def _click_type(value_type: Any, declared: Declaration) -> Any:
    if declared.kind is not None:
        return _KINDS[declared.kind]
    if declared.read is not None:
        return str
    if declared.choices or get_origin(value_type) is Literal:
        return click.Choice(declared.choices or get_args(value_type))
    low = declared.at_least if declared.above is None else declared.above
    high = declared.at_most if declared.below is None else declared.below
    if low is None and high is None:
        return value_type
    bounds: dict[str, Any] = {
        "min": low,
        "max": high,
        "min_open": declared.above is not None,
        "max_open": declared.below is not None,
    }
    return click.IntRange(**bounds) if value_type is int else click.FloatRange(**bounds)


def _reader(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(context: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(one for each in value for one in _listed(read(each)))
            return value if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def value_of(args: Sequence[str], flag: str, default: str) -> str:
    """The value of an option on a command line that is not parsed yet."""
    found = default
    for at, arg in enumerate(args):
        if arg == "--":
            break
        if arg == flag and at + 1 < len(args):
            found = args[at + 1]
        elif arg.startswith(f"{flag}="):
            found = arg.partition("=")[2]
    return found


def flags_on_command_line() -> dict[str, str]:
    """{parameter: flag} of the options that stand on the command line; for the body of a command."""
    context = click.get_current_context()
    return {
        param.name: param.opts[-1]
        for param in context.command.params
        if param.name and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    }
