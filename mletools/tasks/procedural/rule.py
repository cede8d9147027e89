"""The hidden rule of a procedural task: a weighted sum of terms, each a cause that the scenario names for its target.

A scenario writes causes as an expert would name them (see Cause.parse). What is drawn: which of them act, how strongly,
in which shape, and which two act together. Not covered: noise, and the target that the sum is turned into (target).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..table import fixed
from .arrays import Array, Rng
from .scenario import Lean
from .world import Category, Factor, Number

# A term's value from the places or codes of its factors, in the order of its factors: (rows,) each.
Form = Callable[..., Any]
# How often two causes act together, and how often a category without an order of its own decides where a cause acts.
JOINT, ONLY_WHERE = 0.4, 0.5
# What is left of a cause's effect where it does not act.
ELSEWHERE = 0.2
SYNTAX = re.compile(r"(?P<sign>[-+^v]) (?P<name>\w+)(?: where (?P<category>\w+) = (?P<level>.+))?")
ORDER = re.compile(r"(?P<name>\w+): (?P<levels>.+ < .+)")


@dataclass(frozen=True)
class Cause:
    """What moves a target: `sign` is + (more raises it), - (lowers it), ^ (it has its peak within the range), v (its
    lowest point) or < (a category, whose `levels` raise it in this order; a level that is not named lies in the middle).

    With `category`, the effect is full only where that has the level `levels[0]`.
    """

    sign: str
    factor: str
    levels: tuple[str, ...] = ()
    category: str = ""

    @classmethod
    def parse(cls, line: str) -> "Cause":
        """The cause of a scenario's line: "+ NAME", "- NAME where CATEGORY = LEVEL", "^ NAME", "CATEGORY: A < B < C".

        ValueError for anything else.
        """
        if match := SYNTAX.fullmatch(line):
            level = (match["level"],) if match["level"] else ()
            return cls(match["sign"], match["name"], level, match["category"] or "")
        if match := ORDER.fullmatch(line):
            return cls("<", match["name"], tuple(match["levels"].split(" < ")))
        raise ValueError(f"{line!r} is not a cause: write '+ NAME' or 'CATEGORY: A < B'")

    @property
    def monotone(self) -> bool:
        return self.sign in "+-" and not self.category

    @property
    def bent(self) -> bool:
        """Whether a linear model misses the effect."""
        return self.sign in "^v" or bool(self.category)

    def acts_on(self, factors: Mapping[str, Factor]) -> bool:
        """Whether the factors, by name, include those of this cause."""
        return self.factor in factors and (not self.category or self.category in factors)


@dataclass(frozen=True)
class Term:
    """One term: its family, what it says in words, the names of its factors, and its value as a function of these."""

    family: str
    words: str
    factors: list[str]
    form: Form
    weight: float = 1.0
    mean: float = 0.0
    spread: float = 1.0

    def of(self, seen: Mapping[str, Array]) -> Array:
        """The weighted, standardised value of shape (rows,) for places and codes by the factor's name."""
        import numpy as np

        value = np.asarray(self.form(*(seen[name] for name in self.factors)), dtype=float)
        return np.round(self.weight * (value - self.mean) / self.spread, 9)


@dataclass(frozen=True)
class Rule:
    """A sum of terms, scaled to mean 0 and deviation 1 over the rows that it was drawn for."""

    terms: list[Term]
    deviation: float

    def of(self, seen: Mapping[str, Array]) -> Array:
        """The rule's value of shape (rows,) for places and codes by the factor's name."""
        import numpy as np

        return np.round(sum(term.of(seen) for term in self.terms) / self.deviation, 9)

    @property
    def words(self) -> str:
        return " + ".join(f"{term.weight} x [{term.words}]" for term in self.terms)

    @property
    def families(self) -> list[str]:
        return [term.family for term in self.terms]

    @property
    def factors(self) -> list[str]:
        """The names of the factors that matter, each once."""
        return list(dict.fromkeys(name for term in self.terms for name in term.factors))


def shown(factors: Sequence[Factor]) -> dict[str, Array]:
    """The true places and codes by the factor's name."""
    return {each.name: each.place if isinstance(each, Number) else each.code for each in factors}


def compose(causes: Sequence[Cause], factors: Sequence[Factor], rng: Rng) -> Rule:
    """A rule of all these causes: two monotone ones may become one term that needs both.

    ValueError when no term varies over the rows.
    """
    import numpy as np

    by_name = {each.name: each for each in factors}
    seen = shown(factors)
    terms = []
    for each in _paired(causes, rng):
        family, words, names, form = _joint(each, by_name) if isinstance(each, tuple) else _single(each, by_name, rng)
        value = np.asarray(form(*(seen[name] for name in names)), dtype=float)
        spread = float(np.std(value))
        weight = round(float(rng.uniform(0.6, 1.6)), 2)
        if spread > 1e-6:
            terms.append(Term(family, words, names, form, weight, round(float(np.mean(value)), 9), round(spread, 9)))
    deviation = round(float(np.std(sum(term.of(seen) for term in terms))), 9) if terms else 0.0
    if deviation < 1e-6:
        raise ValueError("the rule does not vary over the rows")
    return Rule(terms, deviation)


def _paired(causes: Sequence[Cause], rng: Rng) -> list[Cause | tuple[Cause, Cause]]:
    """The causes, of which two monotone ones may be joined: always when nothing else is out of a linear model's reach."""
    monotone = [each for each in causes if each.monotone]
    joins = rng.uniform() < JOINT or not any(each.bent for each in causes)
    if len(monotone) < 2 or not joins:
        return list(causes)
    pair = (monotone[-2], monotone[-1])
    return [*(each for each in causes if each not in pair), pair]


def _single(cause: Cause, factors: Mapping[str, Factor], rng: Rng) -> tuple[str, str, list[str], Form]:
    """(family, words, names of factors, form) of a cause on its own, in a drawn shape."""
    factor = factors[cause.factor]
    if isinstance(factor, Category):
        return _order(cause, factor)
    family, words, form = (_turning if cause.sign in "^v" else _rising)(cause, factor, rng)
    if not cause.category:
        return family, words, [factor.name], form
    category = factors[cause.category]
    assert isinstance(category, Category)
    level = list(category.levels).index(cause.levels[0])

    def only_where(place: Array, code: Array) -> Any:
        import numpy as np

        return (form(place) - 0.5) * np.where(code == level, 1.0, ELSEWHERE)

    return (
        f"{family}_where",
        f"{words}, mainly where {category.name} is {cause.levels[0]}",
        [factor.name, category.name],
        only_where,
    )


def _order(cause: Cause, category: Category) -> tuple[str, str, list[str], Form]:
    import numpy as np

    steps = dict(zip(cause.levels, np.linspace(-1, 1, len(cause.levels)), strict=True))
    effects = np.array([steps.get(level, 0.0) for level in category.levels])
    pairs = ", ".join(f"{level} {fixed(effect, 2)}" for level, effect in zip(category.levels, effects, strict=True))
    return "order", f"{category.name}: {pairs}", [category.name], lambda code: effects[code]


def _rising(cause: Cause, number: Number, rng: Rng) -> tuple[str, str, Form]:
    import numpy as np

    family = ("trend", "trend", "saturating", "accelerating", "threshold")[rng.randint(5)]
    cut = round(float(rng.uniform(0.35, 0.65)), 3)
    turned = _turned(cause)
    words, form = {
        "trend": ("evenly", lambda place: turned(place)),
        "saturating": ("less and less", lambda place: turned(place) / (turned(place) + 0.25)),
        "accelerating": ("more and more", lambda place: turned(place) ** 2),
        "threshold": (
            f"mostly around {number.at(cut)}",
            lambda place: np.clip((turned(place) - turned(cut)) / 0.2 + 0.5, 0, 1),
        ),
    }[family]
    return family, f"more {number.name} is {'higher' if cause.sign == '+' else 'lower'}, {words}", form


def _turning(cause: Cause, number: Number, rng: Rng) -> tuple[str, str, Form]:
    peak, sign = round(float(rng.uniform(0.35, 0.65)), 3), 1 if cause.sign == "^" else -1
    words = f"{number.name} near {number.at(peak)} is {'highest' if sign > 0 else 'lowest'}, by the squared distance"
    return "peak" if sign > 0 else "trough", words, lambda place: -sign * (place - peak) ** 2


def _joint(pair: tuple[Cause, Cause], factors: Mapping[str, Factor]) -> tuple[str, str, list[str], Form]:
    """Two causes that need each other: the product of what each would do alone."""
    (one, other), words = pair, [f"{'more' if each.sign == '+' else 'less'} {each.factor}" for each in pair]
    first, second = _turned(one), _turned(other)
    names = [one.factor, other.factor]
    return "joint", f"{words[0]} together with {words[1]} is higher", names, lambda a, b: first(a) * second(b)


def _turned(cause: Cause) -> Callable[[Any], Any]:
    """Places between 0 and 1 that rise with the effect."""
    return (lambda place: place) if cause.sign == "+" else (lambda place: 1 - place)


def choose(rooms: Sequence[Sequence[Cause]], count: int, rng: Rng) -> list[Cause]:
    """`count` of the causes that each medium offers, of each one at least, none twice on the same factor.

    A cause that a linear model misses comes second where there is one.
    """
    queues = [[room[at] for at in rng.permutation(len(room))] for room in rooms]
    dealt = [queue[turn] for turn in range(max(map(len, queues), default=0)) for queue in queues if turn < len(queue)]
    dealt = list({cause.factor: cause for cause in reversed(dealt)}.values())[::-1]
    count = max(count, len(rooms))
    chosen, rest = dealt[:count], dealt[count:]
    if len(rooms) == 1 and len(chosen) > 1 and not any(each.bent for each in chosen):
        chosen[1:2] = [each for each in rest if each.bent][:1] or chosen[1:2]
    return chosen


def signs(lines: Sequence[str], lean: Lean, factors: Sequence[Factor], rng: Rng) -> list[Cause]:
    """The causes of a medium that stand for the scenario's condition, turned for a target that leans against it.

    Half of them act mainly where a category of the medium has a drawn level.
    """
    numbers = {each.name for each in factors if isinstance(each, Number)}
    categories = [each for each in factors if isinstance(each, Category)]
    found: list[Cause] = []
    for cause in (Cause.parse(line) for line in lines):
        if cause.factor not in numbers:
            continue
        sign = cause.sign if lean == "+" else {"+": "-", "-": "+"}[cause.sign]
        if categories and not any(each.category for each in found) and rng.uniform() < ONLY_WHERE:
            category = categories[rng.randint(len(categories))]
            level = category.levels[rng.randint(len(category.levels))]
            found.append(Cause(sign, cause.factor, (level,), category.name))
        else:
            found.append(Cause(sign, cause.factor))
    return found
