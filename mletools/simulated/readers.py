"""Programs of the scripted model for tasks with more than one plain table: media files, side tables, other submissions.

A program has a reader per kind of file (modules of parts/, rough or fine), the level's model, and a writer of the
task's form of submission. Covered: the layout of the procedural tasks, one folder and one column of paths per kind.
Not covered: other layouts, other forms than WRITE; the models (bank).
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PARTS = Path(__file__).parent / "parts"
NEEDED = ("train.csv", "test.csv", "sample_submission.csv")
# {folder: (column of the paths, kind of file)}.
FOLDERS = {
    "images": ("image", "image"),
    "audio": ("audio", "audio"),
    "docs": ("document", "text"),
    "graphs": ("graph", "graph"),
    "series": ("series", "series"),
}
# Forms whose samples have many pixels or steps, each a training row.
UNITS = ("dense", "mask")
PARSES = ("number", "label", "text", "tagset", "ranked", "rle")
# The forms of imported tasks; their texts are treated as classes.
IMPORTED = ("number", "label", "text")
TABLES = ("binary_classification", "multiclass_classification", "regression")
RANKS = ("spearman", "spearman_by_group")
BALANCED = ("f1_macro", "balanced_accuracy", "balanced_log_loss")

HEAD = """\
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
both = pd.concat([train[list(test)], test], ignore_index=True)
"""
WRITE = {
    "number": """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    sub[c] = {predicted}
""",
    "label": """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    sub[c] = model.predict(T)
""",
    "probability": """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    sub[c] = model.predict_proba(T)[:, 1]
""",
    "probabilities": """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    sub[[f"prob_{k}" for k in model.classes_]] = model.predict_proba(T)
""",
    "tagset": """\
tags = [[] for _ in range(len(sub))]
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
    tags = [t + [c] * int(p > 0.35) for t, p in zip(tags, model.predict_proba(T)[:, 1])]
sub["{target}"] = [" ".join(t) for t in tags]
""",
    "ranked": """\
for c in [c for c in train if c not in test]:
    model.fit(X, train[c])
best = test.assign(p=model.predict_proba(T)[:, 1]).sort_values("p", ascending=False, kind="stable")
sub["{target}"] = [" ".join(best["id"][best["{query}"] == q].astype(str)) for q in sub["{query}"]]
""",
    "dense": """\
for c in [c for c in train if c not in test]:
    wanted.append(train[c])
wanted = (np.column_stack(wanted) - base[:len(train)]) / spread[:len(train)]
some = np.random.RandomState(0).permutation(len(X))[:{most}]
model.fit(X[some], wanted.ravel()[some])
sub[goals] = base[len(train):] + spread[len(train):] * model.predict(T).reshape(len(test), -1)
""",
    "mask": """\
for c in [c for c in train if c not in test]:
    wanted = np.concatenate([mask_of(cell, size) for cell in list(train[c])])
    some = np.random.RandomState(0).permutation(len(X))[:{most}]
    model.fit(X[some], wanted[some])
    found = model.predict_proba(T)[:, 1].reshape(len(test), -1)
    sub[c] = [code_of(mask) for mask in found > 0.5]
""",
}


def unsolved(task: Mapping[str, Any]) -> str:
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
    if form_of(task) in UNITS and not _unit_part(task, "fine").exists():
        media = ", ".join(kinds(task)) or "a table"
        return f"has no reader for {task['problem']} of {media}, which task {task['id']} needs"
    return ""


def sample_file(task: Mapping[str, Any]) -> str:
    """The public CSV file with the sample submission, or an empty text."""
    named = re.compile(r"(.*/)?[^/]*sample[^/]*sub[^/]*\.csv", re.IGNORECASE)
    found = [name for name in task["data"]["public"] if named.fullmatch(name)]
    return min(found, key=lambda name: (name.count("/"), name), default="")


def is_imported(task: Mapping[str, Any]) -> bool:
    """Whether the task's files are somebody else's, so their names and columns may be any."""
    return "graded_by" in task.get("provenance", {})


def is_table(task: Mapping[str, Any]) -> bool:
    """Whether the task is one plain table with a class or a number to predict, as the short program solves it.

    The texts of an imported table are classes to it.
    """
    public = task["data"]["public"]
    media = {"image", "text", "audio", "graph", "timeseries", "multimodal"} - ({"text"} if is_imported(task) else set())
    return (
        (task["problem"] in TABLES or task["submission"]["parse"] == "text")
        and task["submission"]["parse"] in IMPORTED
        and task.get("modality", "tabular") not in media
        and not any("/" in name for name in public)
        and not sides(task)
    )


def sides(task: Mapping[str, Any]) -> list[str]:
    return [name for name in task["data"]["public"] if name.endswith(".csv") and "/" not in name and name not in NEEDED]


def kinds(task: Mapping[str, Any]) -> dict[str, str]:
    """{column: kind} of the media that a program reads beside the table's columns."""
    folders = {name.split("/")[0] for name in task["data"]["public"] if "/" in name}
    columns = dict(FOLDERS[folder] for folder in FOLDERS if folder in folders)
    if task.get("modality") in ("text", "multimodal") and "document" not in columns and not is_imported(task):
        columns["text"] = "text"
    return columns


def form_of(task: Mapping[str, Any]) -> str:
    """The form of the submission, a key of WRITE."""
    submission = task["submission"]
    if submission["parse"] != "number":
        return str({"rle": "mask", "text": "label"}.get(submission["parse"], submission["parse"]))
    if task["problem"] in ("forecasting", "reconstruction"):
        return "dense"
    if task["problem"] == "multiclass_classification" or (
        task["problem"] == "binary_classification" and len(submission["target"]) > 1
    ):
        return "probabilities"
    return "probability" if task["problem"] in ("binary_classification", "multilabel_classification") else "number"


def compose(task: Mapping[str, Any], model: str, imports: Sequence[str], quality: str) -> str:
    """The whole program; `quality` is rough or fine, or empty for one that reads no file."""
    parts, reading = _reading(task, quality)
    texts = [_part(name) for name in parts]
    imports = sorted(
        {*imports, *(line for lines, _ in texts for line in lines), "import pandas as pd"}, key=_import_key
    )
    bodies = [body for _, body in texts]
    writing = WRITE[form_of(task)]
    facts = {
        "most": "2500",
        "target": task["submission"]["target"][0],
        "query": query(task),
        "predicted": _predicted(task),
    }
    for name, value in facts.items():
        writing = writing.replace(f"{{{name}}}", value)
    head = "\n".join([*imports, "", f"model = {model}"])
    return "\n\n\n".join([head, *bodies, HEAD + reading + writing + 'sub.to_csv("submission.csv", index=False)\n'])


def query(task: Mapping[str, Any]) -> str:
    """The query column of a ranking, or an empty text."""
    if task["submission"]["parse"] == "ranked":
        return str(task["submission"]["id"][0])
    group = task["metric"].get("group")
    return group if isinstance(group, str) else ""


def _predicted(task: Mapping[str, Any]) -> str:
    # A rank correlation is undefined for constant predictions.
    return "model.predict(T) + 1e-6 * sub.index" if task["metric"].get("name") in RANKS else "model.predict(T)"


def _reading(task: Mapping[str, Any], quality: str) -> tuple[list[str], str]:
    """(names of the parts, the lines that compute X and T from `both`)."""
    form = form_of(task)
    if form in UNITS:
        return _units(task, form, quality or "rough")
    if not quality:
        return [], "X, T = [[0]] * len(train), [[0]] * len(test)\n"
    media = kinds(task)
    hidden = [*media, *([query(task)] if query(task) else [])]
    parts = [f"{quality}_cells", *(f"{quality}_{kind}" for kind in sorted(set(media.values())))]
    lines, more = "", sides(task)
    if more and quality == "fine":
        lines += f"both = joined(both, {more})\n"
    elif more:
        parts.append("rough_sides")
        lines += f"both = joined(both, {more})\n"
    frames = [f"cells(both, {hidden})" if hidden else "cells(both)"]
    for column, kind in media.items():
        # A multimodal task's files show its media, except for texts.
        maybe = ' if "text" in both else None' if column == "text" and task["modality"] == "multimodal" else ""
        frames.append(f'{_reader(kind)}(both["{column}"]){maybe}')
    lines += f"data = pd.concat([{', '.join(frames)}], axis=1)\n"
    if query(task) and quality == "fine":
        lines += f'data = pd.concat([data, data - data.groupby(both["{query(task)}"]).transform("mean")], axis=1)\n'
    lines += "data = ((data - data.mean()) / data.std().clip(1e-9)).fillna(0).clip(-5, 5).to_numpy()\n"
    if query(task) and quality == "fine" and task["submission"]["parse"] == "number":
        target = task["submission"]["target"][0]
        lines += f'train["{target}"] -= train.groupby("{query(task)}")["{target}"].transform("mean")\n'
    return parts, lines + "X, T = data[:len(train)], data[len(train):]\n"


def _units(task: Mapping[str, Any], form: str, quality: str) -> tuple[list[str], str]:
    """As _reading, for samples of many units: pixels, steps."""
    part = _unit_part(task, quality).stem
    if form == "mask":
        lines = "both = units(both)\nsize = both.shape[1]\ndata = both.reshape(-1, both.shape[2])\n"
        parts = ["masks", part]
    else:
        lines = (
            "goals, wanted = [c for c in train if c not in test], []\nboth, base, spread = units(both, goals, train)\n"
        )
        lines += "size = both.shape[1]\ndata = both.reshape(-1, both.shape[2])\n"
        parts = [part]
    lines += "data = np.clip((data - data.mean(axis=0)) / (data.std(axis=0) + 1e-9), -5, 5)\n"
    return parts, lines + "X, T = data[:len(train) * size], data[len(train) * size:]\n"


def _unit_part(task: Mapping[str, Any], quality: str) -> Path:
    kind = next(iter(kinds(task).values()), "table")
    return PARTS / f"{quality}_{kind}_{'mask' if form_of(task) == 'mask' else 'gap'}.py"


def _reader(kind: str) -> str:
    return {"image": "pictures", "audio": "sounds", "text": "words", "graph": "graphs", "series": "series"}[kind]


@functools.cache
def _part(name: str) -> tuple[list[str], str]:
    """(import lines, text) of a part."""
    text = (PARTS / f"{name}.py").read_text(encoding="utf-8")
    text = text.split('"""\n', 1)[1]
    imports = re.findall(r"^(?:import|from) .*$", text, re.MULTILINE)
    return imports, re.sub(r"^(?:import|from) .*\n", "", text, flags=re.MULTILINE).strip("\n")


def _import_key(line: str) -> tuple[bool, str]:
    return line.split()[1].split(".")[0] in ("numpy", "pandas", "scipy", "sklearn", "PIL"), line
