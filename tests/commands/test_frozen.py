"""The comparison behind `make frozen`: that it meets every command and sees a change. The cases themselves run there."""

import importlib.util
import json
from typing import Any

import pytest
from conftest import COMMANDS, TESTS

from mletools.scaffolds import SCAFFOLDS
from mletools.scaffolds.search.settings import PRESETS

spec = importlib.util.spec_from_file_location("frozen_compare", TESTS / "frozen" / "compare.py")
assert spec and spec.loader
compare: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)

CASES = compare.read_cases((TESTS / "frozen" / "cases").read_text())
ROLLOUT = {"kind": "rollout", "id": "r", "usage": {"seconds": 2.5, "usd": None}, "grade": {"score": 0.5, "valid": True}}


def line(**changes: Any) -> str:
    return json.dumps({**ROLLOUT, **changes}) + "\n"


SCAFFOLDED = [f"--scaffold {name}" for name in SCAFFOLDS if name != "single"]
SEARCHED = [f"--preset {name}" for name in PRESETS if name != "rd-agent"]


@pytest.mark.parametrize("words", [*COMMANDS, *SCAFFOLDED, *SEARCHED])
def test_every_command_scaffold_and_preset_has_a_case(words: str) -> None:
    assert any(words in case.command for case in CASES.values())


def test_the_committed_outputs_are_those_of_the_digests() -> None:
    _, rows = compare.committed()
    outputs = compare.kept_outputs()
    assert list(rows) == list(outputs) == list(CASES)
    assert rows == {name: compare.row_of(name, output) for name, output in outputs.items()}
    assert not [name for name, output in outputs.items() if "\nexit code" in output]


def test_what_is_measured_is_left_out_and_nothing_else() -> None:
    before = line(lineage=[{"tool": "mle-grade", "version": "1.0"}], version=1)
    again = line(lineage=[{"tool": "mle-grade", "version": "2.0"}], version=1, usage={"seconds": 9.5, "usd": None})
    assert json.loads(compare.normalised(before)) == json.loads(compare.normalised(again))
    for changes in ({"version": 2}, {"usage": {"seconds": None, "usd": None}}, {"usage": {"seconds": 1, "usd": 0.1}}):
        assert compare.normalised(line(**changes)) != compare.normalised(line(version=1))
    told = [
        line(scaffold=name, messages=[{"content": text}], usage={"prompt_tokens": len(text)})
        for name in ("react", "single")
        for text in ("ended after 2 s.", "ended in less than a second.")
    ]
    react, again, single, other = map(compare.normalised, told)
    assert react == again and single != other
    ran, older = ({"execution": {"status": "ok", **more}, "machine": 1} for more in ({"machine": {"cores": 2}}, {}))
    assert compare.normalised(line(**ran)) == compare.normalised(line(**older)) == line(**older).replace("2.5", "1.0")
    assert compare.normalised("a table\nwith 2.5 s in it\n") == "a table\nwith 2.5 s in it\n"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"grade": {"score": 0.25, "valid": True}}, "    grade.score: 0.5 -> 0.25"),
        ({"grade": {"score": 0.5, "valid": 1}}, "    grade.valid: true -> 1"),
        ({"grade": {"score": 0.5}}, "    grade.valid: true is gone"),
        ({"turns": [1]}, "    turns: new, [1]"),
        ({"id": "rr"}, '    id, from character 1 on: "r" -> "rr"'),
        ({"grade": {"valid": True, "score": 0.5}}, "  only the order of keys"),
    ],
)
def test_the_first_record_that_changed_is_shown_by_its_fields(changes: dict[str, Any], told: str) -> None:
    lines = compare.difference(line() * 2, line() + line(**changes))
    assert lines[0] == "  1 of 2 lines differ" and told in lines


def test_a_text_is_shown_by_its_lines() -> None:
    lines = compare.difference("valid 3\nmedals 1\n", "valid 3\nmedals 2\nnew\n")
    assert lines[0] == "  1 of 2 lines differ, now 3" and {"  -medals 1", "  +medals 2"} <= set(lines)


def test_a_case_is_run_with_those_that_it_reads() -> None:
    cases = compare.read_cases("# note\na: mle-x\nb: mle-y @a/file\n  --more\nc: mle-z\nd: mle-z @b @c\n")
    assert cases["b"].command == "mle-y @a/file --more" and list(compare.chosen(cases, ["b"])) == ["a", "b"]
    assert list(compare.chosen(cases, [])) == ["a", "b", "c", "d"]
    with pytest.raises(SystemExit, match="no case before it"):
        compare.read_cases("a: mle-x @b\nb: mle-y\n")
