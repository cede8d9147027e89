"""Folders for mle-import, of each format, and what jobs of other commands need: `python inputs.py FOLDER` writes them.

It imports nothing of the package: the inputs stay the same when that changes.
"""

import json
import sys
from pathlib import Path
from typing import Any

FUNCTION = """
def grade(submission, answers):
    both = submission.merge(answers, on="PassengerId", suffixes=("", "_true"))
    return float((both["Transported"].astype(str) == both["Transported_true"].astype(str)).mean())
"""
EVALUATOR = """
import argparse, csv, json
parser = argparse.ArgumentParser()
parser.add_argument("--submission_path", default="sample_submission.csv")
rows = list(csv.DictReader(open(parser.parse_args().submission_path)))
true = {row["id"]: float(row["y"]) for row in csv.DictReader(open("answer.csv"))}
print(json.dumps({"score": sum(abs(float(row["y"]) - true[row["id"]]) for row in rows) / len(rows)}))
"""
LEADERS = [0.82, 0.81, 0.8, 0.8, 0.79, 0.7, 0.5]


def main() -> None:
    root = Path(sys.argv[1])
    prepared(root / "bench" / "spaceship-titanic", "prepared", "test.csv")
    write(
        root / "bench/spaceship-titanic", {"description.md": "# Ships\n\nWho was moved?\n", "leaderboard.csv": board()}
    )
    prepared(root / "dojo" / "spaceship-titanic", "data", "test_answer.csv")
    boards = {f"{which}_leaderboard.csv": board() for which in ("private", "public")}
    write(root / "dojo/spaceship-titanic/data/private", boards)
    write(root / "dojo/spaceship-titanic/data/public", {"description.txt": "# Ships\n\nWho was moved?\n"})
    sandmle(root / "sandmle" / "pump-1")
    kaggle(root / "houses")
    ferry(root / "ferry")
    tables(root)
    code_metric(root / "graded")
    write(root, {"knowledge/trees.md": "# Trees\n\nA forest of trees needs no scaling of the columns.\n"})


def number(at: int, step: int, size: int) -> int:
    """A fixed sequence that looks drawn."""
    return (at * step + at * at * 7) % size


def prepared(folder: Path, part: str, answers: str) -> None:
    """A competition as MLE-bench or MLE-Dojo leave it."""
    truth = [(f"p{at}", number(at, 5, 3) == 0, 20 + at) for at in range(24)]
    learnt = [[f"t{at}", 18 + at, number(at, 5, 3) == 0] for at in range(40)]
    write(
        folder / part,
        {
            "public/train.csv": text(["PassengerId", "Age", "Transported"], learnt),
            "public/test.csv": text(["PassengerId", "Age"], [[name, age] for name, _, age in truth]),
            "public/sample_submission.csv": text(
                ["PassengerId", "Transported"], [[name, False] for name, _, _ in truth]
            ),
            f"private/{answers}": text(["PassengerId", "Transported", "Age"], truth),
        },
    )


def sandmle(folder: Path) -> None:
    """A bundle: answers and evaluator among the public files. Lower is better."""
    levels = {f"{word}_threshold": 4 - at for at, word in enumerate(("median", "bronze", "silver", "gold"))}
    files = {
        "train.csv": text(["id", "a", "y"], [[at, at, 2 * at] for at in range(30)]),
        "test.csv": text(["id", "a"], [[at, at] for at in range(30, 40)]),
        "sample_submission.csv": text(["id", "y"], [[at, 0] for at in range(30, 40)]),
        "answer.csv": text(["id", "y"], [[at, 2 * at] for at in range(30, 40)]),
        "description.md": "# Pump\n",
        "evaluator.py": EVALUATOR,
        "generator.py": "y = 2 * a\n",
        "threshold.json": json.dumps({**levels, "is_lower_better": True}),
    }
    write(folder / "prepared" / "public", files)


def kaggle(folder: Path) -> None:
    """A plain folder; `solution.csv` holds the answers to its test.csv."""
    rows = []
    for at in range(120):
        size, age, kind = number(at, 37, 90), number(at, 53, 40), "xyz"[at * 7 % 3]
        rows.append([1000 + at, size, age, kind, 3 * size - 2 * age + 10 * (kind == "x") + number(at, 11, 9)])
    names = ["Id", "size", "age", "kind", "price"]
    files = {
        "train.csv": text(names, rows[:90]),
        "test.csv": text(names[:-1], [row[:-1] for row in rows[90:]]),
        "sample_submission.csv": text(["Id", "price"], [[row[0], 0] for row in rows[90:]]),
        "notes/data.txt": "007,1.0\n",
    }
    write(folder, files)
    write(folder.parent, {"solution.csv": text(["Id", "price"], [[row[0], row[-1]] for row in rows[90:]])})


def ferry(folder: Path) -> None:
    """A task made by hand, in the layout of ours, and its record."""
    rows = [[at, at * 37 % 40, at * 53 % 30 / 10] for at in range(1, 121)]
    late = [int(row[1] + row[2] * 10 + at * 71 % 17 > 42) for at, row in enumerate(rows, 1)]
    full = [[*row, end] for row, end in zip(rows, late, strict=True)]
    write(
        folder / "tasks" / "ferry",
        {
            "public/description.md": "# Late ferries\n\nPredict the probability that a ferry is late.\n",
            "public/train.csv": text(["id", "wind", "waves", "late"], full[:90]),
            "public/test.csv": text(["id", "wind", "waves"], rows[90:]),
            "public/sample_submission.csv": text(["id", "late"], [[row[0], 0.5] for row in rows[90:]]),
            "private/answers.csv": text(["id", "late"], [[row[0], row[-1]] for row in full[90:]]),
        },
    )
    record = {
        "name": "ferry",
        "problem": "binary_classification",
        "data": {"dir": "tasks/ferry"},
        "metric": {"name": "auroc"},
        "submission": {"id": ["id"], "target": ["late"], "parse": "number", "range": [0, 1]},
        "thresholds": {"median": 0.6, "bronze": 0.7, "silver": 0.8, "gold": 0.9},
        "provenance": {"license": "CC0"},
    }
    write(folder, {"ferry.json": json.dumps(record) + "\n"})
    own = {
        "metric": {"name": "mae"},
        "submission": {"id": ["Id"], "target": ["price"], "parse": "number"},
        "thresholds": {"median": 60, "bronze": 40, "silver": 20, "gold": 10},
    }
    write(folder.parent, {"own.json": json.dumps(own) + "\n"})


def tables(folder: Path) -> None:
    """A table with targets of each kind: CSV, TSV, and as the train.csv of a folder."""
    rows = []
    for at in range(150):
        length, width, sort = 10 + number(at, 37, 60), 5 + number(at, 53, 30), at * 11 % 4
        kind = ("bream", "perch", "pike")[(length + 2 * width + sort > 60) + (length > 50)]
        rows.append([length, width, ("east", "west", "", "north")[sort], length * width + number(at, 11, 50), kind])
    names = ["length", "width", "lake", "weight", "species"]
    content = text(names, rows)
    write(folder, {"fish.csv": content, "fishes/train.csv": content, "lakes.tsv": content.replace(",", "\t")})


def code_metric(folder: Path) -> None:
    """A competition whose grader is code, in a checkout of its benchmark."""
    prepared(folder / "data" / "my-ships", "prepared", "test.csv")
    write(folder / "data" / "my-ships", {"description.md": "# Ships\n\nWho was moved?\n"})
    code = folder / "repo" / "mlebench" / "competitions" / "my-ships"
    write(code, {"grade.py": FUNCTION, "description.md": "# Ships\n\nWho was moved?\n", "leaderboard.csv": board()})


def board() -> str:
    return text(["team", "score", "medal"], [[f"team {at}", score, ""] for at, score in enumerate(LEADERS)])


def text(header: list[str], rows: Any) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
