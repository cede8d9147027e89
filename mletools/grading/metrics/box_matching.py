"""Boxes as arrays, which of them overlap, and the average precision of ranked boxes that are right or wrong."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..parsing import Box
from .bounds import affordable
from .registry import Unsuited

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Pairs of boxes that are looked at together; bounds the memory.
CHUNK = 500_000
# Pairs of a true and a predicted box that may be looked at, and of those that overlap.
MOST_PAIRS, MOST_OVERLAPS = 10_000_000, 2_000_000
# No image is larger; edges are cut here so that no area overflows.
FARTHEST = 1e12


@dataclass(frozen=True)
class Boxes:
    """The boxes of all rows, arrays of shape (boxes,). key is equal for boxes of one row and label, the only ones that
    may match. label is -1 for one that the answers do not have."""

    row: Any
    label: Any
    key: Any
    score: Any
    values: "dict[str, NDArray[Any]]"

    def __len__(self) -> int:
        return len(self.row)


def both_sides(truth: Any, guess: Any, scored: bool = True) -> tuple[Boxes, Boxes, list[str]]:
    """The boxes of answers and predictions, and the labels of the answers; boxes without a label have the label "".

    Unsuited where the answers have no box. A missing score is 1.
    """
    boxes = list(chain.from_iterable(truth))
    if not boxes:
        raise Unsuited("the answers have no box")
    labels = {name: code for code, name in enumerate(sorted({str(box.get("label", "")) for box in boxes}))}
    return flatten(truth, labels, False), flatten(guess, labels, scored), [*labels]


def flatten(cells: Sequence[Sequence[Box]], labels: dict[str, int], scored: bool) -> Boxes:
    import numpy as np

    counts = np.fromiter(map(len, cells), dtype=np.int64, count=len(cells))
    boxes = list(chain.from_iterable(cells))
    row = np.repeat(np.arange(len(cells)), counts)
    label = np.fromiter((labels.get(str(box.get("label", "")), -1) for box in boxes), dtype=np.int64, count=len(boxes))
    values = {
        name: np.fromiter((box[name] for box in boxes), dtype=float, count=len(boxes))
        for name in (boxes[0] if boxes else ())
        if name != "label"
    }
    score = values["score"] if scored and "score" in values else np.ones(len(boxes))
    return Boxes(row, label, row * (len(labels) + 1) + label, score, values)


def column(boxes: Boxes, *names: str) -> Any:
    """The field of that name, or of the first of several names that the boxes have."""
    import numpy as np

    for name in names:
        if name in boxes.values:
            return boxes.values[name]
    if not len(boxes):
        return np.empty(0)
    raise Unsuited(f"boxes need the field {' or '.join(names)}; they have {', '.join(boxes.values) or 'none'}")


def edges(boxes: Boxes) -> tuple[Any, Any, Any, Any]:
    """xmin, ymin, xmax, ymax, finite and of finite area, from the fields of that name or x, y, width, height."""
    import numpy as np

    low = [column(boxes, "xmin", "x"), column(boxes, "ymin", "y")]
    if "width" in boxes.values:
        with np.errstate(all="ignore"):
            high = [low[0] + column(boxes, "width"), low[1] + column(boxes, "height")]
    else:
        high = [column(boxes, "xmax", "width"), column(boxes, "ymax", "height")]
    left, top, right, bottom = (np.clip(each, -FARTHEST, FARTHEST) for each in (*low, *high))
    return left, top, right, bottom


def intersection_over_union(truth: Boxes, guess: Boxes) -> Callable[[Any, Any], Any]:
    """A function of indices into truth and guess, arrays of one length: the IoU of each pair; 0 for a box without area."""
    import numpy as np

    one, other = np.stack(edges(truth)), np.stack(edges(guess))
    areas = [np.prod(np.maximum(each[2:] - each[:2], 0), axis=0) for each in (one, other)]

    def iou(t: Any, g: Any) -> Any:
        sides = np.minimum(one[2:, t], other[2:, g]) - np.maximum(one[:2, t], other[:2, g])
        common = np.prod(np.maximum(sides, 0), axis=0)
        union = areas[0][t] + areas[1][g] - common
        return np.where(union > 0, common / np.where(union > 0, union, 1), 0)

    return iou


def pairs(truth: Boxes, guess: Boxes) -> Iterator[tuple[Any, Any]]:
    """Indices of all pairs of equal key, in pieces of about CHUNK pairs. TooExpensive: there are too many."""
    import numpy as np

    order = np.argsort(truth.key, kind="stable")
    keys = truth.key[order]
    known = np.flatnonzero(guess.label >= 0)
    low = np.searchsorted(keys, guess.key[known], side="left")
    many = np.searchsorted(keys, guess.key[known], side="right") - low
    ends = np.cumsum(many)
    affordable("pairs of boxes", float(many.sum()), own_pairs(truth), MOST_PAIRS)
    first = 0
    while first < len(known):
        before = ends[first] - many[first]
        last = max(int(np.searchsorted(ends, before + CHUNK, side="right")), first + 1)
        here, repeats = slice(first, last), many[first:last]
        within = np.arange(repeats.sum()) - np.repeat(ends[here] - repeats - before, repeats)
        yield order[np.repeat(low[here], repeats) + within], np.repeat(known[here], repeats)
        first = last


def own_pairs(truth: Boxes) -> float:
    """The pairs of boxes of equal key that the answers have among themselves."""
    import numpy as np

    return float((np.unique(truth.key, return_counts=True)[1] ** 2).sum())


def candidates(truth: Boxes, guess: Boxes, overlap: Callable[[Any, Any], Any], least: float) -> tuple[Any, Any, Any]:
    """Indices and overlap of the pairs that overlap by `least` or more.

    Ordered by the predicted box, the one with the highest score first, then by overlap, the largest first.
    """
    import numpy as np

    pieces = []
    overlapping, own = 0, own_pairs(truth)
    for t, g in pairs(truth, guess):
        with np.errstate(all="ignore"):  # predicted numbers may be huge
            value = overlap(t, g)
        keep = value >= least
        overlapping += int(keep.sum())
        affordable("overlapping pairs of boxes", overlapping, own, MOST_OVERLAPS)
        pieces.append((t[keep], g[keep], value[keep]))
    if not pieces:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    t, g, value = (np.concatenate(each) for each in zip(*pieces, strict=True))
    rank = np.empty(len(guess), dtype=np.int64)
    rank[np.argsort(-guess.score, kind="stable")] = np.arange(len(guess))
    order = np.lexsort((t, -value, rank[g]))
    return t[order], g[order], value[order]


def best_of_all(t: Any, g: Any, value: Any, threshold: float) -> Any:
    """PASCAL VOC's matching: each predicted box matches the true box that it overlaps most, if by more than the
    threshold and no box with a higher score does so. The matched predicted boxes; arguments of candidates."""
    import numpy as np

    if not len(g):
        return g
    asks = np.append(True, g[1:] != g[:-1]) & (value > threshold)
    _, first = np.unique(t[asks], return_index=True)
    return g[asks][first]


def best_untaken(t: Any, g: Any, near: Any) -> list[int]:
    """The matched predicted boxes: each, highest score first, takes the nearest true box that is still free.

    near: which candidates are near enough.
    """
    taken: set[int] = set()
    matched: list[int] = []
    last = -1
    for true, box in zip(t[near].tolist(), g[near].tolist(), strict=True):
        if box != last and true not in taken:
            taken.add(true)
            matched.append(box)
            last = box
    return matched


def average_precisions(segment: Any, score: Any, right: Any, positives: Any, eleven: bool = False) -> Any:
    """Average precision of each segment (a class, or a class in an image), floats of shape (segments,).

    segment, score, right (is it matched?): of each predicted box. positives: true boxes of each segment. The area under
    precision against recall, precision being the largest at that recall or a higher one (VOC 2010), or with `eleven` the
    mean of that at the recalls 0, 0.1, ... 1 (VOC 2007).
    """
    import numpy as np

    order = np.lexsort((-score, segment))
    segment, right = segment[order], right[order]
    first = np.searchsorted(segment, np.arange(len(positives)))
    hits = np.cumsum(right)
    before = np.append(0, hits)[first]  # hits of the segments before
    tp = hits - before[segment]
    precision = tp / (np.arange(len(segment)) - first[segment] + 1)
    # The largest precision from here to the segment's end, on ranks, which are exact where sums would round.
    values, rank = np.unique(precision, return_inverse=True)
    key = (len(positives) - segment) * len(precision) + rank
    envelope = values[np.maximum.accumulate(key[::-1])[::-1] % max(len(precision), 1)]
    if not eleven:
        return np.bincount(segment, weights=envelope * right, minlength=len(positives)) / positives
    total = np.zeros(len(positives))
    for step in range(11):
        reached = np.flatnonzero(10 * tp >= step * positives[segment])
        at, start = np.unique(segment[reached], return_index=True)
        total[at] += envelope[reached[start]]
    return total / 11
