"""Make three small competitions in the layout that MLE-bench prepares, for the rehearsal of the experiments.

    python examples/competitions.py FOLDER

FOLDER/data/NAME/prepared/{public,private} is what `mlebench prepare` leaves, FOLDER/mlebench/competitions/NAME what a
checkout has beside it (description.md, leaderboard.csv, config.yaml), and FOLDER/dojo/NAME the table in the
layout of MLE-Dojo. Names, columns and file names are those of the real competitions, so the graders that ship with
mletools apply; the data are made up, the same in every run. No network. The folder appears when it is complete.

    tabular-playground-series-may-2022             a table, low complexity
    dogs-vs-cats-redux-kernels-edition             pictures in folders and no train.csv, low
    learning-agency-lab-automated-essay-scoring-2  text, medium: what the experiments train on
"""

import io
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

TABLE = "tabular-playground-series-may-2022"
PICTURES = "dogs-vs-cats-redux-kernels-edition"
TEXT = "learning-agency-lab-automated-essay-scoring-2"
TEAMS = 120

Files = dict[str, bytes]


def csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, lineterminator="\n").encode()


def table() -> tuple[Files, Files]:
    """(public, private) files: two classes by three of eight numbers and a category."""
    draws = np.random.RandomState(22)
    rows = 500
    data = pd.DataFrame({f"f_{at:02}": draws.normal(size=rows).round(4) for at in range(8)})
    data.insert(0, "id", range(rows))
    data["f_27"] = draws.choice(list("ABCD"), rows)
    logit = data["f_00"] - 1.5 * data["f_03"] * (data["f_05"] > 0) + (data["f_27"] == "A")
    data["target"] = (logit + draws.logistic(scale=0.5, size=rows) > 0).astype(int)
    train, test = data[:400], data[400:]
    sample = test[["id"]].assign(target=0.5)
    public = {
        "train.csv": csv(train),
        "test.csv": csv(test.drop(columns="target")),
        "sample_submission.csv": csv(sample),
    }
    return public, {"test.csv": csv(test[["id", "target"]])}


def pictures() -> tuple[Files, Files]:
    """Photographs by their file names alone: cats have warm colours, dogs an edge in the middle."""
    draws = np.random.RandomState(7)

    def picture(dog: bool) -> bytes:
        pixels = draws.randint(60, 190, (32, 32, 3))
        pixels[:, :, 0] += 0 if dog else draws.randint(5, 50)
        pixels[:, 16:, 2] += draws.randint(5, 50) if dog else 0
        file = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG", quality=85)
        return file.getvalue()

    public = {f"train/{kind}.{at}.jpg": picture(kind == "dog") for at in range(60) for kind in ("cat", "dog")}
    labels = draws.randint(0, 2, 40)
    public |= {f"test/{at + 1}.jpg": picture(bool(label)) for at, label in enumerate(labels)}
    ids = np.arange(1, len(labels) + 1)
    public["sample_submission.csv"] = csv(pd.DataFrame({"id": ids, "label": 0.5}))
    return public, {"answers.csv": csv(pd.DataFrame({"id": ids, "label": labels}))}


GOOD = "therefore evidence although argument consider whereas contrast conclude significant furthermore"
PLAIN = "the a people school think good many car day they like because some make time we go and it is"


def text() -> tuple[Files, Files]:
    """Essays with grades of 1 to 6: longer ones with rarer words have higher grades."""
    draws = np.random.RandomState(2)
    rows = []
    for at in range(360):
        grade = at % 6 + 1
        count = int(12 + 6 * grade + draws.randint(0, 15))
        words = [draws.choice((GOOD if draws.rand() < 0.05 * grade else PLAIN).split()) for _ in range(count)]
        rows.append((f"{at * 2654435761 % 16**7:07x}", " ".join(words).capitalize() + ".", grade))
    data = pd.DataFrame(rows, columns=["essay_id", "full_text", "score"])
    data = data.iloc[draws.permutation(len(data))]
    train, test = data[:280], data[280:]
    sample = test[["essay_id"]].assign(score=3)
    public = {
        "train.csv": csv(train),
        "test.csv": csv(test.drop(columns="score")),
        "sample_submission.csv": csv(sample),
    }
    return public, {"answers.csv": csv(test[["essay_id", "score"]])}


# the maker, the leaderboard's best and worst score, what is asked for
COMPETITIONS = {
    TABLE: (table, (0.95, 0.5), "Predict the probability of `target` for each row of test.csv; area under the curve."),
    PICTURES: (
        pictures,
        (0.05, 1.2),
        "Tell dogs (1) from cats (0) in test/; the files in train/ are named after what they show. Submit the "
        "probability of a dog as `label`; log loss.",
    ),
    TEXT: (text, (0.9, 0.1), "Grade each essay of test.csv from 1 to 6; quadratic weighted kappa."),
}


def board(best: float, worst: float, seed: int) -> bytes:
    """A leaderboard of TEAMS, the best first."""
    shares = np.sort(np.random.RandomState(seed).beta(1.2, 3, TEAMS))
    shares[0], shares[-1] = 0, 1
    return csv(pd.DataFrame({"teamName": range(TEAMS), "score": (best + shares * (worst - best)).round(5)}))


def make(folder: Path) -> None:
    for seed, (name, (maker, scores, asked)) in enumerate(COMPETITIONS.items()):
        public, private = maker()
        description = f"# {name}\n\n{asked}\n\nsample_submission.csv shows the form of a submission.\n".encode()
        leaders = board(*scores, seed)
        write(folder / "data" / name / "prepared" / "public", {**public, "description.md": description})
        write(folder / "data" / name / "prepared" / "private", private)
        config = f"id: {name}\nname: {name}\ncompetition_type: simple\n".encode()
        beside = {"description.md": description, "leaderboard.csv": leaders, "config.yaml": config}
        write(folder / "mlebench" / "competitions" / name, beside)
        if name == TABLE:
            dojo = folder / "dojo" / name / "data"
            write(dojo / "public", {**public, "description.txt": description})
            boards = {f"{which}_leaderboard.csv": board(*scores, seed + at) for at, which in enumerate(BOARDS)}
            write(dojo / "private", {"test_answer.csv": private["test.csv"], **boards})


BOARDS = ("private", "public")


def write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    if folder.exists():
        return
    unfinished = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    make(unfinished)
    os.replace(unfinished, folder)


if __name__ == "__main__":
    main()
