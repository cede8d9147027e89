"""Texts packed for a page: gzip in base64, many in one block, which a browser unpacks when it needs one of its texts.

A block is a JSON list of strings. Base64 has no character that could end the enclosing element.
"""

import base64
import gzip
import json
from typing import Any

SIZE = 150_000  # approximate characters per block: unpacked in milliseconds, and large enough to compress well


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
