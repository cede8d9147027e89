"""mle-rollout --scaffold memory and improve, played by script: traces that share a pool, and two answers."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from model_server import FaultyServer
from played import (
    SEARCH,
    Played,
    by_task,
    call,
    executes,
    fenced,
    improving,
    in_steps,
    play,
    program,
    test_score,
    validation_score,
    write_tasks,
)
from played_checks import (
    alike,
    check_nothing_told,
    check_tokens,
    graded,
    observed,
)


def tries(code: str) -> str:
    return f"<validate_code>\n{code}</validate_code>"


INFO = ["overview", "files", "metric", "sample", "answers", " Files\n"]
SCRIPTS: dict[str, Any] = {
    "mill_0": improving,
    "mill_1": in_steps([f"<request_info>{what}</request_info>" for what in INFO]),
    "mill_2": in_steps([tries(program(2.9)), "hm", tries("print(1 / 0)\n"), executes("print('nothing')\n"),
                        tries(program(2.8)), "<execute_code></execute_code>"]),
    "mill_3": in_steps([executes(SEARCH), executes(program(2.9)), executes(program(2.0)), tries(program(2.95)),
                        executes("open('submission.csv', 'w').write('id,y')\n"), executes("1\n")]),
}  # fmt: skip


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Three traces of two turns on a task, each from the pool where there is something in it."""
    folder = tmp_path_factory.mktemp("memory")
    tasks = write_tasks(folder)
    with FaultyServer(improving) as server:
        return play(server, "memory", folder, tasks, *OF_TRACES)


OF_TRACES = ("--max-traces", "3", "--max-turns", "2", "--reset-ratio", "0", "--pool-size", "1")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One trace a task."""
    folder = tmp_path_factory.mktemp("traces")
    tasks = write_tasks(folder, 4)
    with FaultyServer(by_task(SCRIPTS)) as server:
        options = ("--max-traces", "1", "--max-turns", "6", "--output-size", "4000", "-j", "4")
        return play(server, "memory", folder, tasks, *options)


def test_a_trace_ends_with_its_last_submission(tmp_path: Path) -> None:
    says = [tries(program(2.0)), executes("print('nothing')\n"), executes(program(2.1)), executes(program(2.2))]
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps(says)) as server:
        options = ("--max-traces", "2", "--max-submissions", "1", "--reset-ratio", "1")
        played = play(server, "memory", tmp_path, tasks, *options)
    for record in played.records:
        assert [turn["action"] for turn in record["turns"]] == ["validate_code", "execute_code", "execute_code"]
        assert record["stop_reason"] == "finished" and record["code"] == program(2.1)
        assert record["settings"]["own"]["max_submissions"] == 1
        assert "your work ends with the first submission" in record["messages"][0]["content"]


def test_traces_begin_from_the_best_so_far(traces: Played) -> None:
    first, second, third = traces.records
    task = traces.tasks["mill_0"]
    assert [record["trace"] for record in traces.records] == ["reset", "memory", "memory"] and "state" not in first
    assert [record["trace_number"] for record in traces.records] == [0, 1, 2]
    assert len({record["id"] for record in traces.records}) == 3 and {record["group"] for record in traces.records} == {
        first["group"]
    }
    slopes = [[float(turn["code"].split("slope', ")[1].split(")")[0]) for turn in r["turns"]] for r in traces.records]
    assert slopes == [[2.5, 2.6], [2.7, 2.8], [2.9, 2.95]]
    for record, before, slope in ((second, first, 2.6), (third, second, 2.8)):
        assert record["state"] == {
            "score": test_score(traces.folder, task, slope),
            "validation": validation_score(traces.folder, task, slope),
            "code": program(slope),
            "rollout": before["id"],
            "turn": 1,
        }
        question = record["messages"][1]["content"]
        assert program(slope).strip() in question and f"slope {slope}\n```" in question
        score = validation_score(traces.folder, task, slope)
        assert f"its score on the validation rows was {score:g}." in question
    assert len({body["seed"] for body in traces.requests}) == 6 == len(traces.requests)
    for record in traces.records:
        assert record["stop_reason"] == "max_turns" and record["settings"]["own"]["max_traces"] == 3
        assert [turn["action"] for turn in record["turns"]] == ["execute_code"] * 2
        assert record["settings"]["max_seconds"] == 43200.0
    assert "is valid. mae on the validation rows" in observed(first, 0)


def test_information(single: Played) -> None:
    record = single.of("mill_1")
    assert [turn["action"] for turn in record["turns"]] == ["request_info"] * 6
    assert [turn["problem"] for turn in record["turns"]] == [None, None, None, None, "unknown", None]
    assert observed(record, 0) == record["task"]["description"]
    assert "train.csv begins:\nid,x,y\n" in observed(record, 1) and "test.csv (" in observed(record, 1)
    assert observed(record, 2) == "The score is mae; lower is better."
    assert observed(record, 3).startswith("sample_submission.csv begins:\nid,y\n")
    assert observed(record, 4).startswith("There is no information named 'answers'") and observed(
        record, 5
    ) == observed(record, 1)
    # of the view, in which validation rows are rows to predict
    train = observed(record, 1).split("train.csv begins:\n")[1].split("\n")[1:]
    kept = (single.folder / f"views/{record['task']['id']}-0.2/public/train.csv").read_text()
    assert len(train) == 5 and all(line in kept for line in train)


def test_a_program_that_was_only_tried_is_not_handed_in(single: Played) -> None:
    record = single.of("mill_2")
    actions = ["validate_code", "none", "validate_code", "execute_code", "validate_code", "none"]
    assert [turn["action"] for turn in record["turns"]] == actions
    assert "submission.csv was written (" in observed(record, 0) and "mae on" not in json.dumps(record["messages"][2:])
    assert all("grade" not in turn and not turn.get("validation") for turn in record["turns"])
    assert observed(record, 3).endswith("Nothing was handed in: no submission.csv.")
    assert record["format_rate"] == 4 / 6 and record["validation"] is None
    assert record["execution"]["submission"] is None
    assert record["execution"]["submission_problem"] == "nothing was handed in"
    (graded_one,) = graded(single.folder, [record])
    assert graded_one["grade"]["valid"] is False and graded_one["grade"]["score"] is None


def test_the_best_by_the_told_score_is_handed_in(single: Played) -> None:
    record = single.of("mill_3")
    assert record["code"] == program(2.9) and record["execution"] == record["turns"][1]["execution"]
    assert record["validation"]["score"] == validation_score(single.folder, record["task"], 2.9)
    assert "submission.csv is invalid: " in observed(record, 4) and record["turns"][4]["grade"]["valid"] is False
    (after,) = graded(single.folder, [record])
    assert after["grade"]["score"] == test_score(single.folder, record["task"], 2.9)


def test_tokens_and_secrets(traces: Played, single: Played) -> None:
    for run in (traces, single):
        assert [check_tokens(record, run.requests) for record in run.records] == [1] * len(run.records)
        check_nothing_told(run.folder, run.records, run.requests)


@pytest.mark.slow
def test_a_full_context_ends_a_trace_and_another_begins(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(improving) as server:
        options = ("--max-traces", "2", "--context-tokens", "1000", "--reset-ratio", "1")
        done = play(server, "memory", tmp_path, tasks, *options)
    assert [record["stop_reason"] for record in done.records] == ["context"] * 2
    assert [record["trace"] for record in done.records] == ["reset"] * 2
    assert all(1 <= len(record["turns"]) < 15 and record["validation"]["valid"] for record in done.records)


def test_where_not_even_the_question_fits_there_is_one_trace(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(improving) as server:
        done = play(server, "memory", tmp_path, tasks, "--context-tokens", "100")
    assert [(r["stop_reason"], r["turns"]) for r in done.records] == [("context", [])] and server.requests == []


def test_the_money_of_a_run_is_that_of_all_its_traces(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(improving) as server:
        options = ("--max-turns", "1", "--price", "1000,1000", "--max-usd", "1.2", "--max-traces", "9")
        done = play(server, "memory", tmp_path, tasks, *options)
    paid = [record["usage"]["usd"] for record in done.records]
    assert 1 < len(paid) < 9 and sum(paid[:-1]) < 1.2 <= sum(paid)
    assert {record["settings"]["max_usd"] for record in done.records} == {1.2}


def test_a_pool_on_disk_is_shared_by_runs(traces: Played, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(improving) as server:
        first = play(server, "memory", tmp_path, tasks, *OF_TRACES, "--pool-dir", "pool", "--memory-by", "validation")
        assert [steps(record) for record in first.records] == [steps(record) for record in traces.records]
        again = play(server, "memory", tmp_path, tasks, *OF_TRACES, "--pool-dir", "pool", "--memory-by", "validation")
    assert [record["trace"] for record in again.records] == ["memory"] * 3
    assert again.records[0]["state"]["code"] == program(2.95)
    assert again.records[0]["state"]["rollout"] == first.records[2]["id"]


def steps(record: dict[str, Any]) -> list[str]:
    return [turn["code"] for turn in record["turns"]]


def test_tool_calls_of_the_protocol(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    script = [call("request_info", what="metric"), call("execute_code", code=program(2.9)), "that is all"]
    with FaultyServer(in_steps(script)) as server:
        options = ("--tool-calls", "openai", "--max-traces", "1", "--max-turns", "3")
        done = play(server, "memory", tmp_path, tasks, *options)
    record = done.of("mill_0")
    assert [tool["function"]["name"] for tool in done.requests[0]["tools"]] == [
        "request_info", "validate_code", "execute_code"
    ]  # fmt: skip
    assert [message.get("tool_call_id") for message in record["messages"][3::2]] == ["call00000", "call00010", None]
    assert record["validation"]["valid"] and check_tokens(record, done.requests) == 1


# ---- improve


ANSWERS = {
    "mill_0": [fenced(program(2.5)), fenced(program(2.9))],  # better
    "mill_1": [fenced(program(2.9)), fenced(program(2.0))],  # worse
    "mill_2": ["I have no program.", fenced(program(2.9))],
    "mill_3": [fenced("1 / 0\n"), "No better one."],
    "mill_4": ["No.", "No."],
    "mill_5": [fenced(SEARCH), fenced(program(2.9))],
}


@pytest.fixture(scope="module")
def improved(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("improve")
    tasks = write_tasks(folder, len(ANSWERS))

    def answer(body: dict[str, Any]) -> str:
        text = body["messages"][0]["content"]
        number = counted[text]
        counted[text] += 1
        name = re.search(r"mill_\d", text)[0]  # type: ignore[index]
        return ANSWERS[name][max(number, int("Your solution so far" in text))]

    counted: Counter[str] = Counter()
    with FaultyServer(answer) as server:
        return play(server, "improve", folder, tasks, "-j", "3", "--output-size", "4000")


def test_the_better_of_two_answers(improved: Played) -> None:
    by_name = {record["task"]["name"]: record for record in improved.records}
    assert {name: record["stop_reason"] for name, record in by_name.items()} == {
        "mill_0": "finished", "mill_1": "finished", "mill_2": "finished", "mill_3": "format", "mill_4": "format",
        "mill_5": "finished",
    }  # fmt: skip
    for record in by_name.values():
        assert [turn["action"] for turn in record["turns"]] == ["solve", "improve"]
        assert [message["role"] for message in record["messages"]] == ["user", "assistant"] * 2
    handed = {name: record["execution"]["submission"] is not None for name, record in by_name.items()}
    assert handed == {name: name not in ("mill_3", "mill_4") for name in by_name}
    for name in ("mill_0", "mill_1", "mill_2", "mill_5"):
        record = by_name[name]
        assert record["code"] == program(2.9)
        assert record["validation"]["score"] == validation_score(improved.folder, record["task"], 2.9)
    question = by_name["mill_0"]["messages"][2]["content"]
    assert "A plan. In two. Sentences." in question and program(2.5).strip() in question
    score = validation_score(improved.folder, by_name["mill_0"]["task"], 2.5)
    assert f"mae on the validation rows: {score:g}" in question
    assert by_name["mill_2"]["messages"][2]["content"] == by_name["mill_2"]["messages"][0]["content"]
    assert "ZeroDivisionError" in by_name["mill_3"]["messages"][2]["content"]
    assert [by_name[f"mill_{n}"]["format_rate"] for n in range(6)] == [1, 1, 0.5, 0.5, 0, 1]


def test_the_two_conversations_are_two_sequences(improved: Played) -> None:
    assert [check_tokens(record, improved.requests) for record in improved.records] == [2] * 6
    for body in improved.requests:
        assert len(body["messages"]) == 1  # the second question does not see the first
    check_nothing_told(improved.folder, improved.records, improved.requests)


@pytest.mark.slow
def test_the_better_answer_is_graded(improved: Played) -> None:
    for record in graded(improved.folder, improved.records):
        if record["grade"]["valid"]:
            assert record["grade"]["score"] == test_score(improved.folder, record["task"], 2.9)


@pytest.mark.slow
def test_one_answer_is_enough_where_one_is_asked_for(improved: Played, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(lambda body: fenced(program(2.5))) as server:
        done = play(server, "improve", tmp_path, tasks, "--max-turns", "1")
        again = play(server, "improve", tmp_path, tasks, "--max-turns", "1")
    assert [turn["action"] for turn in done.of("mill_0")["turns"]] == ["solve"] and alike(done.records, again.records)
