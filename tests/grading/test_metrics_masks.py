"""The metrics of masks: numbers worked by hand, dense images as the yardstick, and what is refused."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import Case, Make, cells
from scipy.spatial.distance import directed_hausdorff

from mletools.grading.metrics.mask_objects import mask_fbeta_over_iou
from mletools.grading.metrics.masks import dice_global, dice_mean, fbeta_mask, fbeta_mask_global, iou_precision
from mletools.grading.metrics.masks3d import dice_hausdorff
from mletools.grading.metrics.registry import Undefined, Unsuited

SIDE = 12
PIXELS = SIDE * SIDE
SIZE: dict[str, Any] = {"height": SIDE, "width": SIDE}


def column(*values: Any) -> Any:
    """Cells of one target column."""
    return cells(list(values))[:, 0]


def encode(mask: Any) -> list[tuple[int, int]]:
    """Runs of a mask of shape (height, width), pixels numbered down the columns from 1."""
    flat = np.concatenate([[0], mask.T.ravel().astype(int), [0]])
    ends = np.flatnonzero(np.diff(flat))
    return [(int(start) + 1, int(stop - start)) for start, stop in zip(ends[::2], ends[1::2], strict=True)]


def dense(runs: Any) -> Any:
    mask = np.zeros(PIXELS, dtype=bool)
    for start, length in runs:
        mask[start - 1 : start - 1 + length] = True
    return mask


def blob(draws: np.random.RandomState) -> Any:
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    top, left = draws.randint(0, SIDE - 4, 2)
    mask[top : top + draws.randint(1, 5), left : left + draws.randint(1, 5)] = True
    return mask


def masks(draws: np.random.RandomState, rows: int) -> list[Any]:
    """Runs of random masks, some empty; the first is not."""
    return [encode(blob(draws)) if not at or draws.rand() < 0.8 else [] for at in range(rows)]


def shorter(guess: Any, draws: np.random.RandomState) -> Any:
    """The last item of every other cell or so is left out, which in a perfect submission can only do harm."""
    return cells([cell[:-1] if draws.rand() < 0.5 else cell for cell in guess[:, 0]])


def make(**params: Any) -> Make:
    def draw(draws: np.random.RandomState, rows: int) -> Case:
        truth, guess = masks(draws, rows), masks(draws, rows)
        return Case(cells(truth), cells([list(each) for each in truth]), cells(guess), params, {"extra": {}}, shorter)

    return draw


def several(draws: np.random.RandomState, rows: int) -> list[list[Any]]:
    """Up to four masks an image, one in each quarter of its columns."""
    images = []
    for at in range(rows):
        image = []
        for quarter in range(4):
            if draws.rand() < 0.6 or (not at and not quarter):
                mask = np.zeros((SIDE, SIDE), dtype=bool)
                low = draws.randint(0, 5)
                mask[low : low + draws.randint(3, 7), 3 * quarter : 3 * quarter + 3] = True
                image.append(encode(mask))
        images.append(image)
    return images


def make_objects(draws: np.random.RandomState, rows: int) -> Case:
    truth = several(draws, rows)
    return Case(
        cells(truth), cells([list(each) for each in truth]), cells(several(draws, rows)), {}, {"extra": {}}, shorter
    )


def make_volumes(draws: np.random.RandomState, rows: int) -> Case:
    truth = masks(draws, rows)
    names = [f"case{at % 2}_slice_{at // 2:04}" for at in range(rows)]
    given = {"group": np.array([name.split("_slice_")[0] for name in names]), "extra": {"id": np.array(names)}}
    params = {"slice_column": "id", **SIZE}
    return Case(cells(truth), cells([list(each) for each in truth]), cells(masks(draws, rows)), params, given, shorter)


MAKE: dict[str, Callable[[np.random.RandomState, int], Case]] = {
    "dice_mean": make(),
    "dice_global": make(),
    "fbeta_mask": make(**SIZE),
    "fbeta_mask_global": make(),
    "iou_precision": make(**SIZE),
    "mask_fbeta_over_iou": make_objects,
    "dice_hausdorff": make_volumes,
}


def test_dice_by_hand():
    # 2 * 2 / (4 + 3), and a row that is empty on both sides
    truth, guess = column([(1, 4)], []), column([(3, 2), (9, 1)], [])
    assert dice_mean(truth, guess, extra={}) == pytest.approx((4 / 7 + 1) / 2)
    assert dice_mean(truth, guess, extra={}, both_empty=0) == pytest.approx(2 / 7)
    assert dice_global(truth, guess, extra={}) == pytest.approx(4 / 7)
    assert dice_mean(column([(1, 4)], []), column([], [(5, 1)]), extra={}) == 0


def test_dice_global_adds_the_rows_before_it_divides():
    truth, guess = column([(1, 4)], [(1, 1)]), column([(1, 4)], [(2, 1)])
    assert dice_global(truth, guess, extra={}) == pytest.approx(8 / 10)
    assert dice_mean(truth, guess, extra={}) == pytest.approx(0.5)


def test_fbeta_by_hand():
    # TP 2, FN 2, FP 1; beta 1/2: 1.25 * 2 / (1.25 * 2 + 0.25 * 2 + 1)
    truth, guess = column([(1, 4)]), column([(3, 3)])
    assert fbeta_mask(truth, guess, extra={}) == pytest.approx(2.5 / 4)
    assert fbeta_mask(truth, guess, extra={}, beta=1) == pytest.approx(4 / 7)
    truth, guess = column([(1, 4)], []), column([(3, 3)], [(1, 1)])
    assert fbeta_mask_global(truth, guess, extra={}) == pytest.approx(2.5 / 5)


def test_runs_that_overlap_or_stand_in_any_order_count_once():
    truth = column([(1, 10)])
    assert dice_mean(truth, column([(6, 5), (1, 5), (2, 7), (1, 1)]), extra={}) == 1


MASKS = (dice_mean, dice_global, fbeta_mask, iou_precision)
ORDERS = [
    ([(1, 3), (10, 2)], {"any", "disjoint", "ascending"}),
    ([(1, 3), (4, 2)], {"any", "disjoint", "ascending"}),
    ([(10, 2), (1, 3)], {"any", "disjoint"}),
    ([(1, 5), (3, 5)], {"any"}),
    ([(3, 5), (1, 5)], {"any"}),
    ([(1, 9), (2, 1), (20, 1)], {"any"}),
    ([(1, 1), (1, 1)], {"any"}),
]


@pytest.mark.parametrize("runs", ["any", "disjoint", "ascending"])
@pytest.mark.parametrize(("cell", "allowed"), ORDERS)
def test_runs_of_predictions_may_have_to_be_apart_and_in_order(runs, cell, allowed):
    truth = column([(1, 5)], [(2, 5), (1, 1), (2, 2)], [(40, 2)])  # the answers may be in any order
    guess = column([(7, 2)], cell, [(1, 1)])  # rows are apart from each other
    for metric in MASKS:
        if runs in allowed:
            assert metric(truth, guess, extra={}, **SIZE, runs=runs) == metric(truth, guess, extra={}, **SIZE)
            continue
        words = "overlaps another one" if runs == "disjoint" else "begins before the one before it ends"
        with pytest.raises(Undefined, match=rf"the mask run '\d+ \d+' \(start, length\) {words}; runs of a mask "):
            metric(truth, guess, extra={}, **SIZE, runs=runs)
    with pytest.raises(Unsuited, match=r"metric\.params: runs is any, disjoint or ascending, not 'sorted'"):
        dice_mean(truth, guess, extra={}, runs="sorted")


@pytest.mark.parametrize(
    ("cell", "kept"),
    [([(140, 6)], [(140, 5)]), ([(144, 10**17)], [(144, 1)]), ([(1, 2), (145, 3)], [(1, 2)]), ([(10**40, 1)], [])],
)
def test_what_lies_past_the_end_may_be_cut(cell, kept):
    truth = column([(1, 2), (141, 4)], [(1, 2)])
    for metric in MASKS:
        score = metric(truth, column(cell, [(1, 1)]), extra={}, **SIZE, past_end="cut")
        assert score == metric(truth, column(kept, [(1, 1)]), extra={}, **SIZE)
        with pytest.raises(Undefined, match="ends outside the image of 144 pixels"):
            metric(truth, column(cell, [(1, 1)]), extra={}, **SIZE)
        for wrong in ([(0, 3)], [(5, 0)], [(150, 0)]):
            with pytest.raises(Undefined, match=r"starts before|has a length below 1"):
                metric(truth, column(wrong, []), extra={}, **SIZE, past_end="cut")
    with pytest.raises(Unsuited, match="the answers' mask run"):
        dice_mean(column(cell, []), truth, extra={}, **SIZE, past_end="cut")


def test_a_threshold_may_be_reached_or_has_to_be_exceeded():
    truth, guess = column([(1, 10)]), column([(1, 5)])
    assert iou_precision(truth, guess, extra={}) == 0
    assert iou_precision(truth, guess, extra={}, inclusive=True) == pytest.approx(0.1)


def test_iou_precision_by_hand():
    # IoU 6/10 exceeds 0.5 and 0.55, not 0.6 itself
    assert iou_precision(column([(1, 10)]), column([(1, 6)]), extra={}) == pytest.approx(0.2)
    assert iou_precision(column([], []), column([], [(1, 1)]), extra={}) == pytest.approx(0.5)
    assert iou_precision(column([(1, 10)]), column([(1, 6)]), extra={}, thresholds=[0.5, 0.7]) == pytest.approx(0.5)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6))
def test_counts_agree_with_dense_images(seed, rows):
    from sklearn.metrics import f1_score, fbeta_score, jaccard_score

    draws = np.random.RandomState(seed)

    def some() -> list[tuple[int, int]]:
        starts = draws.randint(1, PIXELS + 1, draws.randint(0, 9))
        return [(int(start), int(draws.randint(1, min(PIXELS - start + 1, 40) + 1))) for start in starts]

    truth, guess = column([(1, 1)], *(some() for _ in range(rows))), column([], *(some() for _ in range(rows)))
    pairs = [(dense(one), dense(other)) for one, other in zip(truth, guess, strict=True)]
    expected = [f1_score(*pair, zero_division=1) for pair in pairs]
    assert dice_mean(truth, guess, extra={}, **SIZE) == pytest.approx(np.mean(expected))
    expected = [fbeta_score(*pair, beta=0.5, zero_division=1) for pair in pairs]
    assert fbeta_mask(truth, guess, extra={}, **SIZE) == pytest.approx(np.mean(expected))
    together = [np.concatenate(each) for each in zip(*pairs, strict=True)]
    assert dice_global(truth, guess, extra={}) == pytest.approx(f1_score(*together, zero_division=0))
    assert fbeta_mask_global(truth, guess, extra={}, beta=2) == pytest.approx(
        fbeta_score(*together, beta=2, zero_division=0)
    )
    iou = [jaccard_score(*pair, zero_division=1) for pair in pairs]
    passed = [np.mean([each == 1 or each > 0.05 * step for step in range(10, 20)]) for each in iou]
    assert iou_precision(truth, guess, extra={}) == pytest.approx(np.mean(passed), abs=0.1 / rows + 1e-9)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([(0, 3)], "the mask run '0 3' (start, length) starts before the first pixel, which is 1"),
        ([(2, 1), (-7, 3)], "the mask run '-7 3' (start, length) starts before the first pixel, which is 1"),
        ([(5, 0)], "the mask run '5 0' (start, length) has a length below 1"),
        ([(5, -2)], "the mask run '5 -2' (start, length) has a length below 1"),
        ([(140, 6)], "the mask run '140 6' (start, length) ends outside the image of 144 pixels"),
        ([(1, 10**17)], "the mask run '1 100000000000000000' (start, length) ends outside the image of 144 pixels"),
        ([(10**40, 1)], f"the mask run '{10**40} 1' (start, length) ends outside the image of 144 pixels"),
    ],
)
def test_impossible_runs_are_refused_with_the_run(runs, message):
    truth = column([(1, 2)], [(1, 2)])
    for metric in (dice_mean, dice_global, fbeta_mask, fbeta_mask_global, iou_precision, mask_fbeta_over_iou):
        with pytest.raises(Undefined) as refused:
            metric(truth, column([(1, 1)], runs), extra={}, **SIZE)
        assert str(refused.value) == message
    with pytest.raises(Unsuited, match="the answers' mask run"):
        dice_mean(column(runs, []), truth, extra={}, **SIZE)


def test_without_a_size_runs_are_bounded_all_the_same():
    with pytest.raises(Undefined, match=r"'1 1000000000000000' .* ends outside the image$"):
        dice_mean(column([(1, 2)]), column([(1, 10**15)]), extra={})
    assert dice_mean(column([(1, 2)]), column([(10**12, 10**10)]), extra={}) == 0


def test_the_first_pixel_may_be_0():
    assert dice_mean(column([(0, 2)]), column([(0, 2)]), extra={}, rle_start=0, height=1, width=2) == 1
    with pytest.raises(Undefined, match="ends outside the image of 2 pixels"):
        dice_mean(column([(0, 2)]), column([(1, 2)]), extra={}, rle_start=0, height=1, width=2)


def test_sizes_from_columns_of_the_answers():
    extra = {"h": np.array(["2", "3"]), "w": np.array(["5", "5"]), "name": np.array(["a", "b"])}
    truth = column([(1, 1)], [(1, 1)])
    params = {"height_column": "h", "width_column": "w"}
    assert dice_mean(truth, column([(1, 1)], [(15, 1)]), extra=extra, **params) == 0.5
    with pytest.raises(Undefined, match=r"'11 1' .* outside the image of 10 pixels"):
        dice_mean(truth, column([(11, 1)], []), extra=extra, **params)
    with pytest.raises(Unsuited, match="height_column is 'x', which is no column of the answers"):
        dice_mean(truth, truth, extra=extra, height_column="x", width_column="w")
    with pytest.raises(Unsuited, match="the column 'name' of the answers holds something else than numbers"):
        dice_mean(truth, truth, extra=extra, height_column="name", width_column="w")
    with pytest.raises(Unsuited, match="the height of an image must be a whole number, 1 or more"):
        dice_mean(truth, truth, extra=extra, height=2.5, width=3)


def test_answers_without_a_pixel_have_no_global_score():
    for metric in (dice_global, fbeta_mask_global):
        with pytest.raises(Unsuited, match="no mask of the answers has a pixel"):
            metric(column([]), column([(1, 1)]), extra={})


def test_thresholds_are_checked():
    for wrong in ([], [0], [1.5], ["a"]):
        with pytest.raises(Unsuited, match="the IoU thresholds must be numbers above 0 and at most 1"):
            iou_precision(column([(1, 1)]), column([(1, 1)]), extra={}, thresholds=wrong)


def test_objects_by_hand():
    # IoU 1 and 4/6: 2 found to 0.65, then 1, with one prediction too many; F2 = 5 TP / (5 TP + 4 FN + FP)
    truth = column([[(1, 10)], [(21, 5)]])
    guess = column([[(1, 10)], [(22, 5)], [(40, 3)]])
    expected = (4 * 10 / 11 + 6 * 5 / (5 + 4 + 2)) / 10
    assert mask_fbeta_over_iou(truth, guess, extra={}) == pytest.approx(expected)


def test_objects_match_from_the_threshold_on_and_the_highest_iou_first():
    truth = column([[(1, 10)]])
    assert mask_fbeta_over_iou(truth, column([[(1, 5)]]), extra={}, thresholds=[0.5]) == 1
    assert mask_fbeta_over_iou(truth, column([[(1, 5)], [(6, 5)]]), extra={}, thresholds=[0.5]) == pytest.approx(5 / 6)
    # The first predicted mask overlaps both true ones; it goes to the second, which it fits better.
    truth, guess = column([[(1, 4)], [(5, 6)]]), column([[(3, 7)], [(1, 2)]])
    assert mask_fbeta_over_iou(truth, guess, extra={}, thresholds=[0.2]) == 1


def test_images_without_objects():
    truth, guess = column([], [], [[(1, 2)]]), column([], [[(1, 2)]], [])
    assert mask_fbeta_over_iou(truth, guess, extra={}) == pytest.approx(1 / 3)
    assert mask_fbeta_over_iou(truth, guess, extra={}, both_empty=0.5) == pytest.approx(0.5 / 3)


def test_a_list_of_runs_alone_is_one_mask():
    assert mask_fbeta_over_iou(column([(1, 2), (5, 2)]), column([[(1, 2), (5, 2)]]), extra={}) == 1


def test_predicted_masks_may_not_overlap():
    with pytest.raises(
        Undefined, match="two predicted masks of one image share the pixel 3; masks of an image may not"
    ):
        mask_fbeta_over_iou(column([[(1, 2)]], []), column([], [[(1, 3)], [(3, 1)]]), extra={})
    touching = column([[(1, 3)], [(4, 1)]])
    assert mask_fbeta_over_iou(touching, touching, extra={}) == 1


def test_objects_agree_with_dense_greedy_matching():
    draws = np.random.RandomState(1)
    for _ in range(20):
        truth, guess = several(draws, 5), several(draws, 5)
        expected = []
        for true_masks, found in zip(truth, guess, strict=True):
            iou = np.array(
                [
                    [(dense(one) & dense(other)).sum() / (dense(one) | dense(other)).sum() for other in found]
                    for one in true_masks
                ]
            ).reshape(len(true_masks), len(found))
            for threshold in (0.3, 0.5, 0.75):
                left, tp = iou.copy(), 0
                while left.size and left.max() >= threshold:
                    at = np.unravel_index(left.argmax(), left.shape)
                    left[at[0]], left[:, at[1]] = -1, -1
                    tp += 1
                below = 5 * tp + 4 * (len(true_masks) - tp) + len(found) - tp
                expected.append(5 * tp / below if below else 1)
        score = mask_fbeta_over_iou(column(*truth), column(*guess), extra={}, thresholds=[0.3, 0.5, 0.75])
        assert score == pytest.approx(np.mean(expected))


def volumes(names: list[str], **more: Any) -> dict[str, Any]:
    return {
        "group": np.array([name.split("_slice_")[0] for name in names]),
        "extra": {"id": np.array(names)},
        "slice_column": "id",
        **SIZE,
        **more,
    }


def test_hausdorff_by_hand():
    # One voxel, one row and one slice off: the distance is sqrt(1/144 + 1/4), the diagonal sqrt(3). No voxel in common.
    names = ["a_slice_2", "a_slice_1"]
    truth, guess = column([], [(1, 1)]), column([(2, 1)], [])
    expected = 0.6 * (1 - np.sqrt(1 / 144 + 1 / 4) / np.sqrt(3))
    assert dice_hausdorff(truth, guess, **volumes(names)) == pytest.approx(expected)
    assert dice_hausdorff(truth, truth, **volumes(names)) == 1


def test_hausdorff_of_empty_and_of_too_large_volumes():
    names = ["a_slice_1", "b_slice_1", "c_slice_1"]
    truth = column([(1, 1)], [], [])
    # a: nothing found, 1; b: nothing there, 1; c: empty on both sides, left out
    assert dice_hausdorff(truth, column([], [(1, 1)], []), **volumes(names)) == 0
    assert dice_hausdorff(truth, column([(1, 11)], [], []), **volumes(names)) == pytest.approx(0.4 * 2 / 12)
    ten = 0.4 * 2 / 11 + 0.6 * (1 - 9 / 12 / np.sqrt(3))
    assert dice_hausdorff(truth, column([(1, 10)], [], []), **volumes(names)) == pytest.approx(ten)


def test_rows_of_one_slice_are_united():
    names = ["a_slice_1", "a_slice_1"]
    truth = column([(1, 2)], [(3, 2)])
    # The classes are swapped: no pixel right, the volume the same.
    assert dice_hausdorff(truth, column([(3, 2)], [(1, 2)]), **volumes(names)) == pytest.approx(0.6)


def test_the_order_of_pixels_matters_to_distances():
    truth, guess = column([(1, 1)]), column([(3, 1)])
    for order, across in (("column", 4), ("row", 8)):
        params = volumes(["a_slice_1"], height=4, width=8, rle_order=order)
        assert dice_hausdorff(truth, guess, **params) == pytest.approx(0.6 * (1 - 2 / across / np.sqrt(3)))


def test_hausdorff_agrees_with_scipy():
    draws = np.random.RandomState(2)
    for trial in range(12):
        shape = tuple(int(each) for each in draws.randint((4, 12, 10), (12, 40, 40)))
        names = [f"a_slice_{at:03}" for at in range(shape[0])]
        density = (0.001, 0.01, 0.3)[trial % 3]
        real = draws.rand(*shape) < density
        low = draws.randint(0, 3, 3)
        real[low[0] : low[0] + 5, low[1] : low[1] + 9, low[2] : low[2] + 7] = True
        found = draws.rand(*shape) < density
        found[: shape[0] // 2] |= real[: shape[0] // 2]
        points = [np.argwhere(each) / shape for each in (real, found)]
        distance = max(directed_hausdorff(*points)[0], directed_hausdorff(*points[::-1])[0]) / np.sqrt(3)
        truth, guess = (column(*(encode(each) for each in volume)) for volume in (real, found))
        params = volumes(names, height=shape[1], width=shape[2], dice_weight=0, hausdorff_weight=1, most_ratio=1e9)
        assert dice_hausdorff(truth, guess, **params) == pytest.approx(1 - distance)


def test_what_dice_hausdorff_needs_of_the_task():
    truth = column([(1, 1)], [(1, 1)])
    names = ["a_slice_1", "a_slice_2"]
    for changed, message in (
        ({"height": None}, "needs the images' height and width"),
        ({"slice_column": "x"}, "slice_column is 'x', which is no column of the answers"),
        ({"rle_order": "rows"}, "rle_order is 'rows', not column or row"),
    ):
        with pytest.raises(Unsuited, match=message):
            dice_hausdorff(truth, truth, **volumes(names, **changed))
    with pytest.raises(Unsuited, match="no mask of the answers has a pixel"):
        dice_hausdorff(column([], []), truth, **volumes(names))
    extra = {"id": np.array(names), "h": np.array(["12", "13"])}
    with pytest.raises(Unsuited, match="the images of the group 'a' differ in size"):
        dice_hausdorff(truth, truth, **volumes(names, extra=extra, height=None, height_column="h"))


def test_large_images_take_no_time():
    draws = np.random.RandomState(3)

    def image() -> list[tuple[int, int]]:
        starts = np.cumsum(draws.randint(100, 16_000, 100_000))
        return [(int(start), 50) for start in starts]

    truth, guess = column(*(image() for _ in range(3))), column(*(image() for _ in range(3)))
    begun = time.process_time()
    dice_mean(truth, guess, extra={}, height=30_000, width=30_000)
    assert time.process_time() - begun < 2  # 0.15 s on two cores of 2024
