"""A task's second hold-out: other rows than the first, as many, stratified alike, and submissions graded on them."""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from validation_builders import EXAMPLES, SOURCE, drawn, example, perfect, snapshot, table, text_of

from mletools.base.errors import RecordError
from mletools.grading import grade, metrics
from mletools.records import schema
from mletools.tasks.folder import ANSWERS
from mletools.tasks.record import Parts, finish
from mletools.tasks.table import Rejected
from mletools.tasks.validation import View, validation_view
from mletools.tasks.validation.split import held_out, latest

# data.digest and data.private_digest of the views without a part, as they were before there were parts.
BEFORE = {
    "loan_office_tabular": (
        "2f356592b2e7cf5795fc1f4df93681541b134324042d96e62437c51ba8906fdd",
        "9878dee1eb038b581695328a693188ab13a59b394e0afe8c102e30450b13cb2f",
    ),
    "orchard_birds_text": (
        "db74731a4255ac83183c55331284cedd805ae905ff160c5918a8e72cf55e9c3c",
        "1c04f2671e9255824c6af1a8c52e0983ffb84e586a0463164d7962675a4014e5",
    ),
}


def held(view: View) -> dict[str, dict[str, str]]:
    """The answers of a view's validation rows by id."""
    (name,) = view.task["submission"]["id"]
    return {row[name]: row for row in table(view.folder / view.task["answers"])}


def both(task: dict[str, Any], data: Path, fraction: float = 0.2) -> tuple[View, View]:
    return validation_view(task, data, fraction), validation_view(task, data, fraction, "selection")


@pytest.mark.parametrize("name", sorted(BEFORE))
def test_the_view_without_a_part_is_what_it_was(tmp_path: Path, name: str) -> None:
    view = validation_view(example(name, tmp_path), tmp_path, part="")
    data = view.task["data"]
    assert (data["digest"], data["private_digest"]) == tuple(f"sha256:{each}" for each in BEFORE[name])
    assert data["dir"] == f"views/{view.task['id']}-0.2"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_part_holds_out_as_many_other_rows(tmp_path: Path, name: str) -> None:
    task = example(name, tmp_path)
    first, second = both(task, tmp_path)
    schema.check(second.task, "task")
    assert second.folder == tmp_path / "views" / f"{task['id']}-0.2-selection" and second.folder != first.folder
    ours, theirs = held(first), held(second)
    assert len(ours) == len(theirs) == first.rows == second.rows >= 5 and not set(ours) & set(theirs)
    # the rows that the search was scored on are trained on here, and the other way round
    (key,) = task["submission"]["id"]
    trained = {row[key] for row in table(second.public / "train.csv")}
    assert set(ours) <= trained and not set(theirs) & trained
    assert {**second.task, "data": 0} == {**first.task, "data": 0}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("part", ["", "selection"])
def test_the_sample_has_the_order_of_the_test_set(tmp_path: Path, name: str, part: str) -> None:
    """Where it had so in the task: programs put their predictions into the sample row by row."""
    task = example(name, tmp_path)
    (key,) = task["submission"]["id"]

    def orders(public: Path) -> tuple[list[str], list[str]]:
        tables = (table(public / each) for each in ("test.csv", "sample_submission.csv"))
        first, second = ([row.get(key, "") for row in rows] for rows in tables)
        return list(dict.fromkeys(first)), list(dict.fromkeys(second))

    ours, theirs = orders(tmp_path / task["data"]["dir"] / "public")
    assert ours == theirs
    ours, theirs = orders(validation_view(task, tmp_path, 0.2, part).public)
    assert ours == theirs


def test_the_parts_have_the_same_strata(tmp_path: Path) -> None:
    first, second = both(example("orchard_birds_text", tmp_path), tmp_path)  # two classes
    (target,) = first.task["submission"]["target"]
    counts = [Counter(row[target] for row in held(view).values()) for view in (first, second)]
    assert counts[0] == counts[1] and len(counts[0]) == 2


def test_whole_groups_are_held_out_in_a_part_too(tmp_path: Path) -> None:
    task, form = drawn("image", 17, tmp_path)
    assert form == "ranked"
    first, second = both(task, tmp_path)
    (group,) = task["submission"]["id"]
    kept = {row[group] for row in table(second.public / "train.csv")}
    assert first.rows == second.rows and not kept & set(held(second)) and not set(held(first)) & set(held(second))


@pytest.mark.parametrize(("kind", "names"), [("group", ["year"]), ("time", ["year", "month"])])
def test_a_task_that_is_split_by_groups_or_in_time_has_such_parts(tmp_path: Path, kind: str, names: list[str]) -> None:
    task = real_table_like(tmp_path, f"{kind} {', '.join(names)}")

    def of(rows: Iterable[dict[str, str]]) -> set[tuple[int, ...]]:
        return {tuple(int(row[name]) for name in names) for row in rows}

    first, second = both(task, tmp_path)
    for view in (first, second):
        kept, tests = of(table(view.public / "train.csv")), table(view.public / "test.csv")
        ours = [row for row in tests if row["id"] in held(view)]
        assert len(ours) == view.rows >= 10
        if kind == "group":
            assert not kept & of(ours)
        else:
            assert max(kept) < min(of(ours)) and max(of(ours)) < min(of(row for row in tests if row not in ours))
    assert not held(first).keys() & held(second).keys()
    assert len(table(first.public / "train.csv")) == 100 - first.rows
    later = first.rows if kind == "time" else 0
    assert len(table(second.public / "train.csv")) == 100 - second.rows - later


def real_table_like(data: Path, split: str) -> dict[str, Any]:
    """A task of 100 rows for training, in ten years of ten months, with that split in its provenance."""
    cells = [f"{at},{2000 + at // 10},{at % 10 + 1},{at * 7 % 13}" for at in random.Random(1).sample(range(100), 100)]
    tests = [f"{at},{2000 + at // 10},{at % 10 + 1}" for at in range(100, 120)]
    answers = "\n".join(["id,y", *(f"{at},{1 + at % 2}" for at in range(100, 120)), ""]).encode()
    public = {
        "train.csv": "\n".join(["id,year,month,y", *cells, ""]).encode(),
        "test.csv": "\n".join(["id,year,month", *tests, ""]).encode(),
        "sample_submission.csv": answers,
    }
    grading = {
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 20},
        "metric": {"name": "mae", "lower_is_better": True},
        "answers": ANSWERS,
    }
    private = {ANSWERS: answers}
    parts = Parts("made", "d", "tabular", "regression", public, private, grading, {**SOURCE, "split": split})
    return finish(parts, data, (1,))


def test_the_latest_rows_are_held_out_whole_times_at_once() -> None:
    units = {(str(at),): [at] for at in range(30)}
    times = [(at // 4,) for at in range(30)]  # the last of two rows
    keys, later = latest(units, times, 0.2)
    assert [int(key) for (key,) in keys] == list(range(24, 30)) and later == set()
    keys, later = latest(units, times, 0.2, keys)
    assert [int(key) for (key,) in keys] == list(range(16, 24)) and later == set(range(24, 30))
    two = [(at // 15,) for at in range(30)]
    keys, later = latest(units, two, 0.2)
    assert [int(key) for (key,) in keys] == list(range(15, 30)) and later == set()
    assert latest(units, two, 0.2, keys) == (keys, set())  # there are no others
    with pytest.raises(Rejected, match=r"all rows of train\.csv are of one time"):
        latest(units, [(0,)] * 30, 0.2)


def test_a_part_depends_on_the_task_and_its_name_alone(tmp_path: Path) -> None:
    task = example("loan_office_tabular", tmp_path / "a")
    example("loan_office_tabular", tmp_path / "b")
    late = validation_view(task, tmp_path / "b", 0.2, "selection")  # before the other part is made
    first, second = both(task, tmp_path / "a")
    assert snapshot(late.folder) == snapshot(second.folder) and late.task == second.task
    assert validation_view(task, tmp_path / "b").task == first.task
    other = validation_view(task, tmp_path / "a", 0.2, "other")
    assert set(held(other)) != set(held(second)) and not set(held(other)) & set(held(first))


@pytest.mark.parametrize("name", ["loan_office_tabular", "orchard_birds_text"])  # higher and lower is better
def test_a_submission_is_graded_on_a_part(tmp_path: Path, name: str) -> None:
    task = example(name, tmp_path)
    first, second = both(task, tmp_path)
    sample = (second.public / "sample_submission.csv").read_bytes()
    best = metrics.find(task["metric"]["name"]).best
    (key,) = task["submission"]["id"]
    right = {row[key]: row for row in table(perfect(second))}
    good = text_of([right.get(row[key], row) for row in table(sample)])
    verdict = grade(second.task, second.folder, second.validation_part(good))
    assert verdict.valid and verdict.score == best
    plain = grade(second.task, second.folder, second.validation_part(sample))
    assert plain.valid and plain.score is not None
    assert plain.score > best if task["metric"]["lower_is_better"] else plain.score < best
    origin = tmp_path / task["data"]["dir"]
    assert grade(task, origin, second.test_part(good)) == grade(task, origin, second.test_part(sample))
    # a submission for the other part's rows is none for these
    elsewhere = (first.public / "sample_submission.csv").read_bytes()
    assert not grade(second.task, second.folder, second.validation_part(elsewhere)).valid


def test_a_stratum_without_other_rows_shares_its_rows_with_the_last_part() -> None:
    units = {(f"{at}",): [at] for at in range(10)}
    strata = {(f"{at}",): "few" if at < 3 else "many" for at in range(10)}
    first = held_out(units, strata, {}, "a", 0.5)
    second = held_out(units, strata, {}, "b", 0.5, last=first)
    # of 5 the 3 few get 1.5 and the 7 many 3.5: 1 and 3, and the one that is over goes to few, which comes first by name
    for drawn_keys in (first, second):
        assert Counter(strata[key] for key in drawn_keys) == {"few": 2, "many": 3}
    # 1 of few was left, so one of the two is shared; 4 of many were left, so none is
    shared = set(first) & set(second)
    assert [strata[key] for key in shared] == ["few"]
    assert held_out(units, strata, {}, "a", 0.5, last=()) == first
    halves = held_out(units, {}, {}, "a", 0.5)
    assert sorted([*halves, *held_out(units, {}, {}, "a", 0.5, last=halves)]) == sorted(units)


@pytest.mark.parametrize("part", ["../x", "a/b", "Selection", "a b", "-", "part1"])
def test_a_part_with_a_strange_name_is_refused(tmp_path: Path, part: str) -> None:
    task = example("loan_office_tabular", tmp_path)
    with pytest.raises(RecordError) as error:
        validation_view(task, tmp_path, 0.2, part)
    assert str(error.value) == f"a part of the validation rows is named in small letters, not {part!r}"
    assert not (tmp_path / "views").exists()
