"""The hidden rule of a procedural task: a weighted sum of a few terms over numeric and categorical columns.

Each family of terms is one function that draws its parameters and returns a Term; FAMILIES is the menu, and a new
family is one more function there. Not covered: noise, and the target that the sum is turned into (procedural).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .table import fixed


@dataclass(frozen=True)
class Number:
    """A numeric column: `place` holds where each row lies between `low` (0.0) and `high` (1.0); shape (rows,)."""

    name: str
    unit: str
    low: float
    high: float
    decimals: int
    place: Any

    def at(self, place: float) -> str:
        """A place between 0 and 1 in the column's own unit, as text."""
        decimals = max(self.decimals, 1)
        return f"{fixed(self.low + place * (self.high - self.low), decimals)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Category:
    """A categorical column: `code` holds each row's index into `levels`; shape (rows,)."""

    name: str
    levels: Sequence[str]
    code: Any


@dataclass(frozen=True)
class Term:
    """One term: what it says in words, and its value for every row, shape (rows,)."""

    family: str
    words: str
    columns: list[str]
    values: Any


def compose(numbers: list[Number], categories: list[Category], count: int, draws: Any) -> tuple[Any, list[Term]]:
    """(values of shape (rows,) with mean 0 and deviation 1, terms) of a drawn rule; a term's words tell its weight.

    The first term is one that a linear model finds, the second one that it cannot; the others are free. Columns are
    used up before one is used twice, and no family twice on the same columns, so the sum may come out with fewer terms
    than `count`. ValueError when no term varies over the rows.
    """
    import numpy as np

    waiting: list[str] = []
    total = np.zeros(len(numbers[0].place))
    terms: list[Term] = []
    for position in range(count):
        menu = {0: PLAIN, 1: BENT}.get(position, PLAIN + BENT)
        family = menu[draws.randint(len(menu))]
        number_count, category_count = NEEDS[family]
        if category_count and not categories:
            family, number_count, category_count = "trend", 1, 0
        chosen = _take(numbers, number_count, waiting, draws), _take(categories, category_count, waiting, draws)
        term = FAMILIES[family](*chosen, draws)
        spread = float(np.std(term.values))
        known = any(other.family == family and set(other.columns) == set(term.columns) for other in terms)
        if spread < 1e-9 or known:
            continue
        weight = round(float(draws.uniform(0.6, 1.6)), 2)
        total = total + weight * (term.values - np.mean(term.values)) / spread
        terms.append(replace(term, words=f"{weight} x [{term.words}]"))
    deviation = float(np.std(total))
    if deviation < 1e-9:
        raise ValueError("the rule does not vary over the rows")
    return total / deviation, terms


def _take(columns: list[Any], count: int, used: list[str], draws: Any) -> list[Any]:
    """`count` different columns, those not in `used` first; adds them to `used`."""
    order = [columns[at] for at in draws.permutation(len(columns))] if count else []
    order.sort(key=lambda column: used.count(column.name))
    used += [column.name for column in order[:count]]
    return order[:count]


def _trend(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    number, sign = numbers[0], _sign(draws)
    words = f"{number.name}, {'more' if sign > 0 else 'less'} is higher"
    return Term("trend", words, [number.name], sign * number.place)


def _level(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    import numpy as np

    category = categories[0]
    effects = draws.permutation(np.linspace(-1, 1, len(category.levels)))
    pairs = ", ".join(f"{level} {fixed(effect, 2)}" for level, effect in zip(category.levels, effects, strict=True))
    return Term("level", f"{category.name}: {pairs}", [category.name], effects[category.code])


def _step(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    number, sign, cut = numbers[0], _sign(draws), float(draws.uniform(0.3, 0.7))
    words = f"{number.name} {'above' if sign > 0 else 'below'} {number.at(cut)} is higher"
    return Term("step", words, [number.name], sign * (number.place > cut))


def _bump(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    number, sign, peak = numbers[0], _sign(draws), float(draws.uniform(0.35, 0.65))
    words = f"{number.name} near {number.at(peak)} is {'higher' if sign > 0 else 'lower'}, by the squared distance"
    return Term("bump", words, [number.name], -sign * (number.place - peak) ** 2)


def _wave(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    import numpy as np

    number, turns, start = numbers[0], float(draws.choice([1.0, 1.5, 2.0])), float(draws.uniform(0, 1))
    words = f"sine of {number.name}, {turns} periods from {number.at(0)} to {number.at(1)}, phase {fixed(start, 2)}"
    return Term("wave", words, [number.name], np.sin(2 * np.pi * (turns * number.place + start)))


def _product(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    (first, second), sign = numbers, _sign(draws)
    words = f"{first.name} and {second.name}, {'both on the same side' if sign > 0 else 'on opposite sides'} is higher"
    return Term("product", words, [first.name, second.name], sign * (first.place - 0.5) * (second.place - 0.5))


def _switch(numbers: list[Number], categories: list[Category], draws: Any) -> Term:
    import numpy as np

    number, category, sign = numbers[0], categories[0], _sign(draws)
    level = int(draws.randint(len(category.levels)))
    side = np.where(category.code == level, 1.0, -1.0)
    words = (
        f"{number.name}, {'more' if sign > 0 else 'less'} is higher where {category.name} is "
        f"{category.levels[level]}, the other way round elsewhere"
    )
    return Term("switch", words, [number.name, category.name], sign * side * (number.place - 0.5))


def _sign(draws: Any) -> int:
    return 1 if draws.randint(2) else -1


FAMILIES = {
    "trend": _trend,
    "level": _level,
    "step": _step,
    "bump": _bump,
    "wave": _wave,
    "product": _product,
    "switch": _switch,
}
# (numeric columns, categorical columns) that a family combines
NEEDS = {
    "trend": (1, 0),
    "level": (0, 1),
    "step": (1, 0),
    "bump": (1, 0),
    "wave": (1, 0),
    "product": (2, 0),
    "switch": (1, 1),
}
PLAIN = ("trend", "level", "step")
BENT = ("bump", "wave", "product", "switch")
