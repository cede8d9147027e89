"""Submissions that are made of several, and the choice on rows that neither the search nor a program has seen."""

from pathlib import Path
from typing import Any

import pytest
from test_search_loop import Town, play, settings

from mletools.scaffolds.search.ensemble import combined


@pytest.mark.parametrize(
    ("texts", "regression", "wanted"),
    [
        (("id,y\n1,1.5\n2,3\n", "id,y\n2,4\n1,2.5\n"), False, "id,y\n1,2.0\n2,3.5\n"),  # by ids, in the first's order
        (("id,y\n1,1\n2,3\n", "id,y\n1,2\n2,4\n"), True, "id,y\n1,1.5\n2,3.5\n"),
        (("id,y\n1,1\n2,3\n", "id,y\n1,2\n2,4\n", "id,y\n1,2\n2,5\n"), False, "id,y\n1,2\n2,3\n"),  # labels
        (("id,y\n1,cat\n", "id,y\n1,dog\n"), True, "id,y\n1,cat\n"),  # the better one of two
        (("id,y\n1,cat\n", "id,y\n1,dog\n", "id,y\n1,dog\n"), False, "id,y\n1,dog\n"),
        (("id,y\n1,0.5\n", "id,y\n1,nan\n"), True, "id,y\n1,0.5\n"),
        (('id,y\n1,"a, b"\n', 'id,y\r\n1,"a, b"\r\n'), False, 'id,y\n1,"a, b"\n'),
        (('id,y\n1,"a\rb"\n',), False, 'id,y\n1,"a\rb"\n'),
        (("\ufeffid,y\n1,2.5\n\n", "id,y\n1,0.5\n"), False, "id,y\n1,1.5\n"),
        (("id,y\n1,1.5\n", "id,y\n2,1.5\n"), False, None),
        (("id,y\n1,1.5\n", "id,z\n1,1.5\n"), False, None),
        (("id,y\n1,1.5\n1,2.5\n", "id,y\n1,1.5\n"), False, None),
        (("id,y\n1,1.5\n", "id,y\n1\n"), False, None),
        (("", "id,y\n1,1.5\n"), False, None),
        (("x,y\n1,1.5\n",), False, None),
        ((), False, None),
    ],
)
def test_submissions_are_joined(texts: tuple[str, ...], regression: bool, wanted: str | None) -> None:
    made = combined([text.encode() for text in texts], ["id"], regression)
    assert made == (None if wanted is None else wanted.encode())


def test_what_is_no_text_is_not_joined() -> None:
    assert combined([b"id,y\n1,1.5\n", b"\xff\xfe"], ["id"], True) is None


class Apart(Town):
    """Selection rows say something else than validation rows: of nodes that work, the largest number is the best."""

    made: float | None = None

    def run(self, code: str, *ran: Any, **more: Any) -> dict[str, Any]:
        result = super().run(code, *ran, **more)
        if result["validation"] is not None:
            worth = 10_000 - float(result["validation"]["score"])
            kept = {"file": f"selection {worth}", "digest": f"{worth}", "bytes": 1}
            result["selection"] = {"file": kept, "verdict": {"valid": True, "reason": None, "score": worth}}
        return result

    def ensemble(self, members: Any) -> dict[str, Any] | None:
        self.members = members
        if self.made is None:
            return None
        kept = {"file": "joined", "digest": "joined", "bytes": 1}
        return {"submission": kept, "verdict": {"valid": True, "reason": None, "score": self.made}}


@pytest.mark.parametrize(("made", "used"), [(None, False), (99999.0, False), (0.5, True)])
def test_the_choice_is_made_on_selection_rows(tmp_path: Path, made: float | None, used: bool) -> None:
    place = type("Place", (Apart,), {"made": made})
    found = settings("ensemble=3", preset="aide", evaluation="three-splits", max_turns=12, max_seconds=None)
    records, town = play(tmp_path, found, place)
    record = records[-1]
    candidates = record["search"]["candidates"]
    assert record["search"]["chosen"] == candidates[0]["node"]
    assert [each["holdout"] for each in candidates] == sorted(each["holdout"] for each in candidates)
    assert [each["holdout"] for each in candidates] == [10_000 - each["score"] for each in candidates]
    scores = [turn["node"]["score"] for turn in record["turns"] if turn["node"]["score"] is not None]
    assert len(candidates) == 6 and min(scores) in [each["score"] for each in candidates]
    assert candidates[0]["score"] != min(scores)  # the search's best is not what these rows say
    assert ("ensemble" in record["search"]) == (record["execution"]["submission"]["file"] == "joined") == used
    if used:
        assert record["search"]["ensemble"] == [each["node"] for each in candidates[:3]]
    asked = "".join(town.prompts)
    assert not any(f"{each['holdout']:g}" in asked for each in candidates if each["holdout"] > 1000)
