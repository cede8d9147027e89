"""Every prompt is a Markdown file in this folder (or the user's own), with {{name}} placeholders.

Covered: filling them in; a placeholder that nobody fills and a value that nobody asked for are errors.
Not covered: conditions, loops, which facts of a task a prompt may show (scaffolds decide that).
"""

import re
from pathlib import Path

from ..records.errors import ToolError

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def text(name_or_path: str) -> str:
    """A prompt before it is filled in: `single` is this folder's single.md; a path has a slash or ends in .md.

    ToolError where there is no such file.
    """
    own = "/" not in name_or_path and not name_or_path.endswith(".md")
    path = Path(__file__).parent / f"{name_or_path}.md" if own else Path(name_or_path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        known = ", ".join(sorted(file.stem for file in Path(__file__).parent.glob("*.md")))
        hint = f"no such prompt; known are {known}, or give the path of a .md file" if own else "no such file"
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
    placeholder.
    """
    wanted = placeholders(name_or_path)
    for name in sorted(wanted - values.keys()):
        raise ToolError(f"{name_or_path}: nothing to put for {{{{{name}}}}}; known are {', '.join(sorted(values))}")
    for name in sorted(values.keys() - wanted):
        raise ToolError(f"{name_or_path}: has no {{{{{name}}}}}, for which there is a value")
    return _BRACES.sub(lambda match: values[match.group(1).strip()], text(name_or_path)).strip()
