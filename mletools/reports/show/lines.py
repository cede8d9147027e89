"""Blocks of an agent's text as styled lines: prose, output, code with colours, and differences between two programs.

All but code is indented, so that nothing an agent wrote begins a line as our own words do; code stands as it is and can
be copied. Not covered: what is shown in which order.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...base import difference
from ...base.visible import visible, visible_line
from .visible import cut, shortened

if TYPE_CHECKING:
    from rich.text import Text

INDENT = "  "
LONGEST = 1000  # characters of a line
TITLE = 60  # characters of a section's title
CODE = (300, 100)  # first and last lines of a program
WIDEST_WRAPPED = 200  # columns at which authors break their lines
FULL = 0.8  # share of that width from which a line counts as full
LONGEST_WRAPPED = 4000  # beyond, words are not looked for
MOST_COLOURED = 50_000  # characters of a program; of more nothing has colours
MOST_TOKENS = 2500  # of a program; what follows has no colours, for a token takes up to 25 µs
LONGEST_GAP = 200  # blanks and line ends in a row, of which a lexer takes the square
MOST_COMPARED = 1500  # lines
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_WORDS = r"[\w(\"'`*](?!.*(?:  |\t|\|))"  # words, not a heading, a table or columns
_PROSE = re.compile(_WORDS)
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]) +")
_BEGINS = re.compile(rf"(?:{_ITEM.pattern})?{_WORDS}")  # a paragraph, also an item of a list
_GAPS = re.compile(r"\s+")
DIM, LABEL, GOOD, BAD, LOUD = "dim", "bold cyan", "green", "bold red", "bold white on red"

Marked = tuple[str, bool]  # a line, and whether it is code between fences


@dataclass(frozen=True)
class View:
    """How much is shown: everything, or the ends of what is long; columns; the turns by number (all where empty)."""

    full: bool = False
    width: int = 122
    turns: frozenset[int] = field(default_factory=frozenset)


def styled(*parts: str | tuple[str, str]) -> "Text":
    """One line of parts, each a text or (text, style), none longer than LONGEST; nothing is read as markup."""
    from rich.text import Text

    line = Text(end="")
    for part in parts:
        text, style = part if isinstance(part, tuple) else (part, "")
        line.append(shortened(visible_line(text), LONGEST), style)
    return line


def folded(lines: Iterable["Text"], view: View, indent: int = 2 * len(INDENT)) -> Iterator["Text"]:
    """The lines, those that are too long for the width broken between words and indented from there; code stays."""
    from rich.cells import cell_len, chop_cells
    from rich.text import Text

    room = max(view.width - indent, 20)
    for line in lines:
        plain, begin, breaks = line.plain, 0, list[int]()
        while not line.no_wrap and cell_len(plain[begin:]) > (room if begin else view.width):
            end = begin + len(chop_cells(plain[begin : begin + room], room)[0])
            space = plain.rfind(" ", begin + room // 2, end) + 1
            begin = space or end
            breaks.append(begin)
        for at, part in enumerate(line.divide(breaks)):
            yield Text.assemble(indent * " ", part, end="") if at else part


@dataclass(frozen=True)
class Section:
    """A part of a rollout: its lines below a title, with a remark to the right of it.

    apart: an empty line stands before it; folds: a title that is too long for the width is broken.
    """

    title: str
    lines: Iterable["Text"]
    after: str = ""
    style: str = "bold"
    apart: bool = True
    folds: bool = False

    @property
    def name(self) -> str:
        """Its title, harmless and not too long."""
        return shortened(visible_line(self.title), TITLE)

    def text(self, view: View) -> Iterator["Text"]:
        """It for a terminal, its heading as wide as the view."""
        room = view.width - len(self.name) - len(self.after) - 5
        after = f" {self.after}" if self.after else ""
        heading = styled((f"── {self.name} ", self.style), ("─" * max(2, room), DIM), (after, DIM))
        if self.apart:
            yield styled("")
        yield from folded([heading], view) if self.folds else [heading]
        yield from self.lines


def block(
    text: str, view: View, style: str = "", ends: tuple[int, int] = (20, 10), words: bool = False
) -> Iterator["Text"]:
    """Indented lines, the first and last of them (`ends`) unless all is shown; broken at the width, or at `words`.

    With `words`, lines of fenced code stay whole, and lines that their author broke at a larger width are joined first.
    """
    from rich.text import Text

    lines = visible(text).rstrip("\n").split("\n")
    marked = list(zip(lines, _fenced(lines) if words else [False] * len(lines), strict=True))
    kept: Sequence[Marked | int] = marked if view.full else cut(marked, *ends)
    for each in _rejoined(kept, view.width - len(INDENT)) if words else kept:
        if isinstance(each, int):
            yield left_out(each)
            continue
        line = each[0].expandtabs(8).rstrip()
        line = line if view.full else shortened(line, LONGEST)
        for part in [line] if each[1] else _broken(line, view.width - len(INDENT), words):
            yield Text(f"{INDENT}{part}" if part else "", style, end="", no_wrap=each[1])


def _rejoined(lines: Sequence[Marked | int], room: int) -> Iterator[Marked | int]:
    """The lines, those of a paragraph as one where its author broke it at a width that is larger than `room`.

    A line that is nearly as long as the longest counts as broken there; a template may have made it longer or shorter.
    """
    prose = [each[0] for each in lines if not isinstance(each, int) and _BEGINS.match(each[0]) and not each[1]]
    widest = max((len(line) for line in prose if len(line) <= WIDEST_WRAPPED), default=0)
    paragraph: list[str] = []  # the author's lines
    for each in lines:
        text = "" if isinstance(each, int) or each[1] else each[0]
        inner = text.lstrip() if paragraph and _ITEM.match(paragraph[0]) else text
        if paragraph and widest > room and len(paragraph[-1]) >= FULL * widest and _PROSE.match(inner):
            paragraph.append(text)
            continue
        if paragraph:
            yield " ".join([paragraph[0], *map(str.lstrip, paragraph[1:])]), False
        paragraph = [text] if _BEGINS.match(text) else []
        if not paragraph:
            yield each
    if paragraph:
        yield " ".join([paragraph[0], *map(str.lstrip, paragraph[1:])]), False


def _fenced(lines: Iterable[str]) -> list[bool]:
    """Whether each line is code between two fences of Markdown; an open fence ends nowhere."""
    found, fence = [], ""
    for line in lines:
        mark = _FENCE.match(line)
        found.append(bool(fence) and not mark)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
    return found


def code(text: str, view: View, language: str) -> Iterator["Text"]:
    """The lines of a program with colours, as they are to be copied. `language`: python or bash."""
    from pygments.lexers.python import PythonLexer
    from pygments.lexers.shell import BashLexer
    from rich.syntax import Syntax

    lines = visible(text).strip("\n").split("\n")
    kept = lines if view.full else cut(lines, *CODE)
    parts = [line if isinstance(line, int) or view.full else shortened(line, LONGEST) for line in kept]
    # lexed as one, so that a string over several lines keeps its colour; what was left out is one empty line there
    whole = "\n".join("" if isinstance(part, int) else part for part in parts)
    if len(whole) > MOST_COLOURED or max(map(len, _GAPS.findall(whole)), default=0) > LONGEST_GAP:
        yield from (left_out(part) if isinstance(part, int) else _verbatim(part) for part in parts)
        return
    lexer = (BashLexer if language == "bash" else PythonLexer)(stripnl=False, ensurenl=False)
    lexer.get_tokens_unprocessed = functools.partial(_first_tokens, lexer.get_tokens_unprocessed)
    syntax = Syntax(whole, lexer, theme="ansi_dark", background_color="default")
    coloured = syntax.highlight(whole).split("\n", allow_blank=True)
    for part, line in zip(parts, coloured, strict=False):
        yield left_out(part) if isinstance(part, int) else line


def _first_tokens(lex: Callable[[str], Iterator[Any]], text: str) -> Iterator[Any]:
    """What the lexer makes of a text, as far as MOST_TOKENS go; the rest is one token without a kind."""
    from pygments.token import Token

    for number, (at, kind, value) in enumerate(lex(text)):
        if number == MOST_TOKENS:
            yield at, Token, text[at:]
            return
        yield at, kind, value


def changes(before: str, after: str, view: View) -> list["Text"] | None:
    """A unified diff of two programs; None where the program itself is shorter, or too long to be compared."""
    old, new = (visible(text).strip("\n").split("\n") for text in (before, after))
    if max(len(old), len(new)) > MOST_COMPARED:
        return None
    lines = list(difference.hunks(old, new, 2))
    if len(lines) >= len(new):
        return None
    styles = {"+": GOOD, "-": "red", "@": "cyan"}
    return [_verbatim(shortened(line, LONGEST), styles.get(line[:1], DIM)) for line in lines]


def count(number: int, what: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _verbatim(line: str, style: str = "") -> "Text":
    """A line of a program that is visible already, with its tabs."""
    from rich.text import Text

    return Text(line, style, end="")


def left_out(number: int) -> "Text":
    """In place of so many lines."""
    return styled((f"{INDENT}… {count(number, 'line')} …", DIM))


def _broken(line: str, width: int, words: bool) -> list[str]:
    """A line in pieces that fit `width` columns."""
    from rich.cells import cell_len, chop_cells

    width = max(width, 20)
    if (len(line) if line.isascii() else cell_len(line)) <= width:
        return [line]
    if words and len(line) <= LONGEST_WRAPPED:
        import textwrap

        item = _ITEM.match(line)
        indent = " " * min(item.end() if item else len(line) - len(line.lstrip()), width // 2)
        return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False, replace_whitespace=False)
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)]
    return chop_cells(line, width)
