"""Agents in turns with the tools of the chat protocol, and what a server sets apart as reasoning."""

import json
from pathlib import Path
from typing import Any

from model_server import FaultyServer
from played import (
    ENDS,
    SCORES,
    THOUGHTLESS,
    by_task,
    call,
    in_steps,
    play,
    program,
    runs,
    tool_call,
    validation_score,
    write_tasks,
)
from played_checks import (
    check_nothing_told,
    check_protocol,
    check_tokens,
)


def test_tool_calls_of_the_protocol(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, 3)
    two = {"tool_calls": [tool_call("Score", "{}"), tool_call("answer", "{}")]}
    torn = {"tool_calls": [tool_call("PythonInterpreter", '{"code": "print(')]}
    scripts: dict[str, list[Any]] = {
        "mill_0": [
            call("PythonInterpreter", code=program(2.7)), call("Score"), call("Search"), two, torn, "no call", call("answer"),
        ],
        "mill_1": [runs(program(2.6)), call("Score"), ENDS],  # tags are read too
        "mill_2": [call("PythonInterpreter", "x8Zq", code="print('\ud800 \x00')\n"), call("answer", "x8Zq")],
    }  # fmt: skip

    def answer(body: dict[str, Any]) -> Any:
        check_protocol(body["messages"])
        return by_task({name: in_steps(script) for name, script in scripts.items()})(body)

    with FaultyServer(answer) as server:
        done = play(server, "react", tmp_path, tasks, "--tool-calls", "openai", "--max-turns", "7")
    names = [[tool["function"]["name"] for tool in body["tools"]] for body in done.requests]
    assert names == [["PythonInterpreter", "Score", "answer"]] * len(names)
    record = done.of("mill_0")
    problems = [None, None, "unknown", None, "malformed", "missing", None]
    assert [turn["problem"] for turn in record["turns"]] == problems and record["stop_reason"] == "finished"
    assert answered(record) == [
        "call00000", "call00010", "call00020", None, "call00030", "call00031", "call00040", None, None
    ]  # fmt: skip
    left = next(m for m in record["messages"] if m.get("tool_call_id") == "call00031")
    assert left["content"] == "Not carried out: only the first action of a message is."
    assert all((m["role"] == "tool") == ("tool_call_id" in m) for m in record["messages"])
    assert (
        record["messages"][record["turns"][4]["message"]]["tool_calls"][0]["function"]["arguments"]
        == '{"code": "print('
    )  # kept as it was
    assert "tool_response" not in json.dumps(record["messages"][2:])
    score = validation_score(tmp_path, tasks[0], 2.7)
    assert f"{score:g}" in record["messages"][5]["content"] and record["code"] == program(2.7)
    other = done.of("mill_1")
    assert other["stop_reason"] == "finished" and answered(other) == [None, "call00010"]
    # the server's own ids are drawn at random, and may be the same: they are not kept
    hostile = done.of("mill_2")
    assert hostile["turns"][0]["execution"]["status"] == "error" and hostile["turns"][1]["problem"] == "early"
    assert answered(hostile)[:3] == ["call00000", "call00010", None]
    assert [each["format_rate"] for each in (record, other)] == [0, 2 / 3]
    assert check_tokens(other, done.requests) == 1
    # from the call on that is no JSON the policy no longer sees what it wrote
    assert check_tokens(record, done.requests) == 2
    check_nothing_told(tmp_path, done.records, done.requests)


def test_an_action_in_the_text_beside_an_early_end_keeps_the_protocol(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    early = {"content": f"```python\n{program(2.5)}```", "tool_calls": [tool_call("finish", "{}")]}

    def answer(body: dict[str, Any]) -> Any:
        check_protocol(body["messages"])
        return in_steps([early, call("finish")])(body)

    with FaultyServer(answer) as server:
        done = play(server, "codeact", tmp_path, tasks, "--tool-calls", "openai")
    record = done.of("mill_0")
    assert record["stop_reason"] == "finished" and record["validation"]["valid"]
    assert answered(record) == ["call00000", None]


def answered(record: dict[str, Any]) -> list[str | None]:
    """The calls that the observations answer; None: none."""
    return [m.get("tool_call_id") for m in record["messages"][2:] if m["role"] != "assistant"]


def test_a_full_context_leaves_no_answer_without_its_call(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    long = "# " + "x" * 4000 + "\n"
    two = {"content": "y" * 4000, "tool_calls": [tool_call("Score", "{}"), tool_call("answer", "{}")]}
    failing = call("PythonInterpreter", code=long + "1 / 0\n")
    script = [
        call("PythonInterpreter", code=program(2.5)),
        failing,
        two,
        failing,
        call("Score"),
        two,
        two,
        call("answer"),
    ]

    def answer(body: dict[str, Any]) -> Any:
        check_protocol(body["messages"])
        return in_steps(script)(body)

    with FaultyServer(answer) as server:
        done = play(server, "react", tmp_path, tasks, "--tool-calls", "openai", "--context-tokens", "1500")
    record = done.of("mill_0")
    assert record["stop_reason"] == "finished" and record["code"] == program(2.5)
    # the first two messages, the call of two tools, and their two answers
    assert [len(body["messages"]) for body in done.requests][-2:] == [5, 5]
    ids = [[m.get("tool_call_id") for m in body["messages"]] for body in done.requests]
    assert all(len(set(filter(None, each))) == sum(map(bool, each)) for each in ids)
    assert check_tokens(record, done.requests) > 1


def test_a_reasoning_that_the_server_sets_apart(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    script = [
        {"content": THOUGHTLESS, "reasoning_content": "a program first"},
        {"content": SCORES},
        {"content": "<answer></answer>"},
    ]
    with FaultyServer(in_steps(script)) as server:
        done = play(server, "react", tmp_path, tasks)
    record = done.of("mill_0")
    own = [message for message in record["messages"] if message.get("loss")]
    assert [message.get("reasoning") for message in own] == ["a program first", None, None]
    assert record["format_rate"] == 2 / 3 and record["stop_reason"] == "finished" and record["validation"]["valid"]
    assert all(set(message) == {"role", "content"} for body in done.requests for message in body["messages"])
