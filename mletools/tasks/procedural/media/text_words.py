"""A spoiled note is made readable again: tags, forms and quotations go, words become ones that are known.

Not covered: what a note means (text_features).
"""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import text_notes
from .text_damage import END_OF_FORM, FOREIGN
from .text_plan import LETTERS, NotesPlan

TOKENS = re.compile(rf"{LETTERS.pattern}|-?\d+(?:[.,]\d+)?(?![^\s.,:;])|[.!?;,:]")
FORM = re.compile(rf".*Remarks:(.*){END_OF_FORM}.*", re.DOTALL)
LINKING = "an older note says the page before read crossed out was about d"
SHORTEST = 4


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
        told = [
            *text["subjects"],
            *text["events"],
            *text["filler"],
            *(each["meaning"] for each in plan.scenario["numbers"]),
        ]
        # What matters most comes first: it wins where two words are equally near.
        words = [*weighty, *text_notes.DOUBTING, *text_notes.ASSURING, *_letters(wordings()), *_letters(told)]
        self.known = {word: word for word in words}
        for language in FOREIGN:
            self.known.update({_letters([other])[-1]: word for word, other in language.items()})
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
        text = re.sub(r'"[^"]*"', "", FORM.sub(r"\1", text))
        tokens = TOKENS.findall(text)
        found, words = [], []
        for at, token in enumerate(tokens):
            if token in ";,:":
                continue
            if token not in ".!?":
                shortened = tokens[at + 1 : at + 2] == ["."]
                words.append(token if is_number(token) else self._word(token.lower(), shortened))
                continue
            if token == "." and self._goes_on(tokens, at):
                continue
            if words:
                found.append(Sentence(words, token == "?"))
            words = []
        return [*found, Sentence(words, False)] if words else found

    def _goes_on(self, tokens: Sequence[str], at: int) -> bool:
        """Whether the point at `at` belongs to a shortened word inside a sentence."""
        last, rest = tokens[at - 1].lower() if at else "", tokens[at + 1 : at + 2]
        return last not in self.known and last in self.begun and bool(rest) and not rest[0][0].isupper()

    def _word(self, word: str, shortened: bool) -> str:
        if word in self.known:
            return str(self.known[word])
        if shortened and word in self.begun:
            return str(self.begun[word])
        hit = next((self.near[key] for key in _neighbours(word) if key in self.near), word)
        return str(self.known.get(hit, hit))


def is_number(word: str) -> bool:
    return word[-1].isdecimal()


def wordings() -> list[str]:
    """The patterns of all sentences that are not the scenario's own."""
    asking = [each for pair in text_notes.ASKING for each in pair]
    patterns = (text_notes.AFFIRMED, text_notes.DENIED, text_notes.LISTS, text_notes.ORDERS, text_notes.TROUBLES)
    return [each for group in (*patterns, text_notes.NUMBERS, text_notes.EMPTY, asking) for each in group] + [LINKING]


def _letters(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in LETTERS.findall(text.lower())]


def _neighbours(word: str) -> list[str]:
    """The word, and the word without one of its letters: two words that share one of these differ by one slip."""
    if len(word) < SHORTEST:
        return [word]
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]
