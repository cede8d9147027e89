"""The check of a description against the files: every kind of contradiction is found, true descriptions pass."""

import json

import pytest
from conftest import ROOT, mostly_slow
from planted import Small, clean

from mletools.tasks.describe import describe
from mletools.tasks.draft import draft_world
from mletools.tasks.procedural.dna import MODALITIES
from mletools.tasks.procedural.draw import draw_world
from mletools.tasks.soundness import Case, examine, read_case
from mletools.tasks.table import Rejected, generator

CHECK = "description_true"
# What a description may say of a small clean task, true and false: 24 rows to learn from, 12 to predict.
SAYS: list[tuple[str, str, str, str]] = [
    ("tabular", "- `train.csv`: {train} rows", "- `train.csv`: 999 rows", "999 rows in train.csv"),
    ("tabular", "There are {train} trees to learn from and {test} to predict.",
     "There are {train} trees to learn from and 7 to predict.", "7 rows to predict"),
    ("tabular", "| file | column | values |\n|---|---|---|\n| train, test | `height_cm` | |",
     "| file | column | values |\n|---|---|---|\n| train, test | `girth_cm` | |", "column 'girth_cm' of train"),
    ("tabular", "| file | column | values |\n|---|---|---|\n| train, test | `height_cm` | {span} cm |",
     "| file | column | values |\n|---|---|---|\n| train, test | `height_cm` | -999 to 5 cm |", "height_cm goes from -999"),
    ("tabular", "| file | column | values |\n|---|---|---|\n| train, test | `soil` | {soils} |",
     "| file | column | values |\n|---|---|---|\n| train, test | `soil` | gravel, water |", "of soil"),
    ("tabular", "| file | column | values |\n|---|---|---|\n| train, test | `height_cm` | {span} cm |",
     "| file | column | values |\n|---|---|---|\n| train, test | `height_cm` | {span} cm; 25.0 % missing |", "25.0 % of height_cm"),
    ("tabular", "The value is one of `ash`, `elm`.", "The value is one of `ash`, `oak`.", "names"),
    ("tabular", "with the columns `{id}` and `{target}`.", "with the columns `{id}` and `kind_of_tree`.", "'kind_of_tree'"),
    ("image", "The pictures are PNG files of {wide} x {high} pixels, grey.",
     "The pictures are PNG files of 640 x 480 pixels.", "640 x 480"),
    ("image", "Each picture is a grey scan.", "Each picture is in colour (RGB).", "in colour which are grey"),
    ("image", "- `images/`: one file `ID.png` for each row", "- `images/`: one file `ID.jpg` for each row", "end in .jpg"),
    ("image", "- `images/`: {files} pictures", "- `images/`: 5 pictures", "5 files in images/"),
    ("image", "- `images/`: pictures", "- `photos/`: pictures", "photos/, which is not there"),
    ("audio", "Each recording is a WAV file of {seconds} s: {rate} samples a second, one channel.",
     "Each recording is a WAV file of 30 s.", "30 s of sound"),
    ("audio", "Each recording is a WAV file.", "Each recording is a few seconds of sound.", "a few seconds"),
    ("audio", "Each recording is a WAV file.", "Each recording is a WAV file at 44100 samples a second.", "44100"),
    ("audio", "Each recording is a WAV file.", "Each recording is a WAV file, stereo.", "stereo"),
]  # fmt: skip


def facts(small: Small) -> dict[str, object]:
    """What is true of a small task."""
    import io
    import wave

    from PIL import Image

    train, test = small.table("public/train.csv"), small.table("public/test.csv")
    known: dict[str, object] = {"train": len(train["id"]), "test": len(test["id"]), "id": "id"}
    known["files"] = len(train["id"]) + len(test["id"])
    known["target"] = small.task["submission"]["target"][0]
    if "height_cm" in train:
        heights = [float(cell) for cell in (*train["height_cm"], *test["height_cm"])]
        known["span"] = f"{min(heights)} to {max(heights)}"
        known["soils"] = ", ".join(sorted({*train["soil"], *test["soil"]}))
    for name, content in small.files.items():
        if name.endswith(".png"):
            known["wide"], known["high"] = Image.open(io.BytesIO(content)).size
        if name.endswith(".wav"):
            with wave.open(io.BytesIO(content)) as file:
                known["rate"], known["seconds"] = file.getframerate(), file.getnframes() / file.getframerate()
    return known


@pytest.mark.parametrize(("modality", "true", "false", "reason"), SAYS, ids=[each[3] for each in SAYS])
def test_contradictions_are_found(modality: str, true: str, false: str, reason: str) -> None:
    small = clean(modality, "binary")
    known = facts(small)

    def outcome(text: str) -> str:
        task = {**small.task, "description": text.format(**known)}
        return examine(Case(task, small.files, lambda _: 0.0), [CHECK])[CHECK]

    assert outcome(true) == "passed"
    assert outcome(false).startswith("failed: ") and reason in outcome(false)


def test_gaps_that_are_denied() -> None:
    small = clean("tabular", "binary")
    train = small.table("public/train.csv")
    train["height_cm"][0] = ""
    text = "There are no missing values."
    for each, passes in ((small, True), (small.having({"public/train.csv": train}), False)):
        case = Case({**each.task, "description": text}, each.files, lambda _: 0.0)
        assert (examine(case, [CHECK])[CHECK] == "passed") == passes


@pytest.mark.parametrize("modality", mostly_slow(MODALITIES))
def test_fresh_descriptions_are_true(modality: str) -> None:
    made = 0
    for seed in range(8):
        rng = generator(900 + seed)
        try:
            world = draw_world(modality, rng, (50, 60))
            draft = draft_world(world, rng)
        except Rejected:
            continue
        text = describe(draft)
        task = {"description": text, "provenance": {}, "answers": "private/answers.csv", **draft.grading}
        files = {
            **{f"public/{name}": content for name, content in draft.public.items()},
            task["answers"]: draft.answers,
        }
        assert examine(Case(task, files, lambda _: 0.0), [CHECK])[CHECK] == "passed"
        made += 1
        if made == 2:
            return
    assert made


EXAMPLES = [json.loads(line) for line in (ROOT / "examples/tasks/tasks.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("task", EXAMPLES, ids=lambda task: task["name"])
def test_examples_are_true(task: dict[str, object]) -> None:
    assert examine(read_case(task, ROOT / "examples", lambda _: 0.0), [CHECK])[CHECK] == "passed"
