"""Command-line options from declarations (base.options): click's options, and their values as a dataclass.

`options` adds those of one dataclass to a command's body, which receives them as one argument. `Command.extended` makes
the options that depend on the rest of the command line, such as a scaffold's.
"""

import functools
import math
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from .base.options import Declaration, declarations, parsed
from .base.streams import is_stream
from .base.words import did_you_mean

Body = TypeVar("Body", bound=Callable[..., Any])
COMMON = "Common"


class Option(click.Option):
    """An option with its heading in the help. An error names the variable only where the value came from there. `machine`: see base.options; `usual`: --help shows it, not only --help-all."""

    def __init__(self, names: Sequence[str], heading: str = "", machine: bool = False, **settings: Any):
        super().__init__(names, **settings)
        self.heading, self.machine, self.extends, self.usual = heading, machine, False, True

    def get_error_hint(self, ctx: click.Context | None) -> str:
        hint = super().get_error_hint(ctx)
        given = ctx is not None and self.name and ctx.get_parameter_source(self.name) is ParameterSource.COMMANDLINE
        return hint.partition(" (env var")[0] if given else hint


class Url(click.ParamType[Any]):
    """An address of a server."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            valid = re.match(r"https?://[^/\s]+\S*$", value) is not None and urlsplit(value).hostname is not None
        except ValueError:  # a bracket that is not closed, for example
            valid = False
        if not valid:
            self.fail(f"{value!r} is no URL such as http://localhost:8000/v1", param, ctx)
        return value


class Number(click.types.FloatParamType):
    """A number, but not nan or infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _finite(self, super().convert(value, param, ctx), param, ctx)


class NumberRange(click.FloatRange):
    """A number within bounds, but not nan or infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _finite(self, super().convert(value, param, ctx), param, ctx)


def _finite(
    kind: click.ParamType[Any], number: float, param: click.Parameter | None, ctx: click.Context | None
) -> float:
    if not math.isfinite(number):
        kind.fail(f"{number} is no finite number", param, ctx)
    return number


_LONGEST_S = 1e9  # thirty years, which the clocks of all libraries hold


class Seconds(NumberRange):
    """A time in seconds, also as 90s, 5m or 1h; its bounds are those of FloatRange."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smh])\s*", value)
            if found:
                value = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
        try:
            value = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds, nor a time such as 90s, 5m or 1h", param, ctx)
        if _LONGEST_S < value < math.inf:
            self.fail(f"{value:g} is more than {_LONGEST_S:g} seconds", param, ctx)
        return super().convert(value, param, ctx)


class Choice(click.Choice[str]):
    """One of several texts; an error names the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value, ctx)
        return message.removesuffix(".") + (did_you_mean(str(value), map(str, self.choices)) or ".")


class OutputFile(click.Path):
    """A file, named pipe, device or descriptor that the command writes; `folder`: or a folder."""

    def __init__(self, kept: bool = False, folder: bool = False) -> None:
        super().__init__(dir_okay=folder)
        self._kept = kept  # it is read again, and replaced: only a regular file can be

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._kept and is_stream(value):
            self.fail(f"{value!r} is no regular file: it could not be read again", param, ctx)
        return super().convert(value, param, ctx)


class Folder(click.Path):
    """A folder, which need not exist."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if os.path.exists(value) and not os.path.isdir(value):
            self.fail(f"{value!r} is no folder", param, ctx)
        return super().convert(value, param, ctx)


_KINDS: dict[str, click.ParamType[Any]] = {
    "file": click.Path(dir_okay=False),
    "path": click.Path(),
    "output file": OutputFile(),
    "state file": OutputFile(kept=True),
    "folder": Folder(),
    "existing file": click.Path(exists=True, dir_okay=False),
    "existing folder": click.Path(exists=True, file_okay=False),
    "existing path": click.Path(exists=True),
    "url": Url(),
}


def options(
    settings: type,
    parameter: str,
    heading: str = "",
    build: Callable[..., Any] | None = None,
    **changes: Mapping[str, Any] | None,
) -> Callable[[Body], Body]:
    """Add the options of a dataclass to a command's body, which receives them as `parameter`.

    build: makes the parameter from the values by name, e.g. dict (default: the dataclass).
    changes: to declarations, by field name, e.g. model={"help": "..."}; None omits the option.
    """
    declared = changed(declarations(settings), changes)

    def decorate(body: Body) -> Body:
        @functools.wraps(body)
        def with_settings(*args: Any, **params: Any) -> Any:
            values = {name: params.pop(name) for name in declared}
            return body(*args, **{parameter: (build or settings)(**values)}, **params)

        own = [click_option(name, declaration, heading) for name, declaration in reversed(declared.items())]
        with_settings.__click_params__ = [*getattr(body, "__click_params__", []), *own]  # type: ignore[attr-defined]
        return with_settings  # type: ignore[return-value]

    return decorate


def changed(declared: Mapping[str, Declaration], changes: Mapping[str, Any]) -> dict[str, Declaration]:
    """The declarations with changes by name; without those whose change is None."""
    return {
        name: replace(declaration, **changes.get(name, {}))
        for name, declaration in declared.items()
        if changes.get(name, {}) is not None
    }


def click_option(name: str, declared: Declaration, heading: str) -> Option:
    """The option of the field `name`."""
    dashed = name.replace("_", "-")
    value_type, several = _value_type(declared.type)
    settings: dict[str, Any] = {
        "help": declared.help or None,
        "metavar": declared.metavar
        or ("S|5m|1h" if declared.kind == "seconds" else {int: "N", float: "X"}.get(value_type)),
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
    flags = list(declared.flags or (f"--{dashed}",))
    if value_type is bool and declared.switch:
        flags = [flags[0] if "/" in flags[0] else f"--{dashed}/--no-{dashed}"]
    elif value_type is bool:
        settings["is_flag"] = True
    else:
        settings.update(type=_click_type(value_type, declared), multiple=several)
    if suggested := declared.suggested:
        settings["shell_complete"] = lambda context, param, begun: [
            name for name in suggested if name.startswith(begun)
        ]
    if declared.read is not None:
        settings["callback"] = _reader(declared.read)
    return Option([*flags, name], **settings)


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """The type of one value, and whether the option is repeatable."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(member for member in get_args(annotation) if member is not type(None))
    if get_origin(annotation) is tuple and get_args(annotation)[-1] is Ellipsis:
        return get_args(annotation)[0], True
    return annotation, False


def _click_type(value_type: Any, declared: Declaration) -> Any:
    if declared.kind is not None and declared.kind != "seconds":
        return _KINDS[declared.kind]
    if declared.read is not None:
        return str
    if declared.choices or get_origin(value_type) is Literal:
        return Choice(declared.choices or get_args(value_type))
    low = declared.at_least if declared.above is None else declared.above
    high = declared.at_most if declared.below is None else declared.below
    if low is None and high is None and declared.kind is None:
        return Number() if value_type is float else value_type
    number_range: Any = Seconds if declared.kind else click.IntRange if value_type is int else NumberRange
    return number_range(low, high, min_open=declared.above is not None, max_open=declared.below is not None)


def _reader(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(context: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return parsed(value, read)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def value_of(args: Sequence[str], flag: str, default: str) -> str:
    """The value of an option on a command line that is not parsed yet."""
    value = default
    for at, arg in enumerate(args):
        if arg == "--":
            break
        if arg == flag and at + 1 < len(args):
            value = args[at + 1]
        elif arg.startswith(f"{flag}="):
            value = arg.partition("=")[2]
    return value


def flags_on_command_line() -> dict[str, str]:
    """{parameter: flag} of the options on the current command line; called by a command's body."""
    context = click.get_current_context()
    return {
        param.name: param.opts[-1]
        for param in context.command.params
        if param.name and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    }
