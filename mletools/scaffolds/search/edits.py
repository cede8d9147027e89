"""Programs that are changed by search/replace blocks in place of being written anew, as aider asks for them.

Covered: several blocks, applied one after the other; blocks within fences; blanks at the ends of lines, and lines that end
with CRLF; reasoning, whose blocks are drafts. Not covered: lines that are only nearly those of the program, which is an
error that tells the model which ones.
"""

import re

from ... import prompts
from ..reading import Answer, after_thinking, other_reasoning, read_answer
from .sections import plain

MOST_QUOTED = 200  # characters of a block in an error
_BLOCK = re.compile(
    r"^<{5,9} ?SEARCH[ \t]*\n(?P<old>.*?)^={5,9}[ \t]*\n(?P<new>.*?)^>{5,9} ?REPLACE[ \t]*$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"^(?:<{5,9} ?SEARCH|>{5,9} ?REPLACE)[ \t]*$", re.MULTILINE)
ANSWER = "# Your answer"  # the heading of the last part of prompts for a program


def asking_for_edits(prompt: str) -> str:
    """A prompt for a program that asks for edits of the present program instead."""
    return f"{prompt.rpartition(ANSWER)[0] or prompt}{prompts.render('search-edits')}"


def read_edits(text: str, code: str, finish_reason: str = "stop", reasoning: str | None = None) -> Answer:
    """The answer with `code` edited as it says; an answer without a block is read as a whole program (`read_answer`).

    ValueError, worded for the model: an answer that was cut off, a block that is not complete, or whose lines do not occur
    exactly once, or blocks in the reasoning of an answer that is nothing else.
    """
    _, said, _ = other_reasoning(after_thinking(_lines(text)))
    if _MARK.search(said) is None:
        answer = read_answer(text, finish_reason, reasoning)
        thought = "" if said.strip() else answer.code or f"{text}\n{reasoning or ''}"
        if _MARK.search(_lines(thought)):
            raise ValueError("they stand in the reasoning, and no answer follows it")
        return answer
    if finish_reason == "length":
        raise ValueError("the answer was cut off at the limit of its length, so blocks may be missing")
    blocks = list(_BLOCK.finditer(said))
    if 2 * len(blocks) != len(_MARK.findall(said)):
        raise ValueError("a block is not complete: it needs SEARCH, =======, and REPLACE, each on a line of its own")
    for number, block in enumerate(blocks, 1):
        code = _edited(code, block["old"], block["new"], number)
    plan = said[: blocks[0].start()].rstrip().removesuffix("```").removesuffix("```python").strip()
    return Answer(plan, code, "exact", None)


def _lines(text: str) -> str:
    """The text with one kind of line ends."""
    return text.replace("\r\n", "\n")


def _edited(code: str, old: str, new: str, number: int) -> str:
    lines, wanted = code.split("\n"), [line.rstrip() for line in old.split("\n")[:-1]]
    if not any(wanted):
        raise ValueError(f"block {number} has no SEARCH lines")
    ends = [line.rstrip() for line in lines]
    places = [at for at in range(len(lines) - len(wanted) + 1) if ends[at : at + len(wanted)] == wanted]
    if len(places) != 1:
        times = f"occur {len(places)} times in the program" if places else "do not occur in the program as they stand"
        raise ValueError(f"the SEARCH lines of block {number} {times}: {plain(old, MOST_QUOTED)}")
    at = places[0]
    return "\n".join([*lines[:at], *new.split("\n")[:-1], *lines[at + len(wanted) :]])
