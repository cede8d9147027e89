"""What a wrong word may have meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> str:
    """A question that names the known words that begin with `word` (so many at most), or are most like it; "" where none is."""
    by_lower = {each.lower(): each for each in known}
    begin = [each for each in by_lower if word and each.startswith(word.lower())]
    found = begin[:most] or difflib.get_close_matches(word.lower(), by_lower, 3)
    return f"; did you mean {' or '.join(by_lower[each] for each in found)}?" if found else ""
