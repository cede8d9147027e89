"""Line differences between two texts, in bounded time.

Kept lines are a longest common subsequence, computed by rapidfuzz 64 lines at a time: about n * m / 64 steps for texts of
n and m lines. (difflib's own search takes up to cubic time on repeated lines.) Covered: the hunks of a unified diff.
Not covered: file names above them, binary content, moved lines.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any


class _Matcher(SequenceMatcher[str]):
    """difflib's grouping of operations, for operations that are computed elsewhere."""

    def __init__(self, codes: list[Any]):
        super().__init__()
        self._codes = codes

    def get_opcodes(self) -> list[Any]:
        return self._codes


def hunks(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[str]:
    """The lines of a unified diff without its two header lines, with `context` unchanged lines around each change."""
    from rapidfuzz.distance import LCSseq

    numbers: dict[str, int] = {}
    before, after = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new))
    codes = _merged(LCSseq.opcodes(before, after).as_list())
    for group in _Matcher(codes).get_grouped_opcodes(context):
        (_, first, _, first_new, _), (_, _, last, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(first, last)} +{_range(first_new, last_new)} @@"
        for tag, begin, end, begin_new, end_new in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[begin:end])
            else:
                yield from (f"-{line}" for line in old[begin:end])
                yield from (f"+{line}" for line in new[begin_new:end_new])


def _merged(codes: Sequence[Any]) -> list[Any]:
    """Neighbouring deletions and insertions as one replacement, so that removed lines stand above added ones."""
    merged: list[Any] = []
    for code in codes:
        if merged and "equal" not in (code[0], merged[-1][0]):
            _, begin, _, begin_new, _ = merged.pop()
            code = ("replace", begin, code[2], begin_new, code[4])
        merged.append(code)
    return merged


def _range(begin: int, end: int) -> str:
    """A range as `diff -u` writes it: the first line, counted from 1, and the number of lines unless it is 1."""
    return f"{begin + 1}" if end - begin == 1 else f"{begin + (end > begin)},{end - begin}"
