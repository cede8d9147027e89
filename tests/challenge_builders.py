"""Challenges drawn from a hidden rule."""

from mletools.grading import metrics
from mletools.tasks.draft import draft_world
from mletools.tasks.procedural.draw import draw_world
from mletools.tasks.table import Rejected, generator


def challenge_of(modality, seed):
    """A challenge of the first draw from `seed` on that is not rejected."""
    for at in range(seed, seed + 20):
        draws = generator(at)
        try:
            world = draw_world(modality, draws)
            return draft_world(world, draws, metrics.lower_is_better(world.origin["dna"]["metric"]))
        except Rejected:
            continue
    raise AssertionError("twenty draws were rejected")
