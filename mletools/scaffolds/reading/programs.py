"""The program in an answer of a plan and one fenced block of code.

Exact: one block marked as Python, every block closed, by Markdown's rules for fences. Lenient: the forms below, where
one program is meant without doubt. A program is found, never repaired: ast.parse decides, nothing is edited but a
fence's own indentation. Not covered: whether the program is any good.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...records.rollout import TurnFormat
from .disguise import plain_program, undisguised
from .forms import PYTHON, forms
from .text import END_OF_TURN, LARGEST, acts, after_thinking, other_reasoning, parsed

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_PYTHON_IN_OTHER_WORDS = re.compile(r"\{?\.?(?:i?python|py)[\d.]*(?:[:{}].*)?|tool_code")
_CONTAINERS = {"markdown", "md"}
_FINAL = re.compile(r"\b(?:final|complete|full|whole|entire|corrected|revised|updated|improved|fixed)\b", re.IGNORECASE)
_DRAFT = re.compile(r"\b(?:drafts?|sketch|skeleton|outline|rough|first (?:version|attempt|try))\b", re.IGNORECASE)
_ANNOUNCEMENT = 300  # characters before a block that may say what it is
_DOUBTFUL = {"no_fence", "tool_call"}  # forms that a snippet or a look at the data may have, too
_MOST_EXTENSIONS = 4  # closing fences inside a program's strings


@dataclass(frozen=True)
class Answer:
    """What an answer holds. `read`: exact, lenient (by `rule`), or none (for the reason `rule`)."""

    plan: str
    code: str | None
    read: Literal["exact", "lenient", "none"]
    rule: str | None

    @property
    def format(self) -> TurnFormat:
        """`format` of a turn."""
        return {"read": self.read, "rule": self.rule}


@dataclass(frozen=True)
class _Block:
    """A fenced block: lines `begin` to `end` with the fences; `rule` is the leniency that it takes to read it."""

    language: str
    code: str
    begin: int
    end: int
    closed: bool
    indent: int = 0
    rule: str | None = None


def split_answer(text: str) -> tuple[str, str | None]:
    """(plan, program) of a whole answer; see read_answer."""
    answer = read_answer(text)
    return answer.plan, answer.code


def read_answer(text: str, finish_reason: str = "stop", reasoning: str | None = None) -> Answer:
    """The plan and the program of an answer; `finish_reason` is length where it was cut off.

    reasoning: what a server set apart. Programs in it are drafts, unless a finished reply is nothing else and ends with
    its only program: then the server took the answer for reasoning (a parser that waits for an end mark).

    The program ends in a newline. Reasons for none: no_program, several_programs, length (cut off inside a program or
    before it), thinking (nothing after the reasoning).
    """
    answer = _read(text, finish_reason, reasoning)
    for rule, seen in undisguised(text) if answer.code is None or parsed(answer.code) is None else ():
        again = _read(seen, finish_reason, reasoning)
        if again.code is not None and parsed(again.code) is not None:
            answer = replace(again, read="lenient", rule=rule)
            break
    if answer.code is not None:
        code, named = plain_program(answer.code)
        if named:
            return replace(answer, code=code, read="lenient", rule=answer.rule or named)
    return answer


def _read(text: str, finish_reason: str, reasoning: str | None) -> Answer:
    """See read_answer; of the characters as they are."""
    _, visible, reasoning_rule = other_reasoning(after_thinking(text))
    plan, code, fences_left = _exact(visible.split("\n"))
    cut = finish_reason == "length"
    rule = "cut_after_program" if cut else reasoning_rule
    if code is not None and rule is None and not (fences_left and parsed(code) is None):
        return Answer(plan, code, "exact", None)
    reading = _Lenient(visible, cut, reasoning_rule).answer()
    if code is not None and reading.code is None and reading.rule != "length":
        return Answer(plan, code, "lenient" if rule else "exact", rule)
    if finish_reason == "stop" and not text.strip() and reasoning and reasoning.rstrip().endswith(("```", "~~~")):
        inside = _read(reasoning, "stop", None)
        if inside.code is not None and inside.rule != "last_program":
            return replace(inside, read="lenient", rule="answer_in_reasoning")
    if reading.rule == "no_program" and not visible.strip() and (text.strip() or (reasoning or "").strip()):
        reading = replace(reading, rule="thinking")
    return reading if reading.plan else replace(reading, plan=plan)


def _exact(lines: Sequence[str]) -> tuple[str, str | None, bool]:
    """(plan, program, whether fences follow it): the text before the first fence, and the only block marked as Python.

    The program is None without such a block, with more than one, and where a block (of any language) is never closed.
    Blocks of other languages are passed over.
    """
    programs: list[tuple[str, int]] = []
    plan: str | None = None
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        if opening is None:
            at += 1
            continue
        fence, language = opening
        plan = "\n".join(lines[:at]).strip() if plan is None else plan
        end = next((i for i in range(at + 1, len(lines)) if _closes(lines[i], fence)), None)
        if end is None:
            return plan, None, False
        if language in PYTHON:
            indent = len(lines[at]) - len(lines[at].lstrip(" "))
            programs.append((_content(lines[at + 1 : end], indent), end))
        at = end + 1
    plan = "\n".join(lines).strip() if plan is None else plan
    if len(programs) != 1 or not programs[0][0].strip():
        return plan, None, False
    code, end = programs[0]
    return plan, code, any(line.lstrip().startswith(("```", "~~~")) for line in lines[end + 1 :])


def _opening(line: str) -> tuple[str, str] | None:
    match = _FENCE.fullmatch(line.rstrip())
    if not match:
        return None
    fence, info = match.group(1), match.group(2).strip()
    if fence[0] == "`" and "`" in info:
        return None  # code within a line, not a fence
    return fence, info.split()[0].lower() if info else ""


def _closes(line: str, fence: str, most_indent: int = 3) -> bool:
    mark = line.strip()
    indent = len(line) - len(line.lstrip(" "))
    return indent <= most_indent and len(mark) >= len(fence) and set(mark) == {fence[0]}


class _Lenient:
    """The lenient reading of one answer. At most LARGEST characters are parsed in all."""

    def __init__(self, text: str, cut: bool, reasoning_rule: str | None, left: int | None = None):
        self.text, self.cut, self.reasoning_rule = text, cut, reasoning_rule
        self.inner = left is not None  # the text was rewritten from another form
        self.left = LARGEST if left is None else left
        self.trees: dict[str, ast.Module | None] = {}

    def answer(self) -> Answer:
        """See read_answer."""
        lines = self.text.split("\n")
        blocks = list(self._blocks(lines))
        plan = "\n".join(lines[: blocks[0].begin] if blocks else lines).strip()
        if self.cut and blocks and not blocks[-1].closed:
            return Answer(plan, None, "none", "length")
        filled = [block for block in blocks if block.code.strip()]
        read = [(block, self._is_program(block)) for block in filled]
        programs = [block for block, is_program in read if is_program]
        broken = [block for block, is_program in read if not is_program and block.language in PYTHON]
        code, rule = self._chosen(programs, lines) if programs else self._other_form(filled)
        if programs and any(self._is_whole(block) for block in broken):
            code, rule = None, "several_programs"
        if code is None:
            return Answer(plan, None, "none", "length" if self.cut and rule == "no_program" else rule)
        if not code.endswith("\n"):
            code += "\n"
        default = "end_of_turn" if all(block.closed for block in blocks) else "unclosed_fence"
        rule = "cut_after_program" if self.cut else rule or self.reasoning_rule or default
        return Answer(plan, code, "lenient", rule)

    def _parsed(self, code: str) -> ast.Module | None:
        if code not in self.trees:
            self.left -= len(code)
            self.trees[code] = parsed(code) if self.left >= 0 else None
        return self.trees[code]

    # --- blocks ---------------------------------------------------------------------------------------------------

    def _blocks(self, lines: Sequence[str], inner: bool = False) -> Iterator[_Block]:
        """The fenced blocks of any indentation, up to the end of the turn; of Markdown those in it."""
        at = 0
        while at < len(lines):
            line = lines[at]
            opening = _opening(line.lstrip(" \t"))
            if opening is None:
                if END_OF_TURN.search(line):
                    return
                at += 1
                continue
            fence, language = opening
            block = self._block(lines, at, fence, language)
            if language in _CONTAINERS and not inner:
                content = block.code.removesuffix("\n").split("\n")
                for nested in self._blocks(content, inner=True):
                    closed = nested.closed or block.closed
                    yield replace(nested, begin=at, end=block.end, closed=closed, rule="nested_fence")
            else:
                yield block
            at = block.end + 1

    def _block(self, lines: Sequence[str], at: int, fence: str, language: str) -> _Block:
        indent = len(lines[at]) - len(lines[at].lstrip(" \t"))
        rule = "indented_fence" if indent > 3 else None
        ends = (i for i in range(at + 1, len(lines)) if _closes(END_OF_TURN.sub("", lines[i]), fence, indent + 3))
        end = next(ends, None)
        if end is None:
            return self._unclosed(lines, at, fence, language, indent, rule)
        again = _opening(lines[at + 1].lstrip(" \t")) if end > at + 1 else None
        if again is not None and again[1] in PYTHON and language not in _CONTAINERS:  # opened twice
            return _Block(language, _content(lines[at + 2 : end], indent), at, end, True, indent, "nested_fence")
        code = _content(lines[at + 1 : end], indent)
        if language in PYTHON and self._parsed(code) is None:
            for _, later in zip(range(_MOST_EXTENSIONS), ends, strict=False):
                longer = _content(lines[at + 1 : later], indent)
                if self._parsed(longer) is not None:
                    return _Block(language, longer, at, later, True, indent, "fence_in_string")
        return _Block(language, code, at, end, True, indent, rule)

    def _unclosed(
        self, lines: Sequence[str], at: int, fence: str, language: str, indent: int, rule: str | None
    ) -> _Block:
        """The last block, which runs to the end of the turn; its last line may hold the fence that closes it."""
        code = _content(lines[at + 1 :], indent).rstrip("\n") + "\n"
        if END_OF_TURN.search(code) and self._parsed(code) is None:
            code = code[: END_OF_TURN.search(code).start()]  # type: ignore[union-attr]
        if code.rstrip().endswith(fence):
            closed_code = code.rstrip().removesuffix(fence) + "\n"
            return _Block(language, closed_code, at, len(lines) - 1, True, indent, "fence_in_line")
        return _Block(language, code, at, len(lines) - 1, False, indent, "unclosed_fence")

    # --- programs -------------------------------------------------------------------------------------------------

    def _is_program(self, block: _Block) -> bool:
        """Whether a block is Python: marked so, or unmarked and a text that Python reads and that does something."""
        if block.language in PYTHON and block.closed and block.rule != "fence_in_line":
            return True
        if block.language and not _PYTHON_IN_OTHER_WORDS.fullmatch(block.language):
            return False
        tree = self._parsed(block.code)
        return tree is not None and (bool(block.language) or acts(tree))

    def _chosen(self, programs: Sequence[_Block], lines: Sequence[str]) -> tuple[str | None, str | None]:
        """(program, rule) of several blocks of Python; (None, reason) where it is not clear which one is meant."""
        distinct = {block.code.strip(): block for block in programs}
        last = programs[-1]
        if len(distinct) == 1:
            return last.code, "same_program_twice" if len(programs) > 1 else _rule(last)
        whole = [block for block in distinct.values() if self._is_whole(block)]
        tree = self._parsed(whole[-1].code) if whole else None
        if tree is not None:
            if _unbound(tree):
                return self._in_parts(programs, whole[-1])
            if len(whole) == 1:
                return whole[0].code, "only_program"
            if whole[-1] is last and _is_announced(whole, lines):
                return last.code, "last_program"
        return None, "several_programs"

    def _is_whole(self, block: _Block) -> bool:
        """Whether a block is a whole program: it names the submission, in a string unless it cannot be parsed."""
        if "submission" not in block.code:
            return False
        tree = self._parsed(block.code)
        return tree is None or _names_submission(tree)

    def _in_parts(self, programs: Sequence[_Block], last: _Block) -> tuple[str | None, str | None]:
        """(program, rule) of a program that goes on from block to block: whole only where they are put together."""
        code = "\n".join(block.code for block in programs[: programs.index(last) + 1])
        tree = self._parsed(code)
        return (code, "parts") if tree is not None and not _unbound(tree) else (None, "several_programs")

    def _other_form(self, blocks: Sequence[_Block]) -> tuple[str | None, str]:
        """(program, rule) of an answer without a block of Python: bare, or in another frame."""
        end = END_OF_TURN.search(self.text)
        text = self.text[: end.start()] if end else self.text
        if not blocks:
            bare = text.strip("\n").rstrip().removesuffix("```")
            label, _, rest = bare.partition("\n")
            tree = self._parsed(bare := rest if label.strip() in PYTHON else bare) if not self.cut else None
            if tree is not None and any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree.body):
                return bare, "no_fence"
        if self.inner:
            return None, "no_program"
        closed = [(block.language, block.code) for block in blocks if block.closed]
        for rule, rewritten in forms(text, closed):
            reading = _Lenient(rewritten, self.cut, None, self.left)
            code = reading.answer().code
            tree = None if code is None else reading._parsed(code)
            self.left = reading.left
            if tree is not None and (rule not in _DOUBTFUL or _names_submission(tree)):
                return code, rule
        return None, "no_program"


def _content(lines: Sequence[str], indent: int) -> str:
    """The lines of a block without the indentation of its fence, where each has it."""
    if indent and all(line[:indent].isspace() or not line.strip() for line in lines):
        lines = [line[indent:] for line in lines]
    return "\n".join(lines) + "\n"


def _names_submission(tree: ast.AST) -> bool:
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return any(isinstance(value, str) and "submission" in value for value in strings)


def _unbound(tree: ast.Module) -> set[str]:
    """Names that a program uses and binds nowhere, whatever the scope; none where a star import may bind them."""
    used: set[str] = set()
    bound = {*dir(builtins), "__file__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return set() if "*" in bound else used - bound


def _is_announced(whole: Sequence[_Block], lines: Sequence[str]) -> bool:
    """Whether the text says that the last of several programs is meant: it is the final one, or the others are drafts."""
    ends = [0, *(block.end + 1 for block in whole)]
    before = ["\n".join(lines[end : block.begin])[-_ANNOUNCEMENT:] for end, block in zip(ends, whole, strict=False)]
    if all(_DRAFT.search(words) for words in before[:-1]):
        return True
    return bool(_FINAL.search(before[-1])) and not any(_FINAL.search(words) for words in before[:-1])


def _rule(block: _Block) -> str | None:
    """The leniency that it takes to read one block."""
    if block.rule is not None:
        return block.rule
    if not block.language:
        return "no_language"
    return None if block.language in PYTHON else "language"
