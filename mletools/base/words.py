"""Words of messages: counts with their nouns, and what a wrong word may have meant."""

import difflib
from collections.abc import Iterable

NOUNS = {  # that `counted` has a singular of
    "records", "rollouts", "tasks", "trials", "groups", "steps", "turns", "ideas",
    "folders", "nodes", "answers", "rewards", "requests", "submissions", "fallbacks", "epochs",
}  # fmt: skip


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> str:
    """A question that names the known words that begin with `word` (so many at most), or are most like it; "" where none is."""
    by_lower = {each.lower(): each for each in known}
    begin = [each for each in by_lower if word and each.startswith(word.lower())]
    found = begin[:most] or difflib.get_close_matches(word.lower(), by_lower, 3)
    return f"; did you mean {' or '.join(by_lower[each] for each in found)}?" if found else ""


def counted(count: int, what: str) -> str:
    """A count with what it is of: `what` begins with a plural, or with a word that has none ("valid")."""
    noun, _, rest = what.partition(" ")
    return f"{count} {noun.removesuffix('s') if count == 1 and noun in NOUNS else noun} {rest}".rstrip()
