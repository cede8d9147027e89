"""Every prompt is a Markdown file in this folder (or the user's own), with {{name}} placeholders.

Covered: filling them in; a placeholder that nobody fills and a value that nobody asked for are errors.
Not covered: conditions, loops, which facts of a task a prompt may show (scaffolds decide that).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import ToolError

# The prompts about a task, and the placeholders that each of them, and a file in its place, may use.
ABOUT_A_TASK = frozenset(
    ["single", "single-brief", "task", "improve", "react-system", "codeact-system", "memory-system", "search-analysis"]
)
TASK_FACTS = ("name", "description", "modality", "problem", "metric", "direction", "files", "columns", "split")
ENVIRONMENT_FACTS = ("libraries", "limits", "data_preview")  # made only where a prompt asks for them

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_BUILT_IN = Path(__file__).parent
_replacements: dict[str, Path] = {}  # set by `replaced` alone


@contextmanager
def replaced(folder: Path | None) -> Iterator[None]:
    """Use the Markdown files of `folder` in place of the prompts of the same names, until the with block ends.

    They may leave placeholders of the built-in prompt out; one about a task may use all facts. ToolError: a file whose name no prompt has, or one that asks
    for something else.
    """
    files = {} if folder is None else {file.stem: file for file in sorted(folder.glob("*.md"))}
    if folder is not None and not files:
        raise ToolError(f"{folder}: holds no prompt; a file NAME.md replaces one of {', '.join(_names())}")
    for name, file in files.items():
        if not (_BUILT_IN / f"{name}.md").is_file():
            raise ToolError(f"{file}: no prompt has this name; known are {', '.join(_names())}")
        known = placeholders(name) | {*TASK_FACTS, *ENVIRONMENT_FACTS} if name in ABOUT_A_TASK else placeholders(name)
        for unknown in sorted(placeholders(str(file)) - known):
            raise ToolError(f"{file}: nothing to put for {{{{{unknown}}}}}; known are {', '.join(sorted(known))}")
    _replacements.update(files)
    try:
        yield
    finally:
        _replacements.clear()


def _names() -> list[str]:
    return sorted(file.stem for file in _BUILT_IN.glob("*.md"))


def text(name_or_path: str) -> str:
    """A prompt before it is filled in: `single` is this folder's single.md; a path has a slash or ends in .md.

    ToolError where there is no such file.
    """
    own = "/" not in name_or_path and not name_or_path.endswith(".md")
    path = Path(name_or_path)
    if own:
        path = _replacements.get(name_or_path, _BUILT_IN / f"{name_or_path}.md")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = (
            f"no such prompt; known are {', '.join(_names())}, or give the path of a .md file"
            if own
            else "no such file"
        )
        raise ToolError(f"{name_or_path}: {hint}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{name_or_path}: cannot read the prompt: {error}") from error


def placeholders(name_or_path: str) -> set[str]:
    """The names that a prompt asks for. ToolError for braces around anything but a name."""
    found = {match.strip() for match in _BRACES.findall(text(name_or_path))}
    for name in sorted(found):
        if not _NAME.fullmatch(name):
            raise ToolError(f"{name_or_path}: {{{{{name}}}}} is no placeholder: write {{{{name}}}} in small letters")
    return found


def render(name_or_path: str, **values: str) -> str:
    """The prompt with every placeholder filled in, without white space at its ends.

    Braces within a value stay as they are. ToolError names a placeholder without a value, and a value without a
    placeholder, unless the prompt is one of `replaced`.
    """
    wanted = placeholders(name_or_path)
    for name in sorted(wanted - values.keys()):
        raise ToolError(f"{name_or_path}: nothing to put for {{{{{name}}}}}; known are {', '.join(sorted(values))}")
    for name in () if name_or_path in _replacements else sorted(values.keys() - wanted):
        raise ToolError(f"{name_or_path}: has no {{{{{name}}}}}, for which there is a value")
    return _BRACES.sub(lambda match: values[match.group(1).strip()], text(name_or_path)).strip()
