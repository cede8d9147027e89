"""JSON out of models' answers: what is found, and what is refused in words."""

from typing import Any

import pytest

from mletools.scaffolds.search.replies import json_in, number_of, text_of


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
        ('{"a": 1', dict, "no JSON object"),
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
        text_of({"why": value}, "why")


def test_a_text_is_cut_and_can_be_kept() -> None:
    assert text_of({"why": " ab\ud83d" + "c" * 50}, "why", 5) == "ab\ufffdcc"


@pytest.mark.parametrize("value", [True, "3", None, float("nan"), float("inf"), 10**400])
def test_a_number_has_to_be_one(value: Any) -> None:
    with pytest.raises(ValueError, match='"n" has to be a number'):
        number_of({"n": value}, "n")


def test_a_number_is_a_float() -> None:
    assert number_of({"n": 3}, "n") == 3.0
