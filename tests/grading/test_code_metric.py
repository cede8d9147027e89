"""Metrics that are code: they run in a sandbox of the grader's, and their trouble is never the submission's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command

from mletools.grading import Invalid, code
from mletools.records.errors import RecordError, ToolError
from mletools.records.ids import bytes_digest
from mletools.tasks.folder import private_digest

FUNCTION = """
from mlebench.grade_helpers import InvalidSubmissionError
from mlebench.competitions.fish.weights import WEIGHT
from mlebench.competitions.weights import WEIGHT as SAME
from .weights import WEIGHT as AGAIN
import pandas as pd

def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    if "y" not in submission:
        raise InvalidSubmissionError("there is no column y")
    assert WEIGHT == SAME == AGAIN
    both = submission.merge(answers, on="id", suffixes=("", "_true"))
    if both["y"].max() > 1000:
        raise RuntimeError("a bug")
    return WEIGHT * (both["y"] - both["y_true"]).abs().mean()
"""
CLASS = """
from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError

class FishMetrics(CompetitionMetrics):
    def __init__(self, value="y", higher_is_better=False):
        super().__init__(higher_is_better)
        self.value = value

    def evaluate(self, y_true, y_pred):
        return float((y_true[self.value] - y_pred[self.value]).abs().mean())

    def validate_submission(self, submission, ground_truth):
        if len(submission) != len(ground_truth):
            raise InvalidSubmissionError("Number of rows differs.")
"""
SCRIPT = """
import argparse, json, os
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--submission_path")
path = parser.parse_args().submission_path
try:
    truth = pd.read_csv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "answers.csv"))
    both = pd.read_csv(path).merge(truth, on="id", suffixes=("", "_true"))
    assert len(both) == len(truth), "ids do not match"
    print("some chatter")
    print(json.dumps({"score": (both["y"] - both["y_true"]).abs().mean(), "is_lower_better": True}))
except Exception as error:
    print(json.dumps({"error": str(error)}))
"""
STYLES = {"function": FUNCTION, "class": CLASS, "script": SCRIPT}
GOOD, WRONG = b"id,y\n1,11\n2,22\n", {"function": b"id,z\n1,2\n", "class": b"id,y\n1,2\n", "script": b"id,y\n9,2\n"}
REFUSED = {"function": "there is no column y", "class": "Number of rows differs.", "script": "ids do not match"}


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Writes a task with a metric that is code, and rollouts that hand in the given submissions."""

    def write(style: str, source: str, *submissions: bytes) -> Path:
        private = tmp_path / "tasks" / "fish" / "private"
        private.mkdir(parents=True)
        (private / "answers.csv").write_text("id,y\n1,10\n2,20\n")
        (private / "grade.py").write_text(source)
        (private / "weights.py").write_text("WEIGHT = 2\n")
        metric = {"file": "private/grade.py", "style": style, "files": ["private/weights.py"], "lower_is_better": True}
        task: dict[str, Any] = {
            "kind": "task", "version": 1, "id": "fish", "lineage": [], "name": "fish", "description": "", "modality": "tabular",
            "problem": "regression", "data": {"dir": "tasks/fish", "public": [], "digest": "", "private_digest": ""},
            "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 2}, "metric": metric,
            "answers": "private/answers.csv", "provenance": {"source": "test", "seed": 0},
        }  # fmt: skip
        task["data"]["private_digest"] = private_digest(tmp_path / "tasks" / "fish", task)
        lines = []
        for at, content in enumerate(submissions):
            name = f"{at}.csv"
            (tmp_path / name).write_bytes(content)
            text = {"head": "", "tail": "", "bytes": 0}
            execution = {
                "status": "ok", "exit_code": 0, "duration_s": 0, "cpu_s": 0, "peak_memory_mb": 0, "stdout": text, "stderr": text,
                "markers": [], "submission": {"file": name, "digest": bytes_digest(content), "bytes": len(content)},
                "submission_problem": None, "backend": "local", "start": "warm", "gpu": None, "protections": {}, "limits": {},
            }  # fmt: skip
            rollout = {
                "kind": "rollout", "version": 1, "id": f"r{at}", "lineage": [], "task": task, "group": "g", "group_size": 1,
                "sample": at, "seed": 0, "scaffold": "single", "policy": {"model": "m", "version": None, "sampling": {}},
                "messages": [{"role": "user", "content": ""}], "turns": [], "stop_reason": "finished", "code": "",
                "usage": {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0, "usd": None}, "execution": execution,
            }  # fmt: skip
            lines.append(json.dumps(rollout))
        (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path

    return write


@pytest.mark.parametrize("style", mostly_slow(STYLES, 1))
def test_every_style_scores_and_refuses(make: Any, style: str) -> None:
    folder = make(style, STYLES[style], GOOD, WRONG[style])
    first, second = records(run_command("mle-grade", "--reward", "raw", "in.jsonl", cwd=folder).stdout)
    score = 3.0 if style == "function" else 1.5
    assert first["grade"]["valid"] and first["grade"]["score"] == score and first["reward"] == -score
    assert first["grade"]["metric"] == "private/grade.py"
    assert not second["grade"]["valid"] and second["grade"]["reason"] == REFUSED[style]


# Submissions that are no table.
NO_TABLES = [
    b"", b"\n", b" \n\n", b"id,y\n1,11\n2,22,33\n", b"\xff\xfei\x00d\x00", b"id,y\n1,\xe9\n2,3\n", b'id,y\n1,"11\n2,22\n',
    b"\x89PNG\r\n\x1a\n\0\0", b"id,y\n1,11,5\n2,22,6\n3\n", b"PK\x03\x04\0\0", b"id,y\n1\n2\n",
]  # fmt: skip
FRAGILE = """
import argparse, json
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--submission_path")
submission = pd.read_csv(parser.parse_args().submission_path)
assert submission["y"].notna().all()
print(json.dumps({"score": float(submission["y"].astype(float).sum())}))
"""
STRICT = FUNCTION.replace('if both["y"]', 'assert both["y"].notna().all()\n    if both["y"]')
STRICT_CLASS = CLASS.replace(
    "return float(", 'assert y_pred["y"].notna().all() and set(y_pred["id"]) == {1, 2}\n        return float('
)


@pytest.mark.parametrize(
    ("style", "source"),
    [
        ("function", STRICT),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("class", STRICT_CLASS), ("script", FRAGILE))),
    ],
)
def test_a_submission_that_is_not_a_table_is_invalid(make: Any, style: str, source: str) -> None:
    folder = make(style, source, GOOD, *NO_TABLES)
    good, *bad = [record["grade"] for record in records(run_command("mle-grade", "-k", "in.jsonl", cwd=folder).stdout)]
    assert good["valid"] and len(bad) == len(NO_TABLES)
    for content, grade in zip(NO_TABLES, bad, strict=True):
        assert not grade["valid"] and grade["score"] is None, content
        assert grade["reason"] and "Traceback" not in grade["reason"] and "\n" not in grade["reason"], content


@pytest.mark.slow
def test_answers_that_cannot_be_read_stay_an_error(make: Any) -> None:
    folder = make("function", FUNCTION, GOOD)
    task = json.loads((folder / "in.jsonl").read_text())["task"]
    (folder / "tasks/fish/private/answers.csv").write_bytes(b"id,y\n1,2,3\n4\n5,6,7,8\n")
    task["data"]["private_digest"] = private_digest(folder / "tasks/fish", task)
    line = json.loads((folder / "in.jsonl").read_text())
    (folder / "in.jsonl").write_text(json.dumps({**line, "task": task}) + "\n")
    done = run_command("mle-grade", "in.jsonl", cwd=folder, check=False)
    assert done.returncode == 1 and "in.jsonl:1: the metric private/grade.py failed: Traceback" in done.stderr.decode()


def test_a_metric_that_fails_is_an_error_and_others_go_on(make: Any) -> None:
    folder = make("function", FUNCTION, GOOD, b"id,y\n1,5000\n2,2\n", GOOD)
    stopped = run_command("mle-grade", "in.jsonl", cwd=folder, check=False)
    assert stopped.returncode == 1
    message = stopped.stderr.decode()
    assert "in.jsonl:2: the metric private/grade.py failed: Traceback" in message and "RuntimeError: a bug" in message
    done = run_command("mle-grade", "-j2", "-k", "--max-rejects", "1", "--rejects", "bad.jsonl", "in.jsonl", cwd=folder)
    assert [record["id"] for record in records(done.stdout)] == ["r0", "r2"]
    assert "a bug" in records((folder / "bad.jsonl").read_bytes())[0]["reason"]


LISTS = """
def grade(submission, answers):
    assert isinstance(answers, list) and answers[0]["annotations"][0]["start"] == 3
    return sum(row["id"] in set(submission["id"]) for row in answers) / len(answers)
"""


@pytest.mark.slow
def test_a_competition_with_json_lines_for_answers_from_import_to_score(tmp_path: Path) -> None:
    prepared = tmp_path / "questions" / "prepared"
    for part, name, content in (
        ("public", "sample_submission.csv", "id,answer\n1,\n2,\n"),
        ("public", "train.csv", "id,text,answer\n7,who,x\n8,when,y\n"),
        ("public", "test.csv", "id,text\n1,who\n2,when\n"),
        ("private", "test.jsonl", '{"id": 1, "annotations": [{"start": 3}]}\n{"id": 2, "annotations": []}\n'),
    ):
        (prepared / part).mkdir(parents=True, exist_ok=True)
        (prepared / part / name).write_text(content)
    for name, content in (("description.md", "# Questions\n"), ("grade.py", LISTS), ("config.yaml", CONFIG)):
        (tmp_path / "questions" / name).write_text(content)
    asked = ("mle-import", "--format", "mle-bench", "--higher-is-better", "questions", "-o", "tasks.jsonl")
    run_command(*asked, cwd=tmp_path)
    (task,) = records((tmp_path / "tasks.jsonl").read_bytes())
    assert task["submission"]["rows"] == 2 and task["answers"] == "private/test.jsonl"
    question = run_command("mle-rollout", "-o", "rollouts.jsonl", "tasks.jsonl", cwd=tmp_path)
    assert question.returncode == 0
    (rollout,) = records((tmp_path / "rollouts.jsonl").read_bytes())
    assert "The metric is the one that the description defines: higher is better." in rollout["messages"][0]["content"]
    rollout["code"] = "open('submission.csv', 'w').write('id,answer\\n1,x\\n')"
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(rollout) + "\n")
    run_command("mle-sandbox", "rollouts.jsonl", "-o", "executed.jsonl", cwd=tmp_path)
    (graded,) = records(run_command("mle-grade", "executed.jsonl", cwd=tmp_path).stdout)
    assert graded["grade"]["score"] == 0.5


CONFIG = """
id: questions
dataset:
  answers: questions/prepared/private/test.jsonl
"""
HOSTILE = """
import os, subprocess
open(os.path.expanduser("/tmp/outside"), "w").write("x")
def grade(submission, answers):
    found = subprocess.run("cat {secret}; ls / ; id -u", shell=True, capture_output=True, text=True).stdout
    raise ZeroDivisionError(found)
"""


def test_a_metric_reaches_nothing_but_its_own_files(make: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    secret.chmod(0o600)
    folder = make("function", HOSTILE.format(secret=secret), GOOD)
    Path("/tmp/outside").unlink(missing_ok=True)
    done = run_command("mle-grade", "in.jsonl", cwd=folder, check=False)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr.decode()
    assert "the key" not in done.stderr.decode() and not Path("/tmp/outside").exists()


@pytest.mark.parametrize(
    ("source", "status"),
    [
        pytest.param("while True: pass", "timeout", marks=pytest.mark.slow),
        pytest.param("import os; os._exit(3)", "killed", marks=pytest.mark.slow),
        ("def grade(submission, answers):\n    while True: pass", "timeout"),
        ("import os\ndef grade(submission, answers):\n    os._exit(3)", "error"),
    ],
)
def test_a_metric_that_ends_badly_is_an_error(make: Any, source: str, status: str) -> None:
    folder = make("function", source, GOOD)
    done = run_command(
        "mle-grade", "--metric-timeout", "1" if status == "timeout" else "20", "in.jsonl", cwd=folder, check=False
    )
    assert done.returncode == 1
    assert f"in.jsonl:1: the metric private/grade.py ended with status {status}" in done.stderr.decode()


def test_an_exchanged_metric_is_noticed(make: Any) -> None:
    folder = make("function", FUNCTION, GOOD)
    (folder / "tasks/fish/private/weights.py").write_text("WEIGHT = 0\n")
    done = run_command("mle-grade", "in.jsonl", cwd=folder, check=False)
    assert (
        done.returncode == 1 and "the files are not those of the task record (digest differs)" in done.stderr.decode()
    )


def test_folders_of_killed_runs_are_removed_and_nobody_else_may_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, fresh = tmp_path / "mle-grade-left", tmp_path / "mle-grade-fresh"
    for folder in (left, fresh):
        (folder / "input").mkdir(parents=True)
    os.utime(left, (0, 0))
    with code.box() as place:
        assert not left.exists() and fresh.exists()
        assert place.parent.stat().st_mode & 0o777 == 0o700
        os.utime(place.parent, (0, 0))
        with code.box() as other:
            assert place.exists() and other != place  # a living run's folder stays, however old
    assert [path.name for path in tmp_path.iterdir()] == ["mle-grade-fresh"]


def test_what_the_program_says_is_checked() -> None:
    task = {"metric": {"file": "private/grade.py"}}
    assert code.read_score(task, b"id\n1\n", "ok", b'{"score": 2}', b"") == 2
    for said in (b'{"score": NaN}', b'{"score": null}', b'{"score": "1"}', b'{"score": Infinity}'):
        with pytest.raises(Invalid, match=r"the metric grade\.py of these predictions is not a finite number"):
            code.read_score(task, b"id\n1\n", "ok", said, b"")
    for said, reason in (
        (b"rubbish", "wrote no JSON"),
        (b'{"error": "x"}', "failed: x"),
        (None, "ended with status ok"),
    ):
        with pytest.raises(RecordError, match=reason):
            code.read_score(task, b"id\n1\n", "ok", said, b"")


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for part in ("private", "other"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.py").write_text("")
    (tmp_path / "private/answers.csv").write_text("")
    task = {"metric": {"file": "private/a.py", "files": ["other/a.py"]}, "answers": "private/answers.csv"}
    box = tmp_path / "box"
    box.mkdir()
    with pytest.raises(ToolError, match="two files of the metric have the same name"):
        code.lay_out(task, tmp_path, box)


def test_the_program_needs_nothing_of_mletools(tmp_path: Path) -> None:
    """It runs where the package is hidden."""
    (tmp_path / "input").mkdir()
    for name, content in (("m.py", "def grade(s, a): return len(s)"), ("a.csv", "id\n1\n")):
        (tmp_path / "input" / name).write_text(content)
    (tmp_path / "input/judge.json").write_text(json.dumps({"file": "m.py", "style": "function", "answers": "a.csv"}))
    (tmp_path / "judge.py").write_text(
        f"{code.program()}\nprepare()\n{code.call(b'id%1%2%'.replace(b'%', bytes([10])))}\n"
    )
    subprocess.run([sys.executable, "-I", "judge.py"], cwd=tmp_path, check=True, env={"PATH": os.environ["PATH"]})
    assert json.loads((tmp_path / "submission.csv").read_text()) == {"score": 2.0}


COUNTING = """
import os, sys
import pandas as pd
LOADED = []
def grade(submission, answers):
    LOADED.append(1)
    leftovers = len(LOADED) - 1 + (pd.read_csv is not grade.read_csv) + hasattr(sys, "left") + os.path.exists("left")
    pd.read_csv = None
    sys.left = True
    os.chdir("/tmp")
    if submission["y"][0] == 666:
        os._exit(3)
    if submission["y"][0] == 777:
        while True: pass
    return float(submission["y"][0] + leftovers)
grade.read_csv = pd.read_csv
"""


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_metric_is_loaded_once_and_no_submission_meets_what_another_left(make: Any, hangs: bool) -> None:
    def file(value: int) -> bytes:
        return f"id,y\n1,{value}\n2,0\n".encode()

    values = [1, 2, 666, 3, *([777] if hangs else []), 4]
    folder = make("function", COUNTING, *map(file, values))
    options = ("--reward", "raw", "--metric-timeout", "4", "--max-rejects", "2", "--rejects", "rejects.jsonl")
    graded = records(run_command("mle-grade", *options, "-k", "in.jsonl", cwd=folder).stdout)
    assert [each["grade"]["score"] for each in graded] == [1, 2, 3, 4]
    reasons = [each["reason"] for each in records((folder / "rejects.jsonl").read_bytes())]
    assert len(reasons) == 1 + hangs and "ended with status error" in reasons[0]
    assert not hangs or "ended with status timeout" in reasons[1]


@pytest.mark.slow
def test_a_metric_that_is_code_reads_the_largest_submission(make: Any) -> None:
    content = b"id,y\n" + b"".join(b"%d,%d\n" % (at, at) for at in range(2_180_000))
    assert 30 << 20 < len(content) < 32 << 20
    folder = make("function", "def grade(submission, answers):\n    return len(submission)", content)
    (graded,) = records(run_command("mle-grade", "in.jsonl", cwd=folder).stdout)
    assert graded["grade"]["score"] == 2_180_000


@pytest.mark.slow
def test_tasks_take_turns(make: Any) -> None:
    """Rollouts of two tasks with metrics of their own, one after the other."""
    folder = make("function", "def grade(submission, answers):\n    return 1", GOOD, GOOD)
    other = Path(shutil.copytree(folder / "tasks/fish", folder / "tasks/crab"))
    (other / "private/grade.py").write_text("def grade(submission, answers):\n    return 2")
    lines = [json.loads(line) for line in (folder / "in.jsonl").read_text().splitlines()]
    crab = {**lines[0]["task"], "id": "crab", "data": {**lines[0]["task"]["data"], "dir": "tasks/crab"}}
    crab["data"]["private_digest"] = private_digest(other, crab)
    mixed = [lines[0], {**lines[0], "id": "c0", "task": crab}, lines[1], {**lines[1], "id": "c1", "task": crab}]
    (folder / "mixed.jsonl").write_text("".join(json.dumps(each) + "\n" for each in mixed))
    graded = records(run_command("mle-grade", "-k", "mixed.jsonl", cwd=folder).stdout)
    assert [each["grade"]["score"] for each in graded] == [1, 2, 1, 2]
