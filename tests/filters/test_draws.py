"""Records drawn at random: samples per task, and parts by share."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import start_command
from filtered import TASK, as_lines, one_graded, read

from mletools.filters.draws import Sample, exact_parts, part_of, read_split

SPLIT = {"train": 0.8, "validation": 0.1, "test": 0.1}


def of_task(task: str, number: int) -> dict[str, Any]:
    return one_graded(number, 0.5, id=f"{task}-{number}", task={"id": task})


def test_a_split_keeps_a_tasks_records_together_and_has_its_shares() -> None:
    tasks = [{"kind": "task", "id": f"t{number}"} for number in range(2000)]
    parts = Counter(part_of(task, SPLIT, "task", 0) for task in tasks)
    # within four standard deviations of a binomial
    assert abs(parts["train"] - 1600) < 72 and abs(parts["validation"] - 200) < 54 and abs(parts["test"] - 200) < 54
    for task in tasks[:50]:
        rollouts = [{"kind": "rollout", "id": f"r{number}", "task": task} for number in range(3)]
        assert {part_of(each, SPLIT, "task", 0) for each in rollouts} == {part_of(task, SPLIT, "task", 0)}
    assert [part_of(task, SPLIT, "task", 1) for task in tasks] != [part_of(task, SPLIT, "task", 0) for task in tasks]


@pytest.mark.parametrize("number", [6, 7, 10, 101])
@pytest.mark.parametrize("by", ["task", "record"])
def test_an_exact_split_has_its_shares_up_to_a_task(number: int, by: str) -> None:
    made = [of_task(f"t{task}", member) for member in range(3) for task in range(number)]
    keys = [each["task"]["id"] if by == "task" else each["id"] for each in made]
    parts = exact_parts(made, SPLIT, by, 0)
    sizes = {name: len({key for key, part in zip(keys, parts, strict=True) if part == name}) for name in SPLIT}
    assert sum(sizes.values()) == len(set(keys)), "a task's records stay together"
    assert all(abs(sizes[name] - share * len(set(keys))) <= 1 for name, share in SPLIT.items())
    assert exact_parts(made[::-1], SPLIT, by, 0) == parts[::-1]


def test_half_of_six_tasks_are_three(tmp_path: Path) -> None:
    made = as_lines(*({**TASK, "id": f"t{number}"} for number in range(6)))
    ids = {}
    for part in ("train", "test"):
        line = ["mle-filter", "--split", "train=0.5,test=0.5", "--exact", "--part", part]
        ids[part] = {
            json.loads(each)["id"] for each in start_command(*line, input=made, cwd=tmp_path).stdout.splitlines()
        }
    assert len(ids["train"]) == len(ids["test"]) == 3 and not ids["train"] & ids["test"]
    refused = start_command("mle-filter", "--exact", input=made, check=False, cwd=tmp_path)
    assert refused.returncode == 2 and b"--exact needs --split" in refused.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("train=0.8", "add up to 0.8, not to 1"),
        ("train=0.8,train=0.2", "two parts are named train"),
        ("train=1.2,test=-0.2", "is not NAME=SHARE"),
        ("train=nan,test=0.5", "is not NAME=SHARE"),
        ("0.8,0.2", "is not NAME=SHARE"),
    ],
)
def test_wrong_shares_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_split(text)


def test_a_sample_does_not_depend_on_the_order_of_the_input() -> None:
    made = [of_task(task, number) for task in ("a", "b") for number in range(20)]
    forth, back = Sample(3, "task", 0), Sample(3, "task", 0)
    out = [forth.add(each) for each in made]
    for each in reversed(made):
        back.add(each)
    drawn = [each["id"] for each in forth.drawn()]
    assert drawn == [each["id"] for each in back.drawn()][::-1]  # in the order of each input
    assert Counter(name[0] for name in drawn) == {"a": 3, "b": 3}
    assert sorted(drawn + [each["id"] for each in out if each]) == sorted(each["id"] for each in made)
    other = Sample(3, "task", 1)
    for each in made:
        other.add(each)
    assert [each["id"] for each in other.drawn()] != drawn and not other.short


def test_parts_divide_the_records_and_what_is_left_out_can_be_kept(tmp_path: Path) -> None:
    made = [of_task(f"t{task}", number) for number in range(3) for task in range(12)]
    (tmp_path / "in.jsonl").write_bytes(as_lines(*made))
    for part in ("train", "test"):
        line = ["mle-filter", "--split", "train=0.7,test=0.3", "--part", part, "in.jsonl", "-o", f"{part}.jsonl"]
        done = start_command(*line, "--dropped", f"not-{part}.jsonl", cwd=tmp_path)
        assert b"in other parts" in done.stderr
    parts = {part: read(tmp_path / f"{part}.jsonl") for part in ("train", "test", "not-train", "not-test")}
    ids = {part: {each["id"] for each in records} for part, records in parts.items()}
    tasks = {part: {each["task"]["id"] for each in records} for part, records in parts.items()}
    assert ids["train"] | ids["test"] == {each["id"] for each in made} and not tasks["train"] & tasks["test"]
    assert ids["not-train"] == ids["test"] and ids["not-test"] == ids["train"]
    assert {each["filter"]["reason"] for each in parts["not-train"]} == {"in other parts: test"}
    assert all("filter" not in each for each in parts["train"])


def test_tasks_and_ungraded_rollouts_are_drawn_and_a_run_resumes(tmp_path: Path) -> None:
    tasks = [{**TASK, "id": f"t{number}"} for number in range(9)]
    drawn = start_command("mle-filter", "--sample", "4", input=as_lines(*tasks), cwd=tmp_path).stdout
    (tmp_path / "all.jsonl.partial").write_bytes(drawn.splitlines(keepends=True)[0])
    line = ["mle-filter", "--sample", "4", "-o", "all.jsonl", "--resume"]
    start_command(*line, input=as_lines(*tasks), cwd=tmp_path)
    assert (tmp_path / "all.jsonl").read_bytes() == drawn and len(read(tmp_path / "all.jsonl")) == 4
    states = [of_task(task, number) for task in "ab" for number in range(5)]
    for state in states:
        del state["grade"], state["reward"]
    made = start_command(
        "mle-filter", "--sample", "7", "--per", "task", "--split", "x=0.5,y=0.5", "--split-by", "record", "--part", "x",
        input=as_lines(*states), cwd=tmp_path,
    )  # fmt: skip
    assert 0 < len(made.stdout.splitlines()) < 10 and b"2 tasks have fewer than 7 records" in made.stderr


def test_a_part_without_any_record_is_an_error(tmp_path: Path) -> None:
    line = ["mle-filter", "--split", "train=0.999999,test=0.000001", "--part", "test"]
    done = start_command(*line, input=as_lines(of_task("a", 1)), check=False, cwd=tmp_path)
    assert (
        done.returncode == 1
        and b"the part test has none of 1 record; --exact gives it its share, another --seed" in done.stderr
    )
    start_command(*line, "--allow-empty", input=as_lines(of_task("a", 1)), cwd=tmp_path)
