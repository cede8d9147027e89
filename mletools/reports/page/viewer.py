"""A rollout as a piece of HTML for the page's viewer: the lines of mle-show, with headings as sections and styles as
classes.

mle-show makes agents' text harmless to terminals (visible); here it is escaped, so no tag of the piece comes from an
agent. The pieces are packed: gzip in base64, which has no character that could end the enclosing element, many in one
block (a JSON list of strings), which a browser unpacks when it needs one of them. Not covered: styles (page.css).
"""

import base64
import gzip
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import show
from ..search import is_search

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 110  # columns
SIZE = 150_000  # approximate characters per block: unpacked in milliseconds, and large enough to compress well


def piece(rollout: Mapping[str, Any], full: bool = False) -> str:
    """The HTML of one valid rollout record. full: texts are not cut."""
    written = show.html_printer()
    view = show.View(full, WIDTH)
    number = itertools.accumulate(map(show.is_rule, lines := list(show.lines(rollout, view))))
    sections = [
        _section([line for line, _ in of], written)
        for _, of in itertools.groupby(zip(lines, number, strict=True), lambda each: each[1])
    ]
    if is_search(rollout):
        graph = "".join(written(show.graph(rollout, view)))
        sections.insert(1, _details("exploration graph", "", graph))
    return "".join(sections)


def _section(lines: list["Text"], written: show.Printer) -> str:
    head, body = (lines[0], lines[1:]) if show.is_rule(lines[0]) else (None, lines)
    while body and not body[-1].plain:
        body.pop()
    text = "".join(written(body))
    if head is None:
        return f"<pre>{text}</pre>"
    # the spans of a rule: its title, its line, and the text after it if there is any
    title, _, after = (*(head.plain[span.start : span.end].strip("─ ") for span in head.spans), "")[:3]
    return _details(title, after, text)


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
