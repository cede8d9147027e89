"""Options and their defaults: as dataclasses, and as what records are stamped with."""

import importlib
import pkgutil
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from conftest import run_command

from mletools import commands
from mletools.base.errors import ToolError, data_advice
from mletools.base.options import check_values, declarations, option
from mletools.base.words import did_you_mean
from mletools.cli import _semantic_options
from mletools.cli_options import click_option
from mletools.grading.options import read_weights
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


@dataclass(frozen=True)
class Times:
    limit: float | None = option("A time.", above=0, kind="seconds")
    share: float = option("A share.", default=0.5, at_least=0)
    any: float = option("Any number.", default=0.5)
    form: str = option("A form.", default="long", choices=("long", "short"))
    data: str = option("A folder.", default=".", kind="folder", envvar="MLE_DATA")


def parsed(*args: str, **env: str) -> dict[str, object]:
    command = click.Command("x", params=[click_option(name, each, "") for name, each in declarations(Times).items()])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return command.make_context("x", [*args]).params


def refused(*args: str, **env: str) -> str:
    with pytest.raises(click.UsageError) as error:
        parsed(*args, **env)
    return error.value.format_message()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), (".5", 0.5), ("1e2", 100)]
)
def test_a_time_may_have_a_unit(text: str, seconds: float) -> None:
    assert parsed("--limit", text)["limit"] == seconds


def test_what_is_no_time_is_refused() -> None:
    assert refused("--limit", "5 min").endswith("'5 min' is no number of seconds, nor a time such as 90s, 5m or 1h")
    assert refused("--limit", "0m").endswith("0.0 is not in the range x>0.")
    assert refused("--limit", "1e10").endswith("1e+10 is more than 1e+09 seconds")


@pytest.mark.parametrize("flag", ["--limit", "--share", "--any"])
@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_number_is_finite(flag: str, text: str) -> None:
    assert refused(flag, text).endswith(f"{text} is no finite number")
    with pytest.raises(ToolError, match=rf"^{flag[2:]} must be a finite number, not {text}"):
        check_values(Times(**{flag[2:]: float(text)}))


def test_weights_of_a_reward_are_finite() -> None:
    with pytest.raises(ValueError, match=r"^'gold=nan' is not dense, sparse, or NAME=NUMBER"):
        read_weights("gold=nan")


@pytest.mark.parametrize("module", MODULES)
def test_every_option_of_seconds_takes_a_time(module: str) -> None:
    for param in importlib.import_module(f"mletools.commands.{module}").main.params:
        if (
            isinstance(param, click.Option)
            and re.search(r"\b[Ss]econds\b", param.help or "")
            and param.type.name == "float range"
        ):
            assert param.metavar == "S|5m|1h", param.name


def test_a_wrong_choice_names_the_nearest() -> None:
    assert refused("--form", "shrot").endswith("'shrot' is not one of 'long', 'short'; did you mean short?")
    assert refused("--form", "xyz").endswith("is not one of 'long', 'short'.")


def test_an_error_names_the_variable_only_where_the_value_is_from_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = str(tmp_path / "file")
    assert refused("--data", file) == f"Invalid value for '--data': {file!r} is no folder"
    assert refused("--data", file, MLE_DATA=".") == f"Invalid value for '--data': {file!r} is no folder"
    assert refused(MLE_DATA=file) == f"Invalid value for '--data' (env var: 'MLE_DATA'): {file!r} is no folder"


def test_advice_about_the_data_folder_names_what_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mle-grade", "--data", "x"])
    assert data_advice().startswith(
        "is --data (or MLE_DATA, for every command) the folder that the task was written to?"
    )
    monkeypatch.setenv("MLE_DATA", "elsewhere")
    assert data_advice().startswith("is --data ")
    monkeypatch.setattr(sys, "argv", ["mle-grade"])
    assert data_advice("x") == "is MLE_DATA the folder that x?"


def test_a_command_without_data_says_so() -> None:
    done = run_command("mle-train-sft", "--data", "..", check=False)
    assert done.returncode == 2 and b"Error: mle-train-sft has no --data: it needs no files of tasks" in done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("roll", "; did you mean rollout?"),
        ("GRADE", "; did you mean grade?"),
        ("f1", "; did you mean f1_a or f1_b?"),
        ("xyz", ""),
    ],
)
def test_the_nearest_words(word: str, said: str) -> None:
    assert did_you_mean(word, ["rollout", "grade", "f1_a", "f1_b"]) == said


@pytest.mark.parametrize("module", MODULES)
def test_records_are_not_stamped_with_defaults(module: str) -> None:
    command = importlib.import_module(f"mletools.commands.{module}").main
    context = click.Context(command)
    for param in command.params:
        if param.expose_value and not param.required:
            context.params[param.name] = param.process_value(context, param.get_default(context))
    assert len(context.params) > 3 and _semantic_options(context) == {}
