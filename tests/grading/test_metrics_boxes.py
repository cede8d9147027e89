"""The metrics of boxes and of spans: numbers worked by hand, plain loops as the yardstick, hostile values."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import Case, cells

from mletools.base.errors import ToolError
from mletools.grading.metrics.boxes import box_iou_precision, map_coco, map_voc, point_in_box_f1
from mletools.grading.metrics.boxes3d import map_3d
from mletools.grading.metrics.registry import Undefined, Unsuited
from mletools.grading.metrics.spans import f1_char_spans, nq_f1

LABELS = ("car", "bus", "cat")


def column(*values: Any) -> Any:
    """Cells of one target column."""
    return cells(list(values))[:, 0]


def box(x: float, y: float, width: float = 10, height: float = 10, label: str = "car", score: float = 1.0) -> Any:
    return {"label": label, "score": score, "xmin": x, "ymin": y, "xmax": x + width, "ymax": y + height}


def solid(x: float, y: float = 0, yaw: float = 0, label: str = "car", score: float = 1.0, **sizes: float) -> Any:
    """A cube of side 2, or of other sizes."""
    shape = {"center_z": 0, "width": 2, "length": 2, "height": 2, **sizes}
    return {"label": label, "score": score, "center_x": x, "center_y": y, "yaw": yaw, **shape}


def images(draws: np.random.RandomState, rows: int, draw: Callable[[float, float, str, float], Any]) -> list[list[Any]]:
    """Up to four labelled things an image, far from each other; the first image has one of every label."""
    found = []
    for at in range(rows):
        many = 4 if not at else draws.randint(0, 5)
        found.append(
            [
                draw(40 * place + draws.randint(0, 3), draws.randint(0, 3), LABELS[(place + at) % 3], draws.rand())
                for place in range(many)
            ]
        )
    return found


def shorter(guess: Any, draws: np.random.RandomState) -> Any:
    """The last item of every other cell or so is left out, which in a perfect submission can only do harm."""
    return cells([cell[:-1] if draws.rand() < 0.5 else cell for cell in guess[:, 0]])


def maker(draw: Callable[[float, float, str, float], Any]) -> Callable[[np.random.RandomState, int], Case]:
    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth = images(draws, rows, draw)
        perfect = [[{**each, "score": draws.rand()} for each in image] for image in truth]
        return Case(cells(truth), cells(perfect), cells(images(draws, rows, draw)), worsen=shorter)

    return make


def make_points(draws: np.random.RandomState, rows: int) -> Case:
    def character(x: float, y: float, label: str, score: float) -> Any:
        return {"label": label, "x": x, "y": y, "width": 10.0, "height": 20.0}

    truth = images(draws, rows, character)
    perfect = [[{"label": each["label"], "x": each["x"] + 5, "y": each["y"] + 10} for each in image] for image in truth]
    guess = [
        [{"label": each["label"], "x": each["x"] + 8 + 4 * draws.rand(), "y": each["y"] + 2} for each in image]
        for image in images(draws, rows, character)
    ]
    return Case(cells(truth), cells(perfect), cells(guess), worsen=shorter)


def make_spans(draws: np.random.RandomState, rows: int) -> Case:
    def some() -> list[list[tuple[int, int]]]:
        return [
            [(int(start), int(start + draws.randint(1, 30))) for start in draws.randint(0, 100, draws.randint(0, 4))]
            for _ in range(rows)
        ]

    truth = some()
    return Case(cells(truth), cells([list(each) for each in truth]), cells(some()), worsen=shorter)


def make_answers(draws: np.random.RandomState, rows: int) -> Case:
    known = ("YES", "NO", "3:5", "7:9", "10:12")
    truth = [frozenset(draws.choice(known, draws.randint(0, 3), replace=False).tolist()) for _ in range(rows)]
    truth[0] = frozenset(("YES", "3:5"))
    perfect = [min(each) if each else "" for each in truth]
    guess = [str(draws.choice((*known, ""))) for _ in range(rows)]

    def unanswered(guess: Any, draws: np.random.RandomState) -> Any:
        return cells(["" if draws.rand() < 0.3 else answer for answer in guess[:, 0]])

    return Case(cells(truth), cells(perfect), cells(guess), worsen=unanswered)


MAKE: dict[str, Callable[[np.random.RandomState, int], Case]] = {
    "map_coco": maker(lambda x, y, label, score: box(x, y, label=label, score=score)),
    "map_voc": maker(lambda x, y, label, score: box(x, y, label=label, score=score)),
    "box_iou_precision": maker(lambda x, y, label, score: box(x, y, label=label, score=score)),
    "point_in_box_f1": make_points,
    "map_3d": maker(lambda x, y, label, score: solid(x, y / 8, label=label, score=score)),
    "f1_char_spans": make_spans,
    "nq_f1": make_answers,
}


def test_map_voc_by_hand():
    # By score: right, wrong, right; precision 1, 1/2, 2/3 at the recalls 1/3, 1/3, 2/3; area 1/3 + 1/3 * 2/3
    truth = column([box(0, 0), box(50, 0)], [box(0, 0)])
    guess = column([box(1, 0, score=0.9), box(20, 20, score=0.8)], [box(0, 1, score=0.7)])
    assert map_voc(truth, guess) == pytest.approx(5 / 9)
    # precision 1 at the recalls 0 to 0.3, 2/3 at 0.4 to 0.6
    assert map_voc(truth, guess, interpolation="11") == pytest.approx((4 + 3 * 2 / 3) / 11)


def test_map_voc_is_a_mean_over_the_labels_of_the_answers():
    truth = column([box(0, 0), box(50, 0, label="bus")])
    assert map_voc(truth, column([box(0, 0)])) == 0.5
    assert map_voc(truth, column([box(0, 0), box(50, 0, label="train")])) == 0.5
    assert map_voc(truth, column([])) == 0


def test_map_voc_counts_a_second_box_and_an_iou_at_the_threshold_as_wrong():
    truth = column([box(0, 0)])
    half = box(0, 0, width=5, score=0.9)
    assert map_voc(truth, column([half])) == 0
    assert map_voc(truth, column([half]), iou=0.49) == 1
    assert map_voc(truth, column([box(0, 0, score=0.8), box(0, 1, score=0.9)])) == 1
    # The second box fits the first true box best, which is taken, though another is near enough.
    truth = column([box(0, 0), box(0, 2)])
    guess = column([box(0, 0, score=0.9), box(0, 0.5, score=0.8)])
    assert map_voc(truth, guess) == 0.5
    assert map_voc(truth, guess, interpolation="missed_at_0") == pytest.approx(1)


def test_map_voc_with_missed_boxes_at_score_0():
    # Pairs: right .9, wrong .8, missed 0, an image with neither 0: precision 1 at recall 1/2, 2/4 at 1.
    truth = column([box(0, 0)], [box(0, 0)], [box(0, 0, label="bus")])
    guess = column([box(0, 0, score=0.9)], [box(30, 0, score=0.8)], [box(0, 0, label="bus", score=0.5)])
    assert map_voc(truth, guess, interpolation="missed_at_0") == pytest.approx((0.75 + 1) / 2)


def plain_iou(one: Any, other: Any) -> float:
    width = max(0, min(one["xmax"], other["xmax"]) - max(one["xmin"], other["xmin"]))
    height = max(0, min(one["ymax"], other["ymax"]) - max(one["ymin"], other["ymin"]))
    areas = [(each["xmax"] - each["xmin"]) * (each["ymax"] - each["ymin"]) for each in (one, other)]
    return width * height / (sum(areas) - width * height)


def plain_voc(truth: Any, guess: Any, threshold: float) -> float:
    """VOC's definition in loops."""
    scores = []
    for label in sorted({each["label"] for image in truth for each in image}):
        found = [
            (each["score"], at, each) for at, image in enumerate(guess) for each in image if each["label"] == label
        ]
        true = [[each for each in image if each["label"] == label] for image in truth]
        taken: set[tuple[int, int]] = set()
        right = []
        for _, at, each in sorted(found, key=lambda one: -one[0]):
            ious = [plain_iou(each, other) for other in true[at]]
            best = int(np.argmax(ious)) if ious else -1
            hit = best >= 0 and ious[best] > threshold and (at, best) not in taken
            right.append(hit)
            if hit:
                taken.add((at, best))
        positives = sum(map(len, true))
        precision = [sum(right[: at + 1]) / (at + 1) for at in range(len(right))]
        scores.append(sum(max(precision[at:]) for at in range(len(right)) if right[at]) / positives)
    return float(np.mean(scores))


def scattered(draws: np.random.RandomState, rows: int) -> Any:
    """Boxes that overlap each other; the last image has one of every label."""

    def some() -> Any:
        x, y, width, height = draws.randint((0, 0, 4, 4), 12).tolist()
        return box(x, y, width, height, LABELS[draws.randint(3)], draws.rand())

    found = [[some() for _ in range(draws.randint(0, 6))] for _ in range(rows)]
    return column(*found, [box(0, 0, label=label, score=0.5) for label in LABELS])


def test_map_voc_agrees_with_plain_loops():
    draws = np.random.RandomState(0)
    for _ in range(30):
        truth, guess = scattered(draws, 6), scattered(draws, 6)
        for threshold in (0.2, 0.5):
            assert map_voc(truth, guess, iou=threshold) == pytest.approx(plain_voc(truth, guess, threshold))


def test_map_coco_by_hand(capsys):
    # Precision 1 up to the recall 1/2: 51 of 101 recalls.
    truth = column([box(0, 0)], [box(0, 0)])
    guess = column([box(0, 0, score=0.9)], [box(30, 0, score=0.8)])
    assert map_coco(truth, guess, iou=0.5) == pytest.approx(51 / 101)
    # IoU 8/12 = 0.667 counts at 0.5, 0.55, 0.6 and 0.65.
    assert map_coco(column([box(0, 0)]), column([box(0, 2)])) == pytest.approx(0.4)
    assert map_coco(column([box(0, 0), box(50, 0, label="bus")]), column([box(0, 0)])) == 0.5
    assert map_coco(truth, column([], [])) == 0
    assert capsys.readouterr().out == ""


def test_map_coco_reads_the_best_boxes_of_an_image_only():
    truth = column([box(0, 0)])
    many = column([box(300 + at, 0, score=0.9) for at in range(100)] + [box(0, 0, score=0.1)])
    assert map_coco(truth, many) == 0
    assert map_coco(truth, many, max_detections=101) == pytest.approx(1 / 101)


def test_map_coco_agrees_with_map_voc_where_they_mean_the_same():
    # Without competition between boxes both rank the same hits; COCO reads the curve at 101 recalls.
    for seed in range(5):
        case = MAKE["map_coco"](np.random.RandomState(seed), 60)
        truth, guess = case.truth[:, 0], case.guess[:, 0]
        assert map_coco(truth, guess, iou=0.6) == pytest.approx(map_voc(truth, guess, iou=0.6), abs=0.02)


def test_width_and_height_do_as_well_as_xmax_and_ymax():
    def wide(each: Any) -> Any:
        width, height = each["xmax"] - each["xmin"], each["ymax"] - each["ymin"]
        return {"score": each["score"], "label": each["label"], "x": each["xmin"], "y": each["ymin"]} | {
            "width": width,
            "height": height,
        }

    draws = np.random.RandomState(1)
    truth, guess = scattered(draws, 5), scattered(draws, 5)
    others = column(*([wide(each) for each in image] for image in guess))
    for metric in (map_coco, map_voc, box_iou_precision):
        assert metric(truth, others) == pytest.approx(metric(truth, guess))


def test_box_iou_precision_by_hand():
    # IoU 8/12 counts at four of six thresholds: TP 1, FP 1, FN 0. Second image: nothing found.
    truth = column([box(0, 0)], [box(0, 0)])
    guess = column([box(0, 2, score=0.5), box(90, 0, score=0.7)], [])
    assert box_iou_precision(truth, guess) == pytest.approx(4 / 6 / 2 / 2)
    # At the threshold a box counts.
    assert box_iou_precision(column([box(0, 0)]), column([box(0, 0, width=5)]), iou=0.5) == 1


def test_box_iou_precision_gives_boxes_in_the_order_of_their_scores():
    truth = column([box(0, 0), box(0, 2)])
    guess = column([box(0, 0, score=0.9), box(0, 0.5, score=0.8)])
    assert box_iou_precision(truth, guess, iou=[0.5]) == 1
    greedy = column([box(0, 1.5, score=0.9), box(0, 3, score=0.8)])  # the first takes the second true box
    assert box_iou_precision(truth, greedy, iou=[0.6]) == pytest.approx(1 / 3)


def test_images_without_boxes():
    truth, guess = column([], [], [box(0, 0)]), column([], [box(0, 0)], [box(0, 0)])
    assert box_iou_precision(truth, guess) == pytest.approx(2 / 3)
    assert box_iou_precision(truth, guess, both_empty=0) == pytest.approx(1 / 3)


def test_boxes_need_no_label_and_no_score():
    bare = [{"xmin": 0.0, "ymin": 0.0, "xmax": 5.0, "ymax": 5.0}]
    for metric in (map_coco, map_voc, box_iou_precision):
        assert metric(column(bare), column(bare)) == 1


def test_point_in_box_by_hand():
    def character(label: str, x: float, y: float) -> Any:
        return {"label": label, "x": x, "y": y, "width": 10.0, "height": 10.0}

    def point(label: str, x: float, y: float) -> Any:
        return {"label": label, "x": x, "y": y}

    truth = column([character("a", 0, 0), character("b", 20, 0)], [character("a", 0, 0)])
    # Inside; of another label; on the edge; a second one in a box that is taken.
    guess = column([point("a", 5, 5), point("c", 25, 5)], [point("a", 0, 5)])
    assert point_in_box_f1(truth, guess) == pytest.approx(2 / 6)
    twice = column([point("a", 5, 5), point("a", 6, 6), point("b", 21, 1)], [point("a", 1, 1)])
    assert point_in_box_f1(truth, twice) == pytest.approx(6 / 7)
    assert point_in_box_f1(truth, column([], [])) == 0
    # The first true box takes the first point that lies in it, also where another order would place both.
    overlapping = column([character("a", 0, 0), character("a", 5, 0)])
    assert point_in_box_f1(overlapping, column([point("a", 7, 5), point("a", 2, 5)])) == pytest.approx(0.5)
    assert point_in_box_f1(overlapping, column([point("a", 2, 5), point("a", 7, 5)])) == 1


def test_map_3d_by_hand():
    truth = column([solid(0)])
    # Cubes of side 2, 0.5 apart: IoU 6 / 10 exceeds 0.5 and 0.55; 0.25 up: 7 / 9 exceeds 0.5 to 0.75.
    assert map_3d(truth, column([solid(0.5)])) == pytest.approx(0.2)
    assert map_3d(truth, column([solid(0, center_z=0.25)])) == pytest.approx(0.6)
    # Turned by 45 degrees the common octagon of two unit squares is 2 (sqrt 2 - 1): IoU sqrt(1/2).
    assert map_3d(truth, column([solid(0, yaw=np.pi / 4)])) == pytest.approx(0.5)
    # Length lies along x at yaw 0, along y a quarter turn later.
    long = column([solid(0, length=6)])
    assert map_3d(long, column([solid(0, width=6, yaw=np.pi / 2)])) == 1
    assert map_3d(long, column([solid(0, width=6)])) == 0


def test_map_3d_is_a_mean_over_the_labels_of_each_row_then_over_rows():
    truth = column([solid(0), solid(9, label="bus")], [solid(0)], [])
    guess = column([solid(0), solid(9, label="bus", score=0.5), solid(30, label="bus", score=0.9)], [], [solid(0)])
    # First row: car 1, bus 1/2. Second: 0. Third: no true box, left out.
    assert map_3d(truth, guess) == pytest.approx(0.75 / 2)


def test_answers_without_boxes():
    for metric in (map_coco, map_voc, box_iou_precision, point_in_box_f1, map_3d):
        with pytest.raises(Unsuited, match="the answers have no box"):
            metric(column([]), column([]))


def test_fields_that_are_missing_are_named():
    truth = column([box(0, 0)])
    with pytest.raises(Unsuited, match="boxes need the field xmin or x; they have score"):
        map_voc(truth, column([{"label": "car", "score": 1.0}]))
    with pytest.raises(Unsuited, match="interpolation is '12', not one of area, 11, missed_at_0"):
        map_voc(truth, truth, interpolation="12")


@pytest.mark.parametrize(("metric", "module"), [(map_coco, "pycocotools.coco"), (map_3d, "shapely")])
def test_what_is_not_installed_is_named(metric, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    case = MAKE[metric.__name__](np.random.RandomState(0), 3)
    with pytest.raises(ToolError, match=r"pip install 'mletools\[vision\]'"):
        metric(case.truth[:, 0], case.guess[:, 0])


HOSTILE = st.sampled_from([0.0, -1.0, 1e308, -1e308, 1e-308, 1e15, 5.0, 1e-5])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(*[HOSTILE] * 5, st.sampled_from([*LABELS, "", "\0"])), max_size=6))
def test_hostile_boxes_neither_crash_nor_win(values):
    boxes = [
        {"label": label, "score": score, "xmin": a, "ymin": b, "xmax": c, "ymax": d}
        for a, b, c, d, score, label in values
    ]
    others = [
        {"label": label, "score": score, "xmin": a, "ymin": b, "width": c, "height": d}
        for a, b, c, d, score, label in values
    ]
    solids = [solid(a, b, d, label, score, width=c, center_z=d) for a, b, c, d, score, label in values]
    points = [{"label": label, "x": a, "y": b} for a, b, _, _, _, label in values]
    truth = column([box(100, 100, 7, 6)])  # no hostile box is near it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for guess in (boxes, others):
            for metric in (map_coco, map_voc, box_iou_precision):
                assert metric(truth, column(guess)) == 0
            allowed = [{**each, "score": abs(each["score"])} for each in guess]
            assert 0 <= map_voc(truth, column(allowed), interpolation="missed_at_0") <= 1
        assert map_3d(column([solid(100, width=3)]), column(solids)) == 0
        assert 0 <= point_in_box_f1(truth, column(points)) <= 1


def test_missed_boxes_do_not_rank_above_predicted_ones():
    truth = column([box(0, 0, 10, 10)], [])
    for score in (0.5, 0):
        guess = column(*[[box(500, 500, score=score)]] * 2)
        assert map_voc(truth, guess, interpolation="missed_at_0") == pytest.approx(1 / 3)
    with pytest.raises(Undefined, match="a box has the score -1; scores must not be below 0"):
        map_voc(truth, column(*[[box(500, 500, score=-1)]] * 2), interpolation="missed_at_0")


def test_spans_by_hand():
    # 10 characters true, 7 found of which 5 right; overlapping spans count once; a span of no length holds nothing.
    truth = column([(0, 10)], [])
    guess = column([(5, 10), (6, 8), (12, 14), (20, 20), (30, 25)], [])
    assert f1_char_spans(truth, guess) == pytest.approx(10 / 17)
    assert f1_char_spans(column([]), column([])) == 1
    assert f1_char_spans(column([(0, 1)]), column([])) == 0


def test_spans_outside_the_text_are_refused():
    truth = column([(0, 10)])
    with pytest.raises(Undefined, match="the span '-3 5' starts before the text"):
        f1_char_spans(truth, column([(-3, 5)]))
    with pytest.raises(Undefined, match=r"the span '3 .*' ends behind any text"):
        f1_char_spans(truth, column([(3, 10**18)]))
    with pytest.raises(Unsuited, match="the answers' span '-3 5' starts before the text"):
        f1_char_spans(column([(-3, 5)]), truth)


def test_spans_agree_with_sets_of_characters():
    for seed in range(20):
        case = MAKE["f1_char_spans"](np.random.RandomState(seed), 10)
        sets = [
            [{at for start, end in cell for at in range(start, end)} for cell in side[:, 0]]
            for side in (case.truth, case.guess)
        ]
        both = sum(len(one & other) for one, other in zip(*sets, strict=True))
        total = sum(map(len, sets[0] + sets[1]))
        assert f1_char_spans(case.truth[:, 0], case.guess[:, 0]) == pytest.approx(2 * both / total)


def test_nq_f1_by_hand():
    # Right, right, wrong, missed, given where there is none, rightly empty: TP 2, FP 2, FN 1.
    truth = column(*map(frozenset, (["3:5", "7:9"], ["YES", "1:2"], ["3:5"], ["3:5"], [], [])))
    guess = column("7:9", "YES", "3:6", "", "3:5", "")
    assert nq_f1(truth, guess) == pytest.approx(4 / 7)
    assert nq_f1(truth, guess, count_empty=True) == pytest.approx(3 / 6)


def test_nq_f1_count_empty_is_f1_over_both_classes():
    from sklearn.metrics import f1_score

    case = MAKE["nq_f1"](np.random.RandomState(5), 200)
    truth, guess = case.truth[:, 0], case.guess[:, 0]
    real = [given in right if given else bool(right) for right, given in zip(truth, guess, strict=True)]
    expected = f1_score(real, [bool(given) for given in guess], average="micro")
    assert nq_f1(truth, guess, count_empty=True) == pytest.approx(expected)


def test_nq_answers_compare_as_numbers_and_may_be_single():
    assert nq_f1(column("3:5", "NO"), column(" 03 : 5", "NO ")) == 1
    for wrong in ("yes", "3:5:7", "3", "a:b", "1" * 30 + ":2", "\u0663:5"):
        with pytest.raises(Undefined, match="is not start:end, YES, NO or empty"):
            nq_f1(column("3:5"), column(wrong))
    with pytest.raises(Unsuited, match="the answers' cell 'maybe' is not start:end"):
        nq_f1(column(frozenset(["maybe"])), column(""))
    with pytest.raises(Unsuited, match="no row of the answers has an answer"):
        nq_f1(column(""), column(""))
