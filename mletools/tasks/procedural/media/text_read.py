"""What can be read in notes: a quick count of words (`bag_of_words`), and the facts behind the words (`read_notes`).

A spoiled note is made readable first: tags, forms and quotations go, words become ones that are known. The reader knows
the language and the names of the factors, never their values; it finds words that tell something, not wordings.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..world import Category, Number
from .text import (
    END_OF_FORM,
    FOREIGN,
    GRADE,
    HEDGES,
    LETTERS,
    ORDER,
    PRAISE,
    TROUBLE,
    URGENCY,
    NotesPlan,
    rivals_name,
)
from .text_grammar import ASKS, ASSURING, CUES, DENIALS, DOUBTING, GRADES, HASTE, OLD, ORDER_CUES, TURNED, wordings

TOKENS = re.compile(rf"{LETTERS.pattern}|\d+:\d+|-?\d+(?:[.,]\d+)?(?![^\s.,:;)])|[.!?;,:]")
FORM = re.compile(rf".*Remarks:(.*){END_OF_FORM}.*", re.DOTALL | re.IGNORECASE)
SHORTEST = 4
# The furthest that a denial stands before the word which it denies, and a word for an old value before its number.
REACH = 3
# The furthest that two events of one order stand apart.
FAR = 14
COMMON = 10
ARTICLES = frozenset(("the", "a", "an", "was", "were", "of", "on", "in", "to", "up", "at", "for", "per", "by"))


@dataclass(frozen=True)
class Sentence:
    """Lower-case words and numbers in their order, and whether a question mark ends it."""

    words: list[str]
    asked: bool


class Reader:
    """Knows the words of a task and brings back those that were cut short, misspelt or translated."""

    def __init__(self, plan: NotesPlan):
        text = plan.scenario["text"]
        weighty = [*text["praise"], *text["blame"], *(word for words in text["themes"].values() for word in words)]
        meanings = [entry["meaning"] for entry in plan.scenario["numbers"]]
        other = _letters([*wordings(), *text["subjects"], *text["events"], *text["filler"], *meanings, "about"])
        # What matters most comes first: it wins where two words are equally near.
        words = list(dict.fromkeys([*weighty, *CUES, *other]))
        self.known: dict[str, str] = {word: word for word in words}
        self.known |= {_letters([each])[-1]: word for word, *others in FOREIGN for each in others}
        self.near: dict[str, str] = {}
        for word in self.known:
            for key in _neighbours(word):
                self.near.setdefault(key, word)
        self.begun: dict[str, str] = {}
        for word in words:
            for end in range(SHORTEST, len(word)):
                self.begun.setdefault(word[:end], word)

    def sentences(self, note: str) -> list[Sentence]:
        """The sentences that are the writer's own; a shortened word's point ends one only where a capital follows."""
        text = html.unescape(re.sub(r"</?p>", " ", note).replace("<b>", "").replace("</b>", ""))
        tokens = TOKENS.findall(re.sub(r'"[^"]*"', "", FORM.sub(r"\1", text)))
        sentences: list[Sentence] = []
        words: list[str] = []
        for at, token in enumerate(tokens):
            if token in ";,:":
                continue
            if token not in ".!?":
                words.append(
                    token if token[-1].isdecimal() else self._word(token.lower(), tokens[at + 1 : at + 2] == ["."])
                )
            elif token != "." or not self._goes_on(tokens, at):
                sentences += [Sentence(words, token == "?")] if words else []
                words = []
        return [*sentences, Sentence(words, False)] if words else sentences

    def _goes_on(self, tokens: Sequence[str], at: int) -> bool:
        """Whether the point at `at` belongs to a shortened word inside a sentence."""
        last, rest = tokens[at - 1].lower() if at else "", tokens[at + 1 : at + 2]
        return last not in self.known and last in self.begun and bool(rest) and not rest[0][0].isupper()

    def _word(self, word: str, shortened: bool) -> str:
        if word in self.known:
            return self.known[word]
        if shortened and word in self.begun:
            return self.begun[word]
        hit = next((self.near[key] for key in _neighbours(word) if key in self.near), word)
        return self.known.get(hit, hit)


def _letters(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in LETTERS.findall(text.lower())]


def _neighbours(word: str) -> list[str]:
    """The word, and the word without one of its letters: two words that share one of these differ by one slip."""
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word) if len(word) >= SHORTEST else 0))]


def bag_of_words(plan: NotesPlan, notes: Sequence[str]) -> Any:
    """Floats of shape (rows, k): counts of the commonest telling words, of words in lists (praise, blame, doubt,
    assurance, each theme), shares of praise and of doubt, lengths, question marks, the first and the last number."""
    text = plan.scenario["text"]
    lists = [set(words) for words in (text["praise"], text["blame"], DOUBTING, ASSURING, *text["themes"].values())]
    idle = set(_letters(wordings())) - set(CUES)
    bags = [Counter(re.findall(r"[^\W\d_]+", note.lower())) for note in notes]
    often = Counter(word for bag in bags for word in bag if len(word) > 3 and word not in idle)
    # A word that nearly every note holds tells nothing.
    useful = [word for word, count in often.items() if count <= 0.9 * len(notes)]
    words = sorted(useful, key=lambda word: (-often[word], word))[:COMMON]
    rows = []
    for note, bag in zip(notes, bags, strict=True):
        counts = [bag[word] for word in words] + [0] * (COMMON - len(words))
        sums = [sum(count for word, count in bag.items() if word in known) for known in lists]
        shares = [(one + 1) / (one + other + 2) for one, other in (sums[0:2], sums[2:4])]
        numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", note)] or [0.0]
        rows.append([*counts, *sums, *shares, len(note.split()), len(note), note.count("?"), numbers[0], numbers[-1]])
    return np.round(np.array(rows, dtype=float), 6)


def read_notes(plan: NotesPlan, notes: Sequence[str]) -> dict[str, Any]:
    """Of each factor what the notes tell: places of shape (rows,), or codes; the middle where nothing is found."""
    reader = Reader(plan)
    read = [reader.sentences(note) for note in notes]
    measured = {}
    for name, factor in plan.factors.items():
        values = np.array([_reading(plan, factor)(note) for note in read])
        measured[name] = values if isinstance(factor, Category) else np.round(values.astype(float), 6)
    return measured


Note = list[Sentence]


def _reading(plan: NotesPlan, factor: Number | Category) -> Callable[[Note], float]:
    text, (one, other) = plan.scenario["text"], plan.rivals
    readings: dict[str, Callable[[Note], float]] = {
        ORDER: lambda note: _order(plan, note),
        TROUBLE: lambda note: _trouble(plan, note),
        PRAISE: lambda note: _praise(text["praise"], text["blame"], note),
        HEDGES: lambda note: _share(DOUBTING, ASSURING, note),
        GRADE: lambda note: _level(GRADES, (), note),
        URGENCY: lambda note: _level(HASTE, ASKS, note),
        rivals_name(one, other): lambda note: _share(text["themes"][one], text["themes"][other], note),
    }
    return readings.get(factor.name, lambda note: _number(plan, factor, note))


def _share(one: Collection[str], other: Collection[str], note: Note) -> float:
    words = [word for sentence in note for word in sentence.words]
    first, second = sum(word in one for word in words), sum(word in other for word in words)
    return first / (first + second) if first + second else 0.5


def _praise(praise: Collection[str], blame: Collection[str], note: Note) -> float:
    votes = [
        (word in praise) == set(DENIALS).isdisjoint(sentence.words[max(0, at - REACH) : at])
        for sentence in note
        for at, word in enumerate(sentence.words)
        if word in praise or word in blame
    ]
    return sum(votes) / len(votes) if votes else 0.5


def _level(levels: Sequence[Collection[str]], beside: Collection[str], note: Note) -> float:
    """The level that a word tells, in a sentence that holds one of the words `beside`, if there are any."""
    hits = [
        at / (len(levels) - 1)
        for sentence in note
        if not beside or not set(beside).isdisjoint(sentence.words)
        for at, words in enumerate(levels)
        if not set(words).isdisjoint(sentence.words)
    ]
    return hits[0] if hits else 0.5


def _number(plan: NotesPlan, factor: Any, note: Note) -> float:
    """The number that no word calls an old one, in the sentence that names what it is."""
    own = set(_letters([plan.number["meaning"]])) - ARTICLES
    best, value = 0.0, None
    for words in (sentence.words for sentence in note):
        share = len(own & set(words)) / len(own)
        at = [each for each, word in enumerate(words) if word[-1].isdecimal() and ":" not in word]
        if not at or share <= max(best, 0.4):
            continue
        named = {each for each, word in enumerate(words) if word in own}
        fresh = [each for each in at if set(OLD).isdisjoint(_since(words, each, at, named))]
        best, value = share, float(words[(fresh or at)[0]].replace(",", "."))
    return 0.5 if value is None else min(1.0, max(0.0, (value - factor.low) / (factor.high - factor.low)))


def _since(words: Sequence[str], at: int, numbers: Sequence[int], named: Collection[int]) -> list[str]:
    """The words before a number, back to another number, that are not the name of what is measured."""
    start = max((each + 1 for each in numbers if each < at), default=0)
    return [words[each] for each in range(start, at) if each not in named]


def _own_words(phrases: Sequence[str]) -> list[frozenset[str]]:
    """Of each phrase the words that no other one has."""
    words = [[word for word in LETTERS.findall(phrase.lower()) if word not in ARTICLES] for phrase in phrases]
    often = Counter(word for each in words for word in set(each))
    return [frozenset(word for word in each if often[word] == 1) or frozenset(each) for each in words]


def _order(plan: NotesPlan, note: Note) -> int:
    """0 or 1: the first or the second event came first; 2: one of them is missing."""
    told = [word for sentence in note for word in (*sentence.words, ".")]
    one, other = (_span(told, words) for words in _own_words([*plan.events, *plan.other_events])[:2])
    if one is None or other is None:
        return 2
    (begin, end), (start, _) = sorted([one, other])
    if start - end > FAR:
        return 2
    first = int(other < one)
    sentence = max((at for at in range(begin) if told[at] == "."), default=-1) + 1
    # "A, but before that B" and "Before A, B": B came first.
    between, head = told[end:start], told[sentence:begin]
    return 1 - first if not set(TURNED).isdisjoint(between) or {"before"} & set(head) else first


def _span(told: Sequence[str], words: frozenset[str]) -> tuple[int, int] | None:
    """Where most of an event's own words stand together: first and last place; None where half of them are missing."""
    places = [at for at, word in enumerate(told) if word in words]
    best: tuple[int, int] | None = None
    most = 0.5 * len(words)
    for start in places:
        near = [at for at in places if start <= at < start + 8 and "." not in told[start:at]]
        cued = not set(ORDER_CUES).isdisjoint(told[max(0, start - FAR) : near[-1] + FAR])
        if cued and len({told[at] for at in near}) > most - (best is None) * 1e-9:
            best, most = (near[0], near[-1]), len({told[at] for at in near})
    return best


def _trouble(plan: NotesPlan, note: Note) -> int:
    own = _own_words(plan.suspects)
    for words in (sentence.words for sentence in note):
        places = [[at for at, word in enumerate(words) if word in mine] for mine in own]
        named = sorted((at[0], which) for which, at in enumerate(places) if at)
        if {"most", "least"}.isdisjoint(words) or not named:
            continue
        # "the most from X" or "X took the most": either way X is the one that comes first where `most` comes first.
        turned = "most" not in words or ("least" in words and words.index("least") < words.index("most"))
        return named[-1 if turned else 0][1]
    return 0
