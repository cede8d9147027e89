"""The bank: scikit-learn models of graded quality, the programs that train them, and their faults.

Short programs, of one plain table, differ only in the imports, the model's line and the prediction, so that a tiny language
model can learn to write them. They compare headers to identify columns, fill gaps with the mean and run within about two
seconds on 2000 rows. For a task that no program reads the sample submission is handed in. Not
covered: dates (each distinct text becomes a column).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..base.ids import derive_seed
from ..records.task import Task
from . import programs

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
SAMPLE_PROGRAM = """\
import pandas as pd

model = "sample submission"
sub = pd.read_csv("input/{file}", dtype=str, keep_default_na=False)
sub.to_csv("submission.csv", index=False)
"""
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
}  # words for the models of a level; the levels are in the order of their expected score
FINE = ("numbers", "units", "outliers", "sides", "measures")
# What a level's longer programs read (see programs.compose); else FINE.
STEPS: dict[str, tuple[str, ...] | None] = {"dummy": None, "stump": (), "shrunk": ()}
# For these metrics extra trees weigh all classes alike.
BALANCED = ("f1_macro", "balanced_accuracy", "balanced_log_loss")
BALANCING = 'class_weight="balanced", '

# How a solution can fail: (text of a valid program, what stands there instead). One is drawn.
FAULTS = {
    "broken": [
        ('pd.read_csv("input/train.csv")', 'pd.read_csv("input/train.csv"'),
        ("if c not in test]:", "if c not in test]"),
        ('"submission.csv"', '"submission.csv'),
    ],
    "crash": [
        ("train[c])", 'train["answer"])'),
        ("input/train.csv", "input/training.csv"),
        ("model.fit", "modle.fit"),
        ("import pandas as pd", "import pandas_tools as pd"),
    ],
    "misformat": [
        ("sub.to_csv(", "sub.head(len(sub) // 2).to_csv("),
        ("sub.to_csv(", "sub.iloc[:, :-1].to_csv("),
        ("sub.to_csv(", "pd.concat([sub, sub]).to_csv("),
        ("index=False", "index=False, header=False"),
    ],
}
# An exception after the training; only programs of a search have it.
LATE = [
    ("sub.to_csv(", 'sub = sub.set_index("row_id")\nsub.to_csv('),
    ("sub.to_csv(", "sub = sub.round(digits)\nsub.to_csv("),
    ("sub.to_csv(", "assert len(sub) == len(train), (len(sub), len(train))\nsub.to_csv("),
]
VALID = tuple(NOUNS)
T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """One model to train: its level, its source code, and what it is in words."""

    level: str
    model: str
    words: str


# By size of the table (one plain table, a row per sample, a row per pixel or step) and by kind of model: (level, source
# code with a * for the setting, settings from weak to strong, where known).
_SHRUNK = {"Classifier": "0.0001 0.001 0.003", "Regressor": "10000 3000 1000"}
_LINEAR = {
    ("samples", "Classifier"): "0.003 0.006 0.012",
    ("samples", "Regressor"): "1000 500 250",
    ("units", "Classifier"): "0.0003 0.0006 0.0012",
    ("units", "Regressor"): "6000 4000 2000",
}
_BOOSTED = {
    "table": "GradientBoosting{kind}(n_estimators=*, max_features=0.5, subsample=0.7, random_state=0)",
    "samples": "GradientBoosting{kind}(n_estimators=*, learning_rate=0.05, max_features=0.15, subsample=0.6, "
    "min_samples_leaf=5, random_state=0)",
    "units": "HistGradientBoosting{kind}(max_iter=*, learning_rate=0.06, max_leaf_nodes=10, random_state=0)",
}
_FOREST = {
    "samples": ("max_features=0.3, min_samples_leaf=2", "9 11 13", "max_features=0.3"),
    "units": ("max_features=0.4, min_samples_leaf=5", "10 15 20", "n_estimators=40, max_features=0.5"),
}


def _rows(size: str, kind: str) -> list[tuple[str, str, str]]:
    classes, boosted = kind == "Classifier", _BOOSTED[size]
    linear = "LogisticRegression(C=*, max_iter=500)" if classes else "Ridge(alpha=*)"
    dummy = ('strategy="*", random_state=0', "stratified uniform prior")
    if not classes:
        dummy = ('strategy="quantile", quantile=*', "0.1 0.9 0.5")
    rows = [("dummy", f"Dummy{kind}({dummy[0]})", dummy[1])]
    stump = "DecisionTree{kind}(max_depth=1, max_features=*, random_state=0)"
    if size == "table":
        if classes:
            boosted = boosted.replace("0.5, subsample=0.7", "0.3, subsample=0.6")
            other = "RandomForestClassifier(max_features=0.5, random_state=0)"
        else:
            other = "ExtraTreesRegressor(random_state=0)"
        rows += [
            ("stump", stump, "2 4 6"),
            ("shrunk", linear, "0.0001 0.0003 0.001" if classes else "30000 10000 5000"),
            ("tree", "DecisionTree{kind}(max_features=0.4, min_samples_leaf=*, random_state=0)", "2 3 4"),
            ("knn", 'KNeighbors{kind}(n_neighbors=*, weights="distance")', "17 21 25" if classes else "5 7 9"),
            ("linear", linear, "0.02 0.05 0.1 0.2" if classes else "100 60 30 10"),
            ("forest", "RandomForest{kind}(n_estimators=*, random_state=0)", "20 30 40" if classes else "10 20 30"),
            ("boosted", _BOOSTED[size], "60 80 100"),
        ]
    else:
        forest, trees, extra = _FOREST[size]
        other = f"ExtraTrees{kind}({extra}, min_samples_leaf=2, random_state=0)"
        rows += [
            ("stump", stump, "2 3 4"),
            ("shrunk", linear, _SHRUNK[kind]),
            ("tree", "DecisionTree{kind}(max_features=0.5, min_samples_leaf=*, random_state=0)", "6 8 10"),
            ("knn", "KNeighbors{kind}(n_neighbors=*)", "5 9 13"),
            ("linear", linear, _LINEAR[size, kind]),
            ("forest", f"RandomForest{kind}(n_estimators=*, {forest}, random_state=0)", trees),
            ("boosted", boosted, "80 100 120"),
        ]
    rows.append(("tuned", voting(kind, {"a": boosted, "b": other}), rows[-1][2]))
    return [(level, model.replace("{kind}", kind), settings) for level, model, settings in rows]


def voting(kind: str, members: Mapping[str, str]) -> str:
    """The source of a model that takes the mean of others, a source each."""
    named, soft = ", ".join(f'("{name}", {model})' for name, model in members.items()), ', voting="soft"'
    return f"Voting{kind}([{named}]{soft if kind == 'Classifier' else ''})"


def _menu(size: str, kind: str) -> list[Choice]:
    found = []
    for level, model, settings in _rows(size, kind):
        match = re.search(r'(\w+)="?\*', model)
        assert match
        found += [
            Choice(level, model.replace("*", value), f"{NOUNS[level]} with {match.group(1)}={value}")
            for value in settings.split()
        ]
    return found


MENUS = {
    (size, kind): _menu(size, kind) for size in ("table", "samples", "units") for kind in ("Classifier", "Regressor")
}
SAMPLE = [Choice(level, '"sample submission"', "no model (the sample submission goes in as it is)") for level in NOUNS]


def choices(task: Task) -> list[Choice]:
    """The models that fit a task's problem, level by level; for a task that no program reads SAMPLE."""
    if programs.unsolved(task):
        return SAMPLE
    if programs.is_table(task):
        return MENUS["table", "Regressor" if task["problem"] == "regression" else "Classifier"]
    size = "units" if programs.form_of(task) in programs.UNITS else "samples"
    return MENUS[size, programs.kind_of_model(task)]


def program(task: Task, choice: Choice) -> str:
    """A whole program for the task. Class probabilities go to the columns NAME or prob_NAME, whichever the task has."""
    if programs.unsolved(task):
        return SAMPLE_PROGRAM.format(file=programs.sample_file(task))
    if programs.is_table(task):
        return _short_program(task, choice)
    model = choice.model
    if task["metric"].get("name") in BALANCED:
        model = model.replace("ExtraTreesClassifier(", f"ExtraTreesClassifier({BALANCING}")
    return programs.compose(task, model, STEPS.get(choice.level, FINE))


def simplest(task: Task) -> str:
    """The program of the first model."""
    return program(task, choices(task)[0])


def _short_program(task: Task, choice: Choice) -> str:
    columns, predict, form = "c", "predict(T)", programs.form_of(task)
    if form == "probabilities":
        columns, predict = f'[f"{programs.prefix_of(task)}{{k}}" for k in model.classes_]', "predict_proba(T)"
    elif form == "probability":
        predict = "predict_proba(T)[:, 1]"
    elif task["metric"].get("name") in programs.RANKS:
        predict = "predict(T) + 1e-6 * sub.index"
    imports = "\n".join(programs.included(choice.model)[0])
    return PROGRAM.format(imports=imports, model=choice.model, columns=columns, predict=predict)


@dataclass(frozen=True)
class SeededRng:
    """Throws that a seed decides: the same name is always the same throw. `about` is the task's id."""

    seed: int
    about: str

    def __call__(self, name: str) -> float:
        """In [0, 1)."""
        return derive_seed(self.seed, "scripted", self.about, name) / 2**62

    def pick(self, name: str, options: Sequence[T]) -> T:
        """One of the options, each as likely as the others."""
        return options[int(self(name) * len(options))]

    def weighted(self, name: str, options: Sequence[str], weights: Mapping[str, float]) -> str:
        """One of the options, as often as its weight says."""
        left = self(name) * sum(weights[option] for option in options)
        for option in options:
            left -= weights[option]
            if left < 0:
                return option
        return options[-1]


def draw(task: Task, level: str, rng: SeededRng) -> Choice:
    """One of the models of a level; one of all models where no valid program has that level."""
    return rng.pick("choice", [choice for choice in choices(task) if level not in VALID or choice.level == level])


def solution(task: Task, level: str, seed: int = 0) -> str:
    """The program of one of the models of a level; the seed decides which."""
    return program(task, draw(task, level, SeededRng(seed, task["id"])))


def with_fault(code: str, kind: str, rng: Callable[[str], float]) -> str:
    """The program with one of the faults of a kind of FAULTS, or with one of LATE."""
    faults = [fault for fault in (LATE if kind == "late" else FAULTS[kind]) if fault[0] in code]
    right, wrong = faults[int(rng("fault") * len(faults))]
    return code.replace(right, wrong, 1)
