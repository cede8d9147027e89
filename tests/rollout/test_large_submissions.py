"""How large a submission may be: 32 MB, or several times the task's sample submission, from the run to the grade."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from played import write_tasks

from mletools.base.tape import Tapes
from mletools.grading.grader import Grader
from mletools.grading.options import GradingOptions
from mletools.records.sample import TIMES_SAMPLE, sample_bytes, submission_mb
from mletools.rollout.environment import RunResources, TaskEnvironment
from mletools.sandbox import Limits, Setup
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.programs import ProgramRunner, keep

LARGE = 40  # MB of the submission
LIMITS = Limits(wall_s=30.0, file_mb=2 * LARGE, disk_mb=3 * LARGE)
CODE = f"""
import csv
rows = list(csv.DictReader(open("input/test.csv")))
with open("submission.csv", "w") as out:
    out.write("id,y,more\\n")
    for number, row in enumerate(rows):
        out.write(row["id"] + ",1.5," + ("x" * ({LARGE} << 20) if number == 0 else "") + "\\n")
"""


def with_sample(folder: Path, megabytes: int) -> dict[str, Any]:
    """A task below `folder` whose sample submission has so many MB in addition."""
    (task,) = write_tasks(folder)
    with (folder / task["data"]["dir"] / "public" / "sample_submission.csv").open("a") as file:
        file.write("\n" * (megabytes << 20))
    return task


@pytest.mark.parametrize("megabytes", [0, 12])
def test_a_run_and_its_grade_follow_the_sample(megabytes: int, tmp_path: Path) -> None:
    task = with_sample(tmp_path, megabytes)
    grader = Grader(tmp_path, GradingOptions(), cast(Any, None))
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        nothing = cast(Any, None)
        resources = RunResources(tmp_path, {}, sandbox, LIMITS, threading.Semaphore(), 0.0, False, nothing)
        episode = TaskEnvironment(resources, cast(Any, task), None, "episode", Tapes(None).tape("episode"))
        told = episode._run(CODE, 30.0, 0, True, (), "all")
        rollout: Any = {"id": "r", "task": task, "code": CODE, "scaffold": "single", "stop_reason": "finished"}
        ran = ProgramRunner(sandbox, LIMITS, tmp_path, 0)(rollout)
        cell = episode._cell("python", CODE, 30.0, (), 0, None, ())
        episode.close()
    assert told["execution"]["status"] == ran["execution"]["status"] == "ok", told
    graded = grader(ran)["grade"]
    if megabytes:
        assert ran["execution"]["limits"]["submission_mb"] > LARGE
        assert graded["valid"] and told["grade"] and told["grade"]["valid"]
        assert cell["grade"] and cell["grade"]["valid"]
    else:
        problem = "submission.csv is larger than 32 MB"
        assert ran["execution"]["limits"]["submission_mb"] == 32
        assert told["execution"]["submission_problem"] == cell["submission_problem"] == problem
        assert not graded["valid"] and graded["reason"] == problem and told["grade"] is None


def test_what_an_option_allows_is_graded_in_turns_as_well(tmp_path: Path) -> None:
    task = with_sample(tmp_path, 0)
    nothing, content = cast(Any, None), b"id,y,more\n" + b"x" * (33 << 20)
    folder = tmp_path / task["data"]["dir"]
    for most, reason in ((32, f"the file has {len(content)} bytes; at most {32 << 20} are read"), (40, None)):
        limits = Limits(submission_mb=most)
        resources = RunResources(tmp_path, {}, nothing, limits, threading.Semaphore(), 0.0, False, nothing)
        episode = TaskEnvironment(resources, cast(Any, task), None, "episode", Tapes(None).tape("episode"))
        found = episode._verdict(cast(Any, task), folder, content)
        assert not found.valid and found.reason is not None and (found.reason == reason) == (most == 32)


def test_the_grader_reads_what_its_option_or_the_sample_allows(tmp_path: Path) -> None:
    task = with_sample(tmp_path, 0)
    rows = (tmp_path / task["data"]["dir"] / "public" / "test.csv").read_text().splitlines()[1:]
    content = "id,y,more\n" + "".join(
        f"{row.split(',')[0]},1,{'x' * (33 << 20) if not at else ''}\n" for at, row in enumerate(rows)
    )
    execution: Any = {"status": "ok", "submission": keep(content.encode(), tmp_path), "markers": []}
    rollout: Any = {"id": "r", "task": task, "execution": execution, "scaffold": "single", "stop_reason": "finished"}

    def verdict(**options: int) -> tuple[bool, str | None]:
        found = Grader(tmp_path, GradingOptions(**options), cast(Any, None))(rollout)["grade"]  # type: ignore[arg-type]
        return found["valid"], found["reason"]

    assert verdict() == (False, f"the file has {len(content)} bytes; at most {32 << 20} are read")
    assert verdict(max_submission=34) == (True, None)
    with_sample(tmp_path, 9)
    assert verdict(max_submission=1) == (True, None)


def test_the_sample_is_found_by_its_name(tmp_path: Path) -> None:
    assert (sample_bytes(tmp_path / "nowhere"), submission_mb(tmp_path, 32)) == (0, 32)
    for name, size in (
        ("train.csv", 99),
        ("sampleSubmission.csv", 3),
        ("sample_submission_null.csv", 4),
        ("sample.csv", 9),
    ):
        (tmp_path / name).write_bytes(bytes(size << 20))
    assert sample_bytes(tmp_path) == 4 << 20
    assert (submission_mb(tmp_path, 1), submission_mb(tmp_path, 32)) == (TIMES_SAMPLE * 4, 32)
    (tmp_path / "sampleSubmission.csv").write_bytes(bytes((9 << 20) + 1))
    assert submission_mb(tmp_path, 32) == TIMES_SAMPLE * 9 + 1
