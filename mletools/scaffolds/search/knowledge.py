"""Passages of a user's own notes that research is told of: the Markdown and text files of a folder.

Covered: cutting files into passages at blank lines, the passages nearest to a question. Not covered: other kinds of
files, an index on disk; a folder is read once a search and compared as a whole.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...records.errors import ToolError

LONGEST = 1500  # characters of a passage
KINDS = (".md", ".txt")


def passages(folder: Path) -> list[str]:
    """The passages of all files of KINDS below a folder, in the order of the files' paths, each up to LONGEST characters.

    ToolError: there is no such folder, nothing in it that can be used, or a file that cannot be read as UTF-8.
    """
    if not folder.is_dir():
        raise ToolError(f"{folder}: no such folder of knowledge")
    files = [path for path in folder.rglob("*") if path.suffix.lower() in KINDS and not path.is_dir()]
    passages_read: list[str] = []
    for path in sorted(files, key=lambda path: path.relative_to(folder).as_posix()):
        try:
            passages_read += _cut(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ToolError(f"{path}: not UTF-8") from None
    if not passages_read:
        raise ToolError(
            f"{folder}: no knowledge in it: it needs files that end in {' or '.join(KINDS)}, with text in them"
        )
    return passages_read


def best(
    query: str, passages: Sequence[str], similar: Callable[[str, Sequence[str]], list[float]], most: int = 3
) -> list[str]:
    """The passages with the largest cosine to the query, if it is above 0: `most` at most, best first.

    similar(text, others): the cosines of a text with others, as NodeContext.similar.
    """
    if not passages:
        return []
    near = similar(query, passages)
    order = sorted(range(len(passages)), key=lambda place: -near[place])
    return [passages[place] for place in order[:most] if near[place] > 0]


def _cut(text: str) -> Iterator[str]:
    """Paragraphs put together as long as they fit; one that is too long by itself is cut."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = paragraph.strip()
        if held and len(held) + 2 + len(paragraph) > LONGEST:
            yield held
            held = ""
        held = f"{held}\n\n{paragraph}" if held and paragraph else held or paragraph
        while len(held) > LONGEST:
            at = max(held.rfind("\n", 1, LONGEST), held.rfind(" ", 1, LONGEST))
            at = at if at > 0 else LONGEST
            yield held[:at].rstrip()
            held = held[at:].lstrip()
    if held:
        yield held
