"""No command writes what steers a terminal: neither tables nor messages, whatever the records, files and servers say."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import hostile_values as hostile
import pytest
import shown_rollouts
from code_metric_builders import code_metric_task
from conftest import mostly_slow, records, run_command

from mletools import cli
from mletools.base.errors import RecordError
from mletools.base.progress import ProgressBar
from mletools.grading.one_submission import lines
from mletools.models.http import to_stderr
from mletools.records import schema
from mletools.run import Run

# Clears the screen, sets a title, a control sequence of one character, turns the direction, hides, returns.
PAYLOAD = "a\x1b[2J\x1b]0;owned\x07b\x9b31mc\u202ed\u200be\rf\u2066g\x7fh"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
SPELLED = "␛[2J␛]0;owned␇"


def filled(record: dict[str, Any]) -> dict[str, Any]:
    """The record with PAYLOAD in every text that may be any text."""
    record = copy.deepcopy(record)
    taken, kind = 0, record["kind"]
    for path in list(hostile.places(record)):
        at: Any = record
        for key in path[:-1]:
            at = at[key]
        if not isinstance(at[path[-1]], str):
            continue
        before, at[path[-1]] = at[path[-1]], PAYLOAD
        try:
            schema.check(record, kind)
            taken += 1
        except RecordError:
            at[path[-1]] = before
    assert taken > 5
    return record


def rollout() -> dict[str, Any]:
    made = {**shown_rollouts.single(), "grade": shown_rollouts.grade(1.0, "gold"), "reward": 1.0}
    return filled(made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("text")
    public = {"train.csv": f"id,y\n{PAYLOAD},5\n".replace("\r", "")}
    code_metric_task(root, "def grade(submission, answers):\n    return 1\n", [b"id,y\n1,1\n2,2\n"], public=public)
    one = rollout()
    plain = {**shown_rollouts.react(), "reward": 1.0}
    turns = {**filled({**plain, "grade": shown_rollouts.grade(1.0, "gold")}), "id": f"{PAYLOAD}2"}
    (root / "rollouts.jsonl").write_text(json.dumps(one) + "\n" + json.dumps(turns) + "\n")
    (task,) = records((root / "tasks.jsonl").read_bytes())
    (root / "payload.jsonl").write_text(json.dumps({**filled(task), "data": task["data"]}) + "\n")
    errors = [
        {"kind": PAYLOAD},
        {**one, "stop_reason": PAYLOAD},
        {**one, "task": {**one["task"], "id": PAYLOAD}},
        {**one, "task": {**one["task"], "data": {**one["task"]["data"], "dir": f"../{PAYLOAD}"}}},
        {**one, "task": {**one["task"], "metric": {**one["task"]["metric"], "name": PAYLOAD}}},
    ]
    (root / "errors.jsonl").write_text("".join(json.dumps(record) + "\n" for record in errors))
    (root / f"{PAYLOAD}.jsonl").write_text("{\n")
    return root


TABLES = {
    "report": ("mle-report", "rollouts.jsonl"),
    "markdown": ("mle-report", "--format", "markdown", "rollouts.jsonl"),
    "csv": ("mle-report", "--format", "csv", "rollouts.jsonl"),
    "comparison": ("mle-report", "--compare", "--label", PAYLOAD, "--label", "b", "rollouts.jsonl", "rollouts.jsonl"),
    "list": ("mle-show", "--list", "rollouts.jsonl"),
    "show": ("mle-show", "--full", "rollouts.jsonl"),
    "ideas": ("mle-classify-ideas", "--table", "rollouts.jsonl"),
    "describe": ("mle-gen-task", "--describe", "payload.jsonl"),
}


@pytest.mark.parametrize("name", mostly_slow(TABLES, 2))
def test_tables_and_texts(folder: Path, name: str) -> None:
    done = run_command(*TABLES[name], cwd=folder, check=False)
    text, told = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, told
    assert not RAW.search(text) and not RAW.search(told)
    assert SPELLED in text or name in ("csv", "ideas")


@pytest.mark.parametrize(
    "command", mostly_slow(["mle-grade", "mle-report", "mle-sandbox --preimport ''", "mle-filter"], 1)
)
def test_errors_about_records(folder: Path, command: str) -> None:
    for more in ((), ("-v",), ("--max-rejects", "9")):
        asked = command.replace("''", "").split(" ")
        done = run_command(*asked, *more, "errors.jsonl", cwd=folder, check=False)
        told = done.stderr.decode()
        assert "errors.jsonl:1: " in told and not RAW.search(told), more
        assert "Traceback" not in told or more == ("-v",)


def test_errors_about_files_and_options(folder: Path) -> None:
    bad = f"{PAYLOAD}.jsonl"
    for asked in (
        ("mle-report", bad),
        ("mle-report", f"no{bad}"),
        ("mle-grade", "--submission", f"no{bad}", "--task", "tasks.jsonl"),
        ("mle-grade", "--reward", PAYLOAD, "rollouts.jsonl"),
        ("mle-grade", f"--{PAYLOAD}", "rollouts.jsonl"),
        ("mle-grade", "--submission", bad, "--task", "tasks.jsonl", bad),
        ("mle-grade", "--submission", bad, "--task", "tasks.jsonl", "--id", PAYLOAD),
        ("mle-rollout", "--scaffold", PAYLOAD, "-m", "scripted", "tasks.jsonl"),
    ):
        done = run_command(*asked, cwd=folder, check=False)
        told = done.stderr.decode()
        spelled = "␛" in told or "\\x1b" in told
        assert done.returncode in (1, 2) and not RAW.search(told) and spelled, asked


def test_one_submission_on_a_terminal() -> None:
    verdict = {"metric": PAYLOAD, "lower_is_better": True, "valid": False, "reason": PAYLOAD}
    told = "\n".join(lines({"id": PAYLOAD, "provenance": {}}, verdict))
    assert told.count("owned") == 3 and not RAW.search(told)


def test_messages_of_a_run_of_servers_and_beside_a_progress_bar(capfd: pytest.CaptureFixture[str]) -> None:
    run = Run("mle-x", {"quiet": False}, {}, 1)
    run.say(PAYLOAD)
    to_stderr(PAYLOAD)
    cli._fail("mle-x", RuntimeError(PAYLOAD), True)
    cli._fail("mle-x", OSError(2, "no such file", PAYLOAD), False)
    told = capfd.readouterr().err
    assert told.count("owned") == 5 and not RAW.search(told)
    noted: list[str] = []

    class Bar(ProgressBar):
        def __init__(self) -> None:
            pass

        def note(self, text: str) -> None:
            noted.append(text)

        def say(self, message: str) -> None:
            noted.append(message)

    run._bar = Bar()
    run.note(PAYLOAD)
    run.say(PAYLOAD)
    assert len(noted) == 2 and not any(map(RAW.search, noted))


def test_a_report_of_records_stays_as_the_records_are(folder: Path) -> None:
    (first, *_) = records(run_command("mle-report", "--json", "rollouts.jsonl", cwd=folder).stdout)
    assert first["kind"] == "summary"
    graded = run_command("mle-filter", "--keep-invalid", "rollouts.jsonl", cwd=folder).stdout
    assert all(each["messages"][0]["content"] == PAYLOAD for each in records(graded))
