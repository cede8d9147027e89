"""Written notes: what they say well or ill of, how grave and how urgent it is, what came first, how sure the writer is.

A note is worded by a grammar in the register of its writer, is of a length of its own, and holds sentences that say
nothing. The notes stand in a column of train.csv or in files. Words that a task draws from the scenario's lists are few,
so that each comes often enough. Not covered: wordings (text_grammar), a target a word.
"""

import html
import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...dataset import Asset
from ...table import Column, fixed
from ..arrays import Array, Rng
from ..scenario import Measured, Scenario
from ..world import Category, DrawDense, Factor, Number, Rendered
from .common import apply_steps, draw_places, pick, row_count, shuffled
from .text_grammar import (
    ASKS,
    ASSURING,
    CUES,
    DENIALS,
    DOUBTING,
    GRADES,
    HASTE,
    OLD,
    ORDER_CUES,
    REGISTERS,
    TURNED,
    WHEN,
    expand,
    wordings,
)

MUTATIONS = {
    "typos": "letters of some words are swapped, missing or doubled",
    "dropped_words": "some words are missing",
    "letter_case": "some notes are written in capitals, without capitals, or with capitals at random",
    "boilerplate": "some notes stand in a printed form, whose words mean nothing",
    "abbreviations": "some long words are cut short and end in a point",
    "html_markup": "some notes carry tags and entities of a web page",
    "mixed_languages": "in some notes the small words are German or French",
    "mixed_numbers": "some numbers have a decimal comma or no unit, or are rounded",
    "quoted_notes": "some notes quote an older note, which does not count",
}
DENSE: dict[str, DrawDense] = {}
LINE = 76
MEANING = "the note, as it was written down"
PRAISE, HEDGES, GRADE, URGENCY = "text_praise_share", "text_doubt_share", "text_gravity", "text_urgency"
ORDER, TROUBLE = "text_event_order", "text_most_trouble"
# A note's statements about a subject, each with a word of doubt or assurance; its words of the two rival themes.
STATEMENTS, MENTIONS = 4, 5
LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
# Words of filler that a note has beside its facts, from least to most.
FILLER_WORDS = (5, 90)
# Of the writers, the share who make slips in notes that no mutation spoils, and how often.
SLIPS = {"share": 0.3, "rate": 0.02}


@dataclass(frozen=True)
class NotesPlan:
    """One task's choices: the factors by name, and lists of words.

    `rivals` are the two themes whose shares count, `events` the two whose order counts, `suspects` the subjects of which
    one gives most trouble, `subjects` others; `negated` is the share of statements put by denying their opposite.
    """

    scenario: Scenario
    factors: dict[str, Factor]
    rivals: tuple[str, str]
    themes: dict[str, list[str]]
    events: tuple[str, str]
    other_events: list[str]
    suspects: list[str]
    subjects: list[str]
    praise: list[str]
    blame: list[str]
    number: Measured
    negated: float


def rivals_name(one: str, other: str) -> str:
    return f"text_{one}_over_{other}"


def number_name(entry: Measured) -> str:
    return f"text_{entry['name']}"


def order_levels(one: str, other: str) -> list[str]:
    return [f"{one} before {other}", f"{other} before {one}", f"only one of {one} and {other}"]


def factors(scenario: Scenario, rows: int, rng: Rng) -> list[Factor]:
    """Five or six properties of a note, one or two of them categories; what they refer to is in their names."""
    text = scenario["text"]
    one, other = shuffled(list(text["themes"]), rng)[:2]
    entry = pick(_readable(scenario), rng)
    low, high, decimals = entry["low"], entry["high"], entry["decimals"]
    # The rule sees the number as the note gives it, rounded.
    place = ((low + draw_places(rows, rng) * (high - low)).round(decimals) - low) / (high - low)
    numbers = [
        Number(PRAISE, "% of statements", 0, 100, 0, draw_places(rows, rng)),
        Number(HEDGES, "% of statements", 0, 100, 0, draw_places(rows, rng)),
        Number(GRADE, "from negligible to severe", 0, 4, 0, draw_places(rows, rng, 4)),
        Number(URGENCY, "from someday to today", 0, 4, 0, draw_places(rows, rng, 4)),
        Number(rivals_name(one, other), "% of the words of both", 0, 100, 0, draw_places(rows, rng)),
        Number(number_name(entry), entry["unit"], low, high, decimals, place.round(9)),
    ]
    categories = [
        Category(ORDER, order_levels(*shuffled(text["events"], rng)[:2]), rng.randint(3, size=rows)),
        Category(TROUBLE, shuffled(text["subjects"], rng)[:3], rng.randint(3, size=rows)),
    ]
    count = 1 + int(rng.randint(2))
    return [*shuffled(numbers, rng)[: 5 + int(rng.randint(2)) - count], *shuffled(categories, rng)[:count]]


def _readable(scenario: Scenario) -> list[Measured]:
    """The numbers whose meaning holds no digit and no word that counts elsewhere; all of them where there is none."""
    weighty = {word for words in scenario["text"]["themes"].values() for word in words}
    weighty |= {*scenario["text"]["praise"], *scenario["text"]["blame"]}
    entries = [
        entry
        for entry in scenario["numbers"]
        if not re.search(r"\d", entry["meaning"]) and not weighty & set(LETTERS.findall(entry["meaning"].lower()))
    ]
    return entries or list(scenario["numbers"])


def make_plan(scenario: Scenario, factors: Sequence[Factor], rng: Rng) -> NotesPlan:
    """What the factors name, and drawn values for the rest."""
    text, by_name = scenario["text"], {factor.name: factor for factor in factors}
    pairs = list(itertools.permutations(shuffled(list(text["themes"]), rng), 2))
    order, trouble = by_name.get(ORDER), by_name.get(TROUBLE)
    events, subjects = shuffled(text["events"], rng), shuffled(text["subjects"], rng)
    levels = order.levels if isinstance(order, Category) else order_levels(*events[:2])
    pair = next(pair for pair in itertools.permutations(events, 2) if order_levels(*pair) == levels)
    suspects = list(trouble.levels) if isinstance(trouble, Category) else subjects[:3]
    known = next((entry for entry in scenario["numbers"] if number_name(entry) in by_name), None)
    return NotesPlan(
        scenario=scenario,
        factors=by_name,
        rivals=next((pair for pair in pairs if rivals_name(*pair) in by_name), pairs[0]),
        themes={theme: shuffled(words, rng)[:5] for theme, words in text["themes"].items()},
        events=pair,
        other_events=[event for event in events if event not in pair],
        suspects=suspects,
        subjects=[subject for subject in subjects if subject not in suspects],
        praise=shuffled(text["praise"], rng)[:5],
        blame=shuffled(text["blame"], rng)[:5],
        number=known or pick(_readable(scenario), rng),
        negated=round(float(rng.uniform(0.15, 0.3)), 2),
    )


def render(scenario: Scenario, factors: Sequence[Factor], mutations: Mapping[str, float], rng: Rng) -> Rendered:
    """One note a sample, spoiled by `mutations` (name: strength between 0 and 1): a column `text`, or docs/ID.txt."""
    plan = make_plan(scenario, factors, rng)
    notes = []
    for row in range(row_count(factors)):
        note = write_note(plan, row, rng)
        steps = {name: _bound(plan, step) for name, step in STEPS.items()}
        note = apply_steps(steps, note, mutations, rng)
        notes.append(" ".join(note))
    counts, in_files = [len(note.split()) for note in notes], bool(rng.randint(2))
    place = f"is a text file in UTF-8 with lines of at most {LINE} characters" if in_files else "stands on one line"
    pages = [
        f"{textwrap.fill(note, LINE, break_long_words=False, break_on_hyphens=False)}\n".encode() for note in notes
    ]
    return Rendered(
        columns=[] if in_files else [Column("text", MEANING, number=False)],
        cells={} if in_files else {"text": notes},
        assets=[Asset("document", MEANING, "docs", "txt", pages)] if in_files else [],
        plain=bag_of_words(plan, notes),
        measured=read_notes(plan, notes),
        notes=[
            f"Each note {place}; the shortest has {min(counts)} words, the longest {max(counts)}. Several people wrote them."
        ],
    )


def _bound(plan: NotesPlan, step: "Step") -> Callable[[list[str], float, Rng], list[str]]:
    return lambda note, strength, rng: step(plan, note, strength, rng)


def write_note(plan: NotesPlan, row: int, rng: Rng) -> list[str]:
    """The sentences of a note: its facts (two sentences in one string where they belong together) and filler, mixed."""
    register = pick(REGISTERS, rng)
    body = _facts(plan, row, register, rng)
    filler: list[str] = []
    wanted = float(rng.uniform(*FILLER_WORDS))
    while sum(len(each.split()) for each in filler) < wanted:
        own = rng.uniform() < 0.35
        filler.append(pick(plan.scenario["text"]["filler"], rng) if own else expand("idle", register, {}, rng))
    note = shuffled([*body, *dict.fromkeys(filler)], rng)
    note = [f"{each[:-1]}!" if each.endswith(".") and rng.uniform() < 0.05 else each for each in note]
    if rng.uniform() < SLIPS["share"]:
        note = _typos(plan, note, 0, rng)
    if register == "terse" and rng.randint(2):
        note = [sentence[0].lower() + sentence[1:] for sentence in note]
    return note


def _facts(plan: NotesPlan, row: int, register: str, rng: Rng) -> list[str]:
    """The sentences of the facts; a fact that is no factor of the task comes in half of the notes, and is drawn."""

    def place(name: str) -> float | None:
        factor, free = plan.factors.get(name), float(rng.uniform())
        if isinstance(factor, Number):
            return float(factor.place[row])
        return free if rng.randint(2) else None

    def worded(symbol: str, **slots: str | Callable[[], str]) -> str:
        slots = {"subject": lambda: pick(plan.subjects, rng), **slots}
        sentence = expand(symbol, register, slots, rng)
        return sentence[0].upper() + sentence[1:]

    facts = _statements(plan, row, register, rng)
    if (grade := place(GRADE)) is not None:
        facts.append(worded("grade", grade_word=pick(GRADES[round(4 * grade)], rng)))
    if (haste := place(URGENCY)) is not None:
        keyword = pick(HASTE[round(4 * haste)], rng)
        facts.append(worded("haste", when=WHEN.get(keyword, keyword)))
    if (share := place(rivals_name(*plan.rivals))) is not None:
        words = [pick(plan.themes[plan.rivals[0 if first else 1]], rng) for first in _spread(share, MENTIONS, rng)]
        cut = int(rng.randint(1, MENTIONS))
        facts += [worded("mentions", list=", ".join(part)) for part in (words[:cut], words[cut:])]
    entry = plan.number
    if (size := place(number_name(entry))) is not None:
        low, high, unit = entry["low"], entry["high"], entry["unit"]
        now, old = (
            f"{fixed(low + each * (high - low), entry['decimals'])} {unit}".rstrip() for each in (size, rng.uniform())
        )
        facts.append(worded("number", name=entry["meaning"], now=now, old=old))
    order, trouble = plan.factors.get(ORDER), plan.factors.get(TROUBLE)
    if isinstance(order, Category):
        first, second = plan.events if order.code[row] == 0 else plan.events[::-1]
        if order.code[row] == 2:
            first, second = shuffled([pick(plan.events, rng), pick(plan.other_events, rng)], rng)
        facts.append(worded("order", first=first, second=second))
    if isinstance(trouble, Category):
        most = plan.suspects[trouble.code[row]]
        least = pick([each for each in plan.suspects if each != most], rng)
        facts.append(worded("trouble", most=most, least=least))
    return facts


def statement(plan: NotesPlan, good: bool, marker: str, register: str, rng: Rng) -> str:
    """A clause that speaks well or ill of a subject, directly or by denying the opposite."""
    denied = rng.uniform() < plan.negated
    word = pick(plan.praise if good != denied else plan.blame, rng)
    slots = {"subject": pick(plan.subjects, rng), "marker": f"{marker} " if marker else "", "word": word}
    return " ".join(expand("denied" if denied else "fact", register, slots, rng).split())


def _statements(plan: NotesPlan, row: int, register: str, rng: Rng) -> list[str]:
    """Four statements, some of them in pairs."""
    praise, hedges = plan.factors.get(PRAISE), plan.factors.get(HEDGES)
    praised = _spread(praise.place[row] if isinstance(praise, Number) else rng.uniform(), STATEMENTS, rng)
    markers = [""] * STATEMENTS
    if isinstance(hedges, Number):
        doubts = _spread(hedges.place[row], STATEMENTS, rng)
        markers = [pick(DOUBTING if doubt else ASSURING, rng) for doubt in doubts]
    clauses = [statement(plan, good, marker, register, rng) for good, marker in zip(praised, markers, strict=True)]
    sentences = []
    while clauses:
        slots = {"fact": clauses.pop()}
        symbol = "statement"
        if clauses and rng.uniform() < 0.3:
            slots["other"], symbol = clauses.pop(), "pair"
        sentence = expand(symbol, register, slots, rng)
        sentences.append(sentence[0].upper() + sentence[1:])
    return sentences


def _spread(place: float, slots: int, rng: Rng) -> list[bool]:
    """So many of the slots set as the place says, in a drawn order."""
    count = round(place * slots)
    return [bool(at < count) for at in rng.permutation(slots)]


# What spoils a note, a list of sentences.
Step = Callable[[NotesPlan, list[str], float, Rng], list[str]]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?![^\s.,])")
END_OF_FORM = "End of remarks."
# Signs that a web page has to write in another way.
MARKED = '&<>"'
# Small words in English, German and French; what they stand for differs enough that a reader can turn them back.
FOREIGN = [
    line.split("/")
    for line in [
        "the/das/le",
        "and/und/et",
        "but/aber/mais",
        "not/nicht/pas",
        "never/niemals/jamais",
        "hardly/kaum/guère",
        "looked/wirkte/semblait",
        "remained/blieb/restait",
        "stayed/verharrte/demeurait",
        "very/sehr/très",
        "first/zuerst/d'abord",
        "later/später/ensuite",
        "before/bevor/avant",
        "after/nachdem/après",
        "then/danach/puis",
        "only/erst/seulement",
        "perhaps/vielleicht/peut-être",
        "probably/wahrscheinlich/probablement",
        "possibly/möglicherweise/éventuellement",
        "now/jetzt/maintenant",
        "certainly/bestimmt/certainement",
        "surely/sicherlich/sûrement",
        "obviously/offensichtlich/évidemment",
    ]
]


def _by_word(note: Sequence[str], change: Callable[[str], str]) -> list[str]:
    return [LETTERS.sub(lambda match: change(match.group()), sentence) for sentence in note]


def _quoted(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    """One to three sentences of an older note, anywhere."""
    note = list(note)
    for _ in range(int(rng.uniform() < 0.5 + 0.5 * strength) + int(rng.randint(1 + round(2 * strength)))):
        register = pick(REGISTERS, rng)
        clauses = [statement(plan, bool(rng.randint(2)), "", register, rng) for _ in range(1 + int(rng.randint(2)))]
        opening = expand("quotation", register, {}, rng)
        note.insert(int(rng.randint(len(note) + 1)), f'{opening} "{"; ".join(clauses)}".')
    return note


def _numbers(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    def change(match: re.Match[str]) -> str:
        kind, text = rng.uniform() / strength, match.group()
        if kind < 0.3:
            return text.replace(".", ",")
        if kind < 0.6:
            return f"about {float(text):.0f}" if "." in text else f"about {round(int(text), -1)}"
        return text

    unit, spoiled = plan.number["unit"], [NUMBER.sub(change, sentence) for sentence in note]
    if unit and rng.uniform() < 0.5 * strength:
        spoiled = [re.sub(rf"(?<=\d) {re.escape(unit)}(?!\w)", "", sentence) for sentence in spoiled]
    return spoiled


def _languages(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    if rng.uniform() > 0.2 + 0.5 * strength:
        return note
    language = 1 + int(rng.randint(2))
    words = {line[0]: line[language] for line in FOREIGN}

    def change(word: str) -> str:
        other = words.get(word.lower())
        if other is None or rng.uniform() > 0.8:
            return word
        return other if word[0].islower() else other[0].upper() + other[1:]

    return _by_word(note, change)


def _dropped(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    share = 0.03 + 0.09 * strength
    kept = [
        " ".join(word for word in sentence.split() if not LETTERS.fullmatch(word) or rng.uniform() > share)
        for sentence in note
    ]
    return [sentence for sentence in kept if sentence]


def _typos(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    share = SLIPS["rate"] + 0.23 * strength

    def change(word: str) -> str:
        if len(word) < 5 or rng.uniform() > share:
            return word
        at, kind = 1 + int(rng.randint(len(word) - 2)), int(rng.randint(3))
        if kind == 0:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + (word[at + 1 :] if kind == 1 else word[at] + word[at:])

    return _by_word(note, change)


def _abbreviated(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    share = 0.1 + 0.25 * strength

    def change(word: str) -> str:
        return word if len(word) < 8 or rng.uniform() > share else f"{word[: 4 + rng.randint(2)]}."

    # A point that follows the shortened word at the end of a sentence is its own point.
    return [re.sub(r"\.\.$", ".", sentence) for sentence in _by_word(note, change)]


def _capitals(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    if rng.uniform() > 0.2 + 0.6 * strength:
        return note
    kind = int(rng.randint(3))
    if kind == 2:
        return _by_word(note, lambda word: word.upper() if rng.uniform() < 0.2 else word)
    return [sentence.upper() if kind else sentence.lower() for sentence in note]


def _form(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    """A printed head and foot that hold the words which count elsewhere, some of them crossed."""
    if rng.uniform() > 0.3 + 0.5 * strength:
        return note
    topics = " / ".join(pick(plan.themes[theme], rng) for theme in sorted(plan.themes))
    ticks = [pick(words, rng) for words in (plan.praise, plan.blame, plan.praise, plan.blame)]
    boxes = " ".join(f"[{' x'[rng.randint(2)]}] {word}" for word in ticks)
    head = f"Form {rng.randint(10, 100)}, sheet {rng.randint(1, 9)}: {boxes} | Topics: {topics} | Remarks:"
    return [head, *note, f"{END_OF_FORM} To be kept for {rng.randint(2, 10)} years."]


def _markup(plan: NotesPlan, note: list[str], strength: float, rng: Rng) -> list[str]:
    if rng.uniform() > 0.3 + 0.6 * strength:
        return note

    def dress(match: re.Match[str]) -> str:
        word = match.group()
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


# Reading notes: a quick count of words (`bag_of_words`), and the facts behind the words (`read_notes`).
#
# A spoiled note is made readable first: tags, forms and quotations go, words become ones that are known. The reader knows
# the language and the names of the factors, never their values; it finds words that tell something, not wordings.

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


def bag_of_words(plan: NotesPlan, notes: Sequence[str]) -> Array:
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


def read_notes(plan: NotesPlan, notes: Sequence[str]) -> dict[str, Array]:
    """Of each factor what the notes tell: places of shape (rows,), or codes; the middle where nothing is found."""
    reader = Reader(plan)
    read = [reader.sentences(note) for note in notes]
    measured = {}
    for name, factor in plan.factors.items():
        values = np.array([_reading(plan, factor)(note) for note in read])
        measured[name] = values if isinstance(factor, Category) else np.round(values.astype(float), 6)
    return measured


Note = list[Sentence]


def _reading(plan: NotesPlan, factor: Factor) -> Callable[[Note], float]:
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


def _number(plan: NotesPlan, factor: Factor, note: Note) -> float:
    """The number that no word calls an old one, in the sentence that names what it is."""
    assert isinstance(factor, Number)
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
