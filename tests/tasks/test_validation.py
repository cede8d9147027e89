"""The validation view of a task: what an agent sees of it, what its answers are worth, and how submissions are parted."""

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from hypothesis import given
from hypothesis import strategies as st
from validation_builders import EXAMPLES, SOURCE, drawn, example, perfect, snapshot, table, text_of

from mletools.base.errors import RecordError
from mletools.grading import answer_spec, grade, metrics, parse_answers
from mletools.grading.answers import keys_of
from mletools.records import schema
from mletools.sandbox import Limits, Setup, open_sandbox
from mletools.solutions import solution
from mletools.tasks.folder import ANSWERS, data_digest, private_digest
from mletools.tasks.record import Parts, finish
from mletools.tasks.validation import View, split_view, validation_view
from mletools.tasks.validation.rows import canonical, ids_of, without
from mletools.tasks.validation.split import held_out, shared_out

# What a made task asks for: (modality, seed of the draw, the form and the problem that it gives).
DRAWS = [
    ("tabular", 50, "number", "ranking"),
    ("timeseries", 15, "tagset", "multilabel_classification"),
    ("tabular", 1, "label", "multiclass_classification"),
    ("image", 6, "label", "binary_classification"),
    ("image", 20, "mask", "segmentation"),
    ("timeseries", 1, "number", "forecasting"),
    ("image", 1, "number", "reconstruction"),
    ("image", 0, "number", "regression"),
    ("tabular", 32, "probabilities", "binary_classification"),
    ("image", 2, "probabilities", "multiclass_classification"),
    ("tabular", 20, "probability", "binary_classification"),
    ("image", 26, "probability", "multilabel_classification"),
    ("image", 17, "ranked", "ranking"),
]
ADVICE = "give --validation 0 to work without a validation score, or --reveal-test"


def check_view(task: dict[str, Any], data: Path) -> View:
    """Makes the view of a made task, and looks at all that it promises."""
    origin = data / task["data"]["dir"]
    before = snapshot(origin)
    view = validation_view(task, data)
    assert snapshot(origin) == before
    schema.check(view.task, "task")
    assert view.task["data"]["digest"] == data_digest(view.folder, view.task["data"]["public"], view.task["answers"])
    assert view.task["data"]["private_digest"] == private_digest(view.folder, view.task)
    assert "leaderboard" not in view.task and view.task.get("thresholds") == task.get("thresholds")
    seen = snapshot(view.folder)
    assert set(seen) == {*(f"public/{name}" for name in task["data"]["public"]), "private/validation.csv"}
    changed = {name for name in before if name in seen and seen[name] != before[name]}
    assert changed == {"public/train.csv", "public/test.csv", "public/sample_submission.csv"}
    _check_rows(task, view, before, seen)
    _check_scores(task, view, origin, seen["public/sample_submission.csv"])
    return view


def _check_rows(task: dict[str, Any], view: View, before: dict[str, bytes], seen: dict[str, bytes]) -> None:
    old = [line for line in before["public/train.csv"].decode().splitlines(keepends=True)]
    new = seen["public/train.csv"].decode().splitlines(keepends=True)
    left = [line for line in old if line not in set(new)]
    assert [line for line in old if line in set(new)] == new and len(old) == len(new) + len(left)
    held = table(("".join([old[0], *left])).encode())
    test, original = table(seen["public/test.csv"]), table(before["public/test.csv"])
    columns = list(original[0])
    assert list(test[0]) == columns and not set(columns) & set(task["submission"]["target"])
    wanted = [tuple(row[name] for name in columns) for row in [*original, *held]]
    assert Counter(tuple(row.values()) for row in test) == Counter(wanted)
    # what is worth telling apart is mixed: neither kind of rows stands together
    kinds = [row in original for row in test]
    assert sum(one != other for one, other in itertools.pairwise(kinds)) > 2
    ids = task["submission"]["id"]
    answers = table(seen["private/validation.csv"])
    assert {tuple(row[name] for name in ids) for row in answers} == {tuple(row[name] for name in ids) for row in held}
    assert view.rows == view.task["submission"]["rows"] == len(answers)
    if len({tuple(row[name] for name in ids) for row in held}) == len(held):
        assert 0.1 < len(held) / (len(old) - 1) < 0.3 and len(held) >= 5
    groups = [task["metric"]["group"]] if "group" in task["metric"] else ids
    kept, out = (
        {tuple(row[name] for name in groups) for row in rows} for rows in (table(seen["public/train.csv"]), held)
    )
    assert not kept & out


def _check_scores(task: dict[str, Any], view: View, origin: Path, sample: bytes) -> None:
    best = metrics.find(task["metric"]["name"]).best
    assert grade(view.task, view.folder, perfect(view)).score == best
    both = [*table(origin / "public" / "sample_submission.csv"), *table(perfect(view))]
    shuffled = text_of(sorted(both, key=lambda row: "".join(row.values())[::-1]))
    alone = grade(task, origin, (origin / "public" / "sample_submission.csv").read_bytes())
    assert grade(task, origin, view.test_part(shuffled)) == alone and alone.valid
    assert grade(view.task, view.folder, view.validation_part(shuffled)).score == best
    assert grade(task, origin, view.test_part(sample)).valid
    assert grade(view.task, view.folder, view.validation_part(sample)).valid
    assert not grade(task, origin, shuffled).valid and not grade(view.task, view.folder, shuffled).valid


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_view_of_an_example(tmp_path: Path, name: str) -> None:
    check_view(example(name, tmp_path), tmp_path)


@pytest.mark.parametrize("draw", mostly_slow(DRAWS, 6), ids=str)
def test_the_view_of_a_made_task(tmp_path: Path, draw: tuple[str, int, str, str]) -> None:
    modality, seed, form, problem = draw
    task, found = drawn(modality, seed, tmp_path)
    assert (found, task["problem"]) == (form, problem)
    check_view(task, tmp_path)


def test_no_label_of_a_validation_row_is_in_sight(tmp_path: Path) -> None:
    task = example("school_canteen_audio", tmp_path)  # 25 amplitudes a row: no two rows share them
    view = validation_view(task, tmp_path)
    public = b"\0".join(snapshot(view.public).values())
    for row in table(view.folder / view.task["answers"]):
        values = ",".join(list(row.values())[1:]).encode()
        assert values in (tmp_path / task["data"]["dir"] / "public" / "train.csv").read_bytes()
        assert values not in public and row["id"].encode() + b"," in public
    assert not list(view.public.rglob("*validation*"))


def test_media_are_linked_and_not_copied(tmp_path: Path) -> None:
    task = example("concrete_image", tmp_path)
    view = validation_view(task, tmp_path)
    for path in (view.public / "images").iterdir():
        assert path.samefile(tmp_path / task["data"]["dir"] / "public" / "images" / path.name)


def test_a_split_depends_on_the_task_alone(tmp_path: Path) -> None:
    task = example("loan_office_tabular", tmp_path / "a")
    example("loan_office_tabular", tmp_path / "b")
    view, again, other = (validation_view(task, tmp_path / place) for place in ("a", "a", "b"))
    assert view == again and snapshot(view.folder) == snapshot(other.folder) and view.task == other.task
    assert view.public == tmp_path / "a" / "views" / f"{task['id']}-0.2" / "public"
    half = validation_view(task, tmp_path / "a", 0.5)
    assert half.rows == 15 and half.folder.name.endswith("-0.5")
    assert [path.name for path in sorted((tmp_path / "a" / "views").iterdir())] == [view.folder.name, half.folder.name]
    labels = Counter(row["risk_class"] for row in table(view.folder / view.task["answers"]))
    assert len(labels) == 5  # each class, of five, among six rows


def test_samples_do_not_tell_the_rows_apart(tmp_path: Path) -> None:
    ranked, _ = drawn("image", 17, tmp_path)
    view = validation_view(ranked, tmp_path)
    (group,), (target,) = ranked["submission"]["id"], ranked["submission"]["target"]
    of_group: dict[str, list[str]] = {}
    for row in table(view.public / "test.csv"):
        of_group.setdefault(row[group], []).append(row["id"])
    sample = table(view.public / "sample_submission.csv")
    assert {row[group]: sorted(row[target].split()) for row in sample} == {k: sorted(v) for k, v in of_group.items()}
    assert [row[group] for row in sample] == list(of_group)
    numbers, _ = drawn("tabular", 50, tmp_path)  # a correlation: the sample counts its rows
    view = validation_view(numbers, tmp_path)
    cells = [row[numbers["submission"]["target"][0]] for row in table(view.public / "sample_submission.csv")]
    rows = numbers["submission"]["rows"]
    assert cells == [str(at % rows + 1) for at in range(len(cells))] and len(cells) > rows


# --- many processes, and one that dies ----------------------------------------------------------------------------------

PROGRAM = """
import json, os, sys, time
from pathlib import Path
from mletools.tasks.validation import validation_view
if len(sys.argv) > 3:
    os.rename = lambda *names: (print("made", flush=True), time.sleep(60))
view = validation_view(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
print(json.dumps([str(view.folder), view.rows, view.task]))
"""


def start(data: Path, task: dict[str, Any], *more: str) -> "subprocess.Popen[bytes]":
    (data / "task.json").write_text(json.dumps(task))
    words = [sys.executable, "-c", PROGRAM, str(data / "task.json"), str(data), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def test_two_processes_make_one_view(tmp_path: Path) -> None:
    task = example("textile_mill_multimodal", tmp_path)
    both = [start(tmp_path, task) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0, 0] and said[0] and set(said) == {said[0]}
    assert [path.name for path in (tmp_path / "views").iterdir()] == [f"{task['id']}-0.2"]


def test_a_view_left_half_made_by_a_killed_process_is_made_anew(tmp_path: Path) -> None:
    task = example("loan_office_tabular", tmp_path)
    child = start(tmp_path, task, "dies")
    assert child.stdout and child.stdout.readline() == b"made\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (left,) = (tmp_path / "views").iterdir()
    assert left.name.endswith(".partial") and list(left.iterdir())
    (left / "public" / "rubbish.csv").write_text("1")
    check_view(task, tmp_path)
    assert [path.name for path in (tmp_path / "views").iterdir()] == [f"{task['id']}-0.2"]


def test_selection_rows_are_held_out_besides_the_validation_rows(tmp_path: Path) -> None:
    task = example("loan_office_tabular", tmp_path)
    view = split_view(task, tmp_path)
    content = text_of(table(view.public / "sample_submission.csv"))
    parts = {
        "test": (task, tmp_path / task["data"]["dir"], view.test_part(content)),
        "validation": (view.task, view.folder, view.validation_part(content)),
        "selection": (view.outer.task, view.outer.folder, view.selection_part(content)),
    }
    assert all(grade(of, folder, part).valid for of, folder, part in parts.values())
    ids = {name: {row["id"] for row in table(part)} for name, (_, _, part) in parts.items()}
    ids["train"] = {row["id"] for row in table(view.public / "train.csv")}
    assert sum(map(len, ids.values())) == len(set().union(*ids.values())) and all(ids.values())
    assert ids["train"] | ids["validation"] | ids["selection"] == {
        row["id"] for row in table(tmp_path / task["data"]["dir"] / "public/train.csv")
    }
    assert len(ids["test"]) > 2 * (
        len(ids["validation"]) + len(ids["selection"])
    )  # more than the inner view would take


# --- hostile submissions ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loan(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, View]:
    data = tmp_path_factory.mktemp("loan")
    task = example("loan_office_tabular", data)
    return task, data / task["data"]["dir"], validation_view(task, data)


def verdicts(loan: tuple[dict[str, Any], Path, View], content: bytes) -> tuple[Any, Any]:
    """(the verdict on the test rows, on the validation rows)."""
    task, origin, view = loan
    return grade(task, origin, view.test_part(content)), grade(view.task, view.folder, view.validation_part(content))


def whole(loan: tuple[dict[str, Any], Path, View]) -> list[dict[str, str]]:
    return table(loan[2].public / "sample_submission.csv")


def is_validation(loan: tuple[dict[str, Any], Path, View], row: dict[str, str]) -> bool:
    return row["id"] in {each["id"] for each in table(loan[2].folder / "private" / "validation.csv")}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.rstrip(b"\n"),
        lambda text: text.replace(b"\n", b".0\n").replace(b"risk_class.0", b"risk_class").replace(b"low.0", b"low"),
        lambda text: b"".join(b'"' + line.replace(b",", b'","') + b'"\n' for line in text.split()),
        lambda text: b"".join(b"x" + line[:0] + b"," + line + b"\n" if at else b"n," + line + b"\n" for at, line in enumerate(text.split())),
        lambda text: b"\n\n".join(text.split(b"\n")),
        lambda text: b"\n".join(b"00" + line if line[:1].isdigit() else line for line in text.split(b"\n")),
        lambda text: b"\n".join(b" " + line.replace(b",", b".0,") if line[:1].isdigit() else line for line in text.split(b"\n")),
    ],
    ids=["plain", "crlf", "cr", "bom", "no_end", "same", "quotes", "more", "gaps", "zeros", "floats"],
)  # fmt: skip
def test_other_spellings_of_a_submission_get_the_same_verdicts(loan: Any, change: Any) -> None:
    content = change(text_of(whole(loan)))
    test, validation = verdicts(loan, content)
    assert (test.valid, validation.valid) == (True, True), (test.reason, validation.reason)
    assert (test, validation) == verdicts(loan, text_of(whole(loan)))
    rows = [table(part(content.replace(b"\r\n", b"\n"))) for part in (loan[2].test_part, loan[2].validation_part)]
    assert (len(rows[0]), len(rows[1])) == (27, 6)


@pytest.mark.parametrize("ours", [True, False], ids=["validation", "test"])
def test_what_is_wrong_in_one_part_is_wrong_in_that_part_alone(loan: Any, ours: bool) -> None:
    rows = whole(loan)
    first = next(row for row in rows if is_validation(loan, row) == ours)
    total = sum(is_validation(loan, row) == ours for row in rows)
    for wrong, reason in (
        ([*rows, first], "appears twice"),
        ([*rows, {**first, "id": f"0{first['id']}.0"}], "appears twice"),
        ([row for row in rows if row is not first], f"1 of {total} rows are missing, for example id '{first['id']}'"),
        ([{**row, "risk_class": "huge"} if row is first else row for row in rows], "column 'risk_class'"),
    ):
        test, validation = verdicts(loan, text_of(wrong))
        bad, good = (validation, test) if ours else (test, validation)
        assert good.valid and not bad.valid and reason in bad.reason


def test_what_belongs_to_no_part_is_wrong_in_both(loan: Any) -> None:
    good = text_of(whole(loan))
    known = table(loan[2].public / "train.csv")[0]["id"].encode()
    for content, reason in (
        (good + b"999999,low\n", "id '999999' is not in the test set (1 such rows)"),
        (good + known + b",low\n", "is not in the test set"),
        (good + b"1,2,3\n", "has 3 cells, the first line has 2"),
        (good + b'1,"2', "the file is not CSV"),
        (good.replace(b"risk_class", b"risk"), "column 'risk_class' is missing"),
        (good.replace(b"id,", b"ID,"), "column 'id' is missing"),
        (good.replace(b"id,risk_class", b"id,id,risk_class"), "column 'id' appears twice"),
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"\n" + good, "the first line is empty"),
        (b"id,risk_class\n", "rows are missing"),
        (good + b"\0", "NUL bytes"),
        (good + b"\xff\xfe", "not UTF-8"),
        (b"\x80\x04rubbish" * 99, "not UTF-8"),
        (good + b"1,2\n" * 70, "there are more than"),
        (good + b"\n" * 200_000, "there are more than"),
        (b",".join(b"c%d" % at for at in range(20_001)) + b"\n", "more than 20000 columns"),
    ):
        for verdict in verdicts(loan, content):
            assert not verdict.valid and reason in verdict.reason, (content[-20:], verdict.reason)


def test_twenty_thousand_columns(loan: Any) -> None:
    rows = whole(loan)
    width = 19_998
    content = ("id,risk_class," + ",".join(f"c{at}" for at in range(width)) + "\n").encode()
    content += b"".join(f"{row['id']},low,".encode() + b"," * (width - 1) + b"\n" for row in rows)
    test, validation = verdicts(loan, content)
    assert test.valid and validation.valid


@pytest.mark.slow
def test_one_row_of_thirty_megabytes(loan: Any) -> None:
    rows = whole(loan)
    longest = "x" * (30 << 20)
    content = text_of([{**row, "note": longest if at == 0 else ""} for at, row in enumerate(rows)])
    test, validation = verdicts(loan, content)
    assert test.valid and validation.valid
    inner = next(row for row in rows if is_validation(loan, row))
    lines = loan[2].test_part(f'id,risk_class\n{inner["id"]},"a\nb""\n{inner["id"]}"\n1,2\n'.encode())
    assert lines == b"id,risk_class\n1,2\n"


def test_a_cell_larger_than_the_csv_module_reads_by_itself(loan: Any) -> None:
    rows = whole(loan)
    content = text_of([{**row, "note": "x" * 200_000 if at == 5 else ""} for at, row in enumerate(rows)])
    assert len(table(loan[2].test_part(content))) == 27


@given(st.text(alphabet='ab",\n\r;1 0.\ufeff\x85\u2028é', max_size=60))
def test_every_byte_is_kept_or_belongs_to_a_row_that_goes(text: str) -> None:
    content = b"a,b\n" + text.encode()
    assert without(content, ["a"], lambda key: False, 99) == content
    gone = without(content, ["a"], lambda key: True, 99)
    assert gone == content or all(len(row) != 2 for row in list(csv.reader(io.StringIO(gone.decode(), newline="")))[1:])


CELLS = st.sampled_from(["7", "07", "7.0", "8", " 8", "-3", "-3.0", "1e1", "10", "a", "A", "", "1_0", "12.5", "12.50", "nan", "inf", "²"])  # fmt: skip


@given(st.lists(CELLS, min_size=1, max_size=5, unique=True), st.lists(CELLS, max_size=8))
def test_ids_compare_as_graders_compare_them(ours: list[str], theirs: list[str]) -> None:
    spec = answer_spec({"submission": {"id": ["id"], "target": ["y"], "parse": "text"}})
    truth = parse_answers(text_of([{"id": cell, "y": "1"} for cell in ours]), spec)
    found = ids_of([(cell,) for cell in ours])
    assert found.numeric == truth.numeric
    for cell, key in zip(theirs, keys_of([theirs], truth.numeric, False), strict=True):
        assert ((cell,) in found) == (key in truth.position)


def test_ids_of_several_columns_and_ids_that_repeat(tmp_path: Path) -> None:
    rows = [{"shop": f"s{at // 4}", "day": str(at % 4), "x": str(at), "y": str(at % 5)} for at in range(60)]
    task = plain(tmp_path, rows[:48], rows[48:], id=["shop", "day"])
    view = check_view(task, tmp_path)
    assert view.test_ids.numeric == (False, True) and view.rows == 10


# --- tasks of others ------------------------------------------------------------------------------------------------------


def plain(
    data: Path,
    train: list[dict[str, str]],
    test: list[dict[str, str]],
    more: dict[str, bytes] | None = None,
    **given: Any,
) -> dict[str, Any]:
    """A task with a number y to predict."""
    spec: dict[str, Any] = {"id": ["id"], "target": ["y"], "parse": "number", "rows": len(test)}
    spec |= {key: value for key, value in given.items() if key in ("id", "target", "parse", "repeated_ids")}
    names = spec["id"]
    wanted = {"metric": {"name": "rmse", "params": {}, "lower_is_better": True}, **given.get("grading", {})}
    shown = [{name: cell for name, cell in row.items() if name not in ("y", *given.get("hidden", ()))} for row in test]
    answers = text_of([{name: row[name] for name in (*names, "y", *given.get("asked", ()))} for row in test])
    public = {
        "train.csv": text_of(train),
        "test.csv": text_of(shown),
        "sample_submission.csv": text_of([{**{name: row[name] for name in names}, "y": "0"} for row in test]),
        **(more or {}),
    }
    parts = Parts("t", "d", "tabular", "regression", public, {ANSWERS: answers}, {"submission": spec, **wanted, "answers": ANSWERS}, SOURCE)  # fmt: skip
    return finish(parts, data, ())


def numbered(first: int, rows: int, **more: str) -> list[dict[str, str]]:
    return [{"id": str(first + at), "x": str(at), "y": str(at % 7), **more} for at in range(rows)]


@pytest.mark.parametrize("source", mostly_slow(["kind", "number", "class columns", "bench"], 1))
def test_views_of_imported_tasks(tmp_path: Path, source: str) -> None:
    from test_import import bench, kaggle, write
    from test_import import table as lines

    folder = kaggle(tmp_path / "raw") if source != "bench" else bench(tmp_path / "raw")
    if source == "class columns":
        write(folder, {"sample_submission.csv": lines(["Id", "yes", "no"], [[1, 0.5, 0.5]])})
    asked = {
        "kind": ["--metric", "auroc", "--target", "kind"],
        "number": ["--metric", "rmse", "--target", "y"],
        "class columns": ["--metric", "log_loss", "--target", "kind"],
        "bench": [],
    }[source]
    (task,) = records(run_command("mle-import", str(folder), *asked, cwd=tmp_path).stdout)
    view = validation_view(task, tmp_path)
    assert grade(view.task, view.folder, perfect(view)).score == metrics.find(task["metric"]["name"]).best
    sample = (view.public / "sample_submission.csv").read_bytes()
    assert grade(task, tmp_path / task["data"]["dir"], view.test_part(sample)).valid
    assert grade(view.task, view.folder, view.validation_part(sample)).valid


@pytest.mark.slow
def test_a_table_of_scikit_learn(tmp_path: Path) -> None:
    made = run_command("mle-gen-task", "--source", "sklearn:wine", "--backend", "none", cwd=tmp_path)
    (task,) = records(made.stdout)
    check_view(task, tmp_path)


def test_ids_are_made_where_training_rows_have_none(tmp_path: Path) -> None:
    train = [{"x": row["x"], "y": row["y"]} for row in numbered(0, 40)]
    task = plain(tmp_path, train, numbered(100, 12))
    view = validation_view(task, tmp_path)
    assert grade(view.task, view.folder, perfect(view)).score == 0
    shown = {row["id"]: row["x"] for row in table(view.public / "test.csv")}
    held = table(view.folder / view.task["answers"])
    assert all(int(row["id"]) > 111 and int(shown[row["id"]]) % 7 == int(row["y"]) for row in held) and len(held) == 8


def test_rows_whose_id_the_test_set_has_stay(tmp_path: Path) -> None:
    task = plain(
        tmp_path,
        [*numbered(0, 20), *numbered(500, 1, y="")],
        [{**row, "id": f"{row['id']}.0"} for row in numbered(5, 10)],
    )
    view = validation_view(task, tmp_path)
    held = {int(row["id"]) for row in table(view.folder / view.task["answers"])}
    assert len(held) == 5 and not held & {*range(5, 15), 500}


def test_the_rows_of_one_id_stay_together(tmp_path: Path) -> None:
    train = [{"id": str(at // 3), "x": str(at), "y": str(at % 7)} for at in range(60)]
    test = [{"id": str(100 + at // 3), "x": str(at), "y": "1"} for at in range(12)]
    view = validation_view(plain(tmp_path, train, test, repeated_ids=True), tmp_path)
    held = table(view.folder / view.task["answers"])
    assert set(Counter(row["id"] for row in held).values()) == {3} and view.rows == 4 and len(held) == 12
    assert grade(view.task, view.folder, perfect(view)).score == 0
    order = [row["x"] for row in table(view.public / "test.csv") if row["id"] == held[0]["id"]]
    assert order == sorted(order, key=int)  # the n-th row of an id answers the n-th
    (other := tmp_path / "other").mkdir()
    reason = "train.csv has several rows with one id, where the answers have one"
    refused(plain(other, train, numbered(100, 9)), other, reason)


def refused(task: dict[str, Any], data: Path, reason: str) -> None:
    with pytest.raises(RecordError) as error:
        validation_view(task, data)
    assert str(error.value) == f"task {task['id']}: no validation rows can be held out: {reason}: {ADVICE}"
    assert not (data / "views").exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"train": [{"id": "1", "x": "1", "z": "2"}] * 9}, "train.csv has no column 'y', and its other columns are not read as that (z)"),
        ({"train": numbered(0, 1)}, "train.csv has 1 rows or groups to choose from, too few to hold some out"),
        ({"train": numbered(100, 9)}, "every id of train.csv is one of the test set too, or has no target"),
        ({"train": numbered(0, 20, y="red")}, "column 'y' of train.csv holds other cells than numbers, and which of them is 1 is not known"),
        ({"test": numbered(100, 9, w="1")}, "test.csv has column 'w', which train.csv has not"),
        ({"train": [{"x": "1", "y": "2"}] * 9, "test": [{"id": f"p{at}", "x": "1", "y": "1"} for at in range(9)]},
         "train.csv has no column 'id', the id of the submission"),
        ({"more": {"more/labels.csv": b"id,y\n1,2\n"}}, "public/more/labels.csv has the column 'y' too: it may hold the validation rows' labels"),
        ({"more": {"train.parquet": b"1"}}, "public/train.parquet may hold the validation rows' labels"),
        ({"more": {"old_train.XLS": b"1"}}, "public/old_train.XLS may hold the validation rows' labels"),
        ({"more": {"train.sql": b"1"}}, "public/train.sql may hold the validation rows' labels"),
        ({"more": {"train.csv.bz2": b"1"}}, "public/train.csv.bz2 may hold the validation rows' labels"),
        ({"more": {"all.7z": b"1"}}, "public/all.7z may hold the validation rows' labels"),
        ({"more": {"all.zip": b"1"}}, "public/all.zip may hold the validation rows' labels"),
        ({"more": {"train/1.png": b"1", "test/2.png": b"1"}}, "the files of training rows lie in a folder of their own (train/): no row can move"),
        ({"more": {"train.csv": b"\xff\n1\n"}}, "train.csv: not UTF-8 text: line 1, byte 1"),
        ({"more": {"sample_submission.csv": b"id,y\xff"}}, "sample_submission.csv: not UTF-8 text: line 1, byte 5"),
        ({"more": {"train.csv": b"id,x,y\n1,2\n"}}, "train.csv: line 2 has 2 cells, the first line has 3"),
        ({"more": {"train.csv": b"id,x,y\n"}}, "train.csv: there are no rows"),
        ({"more": {"test.csv": b"id,x,y\n1,2,3\n"}}, "test.csv has the column 'y' too, which would tell the labels of the validation rows"),
        ({"grading": {"metric": {"name": "rmse", "params": {}, "lower_is_better": True, "weight": "w"}}, "asked": ["w"], "hidden": ["w"],
          "test": numbered(100, 9, w="1")}, "the metric needs column 'w' of the answers, which train.csv has not"),
    ],
)  # fmt: skip
def test_tasks_without_a_validation_view_are_refused(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    given = {"train": numbered(0, 20), "test": numbered(100, 9), **changed}
    refused(plain(tmp_path, given.pop("train"), given.pop("test"), **given), tmp_path, reason)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    task = plain(tmp_path, numbered(0, 20), numbered(100, 9))
    with pytest.raises(
        RecordError,
        match=r"train.csv: No such file.*; is --data \(or MLE_DATA, for every command\) the folder that the task was written to\?",
    ):
        validation_view(task, tmp_path / "elsewhere")
    with pytest.raises(RecordError, match="must lie between 0 and 1, not 1"):
        validation_view(task, tmp_path, 1)
    task["data"]["public"].remove("train.csv")
    refused(task, tmp_path, "there is no public/train.csv, and no other public table with the ids of the submission")


def test_columns_that_the_metric_reads_come_along(tmp_path: Path) -> None:
    metric = {
        "name": "rmse",
        "params": {},
        "lower_is_better": True,
        "weight": "w",
        "where": [{"column": "use", "equals": "yes"}],
    }
    train, test = (
        [{**row, "w": "2", "use": "yes" if at % 2 else "no"} for at, row in enumerate(numbered(first, 30))]
        for first in (0, 100)
    )
    task = plain(tmp_path, train, test, grading={"metric": metric}, asked=["w", "use"], hidden=["w", "use"])
    view = validation_view(task, tmp_path)
    assert list(table(view.folder / view.task["answers"])[0]) == ["id", "y", "w", "use"]
    assert grade(view.task, view.folder, perfect(view)).score == 0
    assert "use" not in table(view.public / "test.csv")[0]


# --- the split ------------------------------------------------------------------------------------------------------------


def test_how_strata_share_what_is_held_out() -> None:
    assert shared_out({"a": 50, "b": 30, "c": 20}, 20) == {"a": 10, "b": 6, "c": 4}
    assert shared_out({"a": 97, "b": 2, "c": 1}, 20) == {"a": 19, "b": 1, "c": 0}
    assert shared_out({"a": 3, "b": 3, "c": 3}, 2) == {"a": 1, "b": 1, "c": 0}
    assert shared_out({"a": 5, "b": 5}, 5) == {"a": 3, "b": 2}


def test_rare_values_lie_on_both_sides() -> None:
    units = {(str(at),): [at] for at in range(100)}
    seen = {
        key: frozenset({("tag", str(int(at in (3, 60)))), ("one", str(int(at == 5)))}) for at, key in enumerate(units)
    }
    for seed in "abcde":
        held = held_out(units, {}, seen, seed, 0.2)
        assert len(held) == 20 and ((("3",) in held) != (("60",) in held))
    assert held_out(units, {}, seen, "a", 0.2) == held_out(units, {}, seen, "a", 0.2) != held


def test_canonical_ids() -> None:
    cells = ("007", "7.0", " 7 ", "1_0", "x", "12.50", "00012345678901234567")
    assert [canonical(cell) for cell in cells] == [
        "7",
        "7",
        "7",
        "1_0",
        "x",
        "12.5",
        "12345678901234567",
    ]


# --- programs on a view ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", mostly_slow(["loan_office_tabular", "concrete_image", "veterinary_farm_timeseries"], 1)
)
def test_a_program_predicts_both_parts(tmp_path: Path, name: str) -> None:
    task = example(name, tmp_path)
    view = validation_view(task, tmp_path)
    code = solution(task, "forest")
    with open_sandbox("local", Setup(slots=1)) as sandbox:
        outcome = sandbox.run(code or "", view.public, Limits(wall_s=60), 0)
    assert outcome.status == "ok" and outcome.submission, outcome.stderr
    test = grade(task, tmp_path / task["data"]["dir"], view.test_part(outcome.submission))
    validation = grade(view.task, view.folder, view.validation_part(outcome.submission))
    assert test.valid and validation.valid, (test.reason, validation.reason)
    assert validation.thresholds == task["thresholds"] and validation.teams is None
