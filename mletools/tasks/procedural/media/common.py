"""What the media share: numbers are drawn from a menu, rendered in their unit, and measured as places between 0 and 1."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ..arrays import Array, Rng
from ..world import Category, Factor, Number

Item = TypeVar("Item")
# Factor: unit, low, high, decimals.
Menu = Mapping[str, tuple[str, float, float, int]]


def shuffled(items: Sequence[Item], rng: Rng) -> list[Item]:
    """The items in a drawn order."""
    return [items[at] for at in rng.permutation(len(items))]


def pick(items: Sequence[Item], rng: Rng) -> Item:
    """One of the items."""
    return items[rng.randint(len(items))]


def draw_places(rows: int, rng: Rng, steps: float = 0) -> Array:
    """Places of shape (rows,), spread evenly or in a bell; with `steps`, multiples of 1 / steps."""
    place = rng.uniform(size=rows) if rng.randint(2) else np.clip(rng.normal(0.5, 0.25, size=rows), 0, 1)
    return np.round(np.rint(place * steps) / steps if steps else place, 6)


def draw_numbers(menu: Menu, names: Sequence[str], whole: Collection[str], rows: int, rng: Rng) -> list[Number]:
    """Factors of these names; those in `whole` take whole values only."""
    return [
        Number(name, *menu[name], draw_places(rows, rng, menu[name][2] - menu[name][1] if name in whole else 0))
        for name in names
    ]


def number_values(menu: Menu, factors: Sequence[Factor], whole: Collection[str], rng: Rng) -> dict[str, Array]:
    """Values of every number of the menu in its unit, (rows,) each; drawn where it is no factor."""
    factor_of = {factor.name: factor for factor in factors if isinstance(factor, Number)}
    rows = row_count(factors)
    values = {}
    for name, (_, low, high, _) in menu.items():
        factor = factor_of.get(name) or draw_numbers(menu, [name], whole, rows, rng)[0]
        values[name] = low + factor.place * (high - low)
    return values


def codes(factors: Sequence[Factor], name: str, levels: Sequence[str], rng: Rng) -> Array:
    """The category's codes, (rows,); drawn where it is no factor."""
    factor = next((each for each in factors if each.name == name), None)
    return factor.code if isinstance(factor, Category) else rng.randint(len(levels), size=row_count(factors))


def row_count(factors: Sequence[Factor]) -> int:
    """Number of samples."""
    return len(factors[0].place if isinstance(factors[0], Number) else factors[0].code)


def measured_places(factors: Sequence[Factor], found: Mapping[str, Array]) -> dict[str, Array]:
    """Measured values in units become places, cut off at 0 and 1; codes of levels stay. By the factor's name."""
    return {
        factor.name: np.round(np.clip((found[factor.name] - factor.low) / (factor.high - factor.low), 0, 1), 6)
        if isinstance(factor, Number)
        else found[factor.name]
        for factor in factors
    }


def least_squares(design: Array, values: Array, known: Array, ridge: float) -> Array:
    """Weights (rows, p) that fit `design` (rows, steps, p) to `values` (rows, steps) where `known` (steps,) or (rows, steps)
    holds, with a penalty of `ridge` on their squares."""
    weighed = design * known[..., None]
    square = np.einsum("rti,rtj->rij", weighed, design) + ridge * np.eye(design.shape[2])
    wanted = np.einsum("rti,rt->ri", weighed, values)
    return np.linalg.solve(square, wanted[:, :, None])[:, :, 0]


def apply_steps(
    steps: Mapping[str, Callable[[Item, float, Rng], Item]], data: Item, mutations: Mapping[str, float], rng: Rng
) -> Item:
    """The data after those `steps` (name: function of data, strength, rng) that are among the mutations, in their order."""
    for name, step in steps.items():
        if name in mutations:
            data = step(data, mutations[name], rng)
    return data
