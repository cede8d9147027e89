"""The metric of images with several masks, each an object: a row's cell is a list of masks, each a list of runs."""

from collections.abc import Sequence
from typing import Any

from .masks import IMAGES, THRESHOLDS, ImageFormat, f_beta, levels, read_runs
from .registry import Undefined, Unsuited, metric
from .runs import Runs, merged, offsets, sizes


@metric("mask_fbeta_over_iou", lower_is_better=False, best=1.0, parse="rle")
def mask_fbeta_over_iou(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    beta: float = 2.0,
    thresholds: Sequence[float] = THRESHOLDS,
    both_empty: float = 1.0,
    masks: ImageFormat = IMAGES,
) -> float:
    """F-beta over the objects of an image, each a mask, mean over IoU thresholds, then over the images: a predicted mask
    finds a true one from an IoU of the threshold on, pairs with the highest IoU first; `both_empty` where there is none.

    Cells are lists of masks (one list of runs alone is one mask). Predicted masks of one image may not share a pixel.
    Other parameters as in dice_mean. Source: the Airbus ship detection competition, matching as in MLE-Dojo's grader.
    """
    import numpy as np

    rows = len(truth)
    room = masks.pixels(extra, rows)
    true_cells, true_row = _masks(truth)
    cells, mask_row = _masks(guess)
    true_runs = merged(read_runs(true_cells, room, masks, Unsuited, true_row), len(true_cells))
    runs = merged(read_runs(cells, room, masks, Undefined, mask_row), len(cells))
    least = min(levels(thresholds))
    found_row, found_iou = _matches(true_runs, true_row, runs, mask_row, rows, least, masks.rle_start)
    in_truth, in_guess = np.bincount(true_row, minlength=rows), np.bincount(mask_row, minlength=rows)
    scores = [
        f_beta(np.bincount(found_row[found_iou >= each], minlength=rows), in_truth, in_guess, beta, both_empty)
        for each in levels(thresholds)
    ]
    return float(np.mean(scores))


def _masks(cells: Sequence[Any]) -> tuple[list[Any], Any]:
    """The masks of all cells that are not empty, and the row of each."""
    import numpy as np

    masks: list[Any] = []
    row: list[int] = []
    for at, cell in enumerate(cells):
        alone = len(cell) > 0 and isinstance(cell[0], tuple)
        for mask in [cell] if alone else cell:
            if len(mask):
                masks.append(mask)
                row.append(at)
    return masks, np.array(row, dtype=np.int64)


def _matches(
    true_runs: Runs, true_row: Any, runs: Runs, mask_row: Any, rows: int, least: float, rle_start: int
) -> tuple[Any, Any]:
    """Row and IoU of each pair that is matched, the highest IoU first; none below `least`.

    A pair's rank does not depend on a threshold, so the pairs matched at a higher one are those of at least that IoU.
    """
    import numpy as np

    by_image = Runs(mask_row[runs.row], runs.start, runs.stop)
    true_image = Runs(true_row[true_runs.row], true_runs.start, true_runs.stop)
    origin = offsets(rows, by_image, true_image)
    order = np.argsort(origin[by_image.row] + runs.start, kind="stable")
    start, stop = (runs.start + origin[by_image.row])[order], (runs.stop + origin[by_image.row])[order]
    shared = start[1:] < stop[:-1]
    if shared.any():
        pixel = int(runs.start[order][1:][shared.argmax()]) + rle_start
        raise Undefined(f"two predicted masks of one image share the pixel {pixel}; masks of an image may not overlap")
    # Every true run with the predicted runs, disjoint, that it touches.
    left, right = true_runs.start + origin[true_image.row], true_runs.stop + origin[true_image.row]
    low, high = np.searchsorted(stop, left, side="right"), np.searchsorted(start, right, side="left")
    many = high - low
    one = np.repeat(np.arange(len(many)), many)
    other = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many) + np.repeat(low, many)
    common = np.minimum(right[one], stop[other]) - np.maximum(left[one], start[other])
    key, at = np.unique(true_runs.row[one] * len(mask_row) + runs.row[order][other], return_inverse=True)
    both = np.bincount(at, weights=common, minlength=len(key))
    true_mask, mask = (key // len(mask_row), key % len(mask_row)) if len(key) else (key, key)
    iou = both / (sizes(true_runs, len(true_row))[true_mask] + sizes(runs, len(mask_row))[mask] - both)
    taken: set[int] = set()
    used: set[int] = set()
    kept = []
    for pair in np.argsort(-iou, kind="stable")[: int((iou >= least).sum())].tolist():
        if int(true_mask[pair]) not in taken and int(mask[pair]) not in used:
            taken.add(int(true_mask[pair]))
            used.add(int(mask[pair]))
            kept.append(pair)
    return true_row[true_mask[kept]] if kept else np.empty(0, dtype=np.int64), iou[kept]
