"""Metrics of the pixels of masks in run-length code, one mask a row. Counted on the runs: an image's size costs nothing.

Overlapping runs of one mask count once and may stand in any order. A run that starts before the first pixel or has no
length is refused, and so is one that leaves the image where the image's size is known. A task may say otherwise of
predictions (`runs`, `past_end`). Not covered: several masks an
image (mask_objects), three dimensions (masks3d).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .registry import Undefined, Unsuited, metric
from .runs import MOST, Runs, flatten, overlap

# 0.5 to 0.95 in steps of 0.05, as COCO has them.
THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True)
class ImageFormat:
    """The size of the images, from numbers or columns of the answers, unknown where neither is given; the first pixel's number."""

    height: int | None = None
    width: int | None = None
    height_column: str | None = None
    width_column: str | None = None
    rle_start: int = 1

    def sides(self, extra: Any, rows: int) -> tuple[Any, Any]:
        """The heights and widths of the images, int64 of shape (rows,); None: unknown."""
        return (
            _side("height", self.height, self.height_column, extra, rows),
            _side("width", self.width, self.width_column, extra, rows),
        )

    def pixels(self, extra: Any, rows: int) -> Any:
        """The number of pixels of each image, int64 of shape (rows,), or None where a side is unknown."""
        import numpy as np

        height, width = self.sides(extra, rows)
        if height is None or width is None:
            return None
        return np.minimum(height.astype(float) * width, MOST).astype(np.int64)


@dataclass(frozen=True)
class MaskFormat(ImageFormat):
    """Also what becomes of predicted runs that overlap, do not ascend or leave the image; see dice_mean."""

    runs: str = "any"
    past_end: str = "refuse"


IMAGES, MASKS = ImageFormat(), MaskFormat()


def _side(name: str, number: Any, column: str | None, extra: Any, rows: int) -> Any:
    """Heights or widths of the images of shape (rows,), from one number or a column of the answers; None: unknown."""
    import numpy as np

    if column is None:
        if number is None:
            return None
        values = np.full(rows, number, dtype=float)
    else:
        if column not in extra:
            raise Unsuited(f"{name}_column is {column!r}, which is no column of the answers")
        try:
            values = np.asarray(extra[column], dtype=float)
        except ValueError:
            raise Unsuited(
                f"{name}_column: the column {column!r} of the answers holds something else than numbers"
            ) from None
    if not ((values >= 1) & (values <= MOST) & (values == np.floor(values))).all():
        raise Unsuited(f"the {name} of an image must be a whole number, 1 or more")
    return values.astype(np.int64)


def read_runs(
    cells: Sequence[Any],
    room: Any,
    masks: ImageFormat,
    fault: type[Exception],
    rows: Any = None,
) -> Runs:
    """The runs of all cells, positions from 0; `fault` is raised for a run that no image can have.

    room: pixels of each image, or None; rows: the image of each cell, where that is not the cell's own number. The rules
    of a MaskFormat are for predictions alone.
    """
    import numpy as np

    runs, past_end, rle_start = "any", "refuse", masks.rle_start
    if isinstance(masks, MaskFormat) and fault is Undefined:
        runs, past_end = masks.runs, masks.past_end
    if runs not in _ORDER or past_end not in ("refuse", "cut"):
        raise Unsuited(f"metric.params: runs is any, disjoint or ascending, not {runs!r}; past_end refuse or cut")
    row, first, length = flatten(cells)
    image = row if rows is None else rows[row]
    end = np.full(len(row), MOST) if room is None else room[image]
    start = first - rle_start
    order = np.lexsort((start, row)) if runs == "disjoint" else np.arange(len(row))
    for wrong, why in (
        (start < 0, f"starts before the first pixel, which is {rle_start}"),
        (length < 1, "has a length below 1"),
        (past_end != "cut" and start + length > end, "ends outside the image"),
        (runs != "any" and _overlapping(row[order], start[order], length[order])[np.argsort(order)], _ORDER[runs]),
    ):
        if np.any(wrong):
            at = int(np.argmax(wrong))
            limit = f" of {end[at]} pixels" if room is not None else ""
            whose = "the answers' mask run" if fault is Unsuited else "the mask run"
            numbers = " ".join(map(str, _run(cells, at)))
            raise fault(f"{whose} '{numbers}' (start, length) {why}{limit if 'outside' in why else ''}")
    return Runs(row, np.minimum(start, end), np.minimum(start + length, end))


_ORDER = {
    "any": "",
    "disjoint": "overlaps another one; runs of a mask may not",
    "ascending": "begins before the one before it ends; runs of a mask must ascend and not overlap",
}


def _overlapping(row: Any, start: Any, length: Any) -> Any:
    """Which runs begin before the one before them in their row ends."""
    import numpy as np

    return np.append(False, (row[1:] == row[:-1]) & (start[1:] < (start + length)[:-1]))[: len(row)]


def _run(cells: Sequence[Any], at: int) -> tuple[int, int]:
    """The run number `at` of all, as written."""
    for cell in cells:
        if at < len(cell):
            return tuple(cell[at])
        at -= len(cell)
    raise IndexError(at)


def counts(truth: Any, guess: Any, masks: ImageFormat, extra: Any) -> tuple[Any, Any, Any]:
    """Pixels of each row in both masks, in the truth and in the guess, floats of shape (rows,)."""
    rows = len(truth)
    room = masks.pixels(extra, rows)
    return overlap(read_runs(truth, room, masks, Unsuited), read_runs(guess, room, masks, Undefined), rows)


def f_beta(both: Any, in_truth: Any, in_guess: Any, beta: float, neither: float) -> Any:
    """(1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP) of each row; beta 1 is Dice; `neither` where both are empty."""
    import numpy as np

    square = float(beta) ** 2
    below = square * in_truth + in_guess
    return np.where(below > 0, (1 + square) * both / np.where(below > 0, below, 1), neither)


@metric("dice_mean", lower_is_better=False, best=1.0, parse="rle")
def dice_mean(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    both_empty: float = 1.0,
    masks: MaskFormat = MASKS,
) -> float:
    """Dice coefficient of two masks, 2 |A and B| / (|A| + |B|) in pixels, mean over the rows; `both_empty` for a row
    in which both masks are empty.

    height, width (numbers) or height_column, width_column (columns of the answers): the images' size, against which
    runs are checked; unchecked where none is given. rle_start: the number of the first pixel. runs: any, disjoint (those
    of a predicted mask may not overlap) or ascending (and must stand in order). past_end: what becomes of a predicted run
    that leaves the image, refuse or cut. Source: the HuBMAP kidney
    segmentation competition.
    """
    return float(f_beta(*counts(truth, guess, masks, extra), 1, both_empty).mean())


@metric("dice_global", lower_is_better=False, best=1.0, parse="rle")
def dice_global(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    masks: MaskFormat = MASKS,
) -> float:
    """Dice coefficient of all masks together: 2 |A and B| / (|A| + |B|), each counted in pixels over all rows.

    Parameters as in dice_mean. Source: the competition on contrails of Google Research.
    """
    return _together(counts(truth, guess, masks, extra), 1)


@metric("fbeta_mask", lower_is_better=False, best=1.0, parse="rle")
def fbeta_mask(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    beta: float = 0.5,
    both_empty: float = 1.0,
    masks: MaskFormat = MASKS,
) -> float:
    """F-beta over the pixels of a mask, (1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP), mean over the rows;
    `both_empty` for a row in which both masks are empty.

    Parameters as in dice_mean. Source: the Vesuvius ink detection competition.
    """
    return float(f_beta(*counts(truth, guess, masks, extra), beta, both_empty).mean())


@metric("fbeta_mask_global", lower_is_better=False, best=1.0, parse="rle")
def fbeta_mask_global(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    beta: float = 0.5,
    masks: ImageFormat = IMAGES,
) -> float:
    """F-beta over the pixels of all masks together: (1 + beta^2) TP / ((1 + beta^2) TP + beta^2 FN + FP), each counted
    over all rows.

    Parameters as in dice_mean. Source: fbeta_mask, summed before the division.
    """
    return _together(counts(truth, guess, masks, extra), beta)


def _together(pixel_counts: tuple[Any, Any, Any], beta: float) -> float:
    both, in_truth, in_guess = (each.sum() for each in pixel_counts)
    if not in_truth:
        raise Unsuited("no mask of the answers has a pixel")
    return float(f_beta(both, in_truth, in_guess, beta, 1))


@metric("iou_precision", lower_is_better=False, best=1.0, parse="rle")
def iou_precision(
    truth: Any,
    guess: Any,
    *,
    extra: Any,
    thresholds: Sequence[float] = THRESHOLDS,
    both_empty: float = 1.0,
    masks: MaskFormat = MASKS,
    inclusive: bool = False,
) -> float:
    """Share of the thresholds that the IoU of the two masks of a row exceeds (one mask a row), mean over the rows;
    `both_empty` for a row in which both masks are empty, 0 where only one is.

    inclusive: whether an IoU that equals a threshold is enough. Other parameters as in dice_mean. Source: the TGS salt identification competition.
    """
    import numpy as np

    both, in_truth, in_guess = counts(truth, guess, masks, extra)
    union = in_truth + in_guess - both
    iou = both / np.where(union > 0, union, 1)
    steps = np.asarray(levels(thresholds), dtype=float)
    passed = (iou[:, None] >= steps if inclusive else iou[:, None] > steps).mean(axis=1)
    return float(np.where(union > 0, passed, both_empty).mean())


def levels(thresholds: Any) -> list[float]:
    """IoU thresholds from a parameter: one number or a list. Unsuited unless they lie in (0, 1]."""
    values = [thresholds] if isinstance(thresholds, int | float) else list(thresholds)
    if not values or not all(isinstance(each, int | float) and 0 < each <= 1 for each in values):
        raise Unsuited(f"the IoU thresholds must be numbers above 0 and at most 1, not {thresholds!r}")
    return values
