"""Metrics that are code: they run in a sandbox of the grader's. What comes of one that fails: test_failing_metric.py."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from code_metric_builders import code_metric_task
from conftest import mostly_slow, records, run_command

from mletools.base.errors import ToolError
from mletools.grading import code
from mletools.tasks.folder import private_digest

FUNCTION = """
from mlebench.grade_helpers import InvalidSubmissionError
from mlebench.competitions.fish.weights import WEIGHT
from mlebench.competitions.weights import WEIGHT as SAME
from .weights import WEIGHT as AGAIN
import pandas as pd

def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    if (submission["y"] < 0).any():
        raise InvalidSubmissionError("a weight below 0")
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
        if (submission["y"] < 0).any():
            raise InvalidSubmissionError("a weight below 0")
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
    assert (both["y"] >= 0).all(), "a weight below 0"
    print("some chatter")
    print(json.dumps({"score": (both["y"] - both["y_true"]).abs().mean(), "is_lower_better": True}))
except Exception as error:
    print(json.dumps({"error": str(error)}))
"""
STYLES = {"function": FUNCTION, "class": CLASS, "script": SCRIPT}
GOOD, WRONG = b"id,y\n1,11\n2,22\n", b"id,y\n1,-11\n2,22\n"
REFUSED = "a weight below 0"


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Writes a task with a metric that is code, and rollouts that hand in the given submissions."""

    def write(style: str, source: str, *submissions: bytes) -> Path:
        return code_metric_task(tmp_path, source, submissions, style=style)

    return write


@pytest.mark.parametrize("style", mostly_slow(STYLES, 1))
def test_every_style_scores_and_refuses(make: Any, style: str) -> None:
    folder = make(style, STYLES[style], GOOD, WRONG)
    first, second = records(run_command("mle-grade", "--reward", "raw", "in.jsonl", cwd=folder).stdout)
    score = 3.0 if style == "function" else 1.5
    assert first["grade"]["valid"] and first["grade"]["score"] == score and first["reward"] == -score
    assert first["grade"]["metric"] == "private/grade.py"
    assert not second["grade"]["valid"] and second["grade"]["reason"] == REFUSED


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
    rollout["code"] = "open('submission.csv', 'w').write('id,answer\\n1,x\\n2,y\\n')"
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(rollout) + "\n")
    run_command("mle-sandbox", "rollouts.jsonl", "-o", "executed.jsonl", cwd=tmp_path)
    (graded,) = records(run_command("mle-grade", "executed.jsonl", cwd=tmp_path).stdout)
    assert graded["grade"]["score"] == 1


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


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for part in ("private", "other"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.py").write_text("")
    (tmp_path / "private/answers.csv").write_text("")
    task = {"metric": {"file": "private/a.py", "files": ["other/a.py"]}, "answers": "private/answers.csv"}
    box = tmp_path / "box"
    box.mkdir()
    with pytest.raises(ToolError, match="two files of the metric have the same name"):
        code.lay_out(task["metric"], task["answers"], tmp_path, box)


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
    assert json.loads((tmp_path / code.VERDICT).read_text()) == {"score": 2.0}


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
    return float(submission["y"][0] + leftovers)
grade.read_csv = pd.read_csv
"""


def test_a_metric_is_loaded_once_and_no_submission_meets_what_another_left(make: Any) -> None:
    folder = make("function", COUNTING, *(f"id,y\n1,{value}\n2,0\n".encode() for value in (1, 2, 3)))
    graded = records(run_command("mle-grade", "--reward", "raw", "-k", "in.jsonl", cwd=folder).stdout)
    assert [each["grade"]["score"] for each in graded] == [1, 2, 3]


@pytest.mark.slow
def test_a_metric_that_is_code_reads_the_largest_submission(make: Any) -> None:
    content = b"id,y,note\n1,1,\n2,2," + b"a" * (31 << 20) + b"\n"
    folder = make("function", "def grade(submission, answers):\n    return len(submission.note[1])", content)
    (graded,) = records(run_command("mle-grade", "in.jsonl", cwd=folder).stdout)
    assert graded["grade"]["score"] == 31 << 20


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
