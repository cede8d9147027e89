"""The scripted model's bank: scikit-learn models of graded quality, and the short program that trains one.

Short programs differ only in the imports, the model's line and the prediction, so that a tiny language model can learn
to write them. They compare headers to identify columns, fill gaps with the mean and run within about two seconds on
2000 rows. For a task that no program reads the sample submission is handed in, and the plan says so. Not covered: more
than one plain table (readers), dates (each distinct text becomes a column).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import readers

MODULES = {
    "Dummy": "dummy",
    "DecisionTree": "tree",
    "KNeighbors": "neighbors",
    "Logistic": "linear_model",
    "Ridge": "linear_model",
    "RandomForest": "ensemble",
    "ExtraTrees": "ensemble",
    "GradientBoosting": "ensemble",
    "HistGradientBoosting": "ensemble",
    "Voting": "ensemble",
}  # the module of scikit-learn, by how a model's name begins

PROGRAM = """\
import pandas as pd
{imports}

model = {model}
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
data = pd.concat([train, test])[[c for c in test if c not in sub]]
data = pd.get_dummies(data, dtype=float)
data = ((data - data.mean()) / data.std()).fillna(0)
X, T = data[:len(train)], data[len(train):]
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    sub[{columns}] = model.{predict}
sub.to_csv("submission.csv", index=False)
"""

PLAN = (
    "Categories become columns of zeros and ones. All columns are scaled and gaps are filled with the mean. "
    "The model is {words}. Its predictions go to submission.csv."
)
LONG_PLAN = (
    "{reading} All numbers are scaled and gaps are filled with the mean. "
    "The model is {words}. Its predictions go to submission.csv."
)
SAMPLE_PROGRAM = """\
import pandas as pd

model = "sample submission"
sub = pd.read_csv("input/{file}", dtype=str, keep_default_na=False)
sub.to_csv("submission.csv", index=False)
"""
SAMPLE_PLAN = (
    "No model is trained, for the scripted model {reason}. The sample submission is read as it is, "
    "and goes to submission.csv unchanged."
)
READING = {
    "": "The features are left alone.",
    "rough": "Each sample becomes a few simple numbers.",
    "fine": "Each sample becomes many numbers, made with care.",
}


NOUNS = {
    "dummy": "a dummy",
    "stump": "a stump",
    "shrunk": "a shrunk linear model",
    "tree": "a decision tree",
    "knn": "a vote of nearest neighbours",
    "linear": "a linear model",
    "forest": "a random forest",
    "boosted": "a row of boosted trees",
    "tuned": "a mean of boosted trees and a forest",
}  # a plan's words for the models of a level; the levels are in the order of their expected score
QUALITY = {"dummy": "", "stump": "rough", "shrunk": "rough"}  # of the reader; else fine


@dataclass(frozen=True)
class Choice:
    """One model to train: its level, its source code, and its words in the plan."""

    level: str
    model: str
    words: str


def _grid(level: str, model: str, *values: Any) -> list[Choice]:
    """One choice per value, which replaces the * in `model`."""
    match = re.search(r'(\w+)="?\*', model)
    assert match
    words = f"{NOUNS[level]} with {match.group(1)}="
    return [Choice(level, model.replace("*", str(value)), f"{words}{value}") for value in values]


def _boosted(kind: str) -> str:
    return f"GradientBoosting{kind}(n_estimators=*, max_features=0.5, subsample=0.7, random_state=0)"


_CLASSIFIER_PAIR = (
    '[("a", GradientBoostingClassifier(n_estimators=*, max_features=0.3, subsample=0.6, random_state=0)), '
    '("b", RandomForestClassifier(max_features=0.5, random_state=0))]'
)
_REGRESSOR_PAIR = (
    '[("a", GradientBoostingRegressor(n_estimators=*, max_features=0.5, subsample=0.7, random_state=0)), '
    '("b", ExtraTreesRegressor(random_state=0))]'
)
# Within a level from weak to strong, where known.
CLASSIFIERS = [
    *_grid("dummy", 'DummyClassifier(strategy="*", random_state=0)', "stratified", "uniform", "prior"),
    *_grid("stump", "DecisionTreeClassifier(max_depth=1, max_features=*, random_state=0)", 2, 4, 6),
    *_grid("shrunk", "LogisticRegression(C=*, max_iter=500)", 0.0001, 0.0003, 0.001),
    *_grid("tree", "DecisionTreeClassifier(max_features=0.4, min_samples_leaf=*, random_state=0)", 2, 3, 4),
    *_grid("knn", 'KNeighborsClassifier(n_neighbors=*, weights="distance")', 17, 21, 25),
    *_grid("linear", "LogisticRegression(C=*, max_iter=500)", 0.02, 0.05, 0.1, 0.2),
    *_grid("forest", "RandomForestClassifier(n_estimators=*, random_state=0)", 20, 30, 40),
    *_grid("boosted", _boosted("Classifier"), 60, 80, 100),
    *_grid("tuned", f'VotingClassifier({_CLASSIFIER_PAIR}, voting="soft")', 60, 80, 100),
]
REGRESSORS = [
    *_grid("dummy", 'DummyRegressor(strategy="quantile", quantile=*)', 0.1, 0.9, 0.5),
    *_grid("stump", "DecisionTreeRegressor(max_depth=1, max_features=*, random_state=0)", 2, 4, 6),
    *_grid("shrunk", "Ridge(alpha=*)", 30000, 10000, 5000),
    *_grid("tree", "DecisionTreeRegressor(max_features=0.4, min_samples_leaf=*, random_state=0)", 2, 3, 4),
    *_grid("knn", 'KNeighborsRegressor(n_neighbors=*, weights="distance")', 5, 7, 9),
    *_grid("linear", "Ridge(alpha=*)", 100, 60, 30, 10),
    *_grid("forest", "RandomForestRegressor(n_estimators=*, random_state=0)", 10, 20, 30),
    *_grid("boosted", _boosted("Regressor"), 60, 80, 100),
    *_grid("tuned", f"VotingRegressor({_REGRESSOR_PAIR})", 60, 80, 100),
]


def _simple(kind: str, linear: str, weak: str, middling: str) -> list[Choice]:
    """The levels below forest of programs that read files; `linear` takes a strength of `weak` or `middling`."""
    return [
        *(choice for choice in (CLASSIFIERS if kind == "Classifier" else REGRESSORS) if choice.level == "dummy"),
        *_grid("stump", f"DecisionTree{kind}(max_depth=1, max_features=*, random_state=0)", 2, 3, 4),
        *_grid("shrunk", linear, *weak.split()),
        *_grid("tree", f"DecisionTree{kind}(max_features=0.5, min_samples_leaf=*, random_state=0)", 6, 8, 10),
        *_grid("knn", f"KNeighbors{kind}(n_neighbors=*)", 5, 9, 13),
        *_grid("linear", linear, *middling.split()),
    ]


def _strong(kind: str, boosted: str, extra: str, forest: str, *trees: int) -> list[Choice]:
    """The levels from forest up; `extra` are the settings of the extra trees that are blended with `boosted`."""
    pair = f'[("a", {boosted}), ("b", ExtraTrees{kind}({extra}, min_samples_leaf=2, random_state=0))]'
    voting = ', voting="soft"' if kind == "Classifier" else ""
    return [
        *_grid("forest", f"RandomForest{kind}(n_estimators=*, {forest}, random_state=0)", *trees),
        *_grid("boosted", boosted, 80, 100, 120),
        *_grid("tuned", f"Voting{kind}({pair}{voting})", 80, 100, 120),
    ]


def _of_samples(kind: str) -> list[Choice]:
    """For programs with one row per sample: some hundred rows, up to some hundred columns."""
    boosted = (
        f"GradientBoosting{kind}(n_estimators=*, learning_rate=0.05, max_features=0.15, subsample=0.6, "
        "min_samples_leaf=5, random_state=0)"
    )
    return _strong(kind, boosted, "max_features=0.3", "max_features=0.3, min_samples_leaf=2", 9, 11, 13)


def _of_units(kind: str) -> list[Choice]:
    """For programs with one row per pixel or step: thousands of rows, few columns."""
    boosted = f"HistGradientBoosting{kind}(max_iter=*, learning_rate=0.06, max_leaf_nodes=10, random_state=0)"
    extra = "n_estimators=40, max_features=0.5"
    return _strong(kind, boosted, extra, "max_features=0.4, min_samples_leaf=5", 10, 15, 20)


_LOGISTIC = "Classifier", "LogisticRegression(C=*, max_iter=500)", "0.0001 0.001 0.003"
_RIDGE = "Regressor", "Ridge(alpha=*)", "10000 3000 1000"
SAMPLE_CLASSIFIERS = [*_simple(*_LOGISTIC, "0.003 0.006 0.012"), *_of_samples("Classifier")]
SAMPLE_REGRESSORS = [*_simple(*_RIDGE, "1000 500 250"), *_of_samples("Regressor")]
UNIT_CLASSIFIERS = [*_simple(*_LOGISTIC, "0.0003 0.0006 0.0012"), *_of_units("Classifier")]
UNIT_REGRESSORS = [*_simple(*_RIDGE, "6000 4000 2000"), *_of_units("Regressor")]


SAMPLE = [Choice(level, '"sample submission"', "no model (the sample submission goes in as it is)") for level in NOUNS]


def choices(task: Mapping[str, Any]) -> list[Choice]:
    """The models that fit a task's problem, level by level; for a task that no program reads SAMPLE."""
    if readers.unsolved(task):
        return SAMPLE
    if readers.is_table(task):
        return REGRESSORS if task["problem"] == "regression" else CLASSIFIERS
    form = readers.form_of(task)
    if form in readers.UNITS:
        return UNIT_CLASSIFIERS if form == "mask" else UNIT_REGRESSORS
    return SAMPLE_REGRESSORS if form == "number" else SAMPLE_CLASSIFIERS


def plan(choice: Choice, task: Mapping[str, Any] | None = None) -> str:
    """What the program does, in sentences; without `task`, the short program."""
    if task is not None and (reason := readers.unsolved(task)):
        return SAMPLE_PLAN.format(reason=reason)
    if task is None or readers.is_table(task):
        return PLAN.format(words=choice.words)
    return LONG_PLAN.format(reading=READING[QUALITY.get(choice.level, "fine")], words=choice.words)


def program(task: Mapping[str, Any], choice: Choice) -> str:
    """A whole program for the task. Class probabilities go to the columns NAME or prob_NAME, whichever the task has."""
    if readers.unsolved(task):
        return SAMPLE_PROGRAM.format(file=readers.sample_file(task))
    if readers.is_table(task):
        return _short_program(task, choice)
    model = choice.model
    if task["metric"].get("name") in readers.BALANCED:
        model = model.replace("ExtraTreesClassifier(", 'ExtraTreesClassifier(class_weight="balanced", ')
    return readers.compose(task, model, _imports(model).split("\n"), QUALITY.get(choice.level, "fine"))


def _short_program(task: Mapping[str, Any], choice: Choice) -> str:
    submission = task["submission"]
    columns, predict = "c", "predict(T)"
    if task["problem"] != "regression" and submission["parse"] == "number":
        predict = "predict_proba(T)[:, 1]"
        if len(submission["target"]) > 1:
            prefix = "prob_" if all(name.startswith("prob_") for name in submission["target"]) else ""
            columns, predict = f'[f"{prefix}{{k}}" for k in model.classes_]', "predict_proba(T)"
    elif task["metric"].get("name") in readers.RANKS:
        predict = "predict(T) + 1e-6 * sub.index"
    return PROGRAM.format(imports=_imports(choice.model), model=choice.model, columns=columns, predict=predict)


def _imports(model: str) -> str:
    names_of_module: dict[str, list[str]] = {}
    for name in sorted(set(re.findall(r"\w+(?=\()", model))):
        module = next((module for start, module in MODULES.items() if name.startswith(start)), None)
        if module:
            names_of_module.setdefault(module, []).append(name)
    lines = (f"from sklearn.{module} import {', '.join(names)}" for module, names in sorted(names_of_module.items()))
    return "\n".join(lines)
