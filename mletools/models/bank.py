"""The bank of the scripted model: scikit-learn models of graded quality, and the one program that trains them.

Every program is the same but for the imports, the model's line and how it predicts, so that a tiny language model can
learn to write it. It finds the columns by comparing headers, fills gaps with the mean and runs within about two seconds
on 2000 rows. Not covered: free text and dates (each distinct text becomes a column), cross-validation, other data than
tables.
"""

import re
from dataclasses import dataclass
from typing import Any

MODULES = {
    "Dummy": "dummy",
    "DecisionTree": "tree",
    "KNeighbors": "neighbors",
    "Logistic": "linear_model",
    "Ridge": "linear_model",
    "RandomForest": "ensemble",
    "ExtraTrees": "ensemble",
    "GradientBoosting": "ensemble",
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


NOUNS = {
    "dummy": "a dummy",
    "stump": "a stump",
    "shrunk": "a shrunk linear model",
    "tree": "a decision tree",
    "knn": "a vote of nearest neighbours",
    "linear": "a linear model",
    "forest": "a random forest",
    "boosted": "a row of boosted trees",
    "tuned": "a mean of extra trees and a linear model",
}  # how a plan calls the models of a level; the levels stand in the order of their expected score


@dataclass(frozen=True)
class Choice:
    """One model to train: its level, how the program writes it, and how the plan calls it."""

    level: str
    model: str
    words: str


def _grid(level: str, model: str, *values: Any) -> list[Choice]:
    """One choice per value, which takes the place of the * in `model`."""
    match = re.search(r'(\w+)="?\*', model)
    assert match
    words = f"{NOUNS[level]} with {match.group(1)}="
    return [Choice(level, model.replace("*", str(value)), f"{words}{value}") for value in values]


_CLASSIFIER_PAIR = '[("a", LogisticRegression(C=*)), ("b", ExtraTreesClassifier(random_state=0))]'
_REGRESSOR_PAIR = '[("a", Ridge(alpha=*)), ("b", ExtraTreesRegressor(random_state=0))]'
# Within a level from weak to strong, where that can be said.
CLASSIFIERS = [
    *_grid("dummy", 'DummyClassifier(strategy="*", random_state=0)', "stratified", "uniform", "prior"),
    *_grid("stump", "DecisionTreeClassifier(max_depth=1, max_features=*, random_state=0)", 1, 2, 4),
    *_grid("shrunk", "LogisticRegression(C=*, max_iter=500)", 0.0001, 0.001, 0.003),
    *_grid("tree", "DecisionTreeClassifier(max_depth=*, random_state=0)", 12, 8, 6, 4, 2),
    *_grid("knn", "KNeighborsClassifier(n_neighbors=*)", 1, 5, 7, 9, 11),
    *_grid("linear", "LogisticRegression(C=*, max_iter=500)", 0.01, 0.03, 0.1, 1),
    *_grid("forest", "RandomForestClassifier(n_estimators=*, random_state=0)", 5, 10, 30, 60),
    *_grid("boosted", 'GradientBoostingClassifier(n_estimators=*, max_features="sqrt", random_state=0)', 20, 40, 60),
    *_grid("tuned", f'VotingClassifier({_CLASSIFIER_PAIR}, voting="soft")', 0.03, 0.1, 0.3, 1),
]
REGRESSORS = [
    *_grid("dummy", 'DummyRegressor(strategy="quantile", quantile=*)', 0.1, 0.9, 0.5),
    *_grid("stump", "DecisionTreeRegressor(max_depth=1, max_features=*, random_state=0)", 1, 2, 4),
    *_grid("shrunk", "Ridge(alpha=*)", 10000, 3000, 1000),
    *_grid("tree", "DecisionTreeRegressor(max_depth=*, random_state=0)", 12, 8, 6, 4, 2),
    *_grid("knn", "KNeighborsRegressor(n_neighbors=*)", 1, 5, 7, 9, 11),
    *_grid("linear", "Ridge(alpha=*)", 300, 100, 30, 10),
    *_grid("forest", "RandomForestRegressor(n_estimators=*, random_state=0)", 5, 10, 30, 60),
    *_grid("boosted", "GradientBoostingRegressor(n_estimators=*, random_state=0)", 20, 40, 80),
    *_grid("tuned", f"VotingRegressor({_REGRESSOR_PAIR})", 30, 10, 3, 1),
]


def choices(task: dict[str, Any]) -> list[Choice]:
    """The models that fit a task's problem, level by level."""
    return REGRESSORS if task["problem"] == "regression" else CLASSIFIERS


def plan(choice: Choice) -> str:
    return PLAN.format(words=choice.words)


def program(task: dict[str, Any], choice: Choice) -> str:
    """A whole program for the task. Class probabilities go to the columns NAME or prob_NAME, whichever the task has."""
    submission = task["submission"]
    columns, predict = "c", "predict(T)"
    if task["problem"] != "regression" and submission["parse"] == "number":
        predict = "predict_proba(T)[:, 1]"
        if len(submission["target"]) > 1:
            prefix = "prob_" if all(name.startswith("prob_") for name in submission["target"]) else ""
            columns, predict = f'[f"{prefix}{{k}}" for k in model.classes_]', "predict_proba(T)"
    return PROGRAM.format(imports=_imports(choice.model), model=choice.model, columns=columns, predict=predict)


def _imports(model: str) -> str:
    wanted: dict[str, list[str]] = {}
    for name in sorted(re.findall(r"[A-Z]\w+(?=\()", model)):
        module = next(module for start, module in MODULES.items() if name.startswith(start))
        wanted.setdefault(module, []).append(name)
    return "\n".join(f"from sklearn.{module} import {', '.join(names)}" for module, names in sorted(wanted.items()))
