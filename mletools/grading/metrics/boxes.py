"""Metrics of boxes around objects in images: one list of boxes a row.

A box without area overlaps nothing. Not covered: boxes in space (boxes3d).
"""

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from ...base.errors import ToolError
from .box_matching import (
    Boxes,
    average_precisions,
    best_of_all,
    best_untaken,
    both_sides,
    candidates,
    column,
    edges,
    intersection_over_union,
)
from .masks import THRESHOLDS, levels
from .registry import Undefined, Unsuited, metric

INTERPOLATIONS = ("area", "11", "missed_at_0")


@metric("map_coco", lower_is_better=False, best=1.0, parse="boxes")
def map_coco(truth: Any, guess: Any, *, iou: float | Sequence[float] = THRESHOLDS, max_detections: int = 100) -> float:
    """COCO's mean average precision: precision at 101 recalls, mean over recalls, labels and IoU thresholds, boxes of an
    image matched by score, the `max_detections` best of each label and image; as pycocotools computes it.

    Fields: score, xmin, ymin and xmax, ymax or width, height, and label where there are several. Labels that the answers
    do not have are left out. Source: COCO's detection evaluation, all areas.
    """
    import numpy as np

    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        raise ToolError("map_coco needs pycocotools: pip install 'mletools[vision]'") from None

    true_boxes, boxes, labels = both_sides(truth, guess)
    thresholds = levels(iou)
    images = [{"id": at} for at in range(len(truth))]
    categories = [{"id": at} for at in range(len(labels))]
    with contextlib.redirect_stdout(io.StringIO()):
        sides = []
        for each, most in ((true_boxes, len(true_boxes)), (boxes, max_detections)):
            side = COCO()
            side.dataset = {"images": images, "categories": categories, "annotations": _annotations(each, most)}
            side.createIndex()
            sides.append(side)
        run = COCOeval(*sides, "bbox")
        run.params.iouThrs = np.array(thresholds)
        run.params.maxDets = [max_detections]
        run.params.areaRng = [[0, float("inf")]]
        run.params.areaRngLbl = ["all"]
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"]
    return round(float(precision[precision > -1].mean()), 12)  # COCOeval's precisions stay 2e-16 below 1


def _annotations(boxes: Boxes, most: int) -> list[dict[str, object]]:
    """COCO's records of the boxes, of each image and label at most `most`, in the order of their scores."""
    import numpy as np

    left, top, right, bottom = edges(boxes)
    width, height = np.maximum(right - left, 0), np.maximum(bottom - top, 0)
    order = np.lexsort((-boxes.score, boxes.key))
    key = boxes.key[order]
    place = np.arange(len(order)) - np.searchsorted(key, key)
    kept = order[(place < most) & (boxes.label[order] >= 0)]
    columns = (boxes.row, boxes.label, boxes.score, left, top, width, height)
    return [
        # Ids from 1: COCOeval takes a match with the box 0 for none.
        {
            "id": number,
            "image_id": row,
            "category_id": label,
            "score": score,
            "bbox": box,
            "area": box[2] * box[3],
            "iscrowd": 0,
            "ignore": 0,
        }
        for number, (row, label, score, *box) in enumerate(
            zip(*(each[kept].tolist() for each in columns), strict=True), start=1
        )
    ]


@metric("map_voc", lower_is_better=False, best=1.0, parse="boxes")
def map_voc(truth: Any, guess: Any, *, iou: float | Sequence[float] = 0.5, interpolation: str = "area") -> float:
    """PASCAL VOC's mean average precision: a box is right if its best true box is overlapped by more than `iou` and was
    not found by one with a higher score; area under the monotone precision-recall curve, mean over the answers' labels.

    interpolation: "area" (VOC 2010 and later), "11" (precision at 11 recalls, VOC 2007), or "missed_at_0": scikit-learn's
    average_precision_score, true boxes that are missed being positives of score 0 and images with neither true nor
    predicted box of a label negatives of score 0, and each box looks for the best true box that is left (MLE-bench's
    grader of SIIM COVID-19); predicted scores below 0 are refused, for boxes that are missed would rank above them. Areas are of coordinates, without VOC's pixel added. Fields as in map_coco.
    """
    import numpy as np

    if interpolation not in INTERPOLATIONS:
        raise Unsuited(f"interpolation is {interpolation!r}, not one of {', '.join(INTERPOLATIONS)}")
    true_boxes, boxes, labels = both_sides(truth, guess)
    thresholds = levels(iou)
    if interpolation == "missed_at_0" and (below := boxes.score[boxes.score < 0]).size:
        raise Undefined(f"a box has the score {below[0]:g}; scores must not be below 0")
    t, g, value = candidates(true_boxes, boxes, intersection_over_union(true_boxes, boxes), min(thresholds))
    scores = []
    for threshold in thresholds:
        right = np.zeros(len(boxes), dtype=bool)
        if interpolation == "missed_at_0":
            right[best_untaken(t, g, value > threshold)] = True
            scores.append(_missed_at_0(true_boxes, boxes, right, len(truth), len(labels)))
        else:
            right[best_of_all(t, g, value, threshold)] = True
            known = boxes.label >= 0
            positives = np.bincount(true_boxes.label, minlength=len(labels))
            ranked = (boxes.label[known], boxes.score[known], right[known], positives)
            scores.append(average_precisions(*ranked, eleven=interpolation == "11").mean())
    return float(np.mean(scores))


def _missed_at_0(true_boxes: Boxes, boxes: Boxes, right: Any, rows: int, labels: int) -> float:
    import numpy as np
    from sklearn.metrics import average_precision_score

    precisions = []
    for label in range(labels):
        mine = boxes.label == label
        true_rows = true_boxes.row[true_boxes.label == label]
        missed = len(true_rows) - int(right[mine].sum())
        neither = rows - len(np.union1d(true_rows, boxes.row[mine]))
        real = np.concatenate([right[mine], np.ones(missed, dtype=bool), np.zeros(neither, dtype=bool)])
        scores = np.concatenate([boxes.score[mine], np.zeros(missed + neither)])
        precisions.append(average_precision_score(real, scores))
    return float(np.mean(precisions))


@metric("box_iou_precision", lower_is_better=False, best=1.0, parse="boxes")
def box_iou_precision(
    truth: Any,
    guess: Any,
    *,
    iou: float | Sequence[float] = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75),
    both_empty: float = 1.0,
) -> float:
    """TP / (TP + FP + FN) of the boxes of an image, mean over IoU thresholds, then over images: each predicted box, by
    falling score, finds the best true box that is left with an IoU of the threshold or more.

    both_empty: the value of an image without boxes on either side. Boxes that have labels match only with the same.
    Fields as in map_coco. Source: the Global Wheat Detection competition.
    """
    import numpy as np

    rows = len(truth)
    true_boxes, boxes, _ = both_sides(truth, guess)
    thresholds = levels(iou)
    t, g, value = candidates(true_boxes, boxes, intersection_over_union(true_boxes, boxes), min(thresholds))
    total = np.bincount(true_boxes.row, minlength=rows) + np.bincount(boxes.row, minlength=rows)
    scores = []
    for threshold in thresholds:
        tp = np.bincount(boxes.row[best_untaken(t, g, value >= threshold)], minlength=rows)
        scores.append(np.where(total > 0, tp / np.maximum(total - tp, 1), both_empty))
    return float(np.mean(scores))


@metric("point_in_box_f1", lower_is_better=False, best=1.0, parse="boxes")
def point_in_box_f1(truth: Any, guess: Any) -> float:
    """F1 = 2 TP / (2 TP + FP + FN) over the points of all images: a true box, in the order of the answers, is found by the
    first unused point of its label that lies inside it, not on its edge.

    Fields: label, x, y of a point; label, x, y, width, height of a true box, or its xmin, ymin, xmax, ymax. Source: the
    Kuzushiji recognition competition.
    """
    import numpy as np

    boxes, points, _ = both_sides(truth, guess, scored=False)
    left, top, right, bottom = edges(boxes)
    x, y = column(points, "x"), column(points, "y")

    def inside(t: Any, g: Any) -> Any:
        return ((left[t] < x[g]) & (x[g] < right[t]) & (top[t] < y[g]) & (y[g] < bottom[t])).astype(float)

    t, g, _ = candidates(boxes, points, inside, 1)
    order = np.lexsort((g, t))
    # A box takes a point as elsewhere a prediction takes a box.
    tp = len(best_untaken(g[order], t[order], slice(None)))
    return 2 * tp / (len(boxes) + len(points))
