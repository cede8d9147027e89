"""What may be predicted where a label, tag, token or ranked item is asked for: never junk, whatever the grader reads.

Not covered: the competitions' own records (test_competition_notes).
"""

from typing import Any

import pytest
from submission_builders import task

from mletools.grading import Invalid, check_task, score_bytes
from mletools.grading.metrics import METRICS

JUNK = ["inf", "-inf", "nan", "text", "12%", "1.5", "yes", "1e400", "0x1", "1_0", "True", "\uff11"]
LISTS = [
    ("tokens", "levenshtein_per_token", {}, {}),
    ("tagset", "f1_sample_mean", {}, {}),
    ("ranked", "map_at_k", {"k": 3}, {}),
    ("ranked", "map_at_k", {"k": 3}, {"answer_parse": "label"}),
    ("ranked", "error_rate", {}, {"answer_parse": "label"}),
]


def column(cells: list[str]) -> bytes:
    quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
    return ("id,y\n" + "".join(f"r{at},{cell}\n" for at, cell in enumerate(quoted))).encode()


def verdict(answers: list[str], cells: list[str], metric: str = "accuracy", **more: Any) -> float | str:
    """The score, or the reason why there is none."""
    spec = {"parse": "label", **more.pop("submission", {})}
    made = task(
        metric,
        more.pop("params", {}),
        submission=spec,
        rule={"lower_is_better": METRICS[metric].lower_is_better},
        **more,
    )
    check_task(made)
    try:
        return score_bytes(made, column(answers), column(cells))
    except Invalid as invalid:
        return str(invalid)


@pytest.mark.parametrize("junk", JUNK)
def test_labels_are_whole_numbers_where_all_answers_are(junk: str) -> None:
    told = "read as an empty cell" if junk == "nan" else "not a whole number, as all answers are"
    assert verdict(["1", "2", "0"], ["1", junk, "0"]) == f"column 'y' of row 'r1' is {junk!r}, {told}"
    assert verdict(["1", "2", "0"], [junk] * 3) == f"column 'y' of row 'r0' is {junk!r}, {told}"


@pytest.mark.parametrize("cell", ["2", "2.0", "2.", "+2", "002", " 2 ", "2e0", "20e-1"])
def test_a_label_is_a_number_however_it_is_written(cell: str) -> None:
    assert verdict(["1", "2", "0"], ["1", cell, "0"]) == 1


@pytest.mark.parametrize(
    ("answer", "cell"), [("2.50", "2.5"), ("2.5", "2.500"), ("0.10", ".1"), ("-1.20", "-1.2"), ("1e-7", "1e-7")]
)
def test_a_decimal_label_is_one_however_many_zeros_end_it(answer: str, cell: str) -> None:
    """pandas writes 2.5 for 2.50 again."""
    assert verdict([answer, "3.75", "1.25"], [cell, "3.75", "1.25"]) == 1
    stated = {"labels": [answer, "3.75", "1.25"]}
    assert verdict([answer, "3.75", "1.25"], [cell, "3.75", "1.25"], submission=stated) == 1


@pytest.mark.parametrize(("parse", "metric"), [("tagset", "f1_sample_mean"), ("ranked", "map_at_k")])
def test_whole_items_are_read_as_pandas_writes_them_beside_an_empty_cell(parse: str, metric: str) -> None:
    more = {"submission": {"parse": parse, "empty_ok": True}, "params": {"k": 3} if parse == "ranked" else {}}
    found = [
        verdict(["7", "3", "12"], cells, metric, **more)
        for cells in (["7", "", "12"], ["7.0", "", "12.0"], ["8.0", "", "12.0"])
    ]
    assert found[0] == found[1] > found[2]


@pytest.mark.parametrize("cell", ["7", "-1", "99999999999999999999999", "1e15"])
def test_a_class_that_no_answer_has_is_wrong_but_no_junk(cell: str) -> None:
    assert verdict(["1", "2", "0", "1"], ["1", cell, "0", "1"]) == 0.75


def test_long_whole_numbers_compare_by_all_their_digits() -> None:
    assert verdict(["1000000000000000001", "3"], ["1000000000000000001", "3"]) == 1
    assert verdict(["1000000000000000001", "3"], ["1000000000000000002", "3"]) == 0.5
    assert verdict(["1000000000000000001", "3"], ["01000000000000000001", "+3"]) == 1


@pytest.mark.parametrize(
    "cells",
    [["True", "False"], ["TRUE", "false"], ["1", "0"], ["1.0", "0.0"], [" 1", "0"]],
)
def test_truth_values_as_pandas_reads_a_column_of_them(cells: list[str]) -> None:
    assert verdict(["True", "False"], cells) == 1
    assert verdict(["1", "0"], cells) == 1
    assert verdict(["True", "False"], cells[::-1]) == 0


@pytest.mark.parametrize(
    "cells",
    [["True", "0"], ["1", "False"], ["tRUE", "False"], ["yes", "no"], ["True ", "False"], ["1", "2"], ["1", "0.5"]],
)
def test_other_spellings_are_no_truth_values(cells: list[str]) -> None:
    reason = verdict(["True", "False"], cells)
    assert isinstance(reason, str) and "not True or False (a column may hold 1 and 0 instead, not both)" in reason


def test_truth_values_are_no_classes_beyond_0_and_1() -> None:
    reason = verdict(["0", "1", "2"], ["True", "False", "True"])
    assert reason == "column 'y' of row 'r0' is 'True', not a whole number, as all answers are"
    reason = verdict(["0", "1", "1"], ["True", "0", "1"])
    assert reason == "column 'y' of row 'r0' is 'True', not a whole number, as all answers are"


@pytest.mark.parametrize("junk", ["inf", "nan", "1.5", "3", "", " ", "NA", "null", "None", "#N/A"])
def test_a_number_or_a_missing_value_is_no_word(junk: str) -> None:
    reason = verdict(["cat", "dog"], ["cat", junk])
    assert isinstance(reason, str) and reason.startswith("column 'y' of row 'r1' is ")
    assert verdict(["cat", "dog"], ["cat", "cow"]) == 0.5
    assert verdict(["cat", "7"], ["cat", "8"]) == 0.5


def test_a_missing_value_that_is_an_answer_is_a_label() -> None:
    assert verdict(["NA", "DE", "None"], ["NA", "DE", "None"]) == 1
    assert verdict(["cat", "dog"], ["cat", "nan"], submission={"empty_ok": True}) == 0.5


def test_a_stated_alphabet_refuses_every_other_word() -> None:
    spec = {"labels": ["cat", "dog", "cow"]}
    assert verdict(["cat", "dog"], ["cat", "cow"], submission=spec) == 0.5
    for junk in (*JUNK, "cats", "cat ", ""):
        reason = verdict(["cat", "dog"], ["cat", junk], submission=spec)
        assert reason == f"column 'y' of row 'r1' is {junk!r}, not one of cat, dog, cow"
    assert verdict(["cat", "emu"], ["cat", "emu"], submission=spec) == 1  # what an answer is may be predicted


def test_text_labels_keep_the_space_around_them() -> None:
    assert verdict(["cat", "dog"], ["cat ", "dog"]) == 0.5
    assert verdict(["cat ", "dog"], ["cat ", "dog"]) == 1


@pytest.mark.parametrize(("kind", "metric", "params", "more"), LISTS)
@pytest.mark.parametrize("junk", [each for each in JUNK if each != "True"])
def test_items_are_whole_numbers_where_those_of_all_answers_are(
    kind: str, metric: str, params: dict[str, Any], more: dict[str, Any], junk: str
) -> None:
    spec = {"parse": kind}
    reason = verdict(["3", "12"], ["3", f"12 {junk}"], metric, params=params, submission=spec, **more)
    assert reason == f"column 'y' of row 'r1' is '12 {junk}': {junk!r} is not a whole number, as all answers are"
    assert isinstance(verdict(["3", "12"], ["4", "12"], metric, params=params, submission=spec, **more), float)


@pytest.mark.parametrize(("kind", "metric", "params", "more"), LISTS[:3])
def test_items_of_words_may_be_anything(kind: str, metric: str, params: dict[str, Any], more: dict[str, Any]) -> None:
    got = verdict(["a b", "b"], ["a 7", "12%"], metric, params=params, submission={"parse": kind}, **more)
    assert isinstance(got, float)
    empty = verdict(["a b", "b"], ["a", "nan"], metric, params=params, submission={"parse": kind}, **more)
    assert empty == "column 'y' of row 'r1' is 'nan', read as an empty cell"


def test_the_class_of_a_box_is_a_whole_number_where_all_are() -> None:
    spec = {"parse": "boxes", "fields": ["label", "x", "y"], "empty_ok": True}
    more = {"answer_fields": ["label", "x", "y", "width", "height"], "submission": spec}
    answers = ["3 0 0 10 10", "4 0 0 10 10"]
    assert verdict(answers, ["3 5 5", "4 5 5"], "point_in_box_f1", **more) == 1
    reason = verdict(answers, ["3 5 5", "inf 5 5"], "point_in_box_f1", **more)
    assert reason == "column 'y' of row 'r1' is 'inf 5 5': 'inf' is not a whole number, as all answers are"
    assert verdict(["U+1 0 0 10 10", answers[1]], ["U+1 5 5", "inf 5 5"], "point_in_box_f1", **more) == 0.5


def test_whole_items_compare_as_numbers_where_the_record_says_so() -> None:
    spec = {"parse": "tokens", "items": "whole"}
    assert verdict(["7 12", "3"], ["07 +12", "003"], "levenshtein_per_token", submission=spec) == 0
    assert verdict(["7 12", "3"], ["07 12", "3"], "levenshtein_per_token", submission={"parse": "tokens"}) > 0  # type: ignore[operator]
    reason = verdict(["7 12", "3"], ["7 12", "3.0"], "levenshtein_per_token", submission=spec)
    assert reason == "column 'y' of row 'r1' is '3.0': '3.0' is not a whole number"
    ranked = {"parse": "ranked", "items": "whole"}
    assert verdict(["7", "3"], ["07 3", "3"], "error_rate", submission=ranked, answer_parse="label") == 0


@pytest.mark.parametrize("metric, params", [("map_at_k", {"k": 2}), ("mrr", {}), ("error_rate", {"top_k": 2})])
@pytest.mark.parametrize("right, other", [("007", "012"), ("1.0", "2.0"), ("TRUE", "FALSE"), ("a", "b")])
def test_ranked_items_are_read_as_the_label_that_they_are_compared_with(
    right: str, other: str, metric: str, params: Any
) -> None:
    told: dict[str, Any] = {"params": params, "submission": {"parse": "ranked"}, "answer_parse": "label"}
    for item in {right, right.lstrip("0")}:
        assert verdict([right] * 3, [f"{item} {other}"] * 3, metric, **told) == METRICS[metric].best


@pytest.mark.parametrize(
    ("separator", "cell", "score"),
    [
        (" ", "4 5", 1 / 2),
        (" ", "4  5", 1 / 3),
        (" ", " 4 5", 1 / 3),
        (" ", "4\t5", None),
        ("\t", "4\t5", 1 / 2),
        ("\t", "4\t\t5", 1 / 3),
        (None, "4  5", 1 / 2),
        (None, "4 \t 5", 1 / 2),
        (",", "4,, 5", 1 / 2),
    ],
)
def test_how_each_separator_parts(separator: str | None, cell: str, score: float | None) -> None:
    spec = {"parse": "ranked", **({"separator": separator} if separator else {})}
    got = verdict(["5"], [cell], "map_at_k", params={"k": 5}, submission=spec, answer_parse="label")
    assert got == pytest.approx(score) if score else "not a whole number" in str(got)


def test_a_missing_value_is_read_as_the_record_says() -> None:
    spec = {"parse": "text", "empty_ok": True, "missing_as": "nan"}
    for cell in ("", "NA", "null", "nan"):
        assert verdict(["nan", "x"], [cell, "x"], submission=spec) == 1
    assert verdict(["NA", "x"], ["None", "x"], submission=spec) == 1  # the answers' cells too
    assert verdict(["NA", "x"], ["None", "x"], submission={"parse": "text", "empty_ok": True}) == 0.5


def test_a_column_of_truth_values_is_one_of_numbers() -> None:
    number = {"submission": {"parse": "number"}}
    assert verdict(["True", "False"], ["True", "false"], "auroc", **number) == 1
    assert verdict(["1", "0"], ["0.5", "True"], "auroc", **number) == (
        "column 'y' of row 'r1' is 'True', not a finite number"
    )
