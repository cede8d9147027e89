"""Answers and predictions drawn for every known competition, in the form that it asks for."""

import csv
import io
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mletools.grading import Verdict, answer_spec, grade
from mletools.grading.metrics import METRICS
from mletools.tasks.importing.competitions import FILE

ENTRIES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]

RECORDS = {f"{each['benchmark']}/{each['competition']}": each for each in ENTRIES if each["support"] == "record"}

ROWS = 48

SIDE = 20  # of the images whose size stands in the answers

BINARY = {"auroc", "gini", "weighted_auroc", "probabilistic_f1", "lwlrap", "weighted_multilabel_log_loss"}

SHARES = {"log_loss", "balanced_log_loss", "kl_divergence"}  # one probability a class

GRADES = {"quadratic_weighted_kappa", "normalized_gini"}

UNIT = {"bias_auroc", "angular_error_mean"}  # answers from 0 to 1

LABELS = (("0", "1", "2"), ("False", "True"), ("Black-grass", "Common wheat", "Maize"))

WORDS = [f"w_{at:04}" for at in range(12)]

# What an id looks like, for each pattern that finds a group in it.
GROUPED: dict[str, Callable[[int, Any], str]] = {
    "^(.*?)_slice_": lambda at, params: f"case{at // 4}_day0_slice_{at % 4:04}",
    "^[^_]*_[^_]*_(.*)$": lambda at, params: f"Test_{at // 3}_{sorted(params['weights'])[at % 3]}",
    "^(.*?)_": lambda at, params: f"1.2.826.{at // 8}_{params['variables'][at % 8]}",
}

Record = dict[str, Any]

Draws = np.random.RandomState

Prediction = list[list[str]]  # of one row of the answers: target cells, in several rows where the record allows that


def record_of(entry: Record) -> Record:
    """The grading part of a task; ids and targets of a made-up sample submission where the entry names none."""
    submission = {"id": ["row_id"], "target": [f"class_{at}" for at in range(4)], **entry["submission"], "rows": ROWS}
    return {**entry, "submission": submission, "answers": "answers.csv"}


def numbers(name: str, count: int, draws: Draws) -> list[Any]:
    """The true numbers of one row."""
    if name in BINARY or (name in SHARES and count == 1):
        return draws.randint(2, size=count).tolist()
    if name == "kl_divergence":
        return [1, *draws.randint(8, size=count - 1).tolist()]
    if name in SHARES:
        return np.eye(count, dtype=int)[draws.randint(count)].tolist()
    if name in GRADES:
        return draws.randint(1, 6, size=count).tolist()
    return (draws.rand(count) if name in UNIT else draws.uniform(1, 90, count)).tolist()


def truth_of(record: Record, draws: Draws) -> list[str]:
    """The target cells of one row of the answers."""
    spec = answer_spec(record)
    if spec["parse"] == "number":
        return [str(value) for value in numbers(record["metric"]["name"], len(spec["target"]), draws)]
    return [cell_of(record, spec, draws) for _ in spec["target"]]


def cell_of(record: Record, spec: Record, draws: Draws) -> str:
    kind, name, params = spec["parse"], record["metric"]["name"], record["metric"]["params"]
    both_empty = params.get("both_empty", METRICS[name].params.get("both_empty", 1))
    may_be_empty = both_empty == 1 and {"empty_ok", "empty_marker"} & record["submission"].keys()
    if kind in ("rle", "spans", "boxes") and may_be_empty and draws.rand() < 0.2:
        return str(spec.get("empty_marker", ""))
    if kind == "rle":
        lines = np.sort(draws.choice(SIDE, draws.randint(1, 5), replace=False))
        return " ".join(f"{SIDE * line + draws.randint(1, 6)} {draws.randint(1, 15)}" for line in lines)
    if kind == "spans":
        return str([f"{at} {at + draws.randint(1, 30)};{at + 40} {at + 50}" for at in draws.randint(0, 90, 2)])
    if kind == "boxes":
        return " ".join(box_of(spec["fields"], place, draws) for place in range(draws.randint(1, 5)))
    if kind == "label":
        known: Any = LABELS[zlib.crc32(record["competition"].encode()) % len(LABELS)]
        if record["submission"]["parse"] == "ranked":
            known = WORDS
        elif name in ("f1_binary", "mcc"):
            known = ["0", "1"]
        return str(draws.choice(spec.get("labels") or params.get("classes") or known))
    if name == "spearman_lists":
        return " ".join(map(str, draws.permutation(5) + 1))
    words = draws.choice(WORDS, draws.randint(2, 7), replace=kind in ("text", "tokens"))
    return (spec.get("separator") or " ").join(words)


def box_of(fields: Sequence[str], place: int, draws: Draws) -> str:
    """One true box, in the plane or in space, apart from those of other places."""
    x, y = 40 * place + draws.randint(1, 6), draws.randint(1, 6)
    width, height, length = draws.randint(10, 20, size=3)
    box = {"label": draws.randint(3), "score": 1.0, "yaw": round(draws.rand(), 3), "center_z": -0.5}
    box |= {"x": x, "y": y, "xmin": x, "ymin": y, "xmax": x + width, "ymax": y + height}
    box |= {"center_x": x, "center_y": y, "width": width, "height": height, "length": length}
    assert box.keys() >= set(fields), f"no metric knows the fields {set(fields) - box.keys()}"
    return " ".join(str(box[field]) for field in fields)


def id_columns(record: Record, draws: Draws) -> dict[str, list[str]]:
    """Numbers, codes or sentences, or what a pattern of the metric wants; some repeat where they may."""
    spec, group = record["submission"], record["metric"].get("group")
    form = ("{}", "a{:03x}.png", 'no "{}", it\nis')[draws.randint(3)]
    columns = {}
    for place, name in enumerate(spec["id"]):
        known = list(range(ROWS))
        if len(spec["id"]) > 1:
            known = [at % 3 if place else at // 3 for at in known]
        elif spec.get("repeated_ids"):
            known = [at - (at % 3 == 2) for at in known]
        if isinstance(group, dict) and group["column"] == name:
            columns[name] = [GROUPED[group["pattern"]](at, record["metric"]["params"]) for at in known]
        else:
            columns[name] = [form.format(7 + at * 13) for at in known]
    return columns


def answers_of(record: Record, draws: Draws) -> tuple[dict[str, list[str]], set[int]]:
    """(the columns of the answers, the rows that metric.where leaves out)."""
    metric, target = record["metric"], answer_spec(record)["target"]
    truth = [truth_of(record, draws) for _ in range(ROWS)]
    columns = id_columns(record, draws) | dict(zip(target, map(list, zip(*truth, strict=True)), strict=True))
    more: dict[str, Sequence[str]] = {"Usage": ("Private", "Public")}
    more |= {name: ("0.0", "1.0", "0.7", "") for name in metric["params"].get("identity_columns", ())}
    more |= {column: (str(SIDE),) for name, column in metric["params"].items() if name.endswith("_column")}
    for name, drawn in (("group", ("1JHC", "2JHH", "3JHN")), ("weight", ("0.5", "1", "2.25"))):
        more |= {metric[name]: drawn} if isinstance(metric.get(name), str) else {}
    for name, values in more.items():
        columns.setdefault(name, draws.choice(values, ROWS).tolist())
    out: set[int] = set()
    for rule in metric.get("where", ()):
        out |= last_left_out(columns, rule, out) if "last" in rule else some_left_out(columns, rule, target, draws)
    return columns, out


def some_left_out(columns: dict[str, list[str]], rule: Record, target: list[str], draws: Draws) -> set[int]:
    """Writes into `columns` what makes some rows fail the condition, and the others pass; the rows that fail."""
    out = {at for at in range(ROWS) if draws.rand() < 0.25}
    if "greater" in rule:
        passing, failing = rule["greater"] + 0.01, rule["greater"]
    elif "not_equals" in rule:
        passing, failing = "other", rule["not_equals"]
    else:
        passing = rule["in"][0] if "in" in rule else rule["equals"]
        failing = {"True": "False", "False": "True", 0: 1, 1: 0}.get(passing, "other")
    cells = columns.setdefault(rule["column"], [str(passing)] * ROWS)
    for each in [columns[name] for name in target] if rule["column"] in target else [cells]:
        each[:] = [str(failing) if at in out else cell for at, cell in enumerate(each)]
    return out


def last_left_out(columns: dict[str, list[str]], rule: Record, out: set[int]) -> set[int]:
    groups = columns.setdefault(rule["of"], [f"patient {at * 5 % 7}" for at in range(ROWS)])
    left = [at for at in range(ROWS) if at not in out]
    return {at for at in left if sum(groups[later] == groups[at] for later in left if later > at) >= rule["last"]}


def perfect_of(record: Record, truth: list[str], draws: Draws) -> Prediction:
    """The best prediction for the true cells of a row."""
    spec, name, params = record["submission"], record["metric"]["name"], record["metric"]["params"]
    if name == "laplace_log_likelihood":
        return [[truth[0], "70"]]
    if name == "log_mae_by_group":
        return [[str(float(truth[0]) + 1e-6)]]  # no error at all has no logarithm
    if "classes" in params:
        return [["1" if known == truth[0] else "0" for known in params["classes"]]]
    if name == "kl_divergence":
        return [[str(int(votes) / sum(map(int, truth))) for votes in truth]]
    if spec["parse"] == "number":
        return [truth]
    return written(spec, [items_of(record, cell, draws) for cell in truth])


def written(spec: Record, cells: list[list[str]]) -> Prediction:
    """A prediction from the items of each target cell."""
    if spec.get("several_rows") and cells[0]:
        return [[item] for item in cells[0]]
    nothing = "" if spec.get("empty_ok") else spec.get("empty_marker", "")
    glue = ";" if spec["parse"] == "spans" else spec.get("separator", " ")
    return [[glue.join(items) or nothing for items in cells]]


def items_of(record: Record, cell: str, draws: Draws) -> list[str]:
    """The items of a perfect prediction for a true cell, the cell itself where its kind has no items."""
    spec, true = record["submission"], answer_spec(record)
    if cell in ("", true.get("empty_marker")):
        return []
    if spec["parse"] == "spans":
        return re.findall(r"\d+ \d+", cell)
    if spec["parse"] in ("tagset", "ranked", "tokens", "order"):
        return cell.split(true.get("separator") or " ")
    if spec["parse"] != "boxes":
        return [cell]
    values, width, found = cell.split(), len(true["fields"]), []
    for at in range(0, len(values), width):
        box: Record = dict(zip(true["fields"], values[at : at + width], strict=True))
        if record["metric"]["name"] == "point_in_box_f1":
            box |= {x: float(box[x]) + float(box[size]) / 2 for x, size in (("x", "width"), ("y", "height"))}
        box["score"] = round(draws.uniform(0.1, 1), 3)
        found.append(" ".join(str(box[field]) for field in spec["fields"]))
    return found


def guess_of(record: Record, truth: list[str], draws: Draws) -> Prediction:
    """A random prediction, of most kinds the perfect one for another truth."""
    spec, name = record["submission"], record["metric"]["name"]
    count = len(spec["target"])
    if name in SHARES and count > 1:
        return [[str(share) for share in draws.dirichlet([1] * count).tolist()]]
    if name in BINARY | SHARES:
        return [[str(value) for value in draws.rand(count).tolist()]]
    if spec["parse"] == "order":
        return [[" ".join(draws.permutation(cell.split())) for cell in truth]]
    if spec["parse"] == "ranked":
        return written(spec, [draws.choice(WORDS, 4, replace=False).tolist()])
    if spec.get("empty_ok") and draws.rand() < 0.1:
        return [[""] * count]
    prediction = perfect_of(record, truth_of(record, draws), draws)
    if spec["parse"] == "rle" and spec.get("several_rows"):
        return [[run] for run in re.findall(r"\d+ \d+", prediction[0][0])] or prediction
    return prediction


def table(header: list[str], rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


@dataclass
class Made:
    """Answers in a folder, and predictions for each of their rows."""

    record: Record
    folder: Path
    ids: list[list[str]]
    perfect: list[Prediction]
    guess: list[Prediction]
    left_out: set[int]

    def rows(self, predictions: list[Prediction]) -> list[list[str]]:
        return [[*key, *cells] for key, each in zip(self.ids, predictions, strict=True) for cells in each]

    def verdict(self, rows: list[list[str]], *more: str) -> Verdict:
        """On a submission of these rows with more columns."""
        header = [*self.record["submission"]["id"], *self.record["submission"]["target"], *more]
        return grade(self.record, self.folder, table(header, [[*row, *more] for row in rows]))

    def score(self, rows: list[list[str]]) -> float:
        verdict = self.verdict(rows)
        assert verdict.score is not None, verdict.reason
        return verdict.score


def made_of(name: str, tmp_path: Path) -> Made:
    record, draws = record_of(RECORDS[name]), Draws(zlib.crc32(name.encode()))
    columns, out = answers_of(record, draws)
    (tmp_path / "answers.csv").write_bytes(table([*columns], list(zip(*columns.values(), strict=True))))
    ids = [list(each) for each in zip(*(columns[name] for name in record["submission"]["id"]), strict=True)]
    truth = [list(each) for each in zip(*(columns[name] for name in answer_spec(record)["target"]), strict=True)]
    guess = [guess_of(record, cells, draws) for cells in truth]
    perfect = [guess[at] if at in out else perfect_of(record, cells, draws) for at, cells in enumerate(truth)]
    return Made(record, tmp_path, ids, perfect, guess, out)
