"""Options and their defaults: as dataclasses, and as what records are stamped with."""

import importlib
import pkgutil
from dataclasses import dataclass

import click
import pytest

from mletools import commands
from mletools.base.options import declarations, option
from mletools.cli import _semantic_options
from mletools.cli_options import click_option
from mletools.tasks.options import TaskOptions

MODULES = [module.name for module in pkgutil.iter_modules(commands.__path__)]


def test_a_default_that_is_a_text_is_parsed_without_a_command_line() -> None:
    assert TaskOptions().samples == (50, 200)
    assert "image" in TaskOptions().source and len(TaskOptions().source) > 5
    assert declarations(TaskOptions)["samples"].default == "50-200"  # as the help shows it


def test_a_subclass_may_set_another_parsed_default() -> None:
    @dataclass(frozen=True)
    class Base:
        size: int = option("Such as 3x.", default="2x", read=lambda text: int(text.removesuffix("x")))

    @dataclass(frozen=True)
    class Other(Base):
        size: int = 5

    assert (Base().size, Other().size) == (2, 5)
    assert (declarations(Base)["size"].default, declarations(Other)["size"].default) == ("2x", 5)
    shown = click_option("size", declarations(Base)["size"], "")
    assert shown.process_value(click.Context(click.Command("x")), "2x") == 2


@pytest.mark.parametrize("module", MODULES)
def test_records_are_not_stamped_with_defaults(module: str) -> None:
    command = importlib.import_module(f"mletools.commands.{module}").main
    context = click.Context(command)
    for param in command.params:
        if param.expose_value and not param.required:
            context.params[param.name] = param.process_value(context, param.get_default(context))
    assert len(context.params) > 3 and _semantic_options(context) == {}
