"""Anybody's text as text that a terminal can be given: whatever would steer it, or hide something, is spelled out.

Covered: control characters of both sets, escape sequences, carriage returns, direction overrides, zero-width and other
invisible characters, halves of surrogate pairs. Not covered: letters that look like other letters, stacked accents.
"""

import re
import sys
import unicodedata
from pathlib import Path

# Invisible, though Unicode counts them as letters or marks: joiners, fillers, variation selectors.
_INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810)}
_SELECTORS = (range(0xFE00, 0xFE0F), range(0xE0100, 0xE01F0))  # U+FE0F, which makes an emoji of a sign, may stay
_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_CRLF = re.compile("\r\n")


class _Spelled(dict[int, int | str]):
    """For str.translate: what stands for a character, itself where it may; looked up once each."""

    def __init__(self, kept: str):
        super().__init__((code, code) for code in [*map(ord, kept), *range(0x20, 0x7F)])

    def __missing__(self, code: int) -> int | str:
        self[code] = self._spelled(code)
        return self[code]

    def _spelled(self, code: int) -> int | str:
        if code < 0x20:
            return chr(0x2400 + code)  # the control pictures, as in ␛
        if code == 0x7F:
            return "␡"
        hidden = code in _INVISIBLE or any(code in selectors for selectors in _SELECTORS)
        if not hidden and unicodedata.category(chr(code)) not in _CATEGORIES:
            return code
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_BLOCK, _LINE = _Spelled("\n\t"), _Spelled("")


def visible(text: str) -> str:
    """Several lines, with tabs and line ends as they are; a carriage return before a line end goes."""
    return _CRLF.sub("\n", text).translate(_BLOCK)


def to_stderr(message: str) -> None:
    """Write a notice of this command to standard error."""
    print(visible(f"{Path(sys.argv[0]).name}: {message}"), file=sys.stderr, flush=True)


def visible_line(text: str) -> str:
    """A name, an id, a reason: one line whatever is in it."""
    return text.translate(_LINE)
