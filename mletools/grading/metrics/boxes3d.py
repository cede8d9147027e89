"""The metric of upright boxes in space."""

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import ToolError
from .bounds import affordable
from .box_matching import Boxes, average_precisions, best_of_all, both_sides, candidates, column, own_pairs
from .masks import THRESHOLDS, levels
from .registry import metric

FIELDS = ("center_x", "center_y", "center_z", "width", "length", "height", "yaw")
# Sizes and distances between which a box can have an overlap worth computing, in the unit of the answers (metres).
SMALLEST, LARGEST = 1e-6, 1e6
# Pairs so near to each other that their common ground is computed: some microseconds each.
MOST_NEAR = 200_000


@metric("map_3d", lower_is_better=False, best=1.0, parse="boxes")
def map_3d(truth: Any, guess: Any, *, iou: float | Sequence[float] = THRESHOLDS) -> float:
    """Mean average precision of boxes in space, PASCAL VOC's (area, matching by score, IoU above the threshold), inside
    each row: mean over the row's labels, then over IoU thresholds, then over the rows that have true boxes.

    Fields: score, center_x, center_y, center_z, width, length, height, yaw, label. The length lies along x at yaw 0; yaw
    turns counterclockwise, in radians. IoU: common ground area times common height, by volumes. Predicted labels that
    the row's answers do not have are left out. Source: Lyft's 3D object detection competition and its kit's evaluation.
    """
    import numpy as np

    true_boxes, boxes, _ = both_sides(truth, guess)
    thresholds = levels(iou)
    t, g, value = candidates(true_boxes, boxes, _iou(true_boxes, boxes), min(thresholds))
    keys, segment, positives = np.unique(true_boxes.key, return_inverse=True, return_counts=True)
    row = np.empty(len(keys), dtype=np.int64)
    row[segment] = true_boxes.row
    place = np.minimum(np.searchsorted(keys, boxes.key), len(keys) - 1)
    known = (keys[place] == boxes.key) & (boxes.label >= 0)
    scores = []
    for threshold in thresholds:
        right = np.zeros(len(boxes), dtype=bool)
        right[best_of_all(t, g, value, threshold)] = True
        precisions = average_precisions(place[known], boxes.score[known], right[known], positives)
        labels = np.bincount(row, minlength=len(truth))
        by_row = np.bincount(row, weights=precisions, minlength=len(truth))[labels > 0] / labels[labels > 0]
        scores.append(by_row.mean())
    return float(np.mean(scores))


def _iou(truth: Boxes, guess: Boxes) -> Callable[[Any, Any], Any]:
    """A function of indices into truth and guess: the IoU of each pair."""
    import numpy as np

    try:
        import shapely
    except ImportError:
        raise ToolError("map_3d needs shapely: pip install 'mletools[vision]'") from None

    one, other = (np.stack([column(boxes, name) for name in FIELDS]) for boxes in (truth, guess))
    sound = [(np.abs(each[:6]) <= LARGEST).all(axis=0) & (each[3:6] >= SMALLEST).all(axis=0) for each in (one, other)]
    grounds = [
        shapely.polygons(_corners(np.where(fit, each, 1))) for fit, each in zip(sound, (one, other), strict=True)
    ]

    many_near, own = 0, own_pairs(truth)

    def iou(t: Any, g: Any) -> Any:
        nonlocal many_near
        value = np.zeros(len(t))
        tops = np.minimum(one[2, t] + one[5, t] / 2, other[2, g] + other[5, g] / 2)
        height = tops - np.maximum(one[2, t] - one[5, t] / 2, other[2, g] - other[5, g] / 2)
        apart = np.hypot(one[0, t] - other[0, g], one[1, t] - other[1, g])
        reach = (np.hypot(one[3, t], one[4, t]) + np.hypot(other[3, g], other[4, g])) / 2
        near = np.flatnonzero(sound[0][t] & sound[1][g] & (height > 0) & (apart < reach))
        many_near += len(near)
        affordable("pairs of boxes near each other", many_near, own, MOST_NEAR)
        t, g = t[near], g[near]
        ground = shapely.area(shapely.intersection(grounds[0][t], grounds[1][g]))
        common = ground * height[near]
        volumes = np.prod(one[3:6, t], axis=0) + np.prod(other[3:6, g], axis=0)
        value[near] = np.clip(common / (volumes - common), 0, 1)
        return value

    return iou


def _corners(boxes: Any) -> Any:
    """The corners on the ground, shape (boxes, 4, 2)."""
    import numpy as np

    x, y, _, width, length, _, yaw = boxes
    along = np.stack([np.cos(yaw), np.sin(yaw)], axis=1) * (length / 2)[:, None]
    across = np.stack([-np.sin(yaw), np.cos(yaw)], axis=1) * (width / 2)[:, None]
    middle = np.stack([x, y], axis=1)
    return np.stack(
        [middle + along - across, middle + along + across, middle - along + across, middle - along - across], axis=1
    )
