"""What a program or a model wrote, as a policy may be told it: nobody can take it for words of ours.

Covered: a fence that its content cannot close, control and invisible characters spelled out, marks by which chat
templates and protocols tell messages apart. Records keep the text as it was. Not covered: claims in plain words; inside
a fence they are only what was printed.
"""

import re

# Tabs and line ends stay; joiners, which some scripts and emoji need, do too.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_MARKS = re.compile(
    "<(?=[|\uff5c]|/?(?:tool_response|tool_call|start_of_turn|end_of_turn|s)>)|\\[(?=/?INST\\])", re.IGNORECASE
)
_TICKS = re.compile("`+")


def shown(text: str) -> str:
    """The text with all that is hidden spelled out (`\\x1b`), and a backslash in each mark of a chat's (`<\\|im_end|>`)."""
    return _MARKS.sub(r"\g<0>\\", _HIDDEN.sub(_spelled, text.replace("\r\n", "\n")))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fenced(text: str, language: str = "") -> str:
    """A text in a fence that it cannot close."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
