"""Tasks of training and evaluation are held apart: mle-filter --disjoint-from and --exclude."""

from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from filtered import TASK, as_lines, one_graded, read

from mletools.filters.overlap import KnownTasks

COPY = {
    "id": "copy",
    "name": "copy",
    "data": {**TASK["data"], "dir": "tasks/copy"},
    "provenance": {"source": "x", "seed": 7},
}


def task(name: str, **changed: Any) -> dict[str, Any]:
    """A task of its own: no other has its id or its data."""
    data = {**TASK["data"], "digest": f"sha256:{name}", "private_digest": f"sha256:private {name}"}
    return {**TASK, "id": name, "data": data, **changed}


def real(name: str, source: str, **more: Any) -> dict[str, Any]:
    return task(name, provenance={"source": source, "seed": 0, **more})


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (TASK, TASK, "the same id"),
        (TASK, {**TASK, **COPY}, "the same data"),
        (task("a"), task("b", data={**task("a")["data"], "digest": "sha256:one byte of its page differs"}), "the same answers"),
        (real("a", "sklearn:wine", answers_public=True), real("b", "sklearn:wine", answers_public=True), "the same table"),
        (
            real("a", "mle-bench:spooky", competition="spooky"),
            real("b", "mle-dojo:spooky", competition="spooky"),
            "the same competition",
        ),
        (real("a", "table:prices"), real("b", "table:prices"), "the same source"),
        (task("a"), task("b"), None),
        (real("a", "sklearn:wine", answers_public=True), real("b", "sklearn:iris", answers_public=True), None),
        (real("a", "tabular", answers_public=False), real("b", "tabular", answers_public=False), None),
        (real("a", "table:train"), {**real("b", "table:train"), "submission": {**TASK["submission"], "target": ["z"]}}, None),
    ],
)  # fmt: skip
def test_a_task_is_known_by_its_id_its_data_or_where_it_is_from(
    one: dict[str, Any], other: dict[str, Any], shared: str | None
) -> None:
    known = KnownTasks()
    known.add(one, "held-out.jsonl")
    found = known.overlap(other)
    assert (found and found.shared) == shared
    if found:
        assert (found.task, found.known, found.file) == (other["id"], one["id"], "held-out.jsonl")


def test_a_renamed_copy_of_a_held_out_task_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "held-out.jsonl").write_bytes(as_lines(task("a"), TASK))
    train = as_lines(task("b"), {**TASK, **COPY}, task("a"), task("c"))
    line = ["mle-filter", "--disjoint-from", "held-out.jsonl"]
    done = run_command(*line, "-o", "out.jsonl", input=train, cwd=tmp_path, check=False)
    assert done.returncode == 1 and not (tmp_path / "out.jsonl").exists()
    assert done.stderr.decode().strip() == (
        "mle-filter: --disjoint-from: copy is in held-out.jsonl (the same data as mill); a is in held-out.jsonl (the same id). "
        "--exclude FILE leaves such tasks out"
    )
    piped = run_command(*line, input=train, cwd=tmp_path, check=False)
    assert b'"id": "b"' in piped.stdout and b'"id": "copy"' not in piped.stdout  # a trainer behind it sees none of them
    done = run_command(*line, input=as_lines(task("b"), task("c")), cwd=tmp_path)
    assert len(done.stdout.splitlines()) == 2


def test_rollouts_of_held_out_tasks_are_left_out_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "held-out.jsonl").write_bytes(as_lines(one_graded(9, 0.5, task=task("a"))))  # rollouts name tasks, too
    made = [one_graded(number, 0.5, task=task(name)) for number, name in enumerate("abab")]
    (tmp_path / "in.jsonl").write_bytes(as_lines(*made))
    line = ["mle-filter", "--exclude", "held-out.jsonl", "in.jsonl", "-o", "out.jsonl", "--dropped", "out-of-it.jsonl"]
    done = run_command(*line, cwd=tmp_path)
    assert [each["task"]["id"] for each in read(tmp_path / "out.jsonl")] == ["b", "b"]
    reasons = {each["filter"]["reason"] for each in read(tmp_path / "out-of-it.jsonl")}
    assert reasons == {"in held-out.jsonl: the same id"}
    assert b"2 in held-out.jsonl" in done.stderr


@pytest.mark.parametrize("option", ["--disjoint-from", "--exclude"])
def test_what_is_accepted_of_the_input_is_not_of_the_evaluation_set(option: str, tmp_path: Path) -> None:
    (tmp_path / "damaged.jsonl").write_bytes(as_lines(task("a"))[:-9] + b"\n" + as_lines(task("b")))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    for name, why in (("damaged", "damaged.jsonl:1: "), ("empty", "empty.jsonl: no records\n")):
        line = ["mle-filter", option, f"{name}.jsonl", "--max-rejects", "9", "--allow-empty"]
        done = run_command(*line, input=as_lines(task("a")), cwd=tmp_path, check=False)
        assert done.returncode == 1 and f"mle-filter: {why}" in done.stderr.decode() and b'"id": "a"' not in done.stdout


def test_what_holds_no_tasks_is_no_evaluation_set(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "other.jsonl").write_bytes(b'{"kind": "summary", "version": 1}\n')
    for name, why in (
        ("empty", "empty.jsonl: no records"),
        ("other", "other.jsonl:1: this is a summary of a report, not a task or a rollout"),
    ):
        line = ["mle-filter", "--disjoint-from", f"{name}.jsonl"]
        done = run_command(*line, input=as_lines(TASK), cwd=tmp_path, check=False)
        assert done.returncode == 1 and why in done.stderr.decode()
    for more in (["--tasks"], ["--keep-invalid"]):
        done = run_command("mle-filter", "--exclude", "other.jsonl", *more, cwd=tmp_path, check=False)
        assert done.returncode == 2 and b"does nothing with --exclude, which chooses from any records" in done.stderr
