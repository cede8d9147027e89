"""Challenges drawn from a hidden rule."""

from mletools.tasks.draft import draft_world
from mletools.tasks.procedural.draw import draw_world
from mletools.tasks.procedural.rule import Cause, choose, compose
from mletools.tasks.procedural.world import Number
from mletools.tasks.table import Rejected, generator


def challenge_of(modality, seed):
    """A challenge of the first draw from `seed` on that is not rejected."""
    for at in range(seed, seed + 20):
        draws = generator(at)
        try:
            world = draw_world(modality, draws)
            return draft_world(world, draws)
        except Rejected:
            continue
    raise AssertionError("twenty draws were rejected")


def rule_of(factors, count, rng):
    """A rule of `count` causes over these factors, in drawn directions; some act mainly where a category has a level."""
    categories = [each for each in factors if not isinstance(each, Number)]
    causes = []
    for factor in factors:
        if not isinstance(factor, Number):
            causes.append(Cause("<", factor.name, tuple(factor.levels)))
        elif categories and rng.randint(2):
            category = categories[rng.randint(len(categories))]
            causes.append(Cause("+", factor.name, (category.levels[0],), category.name))
        else:
            causes.append(Cause("+-^v"[rng.randint(4)], factor.name))
    return compose(choose([causes], count, rng), factors, rng)
