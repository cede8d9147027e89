"""What changed between two texts, line by line, in bounded time.

The lines kept are a longest common subsequence, found 64 lines at once by rapidfuzz: about n * m / 64 steps for texts of n
and m lines, whatever stands in them. (difflib's matcher takes up to the cube where lines repeat.) Covered: the hunks of a
unified diff. Not covered: file names above them, binary content, moved lines.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

Code: TypeAlias = tuple[str, int, int, int, int]  # what is done to old[begin:end] and new[begin:end]


def hunks(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[str]:
    """The lines of a unified diff without its two lines of names, `context` unchanged lines around each change."""
    from rapidfuzz.distance import LCSseq

    numbers: dict[str, int] = {}
    before, after = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new))
    for group in _groups(_merged(LCSseq.opcodes(before, after).as_list()), context):
        (_, first, _, first_new, _), (_, _, last, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(first, last)} +{_range(first_new, last_new)} @@"
        for tag, begin, end, begin_new, end_new in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[begin:end])
            else:
                yield from (f"-{line}" for line in old[begin:end])
                yield from (f"+{line}" for line in new[begin_new:end_new])


def _merged(codes: Sequence[Any]) -> list[Code]:
    """Neighbouring deletions and insertions as one replacement, so that what went stands above what came."""
    merged: list[Code] = []
    for code in codes:
        if merged and "equal" not in (code[0], merged[-1][0]):
            _, begin, _, begin_new, _ = merged.pop()
            code = ("replace", begin, code[2], begin_new, code[4])
        merged.append(code)
    return merged


def _groups(codes: list[Code], context: int) -> Iterator[list[Code]]:
    """The operations of each hunk; unchanged lines far from a change are left out."""
    group: list[Code] = []
    changed = False
    for at, code in enumerate(codes):
        tag, begin, end, begin_new, end_new = code
        if tag != "equal":
            group.append(code)
            changed = True
            continue
        first, last = at == 0, at == len(codes) - 1
        if not first and not last and end - begin <= 2 * context:
            group.append(code)
            continue
        kept = min(context, end - begin)
        if changed:
            yield [*group, (tag, begin, begin + kept, begin_new, begin_new + kept)]
        group, changed = [(tag, end - kept, end, end_new - kept, end_new)], False
    if changed:
        yield group


def _range(begin: int, end: int) -> str:
    """As `diff -u` has it: the first line, counted from 1, and how many, where that is not 1."""
    return f"{begin + 1}" if end - begin == 1 else f"{begin + (end > begin)},{end - begin}"
