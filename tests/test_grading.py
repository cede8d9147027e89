"""Submissions, metrics, medals, rewards: numbers worked by hand, verdicts word for word."""

import math
from pathlib import Path
from typing import Any

import pytest

from mletools.grading import Verdict, better, grade, medal, metrics, rewards
from mletools.records.errors import ToolError

LABELS = {"id": ["id"], "target": ["kind"], "parse": "label", "labels": ["0", "1", "2"], "rows": 4}
NUMBERS = {"id": ["id"], "target": ["y"], "parse": "number", "rows": 4}


def task(spec: dict[str, Any], metric: str, **thresholds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"answers": "answers.csv", "submission": spec}
    found["metric"] = {"name": metric, "params": {}, "lower_is_better": metrics.lower_is_better(metric)}
    return {**found, "thresholds": thresholds} if thresholds else found


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "answers.csv").write_text("id,kind\na,0\nb,1\nc,2\nd,1\n")
    return tmp_path


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    (tmp_path / "answers.csv").write_text("id,y\n1,1.0\n2,2.0\n3,3.0\n4,4.0\n")
    return tmp_path


def test_rows_are_aligned_by_id_and_labels_by_value(labels: Path) -> None:
    shuffled = b"kind,id,extra\n1.0,d,x\n2,c,\n1,b,\n1,a,\n"
    assert grade(task(LABELS, "accuracy"), labels, shuffled) == Verdict(True, None, 0.75)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n\nid,kind", "the first line is empty: it must name the columns"),
        (b"id\na\n", "column 'kind' is missing; the columns are 'id'"),
        (b"id,kind\na,0\nb,1\nc,2\n", "1 of 4 rows are missing, for example id 'd'"),
        (b"id,kind\na,0\nb,1\nc,2\nd,1\nd,1\n", "id 'd' appears twice"),
        (b"id,kind\na,0\nb,1\nc,2\ne,1\n", "id 'e' is not in the test set (1 such rows)"),
        (b"id,kind\na,0\nb,1\nc,2\nd,7\n", "column 'kind' of row 'd' is '7', not one of 0, 1, 2"),
        (b"id,kind\na,0\nb,1\nc,2\nd,\n", "column 'kind' of row 'd' is '', not one of 0, 1, 2"),
        (b"id,kind\xff\n", "the file is not UTF-8 text"),
        (b"id,kind\na,0\0\n", "the file holds NUL bytes: it must be CSV text"),
        (b"id,kind,kind\na,0,0\n", "column 'kind' appears twice"),
        (b"," * 5000, "the first line names more than 1000 columns"),
    ],
)
def test_a_bad_submission_is_a_verdict_with_a_reason(labels: Path, content: bytes, reason: str) -> None:
    verdict = grade(task(LABELS, "accuracy"), labels, content)
    assert not verdict.valid and verdict.score is None and verdict.medal is None
    assert verdict.reason == reason


@pytest.mark.parametrize("bad", ["nan", "inf", "", "abc", "1e999", "True"])
def test_predictions_must_be_finite_numbers(numbers: Path, bad: str) -> None:
    verdict = grade(task(NUMBERS, "rmse"), numbers, f"id,y\n1,1\n2,{bad}\n3,3\n4,4\n".encode())
    assert verdict.reason == f"column 'y' of row '2' is {bad!r}, not a finite number"


def test_a_broken_answers_file_is_an_error_of_the_tool(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError, match=r"cannot read the answers: .*; is --data the folder that mle-gen-task wrote to\?"
    ):
        grade(task(NUMBERS, "rmse"), tmp_path, b"id,y\n")


def test_scores_by_hand(numbers: Path, labels: Path) -> None:
    off_by_one = b"id,y\n1,2\n2,3\n3,4\n4,5\n"
    (numbers / "answers.csv").write_text("id,y\n1,1.0\n2,2.0\n3,3.0\n4,4.0\n")
    assert grade(task(NUMBERS, "rmse"), numbers, off_by_one).score == 1.0
    assert grade(task(NUMBERS, "mae"), numbers, off_by_one).score == 1.0
    assert grade(task(NUMBERS, "r2"), numbers, off_by_one).score == round(1 - 4 / 5, 5)


def test_more_scores_by_hand() -> None:
    import pandas

    truth = pandas.DataFrame({"kind": ["0", "0", "0", "1"]})
    guess = pandas.DataFrame({"kind": ["0", "0", "1", "1"]})
    assert metrics.score("accuracy", {}, truth, guess, ["kind"]) == 0.75
    assert metrics.score("balanced_accuracy", {}, truth, guess, ["kind"]) == pytest.approx((2 / 3 + 1) / 2)
    assert metrics.score("f1_macro", {}, truth, guess, ["kind"]) == pytest.approx((0.8 + 2 / 3) / 2)
    chances = pandas.DataFrame({"p": [0.1, 0.4, 0.8, 0.5]})
    assert metrics.score("auroc", {}, pandas.DataFrame({"p": [0, 0, 1, 1]}), chances, ["p"]) == 1.0
    onehot, given = pandas.DataFrame({"a": [1, 0], "b": [0, 1]}), pandas.DataFrame({"a": [0.5, 0.2], "b": [0.5, 0.8]})
    assert metrics.score("log_loss", {}, onehot, given, ["a", "b"]) == pytest.approx(
        -(math.log(0.5) + math.log(0.8)) / 2
    )
    with pytest.raises(metrics.Undefined):
        metrics.score("log_loss", {}, onehot, given * 0, ["a", "b"])


def test_probabilities_are_bounded_and_sum_to_one(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("id,a,b\n1,1,0\n2,0,1\n")
    spec = {"id": ["id"], "target": ["a", "b"], "parse": "number", "range": [0, 1], "row_sum": 1, "rows": 2}
    good = grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n2,0.2,0.8\n1,0.5,0.5\n")
    assert good.score == round(-(math.log(0.5) + math.log(0.8)) / 2, 5)
    assert (
        grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n1,0.5,0.6\n2,0,1\n").reason
        == "the targets of row '1' sum to 1.1, not 1"
    )
    outside = grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n1,1.5,-0.5\n2,0,1\n")
    assert outside.reason == "column 'a' of row '1' is 1.5, outside [0, 1]"


def test_medals_are_inclusive_and_the_median_is_strict(numbers: Path) -> None:
    steps = {"median": 0.5, "bronze": 0.6, "silver": 0.7, "gold": 0.8}
    assert [medal(score, steps, False) for score in (0.5, 0.6, 0.7, 0.8, 0.9)] == [
        None,
        "bronze",
        "silver",
        "gold",
        "gold",
    ]
    lower = {"median": 2.0, "bronze": 1.5, "silver": 1.2, "gold": 1.0}
    assert [medal(score, lower, True) for score in (1.6, 1.5, 1.2, 1.0, 0.5)] == [
        None,
        "bronze",
        "silver",
        "gold",
        "gold",
    ]
    assert not better(2.0, 2.0, True) and better(1.9, 2.0, True)
    verdict = grade(task(NUMBERS, "rmse", **lower), numbers, b"id,y\n1,2\n2,3\n3,4\n4,5\n")
    assert verdict == Verdict(True, None, 1.0, "gold", True)


def test_rewards_by_hand() -> None:
    assert rewards.raw(0.25, True) == -0.25 and rewards.raw(0.25, False) == 0.25 and rewards.raw(None, True) is None
    assert rewards.partial_credit(None, True, 0) == -10 and rewards.partial_credit(None, True, 3) == pytest.approx(-9.7)
    assert rewards.partial_credit(0.5, False, 7) == 0.5
    assert rewards.partial_credit(55.0, True, 7) == pytest.approx(-9.3)  # never below the best failure
    with pytest.raises(ValueError):
        rewards.partial_credit(None, True, 8)
    expected = [
        (0, False, False, None, 0),
        (1, False, False, None, 0.1),
        (1, True, False, None, 0.3),
        (1, True, True, None, 0.4),
    ]
    expected += [
        (1, True, True, "bronze", 0.8),
        (1, True, True, "silver", 0.9),
        (1, True, True, "gold", 1.0),
        (0, True, True, "gold", 0.9),
    ]
    for rate, valid, above, name, value in expected:
        assert rewards.milestone(rate, valid, above, name) == value
