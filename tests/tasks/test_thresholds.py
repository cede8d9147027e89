"""How far chance moves a score between gold and bronze: against the standard error of a share, over rows and groups."""

import math

import pytest

from mletools.base.errors import RecordError
from mletools.tasks.soundness.difficulty import medals_stable
from mletools.tasks.table import Rejected
from mletools.tasks.thresholds import medal_stability


def table(ids, values, group=None):
    columns = "id,group,label" if group else "id,label"
    rows = [
        f"{id},{group[at]},{value}" if group else f"{id},{value}"
        for at, (id, value) in enumerate(zip(ids, values, strict=True))
    ]
    return "\n".join([columns, *rows, ""]).encode()


def grading(rows, **metric):
    return {
        "submission": {"file": "submission.csv", "id": ["id"], "target": ["label"], "parse": "label", "rows": rows},
        "metric": {"name": "accuracy", "params": {}, "lower_is_better": False, **metric},
    }


def test_the_standard_error_is_that_of_a_share():
    ids, truth = list(range(100)), ["a", "b"] * 50
    other = {"a": "b", "b": "a"}
    gold = [label if at >= 10 else other[label] for at, label in enumerate(truth)]
    bronze = [label if at >= 40 else other[label] for at, label in enumerate(truth)]
    medals, thresholds = [table(ids, gold), table(ids, bronze)], {"gold": 0.9, "bronze": 0.6}
    stable = medal_stability(grading(100), table(ids, truth), medals, thresholds)
    expected = (math.sqrt(0.9 * 0.1 / 100) + math.sqrt(0.6 * 0.4 / 100)) / 2
    assert stable["gap"] == pytest.approx(0.3)
    assert stable["standard_error"] == pytest.approx(expected, rel=0.3)  # of 30 samples
    assert stable["rows_needed"] == math.ceil(100 * (stable["standard_error"] / 0.3) ** 2)
    again = medal_stability(grading(100), table(ids, truth), medals, thresholds)
    assert again == stable


def test_groups_are_drawn_whole(monkeypatch):
    """All rows of a group are right or wrong together, so the error is that of the number of groups."""
    ids, groups = list(range(100)), [at // 10 for at in range(100)]
    seen = []

    def score(grading, answers, submission):
        rows = [line.split(",") for line in answers.decode().splitlines()[1:]]
        seen.append(rows)
        return sum(int(row[2]) for row in rows) / len(rows)

    truth = [str(int(group < 5)) for group in groups]
    answers = table(ids, truth, groups)
    monkeypatch.setattr("mletools.tasks.thresholds.score_bytes", score)
    stable = medal_stability(
        grading(100, group="group"), answers, [table(ids, truth)] * 2, {"gold": 1.0, "bronze": 0.5}
    )
    assert stable["standard_error"] == pytest.approx(math.sqrt(0.25 / 10), rel=0.4)
    for rows in seen:
        assert len(rows) == 100 and [row[1] for row in rows] == [str(at // 10) for at in range(100)]


def test_a_metric_without_a_score_on_most_samples_is_rejected(monkeypatch):
    def undefined(grading, answers, submission):
        raise RecordError("no answer is 1")

    ids = list(range(10))
    monkeypatch.setattr("mletools.tasks.thresholds.score_bytes", undefined)
    with pytest.raises(Rejected, match="medals_stable: the metric has no score"):
        medal_stability(grading(10), table(ids, "ab" * 5), [table(ids, "ab" * 5)] * 2, {"gold": 1.0, "bronze": 0.5})


def test_equal_medals_are_out_of_order():
    with pytest.raises(Rejected, match="thresholds_ordered: gold and bronze are equal"):
        medal_stability(grading(2), table([0, 1], "ab"), [table([0, 1], "ab")] * 2, {"gold": 0.5, "bronze": 0.5})


def test_the_check_compares_the_gap_with_the_error():
    class View:
        def __init__(self, gap, error):
            known = {"gap": gap, "standard_error": error, "rows_needed": 1}
            self.task = {"provenance": {"medal_stability": known}}

    assert medals_stable(View(0.2, 0.2)) == ""
    assert medals_stable(View(0.1, 0.2)) == "gold is 0.1 from bronze, the standard error of a score is 0.2"
