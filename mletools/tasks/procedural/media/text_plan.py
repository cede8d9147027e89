"""What the notes of one task are about: the factors, and which themes, events, subjects and numbers they refer to.

A factor says in its name what it refers to, so that a rule in words can be followed; `make_plan` finds it there again.
Not covered: wording (text_notes).
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..world import Category, Number

PRAISE, HEDGES, QUESTIONS = "text_praise_share", "text_doubt_share", "text_question_count"
ORDER, TROUBLE = "text_event_order", "text_most_trouble"
# How many places a note has for statements about a subject, markers of doubt, questions, words of two rival themes.
STATEMENTS, MARKERS, ASKED, MENTIONS = 4, 4, 3, 4
LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


@dataclass(frozen=True)
class NotesPlan:
    """One task's choices: the factors by name, in `shown` their places or codes of shape (rows,), and lists of words.

    Words of a note are drawn from these lists, which are short so that each word comes often enough.

    `rivals` are the two themes whose shares count, `placed` the theme whose first word has a place, `events` the two
    whose order counts, `suspects` the subjects of which one gives trouble, `subjects` others;
       `negated` is the share of statements that are put by negating their opposite.
    """

    scenario: Mapping[str, Any]
    factors: dict[str, Number | Category]
    shown: dict[str, Any]
    rows: int
    rivals: tuple[str, str]
    placed: str
    themes: dict[str, list[str]]
    events: tuple[str, str]
    other_events: list[str]
    suspects: list[str]
    subjects: list[str]
    praise: list[str]
    blame: list[str]
    number: Mapping[str, Any]
    negated: float


def rivals_name(one: str, other: str) -> str:
    return f"text_{one}_over_{other}"


def placed_name(theme: str) -> str:
    return f"text_first_{theme}_word"


def number_name(entry: Mapping[str, Any]) -> str:
    return f"text_{entry['name']}"


def order_levels(one: str, other: str) -> list[str]:
    return [f"{one} before {other}", f"{other} before {one}", f"only one of {one} and {other}"]


def draw_factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six of them: one or two categories of two, the others numbers of six that are known."""
    text = scenario["text"]
    one, other, placed = _shuffled(list(text["themes"]), rng)[:3]
    entry = _pick(_readable(scenario), rng)
    numbers = [
        Number(PRAISE, "% of statements", 0, 100, 0, _place(rows, rng)),
        Number(HEDGES, "% of statements", 0, 100, 0, _place(rows, rng)),
        Number(QUESTIONS, "questions", 0, ASKED, 1, _place(rows, rng)),
        Number(rivals_name(one, other), "% of the words of both", 0, 100, 0, _place(rows, rng)),
        Number(placed_name(placed), "% of the note", 0, 100, 0, _place(rows, rng)),
        _number(entry, rows, rng),
    ]
    events, suspects = _shuffled(text["events"], rng)[:2], _shuffled(text["subjects"], rng)[:3]
    categories = [
        Category(ORDER, order_levels(*events), rng.randint(3, size=rows)),
        Category(TROUBLE, suspects, rng.randint(3, size=rows)),
    ]
    count = 1 + int(rng.randint(2))
    found: list[Number | Category] = [*_shuffled(numbers, rng)[: 5 + int(rng.randint(2)) - count]]
    return found + _shuffled(categories, rng)[:count]


def _place(rows: int, rng: Any) -> Any:
    import numpy as np

    place = rng.uniform(size=rows) if rng.randint(2) else np.clip(rng.normal(0.5, 0.25, size=rows), 0, 1)
    return np.round(place, 6)


def _number(entry: Mapping[str, Any], rows: int, rng: Any) -> Number:
    """The rule sees the number as the note gives it, rounded."""
    import numpy as np

    low, high, decimals = entry["low"], entry["high"], entry["decimals"]
    place = np.round((np.round(low + _place(rows, rng) * (high - low), decimals) - low) / (high - low), 9)
    return Number(number_name(entry), entry["unit"], low, high, decimals, place)


def _readable(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The numbers whose meaning holds no digit and no word that counts elsewhere; all of them where there is none."""
    weighty = {word for words in scenario["text"]["themes"].values() for word in words}
    weighty |= {*scenario["text"]["praise"], *scenario["text"]["blame"]}
    found = [
        entry
        for entry in scenario["numbers"]
        if not re.search(r"\d", entry["meaning"]) and not weighty & set(LETTERS.findall(entry["meaning"].lower()))
    ]
    return found or list(scenario["numbers"])


def make_plan(scenario: Mapping[str, Any], factors: Sequence[Number | Category], rng: Any) -> NotesPlan:
    """What the factors name, and drawn values for the rest."""
    text, by_name = scenario["text"], {factor.name: factor for factor in factors}
    themes = _shuffled(list(text["themes"]), rng)
    rivals = next((pair for pair in itertools.permutations(themes, 2) if rivals_name(*pair) in by_name), None)
    placed = next((theme for theme in themes if placed_name(theme) in by_name), None)
    free = [theme for theme in themes if theme != placed]
    rivals = rivals or (free[0], free[1])
    placed = placed or next(theme for theme in themes if theme not in rivals)
    order, trouble = by_name.get(ORDER), by_name.get(TROUBLE)
    events = _shuffled(text["events"], rng)
    pairs = itertools.permutations(events, 2)
    levels = order.levels if isinstance(order, Category) else order_levels(*events[:2])
    pair = next(pair for pair in pairs if order_levels(*pair) == levels)
    subjects = _shuffled(text["subjects"], rng)
    suspects = list(trouble.levels) if isinstance(trouble, Category) else subjects[:3]
    known = next((entry for entry in scenario["numbers"] if number_name(entry) in by_name), None)
    return NotesPlan(
        scenario=scenario,
        factors=by_name,
        shown={each.name: each.place if isinstance(each, Number) else each.code for each in factors},
        rows=len(factors[0].place if isinstance(factors[0], Number) else factors[0].code),
        rivals=rivals,
        placed=placed,
        themes={theme: _shuffled(words, rng)[:4] for theme, words in text["themes"].items()},
        events=pair,
        other_events=[event for event in events if event not in pair],
        suspects=suspects,
        subjects=[subject for subject in subjects if subject not in suspects][:5],
        praise=_shuffled(text["praise"], rng)[:4],
        blame=_shuffled(text["blame"], rng)[:4],
        number=known or _pick(_readable(scenario), rng),
        negated=round(float(rng.uniform(0.15, 0.3)), 2),
    )


def _shuffled(items: Sequence[Any], rng: Any) -> list[Any]:
    return [items[at] for at in rng.permutation(len(items))]


def _pick(items: Sequence[Any], rng: Any) -> Any:
    return items[rng.randint(len(items))]
