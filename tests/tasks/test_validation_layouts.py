"""Validation views of tasks whose labels do not lie in train.csv, and what becomes of the files of held-out rows."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from validation_builders import SOURCE, perfect, snapshot, table, text_of

from mletools.grading import grade
from mletools.solutions import VALID
from mletools.tasks.folder import ANSWERS
from mletools.tasks.record import Parts, finish
from mletools.tasks.validation import NoValidation, View, validation_view

BREEDS = ("boxer", "collie", "pug")
TRAINED, TESTED = [f"d{at:02}" for at in range(40)], [f"d{at:02}" for at in range(50, 62)]
PICTURES = {"train": TRAINED, "test": TESTED}


def picture(name: str) -> bytes:
    return f"picture of {name}".encode()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def unzipped(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def breed(name: str) -> str:
    return BREEDS[int(name[1:]) % 3]


def labels(column: str = "breed") -> bytes:
    return text_of([{"id": name, column: breed(name)} for name in TRAINED])


def task_of(data: Path, public: dict[str, bytes], by_class: bool = False) -> dict[str, Any]:
    """A task of breeds: one label a row, or a probability of each."""
    if by_class:
        target, metric = list(BREEDS), {"name": "log_loss", "params": {}, "lower_is_better": True}
        rows = [{"id": name, **{each: str(int(each == breed(name))) for each in BREEDS}} for name in TESTED]
        sample = [{"id": name, **dict.fromkeys(BREEDS, "0.3333")} for name in TESTED]
    else:
        target, metric = ["breed"], {"name": "accuracy", "params": {}, "lower_is_better": False}
        rows = [{"id": name, "breed": breed(name)} for name in TESTED]
        sample = [{"id": name, "breed": "pug"} for name in TESTED]
    spec = {"id": ["id"], "target": target, "parse": "number" if by_class else "label", "rows": len(TESTED)}
    grading = {"submission": spec, "metric": metric, "answers": ANSWERS}
    files = {"sample_submission.csv": text_of(sample), **public}
    kind = "multiclass_classification"
    return finish(Parts("dogs", "d", "image", kind, files, {ANSWERS: text_of(rows)}, grading, SOURCE), data, ())


def held_of(task: dict[str, Any], data: Path) -> tuple[View, set[str]]:
    """The view of a task and its held-out ids, once its answers, its samples and its original are looked at."""
    origin = data / task["data"]["dir"]
    before = snapshot(origin)
    view = validation_view(task, data)
    assert snapshot(origin) == before
    assert validation_view(task, data) == view  # found again, and the same
    held = {row["id"] for row in table(view.folder / view.task["answers"])}
    assert held < set(TRAINED) and 5 <= len(held) <= 10
    sample = (view.public / "sample_submission.csv").read_bytes()
    assert {row["id"] for row in table(sample)} == held | set(TESTED)
    assert grade(view.task, view.folder, perfect(view)).valid
    assert grade(view.task, view.folder, view.validation_part(sample)).valid
    assert grade(task, origin, view.test_part(sample)).valid
    return view, held


@pytest.mark.parametrize("by_class", [False, True], ids=["label", "probabilities"])
def test_labels_csv_and_folders_of_pictures(tmp_path: Path, by_class: bool) -> None:
    """As in dog-breed-identification: no train.csv and no test.csv."""
    pictures = {f"train/{name}.jpg": picture(name) for name in TRAINED}
    pictures |= {f"test/{name}.jpg": picture(name) for name in TESTED}
    masks = {f"train_masks/{name}.png": b"mask of " + picture(name) for name in TRAINED}
    task = task_of(tmp_path, {"labels.csv": labels(), **pictures, **masks}, by_class)
    view, held = held_of(task, tmp_path)
    assert {row["id"] for row in table(view.public / "labels.csv")} == set(TRAINED) - held
    seen = snapshot(view.public)
    for name in held:  # the picture is among those to predict, the mask, which may be an answer, nowhere
        assert seen[f"test/{name}.jpg"] == picture(name) and f"train/{name}.jpg" not in seen
        assert f"train_masks/{name}.png" not in seen
    assert sum(name.startswith("test/") for name in seen) == len(TESTED) + len(held)
    assert sum(name.startswith(("train/", "train_masks/")) for name in seen) == 2 * (len(TRAINED) - len(held))
    assert (view.public / f"test/{min(held)}.jpg").stat().st_nlink > 1  # linked, not copied


@pytest.mark.parametrize("inside", ["", "{}/"], ids=["bare", "in a folder"])
def test_archives_of_pictures(tmp_path: Path, inside: str) -> None:
    """As in aerial-cactus-identification: train.csv names the pictures in train.zip, test.zip has the others."""
    archives = {
        f"{kind}.zip": zipped({f"{inside.format(kind)}{name}.jpg": picture(name) for name in names})
        for kind, names in (("train", TRAINED), ("test", TESTED))
    }
    view, held = held_of(task_of(tmp_path, {"train.csv": labels(), **archives}), tmp_path)
    train, test = (unzipped(view.public / f"{kind}.zip") for kind in ("train", "test"))
    assert set(train) == {f"{inside.format('train')}{name}.jpg" for name in set(TRAINED) - held}
    assert test == {f"{inside.format('test')}{name}.jpg": picture(name) for name in held | set(TESTED)}


def test_features_and_labels_in_two_tables(tmp_path: Path) -> None:
    features = {name: text_of([{"id": each, "x": each[1:]} for each in ids]) for name, ids in
                (("train.csv", TRAINED[::-1]), ("test.csv", TESTED))}  # fmt: skip
    view, held = held_of(task_of(tmp_path, {**features, "train_labels.csv": labels()}), tmp_path)
    for name in ("train.csv", "train_labels.csv"):
        assert {row["id"] for row in table(view.public / name)} == set(TRAINED) - held
    assert {row["id"]: row["x"] for row in table(view.public / "test.csv")} == {
        name: name[1:] for name in held | set(TESTED)
    }


def test_pictures_of_all_rows_in_one_folder_stay(tmp_path: Path) -> None:
    pictures = {f"images/{name}.jpg": picture(name) for name in [*TRAINED, *TESTED]}
    task = task_of(tmp_path, {"data/labels.csv": labels(), **pictures})
    view, held = held_of(task, tmp_path)
    assert {name for name in snapshot(view.public) if name.startswith("images/")} == set(pictures) and held


def refused(task: dict[str, Any], data: Path, reason: str) -> None:
    with pytest.raises(NoValidation) as error:
        validation_view(task, data)
    assert reason in error.value.reason and not (data / "views").exists()


@pytest.mark.parametrize(
    ("public", "reason"),
    [
        ({f"train/{breed(name)}.{name}.jpg": b"1" for name in TRAINED},  # as in dogs-vs-cats
         "there is no public/train.csv, and no other public table with the ids of the submission"),
        ({"labels.csv": labels(), **{f"train/{breed(name)}/{name}.jpg": b"1" for name in TRAINED}, "test/d50.jpg": b"1"},
         "the files of training rows lie in a folder of their own (train/"),
        ({"labels.csv": labels(), "more.csv": labels()},
         "public/more.csv has the column 'breed' too: it may hold the validation rows' labels"),
        ({"labels.csv": labels("kind")},
         "labels.csv has no column 'breed', and its other columns are not read as that (kind)"),
        ({"train.csv": labels(), "train.zip": b"no archive", "test.zip": zipped({})},
         "public/train.zip may hold the validation rows' labels"),
    ],
    ids=["names", "class folders", "twice", "another column", "torn"],
)  # fmt: skip
def test_layouts_without_validation_rows(tmp_path: Path, public: dict[str, bytes], reason: str) -> None:
    refused(task_of(tmp_path, public), tmp_path, reason)


def test_import_says_where_there_is_no_validation(tmp_path: Path) -> None:
    """A prepared dogs-vs-cats: the labels are the names of the files in train.zip."""
    public = tmp_path / "dogs-vs-cats-redux-kernels-edition" / "prepared" / "public"
    private = public.parent / "private"
    for folder in (public, private):
        folder.mkdir(parents=True)
    train = {f"train/{kind}.{at}.jpg": picture(f"{kind} {at}") for at in range(20) for kind in ("cat", "dog")}
    (public / "train.zip").write_bytes(zipped(train))
    (public / "test.zip").write_bytes(zipped({f"test/{at}.jpg": picture(str(at)) for at in range(1, 11)}))
    (public / "sample_submission.csv").write_bytes(text_of([{"id": str(at), "label": "0.5"} for at in range(1, 11)]))
    answers = text_of([{"id": str(at), "label": str(at % 2)} for at in range(1, 11)])
    (private / "answers.csv").write_bytes(answers)
    (private / "test.csv").write_bytes(answers)
    (public.parents[1] / "description.md").write_text("# Dogs and cats\n")
    done = run_command("mle-import", str(public.parent.parent), cwd=tmp_path)
    (task,) = records(done.stdout)
    why = "there is no public/train.csv, and no other public table with the ids of the submission"
    assert f"no validation rows can be held out, so agents in turns will see no scores: {why}" in done.stderr.decode()
    refused(task, tmp_path, why)


def played(scaffold: str, data: Path, *options: str) -> list[dict[str, Any]]:
    """Rollouts of the scripted model on pictures with labels.csv."""
    files = {f"{part}/{name}.jpg": picture(name) for part, names in PICTURES.items() for name in names}
    line = json.dumps(task_of(data, {"labels.csv": labels(), **files})).encode() + b"\n"
    args = ("--scaffold", scaffold, "-m", f"scripted:{','.join(VALID)}", "--data", ".", "--timeout", "20", *options)
    return records(run_command("mle-rollout", *args, input=line, cwd=data).stdout)


@pytest.mark.parametrize("scaffold", mostly_slow(["react", "improve", "codeact", "memory"], quick=1))
def test_the_scripted_model_hands_in_the_sample_submission(scaffold: str, tmp_path: Path) -> None:
    rollouts = played(scaffold, tmp_path, "-g", "2", *(("--max-traces", "1") if scaffold == "memory" else ()))
    assert len(rollouts) == 2
    for rollout in rollouts:
        assert 'model = "sample submission"' in rollout["code"] and rollout["validation"]["valid"]
        assert "input/train.csv" not in json.dumps(rollout["turns"])


@pytest.mark.slow
def test_a_search_rejects_a_sample_submission(tmp_path: Path) -> None:
    (rollout,) = played("search", tmp_path, "--max-turns", "3")
    assert rollout["code"] is None and {turn["problem"] for turn in rollout["turns"]} <= {"inauthentic", "debug"}
