"""What an answer of a plan and one fenced block of code holds.

Covered: Markdown's rules for fences (length, tildes, a longer fence around a shorter one), a reasoning model's
<think> part, which is no part of the answer. Not covered: whether the code is any good; guessing what a badly formed
answer meant.
"""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_PYTHON = {"python", "python3", "py"}


def split_answer(text: str) -> tuple[str, str | None]:
    """(plan, code): the text before the first fence, and the only block marked as Python.

    The code is None when there is no such block, more than one, or a block (of any language) that is never closed.
    Blocks of other languages are passed over. The code ends in a newline.
    """
    text = after_thinking(text)
    blocks: list[str] = []
    plan: list[str] | None = None
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        if opening is None:
            at += 1
            continue
        fence, language = opening
        plan = lines[:at] if plan is None else plan
        end = next((i for i in range(at + 1, len(lines)) if _closes(lines[i], fence)), None)
        if end is None:
            return "\n".join(plan).strip(), None
        if language in _PYTHON:
            blocks.append("\n".join(lines[at + 1 : end]) + "\n")
        at = end + 1
    code = blocks[0] if len(blocks) == 1 and blocks[0].strip() else None
    return "\n".join(lines if plan is None else plan).strip(), code


def after_thinking(text: str) -> str:
    """What stands after a reasoning part; nothing where that never ended."""
    rest = text.rpartition("</think>")[2]
    # Thinking that never ended holds drafts, no answer.
    return "" if rest.lstrip().startswith("<think>") else rest


def _opening(line: str) -> tuple[str, str] | None:
    match = _FENCE.fullmatch(line.rstrip())
    if not match:
        return None
    fence, info = match.group(1), match.group(2).strip()
    if fence[0] == "`" and "`" in info:
        return None  # code within a line, not a fence
    return fence, info.split()[0].lower() if info else ""


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(mark) >= len(fence) and set(mark) == {fence[0]}
