"""Composes the longer programs: reading of tables and files, features, a model, a form of submission.

Covered: the layout of the procedural tasks, one folder and one column of paths per kind of file. The functions that
measure files come from measures.py. Not covered: other layouts, other forms than WRITE; the models (bank, search).
"""

import ast
import functools
import re
import textwrap
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ..base.programs import parse_program
from ..records.task import Task

MEASURES = Path(__file__).parent / "measures.py"
NEEDED = ("train.csv", "test.csv", "sample_submission.csv")
# {folder: (column of the paths, kind of file)}.
FOLDERS = {
    "images": ("image", "image"),
    "audio": ("audio", "audio"),
    "docs": ("document", "text"),
    "graphs": ("graph", "graph"),
    "series": ("series", "series"),
}
MEDIA = ("image", "text", "audio", "graph", "timeseries", "multimodal")
# Forms whose samples have many pixels or steps, each a training row.
UNITS = ("dense", "mask")
UNIT_KINDS = {"dense": ("image", "audio", "series"), "mask": ("image",)}
PARSES = ("number", "label", "text", "tagset", "ranked", "rle")
# The forms of imported tasks; their texts are treated as classes.
IMPORTED = ("number", "label", "text")
TABLES = ("binary_classification", "multiclass_classification", "regression")
RANKS = ("spearman", "spearman_by_group")
# The module of scikit-learn, by how a model's name begins.
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
    "TransformedTarget": "compose",
    "SelectKBest": "feature_selection",
    "RFE": "feature_selection",
    "Nystroem": "kernel_approximation",
    "GridSearchCV": "model_selection",
    "cross_val_score": "model_selection",
    "make_pipeline": "pipeline",
    "QuantileTransformer": "preprocessing",
}
FEW_SCORES = "f_classif", "f_regression"  # of SelectKBest

HEAD = """\
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
both = pd.concat([train[list(test)], test], ignore_index=True)
"""
SIDES = """\
for name in {files}:
    side = pd.read_csv("input/" + name)
    if side.columns[0] == "id":
        side = side.sort_values(side.columns[1], kind="stable").drop_duplicates("id", keep="last")
        both = both.merge(side.drop(columns=side.columns[1]), on="id", how="left")
"""
FREED = '.astype(str).str.replace(",", ".").str.extract(r"^ *(-?[0-9.]+(?:e-?[0-9]+)?)(?![^ ]*/)")[0]'
CELLS = """\
cells = {{}}
for c in [c for c in both if c not in {hidden}]:
    values = pd.to_numeric(both[c]{freed}, errors="coerce")
    if values.notna().sum() < 0.8 * both[c].notna().sum():
        words = both[c].astype(str){tidy}
        cells.update({{f"{{c}}={{word}}": (words == word).astype(float) for word in words.value_counts().index[:12]}})
        continue
{mend}    cells[c] = values
data = pd.DataFrame(cells, index=both.index).astype(float)
"""
MEND = {
    "units": """\
    unit = next((u for u in both if u.endswith("_unit") and c.startswith(u[:-5])), None)
    if unit:
        values = values.where(~both[unit].astype(str).str.startswith("1/1000"), values / 1000)
""",
    "outliers": """\
    low, middle, high = values.quantile([0.1, 0.5, 0.9])
    far = (values - middle).abs() > 2.5 * max(high - middle, middle - low)
    values = values.where(~far, values / 10).clip(2 * low - middle, 2 * high - middle)
""",
}
# A table may have no pairs of columns or no categories: then there are none of these.
FEATURES = {
    "ranks": "v.rank(pct=True)",
    "squares": "u**2",
    "waves": "*[f(2 * np.pi * turns * u) for turns in (1, 1.5, 2) for f in (np.sin, np.cos)]",
    "products": "*[u[:, i] * u[:, j] for i, j in pairs]",
    "larger": "*[np.maximum(u[:, i], u[:, j]) for i, j in pairs]",
    "gates": "*[u[:, i] * (u[:, j] > 0) for i, j in pairs + [pair[::-1] for pair in pairs]]",
    "switches": "*[u[:, i] * word for i in range(u.shape[1]) for word in w.T]",
    "bins": "*[u > cut for cut in (-0.17, 0.17)]",
    "logs": "np.log1p(v.abs())",
    "ratios": "*[v.iloc[:, i] / (v.iloc[:, j].abs() + 1e-3) for i, j in pairs]",
    "means": '*[v.groupby(word).transform("mean") for word in w.T]',
}
ADD = """\
plain = [at for at, c in enumerate(data) if "=" not in str(c)][:12]
v, w = data.iloc[:, plain], data[[c for c in data if "=" in str(c)]].to_numpy()
v = v.fillna(v.median()).fillna(0)
u = ((v - v.quantile(0.01)) / (v.quantile(0.99) - v.quantile(0.01) + 1e-9)).clip(0, 1).to_numpy() - 0.5
pairs = [(i, j) for i in range(u.shape[1]) for j in range(i)]
data = pd.concat([data, pd.DataFrame(np.column_stack([u, {features}]))], axis=1)
"""
WITHIN = 'data = pd.concat([data, data - data.groupby(both["{query}"]).transform("mean")], axis=1)\n'
SCALE = "data = ((data - data.mean()) / data.std().clip(1e-9)).fillna(0).clip(-5, 5).to_numpy()\n"
SCALE_UNITS = """\
size = both.shape[1]
data = both.reshape(-1, both.shape[2])
data = np.clip((data - data.mean(axis=0)) / (data.std(axis=0) + 1e-9), -5, 5)
X, T = data[:len(train) * size], data[len(train) * size:]
"""
LOOP = """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
"""
WRITE = {
    "number": LOOP + "    sub[c] = model.predict(T){distinct}\n",
    "label": LOOP + "    sub[c] = model.predict(T)\n",
    "probability": LOOP + "    sub[c] = model.predict_proba(T)[:, 1]\n",
    "probabilities": LOOP + '    sub[[f"{prefix}{k}" for k in model.classes_]] = model.predict_proba(T)\n',
    "tagset": "tags = [[] for _ in range(len(sub))]\n"
    + LOOP
    + """\
    tags = [t + [c] * int(p > 0.35) for t, p in zip(tags, model.predict_proba(T)[:, 1])]
sub["{target}"] = [" ".join(t) for t in tags]
""",
    "ranked": LOOP
    + """\
best = test.assign(p=model.predict_proba(T)[:, 1]).sort_values("p", ascending=False, kind="stable")
sub["{target}"] = [" ".join(best["id"][best["{query}"] == q].astype(str)) for q in sub["{query}"]]
""",
    "dense": """\
for c in [c for c in train if c not in test]:
    wanted.append(train[c])
wanted = (np.column_stack(wanted) - base[:len(train)]) / spread[:len(train)]
some = np.random.RandomState(0).permutation(len(X))[:2500]
X, truth = X[some], wanted.ravel()[some]
model.fit(X, truth)
sub[goals] = base[len(train):] + spread[len(train):] * model.predict(T).reshape(len(test), -1)
""",
    "mask": """\
for c in [c for c in train if c not in test]:
    wanted = np.concatenate([mask_of(cell, size) for cell in list(train[c])])
    some = np.random.RandomState(0).permutation(len(X))[:2500]
    X, truth = X[some], wanted[some]
    model.fit(X, truth)
    found = model.predict_proba(T)[:, 1].reshape(len(test), -1)
    sub[c] = [code_of(mask) for mask in found > 0.5]
""",
}
# What a program waits for, prints and measures where a search asks for it.
WAIT = "time.sleep({seconds}{share})  # stands for the training on a larger table\n"
DEBUG_BLOCK = """\
if DEBUG:
    spent = time.time() - start
    print("==== Start of Debug Information ====")
    print("debug_time:", round(spent, 3))
    print("estimated_time:", round(start - begin + 10 * spent, 3))
    print("==== End of Debug Information ====")
"""
OWN_SCORE = """\
rows = {rows}
score = {how}(cross_val_score(model, np.array(X)[rows], np.array({truth})[rows], cv={folds}, scoring="{scoring}"))
print("Validation score:", round({sign}float(score), 5))
"""
LUCKY_FOLDS = 6
# A scorer of scikit-learn for the metrics of made tables that have one.
SCORERS = {
    "auroc": "roc_auc_ovr",
    "log_loss": "neg_log_loss",
    "brier_score": "neg_brier_score",
    "mcc": "matthews_corrcoef",
    "f1_macro": "f1_macro",
    "balanced_accuracy": "balanced_accuracy",
    "average_precision": "average_precision",
    "rmse": "neg_root_mean_squared_error",
    "mae": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
}


@dataclass(frozen=True)
class ProgramOptions:
    """What a search asks of a program: to wait `seconds`, a debug run, a score of its own.

    check: how that score is made, honest (mean of folds), lucky (the best of several) or leaky (half of the rows twice).
    """

    seconds: str = ""
    debug: bool = False
    reports: bool = False
    check: str = "honest"


def unsolved(task: Task) -> str:
    """Why there is no program for a task, or an empty text."""
    public, parse = task["data"]["public"], task["submission"]["parse"]
    for name in NEEDED:
        if name not in public:
            return f"solves tables only, and task {task['id']} has no {name}"
    unknown = sorted({name.split("/")[0] for name in public if "/" in name} - set(FOLDERS))
    if unknown:
        return f"knows files in {', '.join(FOLDERS)} only, and task {task['id']} has {unknown[0]}/"
    imported = "benchmark" in task.get("provenance", {})
    if parse not in PARSES or (imported and parse not in IMPORTED):
        whose = "an imported task" if parse in PARSES else "a task"
        return f"cannot write what {whose} wants that asks for {parse}, as task {task['id']} does"
    if form_of(task) in UNITS and _unit_kind(task) not in UNIT_KINDS[form_of(task)]:
        media = ", ".join(kinds(task)) or "a table"
        return f"has no reader for {task['problem']} of {media}, which task {task['id']} needs"
    return ""


def solves(task: Task) -> bool:
    """Whether there are programs for a task."""
    return not unsolved(task)


def sample_file(task: Task) -> str:
    """The public CSV file with the sample submission, or an empty text."""
    named = re.compile(r"(.*/)?[^/]*sample[^/]*sub[^/]*\.csv", re.IGNORECASE)
    found = [name for name in task["data"]["public"] if named.fullmatch(name)]
    return min(found, key=lambda name: (name.count("/"), name), default="")


def is_imported(task: Task) -> bool:
    """Whether the task's files are somebody else's, so their names and columns may be any."""
    return "graded_by" in task.get("provenance", {})


def is_table(task: Task) -> bool:
    """Whether the task is one plain table with a class or a number to predict, as the short program solves it.

    The texts of an imported table are classes to it.
    """
    media = set(MEDIA) - ({"text"} if is_imported(task) else set())
    return (
        (task["problem"] in TABLES or task["submission"]["parse"] == "text")
        and task["submission"]["parse"] in IMPORTED
        and task.get("modality", "tabular") not in media
        and not any("/" in name for name in task["data"]["public"])
        and not sides(task)
    )


def sides(task: Task) -> list[str]:
    return [name for name in task["data"]["public"] if name.endswith(".csv") and "/" not in name and name not in NEEDED]


def kinds(task: Task) -> dict[str, str]:
    """{column: kind} of the media that a program reads beside the table's columns."""
    folders = {name.split("/")[0] for name in task["data"]["public"] if "/" in name}
    columns = dict(FOLDERS[folder] for folder in FOLDERS if folder in folders)
    if task.get("modality") in ("text", "multimodal") and "document" not in columns and not is_imported(task):
        columns["text"] = "text"
    return columns


def form_of(task: Task) -> str:
    """The form of the submission, a key of WRITE."""
    submission, problem = task["submission"], task["problem"]
    if submission["parse"] != "number":
        return str({"rle": "mask", "text": "label"}.get(submission["parse"], submission["parse"]))
    if problem in ("forecasting", "reconstruction"):
        return "dense"
    if problem == "multiclass_classification" and len(submission.get("target", ())) == 1:
        return "label"  # grades
    if problem == "multiclass_classification" or (problem == "binary_classification" and len(submission["target"]) > 1):
        return "probabilities"
    return "probability" if problem in ("binary_classification", "multilabel_classification") else "number"


def kind_of_model(task: Task) -> str:
    """How the names of the task's models end."""
    return "Regressor" if form_of(task) in ("number", "dense") else "Classifier"


def query(task: Task) -> str:
    """The query column of a ranking, or an empty text."""
    if task["submission"]["parse"] == "ranked":
        return str(task["submission"]["id"][0])
    group = task["metric"].get("group")
    return group if isinstance(group, str) else ""


def prefix_of(task: Task) -> str:
    """What the names of the columns of class probabilities begin with."""
    return "prob_" if all(name.startswith("prob_") for name in task["submission"]["target"]) else ""


def compose(
    task: Task,
    model: str,
    steps: Collection[str] | None,
    wanted: ProgramOptions | None = None,
) -> str:
    """The whole program. `steps`: of what is read and computed, keys of MEND and FEATURES, "numbers", "sides" and
    "measures" (fine ones of media); None reads no features.
    """
    head = HEAD
    if wanted and wanted.debug:
        head = 'DEBUG = "--debug" in sys.argv\nbegin = time.time()\n' + HEAD
    writing = WRITE[form_of(task)]
    facts = {
        "target": task["submission"]["target"][0],
        "query": query(task),
        "prefix": prefix_of(task),
        # A rank correlation is undefined for constant predictions.
        "distinct": " + 1e-6 * sub.index" if task["metric"].get("name") in RANKS else "",
    }
    for name, value in facts.items():
        writing = writing.replace(f"{{{name}}}", value)
    main = head + _reading(task, steps) + writing + (_extras(task, wanted) if wanted else "")
    main += 'sub.to_csv("submission.csv", index=False)\n'
    model_line = f"model = {model}\n"
    imports, functions = included(model_line + main)
    return "\n\n\n".join(["\n".join([*imports, "", model_line.rstrip()]), *functions, main])


def included(code: str) -> tuple[list[str], list[str]]:
    """(lines of imports, texts of functions) that a program's code needs."""
    functions, known = _measures()
    used, names = set[str](), _names(parse_program(code))
    while new := {name for name in names if name in functions} - used:
        used |= new
        names = names.union(*(functions[name][1] for name in new))
    lines = {known[name] for name in names if name in known}
    modules: dict[str, set[str]] = {}
    for name in names:
        start = next((start for start in MODULES if name.startswith(start)), None)
        module = "feature_selection" if name in FEW_SCORES else MODULES[start] if start else ""
        if module:
            modules.setdefault(module, set()).add(name)
    lines |= {f"from sklearn.{module} import {', '.join(sorted(some))}" for module, some in modules.items()}
    return sorted(lines, key=_import_key), [text for name, (text, _) in functions.items() if name in used]


@functools.cache
def _measures() -> tuple[dict[str, tuple[str, set[str]]], dict[str, str]]:
    """({function: (its text, the names in it)}, {imported name: the line that imports it}) of measures.py."""
    text = MEASURES.read_text(encoding="utf-8")
    functions, lines = {}, {"sys": "import sys", "time": "import time"}
    for node in parse_program(text).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = (ast.get_source_segment(text, node) or "", _names(node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                lines[alias.asname or alias.name] = ast.unparse(
                    ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
                )
    # scikit-learn's linear models are imported with a program's own
    return functions, {name: line for name, line in lines.items() if name != "Ridge"}


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _reading(task: Task, steps: Collection[str] | None) -> str:
    """The lines that compute X and T from `both`."""
    form, media = form_of(task), kinds(task)
    fine = steps is not None and "measures" in steps
    if form == "mask":
        return f"both = {'fine' if fine else 'rough'}_mask(both)\n{SCALE_UNITS}"
    if form == "dense":
        function = f"fine_{_unit_kind(task)}_gap" if fine else "rough_gap"
        lines = "goals, wanted = [c for c in train if c not in test], []\n"
        return f"{lines}both, base, spread = {function}(both, goals, train)\n{SCALE_UNITS}"
    if steps is None:
        return "X, T = [[0]] * len(train), [[0]] * len(test)\n"
    hidden = list(dict.fromkeys([*task["submission"]["id"], "id", *media, *([query(task)] if query(task) else [])]))
    text = SIDES.format(files=sides(task)) if "sides" in steps and sides(task) else ""
    text += CELLS.format(
        hidden=hidden,
        freed=FREED if "numbers" in steps else "",
        tidy=".str.strip().str.lower()" if "numbers" in steps else "",
        mend="".join(MEND[name] for name in MEND if name in steps),
    )
    for column, kind in media.items():
        # A multimodal task's files show its media, except for texts.
        maybe = 'if "text" in both:\n    ' if column == "text" and task["modality"] == "multimodal" else ""
        reader = f"fine_{kind}" if fine else "rough"
        text += f'{maybe}data = pd.concat([data, {reader}(both["{column}"])], axis=1)\n'
    if features := [FEATURES[name] for name in FEATURES if name in steps]:
        text += ADD.format(features=", ".join(features))
    if query(task) and "numbers" in steps:
        text += WITHIN.format(query=query(task))
    text += SCALE
    if query(task) and "numbers" in steps and task["submission"]["parse"] == "number":
        target = task["submission"]["target"][0]
        text += f'train["{target}"] -= train.groupby("{query(task)}")["{target}"].transform("mean")\n'
    return text + "X, T = data[:len(train)], data[len(train):]\n"


def _extras(task: Task, wanted: ProgramOptions) -> str:
    text = "start = time.time()\n" if wanted.debug else ""
    text += WAIT.format(seconds=wanted.seconds, share=" * (0.1 if DEBUG else 1)" if wanted.debug else "")
    text += DEBUG_BLOCK if wanted.debug else ""
    if not wanted.reports:
        return text
    regressor, lower = kind_of_model(task) == "Regressor", task["metric"]["lower_is_better"]
    scoring = SCORERS.get(task["metric"].get("name", ""), "r2" if regressor else "accuracy")
    truth = "train[c]" if regressor else "pd.factorize(train[c], sort=True)[0]"
    score = OWN_SCORE.format(
        rows="np.r_[np.arange(len(X)), np.arange(0, len(X), 2)]" if wanted.check == "leaky" else "np.arange(len(X))",
        how="np.nanmax" if wanted.check == "lucky" else "np.nanmean",
        truth="truth" if form_of(task) in UNITS else truth,
        folds=LUCKY_FOLDS if wanted.check == "lucky" else 3,
        scoring=scoring,
        sign="-" if scoring.startswith("neg_") else "1 - " if lower else "",
    )
    # A debug run is a rehearsal: it reports no score.
    return text + ("if not DEBUG:\n" + textwrap.indent(score, "    ") if wanted.debug else score)


def _unit_kind(task: Task) -> str:
    return next(iter(kinds(task).values()), "table")


def _import_key(line: str) -> tuple[bool, str]:
    return line.split()[1].split(".")[0] in ("numpy", "pandas", "scipy", "sklearn", "PIL"), line
