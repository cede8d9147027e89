"""Agents in turns on tasks whose labels do not lie in train.csv, or of which no validation rows can be held out."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import ENDS, FAST, SCORES, executes, in_steps, play, runs
from played_checks import graded, observed

from mletools.records import schema
from mletools.tasks.folder import ANSWERS
from mletools.tasks.record import Parts, finish

# Predicts the label of each row that the sample asks for from its file, and says how many training files there are.
READS = """import csv, os
labels = {row["id"]: row["y"] for row in csv.DictReader(open("input/labels.csv"))}
print("files", len(os.listdir("input/train")), "labels", len(labels), sorted(labels) == sorted(each[:-4] for each in os.listdir("input/train")))
with open("submission.csv", "w") as out:
    out.write("id,y\\n")
    for row in csv.DictReader(open("input/sample_submission.csv")):
        out.write(row["id"] + "," + open("input/test/" + row["id"] + ".txt").read() + "\\n")
"""


def write_task(data: Path, *, tables: bool) -> dict[str, Any]:
    """The number in a file is its label, in labels.csv or, without `tables`, in the names of the training files."""
    train, test = range(100, 130), range(500, 512)
    files = {f"test/{at}.txt": str(at % 7).encode() for at in test}
    name = "train/{0}.txt" if tables else "train/{1}.{0}.txt"
    files |= {name.format(at, at % 7): str(at % 7).encode() for at in train}
    rows = {
        kind: "id,y\n" + "".join(f"{at},{at % 7}\n" for at in ats) for kind, ats in (("train", train), ("test", test))
    }
    files["sample_submission.csv"] = ("id,y\n" + "".join(f"{at},3\n" for at in test)).encode()
    if tables:
        files["labels.csv"] = rows["train"].encode()
    grading = {
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": len(test)},
        "metric": {"name": "mae", "params": {}, "lower_is_better": True},
        "answers": ANSWERS,
    }
    private = {ANSWERS: rows["test"].encode()}
    parts = Parts("mill_0", "Numbers.", "text", "regression", files, private, grading, {"source": "test", "seed": 0})
    task = finish(parts, data, ())
    (data / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    return task


@pytest.mark.parametrize("scaffold", ["memory", "react"])
def test_labels_in_a_table_of_their_own(scaffold: str, tmp_path: Path) -> None:
    task = write_task(tmp_path, tables=True)
    script, options = (
        ([executes(READS)], ("--max-traces", "1")) if scaffold == "memory" else ([runs(READS), SCORES, ENDS], ())
    )
    with FaultyServer(in_steps(script)) as server:
        done = play(server, scaffold, tmp_path, [task], *options, "--refit", "--max-turns", "3")
    record = done.of("mill_0")
    schema.check(record, "rollout")
    ran = record["turns"][0]
    assert ran["execution"]["stdout"]["head"] == "files 24 labels 24 True\n"
    assert ran["validation"] == {"valid": True, "reason": None, "score": 0} and ran["grade"]["score"] == 0
    assert "validation rows: 0 (lower is better)" in json.dumps(record["messages"])
    # --refit gives the files back to where they were
    assert record["refit"] == {"used": True} and "no_validation" not in record
    assert record["execution"]["stdout"]["head"] == "files 30 labels 30 True\n"
    (after,) = graded(tmp_path, [record])
    assert after["grade"]["score"] == 0


SAYS = "submission.csv is valid. No score is told in this task."


def test_a_task_without_a_table_of_labels_has_no_validation(tmp_path: Path) -> None:
    task = write_task(tmp_path, tables=False)
    sample = "import shutil\nshutil.copy('input/sample_submission.csv', 'submission.csv')\n"
    with FaultyServer(in_steps([runs(sample), SCORES, ENDS])) as server:
        line = [
            "mle-rollout",
            "--scaffold",
            "react",
            "-m",
            "played",
            "--model-url",
            server.url,
            *FAST[:-1],
            "tasks.jsonl",
        ]
        made = run_command(*line, "-g", "2", "--refit", cwd=tmp_path)
    said = [text for text in made.stderr.decode().splitlines() if "no validation rows" in text]
    reason = "there is no public/train.csv, and no other public table with the ids of the submission"
    assert said == [
        f"mle-rollout: task {task['id']}: no validation rows can be held out: {reason}: its programs have all training "
        "rows, and its agents learn whether a submission is valid, but no score"
    ]
    for record in records(made.stdout):
        schema.check(record, "rollout")
        assert record["no_validation"] == reason and record["settings"]["validation"] == 0
        assert record["turns"][0]["validation"] is None and record["turns"][0]["grade"]["valid"]
        assert SAYS in observed(record, 1) and "refit" not in record
        assert "You see whether a submission is valid, but no score." in record["messages"][1]["content"]


@pytest.mark.parametrize("options", [(), ("--defaults", "evaluation")])
def test_memory_goes_on_without_scores(options: tuple[str, ...], tmp_path: Path) -> None:
    """In evaluation its pool, which is by validation score, stays empty where programs report none."""
    task = write_task(tmp_path, tables=False)
    sample = "import shutil\nshutil.copy('input/sample_submission.csv', 'submission.csv')\n"
    with FaultyServer(in_steps([executes(sample)])) as server:
        more = ("--max-traces", "3", "--max-turns", "1", "--reset-ratio", "0")
        done = play(server, "memory", tmp_path, [task], *more, *options)
    assert [record["trace"] for record in done.records] == ["reset", *["reset" if options else "memory"] * 2]
    assert all(record["no_validation"] and record["execution"]["submission"] for record in done.records)


def test_memory_goes_by_what_programs_report(tmp_path: Path) -> None:
    """Lower is better: of the three submissions of a trace the second is handed in, and goes into the pool."""
    task = write_task(tmp_path, tables=False)
    sample = "import shutil\nshutil.copy('input/sample_submission.csv', 'submission.csv')\nprint('{}')\n"
    lines = ("validation score: 0.9", "Validation score = 4e-1", "validation score: 0.7\\nvalidation score: nan")
    with FaultyServer(in_steps([executes(sample.format(line)) for line in lines])) as server:
        more = ("--max-traces", "2", "--max-turns", "3", "--reset-ratio", "0", "--pool-size", "1")
        done = play(server, "memory", tmp_path, [task], *more, "--defaults", "evaluation")
    first, second = done.records
    assert [turn.get("reported_score") for turn in first["turns"]] == [0.9, 0.4, None]
    assert first["reported_score"] == 0.4 and first["code"] == sample.format(lines[1]) and first["validation"] is None
    assert second["trace"] == "memory" and second["state"]["reported_score"] == 0.4
    asked = second["messages"][1]["content"]
    assert "Hold some of the training rows out yourself" in asked and "its own validation score was 0.4." in asked
    assert not any("shown_score" in turn for record in done.records for turn in record["turns"])
    graded_file = tmp_path / "graded.jsonl"
    graded_file.write_text("".join(json.dumps(record) + "\n" for record in graded(tmp_path, done.records)))
    told = run_command("mle-report", "--best-trace", str(graded_file), cwd=tmp_path).stdout.decode()
    assert (
        "rollouts without validation rows, because none could be held out: 1, 1 of them chosen by a printed score"
        in told
    )


COUNTS = """import csv
with open("submission.csv", "w") as out:
    out.write("id,y\\n")
    for at, row in enumerate(csv.DictReader(open("input/sample_submission.csv"))):
        out.write(f"{row['id']},{at % 7}\\n")
print("Validation score: 1.5")
"""


@pytest.mark.parametrize(("evaluation", "asked"), [("aggregated", "aggregated"), ("agent", None)])
def test_a_search_goes_by_the_scores_that_programs_print(evaluation: str, asked: str | None, tmp_path: Path) -> None:
    task = write_task(tmp_path, tables=False)

    def searching(body: dict[str, Any]) -> str:
        idea = '{"hypothesis": "count", "component": "Model"}'
        return idea if '"hypothesis"' in body["messages"][-1]["content"] else f"```python\n{COUNTS}```"

    with FaultyServer(searching) as server:
        line = ["mle-rollout", "--scaffold", "search", "--preset", "aide", "--evaluation", evaluation]
        line += ["-m", "played", "--model-url", server.url, *FAST[:-1], "--max-turns", "3", "tasks.jsonl"]
        made = run_command(*line, cwd=tmp_path)
    said = made.stderr.decode().splitlines()
    told = f"task {task['id']}: no validation rows can be held out: "
    notes = [text for text in said if told in text]
    assert len(notes) == (asked is not None)  # else nothing is held out anyway
    assert all("a search goes by the scores that its programs print of themselves" in text for text in notes)
    assert ("1 searches by the scores that programs print" in said[-1]) == (asked is not None)
    (record,) = records(made.stdout)
    schema.check(record, "rollout")
    assert ("no_validation" in record) == (asked is not None) and record["settings"]["validation"] == 0
    assert record["search"].get("evaluation_asked") == asked
    assert [turn["node"]["score"] for turn in record["turns"]] == [1.5] * 3 and record["search"]["chosen"] == 0
    report = run_command("mle-report", "-", input=json.dumps(graded(tmp_path, [record])[0]).encode(), cwd=tmp_path)
    note = "searches that used the scores that their programs print, because no rows could be held out: 1"
    assert (note in report.stdout.decode()) == (asked is not None)
