"""Sections of an answer that begin with a heading: `NAME:` in capitals, or nearly so.

Covered: the exact form, and (lenient) other spellings of the headings, words ahead of the first, a fence, JSON.
Not covered: what the sections say.
"""

import re
from collections.abc import Sequence

from .text import read_json, valid_text, without_fence


def sections(text: str, names: Sequence[str]) -> dict[str, str]:
    """The parts of a text that begin, each at a line's beginning, with `NAME:`, every name once and in any order.

    ValueError, in words, where one is missing, empty or doubled, or where text stands before the first.
    """
    heads = {name.upper(): name for name in names}
    # line by line: a pattern with two runs of blanks takes the square of a line's length
    marked = re.compile(rf"({'|'.join(map(re.escape, heads))})[ \t]*:[*]*")
    fields: dict[str, str] = {}
    parts: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        begun = marked.match(line.lstrip(" \t").lstrip("*#").lstrip(" \t"))
        if begun:
            parts.append((begun.group(1), [begun.string[begun.end() :]]))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            break
    if not parts:
        raise ValueError(f"it has to begin with {next(iter(heads))}:")
    for mark, lines in parts:
        if heads[mark] in fields:
            raise ValueError(f"{mark}: stands there twice")
        fields[heads[mark]] = "\n".join(lines).strip()
    for head, name in heads.items():
        if not fields.get(name):
            raise ValueError(f"{head}: is missing or empty")
    return fields


def read_sections(text: str, names: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """(sections, rule); the rule is None in the exact form. ValueError, in words, where they cannot be read.

    Rules: "fence", "in_json", "preamble" (words ahead of the first heading), "heading" (in another spelling).
    """
    try:
        return sections(text, names), None
    except ValueError as error:
        problem = error
    bare = without_fence(text)
    for candidate, rule in (
        (bare, "fence"),
        (_from_heading(text, names), "preamble"),
        (_respelt(bare, names), "heading"),
    ):
        try:
            return sections(candidate, names), rule
        except ValueError:
            continue
    fields = _in_json(bare, names)
    if fields is None:
        raise problem
    return fields, "in_json"


def _from_heading(text: str, names: Sequence[str]) -> str:
    """The text from its first exact heading on."""
    heads = tuple(f"{name.upper()}:" for name in names)
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.lstrip(" \t*#").startswith(heads)), 0)
    return "\n".join(lines[first:])


def _respelt(text: str, names: Sequence[str]) -> str:
    """The text from its first heading on, headings in the exact spelling: `## 1. Analysis on current progress`."""
    spelt = {name.upper(): re.compile(_spelling(name), re.IGNORECASE) for name in names}
    lines: list[str] = []
    for line in text.split("\n"):
        bare = line.strip(" \t*#")
        bare = re.sub(r"^\d{1,2}[.)]\s{0,9}", "", bare[:200]) + bare[200:]
        head, begun = next(((head, match) for head, form in spelt.items() if (match := form.match(bare))), (None, None))
        if begun is not None:
            lines.append(f"{head}:{bare[begun.end() :]}")
        elif lines:
            lines.append(line)
    return "\n".join(lines)


def _spelling(name: str) -> str:
    words = r"[ _-]".join(map(re.escape, name.split("_")))
    return rf"{words}(?:\*\*)?[ \t]{{0,9}}(?::(?:\*\*)?|$)"


def _in_json(text: str, names: Sequence[str]) -> dict[str, str] | None:
    try:
        value, _ = read_json(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fields = {str(key).lower().replace(" ", "_"): content for key, content in value.items()}
    texts = {name: fields.get(name.lower()) for name in names}
    contents = {name: valid_text(content).strip() for name, content in texts.items() if isinstance(content, str)}
    return contents if len(contents) == len(names) and all(contents.values()) else None
