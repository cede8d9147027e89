"""mle-import on small folders of every format, made here: the real command, its records, its folders, its words."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import BIN, mostly_slow, records, run_command
from import_builders import LEADERS, bench, leaderboard, table, write

from mletools.grading import check_task, grade, metrics
from mletools.tasks.draft import held_out
from mletools.tasks.folder import data_digest, private_digest
from mletools.tasks.importing.columns import is_number, read_columns, written
from mletools.tasks.importing.competitions import FILE, benchmarks_of, competition
from mletools.tasks.importing.copies import copies_of
from mletools.tasks.importing.modality import modality_of
from mletools.tasks.importing.options import Candidate, ImportOptions
from mletools.tasks.importing.task import import_task
from mletools.tasks.table import Rejected
from mletools.tasks.tree import files_below, listed, spelled_out


def lines(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def dojo(root: Path, name: str = "spaceship-titanic") -> Path:
    """A prepared competition of MLE-Dojo."""
    folder = bench(root, name)
    (folder / "prepared").rename(folder / "data")
    private = folder / "data" / "private"
    (private / "test.csv").rename(private / "test_answer.csv")
    (folder / "description.md").rename(folder / "data" / "public" / "description.txt")
    (folder / "leaderboard.csv").unlink()
    for which in ("private", "public"):
        board = table(["rank", "score"], [[at + 1, score] for at, score in enumerate(LEADERS[: 5 + len(which) % 2])])
        write(private, {f"{which}_leaderboard.csv": board})
    return folder


EVALUATOR = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--submission_path", default="sample_submission.csv")
print(json.dumps({"score": 1.0, "submission": parser.parse_args().submission_path}))
"""


def sandmle(root: Path, name: str = "pump-1", thresholds: tuple[float, ...] = (4, 3, 2, 1), told: bool = True) -> Path:
    """A SandMLE bundle: answers and evaluator among the public files. Lower is better."""
    words = ("median", "bronze", "silver", "gold")
    content = {f"{word}_threshold": value for word, value in zip(words, thresholds, strict=True)}
    files = {
        "train.csv": table(["id", "a", "y"], [[at, at, 2 * at] for at in range(30)]),
        "test.csv": table(["id", "a"], [[at, at] for at in range(30, 40)]),
        "sample_submission.csv": table(["id", "y"], [[at, 0] for at in range(30, 40)]),
        "answer.csv": table(["id", "y"], [[at, 2 * at] for at in range(30, 40)]),
        "description.md": "# Pump\n",
        "evaluator.py": EVALUATOR,
        "generator.py": "y = 2 * a\n",
    }
    if told:
        files["threshold.json"] = json.dumps({**content, "is_lower_better": True})
    write(root / name / "prepared" / "public", files)
    return root / name


def kaggle(root: Path, name: str = "houses", rows: int = 120, test: bool = True) -> Path:
    """A plain folder. y follows from a and b; test.csv has no answers."""
    draws = np.random.RandomState(rows)
    a, b = draws.normal(size=rows), draws.choice(["x", "y", "z"], size=rows)
    y = 3 * a + 2 * (b == "x") + 0.3 * draws.normal(size=rows)
    cells = [[1000 + at, f"{a[at]:.3f}", b[at], f"{y[at]:.3f}", "yes" if y[at] > 0.6 else "no"] for at in range(rows)]
    files = {"train.csv": table(["Id", "a", "b", "y", "kind"], cells), "notes/data.txt": "007,1.0\n"}
    if test:
        files["test.csv"] = table(["Id", "b", "a"], [[at, "x", 0.5] for at in range(30)])
        files["sample_submission.csv"] = table(["Id", "y"], [[at, 0] for at in range(30)])
    return write(root / name, files)


def imported(*args: Any, cwd: Path, code: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """The records and what was said, without the summary."""
    done = run_command("mle-import", *map(str, args), cwd=cwd, check=False)
    told = done.stderr.decode().splitlines()
    assert done.returncode == code, told
    return records(done.stdout), [line for line in told if line[-2:] != " s"]


def perfect(task: dict[str, Any], folder: Path) -> bytes:
    """The submission that hands in the answers."""
    spec = task["submission"]
    names = [*spec["id"], *spec["target"]]
    rows = [[row[name] for name in names] for row in lines(folder / task["answers"])]
    return table(names, rows).encode()


def check_folder(task: dict[str, Any], data: Path) -> Path:
    """What holds for every imported task."""
    folder = data / task["data"]["dir"]
    public = sorted(path.relative_to(folder / "public").as_posix() for path in (folder / "public").rglob("*.*"))
    assert task["data"]["public"] == public
    assert (folder / "public" / "description.md").read_text(encoding="utf-8") == task["description"]
    assert data_digest(folder, task["data"]["public"], task["answers"]) == task["data"]["digest"]
    assert private_digest(folder, task) == task["data"]["private_digest"]
    answers = (folder / task["answers"]).read_bytes()
    assert all(path.read_bytes() != answers for path in (folder / "public").rglob("*") if path.is_file())
    assert not list((data / "tasks").glob(".*"))
    check_task(task)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the benchmarks' own folders --------------------------------------------------------------------------------------


def test_a_prepared_folder_of_mle_bench_needs_no_flags(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    before = snapshot(source)
    (task,), told = imported(source, cwd=tmp_path)
    assert told == [] and snapshot(source) == before
    folder = check_folder(task, tmp_path)
    assert task["provenance"]["source"] == "mle-bench:spaceship-titanic"
    assert (task["metric"]["name"], task["submission"]["target"]) == ("accuracy", ["Transported"])
    assert task["submission"]["rows"] == 9 and task["problem"] == "classification"
    assert task["description"] == "# Ships\n\nWho was moved?\n"
    assert (folder / "private" / "leaderboard.csv").read_text() == "score\n0.82\n0.81\n0.8\n0.8\n0.79\n0.7\n0.5\n"
    assert sorted(os.listdir(folder / "private")) == ["leaderboard.csv", "test.csv"]
    assert task["provenance"]["sanity"] == {"perfect_submission": 1.0, "sample_submission": 0.66667}
    verdict = grade(task, folder, perfect(task, folder))
    assert (verdict.valid, verdict.score, verdict.medal, verdict.position) == (True, 1.0, "gold", 1)
    assert "thresholds" not in task  # they are the leaderboard's
    linked, original = folder / "public" / "train.csv", source / "prepared" / "public" / "train.csv"
    assert linked.samefile(original)


def test_a_sample_whose_like_may_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = bench(tmp_path / "data")
    candidate = Candidate("mle-bench", "spaceship-titanic", source)
    assert import_task(candidate, ImportOptions(), tmp_path / "a")[1] == []
    monkeypatch.setattr("mletools.tasks.importing.task.MOST_SAMPLE_BYTES", 10)
    (note,) = import_task(candidate, ImportOptions(), tmp_path / "b")[1]
    assert note == (
        "its sample submission has 0 MB, so programs may need --file-size 1 --disk 2 or more, and --memory-size to fit"
    )


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    source = bench(tmp_path / "data")
    monkeypatch.setattr(os, "link", refuse)
    candidate = Candidate("mle-bench", "spaceship-titanic", source)
    task, notes = import_task(candidate, ImportOptions(), tmp_path)
    folder = check_folder(task, tmp_path)
    assert notes == [] and not (folder / "public" / "train.csv").samefile(source / "prepared/public/train.csv")


def test_description_leaderboard_and_grader_are_found_in_a_checkout(tmp_path: Path) -> None:
    source = bench(tmp_path / "cache")
    code = tmp_path / "checkout" / "mlebench" / "competitions" / "spaceship-titanic"
    code.mkdir(parents=True)
    for name in ("description.md", "leaderboard.csv"):
        (source / name).rename(code / name)
    none, told = imported(source, cwd=tmp_path, code=1)
    reason = "there is no description (give --repo, the benchmark's checkout, or --description FILE)"
    assert none == [] and told == [
        f"mle-import: skipped spaceship-titanic: {reason}",
        "mle-import: nothing was imported",
    ]
    (task,), told = imported(tmp_path / "cache", "--repo", "checkout", cwd=tmp_path)
    assert told == [] and task["leaderboard"] == "private/leaderboard.csv"
    (again,), _ = imported(source / "prepared", "--repo", "checkout/mlebench/competitions", cwd=tmp_path)
    assert again == task


def test_a_leaderboard_that_contradicts_the_direction_is_an_error(tmp_path: Path) -> None:
    source = bench(tmp_path, scores=LEADERS[::-1])
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0] == (
        "mle-import: skipped spaceship-titanic: leaderboard.csv: the leaderboard begins with 0.5 and ends with 0.82, "
        "but higher should be better"
    )
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize(
    ("board", "reason"),
    [
        (leaderboard(["0.9", "", "nan", "0.8"]), None),
        (leaderboard(["0.9", "best"]), "leaderboard.csv: the score 'best' is no finite number"),
        (leaderboard(["0.9"], column="points"), "leaderboard.csv has no column score"),
        (leaderboard([]), "leaderboard.csv has no scores"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "leaderboard.csv is a Git LFS pointer, not the file: run git lfs pull where it comes from",
        ),
    ],
)
def test_what_a_leaderboard_may_hold(tmp_path: Path, board: str, reason: str | None) -> None:
    source = write(bench(tmp_path), {"leaderboard.csv": board})
    found, told = imported(source, cwd=tmp_path, code=1 if reason else 0)
    if reason:
        assert told[0] == f"mle-import: skipped spaceship-titanic: {reason}"
    else:
        folder = tmp_path / found[0]["data"]["dir"]
        assert (folder / "private" / "leaderboard.csv").read_text() == "score\n0.9\n0.8\n"


def test_a_prepared_folder_of_mle_dojo(tmp_path: Path) -> None:
    source = dojo(tmp_path / "prepared_data")
    (task,), told = imported(source, cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and task["provenance"]["source"] == "mle-dojo:spaceship-titanic"
    assert sorted(os.listdir(folder / "private")) == ["leaderboard.csv", "public_leaderboard.csv", "test_answer.csv"]
    assert "description.txt" not in task["data"]["public"]
    verdict = grade(task, folder, perfect(task, folder))
    assert verdict.valid and verdict.position == verdict.public_position == 1
    assert (verdict.teams, verdict.public_teams) == (6, 5)


def test_what_is_not_prepared_is_skipped_by_name(tmp_path: Path) -> None:
    root = tmp_path / "data"
    bench(root)
    shutil.rmtree(bench(root, "aerial-cactus-identification") / "prepared" / "private")
    shutil.rmtree(bench(root, "nobody-knows-it") / "prepared")
    shutil.rmtree(dojo(root, "zillow") / "data" / "public")
    (root / "AI4Code").mkdir()
    (root / "papers").mkdir()
    found, told = imported(root, cwd=tmp_path)
    assert [task["name"] for task in found] == ["spaceship-titanic"]
    unknown = "no competition (no prepared/public, no data/public, no train.csv)"
    assert told == [
        "mle-import: skipped AI4Code: not prepared (no prepared/public, no data/public)",
        "mle-import: skipped aerial-cactus-identification: not prepared (no prepared/private)",
        f"mle-import: skipped nobody-knows-it: {unknown}",
        f"mle-import: skipped papers: {unknown}",
        "mle-import: skipped zillow: not prepared (no data/public)",
    ]
    done = run_command("mle-import", str(root), cwd=tmp_path)
    assert b"mle-import: 1 record, 5 skipped, " in done.stderr
    _, told = imported(root / "AI4Code", "--format", "mle-bench", cwd=tmp_path, code=1)
    assert told[0] == "mle-import: skipped AI4Code: not prepared (no prepared/public)"
    _, told = imported(root / "papers", cwd=tmp_path, code=1)
    assert told == [
        "mle-import: skipped papers: holds no competition: --record describes a folder of another layout",
        "mle-import: nothing was imported",
    ]


def test_a_competition_whose_grader_is_code(tmp_path: Path) -> None:
    source = bench(tmp_path / "data", "of-my-own", scores=[1, 2, 3])
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0] == (
        "mle-import: skipped of-my-own: unsupported: mle-bench has no competition of that name that is known here; say "
        "how it is graded with --metric and --target, or give --repo with its grader"
    )
    competitions = tmp_path / "repo" / "mlebench" / "competitions"
    code = {
        "of-my-own/grade.py": "from mlebench.competitions.utils import tidy\nfrom mlebench.competitions.own.near import "
        "distance\nimport math\ndef grade(submission, answers):\n    return 0.5\n",
        "of-my-own/near.py": "def distance(): ...\n",
        "of-my-own/math_notes.py": "",
        "utils.py": "def tidy(): ...\n",
    }
    write(competitions, code)
    (task,), told = imported(source, "--repo", "repo", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert task["metric"] == {
        "file": "private/grade.py",
        "style": "function",
        "files": ["private/near.py", "private/utils.py"],
        "lower_is_better": True,  # as the leaderboard is ordered
    }
    assert (folder / "private" / "near.py").read_text() == code["of-my-own/near.py"]
    assert task["provenance"]["graded_by"] == "code"
    before = task["data"]["private_digest"]
    (folder / "private" / "utils.py").unlink()
    write(folder, {"private/utils.py": "def tidy(): return 1\n"})
    assert private_digest(folder, task) != before
    assert data_digest(folder, task["data"]["public"], task["answers"]) == task["data"]["digest"]

    write(competitions, {"of-my-own/near.py": "def broken(:\n"})
    _, told = imported(source, "--repo", tmp_path / "repo", "--data", "other", cwd=tmp_path, code=1)
    assert "near.py cannot be read as Python: " in told[0]


def test_known_competitions_that_a_record_cannot_express(tmp_path: Path) -> None:
    name = "the-winton-stock-market-challenge"
    note = competition("mle-dojo", name)["note"].rstrip(".")
    source = dojo(tmp_path / "data", name)
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0] == f"mle-import: skipped {name}: unsupported: {note} (its grader is code: give --repo)"
    metric = "class M:\n    def evaluate(self, a, b):\n        return 1.0\n    def validate_submission(self, a, b):\n        pass\n"
    grader = {f"{name}/utils/metric.py": metric}
    write(tmp_path / "repo" / "mledojo" / "competitions", grader)
    for which in ("private", "public"):
        write(source / "data" / "private", {f"{which}_leaderboard.csv": leaderboard([1, 2])})
    _, told = imported(source, "--repo", "repo", cwd=tmp_path, code=1)
    assert "has no column" in told[0]  # the fake answers lack the real ids
    header = competition("mle-dojo", name)["submission"].get("id", ["PassengerId"])
    answers = (source / "data/private/test_answer.csv").read_text().replace("PassengerId", header[0], 1)
    write(source / "data" / "private", {"test_answer.csv": answers})
    (task,), _ = imported(source, "--repo", "repo", cwd=tmp_path)
    assert (task["metric"]["style"], task["metric"]["file"]) == ("class", "private/metric.py")
    assert task["metric"]["lower_is_better"] is True


def test_direction_of_a_grader_that_is_code(tmp_path: Path) -> None:
    source = write(bench(tmp_path / "data", "own"), {"grade.py": "def grade(a, b):\n    return 0.5\n"})
    (source / "leaderboard.csv").unlink()
    _, told = imported(source, cwd=tmp_path, code=1)
    reason = "which scores are better is not known: say --lower-is-better or --higher-is-better"
    assert told[0] == f"mle-import: skipped own: {reason}"
    (task,), told = imported(source, "--higher-is-better", cwd=tmp_path)
    assert task["metric"]["lower_is_better"] is False
    assert told == ["mle-import: own: no thresholds: no medals (its metric is code)"]
    (task,), told = imported(source, "--metric", "accuracy", cwd=tmp_path)
    assert task["metric"]["name"] == "accuracy" and task["submission"]["labels"] == ["False", "True"]
    assert task["provenance"]["graded_by"] == "options"


def test_every_known_competition_is_sound() -> None:
    assert competition("mle-bench", "no-such-thing") is None
    assert benchmarks_of("spaceship-titanic") == ["mle-bench", "mle-dojo"]
    entries = [json.loads(line) for line in FILE.read_text(encoding="utf-8").split("\n") if line]
    assert len({(entry["benchmark"], entry["competition"]) for entry in entries}) == len(entries) >= 280
    for entry in entries:
        assert entry["support"] in ("record", "code", "no")
        assert entry["support"] == "record" or entry["note"]
        if entry["support"] == "record":
            submission = {"id": ["id"], "target": ["y"], "rows": 1, **entry["submission"]}
            check_task({**entry, "submission": submission})
            assert entry["answers"].endswith(".csv")


# --- SandMLE ----------------------------------------------------------------------------------------------------------


def test_a_bundle_loses_its_answers_and_its_evaluator(tmp_path: Path) -> None:
    source = sandmle(tmp_path / "bundles")
    before = snapshot(source)
    (task,), told = imported(tmp_path / "bundles", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and snapshot(source) == before
    assert task["data"]["public"] == ["description.md", "sample_submission.csv", "test.csv", "train.csv"]
    assert sorted(os.listdir(folder / "private")) == ["answer.csv", "evaluator.py", "threshold.json"]
    assert task["metric"] == {"file": "private/evaluator.py", "style": "script", "lower_is_better": True}
    assert task["thresholds"] == {"median": 4, "bronze": 3, "silver": 2, "gold": 1}
    assert task["submission"]["rows"] == 10 and task["provenance"]["source"] == "sandmle:pump-1"


def test_a_bundle_graded_by_a_metric_of_ours(tmp_path: Path) -> None:
    (task,), _ = imported(sandmle(tmp_path / "bundles"), "--metric", "rmse", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert task["metric"]["name"] == "rmse" and os.listdir(folder / "private") == ["answer.csv"]
    assert grade(task, folder, perfect(task, folder)).medal == "gold"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"thresholds": (4, 3, 3, 1)}, "thresholds.silver is 3: not better than thresholds.bronze, 3"),
        ({"thresholds": (1, 2, 3, 4)}, "thresholds.bronze is 2: not better than thresholds.median, 1"),
        (
            {"told": False},
            "which scores are better is not known (no threshold.json): say --lower-is-better or --higher-is-better",
        ),
    ],
)
def test_bundles_that_are_not_sound(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    _, told = imported(sandmle(tmp_path, **options), cwd=tmp_path, code=1)
    assert told[0] == f"mle-import: skipped pump-1: {reason}"


def test_a_bundle_without_answers(tmp_path: Path) -> None:
    source = sandmle(tmp_path)
    (source / "prepared/public/answer.csv").unlink()
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0] == "mle-import: skipped pump-1: not prepared (no prepared/public/answer.csv)"


# --- plain folders ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_are_held_out_where_answers_are_not_known(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw")
    before = snapshot(source)
    (task,), told = imported(source, "--metric", "rmse", "--target", "y", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and snapshot(source) == before
    train, test, answers = (lines(folder / name) for name in ("public/train.csv", "public/test.csv", task["answers"]))
    assert list(test[0]) == ["Id", "b", "a"]  # the columns of the old test.csv
    assert list(train[0]) == ["Id", "a", "b", "y", "kind"] and list(answers[0]) == ["Id", "y"]
    assert (len(train), len(test)) == (96, 24) and task["submission"]["rows"] == 24
    original = {row["Id"]: row for row in lines(source / "train.csv")}
    assert all(original[row["Id"]] == row for row in train)
    assert all(original[row["Id"]]["y"] == row["y"] for row in answers)
    assert [row["Id"] for row in test] == [row["Id"] for row in answers]
    assert not {row["Id"] for row in train} & {row["Id"] for row in test}
    assert "notes/data.txt" in task["data"]["public"]
    assert grade(task, folder, perfect(task, folder)).score == 0
    dummy = task["provenance"]["baselines"][0]
    assert dummy == {"name": "dummy", "score": task["provenance"]["sanity"]["sample_submission"]}
    assert dummy["score"] > task["thresholds"]["median"] > task["thresholds"]["gold"] > 0
    (again,), _ = imported(source, "--metric", "rmse", "--target", "y", "--data", "elsewhere", cwd=tmp_path)
    assert again == task
    (other,), _ = imported(source, "--metric", "rmse", "--target", "y", "--seed", "1", cwd=tmp_path)
    assert other["data"]["digest"] != task["data"]["digest"]


@pytest.mark.slow
def test_what_could_hold_the_held_out_answers_is_left_out(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw")
    more = {
        "train.csv.zip": "",
        "all.7z": "",
        "old/y.csv": "Id,y\n1,2\n",
        "train.parquet": "",
        "extra.csv": "Id,z\n1,2\n",
    }
    write(source, more)
    (task,), told = imported(source, "--metric", "rmse", "--target", "y", cwd=tmp_path)
    assert [line.split(": ")[-1] for line in told] == ["all.7z", "old/y.csv", "train.csv.zip", "train.parquet"]
    assert told[0] == "mle-import: houses: left out, it could hold the answers: all.7z"
    assert "extra.csv" in task["data"]["public"] and "old/y.csv" not in task["data"]["public"]
    check_folder(task, tmp_path)


@pytest.mark.slow
def test_held_out_labels_keep_their_shares(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw", rows=100, test=False)
    asked = ("--metric", "f1_macro", "--target", "kind", "--id", "Id", "--test-share", "0.3")
    (task,), _ = imported(source, *asked, cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    share = {}
    for name in ("public/train.csv", task["answers"]):
        kinds = [row["kind"] for row in lines(folder / name)]
        share[name] = kinds.count("yes") / len(kinds)
    assert abs(share["public/train.csv"] - share[task["answers"]]) < 0.03
    assert task["submission"]["labels"] == ["no", "yes"] and task["problem"] == "binary_classification"
    assert "kind" not in (folder / "public" / "test.csv").read_text().split("\n")[0]
    assert task["description"].startswith("# houses\n\nLearn from `train.csv`")


@pytest.mark.slow
def test_ids_are_made_and_probabilities_are_of_the_last_label(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw", test=False)
    (task,), told = imported(source, "--metric", "auroc", "--target", "kind", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and task["submission"]["id"] == ["id"] and task["submission"]["range"] == [0, 1]
    train, answers = lines(folder / "public/train.csv"), lines(folder / task["answers"])
    assert {row["kind"] for row in answers} == {"0", "1"} and {row["kind"] for row in train} == {"no", "yes"}
    assert task["provenance"]["positive"] == "yes"
    assert task["description"].endswith(" `kind` is the probability of class 1, which is `yes`.\n")
    assert len({row["id"] for row in [*train, *answers]}) == 120
    truth = {row["Id"]: row["kind"] for row in lines(source / "train.csv")}
    ids = {row["id"]: row["Id"] for row in lines(folder / "public/test.csv")}
    assert all((truth[ids[row["id"]]] == "yes") == (row["kind"] == "1") for row in answers)


def test_a_file_that_was_named_is_imported_or_an_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"good.csv": table(["x", "y"], [[n, n % 7] for n in range(60)]), "bad.csv": table(["x", "z"], [[1, 2]])},
    )
    line = ("bad.csv", "good.csv", "absent.csv", "--target", "y", "--metric", "rmse", "--thresholds", "none")
    done = run_command("mle-import", *line, "-o", "tasks.jsonl", cwd=tmp_path, check=False)
    said = done.stderr.decode().splitlines()
    assert done.returncode == 1 and not (tmp_path / "tasks.jsonl").exists()
    assert said[0] == "mle-import: skipped absent.csv: no such file or folder"
    assert said[1].startswith("mle-import: skipped bad: ")
    assert said[2:] == ["mle-import: not imported, although named: absent.csv, bad.csv"]
    rest = ("good.csv", *line[3:], "-o", "tasks.jsonl", "--resume")
    assert b"1 finished before" in run_command("mle-import", *rest, cwd=tmp_path).stderr


@pytest.mark.slow
def test_a_column_a_class(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw")
    write(source, {"sample_submission.csv": table(["Id", "yes", "no"], [[1, 0.5, 0.5]])})
    (task,), told = imported(source, "--metric", "log_loss", "--target", "kind", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and task["submission"]["target"] == ["yes", "no"]
    assert all(int(row["yes"]) + int(row["no"]) == 1 for row in lines(folder / task["answers"]))
    assert grade(task, folder, perfect(task, folder)).score == 0
    assert task["thresholds"]["gold"] < 0.6
    write(source, {"sample_submission.csv": table(["Id", "yes", "maybe"], [[1, 0.5, 0.5]])})
    _, told = imported(source, "--metric", "log_loss", "--target", "kind", cwd=tmp_path, code=1)
    reason = "sample_submission.csv must have a column for each value of 'kind' in train.csv"
    assert told[0] == f"mle-import: skipped houses: {reason}"


@pytest.mark.slow
def test_several_targets(tmp_path: Path) -> None:
    rows = [[at, at % 7, at % 2, 1 - at % 2] for at in range(60)]
    source = write(tmp_path / "raw", {"train.csv": table(["id", "a", "odd", "even"], rows)})
    asked = ("--target", "odd", "--target", "even")
    (task,), told = imported(source, "--metric", "log_loss", *asked, cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told[-1] == "mle-import: raw: no thresholds: no medals (baselines predict one column of labels only)"
    assert grade(task, folder, perfect(task, folder)).score == 0
    assert {(row["odd"], row["even"]) for row in lines(folder / "public/sample_submission.csv")} == {("0.5", "0.5")}
    write(
        source, {"train.csv": table(["id", "a", "odd", "b"], [[*row[:3], row[0] % 14 + row[0] / 1000] for row in rows])}
    )
    (task,), _ = imported(source, "--metric", "rmse", "--target", "a", "--target", "odd", cwd=tmp_path)
    assert {"dummy", "tuned_ensemble", "plain forest"} <= {each["name"] for each in task["provenance"]["baselines"]}
    (task,), _ = imported(source, "--metric", "quadratic_weighted_kappa", "--target", "a", cwd=tmp_path)
    assert (task["submission"]["parse"], task["problem"]) == ("number", "classification")


@pytest.mark.slow
def test_known_answers_leave_the_files_as_they_are(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw")
    truth = table(["Id", "y", "Usage"], [[at, round(1.5 + at / 100, 2), "Private"] for at in range(30)])
    write(tmp_path, {"truth.csv": truth})
    (task,), _ = imported(source, "--metric", "mae", "--answers", "truth.csv", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    for name in ("train.csv", "test.csv", "sample_submission.csv"):
        assert (folder / "public" / name).read_bytes() == (source / name).read_bytes()
    assert (folder / "private" / "answers.csv").read_text() == truth
    assert task["submission"]["target"] == ["y"] and task["submission"]["rows"] == 30
    write(source, {"private/solution.csv": truth})
    (again,), _ = imported(source, "--metric", "mae", "--data", "b", cwd=tmp_path)
    assert again["data"]["public"] == task["data"]["public"]
    assert again["data"]["private_digest"] == task["data"]["private_digest"]


def test_thresholds_only_where_they_can_be_made(tmp_path: Path) -> None:
    source = kaggle(tmp_path / "raw", rows=45)
    (task,), told = imported(source, "--metric", "rmse", "--target", "y", cwd=tmp_path)
    assert "thresholds" not in task
    assert told[-1] == "mle-import: houses: no thresholds: no medals (only 9 rows are to be predicted)"
    check_folder(task, tmp_path)
    asked = ("--metric", "rmse", "--target", "y", "--thresholds", "none", "--data", "b")
    (task,), told = imported(kaggle(tmp_path / "more"), *asked, cwd=tmp_path)
    assert "thresholds" not in task and told == []
    (task,), told = imported(kaggle(tmp_path / "text"), "--metric", "levenshtein", "--target", "b", cwd=tmp_path)
    assert told[-1] == "mle-import: houses: no thresholds: no medals (baselines do not predict text)"
    assert task["submission"]["parse"] == "text"


@pytest.mark.parametrize(
    ("ending", "columns", "words"),
    [
        ("png", ["id"], "no baselines for pictures"),
        ("png", ["id", "file"], "no baselines for pictures"),
        ("wav", ["id"], "no baselines for sounds"),
        ("txt", ["id"], "no baselines without a column in test.csv beside the id"),
    ],
)
def test_files_are_nothing_that_baselines_learn_from(
    tmp_path: Path, ending: str, columns: list[str], words: str
) -> None:
    files = {f"files/{at}.{ending}": str(at) for at in range(60)}
    rows = [
        [f"{at}.{ending}", *([f"files/{at}.{ending}"] if columns[1:] else []), ("cat", "dog")[at % 2]]
        for at in range(60)
    ]
    write(tmp_path / "pets", {**files, "train.csv": table([*columns, "kind"], rows)})
    (task,), told = imported("pets", "--metric", "accuracy", "--target", "kind", cwd=tmp_path)
    assert told[0] == f"mle-import: pets: no thresholds: no medals ({words})" and "thresholds" not in task


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "a plain folder does not say how it is graded: give --metric and --target"),
        (("--metric", "rmse", "--target", "z"), "train.csv has no column 'z': name the target with --target"),
        (("--metric", "rmse", "--target", "b"), "the metric reads numbers, and column 'b' holds others: 'z' in line 2"),
        (("--metric", "rmse", "--target", "y", "--id", "b"), "the ids in column 'b' of train.csv are not unique"),
        (
            ("--metric", "rmse", "--target", "Id"),
            "column 'Id' is both the id and a target: name them with --id and --target",
        ),
        (("--metric", "map_at_k", "--target", "b"), "map_at_k needs the parameter 'k' in metric.params"),
        (("--metric", "rmse", "--metric-params", '{"k": 1}'), "rmse has no parameter 'k'; it has none"),
    ],
)
def test_plain_folders_that_cannot_be_imported(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    _, told = imported(kaggle(tmp_path / "raw"), *options, cwd=tmp_path, code=1)
    assert told == [f"mle-import: skipped houses: {reason}", "mle-import: nothing was imported"]
    assert not (tmp_path / "tasks").exists()


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_becomes_a_task(tmp_path: Path) -> None:
    path = kaggle(tmp_path / "raw") / "train.csv"
    (task,), told = imported(path, "--target", "y", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and task["metric"]["name"] == "rmse" and task["problem"] == "regression"
    assert task["submission"]["id"] == ["Id"] and task["name"] == "train"
    assert grade(task, folder, perfect(task, folder)).medal == "gold"
    assert task["provenance"]["sanity"]["train_test_separate"] == "passed"
    assert "`rmse`: " in task["description"] and "Lower is better." in task["description"]


@pytest.mark.slow
def test_the_metric_of_a_table_follows_from_its_target_or_is_asked_for(tmp_path: Path) -> None:
    path = kaggle(tmp_path / "raw") / "train.csv"
    (task,), _ = imported(path, "--target", "kind", "--data", "b", cwd=tmp_path)
    assert (task["metric"]["name"], task["problem"]) == ("accuracy", "binary_classification")
    (task,), _ = imported(path, "--target", "y", "--metric", "spearman", "--data", "c", cwd=tmp_path)
    assert metrics.find("spearman").definition in task["description"]
    (task,), _ = imported(path, "--target", "kind", "--metric", "log_loss", "--data", "d", cwd=tmp_path)
    assert task["submission"]["target"] == ["prob_no", "prob_yes"]


@pytest.mark.parametrize("name", mostly_slow(["pearson", "kendall_tau", "spearman"], 1))
def test_a_table_has_medals_by_a_metric_without_a_value_for_constants(name: str, tmp_path: Path) -> None:
    path = kaggle(tmp_path / "raw") / "train.csv"
    (task,), told = imported(path, "--target", "y", "--metric", name, cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and set(task["thresholds"]) == {"median", "bronze", "silver", "gold"}
    assert "that ranks the rows in the order of `test.csv`" in task["description"]
    assert grade(task, folder, (folder / "public" / "sample_submission.csv").read_bytes()).valid


@pytest.mark.slow
def test_every_target_has_values_that_differ_where_constants_have_no_value(tmp_path: Path) -> None:
    lines = [f"{at},{at * 37 % 101},{at * 37 % 101 + at % 5},{at % 7 - at * 37 % 101}" for at in range(101)]
    (tmp_path / "two.csv").write_text("\n".join(["id,x,a,b", *lines]) + "\n")
    (task,), told = imported("two.csv", "--target", "a", "--target", "b", "--metric", "spearman", cwd=tmp_path)
    folder = check_folder(task, tmp_path)
    assert told == [] and "thresholds" in task
    assert grade(task, folder, (folder / "public" / "sample_submission.csv").read_bytes()).valid


def test_a_folder_without_answers_has_medals_by_such_a_metric(tmp_path: Path) -> None:
    (task,), told = imported(kaggle(tmp_path / "raw"), "--metric", "pearson", "--target", "y", cwd=tmp_path)
    assert "thresholds" in task, told


@pytest.mark.slow
def test_tables_in_other_files(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(kaggle(tmp_path / "raw") / "train.csv")
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    names = ["a.tsv", "a.csv.gz"]
    if pd.io.parquet.get_engine.__module__ and _has("pyarrow"):
        frame.to_parquet(tmp_path / "a.parquet")
        names.append("a.parquet")
    found = {}
    for name in names:
        (task,), _ = imported(name, "--target", "y", "--thresholds", "none", "--data", f"d-{name}", cwd=tmp_path)
        assert task["name"] == "a"
        found[name] = task["data"]["digest"]
    assert found["a.tsv"] == found["a.csv.gz"]


def _has(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    ("name", "text", "options", "reason"),
    [
        ("x.pkl", "", ("--target", "y"), "not a table that is read here (.csv, .tsv, .csv.gz, .tsv.gz, .parquet, .xlsx)"),
        ("x.csv", "a,y\n1,2\n", (), "a table does not say what is to be predicted: give --target"),
        ("x.csv", "a,y\n1,2\n", ("--target", "z"), "x.csv has no column 'z'; it has 'a', 'y'"),
        ("x.csv", "a,y\n1\n", ("--target", "y"), "x.csv: line 2 has 1 cells, the first line has 2"),
        ("x.csv", "a,a\n1,2\n", ("--target", "a"), "x.csv: column 'a' appears twice, with different cells: rename one"),
        ("x.csv", "a,y\n", ("--target", "y"), "x.csv: there are no rows"),
        ("x.csv", "a,y\n1,NA\n", ("--target", "y"), "no row has a target: 1 of 1 rows have no target and are left out ('NA' in 1; --keep-label NA makes that a label)"),
        ("x.csv", "a,y\n1,2.5\n2,3.5\n", ("--target", "y"), "2 rows are too few to hold some out"),
        ("x.csv", "id,y\n1,2\n1,3\n", ("--target", "y"), "column 'id' holds a value twice: name another with --id, or rename it"),
        ("x.csv", "a,y\n1,x\n2,z\n", ("--target", "y", "--metric", "rmse"), "rmse reads numbers, and column 'y' holds others: 'x' in line 2"),
        ("x.csv", "a,y\n1,x\n2,x\n", ("--target", "y"), "column 'y' is 'x' in every row: there is nothing to predict"),
    ],
)  # fmt: skip
def test_tables_that_make_no_task(tmp_path: Path, name: str, text: str, options: tuple[str, ...], reason: str) -> None:
    write(tmp_path, {name: text})
    _, told = imported(name, *options, cwd=tmp_path, code=1)
    assert told[0] == f"mle-import: skipped {name if name.endswith('pkl') else 'x'}: {reason}"


@pytest.mark.slow
def test_a_copy_of_the_target_is_no_feature(tmp_path: Path) -> None:
    rows = [[at, at % 5, at * 37 % 50, at * 37 % 50] for at in range(50)]
    write(tmp_path, {"x.csv": table(["a", "b", "c", "y"], rows)})
    _, told = imported("x.csv", "--target", "y", cwd=tmp_path, code=1)
    assert told[0] == "mle-import: skipped x: answers_secret: column c of test.csv holds the answers to y"


# --- safety -----------------------------------------------------------------------------------------------------------


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    public = source / "prepared" / "public"
    write(tmp_path, {"secret.txt": "mine"})
    (public / "more.txt").symlink_to(tmp_path / "secret.txt")
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0] == (
        f"mle-import: skipped spaceship-titanic: public/more.txt is a link to {tmp_path}/secret.txt, outside the "
        "folder: refused"
    )
    (public / "more.txt").unlink()
    (public / "more").symlink_to("../private")
    _, told = imported(source, cwd=tmp_path, code=1)
    assert "public/more is a link to " in told[0] and "/prepared/private, outside the folder: refused" in told[0]
    (public / "more").unlink()
    write(source, {"raw/picture.png": "png"})
    (public / "more").symlink_to("../../raw")
    (task,), _ = imported(source, cwd=tmp_path)
    assert "more/picture.png" in task["data"]["public"]
    copied = tmp_path / task["data"]["dir"] / "public" / "more"
    assert not copied.is_symlink() and (copied / "picture.png").samefile(source / "raw" / "picture.png")


@pytest.mark.parametrize("name", ["description.md", "leaderboard.csv", "prepared/private/test.csv", "config.yaml"])
def test_single_files_are_no_way_out_either(tmp_path: Path, name: str) -> None:
    source = bench(tmp_path / "data", "own")
    write(tmp_path, {"secret.txt": "score\n1\n"})
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(tmp_path / "secret.txt")
    _, told = imported(source, "--metric", "accuracy", cwd=tmp_path, code=1)
    told_name = Path(name).name
    assert told[0] == (
        f"mle-import: skipped own: {told_name} is a link to {tmp_path}/secret.txt, outside the folder: refused"
    )


def test_pipes_and_circular_links_among_the_files_are_refused(tmp_path: Path) -> None:
    public = bench(tmp_path / "data") / "prepared" / "public"
    os.mkfifo(public / "pipe")
    with pytest.raises(Rejected, match="public/pipe is neither a file nor a folder: refused"):
        files_below(public, public)
    (public / "pipe").unlink()
    (public / "round").symlink_to(".")
    with pytest.raises(Rejected, match="public/round is a link to a folder that holds it: refused"):
        files_below(public, public)
    (public / "round").unlink()
    Path(os.fsdecode(os.fsencode(public) + b"/\xff.csv")).write_text("")
    with pytest.raises(Rejected, match=r"the name is not UTF-8"):
        files_below(public, public)


def test_a_copy_of_the_answers_is_not_made_public(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    (source / "prepared/public/old").mkdir()
    shutil.copy(source / "prepared/private/test.csv", source / "prepared/public/old/labels.csv")
    _, told = imported(source, cwd=tmp_path, code=1)
    reason = "the public file old/labels.csv is a copy of private/test.csv"
    assert told[0] == f"mle-import: skipped spaceship-titanic: {reason}"
    assert not (tmp_path / "tasks").exists()


def test_answers_that_are_not_accepted_as_a_submission(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    answers = source / "prepared/private/test.csv"
    answers.write_text(answers.read_text().replace("p3,", "p2,"))
    _, told = imported(source, cwd=tmp_path, code=1)
    assert told[0].startswith("mle-import: skipped spaceship-titanic: its answers cannot be graded: ")
    answers.write_text("Passenger,Transported\n1,True\n")
    _, told = imported(source, cwd=tmp_path, code=1)
    reason = "test.csv has no column 'PassengerId'; it has 'Passenger', 'Transported'"
    assert told[0] == f"mle-import: skipped spaceship-titanic: {reason}"


def test_a_metric_without_a_best_value(tmp_path: Path) -> None:
    source = bench(tmp_path / "data", "champs-scalar-coupling", scores=[-3.2, -3, -1])
    columns = ["id", "type", "scalar_coupling_constant"]
    write(source / "prepared/private", {"answers.csv": table(columns, [[at, "1JHC", at / 7] for at in range(9)])})
    write(source / "prepared/public", {"sample_submission.csv": table(columns[::2], [[at, 0] for at in range(9)])})
    (task,), _ = imported(source, cwd=tmp_path)
    sanity = task["provenance"]["sanity"]
    assert sanity["perfect_submission"] == "not tried: what it would score depends on the answers"
    assert isinstance(sanity["sample_submission"], float) and task["provenance"]["split"]


ESSAY = "Cars should be rare in cities, because the air, the noise and the room that they take cost all of us a lot. "


def test_essays_to_be_scored_are_text(tmp_path: Path) -> None:
    source = bench(tmp_path / "data", "learning-agency-lab-automated-essay-scoring-2")
    essays = [[f"e{at}", f'"{ESSAY * (1 + at % 3)}"', 1 + at % 4] for at in range(30)]
    columns = ["essay_id", "full_text", "score"]
    public = {
        "train.csv": table(columns, essays[:20]),
        "test.csv": table(columns[:2], [row[:2] for row in essays[20:]]),
        "sample_submission.csv": table(columns[::2], [[row[0], 3] for row in essays[20:]]),
    }
    write(source / "prepared/public", public)
    write(source / "prepared/private", {"answers.csv": table(columns[::2], [row[::2] for row in essays[20:]])})
    (task,), _ = imported(source, cwd=tmp_path)
    assert task["modality"] == "text" and task["problem"] != "text"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"essay": ESSAY}, "text"),
        ({"essay": ESSAY, "y": "1"}, "text"),  # a target is no feature
        ({"title": ESSAY, "body": ESSAY}, "text"),
        ({"essay": ESSAY, "length": "112"}, "tabular"),
        ({"essay": ESSAY, "author": "Smith, Mr. John Edward"}, "tabular"),
        ({"essay": ""}, "tabular"),
        ({"pixels": "238 236 237 238 240 240 239 241 241 243"}, "tabular"),
        ({"molecule": "CC(=O)OC1=CC=CC=C1C(=O)O"}, "tabular"),
        ({}, "tabular"),
    ],
)
def test_a_table_of_nothing_but_long_text_is_text(cells: dict[str, str], expected: str, tmp_path: Path) -> None:
    rows = [[at, *(f'"{cell}"' for cell in cells.values())] for at in range(5)]
    path = write(tmp_path, {"test.csv": table(["id", *cells], rows)}) / "test.csv"
    grading = {"submission": {"id": ["id"], "target": ["y"], "parse": "number"}, "metric": {"name": "rmse"}}
    assert modality_of({"test.csv": path, "train.csv": b""}, grading) == expected
    assert modality_of({"test.csv": path.read_bytes(), "train.csv": b""}, grading) == expected
    assert modality_of({"test.csv": path, "a.png": b"", "b.png": b""}, grading) == "image"


@pytest.mark.parametrize("content", [b"", b"id,essay\n", b"id,essay\n0,\xff\n", b'id,essay\n0,"a', b"id,essay\n0,\0\n"])
def test_a_test_table_that_cannot_be_read_is_no_text(content: bytes) -> None:
    grading = {"submission": {"id": ["id"], "target": ["y"], "parse": "number"}, "metric": {"name": "rmse"}}
    assert modality_of({"test.csv": content}, grading) == "tabular"


def test_cells_that_code_reads_are_no_texts() -> None:
    submission = {"id": ["id"], "target": ["y"], "parse": "text"}
    assert modality_of({}, {"submission": submission, "metric": {"file": "private/grade.py"}}) == "tabular"
    assert modality_of({}, {"submission": submission, "metric": {"name": "levenshtein"}}) == "text"


def test_three_thousand_files(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    public = source / "prepared" / "public"
    images = public / "images" / "train"
    images.mkdir(parents=True)
    for at in range(3000):
        (images / f"{at}.png").write_bytes(b"%d" % at)
    (task,), _ = imported(source, cwd=tmp_path)
    folder = tmp_path / task["data"]["dir"]
    assert task["data"]["public"] == ["description.md", "images/", "sample_submission.csv", "test.csv", "train.csv"]
    assert task["modality"] == "image" and len(os.listdir(folder / "public/images/train")) == 3000
    assert data_digest(folder, task["data"]["public"], task["answers"]) == task["data"]["digest"]
    changed = folder / "public/images/train/7.png"
    changed.unlink()
    changed.write_bytes(b"other")
    assert data_digest(folder, task["data"]["public"], task["answers"]) != task["data"]["digest"]
    assert private_digest(folder, task) == task["data"]["private_digest"]


# --- killed, resumed, in parallel -------------------------------------------------------------------------------------


def many(root: Path, number: int = 6) -> Path:
    for at in range(number):
        kaggle(root, f"houses{at}", rows=100 + at)
    return root


ASKED = ("--metric", "rmse", "--target", "y")


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_records_and_folders(tmp_path: Path) -> None:
    root = many(tmp_path / "raw")
    whole, _ = imported(root, *ASKED, "--data", "whole", cwd=tmp_path)
    command = [str(BIN / "mle-import"), str(root), *ASKED, "--data", "cut", "-o", "out.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    partial = tmp_path / "out.jsonl.partial"
    while process.poll() is None and not (partial.exists() and b"\n" in partial.read_bytes()):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL and not (tmp_path / "out.jsonl").exists()
    (tmp_path / "cut" / "tasks" / ".houses9-1.partial").mkdir()
    shutil.rmtree(tmp_path / "cut" / "tasks" / ".houses9-1.partial")
    done = run_command(*command[:1], *command[1:], "--resume", cwd=tmp_path)
    assert b" finished before" in done.stderr
    cut = records((tmp_path / "out.jsonl").read_bytes())
    order = lambda found: sorted(found, key=lambda task: task["id"])  # noqa: E731
    assert order(cut) == order(whole)
    assert snapshot(tmp_path / "cut" / "tasks") == snapshot(tmp_path / "whole" / "tasks")
    before = (tmp_path / "out.jsonl").read_bytes()
    run_command(*command, "--resume", cwd=tmp_path)  # nothing left to do is success
    assert (tmp_path / "out.jsonl").read_bytes() == before
    done = run_command(*command, "--resume", "--seed", "1", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == "mle-import: cannot resume out.jsonl with other options: --seed was 0 and is 1\n"


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:
    root = many(tmp_path / "raw", 3)
    one, _ = imported(root, *ASKED, "--data", "one", cwd=tmp_path)
    several, _ = imported(root, *ASKED, "--data", "two", "-j", "2", "-k", cwd=tmp_path)
    assert one == several and [task["name"] for task in one] == ["houses0", "houses1", "houses2"]


@pytest.mark.slow
def test_two_folders_of_one_name(tmp_path: Path) -> None:
    kaggle(tmp_path / "a")
    kaggle(tmp_path / "b")
    _, told = imported("a/houses", "b/houses", *ASKED, cwd=tmp_path, code=1)
    assert told == [
        f"mle-import: {tmp_path}/a/houses and {tmp_path}/b/houses would both be kaggle:houses: import them in two runs"
    ]
    (task,), _ = imported("a/houses", "a", *ASKED, cwd=tmp_path)  # named twice, imported once
    assert task["name"] == "houses"


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    source = bench(tmp_path / "data")
    (task,), _ = imported(source, cwd=tmp_path)
    (again,), _ = imported(source, cwd=tmp_path)
    assert again == task
    write(tmp_path / task["data"]["dir"], {"public/mine.txt": ""})
    _, told = imported(source, cwd=tmp_path, code=1)
    advice = "move it away or give another --data, then run again"
    assert told == [f"mle-import: {task['data']['dir']}: public/mine.txt does not belong to this task: {advice}"]


# --- functions --------------------------------------------------------------------------------------------------------


def test_what_a_list_of_public_files_holds(tmp_path: Path) -> None:
    assert listed(["b", "a/c"]) == ["a/c", "b"]
    flat = [*(f"{at}.png" for at in range(300)), *(f"{at}.txt" for at in range(250)), "train.csv", "a/b/c"]
    assert listed(flat) == ["*.png", "*.txt", "a/", "train.csv"]
    assert listed([f"{at}/x" for at in range(300)] + ["y"]) == ["*/", "y"]
    write(tmp_path, {name: name for name in flat})
    write(tmp_path, {".DS_Store": "", "a/.hidden/d": ""})
    assert spelled_out(tmp_path, listed(flat)) == sorted(flat)
    assert spelled_out(tmp_path, ["y", "x"]) == ["x", "y"]


def test_rows_are_held_out_by_stratum_and_by_group() -> None:
    draws = np.random.RandomState(0)
    strata = ["a" if at < 90 else "b" for at in range(100)]
    test = held_out(range(100), 0.2, draws, strata)
    assert (sum(at < 90 for at in test), sum(at >= 90 for at in test)) == (18, 2)
    groups = [at // 10 for at in range(100)]
    test = held_out(range(100), 0.2, draws, (), groups)
    assert len(test) == 20 and len({at // 10 for at in test}) == 2
    assert held_out([5], 0.5, draws) == []
    assert len(held_out([5, 6], 0.99, draws)) == 1
    with pytest.raises(Rejected, match="split: only 10 rows are b"):
        held_out(range(100), 0.2, draws, strata, least=6)


def test_cells_do_not_change_on_the_way(tmp_path: Path) -> None:
    text = 'id,a\r\n007,"1.0"\r\nNA,"x ""y"", z\n2"\r\n'
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_columns(tmp_path / "t.csv") == {"id": ["007", "NA"], "a": ["1.0", 'x "y", z\n2']}
    cells = {"id": ["1", "2"], "a": ["x\ry", "\r"]}
    (tmp_path / "t.csv").write_bytes(written(cells, list(cells)))
    assert read_columns(tmp_path / "t.csv") == cells
    assert pd.read_csv(tmp_path / "t.csv", dtype=str).to_dict("list") == cells
    assert is_number(["1", "-2.5e3", "", "NA", ".5"]) and not is_number(["1_000"]) and not is_number(["", "NA"])
    assert not is_number(["inf"]) and not is_number(["1", "x"])


def test_a_table_of_an_installed_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known by its values, under other names and in another format; and whether programs can read that file."""
    values = np.random.RandomState(5).normal(40, 9, (80, 4)).round(2).tolist()
    home = tmp_path / "site-packages"
    text = "\n".join(";".join(map(str, row)) for row in values)
    write(home, {"crabs/data/x.txt": f"a;b;c;d\n{text}\n", "crabs/y.csv": "1,2\n", "plotnine/data/z.dat": text})
    write(tmp_path, {"own.csv": table("pqrs", values), "other.csv": table("pq", [[at, at] for at in range(80)])})
    monkeypatch.setattr(sys, "path", [str(home)])
    candidates = [Candidate("table", name, tmp_path / f"{name}.csv") for name in ("own", "other")]
    told = f"own: its answers are public, the same values are in {home}/crabs/data/x.txt and 1 more"
    assert list(copies_of(candidates)) == [f"{told} (programs can read it: run the task where it is not installed)"]
    shutil.rmtree(home / "crabs")
    (said,) = copies_of(candidates)
    assert said.endswith(f"the same values are in {home}/plotnine/data/z.dat (hidden from programs)")
