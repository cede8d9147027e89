"""How a note is worded: the sentences that show its facts, in a drawn order, filled up with sentences that say nothing.

Wordings of one fact are equally long, and filler makes the lengths of all notes alike, so that length tells nothing.
Not covered: what spoils a note afterwards (text_damage).
"""

from collections.abc import Sequence
from typing import Any

from ...table import fixed
from .text_plan import (
    ASKED,
    HEDGES,
    MARKERS,
    MENTIONS,
    ORDER,
    PRAISE,
    QUESTIONS,
    STATEMENTS,
    TROUBLE,
    NotesPlan,
    number_name,
    placed_name,
    rivals_name,
)

DOUBTING = ("perhaps", "probably", "possibly", "apparently", "presumably", "allegedly")
ASSURING = ("certainly", "definitely", "surely", "undoubtedly", "obviously", "plainly")
# A statement: subject, marker with a blank after it (or ""), adjective. Verbs suit one subject and several.
AFFIRMED = (
    "{subject} {marker}looked {word}",
    "{subject} {marker}remained {word}",
    "{subject} {marker}turned out {word}",
    "{subject} {marker}stayed {word}",
)
DENIED = (
    "{subject} {marker}did not look {word}",
    "{subject} {marker}never looked {word}",
    "{subject} {marker}looked anything but {word}",
    "{subject} {marker}remained far from {word}",
    "{subject} {marker}did not stay {word}",
    "{subject} {marker}hardly stayed {word}",
)
LISTS = (
    "Topics were {}.",
    "Also noted: {}.",
    "Something was said about {}.",
    "Keywords for the file: {}.",
    "Up came {}.",
)
# {0} is what happened first.
ORDERS = (
    "First {0}. Later {1}.",
    "After {0}, {1}.",
    "It began when {0}, and then {1}.",
    "{1}, but before that {0}.",
    "{1} only after {0}.",
    "Before {1}, {0}.",
)
TROUBLES = (
    "The most trouble came from {0}, the least from {1}.",
    "The least trouble came from {1}, the most from {0}.",
    "Of all parts {0} took the most time, {1} the least.",
    "Of all parts {1} took the least time, {0} the most.",
)
# {0} counts, {1} is the value of the day before.
NUMBERS = (
    "Entered as {name}: {0}, the day before {1}.",
    "Day before, {name}: {1}, now {0}.",
    "Now {0} as {name}, last time {1}.",
    "Noted as {name}: {0}, compared with {1} last time.",
    "Last time {1} as {name}, now {0}.",
)
# The same words as a question and as a statement.
ASKING = (
    ("Should someone see to {}?", "Someone should see to {}."),
    ("Can {} wait until spring?", "{} can wait until spring."),
    ("Will anybody check {} soon?", "Anybody will check {} soon."),
    ("May visitors touch {} again?", "Visitors may touch {} again."),
    ("Must {} be shown separately?", "{} must be shown separately."),
)
EMPTY = (
    "Nothing else was added.",
    "There was no time for more.",
    "Nobody asked for more.",
    "It was not read a second time.",
    "The page ends here.",
    "The usual wording was used.",
    "This took hardly a minute.",
)
# Filler brings a note to the length that this share of the notes do not need, and some words on.
USUAL, SPARE_WORDS = 0.8, 10
# Words of a list that holds one word, on average.
REPEATED = 4


def write_notes(plan: NotesPlan, rng: Any) -> list[list[str]]:
    """One note a sample, as a list of sentences (two of them in one string where they belong together)."""
    bodies = [_body(plan, row, rng) for row in range(plan.rows)]
    usual = sorted(_words(body) for body in bodies)[int(USUAL * plan.rows)]
    return [_arranged(plan, row, body, usual + int(rng.randint(SPARE_WORDS)), rng) for row, body in enumerate(bodies)]


def _arranged(plan: NotesPlan, row: int, body: list[str], target: int, rng: Any) -> list[str]:
    """The body, filled up to `target` words and mixed, with the words of the placed theme where they belong."""
    place = _place(plan, placed_name(plan.placed), row, rng)
    # A theme that comes up early tends to come up again.
    again = rng.uniform() > place
    target -= REPEATED * int(again)
    pool = [*plan.scenario["text"]["filler"], *EMPTY]
    for at in rng.permutation(len(pool)):
        if _words(body) >= target:
            break
        body = [*body, pool[at]]
    mixed = [body[at] for at in rng.permutation(len(body))]
    mixed = [f"{each[:-1]}!" if each.endswith(".") and rng.uniform() < 0.06 else each for each in mixed]
    first = round(place * len(mixed))
    if again:
        mixed.insert(first + int(rng.randint(len(mixed) + 1 - first)), _placed(plan, rng))
    mixed.insert(first, _placed(plan, rng))
    return mixed


def _placed(plan: NotesPlan, rng: Any) -> str:
    return _listed([_pick(plan.themes[plan.placed], rng)], rng)


def _words(sentences: Sequence[str]) -> int:
    return sum(len(each.split()) for each in sentences)


def _place(plan: NotesPlan, name: str, row: int, rng: Any) -> float:
    """The place of a factor in this note; a drawn one where the task has no such factor."""
    place = float(rng.uniform())
    return float(plan.shown[name][row]) if name in plan.factors else place


def _body(plan: NotesPlan, row: int, rng: Any) -> list[str]:
    """The sentences of the facts, but for the theme that has a place of its own."""
    found = [*_statements(plan, row, rng), _number(plan, row, rng)]
    if rivals_name(*plan.rivals) in plan.factors:
        found += _mentions(plan, row, rng)
    if QUESTIONS in plan.factors:
        found += _questions(plan, row, rng)
    if ORDER in plan.factors:
        found.append(_order(plan, plan.shown[ORDER][row], rng))
    if TROUBLE in plan.factors:
        guilty = plan.suspects[plan.shown[TROUBLE][row]]
        rest = [each for each in plan.suspects if each != guilty]
        found.append(_sentence(_pick(TROUBLES, rng).format(guilty, _pick(rest, rng))))
    return found


def statement(plan: NotesPlan, good: bool, marker: str, rng: Any) -> str:
    """A clause that speaks well or ill of a subject, directly or by denying the opposite."""
    denied = rng.uniform() < plan.negated
    word = _pick(plan.praise if good != denied else plan.blame, rng)
    pattern = _pick(DENIED if denied else AFFIRMED, rng)
    return str(pattern.format(subject=_pick(plan.subjects, rng), marker=f"{marker} " if marker else "", word=word))


def _statements(plan: NotesPlan, row: int, rng: Any) -> list[str]:
    praised = _spread(_place(plan, PRAISE, row, rng), STATEMENTS, rng)
    markers = [""] * STATEMENTS
    if HEDGES in plan.factors:
        doubts = _spread(float(plan.shown[HEDGES][row]), MARKERS, rng)
        markers = [_pick(DOUBTING if doubt else ASSURING, rng) for doubt in doubts]
    clauses = [statement(plan, good, marker, rng) for good, marker in zip(praised, markers, strict=True)]
    # Two pairs in a sentence each, or one, or none.
    pairs = int(rng.randint(3))
    joints = (", and ", ", but ", "; ")
    joined = [clauses[2 * at] + _pick(joints, rng) + clauses[2 * at + 1] for at in range(pairs)]
    return [_sentence(f"{each}.") for each in (*joined, *clauses[2 * pairs :])]


def _spread(place: float, slots: int, rng: Any) -> list[bool]:
    """So many of the slots set as the place says, in a drawn order."""
    count = round(place * slots)
    return [bool(at < count) for at in rng.permutation(slots)]


def _mentions(plan: NotesPlan, row: int, rng: Any) -> list[str]:
    """Words of the two rival themes, in one to three lists."""
    sides = _spread(_place(plan, rivals_name(*plan.rivals), row, rng), MENTIONS, rng)
    words = [_pick(plan.themes[plan.rivals[0 if first else 1]], rng) for first in sides]
    cuts = sorted(int(at) for at in rng.permutation(MENTIONS - 1)[: int(rng.randint(3))] + 1)
    starts = [0, *cuts]
    return [_listed(words[start:end], rng) for start, end in zip(starts, [*cuts, MENTIONS], strict=True)]


def _listed(words: Sequence[str], rng: Any) -> str:
    return str(_pick(LISTS, rng).format(", ".join(words)))


def _questions(plan: NotesPlan, row: int, rng: Any) -> list[str]:
    asked = _spread(_place(plan, QUESTIONS, row, rng), ASKED, rng)
    return [_sentence(_pick(ASKING, rng)[0 if question else 1].format(_pick(plan.subjects, rng))) for question in asked]


def _order(plan: NotesPlan, code: int, rng: Any) -> str:
    first, second = plan.events if code == 0 else plan.events[::-1]
    if code == 2:
        both = [_pick(plan.events, rng), _pick(plan.other_events, rng)]
        first, second = both[:: 1 if rng.randint(2) else -1]
    text = _pick(ORDERS, rng).format(first, second)
    return _sentence(text)


def _number(plan: NotesPlan, row: int, rng: Any) -> str:
    entry = plan.number
    places = _place(plan, number_name(entry), row, rng), float(rng.uniform())
    given = [
        f"{fixed(entry['low'] + place * (entry['high'] - entry['low']), entry['decimals'])} {entry['unit']}".rstrip()
        for place in places
    ]
    return str(_pick(NUMBERS, rng).format(*given, name=entry["meaning"]))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _pick(items: Sequence[Any], rng: Any) -> Any:
    return items[rng.randint(len(items))]
