"""Prompts are files with placeholders; a missing or an unused name is an error, word for word."""

from pathlib import Path

import pytest

from mletools import prompts
from mletools.base.errors import ToolError


@pytest.fixture
def greeting(tmp_path: Path) -> str:
    (tmp_path / "hello.md").write_text("Hello {{name}}, you are {{ age }}.\n\nBye {{name}}.\n")
    return str(tmp_path / "hello.md")


def test_every_placeholder_is_filled_and_values_are_left_alone(greeting: str) -> None:
    assert prompts.render(greeting, name="{{age}} {x} \\1", age="4") == (
        "Hello {{age}} {x} \\1, you are 4.\n\nBye {{age}} {x} \\1."
    )


def test_a_missing_name_is_an_error(greeting: str) -> None:
    with pytest.raises(ToolError) as error:
        prompts.render(greeting, name="Ann", size="3")
    assert str(error.value) == f"{greeting}: nothing to put for {{{{age}}}}; known are name, size"


def test_an_unused_name_is_an_error(greeting: str) -> None:
    with pytest.raises(ToolError) as error:
        prompts.render(greeting, name="Ann", age="3", size="3")
    assert str(error.value) == f"{greeting}: has no {{{{size}}}}, for which there is a value"


def test_braces_around_anything_else_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "odd.md").write_text("{{Task Name}}")
    with pytest.raises(ToolError) as error:
        prompts.render(f"{tmp_path}/odd.md")
    assert str(error.value) == (
        f"{tmp_path}/odd.md: {{{{Task Name}}}} is no placeholder: write {{{{name}}}} in small letters"
    )


def test_an_unknown_prompt_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as error:
        prompts.text("triple")
    assert str(error.value).startswith("triple: no such prompt; known are ")
    assert "single, single-brief" in str(error.value)
    with pytest.raises(ToolError) as error:
        prompts.text(f"{tmp_path}/none.md")
    assert str(error.value) == f"{tmp_path}/none.md: no such file"


def test_the_shipped_prompts_ask_for_these_names() -> None:
    assert prompts.placeholders("single") == {
        "name",
        "description",
        "problem",
        "metric",
        "direction",
        "columns",
        "libraries",
        "limits",
        "data_preview",
        "split",
    }
    assert prompts.placeholders("single-brief") == {"name", "problem", "metric", "direction"}
    assert len(prompts.text("single-brief").strip().split("\n")) <= 2


# ---- a folder of one's own prompts


def test_files_of_a_folder_replace_prompts_until_the_end_of_the_block(tmp_path: Path) -> None:
    before = prompts.text("single")
    (tmp_path / "single.md").write_text("Solve {{name}}, please.")
    with prompts.replaced(tmp_path):
        assert prompts.text("single") == "Solve {{name}}, please."
        assert prompts.render("single", name="wine", metric="mae") == "Solve wine, please."
        assert prompts.text("improve") != prompts.text("single")
    with prompts.replaced(None):
        assert prompts.text("single") == before


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("singel.md", "", "no prompt has this name; known are codeact-help, "),
        ("single.md", "{{thresholds}}", "nothing to put for {{thresholds}}; known are columns, "),
        ("single.md", "{{Name}}", "{{Name}} is no placeholder: write {{name}} in small letters"),
    ],
)
def test_a_file_that_can_replace_nothing_is_an_error(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ToolError) as error, prompts.replaced(tmp_path):
        pass
    assert str(error.value).startswith(f"{tmp_path}/{name}: {problem}")


def test_a_folder_without_prompts_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolError, match=r"holds no prompt; a file NAME\.md replaces one of "),
        prompts.replaced(tmp_path),
    ):
        pass
