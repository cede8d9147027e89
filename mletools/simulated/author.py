"""An author of tasks: plays the four roles of `mle-gen-task --source llm`, so that its path runs without a model.

Covered: tables whose number depends on three measures and a kind by one rule with an interaction; five stories. Not
covered: the seed task, whose likeness it does not read; other modalities and metrics.
"""

import json
import re
from typing import Any

from ..base.errors import ToolError
from ..models import Request

ROLES = ("strategist", "developer", "evaluator", "writer")
DNA = {
    "modality": "tabular",
    "problem": "regression",
    "inputs": [
        {"name": "feature_1", "nature": "number within a fixed range", "count": 3},
        {"name": "feature_2", "nature": "categorical with three levels", "count": 1},
    ],
    "target": {"kind": "number", "cardinality": "continuous", "distribution": "one mode"},
    "imbalance": "none",
    "metric_family": "absolute error",
    "size": {"rows": 120, "files": 4},
}
# domain, unit of observation, three measures (name, meaning, unit, least, most), the kind and its levels, the target
STORIES: tuple[tuple[str, str, tuple[tuple[str, str, str, int, int], ...], tuple[str, ...], tuple[str, str, str]], ...] = (
    ("sawmill", "board", (("moisture", "moisture on arrival", "%", 10, 60), ("thickness", "thickness", "mm", 18, 60),
     ("kiln_heat", "temperature of the kiln", "C", 40, 80)), ("species", "oak", "pine", "ash"),
     ("drying_days", "days until the board is dry", "days")),
    ("bakery", "loaf", (("proofing", "time of proofing", "min", 30, 180), ("water_share", "water by weight of flour", "%", 55, 85),
     ("oven_heat", "temperature of the oven", "C", 190, 260)), ("flour", "wheat", "rye", "spelt"),
     ("crumb_height", "height of the loaf", "mm")),
    ("beekeeping", "hive", (("frames", "frames with brood", "", 3, 11), ("distance", "distance to the meadow", "m", 50, 2500),
     ("rain", "rain in May", "mm", 10, 140)), ("race", "carnica", "buckfast", "ligustica"),
     ("harvest", "honey of the first harvest", "kg")),
    ("bicycle repair", "wheel", (("tension", "mean tension of the spokes", "N", 600, 1300), ("kilometres", "distance ridden", "km", 100, 9000),
     ("rider_weight", "weight of the rider", "kg", 48, 115)), ("rim", "alloy", "steel", "carbon"),
     ("wobble", "deviation of the rim", "0.01 mm")),
    ("choir", "concert", (("rehearsals", "rehearsals held", "", 4, 30), ("singers", "singers on stage", "", 12, 90),
     ("echo", "echo of the hall", "0.1 s", 8, 60)), ("repertoire", "baroque", "romantic", "modern"),
     ("applause", "length of the applause", "s")),
)  # fmt: skip
MUTATIONS = [
    {"type": "label noise", "spread": 0.4},
    {"type": "missing values", "share": 0.05},
    {"type": "outliers", "count": 2},
]
GENERATOR = """
import json

import numpy as np
import pandas as pd
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

rng = np.random.RandomState({seed})
total, tested = {rows}, round({rows} / 6)
measures, kind, levels = {measures!r}, {kind!r}, {levels!r}
table = pd.DataFrame({{"{key}": rng.permutation(90000)[:total] + 10000}})
z = rng.uniform(-1, 1, (total, 3))
for at, (name, low, high) in enumerate(measures):
    table[name] = (low + (high - low) * (z[:, at] + 1) / 2).round(1)
table[kind] = rng.choice(levels, total)
rule = 40 + 6 * z[:, 0] + 8 * z[:, 1] * (table[kind] == levels[0]) - 5 * (z[:, 2] > 0.2) + 3 * z[:, 1]
table["{target}"] = (rule + rng.normal(0, 0.4, total)).round(2)
odd = rng.permutation(total - tested)[:2] + tested
table.loc[odd, measures[2][0]] = (table.loc[odd, measures[2][0]] * 1.5).round(1)
table.loc[rng.uniform(size=total) < 0.05, measures[2][0]] = np.nan
test, train = table[:tested], table[tested:]
train.to_csv("train.csv", index=False)
test.drop(columns="{target}").to_csv("test.csv", index=False)
answer = test[["{key}", "{target}"]]
answer.to_csv("answer.csv", index=False)
answer.assign(**{{"{target}": rule[:tested].round(2)}}).to_csv("ceiling_submission.csv", index=False)
answer.assign(**{{"{target}": 30.0}}).to_csv("sample_submission.csv", index=False)
x = pd.get_dummies(table.drop(columns=["{key}", "{target}"])).astype(float)
x = x.fillna(x[tested:].median())
models = [
    DummyRegressor(strategy="median"),
    DecisionTreeRegressor(max_depth=2, random_state=0),
    LinearRegression(),
    ExtraTreesRegressor(100, random_state=0),
]
errors = [(m.fit(x[tested:], train["{target}"]).predict(x[:tested]) - test["{target}"]).abs().mean() for m in models]
names = ("median", "bronze", "silver", "gold")
with open("threshold.json", "w") as file:
    json.dump({{f"{{n}}_threshold": round(float(e), 4) for n, e in zip(names, sorted(errors, reverse=True))}}, file)
"""
EVALUATOR = """
import argparse
import json
import os

import pandas as pd

KEY, TARGET = {key!r}, {target!r}


def score(path):
    truth = pd.read_csv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "answer.csv"))
    guess = pd.read_csv(path)
    if list(guess.columns) != [KEY, TARGET]:
        raise ValueError("wrong columns")
    if sorted(guess[KEY]) != sorted(truth[KEY]):
        raise ValueError("wrong ids")
    both = truth.merge(guess, on=KEY, suffixes=("_true", ""))
    if both[TARGET].isna().any():
        raise ValueError("empty cells")
    return float((both[TARGET] - both[TARGET + "_true"]).abs().mean())


try:
    parser = argparse.ArgumentParser()
    parser.add_argument("--submission_path", default="sample_submission.csv")
    value = score(parser.parse_args().submission_path)
    print(json.dumps({{"score": value, **{thresholds}, "is_lower_better": True}}))
except Exception as error:
    print(json.dumps({{"error": str(error)}}))
"""


def reply(request: Request) -> str:
    """The author's reply in the role of a request, such as "strategist.dna". ToolError for an unknown role."""
    prompt = request.messages[0]["content"]
    kind = request.role.removeprefix("strategist.")
    if kind == "dna":
        return _fenced(DNA)
    if kind == "scenarios":
        return _fenced([_scenario(at) for at in range(len(STORIES))])
    if kind == "mutations":
        return _fenced(MUTATIONS)
    if kind == "specification":
        return _fenced(_specification(prompt))
    if kind == "developer":
        return _generator(prompt, request.seed)
    if kind == "evaluator":
        return _evaluator(prompt)
    if kind == "writer":
        return _page(prompt)
    raise ToolError(f"scripted: no author for the role {request.role!r}")


def _fenced(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=1)}\n```"


def _scenario(at: int) -> dict[str, str]:
    domain, unit, measures, kinds, target = STORIES[at]
    names = ", ".join(meaning for _, meaning, *_ in measures)
    return {
        "domain": domain,
        "scenario": f"In {domain}, people note {names} and the {kinds[0]} of each {unit} and predict {target[1]}.",
        "justification": f"The {unit} is the row, the measures are the numbers, and the {kinds[0]} is the category.",
    }


def _specification(prompt: str) -> dict[str, object]:
    rows = int(_found(r'"n_samples": the number (\d+)', prompt))
    domain, unit, measures, kinds, target = next(
        story for story in STORIES if f'"domain":"{story[0]}"' in prompt.replace('": "', '":"')
    )
    features = {
        name: {"meaning": meaning, "unit": of, "generation": f"uniform from {low} to {high}"}
        for name, meaning, of, low, high in measures
    }
    features[kinds[0]] = {"meaning": f"{kinds[0]} of the {unit}", "unit": "", "generation": ", ".join(kinds[1:])}
    return {
        "name": f"{domain} {target[0]}".replace("_", " "),
        "title": f"{target[1].capitalize()}",
        "context": f"In {domain}, each {unit} is measured beforehand. One row is one {unit}; the outcome comes later.",
        "modality": "tabular",
        "problem": "regression",
        "n_samples": rows,
        "feature_mapping": features,
        "target": {"column": target[0], "meaning": target[1], "labels": None},
        "hidden_rule_logic": f"40 + 6 {measures[0][0]} + 3 {measures[1][0]}, 8 {measures[1][0]} more for {kinds[1]}, minus 5 "
        f"where {measures[2][0]} lies above six tenths of its range; every measure scaled to -1..1; noise 0.4",
        "submission": {"id": f"{unit}_id", "columns": [target[0]]},
        "metric": {"name": "mae"},
        "lower_is_better": True,
        "thresholds_logic": {
            "median": "constant", "bronze": "shallow tree", "silver": "linear model", "gold": "extra trees"
        },
    }  # fmt: skip


def _generator(prompt: str, seed: int) -> str:
    wanted = json.loads(_found(r"```json\n(.*?)\n```", prompt))
    ranges = {name: re.findall(r"-?\d+", each["generation"]) for name, each in wanted["feature_mapping"].items()}
    kind = list(ranges)[-1]
    code = GENERATOR.format(
        seed=seed % 2**31,
        rows=wanted["n_samples"],
        measures=[(name, int(low), int(high)) for name, (low, high) in list(ranges.items())[:-1]],
        kind=kind,
        levels=wanted["feature_mapping"][kind]["generation"].split(", "),
        key=wanted["submission"]["id"],
        target=wanted["target"]["column"],
    )
    return f"```python{code}```"


def _evaluator(prompt: str) -> str:
    wanted = json.loads(_found(r"```json\n(.*?)\n```", prompt))
    thresholds = _found(r"stand as constants in the script: (\{.*?\})", prompt)
    code = EVALUATOR.format(key=wanted["submission"]["id"], target=wanted["target"]["column"], thresholds=thresholds)
    return f"```python{code}```"


def _page(prompt: str) -> str:
    facts = dict(re.findall(r"^- (title|context|features|target|metric): (.*)$", prompt, re.MULTILINE))
    features, target = json.loads(facts["features"]), json.loads(facts["target"])
    key = _found(r"the id column is `(\w+)`", prompt)
    rows = [f"| `{name}` | {each['meaning']} | {each['unit']} |" for name, each in features.items()]
    lines = [
        f"# {facts['title']}", "", facts["context"], "", f"Predict `{target['column']}`: {target['meaning']}.", "",
        "## Files", "", "In `./input/`: `train.csv`, `test.csv`, `sample_submission.csv` and `description.md`.", "",
        "## Columns", "", "| column | meaning | unit |", "|---|---|---|", f"| `{key}` | number of the row | |", *rows,
        f"| `{target['column']}` | {target['meaning']} | |", "", "Some cells are empty.", "",
        "## Metric", "", f"`mae`: {facts['metric'].partition('. ')[2]}", "", "Lower is better.", "",
        "## Submission", "", f"Write `./submission.csv` with the columns `{key}` and `{target['column']}`, one row for each "
        "row of `test.csv`:", "", "```", _found(r"sample submission:\n\n```\n(.*?)\n```", prompt), "```",
    ]  # fmt: skip
    return "\n".join(lines)


def _found(pattern: str, prompt: str) -> str:
    found = re.search(pattern, prompt, re.DOTALL)
    if found is None:
        raise ToolError("scripted: the author does not know this prompt")
    return found[1]
