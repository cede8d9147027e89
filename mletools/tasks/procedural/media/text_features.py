"""What a notes' reader finds: the facts behind the words (read_notes), and a quick count of words (bag_of_words).

`read_notes` knows the language and the names of the factors, never their values. Not covered: spelling (text_words).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..world import Category, Number
from .text_notes import ASSURING, DOUBTING
from .text_plan import ASKED, HEDGES, LETTERS, ORDER, PRAISE, QUESTIONS, TROUBLE, NotesPlan, placed_name, rivals_name
from .text_words import Reader, Sentence, is_number, wordings

COMMON = 8
# Words up to this length are taken for small ones that tell nothing.
SHORT = 3
# The furthest that a denial stands before the word which it denies.
REACH = 3
ARTICLES = frozenset(("the", "a", "an", "was", "were", "of", "on", "in", "to", "up"))
CUES = frozenset(("first", "later", "after", "began", "then", "before"))
Note = list[Sentence]


def bag_of_words(plan: NotesPlan, notes: Sequence[str]) -> Any:
    """Floats of shape (rows, 23): counts of the commonest words, of words in eight lists, of signs, and two numbers.

    The lists are words of praise, of blame, of doubt, of assurance, and of each theme: counted as they stand, and for
    praise and doubt also as a share.
    """
    import numpy as np

    text = plan.scenario["text"]
    sides = [set(text["praise"]), set(text["blame"]), set(DOUBTING), set(ASSURING)]
    lists = [*sides, *(set(words) for words in text["themes"].values())]
    glue = set(LETTERS.findall(" ".join(wordings()).lower()))
    bags = [Counter(re.findall(r"[^\W\d_]+", note.lower())) for note in notes]
    spread = Counter(word for bag in bags for word in bag if len(word) > SHORT and word not in glue)
    # A word that nearly every note holds tells nothing.
    useful = [word for word, count in spread.items() if count <= 0.9 * len(notes)]
    words = sorted(useful, key=lambda word: (-spread[word], word))[:COMMON]
    made = []
    for note, bag in zip(notes, bags, strict=True):
        counts = [bag[word] for word in words] + [0] * (COMMON - len(words))
        sums = [sum(count for word, count in bag.items() if word in known) for known in lists]
        shares = [(one + 1) / (one + other + 2) for one, other in (sums[0:2], sums[2:4])]
        signs = [len(note.split()), len(note), note.count("?")]
        made.append([*counts, *sums, *shares, *signs, *_two_numbers(note)])
    return np.round(np.array(made, dtype=float), 6)


def _two_numbers(note: str) -> list[float]:
    """The first and the last number of the note, 0 where there is none."""
    found = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", note)] or [0.0]
    return [found[0], found[-1]]


def read_notes(plan: NotesPlan, notes: Sequence[str]) -> dict[str, Any]:
    """Of each factor what the notes tell: places of shape (rows,), or codes; the middle where nothing is found."""
    import numpy as np

    reader = Reader(plan)
    read = [reader.sentences(note) for note in notes]
    found = {}
    for name, factor in plan.factors.items():
        work = _reading(plan, factor)
        values = [work(note) for note in read]
        found[name] = np.array(values) if isinstance(factor, Category) else np.round(np.array(values, dtype=float), 6)
    return found


def _reading(plan: NotesPlan, factor: Number | Category) -> Callable[[Note], float]:
    text = plan.scenario["text"]
    themes = {theme: frozenset(words) for theme, words in text["themes"].items()}
    if isinstance(factor, Category):
        return {ORDER: lambda note: _order(plan, note), TROUBLE: lambda note: _trouble(plan, note)}[factor.name]
    simple: dict[str, Callable[[Note], float]] = {
        PRAISE: lambda note: _praise(frozenset(text["praise"]), frozenset(text["blame"]), note),
        HEDGES: lambda note: _share(frozenset(DOUBTING), frozenset(ASSURING), note),
        QUESTIONS: lambda note: min(1.0, sum(each.asked for each in note) / ASKED),
        rivals_name(*plan.rivals): lambda note: _share(themes[plan.rivals[0]], themes[plan.rivals[1]], note),
        placed_name(plan.placed): lambda note: _first(themes[plan.placed], note),
    }
    return simple.get(factor.name, lambda note: _number(factor, note))


def _share(one: frozenset[str], other: frozenset[str], note: Note) -> float:
    words = [word for sentence in note for word in sentence.words]
    first, second = sum(word in one for word in words), sum(word in other for word in words)
    return first / (first + second) if first + second else 0.5


def _praise(praise: frozenset[str], blame: frozenset[str], note: Note) -> float:
    votes = []
    for sentence in note:
        words = sentence.words
        for at, word in enumerate(words):
            if word not in praise and word not in blame:
                continue
            before = words[max(0, at - REACH) : at]
            denied = bool({"not", "never", "hardly", "far", "anything"} & set(before))
            votes.append((word in praise) != denied)
    return sum(votes) / len(votes) if votes else 0.5


def _first(theme: frozenset[str], note: Note) -> float:
    places = [at for at, sentence in enumerate(note) if theme & set(sentence.words)]
    return places[0] / max(1, len(note) - 1) if places else 0.5


def _number(factor: Number, note: Note) -> float:
    """The number after `now`; without one the first, or the second where the day before comes first."""
    for sentence in note:
        words = sentence.words
        at = [each for each, word in enumerate(words) if is_number(word)]
        if not at:
            continue
        later = [each for each in at if "now" in words[:each]]
        chosen = later[0] if later else at[0]
        if not later and {"last", "before"} & set(words[: at[0]]):
            chosen = at[-1]
        value = float(words[chosen].replace(",", "."))
        return min(1.0, max(0.0, (value - factor.low) / (factor.high - factor.low)))
    return 0.5


def _own_words(phrases: Sequence[str]) -> list[frozenset[str]]:
    """Of each phrase the words that no other one has."""
    words = [[word for word in LETTERS.findall(phrase.lower()) if word not in ARTICLES] for phrase in phrases]
    often = Counter(word for each in words for word in set(each))
    return [frozenset(word for word in each if often[word] == 1) or frozenset(each) for each in words]


def _order(plan: NotesPlan, note: Note) -> int:
    """0 or 1: the first or the second event came first; 2: one of them is missing."""
    own = _own_words([*plan.events, *plan.other_events])[:2]
    seen = []
    for words in own:
        best = (0.0, 0, 0, 0)
        for number, sentence in enumerate(note):
            if not CUES & set(sentence.words) or any(is_number(word) for word in sentence.words):
                continue
            at = [each for each, word in enumerate(sentence.words) if word in words]
            share = len({sentence.words[each] for each in at}) / len(words)
            if share >= 0.5 and share > best[0]:
                best = (share, number, at[0], at[-1])
        seen.append(best)
    if not seen[0][0] or not seen[1][0]:
        return 2
    first, second = sorted(range(2), key=lambda which: seen[which][1:])
    _, number, start, end = seen[first]
    told = note[number].words
    between = told[end:] if seen[second][1] != number else told[end : seen[second][2]]
    turned = "before" in told[:start] or (seen[second][1] == number and {"before", "after"} & set(between))
    return second if turned else first


def _trouble(plan: NotesPlan, note: Note) -> int:
    own = _own_words(plan.suspects)
    for sentence in note:
        words = sentence.words
        if not {"most", "least"} & set(words) or not {"trouble", "parts", "took"} & set(words):
            continue
        places = [[at for at, word in enumerate(words) if word in mine] for mine in own]
        named = sorted((at[0], which) for which, at in enumerate(places) if at)
        if not named:
            continue
        # "the most from X" or "X took the most": either way X is the one that comes first where `most` comes first.
        turned = "most" not in words or ("least" in words and words.index("least") < words.index("most"))
        return named[-1 if turned else 0][1]
    return 0
