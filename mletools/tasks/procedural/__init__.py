"""Tasks made from nothing but a seed: a drawn world of files and a hidden rule, split into train and test.

`draw_world` draws DNA, scenario, factors, rule and files; `make_challenge` splits and names them; `make_board` trains a
leaderboard; `describe` writes the page that a solver reads. Not covered: checks, thresholds, writing to disk.
"""

from .board import Board, make_board
from .challenge import Challenge, make_challenge
from .describe import describe
from .dna import MODALITIES, MUTATIONS, SAMPLES
from .draw import draw_world
from .world import World

__all__ = [
    "MODALITIES",
    "MUTATIONS",
    "SAMPLES",
    "Board",
    "Challenge",
    "World",
    "describe",
    "draw_world",
    "make_board",
    "make_challenge",
]
