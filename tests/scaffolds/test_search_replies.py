"""JSON out of models' answers: what is found, and what is refused in words."""

from typing import Any

import pytest

from mletools.scaffolds.search.data import PARTS
from mletools.scaffolds.search.reasoning import PART_SYNONYMS
from mletools.scaffolds.search.replies import Fields, Reading, json_in


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ('{"a": 1}', dict, {"a": 1}),
        ('<think>{"a": 0}</think>Here it is: {"a": 1}.', dict, {"a": 1}),
        ('First [1] of all.\n```json\n[{"a": 1}]\n```', list, [{"a": 1}]),
        ('As said in [1], it is [{"a": 1}, {"a": 2}]', list, [{"a": 1}, {"a": 2}]),
        ('{"challenges": [{"a": 1}]}', list, [{"a": 1}]),
        ('{broken} {"a": "two\nlines"}', dict, {"a": "two\nlines"}),
        ("```\n{}\n```", dict, {}),
    ],
)
def test_the_value_is_found(text: str, kind: type, found: Any) -> None:
    assert json_in(text, kind) == found


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("no", dict, "no JSON object"),
        (
            '{"a": 1,',
            dict,
            r"no JSON object .* read: Expecting property name enclosed in double quotes \(line 1, column",
        ),
        ('{"a": "cut', dict, "no JSON object .* read: Unterminated string"),
        ('{"a": "use {x}', dict, "no JSON object"),
        ('{"a": [1], "b": [2]}', list, "no JSON list"),
        ("<think>[1]", list, "no JSON list"),
        ("[" * 100_000, list, "no JSON list"),
    ],
)
def test_what_holds_none_is_refused(text: str, kind: type, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        json_in(text, kind)


@pytest.mark.parametrize("value", ["", "  ", 3, None, ["a"]])
def test_a_text_has_to_be_one(value: Any) -> None:
    with pytest.raises(ValueError, match='"why" has to be a text'):
        Fields({"why": value}).text("why")


def test_a_text_is_cut_and_can_be_kept() -> None:
    assert Fields({"why": " ab\ud83d" + "c" * 50}).text("why", 5) == "ab\ufffdcc"


@pytest.mark.parametrize("value", [True, "3 or 4", "60/100", "high", "", None, float("nan"), float("inf"), 10**400])
def test_a_number_has_to_be_one(value: Any) -> None:
    with pytest.raises(ValueError, match='"n" has to be a number'):
        Fields({"n": value}).number("n")


def test_a_number_is_a_float() -> None:
    assert Fields({"n": 3}).number("n") == 3.0


REPAIRED = {
    '{"a": 1,}': {"a": 1},
    "{'a': True, 'b': None}": {"a": True, "b": None},
    '{"a": 1 // one\n}': {"a": 1},
    '{"a": /* one */ 1}': {"a": 1},
    '{"a": "x", # it\'s "so"\n "b": 2}': {"a": "x", "b": 2},
    '{"a": [1, {"b": 2': {"a": [1, {"b": 2}]},
    'I {do} so: {"a": 1,} as said.': {"a": 1},
    'So:\n```JSON\n{"a": 1,\n "b": 2,}\n```\nThat is [all': {"a": 1, "b": 2},
    '```json\n{"a": "x"\n```': {"a": "x"},
    '{"a": "he said "hi" to me"}': {"a": 'he said "hi" to me'},
    '{"a": "\\sigma"}': {"a": "\\sigma"},
}


@pytest.mark.parametrize("text", REPAIRED)
def test_json_with_faults_is_repaired_and_noted(text: str) -> None:
    notes = Reading()
    assert json_in(text, dict, ("a",), notes) == REPAIRED[text]
    assert notes.lenient == ["JSON was repaired"]


ASKED = '{"action": "select", "candidate": 1}'
OTHER = '{"action": "create", "candidate": null, "more": [1, 2, 3]}'


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        (ASKED, True),
        (f"```json\n{ASKED}\n```", True),
        (f"Candidate 0 {{as it is}} needs [2] hours.\n\n```json\n{ASKED}\n```", True),
        (f"A first thought: {OTHER}\n\n```json\n{ASKED}\n```\n", True),  # the block is the answer
        (f"I choose 1, so\n\n{ASKED}", True),
        (f"```json\n{ASKED}\n```\nOnce more:\n```json\n{ASKED}\n```", True),
        (f"```json\n{OTHER}\n```\nNo, better:\n```json\n{ASKED}\n```", False),
        (f"{OTHER}\nNo, better: {ASKED}", False),
        (f"Well.\n```json\n{ASKED[:-1]},}}\n```", False),
    ],
)
def test_reasoning_before_the_json_is_exact_and_the_last_value_counts(text: str, exact: bool) -> None:
    notes = Reading()
    assert json_in(text, dict, ("action", "candidate"), notes) == {"action": "select", "candidate": 1}
    assert (not notes.lenient) == exact


def test_a_part_of_a_broken_value_is_not_taken_for_the_whole() -> None:
    notes = Reading()
    assert json_in('{"a": "x", "b": {"c": 1},}', dict, ("a", "b"), notes) == {"a": "x", "b": {"c": 1}}
    assert json_in('[{"a": [1]}, {"a": [2]},]', list, ("a",), notes) == [{"a": [1]}, {"a": [2]}]
    assert notes.lenient
    notes = Reading()
    assert json_in('{"a": 1}', dict, ("a",), notes) == {"a": 1}
    assert not notes.lenient


def test_a_repair_that_loses_words_is_not_taken() -> None:
    with pytest.raises(ValueError, match="no JSON object that can be read: Expecting ',' delimiter"):
        json_in('{"a": "He wrote "x, y", and "z: w" too", "b": 1}', dict, ("a", "b"))


@pytest.mark.parametrize(
    ("value", "number"),
    [("8", 8), ("8.0", 8), (" 7/10 ", 7), ("7 out of 10", 7), ("8 (high)", 8), ("8.5/10 (very high)", 8.5)],
)
def test_numbers_in_words_are_read_and_noted(value: str, number: float) -> None:
    notes = Reading()
    assert Fields({"n": value}, notes).number("n", (1, 10)) == number
    assert notes.lenient == ['"n"']


@pytest.mark.parametrize("value", ["11/10", "7/100", "7-8", "8, high", "1_0", "NaN", "1e3"])
def test_numbers_in_doubt_are_not(value: str) -> None:
    with pytest.raises(ValueError, match='"n" has to be a number from 1 to 10, not "'):
        Fields({"n": value}).number("n", (1, 10))


@pytest.mark.parametrize(("value", "flag"), [("yes", True), ("True", True), (" NO. ", False), ("false", False)])
def test_flags_in_words_are_read(value: str, flag: bool) -> None:
    assert Fields({"f": value}).flag("f") is flag
    for doubt in ("maybe", "", 1, 0, None, ["yes"]):
        with pytest.raises(ValueError, match='"f" has to be true or false'):
            Fields({"f": doubt}).flag("f")


@pytest.mark.parametrize(
    ("value", "index"), [("1", 1), (1.0, 1), ("#1", 1), ("Candidate 1", 1), ("1.0", 1), (0, 0), (2, 1), ("2", 1)]
)
def test_indices_are_read(value: Any, index: int) -> None:
    assert Fields({"candidate": value}).index("candidate", 2) == index
    for doubt in (3, "3", -1, 0.5, "0 or 1", True, "first", float("nan")):
        with pytest.raises(ValueError, match='"candidate" has to be a number from 0 to 1'):
            Fields({"candidate": doubt}).index("candidate", 2)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("model", "Model"),
        ("Model ", "Model"),
        ("**FeatureEng**", "FeatureEng"),
        ("feature_eng", "FeatureEng"),
        ("Feature Engineering", "FeatureEng"),
        ("features", "FeatureEng"),
        ("data-loading", "DataLoadSpec"),
        ("ensembling", "Ensemble"),
    ],
)
def test_labels_are_matched(value: str, part: str) -> None:
    notes = Reading()
    assert Fields({"Component": value}, notes).label("component", PARTS, PART_SYNONYMS) == part
    assert notes.lenient == ['the name "component"', '"component"']
    for doubt in ("preprocessing", "Model, Ensemble", "", None, 3):
        with pytest.raises(ValueError, match='"component" has to be one of DataLoadSpec, FeatureEng'):
            Fields({"component": doubt}).label("component", PARTS, PART_SYNONYMS)
