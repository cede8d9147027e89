"""What all agents in turns have in common: options, order, workers, tasks and policies that nobody would wish for."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from model_server import FaultyServer
from played import (
    PLAYS,
    command,
    executes,
    in_steps,
    program,
    tool_call,
    write_tasks,
)
from played_checks import (
    alike,
    check_protocol,
    steady,
)

from mletools.records import schema

# ---- options


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--scaffold react --reset-ratio 0.5", "--reset-ratio is about --scaffold memory"),
        ("--scaffold codeact --max-traces 2", "--max-traces is about --scaffold memory"),
        ("--scaffold react --ideator x", "--ideator is about --scaffold codeact"),
        ("--scaffold improve --write-states s.jsonl", "--write-states is about --scaffold react or codeact or memory"),
        (
            "--scaffold codeact --write-states s.jsonl",
            "--write-states are written where help is asked for: --ideator MODEL (or null, or vague)",
        ),
        ("--scaffold memory --trajectory-tokens 9", "--trajectory-tokens is about --scaffold codeact or idea"),
        ("--scaffold codeact --implementer x", "--implementer is about --scaffold idea"),
        ("--scaffold memory --pool tasks.jsonl", "--pool is about --scaffold single"),
        ("--scaffold improve --pool tasks.jsonl", "--pool is about --scaffold single"),
        ("--scaffold react --prompt single-brief", "--prompt is about --scaffold single"),
        ("--max-usd 1", "--max-usd is about agents in turns, not --scaffold single"),
        (
            "--scaffold codeact --max-usd 1 --price 1,1 --ideator adviser",
            "--max-usd: no price is known for adviser, the ideator: give --ideator-price PROMPT,COMPLETION",
        ),
        ("--scaffold improve --improve-ratio 1", "--improve-ratio is about --scaffold single"),
        ("--max-turns 3", "--max-turns is about agents in turns, not --scaffold single"),
        ("--reveal-test", "--reveal-test is about --scaffold improve or react or codeact or memory or idea"),
        ("--tool-calls openai", "--tool-calls is about --scaffold improve or react or codeact or memory or idea"),
        ("--scaffold react --price 3", "Invalid value for '--price': '3' is not two numbers with a comma between them"),
        ("--scaffold react --price=-1,1", "Invalid value for '--price': '-1,1': a price is from 0 to a million"),
        ("--scaffold react --price nan,1", "Invalid value for '--price': 'nan,1': a price is from 0 to a million"),
        ("--scaffold react --max-usd 1", "--max-usd: no price is known for played: give --price PROMPT,COMPLETION"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(options: str, told: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", "-m", "played", "--model-url", "http://127.0.0.1:9", *options.split(), "tasks.jsonl"]
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.decode().split("\n")[-2] == f"Error: {told}"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--scaffold idea", "--scaffold idea needs a model that implements ideas: give --implementer MODEL"),
        ("--scaffold codeact --ideator=", "--ideator needs the name of a model, or null or vague"),
        (
            "--scaffold memory --defaults evaluation --validation 0",
            "--memory-by validation needs a validation score: give --validation a share above 0",
        ),
    ],
)
def test_settings_that_a_scaffold_cannot_work_with(options: str, told: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", "-m", "played", "--model-url", "http://127.0.0.1:9", *options.split(), "tasks.jsonl"]
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and done.stderr.decode() == f"mle-rollout: {told}\n"


def test_a_dry_run_asks_nobody_and_writes_nothing(tmp_path: Path) -> None:
    write_tasks(tmp_path, 3)
    before = sorted(tmp_path.rglob("*"))
    line = command("http://127.0.0.1:9", "react", "-g", "4", "--dry-run", "-o", "out.jsonl")
    done = run_command(*line, cwd=tmp_path)
    assert done.stdout == b"" and sorted(tmp_path.rglob("*")) == before
    assert done.stderr.decode() == (
        "mle-rollout: would play 12 rollouts of played (3 tasks x 4), each of at most 15 messages\n"
    )


def test_the_settings_of_the_papers_are_the_defaults() -> None:
    from mletools.scaffolds.codeact import CodeactSettings
    from mletools.scaffolds.memory import MemorySettings
    from mletools.scaffolds.react import ReactSettings

    react, memory, codeact = ReactSettings(), MemorySettings(), CodeactSettings()
    evaluated, recalled = (ReactSettings(**ReactSettings.EVALUATION), MemorySettings(**MemorySettings.EVALUATION))
    assert (react.max_turns, evaluated.max_turns, codeact.max_turns) == (15, 20, 50)
    assert evaluated.max_tokens is None  # the context alone bounds 30 turns and more (SandMLE, 5.4)
    assert (react.max_seconds, codeact.max_seconds) == (20 * 60, 60 * 60)
    assert (react.execution_seconds, react.context_tokens, react.max_tokens) == (300, 32768, 32768)
    assert (memory.context_tokens, memory.max_answer_tokens, memory.max_turns) == (65536, 16384, 15)
    assert (memory.pool_size, memory.reset_ratio, memory.memory_by) == (5, 0.7, "test")
    assert (recalled.pool_size, recalled.reset_ratio, recalled.memory_by) == (3, 0.5, "validation")
    assert recalled.max_turns == 15 and codeact.trajectory_tokens == 32000


# ---- workers and order


@pytest.mark.parametrize("scaffold", mostly_slow(sorted(PLAYS, key="improve".__ne__), 1))
def test_the_number_of_workers_changes_nothing(scaffold: str, tmp_path: Path) -> None:
    write_tasks(tmp_path, 3)
    answer, options = PLAYS[scaffold]
    made = []
    with FaultyServer(answer, latency_s=0.01) as server:
        for jobs in ("1", "8"):
            line = command(server, scaffold, *options, "-j", jobs, "--force", *(["-k"] if jobs == "8" else []))
            made.append(records(run_command(*line, cwd=tmp_path).stdout))
    assert alike(*made)
    assert [record["id"] for record in made[0]] == [record["id"] for record in made[1]]  # -k, though eight at once
    assert len({record["id"] for record in made[0]}) == len(made[0]) == (9 if scaffold == "memory" else 6)


# ---- what cannot be worked on


def test_a_task_without_its_data_is_set_aside_once(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, 2)
    (tmp_path / tasks[0]["data"]["dir"] / "public/train.csv").unlink()
    with FaultyServer(PLAYS["react"][0]) as server:
        line = command(server, "react", "-g", "3", "--max-rejects", "1", "--rejects", "rejects.jsonl", "-j", "2")
        made = records(run_command(*line, cwd=tmp_path).stdout)
    assert {record["task"]["name"] for record in made} == {"mill_1"} and len(made) == 3
    (reject,) = records((tmp_path / "rejects.jsonl").read_bytes())
    assert reject["line_number"] == 1 and "train.csv" in reject["reason"]


def test_of_a_group_some_rollouts_may_be_refused(tmp_path: Path) -> None:
    """They are counted, and an endless run does not give a task up for them."""
    write_tasks(tmp_path, 2)

    def answer(body: dict[str, Any]) -> str:
        if body["seed"] % 3 == 1:
            raise ValueError("no such thing")
        return "```python\nprint(1)\n```"

    line = ("-g", "12", "--max-rejects", "9", "--rejects", "rejects.jsonl", "-o", "r.jsonl")
    with FaultyServer(answer) as server:
        done = run_command(*(word for word in command(server, "single", *line) if word != "-q"), cwd=tmp_path)
        made = records((tmp_path / "r.jsonl").read_bytes())
        refused = 24 - len(made)
        assert 2 < refused < 20 and f"{refused} rollouts refused" in done.stderr.decode()
        assert len(records((tmp_path / "rejects.jsonl").read_bytes())) == 2
        endless = ("-g", "4", "--max-rejects", "9", "--forever", "--passes", "4", "-j", "1")
        groups = Counter(
            record["group"]
            for record in records(run_command(*command(server, "single", *endless), cwd=tmp_path).stdout)
        )
    assert len(groups) >= 7 and max(groups.values()) == 4 and min(groups.values()) < 4  # of 8


class Uncounted:
    """An environment whose model tells no counts of tokens, so that nobody knows what it costs."""

    def fact(self, name: str) -> str:
        return name

    def ask(self, who: str, role: str, messages: Any, seed: int, tools: Any, most: int) -> dict[str, Any]:
        unknown = dict.fromkeys(("prompt_tokens", "completion_tokens", "usd"))
        return {"text": "well", "finish_reason": "stop", "seconds": 0.5, **unknown}


@pytest.mark.parametrize(("usd", "turns", "reason"), [(None, 4, "max_turns"), (9.0, 1, "budget"), (0.0, 0, "budget")])
def test_a_budget_of_what_nobody_counts(usd: float | None, turns: int, reason: str, tmp_path: Path) -> None:

    from taped import Taped

    from mletools.base.tape import Tapes
    from mletools.scaffolds.codeact import Codeact
    from mletools.scaffolds.interface import Job
    from mletools.scaffolds.memory import Memory
    from mletools.scaffolds.react import React

    (task,) = write_tasks(tmp_path)
    for scaffold in (React(), Codeact(), Memory()):
        traces = {"max_traces": 1 if usd is None else None} if isinstance(scaffold, Memory) else {}
        settings = scaffold.settings(max_turns=4, max_usd=usd, **traces)
        job = Job("a", "b", 1, 0, 7, task, {"model": "m", "version": None, "sampling": {}}, "s", settings)
        (record,) = scaffold.play(job, Taped(Uncounted(), Tapes(None).tape("a")))
        schema.check(record, "rollout")
        assert len(record["turns"]) == turns and record["stop_reason"] == reason
        assert record["usage"]["usd"] == (None if turns else 0.0) and record["usage"]["seconds"] == turns / 2


HALF = r'{"code": "print(1) # \ud800", "command": "echo \ud800", "what": "\ud800"}'
TAGS = {
    "codeact": ["execute_ipython", "execute_bash", "seek_help"],
    "react": ["tool_call", "tool_call", "answer"],
    "memory": ["execute_code", "validate_code", "request_info"],
    "improve": ["think"],
}
PIECES = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "python\n", "<code>", "</code>", "<answer>", "</answer>",
    '{"name": "Score"}', '{"name": 1, "arguments": [', "[" * 3000, "<execute_ipython>", "</execute_ipython>", "<finish></finish>",
    "<execute_bash>", "</execute_bash>", "print(1)\n", "raise SystemExit(3)\n", "\x00", "\u2028", "\ufffd", "\U0001f600", "é",
    "<execute_code>", "</execute_code>", "<validate_code>", "</validate_code>", "<request_info>files</request_info>",
    "<seek_help>", "</seek_help>", "PROBLEM_STATEMENT: a\n", "ATTEMPTS_SO_FAR: b\n", "GOAL: c\n", "```python\n", "```\n",
    "import os; os.kill(os.getpid(), 9)\n", "\n" * 9, "x" * 9000,
]  # fmt: skip


@pytest.mark.parametrize("scaffold", mostly_slow(["codeact", "react", "memory", "improve"], 1))
@pytest.mark.parametrize("calls", ["tags", pytest.param("openai", marks=pytest.mark.slow)])
def test_whatever_a_policy_says_there_is_a_record(scaffold: str, calls: str, tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    words = ["code", "command", "what", "goal", "attempts_so_far", "problem_statement"]

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        check_protocol(body["messages"])
        draws = random.Random(body["seed"])
        text = "".join(draws.choices(PIECES, k=draws.randint(0, 9)))
        if draws.random() < 0.5:  # a whole action, of anything
            tag = draws.choice(TAGS[scaffold])
            text = f"<{tag}>{''.join(draws.choices(PIECES, k=3))}</{tag}>"
        if calls == "tags" or draws.random() < 0.3:
            return {"content": text}
        arguments = [text, json.dumps(dict.fromkeys(words, text)), "{", "null", json.dumps({"code": [text]}), HALF]
        names = [tool["function"]["name"] for tool in body.get("tools", [])] + ["nothing", ""]
        number = draws.choice([1, 1, 1, 2, 3])
        made = [tool_call(draws.choice(names), draws.choice(arguments), draws.choice("ab")) for _ in range(number)]
        return {"content": draws.choice(["", text]), "tool_calls": made}

    with FaultyServer(answer) as server:
        more = {"codeact": ["--ideator", "vague"], "memory": ["--max-traces", "2"]}.get(scaffold, [])
        options = ["--tool-calls", calls, "--context-tokens", "9000", "-g", "2", "-j", "2", "--timeout", "20", *more]
        made = records(run_command(*command(server, scaffold, *options), cwd=tmp_path).stdout)
    assert len(made) == (8 if scaffold == "memory" else 4)
    problems = {turn["problem"] for record in made for turn in record["turns"]}
    assert len(problems) >= (1 if scaffold == "improve" else 3)  # so it said many things
    content = "".join(json.dumps(record) + "\n" for record in made).encode()
    assert len(records(run_command("mle-grade", "-q", input=content, cwd=tmp_path).stdout)) == len(made)


def test_a_policys_version_is_stamped(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(in_steps([executes(program(2.5))])) as server:
        options = ("--max-traces", "1", "--max-turns", "1", "--policy-version", "step-7", "--temperature", "0.5")
        (record,) = records(run_command(*command(server, "memory", *options), cwd=tmp_path).stdout)
    assert record["policy"] == {
        "model": "played", "version": "step-7",
        "sampling": {"temperature": 0.5, "top_p": 1.0, "max_tokens": 16384},
    }  # fmt: skip
    assert server.requests[0]["temperature"] == 0.5 and "logprobs" not in record["messages"][-1]
    assert steady(record)["turns"][0]["action"] == "execute_code"
