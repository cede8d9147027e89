"""What spoils a written note: slips of the pen, forms, web pages, other languages, quotations.

Each step takes a note as a list of sentences and its strength, and gives the spoiled list. Not covered: reading a
spoiled note (text_words).
"""

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from .text_notes import statement
from .text_plan import LETTERS, NotesPlan

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?![^\s.,])")
# Signs that a web page has to write in another way.
MARKED = '&<>"'
SHORT = 5
LONG = 8
END_OF_FORM = "End of remarks."
# Small words in German and in French; what they stand for differs enough that a reader can turn them back.
FOREIGN = (
    {
        "the": "das",
        "and": "und",
        "but": "aber",
        "not": "nicht",
        "never": "niemals",
        "hardly": "kaum",
        "looked": "wirkte",
        "remained": "blieb",
        "stayed": "verharrte",
        "very": "sehr",
        "first": "zuerst",
        "later": "später",
        "before": "bevor",
        "after": "nachdem",
        "then": "danach",
        "only": "erst",
        "perhaps": "vielleicht",
        "probably": "wahrscheinlich",
        "possibly": "möglicherweise",
        "certainly": "bestimmt",
        "surely": "sicherlich",
        "obviously": "offensichtlich",
        "now": "jetzt",
    },
    {
        "the": "le",
        "and": "et",
        "but": "mais",
        "not": "pas",
        "never": "jamais",
        "hardly": "guère",
        "looked": "semblait",
        "remained": "restait",
        "stayed": "demeurait",
        "very": "très",
        "first": "d'abord",
        "later": "ensuite",
        "before": "avant",
        "after": "après",
        "then": "puis",
        "only": "seulement",
        "perhaps": "peut-être",
        "probably": "probablement",
        "possibly": "éventuellement",
        "certainly": "certainement",
        "surely": "sûrement",
        "obviously": "évidemment",
        "now": "maintenant",
    },
)
Note = list[str]
Step = Callable[[NotesPlan, Note, float, Any], Note]


def spoil(plan: NotesPlan, notes: list[Note], mutations: Mapping[str, float], rng: Any) -> list[Note]:
    """The notes after all `mutations` (name: strength between 0 and 1), which always come in the same order."""
    for name, step in STEPS.items():
        if name in mutations:
            notes = [step(plan, note, mutations[name], rng) for note in notes]
    return notes


def _by_word(note: Note, change: Callable[[str], str]) -> Note:
    return [LETTERS.sub(lambda found: change(found.group()), sentence) for sentence in note]


def _quoted(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    """One to three sentences of an older note, anywhere."""
    note = list(note)
    for _ in range(int(rng.uniform() < 0.5 + 0.5 * strength) + int(rng.randint(1 + round(2 * strength)))):
        clauses = [statement(plan, bool(rng.randint(2)), "", rng) for _ in range(1 + int(rng.randint(2)))]
        opening = ("An older note says", "The page before read", "Crossed out was")[rng.randint(3)]
        note.insert(int(rng.randint(len(note) + 1)), f'{opening} "{"; ".join(clauses)}".')
    return note


def _numbers(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    unit = plan.number["unit"]

    def change(found: re.Match[str]) -> str:
        kind = rng.uniform() / strength
        text = found.group()
        if kind < 0.3:
            return text.replace(".", ",")
        if kind < 0.6:
            return f"about {float(text):.0f}" if "." in text else f"about {round(int(text), -1)}"
        return text

    spoiled = [NUMBER.sub(change, sentence) for sentence in note]
    if unit and rng.uniform() < 0.5 * strength:
        spoiled = [sentence.replace(f" {unit}", "") for sentence in spoiled]
    return spoiled


def _languages(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    if rng.uniform() > 0.2 + 0.5 * strength:
        return note
    words = FOREIGN[rng.randint(len(FOREIGN))]

    def change(word: str) -> str:
        other = words.get(word.lower())
        if other is None or rng.uniform() > 0.8:
            return word
        return other if word[0].islower() else other[0].upper() + other[1:]

    return _by_word(note, change)


def _dropped(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    share = 0.03 + 0.09 * strength
    kept = [
        " ".join(word for word in sentence.split() if not LETTERS.fullmatch(word) or rng.uniform() > share)
        for sentence in note
    ]
    return [sentence for sentence in kept if sentence]


def _typos(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    share = 0.05 + 0.2 * strength

    def change(word: str) -> str:
        if len(word) < SHORT or rng.uniform() > share:
            return word
        at, kind = 1 + int(rng.randint(len(word) - 2)), int(rng.randint(3))
        if kind == 0:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + (word[at + 1 :] if kind == 1 else word[at] + word[at:])

    return _by_word(note, change)


def _abbreviated(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    share = 0.1 + 0.25 * strength

    def change(word: str) -> str:
        return word if len(word) < LONG or rng.uniform() > share else f"{word[: 4 + rng.randint(2)]}."

    # A point that follows the shortened word at the end of a sentence is its own point.
    return [re.sub(r"\.\.$", ".", sentence) for sentence in _by_word(note, change)]


def _capitals(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    if rng.uniform() > 0.2 + 0.6 * strength:
        return note
    kind = int(rng.randint(3))
    if kind == 2:
        return _by_word(note, lambda word: word.upper() if rng.uniform() < 0.2 else word)
    return [sentence.upper() if kind else sentence.lower() for sentence in note]


def _form(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    """A printed head and foot that hold the words which count elsewhere, some of them crossed."""
    if rng.uniform() > 0.3 + 0.5 * strength:
        return note
    topics = [plan.themes[theme][rng.randint(len(plan.themes[theme]))] for theme in sorted(plan.themes)]
    ticks = [words[rng.randint(len(words))] for words in (plan.praise, plan.blame, plan.praise, plan.blame)]
    boxes = " ".join(f"[{' x'[rng.randint(2)]}] {word}" for word in ticks)
    head = f"Form {rng.randint(10, 100)}, sheet {rng.randint(1, 9)}: {boxes} | Topics: {' / '.join(topics)} | Remarks:"
    foot = f"{END_OF_FORM} To be kept for {rng.randint(2, 10)} years."
    return [head, *note, foot]


def _markup(plan: NotesPlan, note: Note, strength: float, rng: Any) -> Note:
    if rng.uniform() > 0.3 + 0.6 * strength:
        return note

    def dress(found: re.Match[str]) -> str:
        word = found.group()
        if word in MARKED:
            return html.escape(word)
        kind = rng.uniform() / (0.1 + 0.2 * strength)
        if kind < 0.4:
            return f"<b>{word}</b>"
        if kind < 0.8:
            at = int(rng.randint(len(word)))
            return f"{word[:at]}&#{ord(word[at])};{word[at + 1 :]}"
        return f"&nbsp;{word}" if kind < 1 else word

    return [f"<p>{re.sub(f'{LETTERS.pattern}|[{MARKED}]', dress, sentence)}</p>" for sentence in note]


STEPS: dict[str, Step] = {
    "quoted_notes": _quoted,
    "mixed_numbers": _numbers,
    "mixed_languages": _languages,
    "dropped_words": _dropped,
    "typos": _typos,
    "abbreviations": _abbreviated,
    "letter_case": _capitals,
    "boilerplate": _form,
    "html_markup": _markup,
}
