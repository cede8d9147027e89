"""The hidden rule of a procedural task: a weighted sum of a few terms over the factors of a sample.

Each family of terms is one function that draws its parameters and returns a Term; FAMILIES is the menu, and a new
family is one more function there. Not covered: noise, and the target that the sum is turned into (target).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..table import fixed
from .world import Category, Number

# A term's value from the places or codes of its factors, in the order of its factors: (rows,) each.
Form = Callable[..., Any]


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

    def of(self, seen: Mapping[str, Any]) -> Any:
        """The weighted, standardised value of shape (rows,) for places and codes by the factor's name."""
        import numpy as np

        value = np.asarray(self.form(*(seen[name] for name in self.factors)), dtype=float)
        return np.round(self.weight * (value - self.mean) / self.spread, 9)


@dataclass(frozen=True)
class Rule:
    """A sum of terms, scaled to mean 0 and deviation 1 over the rows that it was drawn for."""

    terms: list[Term]
    deviation: float

    def of(self, seen: Mapping[str, Any]) -> Any:
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


def shown(factors: Sequence[Number | Category]) -> dict[str, Any]:
    """The true places and codes by the factor's name."""
    return {each.name: each.place if isinstance(each, Number) else each.code for each in factors}


def compose(factors: Sequence[Number | Category], count: int, rng: Any) -> Rule:
    """A drawn rule of at most `count` terms over `factors`.

    The first term is one that a linear model finds, the second one that it cannot; the others are free. Factors are
    used up before one is used twice, and no family twice on the same factors. ValueError when no term varies.
    """
    import numpy as np

    numbers = [each for each in factors if isinstance(each, Number)]
    categories = [each for each in factors if isinstance(each, Category)]
    seen = shown(factors)
    waiting: list[str] = []
    terms: list[Term] = []
    for position in range(count):
        menu = [name for name in {0: PLAIN, 1: BENT}.get(position, PLAIN + BENT) if _fits(name, numbers, categories)]
        if not menu:
            continue
        family = menu[rng.randint(len(menu))]
        number_count, category_count = NEEDS[family]
        chosen = _take(numbers, number_count, waiting, rng), _take(categories, category_count, waiting, rng)
        words, form = FAMILIES[family](*chosen, rng)
        names = [each.name for each in (*chosen[0], *chosen[1])]
        value = np.asarray(form(*(seen[name] for name in names)), dtype=float)
        spread = float(np.std(value))
        known = any(other.family == family and set(other.factors) == set(names) for other in terms)
        if spread < 1e-6 or known:
            continue
        weight = round(float(rng.uniform(0.6, 1.6)), 2)
        terms.append(Term(family, words, names, form, weight, round(float(np.mean(value)), 9), round(spread, 9)))
    total = sum(term.of(seen) for term in terms)
    deviation = round(float(np.std(total)), 9) if terms else 0.0
    if deviation < 1e-6:
        raise ValueError("the rule does not vary over the rows")
    return Rule(terms, deviation)


def _fits(family: str, numbers: list[Number], categories: list[Category]) -> bool:
    number_count, category_count = NEEDS[family]
    return number_count <= len(numbers) and category_count <= len(categories)


def _take(factors: list[Any], count: int, used: list[str], rng: Any) -> list[Any]:
    """`count` different factors, those not in `used` first; adds them to `used`."""
    order = [factors[at] for at in rng.permutation(len(factors))] if count else []
    order.sort(key=lambda factor: used.count(factor.name))
    used += [factor.name for factor in order[:count]]
    return order[:count]


def _trend(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    sign = _sign(rng)
    return f"{numbers[0].name}, {'more' if sign > 0 else 'less'} is higher", lambda place: sign * place


def _level(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    import numpy as np

    category = categories[0]
    effects = rng.permutation(np.linspace(-1, 1, len(category.levels)))
    pairs = ", ".join(f"{level} {fixed(effect, 2)}" for level, effect in zip(category.levels, effects, strict=True))
    return f"{category.name}: {pairs}", lambda code: effects[code]


def _step(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    number, sign, cut = numbers[0], _sign(rng), _cut(rng)
    words = f"{number.name} {'above' if sign > 0 else 'below'} {number.at(cut)} is higher"
    return words, lambda place: sign * (place > cut)


def _bump(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    number, sign, peak = numbers[0], _sign(rng), round(float(rng.uniform(0.35, 0.65)), 3)
    words = f"{number.name} near {number.at(peak)} is {'higher' if sign > 0 else 'lower'}, by the squared distance"
    return words, lambda place: -sign * (place - peak) ** 2


def _wave(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    import numpy as np

    number, turns, start = numbers[0], float(rng.choice([1.0, 1.5, 2.0])), round(float(rng.uniform(0, 1)), 2)
    words = f"sine of {number.name}, {turns} periods from {number.at(0)} to {number.at(1)}, phase {fixed(start, 2)}"
    return words, lambda place: np.sin(2 * np.pi * (turns * place + start))


def _product(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    (first, second), sign = numbers, _sign(rng)
    words = f"{first.name} and {second.name}, {'both on the same side' if sign > 0 else 'on opposite sides'} is higher"
    return words, lambda one, other: sign * (one - 0.5) * (other - 0.5)


def _switch(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    import numpy as np

    number, category, sign = numbers[0], categories[0], _sign(rng)
    level = int(rng.randint(len(category.levels)))
    words = (
        f"{number.name}, {'more' if sign > 0 else 'less'} is higher where {category.name} is "
        f"{category.levels[level]}, the other way round elsewhere"
    )
    return words, lambda place, code: sign * np.where(code == level, 1.0, -1.0) * (place - 0.5)


def _gate(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    (first, second), sign, cut = numbers, _sign(rng), _cut(rng)
    words = (
        f"{first.name}, {'more' if sign > 0 else 'less'} is higher, only where {second.name} is above {second.at(cut)}"
    )
    return words, lambda one, other: sign * (one - 0.5) * (other > cut)


def _both(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    (first, second), sign, low, high = numbers, _sign(rng), _cut(rng), _cut(rng)
    words = (
        f"{first.name} above {first.at(low)} and {second.name} above {second.at(high)} at once is "
        f"{'higher' if sign > 0 else 'lower'}"
    )
    return words, lambda one, other: sign * ((one > low) & (other > high))


def _ring(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    (first, second), sign = numbers, _sign(rng)
    words = (
        f"the further {first.name} and {second.name} together lie from {first.at(0.5)} and {second.at(0.5)} "
        f"the {'higher' if sign > 0 else 'lower'}"
    )
    return words, lambda one, other: sign * ((one - 0.5) ** 2 + (other - 0.5) ** 2)


def _larger(numbers: list[Number], categories: list[Category], rng: Any) -> tuple[str, Form]:
    import numpy as np

    (first, second), sign = numbers, _sign(rng)
    words = f"the larger of {first.name} and {second.name}, each over its own range, more is {'higher' if sign > 0 else 'lower'}"
    return words, lambda one, other: sign * np.maximum(one, other)


def _sign(rng: Any) -> int:
    return 1 if rng.randint(2) else -1


def _cut(rng: Any) -> float:
    return round(float(rng.uniform(0.3, 0.7)), 3)


FAMILIES: dict[str, Callable[[list[Number], list[Category], Any], tuple[str, Form]]] = {
    "trend": _trend,
    "level": _level,
    "step": _step,
    "larger": _larger,
    "bump": _bump,
    "wave": _wave,
    "product": _product,
    "switch": _switch,
    "gate": _gate,
    "both": _both,
    "ring": _ring,
}
# (numbers, categories) that a family combines
NEEDS = {
    "trend": (1, 0),
    "level": (0, 1),
    "step": (1, 0),
    "larger": (2, 0),
    "bump": (1, 0),
    "wave": (1, 0),
    "product": (2, 0),
    "switch": (1, 1),
    "gate": (2, 0),
    "both": (2, 0),
    "ring": (2, 0),
}
PLAIN = ("trend", "level", "step", "larger")
BENT = ("bump", "wave", "product", "switch", "gate", "both", "ring")
