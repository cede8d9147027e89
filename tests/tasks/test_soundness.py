"""The checks of a task: every planted leak is found by the check that is meant, and no clean task is flagged."""

import json
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest
from conftest import records, run_command
from planted import MODALITIES, PLANTS, PROBLEMS, Small, clean

from mletools.base.errors import RecordError, ToolError
from mletools.grading import score_bytes
from mletools.tasks.folder import content_digest, write_folder
from mletools.tasks.soundness import CHECKS, Case, Trial, association, examine, failures, read_case
from mletools.tasks.soundness.media import facts_of
from mletools.tasks.soundness.page import told_terms


def case(small: Small, trial: Callable[[], Trial] | None = None) -> Case:
    answers = small.files["private/answers.csv"]
    return Case(small.task, small.files, lambda content: score_bytes(small.task, answers, content), trial)


def failing(small: Small, *names: str) -> dict[str, str]:
    return failures(examine(case(small), names))


# --- clean tasks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_clean_task_passes_every_check(modality: str, problem: str) -> None:
    for seed, rows in enumerate((50, 90)):
        outcomes = examine(case(clean(modality, problem, rows, seed, by_id=seed == 1)))
        assert list(outcomes) == list(CHECKS)
        assert not failures(outcomes)
        skipped = {name for name, told in outcomes.items() if told.startswith("skipped")}
        of_files = {"no_leak_file_names", "no_leak_file_sizes", "no_leak_timestamps"}
        assert skipped - {"no_leak_metadata"} == (
            {"runs_in_time", "medals_stable"} | (of_files if modality == "tabular" else set())
        )


@pytest.mark.slow
def test_ten_thousand_associations_of_noise_are_no_finding() -> None:
    """Targets of every sort against ids, positions and levels, more than ten thousand tests of pairs."""
    draws, found = np.random.RandomState(3), []
    for _ in range(70):
        rows, test = int(draws.choice([40, 60, 120, 200])), 15
        strata = np.repeat([0, 1], [rows - test, test])
        ids = draws.permutation(900000)[:rows].astype(float)
        targets = [
            association.Target(f"{count} classes", True, draws.choice(count, rows, p=share).astype(float))
            for count in (2, 3, 8)
            for share in [draws.dirichlet(np.full(count, 1.0))]
        ]
        targets.append(association.Target("heavy tails", False, np.round(np.exp(2 * draws.normal(size=rows)))))
        quantities = [association.Quantity("id", False, ids, True)]
        quantities += [association.Quantity(f"modulo {period}", True, ids % period) for period in (2, 3, 5, 10)]
        quantities += [
            association.Quantity(f"{count} levels", True, draws.choice(count, rows) * 1.0) for count in (3, 30)
        ]
        found.append(association.strongest(quantities, targets, strata))
    assert not any(found)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_ten_thousand_clean_checks_flag_nothing() -> None:
    outcomes = 0
    for seed in range(130):
        for modality in MODALITIES:
            problem = PROBLEMS[seed % len(PROBLEMS)]
            told = examine(case(clean(modality, problem, 50 + seed, seed, by_id=seed % 3 == 0)))
            assert not failures(told), (modality, problem, seed)
            outcomes += len(told)
    assert outcomes > 10_000


@pytest.mark.parametrize(("rows", "effect"), [(50, 1.0), (200, 0.5)])
def test_a_real_leak_is_found(rows: int, effect: float) -> None:
    draws = np.random.RandomState(0)
    strata = np.repeat([0, 1], [rows - rows // 3, rows // 3])
    truth = draws.permutation(np.arange(rows) % 2).astype(float)
    told = np.where(draws.uniform(size=rows) < (1 + effect) / 2, truth, 1 - truth)
    finding = association.strongest(
        [association.Quantity("parity", True, told)], [association.Target("class", True, truth)], strata
    )
    assert finding is not None and finding.p < association.FALSE_ALARM and finding.rows == rows


def test_a_table_by_hand() -> None:
    """10 + 10 rows that agree: G = 2 * 20 * ln 2 = 27.7 with one degree of freedom, all of the information."""
    groups = np.zeros(20, dtype=int)
    side = association.Side("", None, np.repeat([0, 1], 10), 1, np.repeat([0.0, 1.0], 10))
    p, effect = association._table(side, side, groups, 20)
    assert effect == pytest.approx((2 * 20 * np.log(2) - 1) / (2 * 20 * np.log(2)))
    assert p == pytest.approx(association.TABLE_SAFETY * 7.744e-6, rel=1e-3)  # Pearson's, 20, is the worse one


# --- planted leaks ----------------------------------------------------------------------------------------------


def planting() -> list[Any]:
    found = []
    for plant, (check, modalities) in PLANTS.items():
        for at, modality in enumerate(modalities):
            found.append(pytest.param(plant, check, modality, at, id=f"{plant.__name__}-{modality}"))
    return found


# Short blocks tell less of a row, and multilabel targets are noisy: more rows are needed.
MORE = ("rows_in_blocks",)
NEED_WORDS = ("names_with_answers",)


@pytest.mark.parametrize(("plant", "check", "modality", "at"), planting())
def test_a_planted_leak_is_found_by_its_check(plant: Any, check: str, modality: str, at: int) -> None:
    for problem in (PROBLEMS[at % 2], PROBLEMS[2 + at % 3]):
        if plant.__name__ in NEED_WORDS and problem in ("probabilities", "multilabel"):
            problem = "multiclass"
        rows = 120 if problem == "multilabel" or plant.__name__ in MORE else 60
        small = clean(modality, problem, rows, seed=at)
        assert not failing(small, check)
        assert check in failing(plant(small), check), problem


@pytest.mark.parametrize("modality", planted.FILES)
def test_times_of_files_on_disk(modality: str, tmp_path: Path) -> None:
    small = clean(modality, "multiclass", 60)
    marks, names = planted.codes(small), planted._files(small)
    draws = np.random.RandomState(0)
    for told in (False, True):
        folder = tmp_path / f"{told}"
        write_folder(folder, small.files)
        for name, mark in zip(names, marks, strict=True):
            moment = 1.6e9 + draws.randint(1000) + (1000 * mark if told else 0)
            os.utime(folder / name, (moment, moment))
        files = {name: folder / name for name in small.files}
        found = failures(examine(Case(small.task, files, case(small).score), ["no_leak_timestamps"]))
        assert bool(found) == told


def test_order_of_a_column_is_no_leak_of_the_position() -> None:
    small = clean("tabular", "regression", 90)
    tables = {}
    for part in ("train", "test"):
        table = small.table(f"public/{part}.csv")
        order = np.argsort([float(cell) for cell in table["height_cm"]], kind="stable")
        tables[f"public/{part}.csv"] = {name: [cells[at] for at in order] for name, cells in table.items()}
    assert not failing(small.having(tables), "no_leak_row_order", "no_leak_ids")


def test_a_text_may_be_long_and_padding_may_not_tell() -> None:
    small = clean("text", "regression", 90)  # the length of a document is its content, and follows from the target
    assert not failing(small, "no_leak_file_sizes")
    assert "no_leak_file_sizes" in failing(planted.sizes_padded(small), "no_leak_file_sizes")


PNG = planted.png(np.zeros((1, 1)), planted.chunk(b"tEXt", b"n\0early"))[:-12]


@pytest.mark.parametrize(
    ("name", "content", "notes", "stamps"),
    [
        ("a.png", PNG + planted.chunk(b"tIME", struct.pack(">HBBBBB", 2020, 3, 1, 0, 0, 0)), 1, [1583020800.0]),
        ("a.png", PNG + planted.chunk(b"tIME", bytes(7)) + planted.chunk(b"tEXt", b"late"), 3, []),
        ("a.png", PNG + planted.chunk(b"tIME", struct.pack(">HBBBBB", 2020, 13, 1, 0, 0, 0)), 2, []),
        ("a.png", PNG + planted.chunk(b"tIME", struct.pack(">HBBBBB", 10000, 1, 1, 0, 0, 0)), 2, []),
        ("a.png", PNG + planted.chunk(b"tEXt", b"0000-01-01 and 9999-12-31, 2020-13-01"), 2, [253402214400.0]),
        ("a.csv.gz", b"\x1f\x8b\x08\x08" + bytes(6) + b"a name without an end", 1, []),
    ],
)
def test_odd_files_are_described(name: str, content: bytes, notes: int, stamps: list[float]) -> None:
    facts = facts_of(name, content)
    assert (len(facts.notes), facts.stamps) == (notes, stamps)


def by_hand(
    spec: dict[str, Any], train: planted.Table, test: planted.Table, answers: list[str], **files: bytes
) -> Small:
    """A task of one target column `y` in train."""
    task = {**clean().task, "submission": {"id": ["id"], "target": ["y"], "rows": len(answers), **spec}}
    sample = {"id": test["id"], "y": [answers[0]] * len(answers)}
    tables = {"public/train.csv": train, "public/test.csv": test, "public/sample_submission.csv": sample}
    return Small(task, dict(files)).having({**tables, "private/answers.csv": {"id": test["id"], "y": answers}})


def test_rows_that_stand_twice_are_no_leak() -> None:
    draws = np.random.RandomState(0)
    a, b = draws.normal(size=(2, 60))
    table = {
        "a": [f"{x:.3f}" for x in a] * 2,
        "b": [f"{x:.3f}" for x in b] * 2,
        "y": [f"{x:.3f}" for x in 2 * a - b] * 2,
    }
    order = np.argsort(np.arange(120) % 60, kind="stable")  # both of a pair on one side
    part = [
        {"id": [str(at) for at in some], **{name: [cells[at] for at in some] for name, cells in table.items()}}
        for some in (order[:90], order[90:])
    ]
    test = {name: part[1][name] for name in ("id", "a", "b")}
    small = by_hand({"parse": "number"}, part[0], test, part[1]["y"])
    assert not failing(small, "answers_secret")
    assert "answers_secret" in failing(small.having({"public/test.csv": {**test, "b": part[1]["y"]}}), "answers_secret")


ORDERS = ("no_leak_ids", "no_leak_row_order")


def test_a_forecast_is_in_the_order_of_time() -> None:
    """Two series one after another, with trend and season, and running numbers for ids."""
    draws = np.random.RandomState(0)
    rows = [(name, day) for name in ("north", "south") for day in range(60)]
    values = [(name == "north") * 9 + day / 6 + 3 * np.sin(day / 3) + draws.normal() for name, day in rows]
    table = {
        "id": [str(at) for at in range(120)],
        "station": [name for name, _ in rows],
        "day": [f"2021-{1 + day // 28:02d}-{1 + day % 28:02d}" for _, day in rows],
        "y": [f"{value:.3f}" for value in values],
    }
    late = [at for at, (_, day) in enumerate(rows) if day >= 40]
    train = {name: [cells[at] for at in range(120) if at not in late] for name, cells in table.items()}
    test = {name: [table[name][at] for at in late] for name in ("id", "station", "day")}
    small = by_hand({"parse": "number"}, train, test, [table["y"][at] for at in late])
    assert not failing(small, *ORDERS)
    without = small.having(
        {"public/train.csv": {**train, "day": ["x"] * 80}, "public/test.csv": {**test, "day": ["x"] * 40}}
    )
    assert set(failing(without, *ORDERS)) == set(ORDERS)
    bare = {name: {"id": table["id"]} for name, table in (("public/train.csv", train), ("public/test.csv", test))}
    told = examine(case(small.having({"public/test.csv": bare["public/test.csv"]})), ORDERS)
    assert told["no_leak_ids"] == "skipped: the ids are all that a row has"


@pytest.mark.parametrize("parse", ["rle", "tagset", "ranked", "text"])
def test_lists_and_texts_are_summed_up(parse: str) -> None:
    draws = np.random.RandomState(0)
    level = draws.permutation(np.arange(80))
    cells = {
        "rle": [f"{5 + draws.randint(9)} {int(each)} 900 {int(each) + 3}" for each in level],
        "tagset": [" ".join(["sea"] + ["sun"] * int(each > 40) + [f"t{draws.randint(9)}"]) for each in level],
        "ranked": [f"d{each // 20} d{draws.randint(5, 9)}" for each in level],
        "text": [" ".join(["word"] * (2 + int(each))) for each in level],
    }[parse]
    spec = {"parse": parse}
    for told in (False, True):
        ids = [
            str(1000 + (7 * int(each) if told else int(other)))
            for each, other in zip(level, draws.permutation(800), strict=False)
        ]
        table = {"id": ids, "x": [f"{draws.normal():.3f}" for _ in ids], "y": cells}
        train = {name: column[:50] for name, column in table.items()}
        test = {name: table[name][50:] for name in ("id", "x")}
        assert bool(failing(by_hand(spec, train, test, cells[50:]), "no_leak_ids")) == told


def test_big_tasks_are_examined_in_bounded_time() -> None:
    draws, rows = np.random.RandomState(0), 30_000
    table = {f"x{at}": [f"{value:.2f}" for value in draws.normal(size=rows)] for at in range(6)}
    table["id"] = [str(number) for number in 10**6 + draws.permutation(10**6)[:rows]]
    table["file"] = [f"images/{number}.txt" for number in draws.permutation(10**6)[:rows]]
    y = list(draws.choice(["a", "b"], rows))
    train = {**{name: cells[:20_000] for name, cells in table.items()}, "y": y[:20_000]}
    test = {name: cells[20_000:] for name, cells in table.items()}
    files = {f"public/{name}": name.encode() for name in table["file"][::6]}
    small = by_hand({"parse": "label", "labels": ["a", "b"]}, train, test, y[20_000:], **files)
    started = time.process_time()
    assert not failing(small, *(name for name in CHECKS if name.startswith(("no_leak", "train", "answers"))))
    assert time.process_time() - started < 10


# --- thresholds, description, evaluator ---------------------------------------------------------------------------


def changed(small: Small, **keys: Any) -> Small:
    return Small({**small.task, **keys}, small.files)


def with_scores(small: Small, **scores: float) -> Small:
    kept = {each["name"]: each["score"] for each in small.task["provenance"]["baselines"]}
    baselines = [{"name": name, "score": score} for name, score in {**kept, **scores}.items()]
    return changed(small, provenance={**small.task["provenance"], "baselines": baselines})


def test_thresholds_and_baselines() -> None:
    small = clean("tabular", "binary")
    dummy = small.task["provenance"]["baselines"][0]["score"]
    assert not failing(small)
    low = changed(small, thresholds={**small.task["thresholds"], "median": 0.0})
    assert set(failing(low)) == {"thresholds_ordered", "not_trivial"}
    swapped = changed(small, thresholds={**small.task["thresholds"], "silver": 0.95})
    assert "thresholds_ordered" in failing(swapped)
    high = changed(small, thresholds={**small.task["thresholds"], "gold": 0.99})
    assert set(failing(high)) == {"gold_reachable", "ceiling_above_gold"}
    assert set(failing(with_scores(small, single_feature=0.9))) == {"not_trivial"}
    assert set(failing(with_scores(small, ceiling=0.9))) == {"ceiling_above_gold"}
    assert set(failing(with_scores(small, linear=dummy, tuned_ensemble=dummy))) == {"learnable"}


@pytest.mark.parametrize("problem", ["binary", "regression", "probabilities"])
def test_without_baselines_models_are_trained(problem: str) -> None:
    small = clean("tabular", problem, 120)
    bare = changed(small, provenance={"source": "", "seed": 0})
    bare.task.pop("thresholds")
    outcomes = examine(case(bare), ["learnable", "thresholds_ordered", "gold_reachable"])
    assert outcomes["learnable"] == "passed"
    assert outcomes["thresholds_ordered"].startswith("skipped: the record has neither thresholds")
    train, test = bare.table("public/train.csv"), bare.table("public/test.csv")
    draws = np.random.RandomState(0)
    for table in (train, test):
        for name in ("height_cm", "width_cm", "depth_cm", "soil"):
            table[name] = [table[name][at] for at in draws.permutation(len(table[name]))]
    noise = bare.having({"public/train.csv": train, "public/test.csv": test})
    assert "learnable" in failing(noise, "learnable")


def test_a_single_column_that_reaches_gold() -> None:
    small = clean("tabular", "binary", 120)
    codes = planted.codes(small)
    train, test = small.table("public/train.csv"), small.table("public/test.csv")
    first, draws = len(train["id"]), np.random.RandomState(0)
    told = [f"{code + draws.uniform(0, 0.9):.3f}" for code in codes]
    train["width_cm"], test["width_cm"] = told[:first], told[first:]
    kept = [each for each in small.task["provenance"]["baselines"] if each["name"] != "single_feature"]
    bare = changed(small, provenance={**small.task["provenance"], "baselines": kept})
    assert not failing(bare, "not_trivial")
    found = failing(bare.having({"public/train.csv": train, "public/test.csv": test}), "not_trivial")
    assert found["not_trivial"].startswith("column width_cm alone scores")


def test_what_was_tried_out() -> None:
    small = clean("image", "binary")
    bare = changed(small, provenance={"source": "", "seed": 0})

    def outcome(small: Small, trial: Trial) -> dict[str, str]:
        return failures(examine(case(small, lambda: trial), ["learnable", "runs_in_time"]))

    assert not outcome(bare, Trial("ok", 0.8, "", 1.0, 10.0))
    assert set(outcome(bare, Trial("ok", 0.5, "", 1.0, 10.0))) == {"learnable"}
    assert outcome(small, Trial("timeout", None, "no submission", 10.0, 10.0)) == {
        "runs_in_time": "a standard solution ended with status timeout: no submission"
    }
    assert set(outcome(small, Trial("ok", None, "no column", 1.0, 10.0))) == {"runs_in_time"}


def test_an_evaluator_that_guesses() -> None:
    small = clean()
    draws = random.Random(0)
    found = failures(
        examine(Case(small.task, small.files, lambda content: draws.random()), ["evaluator_deterministic"])
    )
    assert "evaluator_deterministic" in found

    def broken(content: bytes) -> float:
        raise ValueError("no such column")

    told = examine(Case(small.task, small.files, broken), ["thresholds_ordered"])["thresholds_ordered"]
    assert told == "failed: a submission that ought to have a score has none: no such column"


def test_the_description() -> None:
    small = clean("image", "binary")
    text = small.task["description"]
    for told, reason in (
        (text.replace("`weight_kg`", ""), "the description does not name column weight_kg"),
        (text.replace("images/", "pictures/"), "the description does not name images/"),
        (text + "See private/answers.csv.", "the description names what is hidden: answers.csv"),
        (text + "Level of the ground\nwater, more is higher.", "the description tells the rule: "),
        ("", "there is no description"),
    ):
        assert failing(changed(small, description=told), "description_complete")["description_complete"].startswith(
            reason
        )


def test_numbered_columns_may_be_named_together() -> None:
    small = clean("tabular", "binary")
    train, test = small.table("public/train.csv"), small.table("public/test.csv")
    for table in (train, test):
        table.update({f"band_{at}": [f"{at}{row}" for row in range(len(table["id"]))] for at in range(8)})
    wide = small.having({"public/train.csv": train, "public/test.csv": test})
    text = small.task["description"]
    assert "description_complete" in failing(wide, "description_complete")
    for told in ("`band_0` ... `band_7` (8 columns)", "`band_N`: the N-th band", "`band_*`"):
        assert not failing(changed(wide, description=text + told), "description_complete")


def test_a_term_of_one_word_is_no_secret() -> None:
    assert told_terms({"hidden_rule": "age + 0.5 x [sine of the age in years]"}, "The age of a tree.") == []
    assert told_terms({"hidden_rule": ["sine of the age in years"]}, "It is the Sine of  the age in years.")


def test_an_unknown_check() -> None:
    with pytest.raises(ToolError, match="unknown check 'no_leaks': known are thresholds_ordered, "):
        examine(case(clean()), ["no_leaks"])


def test_two_hundred_pictures_are_examined_fast() -> None:
    small = clean("image", "multiclass", 200)
    examine(case(small))
    started = time.process_time()
    examine(case(small))
    assert time.process_time() - started < 0.5


# --- mle-filter --tasks -------------------------------------------------------------------------------------------


def on_disk(small: Small, data: Path, name: str) -> dict[str, Any]:
    """The record of a task whose folder is written below `data`."""
    folder = f"tasks/{name}"
    write_folder(data / folder, small.files)
    public = sorted(each for each in small.files if each.startswith("public/"))
    answers = {"private/answers.csv": small.files["private/answers.csv"]}
    digest = content_digest({**{each: small.files[each] for each in public}, **answers})
    listed = [each.removeprefix("public/") for each in public]
    told = {"dir": folder, "public": listed, "digest": digest, "private_digest": content_digest(answers)}
    return {**small.task, "id": name, "data": told}


def lines(*tasks: dict[str, Any]) -> bytes:
    return "".join(json.dumps(task) + "\n" for task in tasks).encode()


@pytest.fixture
def five(tmp_path: Path) -> list[dict[str, Any]]:
    """A clean task, one with two faults, the clean one again, another clean one, one without baselines' ceiling."""
    leaky = planted.ids_sorted(planted.answers_copied(clean("tabular", "regression")))
    return [
        on_disk(clean("image", "binary"), tmp_path, "one"),
        on_disk(leaky, tmp_path, "two"),
        on_disk(clean("image", "binary"), tmp_path, "again"),
        on_disk(clean("audio", "multilabel", 90), tmp_path, "four"),
        on_disk(with_scores(clean("text", "multiclass"), ceiling=0.5), tmp_path, "five"),
    ]


def test_filter_keeps_what_is_sound(five: list[dict[str, Any]], tmp_path: Path) -> None:
    asked = ("mle-filter", "--tasks", "--force", "--dropped", "dropped.jsonl")
    done = run_command(*asked, input=lines(*five), cwd=tmp_path)
    kept = records(done.stdout)
    assert [task["id"] for task in kept] == ["one", "four"]
    assert kept[0]["filter"]["reason"] is None and set(kept[0]["filter"]["checks"]) == set(CHECKS)
    assert {key: kept[0][key] for key in five[0] if key != "lineage"} == {
        k: v for k, v in five[0].items() if k != "lineage"
    }
    dropped = {task["id"]: task["filter"] for task in records((tmp_path / "dropped.jsonl").read_bytes())}
    assert (
        dropped["two"]["reason"].startswith("no_leak_ids: ")
        and "; answers_secret: extra.csv" in dropped["two"]["reason"]
    )
    assert dropped["again"]["reason"] == "duplicate: nearly the same as the earlier task one"
    assert done.stderr.decode().startswith(
        "mle-filter: 2 records, 3 dropped, 1 failed no_leak_ids, 1 failed answers_secret, "
        "1 failed description_complete, 1 nearly the same as an earlier one, 1 failed ceiling_above_gold, "
    )
    several = run_command(*asked, "-j", "2", input=lines(*five), cwd=tmp_path)
    assert several.stdout == done.stdout
    every = run_command(
        "mle-filter", "--tasks", "--keep-duplicates", "--check", "no_leak_ids", input=lines(*five), cwd=tmp_path
    )
    assert [task["id"] for task in records(every.stdout)] == ["one", "again", "four", "five"]


@pytest.mark.slow
def test_filter_goes_on(five: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(lines(*five))
    asked = ("mle-filter", "--tasks", "tasks.jsonl", "-o", "kept.jsonl", "--dropped", "dropped.jsonl")
    run_command(*asked, cwd=tmp_path)
    whole, dropped = ((tmp_path / name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl"))
    (tmp_path / "kept.jsonl").unlink()
    (tmp_path / "kept.jsonl.partial").write_bytes(whole[: whole.index(b"\n") + 30])
    run_command(*asked, "--resume", cwd=tmp_path)
    assert (tmp_path / "kept.jsonl").read_bytes() == whole
    assert (tmp_path / "dropped.jsonl").read_bytes() == dropped


def test_a_folder_that_is_not_the_recorded_one(five: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "tasks/four/public/train.csv").write_text("id\n")
    done = run_command("mle-filter", "--tasks", input=lines(*five), cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "mle-filter: stdin:4: tasks/four: the files are not those of the task record (data.digest differs); "
        "is --data (or MLE_DATA, for every command) the folder that the task was written to?\n"
    )
    gone = run_command("mle-filter", "--tasks", "--data", "elsewhere", input=lines(*five), cwd=tmp_path, check=False)
    assert gone.stderr.decode() == (
        "mle-filter: stdin:1: elsewhere/tasks/one: no such folder; is --data (or MLE_DATA, for every command) the folder that the task was written to?\n"
    )
    asked = ("mle-filter", "--tasks", "--max-rejects", "1", "--rejects", "rejects.jsonl")
    done = run_command(*asked, input=lines(*five), cwd=tmp_path)
    assert [task["id"] for task in records(done.stdout)] == ["one"]
    with pytest.raises(RecordError):
        read_case({**five[0], "data": {**five[0]["data"], "public": ["missing.csv"]}}, tmp_path, float)
    (tmp_path / "tasks/one/public/.answers.csv.swp").write_text("id\n")
    with pytest.raises(
        RecordError, match=r"tasks/one: public/\.answers\.csv\.swp is hidden, but agents see it: remove"
    ):
        read_case(five[0], tmp_path, float)


@pytest.mark.slow
def test_thresholds_of_a_leaderboard_and_a_metric_that_is_code(tmp_path: Path) -> None:
    small = clean("tabular", "binary", 60)
    metric = b"def grade(submission, answers):\n    return float((submission.species == answers.species).mean())\n"
    board = "score\n" + "".join(f"{0.6 + at / 200}\n" for at in range(60))
    record = on_disk(small, tmp_path, "coded")
    folder = tmp_path / "tasks/coded/private"
    (folder / "board.csv").write_text(board)
    (folder / "metric.py").write_bytes(metric)
    task = {name: value for name, value in record.items() if name != "thresholds"}
    task.update(leaderboard="private/board.csv", metric={"file": "private/metric.py", "lower_is_better": False})
    files = {
        name: tmp_path / "tasks/coded" / name
        for name in ("private/answers.csv", "private/board.csv", "private/metric.py")
    }
    task["data"] = {**task["data"], "private_digest": content_digest(files)}
    asked = ("mle-filter", "--tasks", "--check", "thresholds_ordered", "--check", "evaluator_deterministic")
    done = run_command(*asked, "-j", "2", input=lines(task), cwd=tmp_path, check=False)
    if b"neither namespaces nor Landlock" in done.stderr:
        pytest.skip("this machine has no sandbox for metrics that are code")
    (kept,) = records(done.stdout)
    assert kept["filter"]["checks"] == {"thresholds_ordered": "passed", "evaluator_deterministic": "passed"}
    assert "thresholds" not in kept
