"""Places that a record names and that lie outside --data: every command refuses the line, and nothing is written there."""

import json
from pathlib import Path
from typing import Any

import pytest
from code_metric_builders import code_metric_task
from conftest import mostly_slow, records, run_command

from mletools.base.errors import RecordError
from mletools.grading.grader import HumanRanks
from mletools.records import schema
from mletools.records.places import LONGEST_ID, check_id, check_inside
from mletools.rollout.environment import RunResources

GRADE = "def grade(submission, answers):\n    return 1\n"
GOOD = b"id,y\n1,1\n2,2\n"
# The fields of a task that become places; those of a rollout have its task, and its own.
TASK_FIELDS = {
    ("id",): ["../../pwned", "a/b", "..", ".", "a\x1b[2J", "a\u202eb", "a\0b", "x" * (LONGEST_ID + 1)],
    ("data", "dir"): ["/etc", "../pwned", "tasks/../../pwned", "a\x1b[2J"],
    ("data", "public"): [["/etc/passwd"], ["images/", "../private/answers.csv"]],
    ("answers",): ["/etc/passwd", "../../../pwned"],
    ("leaderboard",): ["/etc/passwd", "../pwned"],
    ("public_leaderboard",): ["../pwned"],
    ("metric", "file"): ["/etc/passwd", "private/../../pwned"],
    ("metric", "files"): [["../pwned"]],
}
ROLLOUT_FIELDS = {
    ("execution", "submission", "file"): ["../pwned.csv", "/etc/passwd"],
    ("turns", 0, "submission", "file"): ["../pwned.csv"],
    ("turns", 0, "execution", "submission", "file"): ["/etc/passwd"],
}
COMMANDS = {
    "mle-rollout": ("task", ("--scaffold", "react", "-m", "scripted", "--preimport", "")),
    "mle-filter --tasks": ("task", ()),
    "mle-grade": ("rollout", ()),
    "mle-sandbox": ("rollout", ("--preimport", "")),
    "mle-instrument": ("rollout", ()),
    "mle-filter": ("rollout", ()),
    "mle-report": ("rollout", ()),
    "mle-show": ("rollout", ()),
    "mle-export --to chat": ("rollout", ()),
    "mle-export --to harbor": ("task", ("-o", "out")),
    "mle-classify-ideas": ("rollout", ()),
    "mle-train-grpo": ("rollout", ("--model", "tiny", "--run-dir", "out")),
}


def changed(record: dict[str, Any], field: tuple[Any, ...], value: Any) -> dict[str, Any]:
    record = json.loads(json.dumps(record))  # what stands in two places stands in two
    at: Any = record
    for key in field[:-1]:
        at = at[key]
    at[field[-1]] = value
    return record


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """(--data, a task, a rollout with a turn)."""
    data = tmp_path / "deep" / "data"
    data.mkdir(parents=True)
    code_metric_task(data, GRADE, [GOOD])
    (rollout,) = records((data / "in.jsonl").read_bytes())
    kept = rollout["execution"]["submission"]
    turn = {"action": "python", "duration_s": 1.0, "submission": kept, "execution": rollout["execution"]}
    return data, rollout["task"], {**rollout, "turns": [turn]}


def test_every_field_that_becomes_a_place_is_checked(made: Any) -> None:
    _, task, rollout = made
    schema.check(task, "task")
    schema.check(rollout, "rollout")
    for fields, record, kind, before in (
        (TASK_FIELDS, task, "task", ()),
        (TASK_FIELDS, rollout, "rollout", ("task",)),
        (ROLLOUT_FIELDS, rollout, "rollout", ()),
    ):
        for field, values in fields.items():
            for value in values:
                with pytest.raises(RecordError, match=r"no path inside|cannot be named after") as caught:
                    schema.check(changed(record, (*before, *field), value), kind)
                assert str(caught.value).startswith(".".join(map(str, (*before, *field)))) and "\x1b" not in str(
                    caught.value
                )


def test_what_people_call_their_tasks_and_files_is_let_through() -> None:
    for name in (
        "fish",
        "fish-0.2",
        "palmerpenguins:species",
        "wine (red)",
        "été",
        "漢字",
        "..hidden",
        "x" * LONGEST_ID,
    ):
        check_id(name, "id")
    for name in ("tasks/fish", ".", "a b/ü.csv", "a..b/c", "…/x"):
        assert check_inside(name, "data.dir") == name


@pytest.mark.parametrize("command", mostly_slow(COMMANDS, 4))
def test_every_command_refuses_the_line_and_writes_nothing_outside(made: Any, tmp_path: Path, command: str) -> None:
    data, task, rollout = made
    kind, options = COMMANDS[command]
    record = (
        changed(task, ("id",), "../../pwned") if kind == "task" else changed(rollout, ("task", "id"), "../../pwned")
    )
    good = json.dumps(task if kind == "task" else rollout)
    (data / "bad.jsonl").write_text(f"{json.dumps(record)}\n{good}\n")
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(data)}
    done = run_command(*command.split(), *options, "bad.jsonl", cwd=data, check=False)
    told = done.stderr.decode()
    field = "id" if kind == "task" else "task.id"
    assert done.returncode == 1 and f"bad.jsonl:1: {field} is '../../pwned', which files cannot be named after" in told
    assert "Traceback" not in told
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(data)} == before


@pytest.mark.parametrize("field", [("id",), ("data", "dir"), ("answers",)])
def test_a_record_written_by_hand_is_not_completed_with_such_a_place(made: Any, field: tuple[str, ...]) -> None:
    data, _, _ = made
    written = {"name": "fish", "data": {"dir": "tasks/fish"}, "metric": {"name": "mae"}}
    (data / "written.json").write_text(json.dumps(changed(written, field, "../../pwned")))
    done = run_command("mle-import", "--seal", "written.json", cwd=data, check=False)
    why = "which files cannot be named after" if field == ("id",) else "which is no path"
    assert done.returncode == 1
    assert f"written.json:1: {'.'.join(field)} is '../../pwned', {why}" in done.stderr.decode()


def test_links_of_a_tasks_folder_that_lead_out_of_it_are_refused_by_all_that_read_it(made: Any, tmp_path: Path) -> None:
    data, task, _ = made
    secret = tmp_path / "secret.csv"
    secret.write_text((data / "tasks/fish/private/answers.csv").read_text())
    (data / "tasks/fish/private/answers.csv").unlink()
    (data / "tasks/fish/private/answers.csv").symlink_to(secret)
    (data / "tasks/fish/private/board.csv").write_text("score\n1\n")
    nothing: Any = None
    resources = RunResources(data, {}, nothing, nothing, nothing, 0.2, False, nothing)
    for read in (
        lambda: resources.view(task),
        lambda: HumanRanks(data)({**task, "leaderboard": "private/board.csv"}, 1.0),
    ):
        with pytest.raises(RecordError, match="leads out of the task's folder"):
            read()
