"""A rollout as a piece of HTML for the page's viewer: the lines of mle-show, with headings as sections and styles as
classes.

mle-show makes agents' text harmless to terminals (visible); here it is escaped, so no tag of the piece comes from an
agent. The pieces are packed: gzip in base64, which has no character that could end the enclosing element, many in one
block (a JSON list of strings), which a browser unpacks when it needs one of them. Not covered: styles (page.css).
"""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

from .. import show
from ..search import is_search
from ..show.lines import Section
from ..show.visible import visible_line

WIDTH = 122  # columns: prompts have 120, indented by 2
SIZE = 150_000  # approximate characters per block: unpacked in milliseconds, and large enough to compress well


def piece(rollout: Mapping[str, Any], full: bool = False) -> str:
    """The HTML of one valid rollout record. full: texts are not cut."""
    written = show.html_printer()
    view = show.View(full, WIDTH)
    sections = [_section(section, written) for section in show.sections(rollout, view)]
    if is_search(rollout):
        graph = "".join(written(show.graph(rollout, view)))
        sections.insert(1, _details("exploration graph", "", graph))
    return "".join(sections)


def _section(section: Section, written: show.Printer) -> str:
    lines = list(section.lines)
    while lines and not lines[-1].plain:
        lines.pop()
    return _details(section.name.strip("─ "), visible_line(section.after).strip("─ "), "".join(written(lines)))


def _details(title: str, after: str, text: str) -> str:
    from markupsafe import escape

    small = f" <small>{escape(after)}</small>" if after else ""
    return f"<details open><summary>{escape(title)}{small}</summary><pre>{text}</pre></details>"


# --- packed texts ---------------------------------------------------------------------------------------------------


def packed(value: Any) -> str:
    """A JSON value as base64 of gzip; the same value gives the same text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


class Blocks:
    """Collects texts; `done` gives the packed blocks. `add` returns a text's position: block, index in it."""

    def __init__(self) -> None:
        self._packed: list[str] = []
        self._open: list[str] = []
        self._size = 0

    def add(self, text: str) -> tuple[int, int]:
        place = len(self._packed), len(self._open)
        self._open.append(text)
        self._size += len(text)
        if self._size >= SIZE:
            self._close()
        return place

    def _close(self) -> None:
        self._packed.append(packed(self._open))
        self._open, self._size = [], 0

    def done(self) -> list[str]:
        if self._open:
            self._close()
        return self._packed
