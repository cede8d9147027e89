"""mle-grade on records made to hurt: each field holds, in turn, every value that no command of ours writes."""

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from hostile_values import PATHS, VALUES, at, outcome, places, with_value, without

from mletools.base.ids import bytes_digest
from mletools.grading.grader import Grader
from mletools.grading.options import REWARDS, GradingOptions
from mletools.sandbox import Limits
from mletools.tasks.code_metrics import CodeMetrics
from mletools.tasks.folder import private_digest

# Fields that mle-grade reads; all others pass through it.
READ = (
    "task.data.dir", "task.data.private_digest", "task.submission", "task.metric", "task.answers", "task.leaderboard", "task.public_leaderboard",
    "task.thresholds", "task.answer_target", "task.answer_parse", "task.answer_separator", "task.answer_fields", "task.answer_empty_marker",
    "task.answer_several_rows", "execution", "stop_reason", "format_rate", "state", "lineage",
)  # fmt: skip
ABSENT = (
    "labels", "range", "row_sum", "empty_ok", "separator", "fields", "empty_marker", "several_rows", "repeated_ids", "extra_rows", "extra_columns",
)  # fmt: skip
ANSWERS, SUBMISSION = b"id,y,g\n1,1,a\n2,2,a\n3,3,b\n", b"id,y\n1,1.5\n2,2\n3,3\n"


CODE_METRICS = CodeMetrics("local", Limits(wall_s=30))


@pytest.fixture(autouse=True)
def boxes_end() -> Iterator[None]:
    """What a metric that is code opened ends with its test."""
    with CODE_METRICS:
        yield


def grader(data: Path, reward: str = "milestone") -> Grader:
    return Grader(data, GradingOptions(reward=reward), CODE_METRICS)


def record(data: Path) -> dict[str, Any]:
    """A rollout as mle-sandbox hands it on, with every field that mle-grade may read, and its files under `data`."""
    private = data / "tasks" / "t" / "private"
    private.mkdir(parents=True, exist_ok=True)
    (private / "answers.csv").write_bytes(ANSWERS)
    for name in ("board", "public"):
        (private / f"{name}.csv").write_text("score\n0.1\n0.2\n0.9\n")
    (data / "s.csv").write_bytes(SUBMISSION)
    metric = {"name": "mae", "params": {}, "lower_is_better": True, "columns": "mean", "where": [{"column": "g", "equals": "a"}],
              "weight": {"column": "g", "values": {"a": 1, "b": 2}}, "score_round": 4}  # fmt: skip
    task: dict[str, Any] = {
        "kind": "task", "version": 1, "id": "t", "lineage": [], "name": "t", "description": "", "modality": "tabular", "problem": "regression",
        "data": {"dir": "tasks/t", "public": [], "digest": "", "private_digest": ""}, "metric": metric, "answers": "private/answers.csv",
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 3}, "answer_target": ["y"], "answer_parse": "number",
        "leaderboard": "private/board.csv", "public_leaderboard": "private/public.csv", "provenance": {"source": "test", "seed": 0},
        "thresholds": {"median": 0.9, "bronze": 0.5, "silver": 0.3, "gold": 0.1},
    }  # fmt: skip
    task["data"]["private_digest"] = private_digest(data / "tasks/t", task)
    text = {"head": "", "tail": "", "bytes": 0}
    execution = {
        "status": "ok", "exit_code": 0, "duration_s": 0, "cpu_s": 0, "peak_memory_mb": 0, "stdout": text, "stderr": text, "markers": ["a"],
        "submission": {"file": "s.csv", "digest": bytes_digest(SUBMISSION), "bytes": len(SUBMISSION)}, "submission_problem": None,
        "backend": "local", "start": "warm", "gpu": None, "protections": {}, "limits": {},
    }  # fmt: skip
    return {
        "kind": "rollout", "version": 1, "id": "r", "lineage": [], "task": task, "group": "g", "group_size": 1, "sample": 0, "seed": 0,
        "scaffold": "single", "policy": {"model": "m", "version": None, "sampling": {}}, "messages": [{"role": "user", "content": ""}],
        "turns": [], "stop_reason": "finished", "code": "", "format_rate": 0.5, "state": {"score": 0.5}, "execution": execution,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0, "usd": None},
    }  # fmt: skip


class Opened:
    """The files that this process opens while `on`, by their real paths."""

    def __init__(self) -> None:
        self.on, self.paths = False, set[str]()
        sys.addaudithook(self._hook)  # stays until the process ends

    def _hook(self, event: str, arguments: Any) -> None:
        if self.on and event == "open" and isinstance(arguments[0], str | bytes):
            self.paths.add(os.path.realpath(os.fsdecode(arguments[0])))


OPENED = Opened()


def tried(valid: dict[str, Any], quick: bool) -> list[tuple[tuple[str | int, ...], str, str]]:
    """(path, name of the value, line), a few values in turn for each place where `quick`."""
    found = []
    more = [("task", "submission", name) for name in ABSENT] + [
        ("task", "metric", "group"),
        ("task", "metric", "file"),
        ("task", "metric", "files"),
    ]
    wanted = [path for path in places(valid) if any(".".join(map(str, path)).startswith(field) for field in READ)]
    for number, path in enumerate([*wanted, *more]):
        if path in wanted:
            found.append((path, "left out", without(valid, path)))
        for turn, (name, value) in enumerate(VALUES.items()):
            if not quick or turn % 8 == number % 8:
                found.append((path, name, with_value(valid, path, value)))
    return found


def check(data: Path, reward: str, quick: bool) -> Counter[str]:
    """Every hostile record is refused with one line or gets a reward that a valid record may have; nothing outside is read."""
    valid, work, seen = record(data), grader(data, reward), Counter[str]()
    assert outcome(json.dumps(valid), ["rollout"], work)[0] == "done"
    OPENED.paths.clear()
    libraries = tuple(os.path.realpath(each) for each in (*sys.path, sys.prefix, sys.base_prefix) if each)
    for path, name, line in tried(valid, quick):
        OPENED.on = True
        try:
            how, result = outcome(line, ["rollout"], work)
        except BaseException as error:
            raise AssertionError(f"{path} = {name}: {type(error).__name__}: {error}") from error
        finally:
            OPENED.on = False
        seen[how] += 1
        if how == "refused":
            assert result and result.isprintable() and "Traceback" not in result, (
                path,
                name,
                result,
            )
        else:
            assert result["reward"] is None or (math.isfinite(result["reward"]) and -10 <= result["reward"] <= 1), (
                path,
                name,
            )
            if result["grade"]["valid"]:
                assert isinstance(result["grade"]["score"], float) and result["grade"]["digest"] == bytes_digest(
                    SUBMISSION
                )
    outside = [each for each in OPENED.paths if not each.startswith((os.path.realpath(data), *libraries))]
    assert not outside
    return seen


def test_hostile_values_in_the_fields_that_grading_reads(tmp_path: Path) -> None:
    seen = check(tmp_path, "milestone", quick=True)
    assert seen["refused"] > 300 and seen["done"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("reward", REWARDS)
def test_every_hostile_value_in_every_field_that_grading_reads(tmp_path: Path, reward: str) -> None:
    seen = check(tmp_path, reward, quick=False)
    assert seen["refused"] > 3000 and seen["done"] > 500


PATH_FIELDS = [
    ("task", "data", "dir"), ("task", "answers"), ("task", "leaderboard"), ("task", "public_leaderboard"), ("task", "metric", "file"),
    ("execution", "submission", "file"),
]  # fmt: skip


@pytest.mark.parametrize("field", PATH_FIELDS, ids=lambda field: field[-1])
def test_paths_and_links_that_leave_the_data_folder(tmp_path: Path, field: tuple[str, ...]) -> None:
    """Whatever is there, and even where all digests fit."""
    data, outside = tmp_path / "data", tmp_path / "outside"
    data.mkdir()
    valid = record(data)
    if field[-1] == "file" and field[0] == "task":
        valid["task"]["metric"] = {"file": "private/grade.py", "lower_is_better": True}
        (data / "tasks/t/private/grade.py").write_text("def grade(s, a): return 1\n")
    os.rename(data / "tasks/t", outside)
    (data / "tasks").rmdir()
    record(data)
    inside = data if field[-1] == "dir" or field[0] == "execution" else data / "tasks/t"
    target = outside if field[-1] == "dir" else outside / "private/answers.csv"
    (inside / "link").symlink_to(target)
    named = [str(target), os.path.relpath(target, inside)]
    if field[-1] == "dir":  # folders may lie elsewhere: a link is its owner's doing
        assert outcome(with_value(valid, field, '"link"'), ["rollout"], grader(data))[0] == "done"
    else:
        named.append("link")
    for text in [*map(json.dumps, named), *PATHS.values()]:
        how, why = outcome(with_value(valid, field, text), ["rollout"], grader(data))
        assert how == "refused", text
    for name in named:
        _, why = outcome(with_value(valid, field, json.dumps(name)), ["rollout"], grader(data))
        assert any(
            each in why for each in ("inside --data", "leads out of the task's folder", "no file of mle-sandbox's")
        ), why


def test_a_hostile_record_is_refused_by_file_and_line(tmp_path: Path) -> None:
    valid = record(tmp_path)
    lines = [
        with_value(valid, path, value)
        for path, value in ((("task", "answers"), '"../x"'), (("task", "metric", "params"), "[" * 900 + "]" * 900))
    ]
    (tmp_path / "in.jsonl").write_text("\n".join([json.dumps(valid), *lines, ""]))
    done = run_command("mle-grade", "--max-rejects", "9", "in.jsonl", "-o", "out.jsonl", cwd=tmp_path)
    told = done.stderr.decode()
    assert "mle-grade: in.jsonl:2: task.answers is '../x', which is no path inside --data\n" in told
    assert "in.jsonl:3: " in told and "Traceback" not in told and "internal error" not in told
    assert at(json.loads((tmp_path / "out.jsonl").read_text()), ("grade", "valid")) is True
