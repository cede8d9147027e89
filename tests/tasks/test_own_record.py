"""Tasks that a person describes: mle-import --record and --seal, the real command on folders made here."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from import_builders import leaderboard, table, write

from mletools.base.errors import RecordError
from mletools.grading import grade
from mletools.records import schema
from mletools.tasks.folder import data_digest, private_digest
from mletools.tasks.importing.options import ImportOptions
from mletools.tasks.importing.task import seal_task
from mletools.tasks.table import Rejected

FERRY: dict[str, Any] = {
    "name": "ferry",
    "data": {"dir": "tasks/ferry"},
    "metric": {"name": "auroc"},
    "thresholds": {"median": 0.6, "bronze": 0.7, "silver": 0.8, "gold": 0.9},
}
ROWS = [[at, at * 37 % 40, int(at * 37 % 40 > 20)] for at in range(60)]
ANSWERS = table(["id", "late"], [[row[0], row[2]] for row in ROWS[40:]])


def ferry(data: Path, changes: dict[str, str] | None = None) -> Path:
    """A folder in its final form, with changes of files by name."""
    files = {
        "public/train.csv": table(["id", "wind", "late"], ROWS[:40]),
        "public/test.csv": table(["id", "wind"], [row[:2] for row in ROWS[40:]]),
        "public/sample_submission.csv": table(["id", "late"], [[row[0], 0.5] for row in ROWS[40:]]),
        "public/description.md": "# Ferries\n\nWhich are late? \n",
        "private/answers.csv": ANSWERS,
    }
    return write(data / "tasks" / "ferry", {**files, **(changes or {})})


def imported(*args: str, cwd: Path, code: int = 0, input: bytes = b"") -> tuple[list[dict[str, Any]], list[str]]:
    """The records and what was said, without the summary."""
    done = run_command("mle-import", *args, cwd=cwd, check=False, input=input)
    said = done.stderr.decode().splitlines()
    assert done.returncode == code, said
    return records(done.stdout), [line for line in said if line[-2:] != " s"]


def sealed(data: Path, record: dict[str, Any], *options: str, code: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    (data / "ferry.json").write_text(json.dumps(record, indent=2))
    return imported("--seal", "ferry.json", *options, cwd=data, code=code)


# --- seal -------------------------------------------------------------------------------------------------------------


def test_a_task_made_by_hand_is_completed_where_it_lies(tmp_path: Path) -> None:
    folder = ferry(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (task,), _ = sealed(tmp_path, FERRY)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    schema.check(task, "task")
    assert task["submission"] == {"id": ["id"], "target": ["late"], "parse": "number", "range": [0, 1], "rows": 20}
    assert task["metric"] == {"name": "auroc", "params": {}, "lower_is_better": False}
    assert task["description"] == "# Ferries\n\nWhich are late? \n"
    assert task["data"]["public"] == ["description.md", "sample_submission.csv", "test.csv", "train.csv"]
    assert task["data"]["digest"] == data_digest(folder, task["data"]["public"], "private/answers.csv")
    assert task["data"]["private_digest"] == private_digest(folder, task)
    assert task["provenance"] == {
        "source": "author:ferry",
        "seed": 0,
        "graded_by": "author",
        "sanity": {"perfect_submission": 1.0, "sample_submission": 0.5, "answers_secret": "passed"},
    }
    assert grade(task, folder, ANSWERS.encode()).medal == "gold"
    (again,), _ = sealed(tmp_path, task)  # a sealed record can be sealed again, and keeps its id
    assert {**again, "lineage": []} == {**task, "lineage": []} and len(again["lineage"]) == 2


def test_json_lines_from_a_script_and_a_resumed_run(tmp_path: Path) -> None:
    ferry(tmp_path)
    shutil.copytree(tmp_path / "tasks" / "ferry", tmp_path / "tasks" / "boat")
    other = {**FERRY, "name": "boat", "data": {"dir": "tasks/boat"}, "id": "my-boat"}
    lines = "\n".join(map(json.dumps, [FERRY, other])).encode()
    both, _ = imported("--seal", "-", "-k", cwd=tmp_path, input=lines)
    assert [task["name"] for task in both] == ["ferry", "boat"] and both[1]["id"] == "my-boat"
    (tmp_path / "all.jsonl").write_bytes(lines)
    whole = ("--seal", "all.jsonl", "-o", "out.jsonl")
    imported(*whole, cwd=tmp_path)
    done = run_command("mle-import", *whole, "--resume", cwd=tmp_path)
    assert b"2 finished before" in done.stderr


@pytest.mark.slow
def test_thresholds_come_from_baselines_where_none_are_written(tmp_path: Path) -> None:
    ferry(tmp_path)
    record = {name: value for name, value in FERRY.items() if name != "thresholds"}
    (task,), _ = sealed(tmp_path, record, "--thresholds", "none")
    assert "thresholds" not in task
    (task,), said = sealed(tmp_path, record)
    assert "baselines" in task["provenance"] or "no thresholds" in said[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": None}, 'there is no "name"'),
        ({"name": "late ferries"}, "name: 'late ferries' may have letters, digits, '.', '_' and '-' alone"),
        ({"data": {}}, 'there is no "data.dir"'),
        ({"data": {"dir": "../ferry"}}, "data.dir is '../ferry', which is no path inside --data"),
        (
            {"data": {"dir": "tasks/boat"}},
            "tasks/boat/public: no such folder: it holds what agents see; data.dir is relative to --data",
        ),
        ({"treshold": 1}, 'no field is called "treshold": did you mean "thresholds"?'),
        ({"metric": {"nam": "auroc"}}, 'no field is called "metric.nam": did you mean "name"?'),
        ({"metric": {}}, '"metric" needs a "name" (mle-grade --list-metrics lists them), or a "file" of code'),
        (
            {"metric": {"name": "auroc", "lower_is_better": True}, "thresholds": None},
            "metric.lower_is_better contradicts auroc: higher is better",
        ),
        ({"submission": {"parse": "numbers"}}, "submission.parse: Invalid enum value 'numbers': known are "),
        ({"submission": {"rows": 7}}, "submission.rows is 7, and answers.csv has 20 different ids"),
        ({"answers": "private/a.csv"}, "answers is 'private/a.csv', and tasks/ferry has no such file"),
        ({"answers": "public/train.csv"}, "answers is 'public/train.csv', which agents see: move it to private/"),
        (
            {"thresholds": {"median": 0.6, "bronze": 0.7, "silver": 0.8, "gold": 1.2}},
            "thresholds.gold is 1.2, out of reach: the answers themselves score 1",
        ),
        (
            {"description": "Other"},
            'the record\'s "description" is not the text of tasks/ferry/public/description.md: leave it out of the record',
        ),
        (
            {"metric": {"file": "private/answers.csv"}},
            '"metric.lower_is_better" is missing: a metric that is code does not say which scores are better',
        ),
        ({"leaderboard": "private/board.csv"}, "leaderboard is 'private/board.csv', and tasks/ferry has no such file"),
    ],
)
def test_records_that_are_not_sealed(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    ferry(tmp_path)
    record = {name: value for name, value in {**FERRY, **changes}.items() if value is not None}
    _, said = sealed(tmp_path, record, code=1)
    assert len(said) == 1 and said[0].startswith(f"mle-import: ferry.json:1: {reason}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"public/sample_submission.csv": table(["id", "late"], [[at, 0.5] for at in range(41, 61)])},
            "the sample submission is invalid: id '60' is not in the test set (1 such rows)",
        ),
        (
            {"public/test.csv": table(["id", "wind", "late"], ROWS[40:])},
            "answers_secret: test.csv has the target column late",
        ),
        ({"public/old.csv": ANSWERS}, "the public file old.csv is a copy of private/answers.csv"),
        ({"public/.answers.csv": ANSWERS}, "public/.answers.csv is hidden, but agents see it: remove it"),
        ({"public/a/.old/b": "1"}, "public/a/.old is hidden, but agents see it: remove it"),
        ({"private/answers.csv": ANSWERS.replace("59,", "58,")}, "its answers cannot be graded: "),
        ({"public/description.md": " "}, "tasks/ferry/public/description.md: empty: describe there what is to be done"),
        ({"public/sample_submission.csv": ""}, "sample_submission.csv: the first line is empty"),
    ],
)
def test_folders_that_are_not_sealed(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    ferry(tmp_path, changes)
    _, said = sealed(tmp_path, FERRY, code=1)
    assert len(said) == 1 and said[0].startswith(f"mle-import: ferry.json:1: {reason}")


def test_files_that_must_be_there(tmp_path: Path) -> None:
    folder = ferry(tmp_path)
    (folder / "public" / "sample_submission.csv").unlink()
    assert sealed(tmp_path, FERRY, code=1)[1] == ["mle-import: ferry.json:1: there is no sample_submission.csv"]
    (folder / "public" / "description.md").unlink()
    reason = "tasks/ferry/public/description.md: no such file: describe there what is to be done"
    assert sealed(tmp_path, FERRY, code=1)[1] == [f"mle-import: ferry.json:1: {reason}"]


def test_answers_that_do_not_score_as_perfect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ferry(tmp_path)
    monkeypatch.setattr("mletools.tasks.importing.task.score_bytes", lambda *_: 0.25)
    reason = (
        "the answers as a submission score 0.25, a perfect auroc is 1: "
        "do submission, answer_parse and metric.params describe the answers?"
    )
    with pytest.raises(Rejected, match=re.escape(reason)):
        seal_task(FERRY, ImportOptions(), tmp_path)


def test_text_that_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{\n  "name": "a",\n  "data": }\n')
    _, said = imported("--seal", "x.json", cwd=tmp_path, code=1)
    assert said == ["mle-import: x.json:3: not JSON: Expecting value"]
    (tmp_path / "x.json").write_text('{"name": "a"}\n[]\n')
    _, said = imported("--seal", "x.json", cwd=tmp_path, code=1)
    assert said == ["mle-import: x.json:2: not a JSON object"]
    _, said = imported("--seal", "-", cwd=tmp_path, code=1)
    assert said == ["mle-import: stdin: no records"]
    _, said = imported("--seal", "y.json", cwd=tmp_path, code=1)
    assert said == ["mle-import: y.json: No such file or directory"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--seal", "a.json", "folder"), "--seal reads records, in which data.dir names the folder: leave folder out"),
        (("--seal", "a.json", "--metric", "mae"), "--seal takes the task from the record: leave --metric out"),
    ],
)
def test_options_that_do_not_go_with_seal(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    _, said = imported(*options, cwd=tmp_path, code=2)
    assert said[-1] == f"Error: {reason}"


# --- record -----------------------------------------------------------------------------------------------------------


def described(data: Path, record: Any, *args: str, code: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    (data / "record.json").write_text(json.dumps(record))
    return imported(*args, "--record", "record.json", cwd=data, code=code)


def test_a_record_describes_a_folder_of_any_layout(tmp_path: Path) -> None:
    pictures = {f"pictures/{at}.png": str(at) for at in range(9)}
    truth = table(["name", "class"], [[f"{at}.png", ("cat", "dog")[at % 2]] for at in range(4)])
    files = {
        "sampleSubmission.csv": table(["name", "kind"], [[f"{at}.png", "cat"] for at in range(4)]),
        "secret/truth.csv": truth,
        "secret/teams.csv": leaderboard([0.9, 0.8, 0.5]),
        "known.csv": table(["name", "class"], [[f"{at}.png", ("cat", "dog")[at % 2]] for at in range(4, 9)]),
        "private/notes.txt": "not for agents",
        "description.md": "# Cats\n",
    }
    write(tmp_path / "cats", {**files, **pictures})
    record = {
        "name": "cats-and-dogs",
        "metric": {"name": "accuracy"},
        "answers": "secret/truth.csv",
        "answer_target": ["class"],
        "leaderboard": "secret/teams.csv",
        "provenance": {"license": "CC0"},
    }
    (task,), _ = described(tmp_path, record, "cats")
    assert task["name"] == "cats-and-dogs" and task["modality"] == "image" and task["description"] == "# Cats\n"
    assert task["submission"] == {"id": ["name"], "target": ["kind"], "parse": "label", "rows": 4}
    assert task["answers"] == "private/truth.csv" and task["leaderboard"] == "private/leaderboard.csv"
    assert task["data"]["public"] == ["description.md", "known.csv", *sorted(pictures), "sampleSubmission.csv"]
    folder = tmp_path / task["data"]["dir"]
    assert (folder / "private" / "leaderboard.csv").read_text() == "score\n0.9\n0.8\n0.5\n"
    assert task["provenance"]["license"] == "CC0" and task["provenance"]["source"] == "author:cats"
    assert grade(task, folder, truth.replace("class", "kind").encode()).medal == "gold"
    (tmp_path / "cats" / "description.md").unlink()
    metric = "def grade(submission, answers):\n    return (submission['kind'] == answers['class']).mean()\n"
    write(tmp_path / "cats", {"secret/metric.py": metric})
    for changed, told in (({}, "accuracy: "), ({"metric": {"file": "secret/metric.py", "lower_is_better": False}}, "")):
        (task,), _ = described(tmp_path, {**record, **changed}, "cats")
        assert task["description"].startswith(
            f"# cats\n\nPredict the rows of `sampleSubmission.csv`.\n\n## Metric\n\n{told}"
        )
        assert "train.csv" not in task["description"] and "test.csv" not in task["description"]


def test_a_record_names_the_answers_of_a_prepared_folder(tmp_path: Path) -> None:
    (tmp_path / "boats").mkdir()
    ferry(tmp_path).rename(tmp_path / "boats" / "prepared")
    record = {"metric": {"name": "auroc"}, "answers": "prepared/private/answers.csv"}
    (task,), _ = described(tmp_path, record, "boats", "--thresholds", "none")
    assert task["data"]["public"] == ["description.md", "sample_submission.csv", "test.csv", "train.csv"]
    _, said = described(tmp_path, {**record, "answers": "answers.csv"}, "boats", code=1)
    reason = f"answers is 'answers.csv', and {tmp_path}/boats has no such file"
    assert said == [f"mle-import: skipped boats: {reason}", "mle-import: nothing was imported"]


def test_a_table_has_no_answers_beside_it(tmp_path: Path) -> None:
    write(tmp_path, {"rents.csv": "id,rent\n1,2\n"})
    _, said = described(tmp_path, {"metric": {"name": "mae"}, "answers": "a.csv"}, "rents.csv", code=1)
    assert said[0] == "mle-import: skipped rents.csv: no folder, and --record names answers in one"


def test_a_metric_that_is_code(tmp_path: Path) -> None:
    folder = ferry(tmp_path)
    write(
        folder,
        {"private/grade.py": "from near import grade\n", "private/near.py": "def grade(a, b):\n    return 0.5\n"},
    )
    record = {"metric": {"file": "private/grade.py", "lower_is_better": True}, "answers": "private/answers.csv"}
    (task,), said = described(tmp_path, record, "tasks/ferry")
    assert task["metric"] == {**record["metric"], "style": "function", "files": ["private/near.py"]}
    assert said[0] == "mle-import: ferry: no thresholds: no medals (its metric is code)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return None", "it fails on the sample submission: TypeError: "),
        ("return {'score': 0.5}", "it fails on the sample submission: TypeError: "),
        ("raise SystemExit(1)", "it fails on the sample submission: "),
        ("import os; os._exit(0)", "it fails on the sample submission: it leaves no result"),
        ("return 1 / 0", "it fails on the sample submission: ZeroDivisionError: division by zero"),
        (
            "return float('nan')",
            "the sample submission is invalid: the metric grade.py of these predictions is not a finite",
        ),
    ],
)
def test_a_metric_that_scores_nothing_is_refused(tmp_path: Path, body: str, reason: str) -> None:
    folder = ferry(tmp_path)
    write(folder, {"private/grade.py": f"def grade(submission, answers):\n    {body}\n"})
    record = {"metric": {"file": "private/grade.py", "lower_is_better": True}, "answers": "private/answers.csv"}
    _, said = described(tmp_path, record, "tasks/ferry", code=1)
    assert said[0].startswith("mle-import: skipped ferry: private/grade.py does not score what it ought to: ")
    assert reason in said[0] and not list((tmp_path / "tasks").glob("ferry-*"))


@pytest.mark.slow
def test_a_record_without_answers_corrects_what_is_guessed(tmp_path: Path) -> None:
    rows = [[at, at * 7 % 50, 20 + at * 11 % 50] for at in range(60)]
    write(tmp_path, {"rents.csv": table(["id", "size", "rent"], rows)})
    record = {
        "metric": {"name": "rmsle"},
        "submission": {"target": ["rent"], "range": [0, None]},
        "thresholds": {"median": 0.4, "bronze": 0.3, "silver": 0.2, "gold": 0.1},
        "modality": "rents",
    }
    (task,), _ = described(tmp_path, record, "rents.csv")
    assert task["metric"]["name"] == "rmsle" and task["modality"] == "rents"
    assert task["submission"]["range"] == [0, None] and task["thresholds"] == record["thresholds"]
    assert task["provenance"]["graded_by"] == "author" and task["lineage"][0]["options"] == {"record": record}


@pytest.mark.parametrize(
    ("record", "options", "reason"),
    [
        ({"data": {"dir": "x"}}, ("f/a",), 'record.json: "data" is made by the import: remove it'),
        ({"metrics": {}}, ("f/a",), 'record.json: no field is called "metrics": did you mean "metric"?'),
        ([], ("f/a",), "record.json: not a JSON object"),
        ({"metric": {"name": "mae"}}, ("f/a", "--metric", "mae"), "--metric and --record both say it: leave one out"),
        (
            {"answers": "a"},
            ("f/a", "--target", "y"),
            "--record with answers takes the task from the record: leave --target out",
        ),
        (
            {"metric": {"file": "grade.py"}},
            ("f/a",),
            '--record: "metric.file" needs "answers", the file that the code compares with',
        ),
        ({"metric": {"name": "mae"}}, ("f",), "--record applies to one task, but the input has 2"),
    ],
)
def test_records_and_options_that_do_not_fit(
    tmp_path: Path, record: Any, options: tuple[str, ...], reason: str
) -> None:
    write(tmp_path / "f", {f"{name}/train.csv": "id,y\n1,2\n" for name in "ab"})
    _, said = described(tmp_path, record, *options, code=2)
    assert said[-1].endswith(reason)


def test_a_partial_record_is_checked_by_the_schema() -> None:
    schema.check_fields({"metric": {"params": {}}}, "task", ("metric",))
    with pytest.raises(RecordError, match=r"^thresholds: Object missing required field `median`"):
        schema.check_fields({"thresholds": {"gold": 1}}, "task", ("metric",))
