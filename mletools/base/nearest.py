"""What a wrong word may have meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" with the known word that is most like `word`, or "" where none is like it."""
    by_lower = {each.lower(): each for each in known}
    alike = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    longer = [each for each in by_lower if len(word) > 1 and each.startswith(word.lower())]
    found = (longer if len(longer) == 1 else alike) or alike
    return f"; did you mean {by_lower[found[0]]}?" if found else ""
