"""What the story of a generated table is worth: a solver with an expert's knowledge of it, against one without.

    python benchmarks/story.py [-n 100] [--seed 0]

Fresh tables with a class or a number as target. Each solver trains the same two models (linear, extra trees; the mean of
their predictions) on train.csv and is scored by the task's metric on the hidden test set. They differ in features:

    blind    every column, as a quick pipeline encodes them
    story    the columns that the scenario names as causes of this target, turned into their direction, with the mean
             of all as one more feature; neither which of them act in this task nor how strongly is known
    wrong    the same from the causes of another target of the scenario, in random directions: what choosing few columns
             and a mean feature do by themselves

The knowledge is read from the scenario's file, in place of a person or a model that reads names and meanings in the
description; the drawn rule is not looked at. Scores are (score - dummy) / (ceiling - dummy), differences are paired by task.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tabulate import tabulate

from mletools.base.csv_files import read_columns
from mletools.grading import score_bytes
from mletools.tasks.draft import TaskDraft, draft_world
from mletools.tasks.procedural.dna import MUTATIONS, SAMPLES
from mletools.tasks.procedural.draw import begin, draw_world, scenarios
from mletools.tasks.procedural.media.columns import encode_cells
from mletools.tasks.procedural.rule import Cause
from mletools.tasks.table import Column, Rejected, generator

TARGETS = {"regression": "quantity", "binary_classification": "binary", "multiclass_classification": "classes"}
ARMS = ("blind", "story", "wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=100, help="number of tasks")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    shares: list[list[float]] = []
    seed = args.seed * 100_000
    while len(shares) < args.n:
        seed += 1
        problem = begin("tabular", generator(seed), SAMPLES, MUTATIONS)[1]["problem"]
        if problem in TARGETS and (row := shares_of(seed, problem)) is not None:
            shares.append(row)
    report(np.array(shares))


def shares_of(seed: int, problem: str) -> list[float] | None:
    """The share of the way from dummy to ceiling of each arm, None for a draft that is rejected or has no way."""
    rng = generator(seed)
    try:
        world = draw_world("tabular", rng)
        draft = draft_world(world, rng)
    except Rejected:
        return None
    scenario: Any = next(each for each in scenarios() if each["key"] == world.origin["scenario"])
    target = TARGETS[problem]
    others = [name for name in TARGETS.values() if name != target]
    other = scenario[others[rng.randint(len(others))]]["causes"]
    table = columns_of(draft)
    views = {
        "blind": encode_cells(*table),
        "story": story_features(*table, scenario[target]["causes"], None),
        "wrong": story_features(*table, other, rng),
    }
    try:
        scores = [
            score_bytes(draft.grading, draft.answers, content)
            for content in (
                draft.public["sample_submission.csv"],
                draft.hand_in(draft.known),
                *(draft.hand_in(predict(draft, views[arm])) for arm in ARMS),
            )
        ]
    except ValueError:
        return None
    dummy, ceiling, *reached = scores
    way = ceiling - dummy
    if (-way if draft.metric["lower_is_better"] else way) < 1e-3:
        return None
    # A ruinous log loss must not outweigh the other tasks.
    return [max(-1.0, (each - dummy) / way) for each in reached]


def columns_of(draft: TaskDraft) -> tuple[list[Column], dict[str, list[str]]]:
    """Columns and cells of train.csv, then test.csv, and of the last revision in further files."""
    train, test = (read_columns(draft.public[name]) for name in ("train.csv", "test.csv"))
    ids = [*train["id"], *test["id"]]
    columns = list(draft.features)
    cells = {column.name: [*train[column.name], *test[column.name]] for column in columns}
    assert draft.dataset is not None
    for side in draft.dataset.sides:
        lines = read_columns(draft.public[side.name])
        last = {
            lines["id"][at]: at for at in sorted(range(len(lines["id"])), key=lambda at: int(lines["revision"][at]))
        }
        columns += side.columns
        cells.update({column.name: [lines[column.name][last[each]] for each in ids] for column in side.columns})
    return columns, cells


def story_features(columns: Sequence[Column], cells: Mapping[str, list[str]], lines: Sequence[str], flip: Any) -> Any:
    """One feature a cause that rises with its effect, and their mean; with `flip` (random numbers) in random directions."""
    by_name = {column.name: column for column in columns}
    features = []
    for cause in map(Cause.parse, lines):
        if cause.factor not in by_name or (cause.category and cause.category not in by_name):
            continue
        value = oriented(cause, by_name, cells)
        value = (value - value.mean()) / (value.std() or 1.0)
        features.append(value * (1 if flip is None or flip.randint(2) else -1))
    if not features:
        return encode_cells(columns, cells)
    return np.column_stack([*features, np.mean(features, axis=0)])


def oriented(cause: Cause, columns: Mapping[str, Column], cells: Mapping[str, list[str]]) -> Any:
    if cause.sign == "<":
        # An unnamed level lies in the middle.
        middle = (len(cause.levels) - 1) / 2
        levels = {level: float(at) for at, level in enumerate(cause.levels)}
        return np.array([levels.get(cell.strip().lower(), middle) for cell in cells[cause.factor]])
    value = encode_cells([columns[cause.factor]], cells)[:, 0]
    if cause.sign in "^v":
        distance = (value - np.median(value)) ** 2
        return distance if cause.sign == "v" else -distance
    value = value if cause.sign == "+" else -value
    if cause.category:
        value = (value - value.mean()) * np.array(
            [cell.strip().lower() in cause.levels for cell in cells[cause.category]]
        )
    return value


def predict(draft: TaskDraft, view: Any) -> Any:
    """Predictions for the test rows: the mean of a linear model and extra trees."""
    y, train, test = draft.y[:, 0], view[: len(draft.y)], view[len(draft.y) :]
    if draft.problem == "regression":
        models = [make_pipeline(StandardScaler(), Ridge()), ExtraTreesRegressor(60, min_samples_leaf=2, random_state=0)]
        return np.mean([model.fit(train, y).predict(test) for model in models], axis=0)[:, None]
    models = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0),
    ]
    return np.mean([model.fit(train, y.astype(int)).predict_proba(test) for model in models], axis=0)


def report(shares: Any) -> None:
    """Means of the arms, and paired differences with bootstrap intervals over tasks."""
    rng = np.random.RandomState(0)
    print(tabulate([[arm, shares[:, at].mean()] for at, arm in enumerate(ARMS)], ["solver", "share"], floatfmt=".3f"))
    rows = []
    for one, other in (("story", "blind"), ("wrong", "blind"), ("story", "wrong")):
        gain = shares[:, ARMS.index(one)] - shares[:, ARMS.index(other)]
        means = [gain[rng.randint(len(gain), size=len(gain))].mean() for _ in range(5000)]
        low, high = np.quantile(means, [0.025, 0.975])
        rows.append([f"{one} - {other}", gain.mean(), low, high, (gain > 0).mean(), (gain < 0).mean()])
    print()
    print(tabulate(rows, ["difference", "mean", "low", "high", "better", "worse"], floatfmt=".3f"))
    print(f"\n{len(shares)} tasks, 95 % intervals by bootstrap over tasks")


if __name__ == "__main__":
    main()
