"""Metrics on sets of tags, ranked lists and orders.

The answers of a ranked list are a label (the one true item), a tagset or a ranked list (whose order does not matter).
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from math import log2
from typing import Any

from ...records.task import Parse
from ..parsing import items_as_labels
from .means import mean
from .registry import Undefined, Unsuited, metric

RANKED_ANSWERS: tuple[Parse, ...] = ("label", "tagset", "ranked")


def _overlaps(truth: Any, guess: Any) -> Iterator[tuple[int, int, int]]:
    """For each row the sizes of answer, prediction and what they share."""
    for right, guessed in zip(truth, guess, strict=True):
        yield len(right), len(guessed), len(right & guessed)


@metric("jaccard_sets", lower_is_better=False, best=1.0, parse="tagset")
def jaccard_sets(truth: Any, guess: Any) -> float:
    """Mean over rows of shared tags / tags in answer or prediction; a row where both are empty counts 1."""
    return mean([shared / (a + b - shared) if a or b else 1.0 for a, b, shared in _overlaps(truth, guess)])


@metric("f1_sample_mean", lower_is_better=False, best=1.0, parse="tagset")
def f1_sample_mean(truth: Any, guess: Any) -> float:
    """Mean over rows of each row's F1, 2 shared tags / (tags of the answer + tags predicted); both empty counts 1."""
    return mean([2 * shared / (a + b) if a or b else 1.0 for a, b, shared in _overlaps(truth, guess)])


def _counts(truth: Any, guess: Any, from_answers: bool) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Counts of each tag in the answers, in the predictions, and in both for the same row."""
    if not isinstance(from_answers, bool):
        raise Unsuited(f"metric.params.from_answers is {from_answers!r}, not true or false")
    expected = Counter(chain.from_iterable(truth))
    if not expected:
        raise Unsuited("the answers hold no tag at all")
    predicted = Counter(chain.from_iterable(guess))
    if from_answers:
        predicted = Counter({tag: times for tag, times in predicted.items() if tag in expected})
    return expected, predicted, Counter(chain.from_iterable(a & b for a, b in zip(truth, guess, strict=True)))


@metric("f1_multilabel_micro", lower_is_better=False, best=1.0, parse="tagset")
def f1_multilabel_micro(truth: Any, guess: Any, *, from_answers: bool = True) -> float:
    """F1 over all pairs of row and tag, 2 TP / (2 TP + FP + FN); predicted tags that no answer holds are ignored.

    from_answers: false counts those tags as false positives too.
    """
    expected, predicted, shared = _counts(truth, guess, from_answers)
    return 2 * shared.total() / (expected.total() + predicted.total())


@metric("f1_multilabel_macro", lower_is_better=False, best=1.0, parse="tagset", balanced=True)
def f1_multilabel_macro(truth: Any, guess: Any, *, from_answers: bool = True) -> float:
    """F1 of each tag over rows, 2 TP / (2 TP + FP + FN), then the mean over the tags that the answers hold.

    from_answers: false averages over the tags that only predictions hold too (F1 0).
    """
    expected, predicted, shared = _counts(truth, guess, from_answers)
    return mean([2 * shared[tag] / (expected[tag] + predicted[tag]) for tag in expected | predicted])


def _first(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise Unsuited(f"metric.params.k is {k!r}, not a whole number of at least 1")
    return k


def _hits(truth: Any, guess: Any, k: int | None = None) -> Iterator[tuple[int, list[int]]]:
    """For each row the number of true items, and the places (from 1, at most k) where one is predicted first."""
    for right, ranked in zip(truth, guess, strict=True):
        items = ranked[:k]
        if isinstance(right, str):
            expected, items = {right}, items_as_labels(items, right)
        else:
            expected = set(right)
        if not expected:
            raise Unsuited("a row of the answers names no true item; leave such rows out of the answers")
        hits, places = set(), []
        for place, item in enumerate(items, 1):
            if item in expected and item not in hits:
                hits.add(item)
                places.append(place)
        yield len(expected), places


@metric("map_at_k", lower_is_better=False, best=1.0, parse="ranked", answer_parse=RANKED_ANSWERS)
def map_at_k(truth: Any, guess: Any, *, k: int) -> float:
    """Mean over rows of average precision at k: sum of precision at each hit in the first k / min(k, true items).

    An item predicted twice is a hit once, and takes up both places. Source: Kaggle's MAP@K, as on the evaluation page
    of H&M Personalized Fashion Recommendations.
    """
    k = _first(k)
    return mean(
        [sum(at / place for at, place in enumerate(places, 1)) / min(k, n) for n, places in _hits(truth, guess, k)]
    )


@metric("ndcg_at_k", lower_is_better=False, best=1.0, parse="ranked", answer_parse=RANKED_ANSWERS)
def ndcg_at_k(truth: Any, guess: Any, *, k: int) -> float:
    """Mean over rows of DCG / best possible DCG at k, DCG = sum over hits in the first k of 1 / log2(1 + place).

    An item predicted twice is a hit once. Source: the evaluation page of Kaggle's Airbnb New User Bookings (one true
    item, relevance 1), for several true items with the same relevance.
    """
    k = _first(k)
    ideal: dict[int, float] = {}  # number of hits -> DCG where they come first
    scores = []
    for n, places in _hits(truth, guess, k):
        most = min(k, n)
        if most not in ideal:
            ideal[most] = sum(1 / log2(1 + place) for place in range(1, most + 1))
        scores.append(sum(1 / log2(1 + place) for place in places) / ideal[most])
    return mean(scores)


@metric("mrr", lower_is_better=False, best=1.0, parse="ranked", answer_parse=RANKED_ANSWERS)
def mrr(truth: Any, guess: Any) -> float:
    """Mean reciprocal rank: mean over rows of 1 / place of the first true item; 0 where none is predicted."""
    return mean([1 / places[0] if places else 0.0 for _, places in _hits(truth, guess)])


def _short(item: str) -> str:
    return repr(item if len(item) <= 50 else item[:50] + "...")


def _ranks(right: tuple[str, ...], ranked: tuple[str, ...]) -> list[int]:
    """Each predicted item's place in the answer. Undefined unless the two hold the same items, each once.

    Of several items at fault the smallest is named: the first in the answer's order would give that order away.
    """
    place = {item: at for at, item in enumerate(right)}
    if len(place) != len(right):
        raise Unsuited("an order among the answers holds an item twice")
    if len(ranked) != len(right) or place.keys() != set(ranked):
        times = Counter(ranked)
        foreign, missing = times.keys() - place.keys(), place.keys() - times.keys()
        if foreign:
            raise Undefined(f"an order holds {_short(min(foreign))}, which is not among the items to be ordered")
        if missing:
            raise Undefined(f"an order lacks {_short(min(missing))}, one of the items to be ordered")
        raise Undefined(f"an order holds {_short(min(item for item in times if times[item] > 1))} more than once")
    return [place[item] for item in ranked]


def _inversions(ranks: Any, start: Any) -> int:
    """Pairs in the wrong order within each of several permutations of 0, 1, 2, ... that lie end to end in `ranks`.

    start: at each place, where its permutation begins. A radix sort from the highest bit, O(n log n) for all of them at
    once: two numbers are the wrong way round if the first bit in which they differ is 1 in the earlier one.
    """
    import numpy as np

    total, places = 0, np.arange(len(ranks))
    for bit in reversed(range(int(ranks.max(initial=0)).bit_length())):
        ones = (ranks >> bit) & 1
        block = start + ((ranks >> (bit + 1)) << (bit + 1))  # where the numbers that agree in all higher bits begin
        before = np.cumsum(ones) - ones
        ones_before = before - before[block]
        total += int(ones_before[ones == 0].sum())
        # a block that holds a 1 here holds all its 2^bit zeros: they are smaller numbers of the same permutation
        target = block + np.where(ones, (1 << bit) + ones_before, places - block - ones_before)
        moved = np.empty_like(ranks)
        moved[target] = ranks
        ranks = moved
    return total


@metric("kendall_tau_orders", lower_is_better=False, best=1.0, parse="order")
def kendall_tau_orders(truth: Any, guess: Any) -> float:
    """1 - 4 (swaps of neighbours that turn the predicted orders into the true ones) / sum of n (n - 1): 1 to -1.

    n is the number of items in a row's order; swaps and n (n - 1) are summed over all rows first. Source: the
    evaluation page of Kaggle's AI4Code.
    """
    import numpy as np

    sizes = np.array([len(right) for right in truth], dtype=np.int64)
    pairs = int((sizes * (sizes - 1)).sum())
    if not pairs:
        raise Unsuited("no order of the answers has two items")
    each = chain.from_iterable(_ranks(right, ranked) for right, ranked in zip(truth, guess, strict=True))
    ranks = np.fromiter(each, dtype=np.int64, count=int(sizes.sum()))
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return 1 - 4 * _inversions(ranks, start) / pairs
