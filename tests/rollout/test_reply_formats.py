"""mle-rollout reads the replies of tests/cases/replies from a server, one run a scaffold, and says how in each turn."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from played import FAST, write_tasks
from reply_cases import CaseServer, ReplyCase, cases

END = {"react": "<answer>submission</answer>", "codeact": "<finish></finish>", "memory": "I am done."}
PROGRAM = "```python\nopen('submission.csv', 'w').close()\n```"
EXACT_IDEA = "ANALYSIS_ON_CURRENT_PROGRESS: a\nACTION: b\nRATIONALE: c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replies")
    write_tasks(folder)
    return folder


def rollout(folder: Path, server: CaseServer, scaffold: str, *options: str, tasks: str = "tasks.jsonl") -> Any:
    """The finished command and its rollouts, by sample."""
    at = ("-m", "m", "--model-url", f"{server.url}/v1", "-j", "1", "-k")
    done = run_command("mle-rollout", "--scaffold", scaffold, *at, *options, "--data", ".", tasks, cwd=folder)
    return done, records(done.stdout)


def turns_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [turn for record in found for turn in record["turns"]]


def check(turns: list[dict[str, Any]], expected: list[ReplyCase]) -> None:
    """Each turn was read as its case says, and did what was read."""
    assert len(turns) >= len(expected)
    for turn, case in zip(turns, expected, strict=False):
        assert turn["format"] == case.format, case.name
        if case.read == "none":
            assert turn["action"] in ("none", "solve", "improve", "idea"), case.name
        elif case.scaffold != "idea" and "code" in turn:
            assert turn["code"].strip("\n") == case.content, case.name


@pytest.mark.slow
def test_single(folder: Path) -> None:
    expected = cases("single")
    with CaseServer(expected) as server:
        _, found = rollout(folder, server, "single", "-g", str(len(expected)))
        assert server.asked == len(expected)
    for record, case in zip(found, expected, strict=True):
        assert record["turns"][0]["format"] == case.format, case.name
        assert (record["code"] or "").strip("\n") == case.content, case.name
        finished = "length" if case.finish_reason == "length" else "finished" if case.read == "exact" else "format"
        assert record["stop_reason"] == finished, case.name
    with CaseServer(expected) as server:
        _, again = rollout(folder, server, "single", "-g", str(len(expected)), "--format", "lenient")
    assert [record["id"] for record in again] == [record["id"] for record in found]
    for record, case in zip(again, expected, strict=True):
        good = case.finish_reason == "length" or record["stop_reason"] == (
            "format" if case.read == "none" else "finished"
        )
        assert good, case.name


@pytest.mark.slow
def test_improve(folder: Path) -> None:
    expected = cases("improve")
    with CaseServer(expected) as server:
        _, found = rollout(folder, server, "improve", "-g", str(len(expected) // 2))
    check(turns_of(found), expected)
    for record in found:
        exact = [turn["format"]["read"] == "exact" for turn in record["turns"]]
        assert record["format_rate"] == sum(exact) / len(exact)


@pytest.mark.parametrize("scaffold", mostly_slow(["react", "codeact", "memory"], 1))
def test_agents_in_turns(folder: Path, scaffold: str) -> None:
    expected = cases(scaffold)
    # an episode ends where the agent ends it: as many as there are such cases, and one more
    size = 1 + sum(case.action == "finish" for case in expected)
    bounds = ("-g", str(size), "--max-turns", str(len(expected) + 1), "--max-seconds", "3000")
    own = {"codeact": ("--ideator", "null"), "memory": ("--max-traces", "1"), "react": ("--max-tokens", "100000")}
    if scaffold != "codeact":
        bounds = (*bounds, "--context-tokens", "10000000")
    with CaseServer(expected, END[scaffold]) as server:
        _, found = rollout(folder, server, scaffold, *bounds, *own[scaffold], "--format", "lenient", *FAST[:2])
    turns = turns_of(found)
    check(turns, expected)
    for turn, case in zip(turns, expected, strict=False):
        assert (turn["problem"] is None) == (case.read != "none") or turn["problem"] in ("unknown", "early"), case.name
    if scaffold != "react":  # of react's messages the reasoning part counts
        for record in found:
            good = [turn["format"]["read"] != "none" for turn in record["turns"]]
            assert record["format_rate"] == sum(good) / len(good)


def test_idea(folder: Path) -> None:
    helped = next(case for case in cases("codeact") if case.action == "seek_help")
    states = ("--ideator", "null", "--write-states", "states.jsonl", "--max-turns", "2")
    with CaseServer([helped], END["codeact"]) as server:
        rollout(folder, server, "codeact", *states, *FAST[:2])
    expected = cases("idea")
    with CaseServer(expected, EXACT_IDEA) as server, CaseServer([], PROGRAM) as implementer:
        other = ("--implementer", "m", "--implementer-url", f"{implementer.url}/v1", "-g", str(len(expected)))
        _, found = rollout(folder, server, "idea", *other, *FAST[:2], tasks="states.jsonl")
    assert [record["turns"][0]["format"] for record in found] == [case.format for case in expected]
    for record, case in zip(found, expected, strict=True):
        assert (json.dumps(record["idea"]) if record["idea"] else "") == case.content, case.name
        assert record["stop_reason"] == ("finished" if case.read == "exact" else "format"), case.name


# ---- when most answers cannot be read


def test_a_warning_shows_an_answer_that_cannot_be_read(folder: Path) -> None:
    answer = "I would train\x1b[31m a forest.\n" + "and then another\u200b\n" * 20
    with CaseServer([], answer) as server:
        done, _ = rollout(folder, server, "single", "-g", "15")
        told = done.stderr.decode().split("\n")
        begin = next(at for at, line in enumerate(told) if "cannot be read" in line)
        assert told[begin] == ("mle-rollout: 11 of the first 11 answers cannot be read (no_program 11); one of them:")
        assert told[begin + 1 : begin + 3] == ["    I would train␛[31m a forest.", "    and then another\\u200b"]
        assert told[begin + 9] == "    …" and sum("cannot be read" in line for line in told) == 1
        few, _ = rollout(folder, server, "single", "-g", "10")
        assert "cannot be read" not in few.stderr.decode()
    good = ReplyCase("", "", "", PROGRAM)
    with CaseServer([good] * 10, answer) as server:  # half of the first 20, and all that come later
        later, _ = rollout(folder, server, "single", "-g", "30")
        assert "cannot be read" not in later.stderr.decode()
