"""The bank of the scripted model: scikit-learn models of graded quality, and the one program that trains them.

Every program is the same but for the imports, the model's line and how it predicts, so that a tiny language model can
learn to write it. It finds the columns by comparing headers, fills gaps with the mean and runs within two seconds on
2000 rows. Not covered: free text and dates (each distinct text becomes a column), cross-validation, anything but tables.
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


@dataclass(frozen=True)
class Choice:
    """One model to train: its level, how the program writes it, and how the plan calls it."""

    level: str
    model: str
    words: str


def _grid(level: str, model: str, words: str, *values: Any) -> list[Choice]:
    return [Choice(level, model.replace("*", str(value)), words.replace("*", str(value))) for value in values]


# Within a level from weak to strong where that can be said. The order of the levels was measured on 54 tasks.
CLASSIFIERS = [
    *_grid("dummy", 'DummyClassifier(strategy="*", random_state=0)', "a dummy that guesses *", "stratified", "uniform", "prior"),
    *_grid("stump", "DecisionTreeClassifier(max_depth=1, max_features=*, random_state=0)", "a stump with max_features=*", 1, 2, 4),
    *_grid("shrunk", "LogisticRegression(C=*, max_iter=500)", "a shrunk logistic regression with C=*", 0.0001, 0.001, 0.003),
    *_grid("tree", "DecisionTreeClassifier(max_depth=*, random_state=0)", "a decision tree with max_depth=*", 12, 8, 6, 4, 2),
    *_grid("knn", "KNeighborsClassifier(n_neighbors=*)", "nearest neighbours with n_neighbors=*", 1, 5, 7, 9, 11),
    *_grid("linear", "LogisticRegression(C=*, max_iter=500)", "a logistic regression with C=*", 0.01, 0.03, 0.1, 1),
    *_grid("forest", "RandomForestClassifier(n_estimators=*, random_state=0)", "a random forest with n_estimators=*", 5, 10, 30, 60),
    *_grid("boosted", 'GradientBoostingClassifier(n_estimators=*, max_features="sqrt", random_state=0)', "boosted trees with n_estimators=*", 20, 40, 80),
    *_grid(
        "tuned",
        'VotingClassifier([("a", LogisticRegression(C=*)), ("b", ExtraTreesClassifier(random_state=0))], voting="soft")',
        "a vote of extra trees and a logistic regression with C=*",
        0.03, 0.1, 0.3, 1,
    ),
]
REGRESSORS = [
    *_grid("dummy", 'DummyRegressor(strategy="quantile", quantile=*)', "a dummy that guesses the quantile *", 0.1, 0.9, 0.5),
    *_grid("stump", "DecisionTreeRegressor(max_depth=1, max_features=*, random_state=0)", "a stump with max_features=*", 1, 2, 4),
    *_grid("shrunk", "Ridge(alpha=*)", "a shrunk ridge regression with alpha=*", 10000, 3000, 1000),
    *_grid("tree", "DecisionTreeRegressor(max_depth=*, random_state=0)", "a decision tree with max_depth=*", 12, 8, 6, 4, 2),
    *_grid("knn", "KNeighborsRegressor(n_neighbors=*)", "nearest neighbours with n_neighbors=*", 1, 5, 7, 9, 11),
    *_grid("linear", "Ridge(alpha=*)", "a ridge regression with alpha=*", 300, 100, 30, 10),
    *_grid("forest", "RandomForestRegressor(n_estimators=*, random_state=0)", "a random forest with n_estimators=*", 5, 10, 30, 60),
    *_grid("boosted", "GradientBoostingRegressor(n_estimators=*, random_state=0)", "boosted trees with n_estimators=*", 20, 40, 80),
    *_grid(
        "tuned",
        'VotingRegressor([("a", Ridge(alpha=*)), ("b", ExtraTreesRegressor(random_state=0))])',
        "a vote of extra trees and a ridge regression with alpha=*",
        100, 30, 10, 3,
    ),
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
