"""The real tables that ship inside scikit-learn. Nothing is fetched.

Not covered: secrecy. Whoever has scikit-learn can look these answers up, and most models know the tables by heart; the
record says so (`provenance.answers_public`). They show that a pipeline works; train on procedural tasks.
"""

import json
from pathlib import Path
from typing import Any

from .table import Column, Table, shortest

NAMES = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")
# The baselines of a task have to finish within seconds.
MOST_ROWS = 500


def real_table(name: str, rng: Any) -> Table:
    """The table `name` (one of NAMES) with at most MOST_ROWS rows, drawn with the RandomState `draws`."""
    about = json.loads((Path(__file__).parent / "real.json").read_text(encoding="utf-8"))[name]
    values, answers = _load(name)
    order = rng.permutation(len(values))[:MOST_ROWS]
    features = _columns(about["features"])
    targets = _columns(about["targets"])
    labels = about.get("labels", [])
    cells = {column.name: [shortest(values[row][at]) for row in order] for at, column in enumerate(features)}
    # A 0/1 column of codes is read as the category that it is.
    for column, codes in about.get("codes", {}).items():
        cells[column] = [codes[cell] for cell in cells[column]]
    for at, column in enumerate(targets):
        picked = [answers[row][at] for row in order]
        cells[column.name] = [labels[int(value)] if labels else shortest(value) for value in picked]
    problem = ("binary_classification" if len(labels) == 2 else "multiclass_classification") if labels else "regression"
    return Table(
        name=name,
        title=about["title"],
        context=about["context"],
        problem=problem,
        features=features,
        targets=targets,
        cells=cells,
        labels=labels,
        positive=about.get("positive", ""),
        origin={"answers_public": True},
    )


def _load(name: str) -> tuple[Any, Any]:
    """Features (rows, columns) and targets (rows, targets) as floats; diabetes in its own units, not scaled."""
    from sklearn import datasets

    options = {"scaled": False} if name == "diabetes" else {}
    values, answers = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
    return values, answers.reshape(len(answers), -1)


def _columns(entries: list[dict[str, Any]]) -> list[Column]:
    """Columns from the data file; an entry with `grid` [rows, columns] stands for that many pixels."""
    columns = []
    for entry in entries:
        rest = {key: value for key, value in entry.items() if key != "grid"}
        if "grid" not in entry:
            columns.append(Column(**rest))
            continue
        high, wide = entry["grid"]
        for row in range(high):
            for column in range(wide):
                columns.append(Column(**{**rest, "name": f"{entry['name']}_r{row}_c{column}"}))
    return columns
