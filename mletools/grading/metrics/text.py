"""Metrics on text: edit distances (rapidfuzz) and shared words."""

from typing import Any

from .bounds import affordable
from .means import mean
from .registry import Unsuited, metric

# rapidfuzz compares a character of the longer text with 64 of the shorter at a time.
WORD, MOST_STEPS = 64, 400_000_000


def _edit_distances(truth: Any, guess: Any) -> Any:
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    right, guessed = (np.fromiter(map(len, cells), dtype=np.int64, count=len(cells)) for cells in (truth, guess))
    needed = (-(-np.minimum(right, guessed) // WORD) * np.maximum(right, guessed)).sum()
    affordable("comparisons of characters", float(needed), float((-(-right // WORD) * right).sum()), MOST_STEPS)
    return cpdist(truth.tolist(), guess.tolist(), scorer=Levenshtein.distance, dtype=np.int64)


@metric("levenshtein", lower_is_better=True, best=0.0, parse="text")
def levenshtein(truth: Any, guess: Any) -> float:
    """Mean over rows of the Levenshtein distance: the fewest characters put in, left out or changed to get the answer."""
    return mean(_edit_distances(truth, guess))


@metric("levenshtein_per_token", lower_is_better=True, best=0.0, parse="tokens")
def levenshtein_per_token(truth: Any, guess: Any) -> float:
    """Levenshtein distances between lists of tokens, summed over rows, over the number of tokens in all answers.

    It may exceed 1. Source: the evaluation page of Kaggle's Multi-modal Gesture Recognition.
    """
    tokens = sum(map(len, truth))
    if not tokens:
        raise Unsuited("levenshtein_per_token divides by the number of tokens in the answers, and there is none")
    return float(_edit_distances(truth, guess).sum() / tokens)


@metric("jaccard_words", lower_is_better=False, best=1.0, parse="text")
def jaccard_words(truth: Any, guess: Any, *, both_empty: float = 1.0) -> float:
    """Mean over rows of shared words / words in either text, each word once, lower-cased, parted by white space.

    both_empty: what a row counts whose two texts hold no word. Source: the evaluation page of Kaggle's Tweet Sentiment
    Extraction (its code divides by zero there).
    """
    scores = []
    for right, guessed in zip(truth, guess, strict=True):
        expected_words, guessed_words = set(right.lower().split()), set(guessed.lower().split())
        shared = len(expected_words & guessed_words)
        either = len(expected_words) + len(guessed_words) - shared
        scores.append(shared / either if either else both_empty)
    return mean(scores)
