"""Prepared competitions in folders, to import."""

from pathlib import Path
from typing import Any

LEADERS = [0.82, 0.81, 0.8, 0.8, 0.79, 0.7, 0.5]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def table(header: list[str], rows: Any) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def leaderboard(scores: list[Any], *, column: str = "score") -> str:
    return table(["team", column, "medal"], [[f"team {at}", score, ""] for at, score in enumerate(scores)])


def bench(root: Path, name: str = "spaceship-titanic", scores: list[Any] = LEADERS) -> Path:
    """A prepared competition of MLE-bench with all of it in its own folder."""
    public = {
        "train.csv": table(["PassengerId", "Age", "Transported"], [[f"t{at}", at, at % 2 == 0] for at in range(20)]),
        "test.csv": table(["PassengerId", "Age"], [[f"p{at}", at] for at in range(9)]),
        "sample_submission.csv": table(["PassengerId", "Transported"], [[f"p{at}", "False"] for at in range(9)]),
    }
    write(root / name / "prepared" / "public", public)
    answers = table(["PassengerId", "Transported", "Age"], [[f"p{at}", at % 3 == 0, at] for at in range(9)])
    write(root / name / "prepared" / "private", {"test.csv": answers})
    return write(root / name, {"description.md": "# Ships\n\nWho was moved?\n", "leaderboard.csv": leaderboard(scores)})
