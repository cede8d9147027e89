"""mle-export --to harbor: what the folders hold, what is refused, what stays after a kill."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, records, run_command
from import_builders import bench

EXAMPLES = ROOT / "examples" / "tasks"
# The fields of task.toml that are written, by section, with their types: the format's schema 1.4.
FIELDS: dict[str, dict[str, type]] = {
    "": {"schema_version": str, "artifacts": list},
    "task": {"name": str, "description": str, "keywords": list},
    "metadata": {"category": str, "tags": list, "metric": str, "lower_is_better": bool, "task_id": str},
    "agent": {"timeout_sec": float},
    "verifier": {"timeout_sec": float, "environment_mode": str},
    "environment": {
        "docker_image": str,
        "workdir": str,
        "network_mode": str,
        "cpus": int,
        "memory_mb": int,
        "storage_mb": int,
        "gpus": int,
    },
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "tasks")
    return tmp_path


def tasks(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "tasks" / "tasks.jsonl").read_text().splitlines()]


def export(place: Path, *more: str, code: int = 0) -> str:
    done = run_command("mle-export", "--to", "harbor", "-o", "out", *more, "tasks/tasks.jsonl", cwd=place, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout == b""
    return done.stderr.decode()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_a_task(place: Path) -> None:
    assert "7 tasks" in export(place)
    for task in tasks(place):
        folder = place / "out" / task["id"]
        found, data = files_of(folder), place / task["data"]["dir"]
        told = tomllib.loads(found["task.toml"].decode())
        for section, fields in FIELDS.items():
            values = told[section] if section else {name: told[name] for name in told if name not in FIELDS}
            assert {name: type(value) for name, value in values.items()} == fields, section
        assert (
            told["environment"]["network_mode"] == "no-network" and told["verifier"]["environment_mode"] == "separate"
        )
        assert told["task"]["name"] == f"mletools/{task['id']}"
        assert task["description"].strip() in found["instruction.md"].decode()
        given = {name: content for name, content in found.items() if name.startswith("environment/")}
        public = {f"environment/input/{name}": content for name, content in files_of(data / "public").items()}
        assert given == public
        private = files_of(data / "private")
        for name, content in private.items():
            assert found[f"tests/task/private/{name}"] == content
            assert content not in given.values()
        assert json.loads(found["tests/task.jsonl"])["id"] == task["id"]
        for script in ("tests/test.sh", "solution/solve.sh"):
            assert subprocess.run(["bash", "-n", str(folder / script)], check=False).returncode == 0
        compile(found["solution/solution.py"], "solution.py", "exec")
        assert not any(path.is_symlink() for path in folder.rglob("*"))  # archives of readers would keep them


def test_the_same_bytes_again_and_after_a_kill(place: Path) -> None:
    export(place)
    first = files_of(place / "out")
    assert "exists; --resume checks and keeps it, --force replaces it" in export(place, code=1)
    # As a kill would leave it: one folder is there, one half-built, others missing.
    names = sorted(path.name for path in (place / "out").iterdir())
    for name in names[1:]:
        shutil.rmtree(place / "out" / name)
    half = place / "out" / f".{names[1]}.partial"
    half.mkdir()
    (half / "task.toml").write_text("half")
    export(place, "--resume")
    assert files_of(place / "out") == first
    (place / "out" / names[0] / "instruction.md").write_text("changed")
    assert f"{names[0]}: instruction.md is not what these options write" in export(place, "--resume", code=1)
    (place / "out" / names[0] / "environment" / "more.csv").write_text("a stranger's")
    assert "more.csv does not belong" in export(place, "--resume", code=1)
    export(place, "--force")
    assert files_of(place / "out") == first


def test_a_dockerfile_or_a_shared_box(place: Path) -> None:
    export(
        place, "--dockerfile", "--verifier", "shared", "--image", "own/box:1", "--agent-timeout", "90", "--cpus", "8"
    )
    for task in tasks(place):
        folder = place / "out" / task["id"]
        told = tomllib.loads((folder / "task.toml").read_text())
        assert "docker_image" not in told["environment"] and "environment_mode" not in told["verifier"]
        assert (told["agent"]["timeout_sec"], told["environment"]["cpus"]) == (90.0, 8)
        assert (folder / "environment" / "Dockerfile").read_text().startswith("FROM own/box:1\n")
        assert "You have 1.5 minutes" in (folder / "instruction.md").read_text()


@pytest.mark.parametrize("how", ["the file", "its lines among others", "under another name"])
def test_answers_among_the_public_files_are_refused(place: Path, how: str) -> None:
    task = next(task for task in tasks(place) if task["modality"] == "tabular")
    folder = place / task["data"]["dir"]
    answers = (folder / task["answers"]).read_bytes()
    name = "notes.txt" if how == "under another name" else "train.csv"
    more = b"" if how == "the file" else b"some,thing\n"
    (folder / "public" / name).write_bytes(more + answers)
    public = sorted({*task["data"]["public"], name})
    script = (
        "import json, sys; from pathlib import Path; from mletools.tasks.folder import data_digest\n"
        "task = json.loads(sys.argv[1]); task['data']['public'] = json.loads(sys.argv[2])\n"
        "task['data']['digest'] = data_digest(Path(task['data']['dir']), task['data']['public'], task['answers'])\n"
        "print(json.dumps(task))"
    )
    command = [sys.executable, "-c", script, json.dumps(task), json.dumps(public)]
    made = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout
    (place / "tasks" / "tasks.jsonl").write_text(made)
    told = export(place, code=1)
    assert f"public/{name} " in told and ("has every line of the answers" in told or "that grading reads" in told)
    assert not (place / "out").exists()


def test_what_cannot_be_exported_is_rejected_with_its_line(place: Path) -> None:
    first, second, *_ = tasks(place)
    (place / first["data"]["dir"] / "public" / "train.csv").write_text("changed\n")
    (place / second["data"]["dir"] / "private" / "answers.csv").write_text("changed\n")
    assert "tasks/tasks.jsonl:1: " in export(place, code=1)
    shutil.rmtree(place / "out", ignore_errors=True)
    told = export(place, "--max-rejects", "2", "--rejects", "rejects.jsonl")
    assert "2 rejected, 5 tasks" in told
    rejected = records((place / "rejects.jsonl").read_bytes())
    assert [entry["line_number"] for entry in rejected] == [1, 2] and all(
        "digest differs" in each["reason"] for each in rejected
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--to", "harbor"), "--to harbor needs -o DIR"),
        (("--to", "atif", "--cpus", "3"), "--cpus is about --to harbor"),
        (("--to", "chat", "-o", "tasks"), "-o tasks is a folder; --to chat writes a file"),
        (("--to", "chat", "--every-pair"), "--every-pair is about --to pairs"),
        (("--to", "harbor", "-o", "out", "--reward", "raw"), "'raw' is not one of 'milestone', 'human-rank'"),
    ],
)
def test_options_that_do_not_fit(place: Path, options: tuple[str, ...], told: str) -> None:
    done = run_command("mle-export", *options, "tasks/tasks.jsonl", cwd=place, check=False)
    assert done.returncode == 2 and told in done.stderr.decode(), done.stderr


def test_an_imported_competition(tmp_path: Path) -> None:
    bench(tmp_path / "prepared", "spaceship-titanic")
    done = run_command(
        "mle-import", "--format", "mle-bench", "prepared", "-o", "tasks.jsonl", cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    done = run_command("mle-export", "--to", "harbor", "-o", "out", "tasks.jsonl", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "out").iterdir()
    assert (folder / "tests" / "task" / "private" / "leaderboard.csv").exists()
    # The verifier's box has tests/ alone: the task's own folder is gone.
    shutil.rmtree(tmp_path / json.loads((tmp_path / "tasks.jsonl").read_text())["data"]["dir"])
    sample = next((folder / "environment" / "input").glob("sample*.csv"))
    told = reward(folder, sample, tmp_path)
    assert set(told) == {"reward", "valid", "above_median", "medal", "score", "human_rank"} and told["valid"] == 1.0


def reward(folder: Path, submission: Path | str, place: Path, *more: str) -> dict[str, float]:
    """What the line of tests/test.sh writes about a submission."""
    done = run_command(
        "mle-grade", "--submission", str(submission), "--task", "task.jsonl", "--data", ".", *more,
        "--reward-json", str(place / "reward.json"), cwd=folder / "tests", check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads((place / "reward.json").read_text())
    (record,) = records(done.stdout)
    assert found["valid"] == record["valid"] and found["reward"] == (record["reward"] or 0.0)
    return found


def test_the_reward_as_numbers(place: Path) -> None:
    export(place)
    task = next(task for task in tasks(place) if task["modality"] == "tabular")
    folder, data = place / "out" / task["id"], place / task["data"]["dir"]
    perfect = reward(folder, data / task["answers"], place)
    assert perfect["valid"] == 1.0 and perfect["medal"] == 3.0 and perfect["reward"] == 1.0
    assert reward(folder, data / task["answers"], place, "--reward", "human-rank")["reward"] == 1.0
    left = place / "left.csv"
    none = {"reward": 0.1, "valid": 0.0, "above_median": 0.0, "medal": 0.0}
    assert reward(folder, left, place) == none  # there is none
    left.write_text("no,thing\n1,2\n")
    assert reward(folder, left, place) == none
    assert reward(folder, left, place, "--reward", "human-rank")["reward"] == 0.0
    left.unlink()
    os.symlink(data / task["answers"], left)
    assert reward(folder, left, place) == none  # a link to the answers
    left.unlink()
    os.mkfifo(left)
    assert reward(folder, left, place) == none
    left.unlink()
    left.mkdir()
    assert reward(folder, left, place) == none


def test_a_reward_in_numbers_needs_a_rule_that_has_one(place: Path) -> None:
    done = run_command(
        "mle-grade",
        "--submission",
        "x",
        "--task",
        "tasks/tasks.jsonl",
        "--reward",
        "raw",
        "--reward-json",
        "z",
        cwd=place,
        check=False,
    )
    assert done.returncode == 2 and b"--reward-json needs --reward milestone or human-rank" in done.stderr
    done = run_command("mle-grade", "--reward-json", "z", "tasks/tasks.jsonl", cwd=place, check=False)
    assert done.returncode == 2 and b"--task, --id and --reward-json are about --submission" in done.stderr


@pytest.mark.slow
def test_a_reader_of_the_format_loads_the_folder(place: Path) -> None:
    """TRL's: the data set; its episodes need harbor, which needs a newer Python."""
    harbor = pytest.importorskip("trl.experimental.harbor", reason="needs the [train] extra")
    export(place, "--verifier", "shared")
    read = harbor.HarborSpec(str(place / "out")).train_dataset
    assert sorted(Path(row["task_dir"]).name for row in read) == sorted(task["id"] for task in tasks(place))
