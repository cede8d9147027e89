"""Submissions made to be dear to grade, by the kind of cell that they abuse: for the tests and for docs/security.md.

Each is a file of so many bytes at most, against answers of ordinary size: one that is refused for its length, and ones
as long as is read, whose cells are the dearest of their kind.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mletools.grading.parsing import LIMITS

ROWS = 50
FULL = 33_000_000


@dataclass(frozen=True)
class Task:
    """Answers of ROWS rows, and a metric of them. `more` are further columns of the answers, `spec` of the submission."""

    kind: str
    cell: Callable[[int], str]
    params: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    rule: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  # answer_parse and the like
    more: dict[str, Callable[[int], str]] = field(default_factory=dict)
    prediction: Callable[[int], str] | None = None  # where the answer itself is none

    def record(self, metric: str) -> dict[str, Any]:
        """What the grader needs of a task record."""
        submission = {"id": ["id"], "target": ["y"], "parse": self.kind, "rows": ROWS, **self.spec}
        return {
            "submission": submission,
            "metric": {"name": metric, "params": self.params, **self.rule},
            **self.answers,
        }

    @property
    def targets(self) -> list[str]:
        """The columns to be predicted."""
        return self.spec.get("target", ["y"])

    def honest_cell(self, at: int) -> str:
        """A prediction of the right kind, but for numbers not the answer."""
        return (self.prediction or self.cell)(at)

    def honest(self) -> bytes:
        """A submission that is scored."""
        return self.file({at: self.honest_cell(at) for at in range(ROWS)})

    def file(self, cells: dict[int, str] | None = None) -> bytes:
        """The answers as a file, or a submission that has `cells` in the first target column of these rows."""
        columns = {name: [self.cell(at + place) for at in range(ROWS)] for place, name in enumerate(self.targets)}
        if cells is None:
            columns |= {name: [make(at) for at in range(ROWS)] for name, make in self.more.items()}
        for at, cell in (cells or {}).items():
            columns[self.targets[0]][at] = cell
        lines = [
            ",".join(f'"{cell}"' for cell in (str(at), *row))
            for at, row in enumerate(zip(*columns.values(), strict=True))
        ]
        return "\n".join([",".join(["id", *columns]), *lines, ""]).encode()


def _items(count: int, item: Callable[[int], str]) -> Callable[[int], str]:
    return lambda at: " ".join(item(place) for place in range(count))


TWO = {"target": ["y", "z"]}
GROUP = {"rule": {"group": "g"}, "more": {"g": lambda at: str(at % 2)}}
FLAT = ["score", "xmin", "ymin", "xmax", "ymax"]
SPACE = ["score", "center_x", "center_y", "center_z", "width", "length", "height", "yaw"]


def _number(metric_values: Callable[[int], str] = str, **more: Any) -> Task:
    return Task("number", metric_values, **more)


def _both(at: int) -> str:
    return str(at % 2)


IMAGE = {"height": 2000, "width": 2000}
_runs = _items(100, lambda place: f"{1 + 20 * place} 10")
_line_of_boxes = _items(100, lambda place: f"0.5 {place} 0 {place + 10} 10")
_bodies = _items(20, lambda place: f"0.5 {place} 0 0 9 9 9 0.1")
BINARY, LABELS = _number(_both), Task("label", _both)
NUMBER = _number(lambda at: str(at + 1))
JOINT = _number(_both, spec=TWO)
RANKED = Task("ranked", _items(10, str), {"k": 10})
MASKS = Task("rle", _runs, IMAGE)

TASKS: dict[str, Task] = {
    **dict.fromkeys(
        ("mae", "mse", "rmse", "median_absolute_error", "rmsle", "smape", "mape", "rmspe", "r2", "pearson", "spearman", "kendall_tau",
         "normalized_gini", "quadratic_weighted_kappa"), NUMBER),
    **dict.fromkeys(("auroc", "gini", "average_precision", "multilabel_log_loss", "brier_score", "probabilistic_f1"), BINARY),
    **dict.fromkeys(("lwlrap", "kl_divergence"), _number(lambda at: "1", spec=TWO)),
    **dict.fromkeys(("haversine_mean", "angular_error_mean", "laplace_log_likelihood"), JOINT),
    **dict.fromkeys(("pearson_rowwise", "spearman_rowwise"), JOINT),
    **dict.fromkeys(("log_loss", "balanced_log_loss"), _number(_both)),
    "haversine_quantiles": _number(_both, spec=TWO, **GROUP),
    **dict.fromkeys(("spearman_by_group", "log_mae_by_group"), _number(str, **GROUP, prediction=lambda at: str(at * at + 1))),
    "weighted_auroc": _number(_both, params={"tpr_thresholds": [0, 0.4, 1], "weights": [2, 1]}),
    "bias_auroc": _number(_both, params={"identity_columns": ["g"]}, more={"g": lambda at: str(at // 2 % 2)}),
    "weighted_multilabel_log_loss": _number(
        _both, params={"variable": "v", "variables": ["a"], "weights_neg": [1], "weights_pos": [1]}, rule={"group": "g"},
        more={"g": lambda at: str(at % 2), "v": lambda at: "a"}),
    **dict.fromkeys(
        ("accuracy", "error_rate", "balanced_accuracy", "fbeta", "f1_binary", "f1_micro", "f1_macro", "f1_weighted", "precision", "recall",
         "mcc", "cohen_kappa"), LABELS),
    "weighted_macro_recall": Task("label", _both, {"weights": {"0": 1, "1": 2}}, **GROUP),
    "nq_f1": Task("text", lambda at: f"{at}:{at + 9}"),
    "levenshtein": Task("text", lambda at: "word " * 2000),
    "jaccard_words": Task("text", lambda at: "word " * 2000),
    "levenshtein_per_token": Task("tokens", _items(1000, lambda place: str(place % 20))),
    "spearman_lists": Task("tokens", _items(5, str)),
    **dict.fromkeys(("jaccard_sets", "f1_sample_mean", "f1_multilabel_micro", "f1_multilabel_macro"), Task("tagset", _items(10, str))),
    **dict.fromkeys(("map_at_k", "ndcg_at_k"), RANKED),
    "mrr": Task("ranked", _items(10, str)),
    "kendall_tau_orders": Task("order", _items(1000, lambda place: f"c{place}")),
    **dict.fromkeys(("dice_mean", "dice_global", "fbeta_mask", "fbeta_mask_global", "iou_precision"), MASKS),
    "mask_fbeta_over_iou": Task("rle", _runs, IMAGE, {"several_rows": True}),
    "dice_hausdorff": Task(
        "rle", _items(100, lambda place: f"{1 + 200 * place} 10"), {"height": 200, "width": 200, "slice_column": "s"}, {}, {"group": "g"}, {},
        {"g": lambda at: str(at // 25), "s": lambda at: f"{at % 25:02}"}),
    "f1_char_spans": Task("spans", lambda at: ";".join(f"{20 * place} {20 * place + 10}" for place in range(20))),
    **dict.fromkeys(("map_coco", "map_voc", "box_iou_precision"), Task("boxes", _line_of_boxes, {}, {"fields": FLAT})),
    "point_in_box_f1": Task(
        "boxes", _items(100, lambda place: f"{place} 0 {place + 50} 50"), {}, {"fields": ["x", "y"]}, {},
        {"answer_fields": ["xmin", "ymin", "xmax", "ymax"]}),
    "map_3d": Task("boxes", _bodies, {}, {"fields": SPACE}),
}  # fmt: skip

Filling = Callable[[int], str]
# What fills a cell of each kind, item after item, and in words. Boxes: by the number of their fields, see fillings.
FILLINGS: dict[str, dict[str, Filling]] = {
    "number": {"digits": lambda at: "1", "zeros": lambda at: "0"},
    "label": {"one letter": lambda at: "x", "digits": lambda at: "1"},
    "text": {"words": lambda at: f"{at} ", "one letter": lambda at: "x", "emoji": lambda at: "\U0001f600"},
    "tokens": {"one token again and again": lambda at: "1 ", "different tokens": lambda at: f"{at} "},
    "tagset": {"one tag again and again": lambda at: "1 ", "different tags": lambda at: f"{at} "},
    "ranked": {"one item again and again": lambda at: "x ", "different items": lambda at: f"{at + 10} "},
    "order": {"one item again and again": lambda at: "c1 ", "different items": lambda at: f"c{at} "},
    "rle": {
        "one run again and again": lambda at: "1 1 ",
        "runs of one pixel": lambda at: f"{2 * at % 4_000_000 + 1} 1 ",
        "masks of one run": lambda at: f"{2 * at % 4_000_000 + 1} 1;",
    },
    "spans": {"one span again and again": lambda at: "0 5;", "disjoint spans": lambda at: f"{2 * at} {2 * at + 1};", "semicolons": lambda at: ";"},
}  # fmt: skip
BOXES: dict[int, dict[str, Filling]] = {
    2: {"one point again and again": lambda at: "9 9 ", "points in many boxes": lambda at: f"{at % 99} 9 "},
    5: {
        "one box again and again": lambda at: "1 0 0 9 9 ",
        "boxes that overlap many": lambda at: f".{at % 89} {at % 99} 0 {at % 99 + 9} 9 ",
    },
    8: {
        "one box again and again": lambda at: "1 0 0 0 9 9 9 0 ",
        "boxes that overlap many": lambda at: f".{at % 89} {at % 99} 0 0 9 9 9 .{at % 7} ",
    },
}
# How long the cells are, in words; rows of one cell that is longer than any that is read, and of all that is read.
FORMS = {"one cell of 32 MB": (1, FULL), "every cell of 600 KB": (ROWS, FULL), "one cell, as long as is read": (1, 0), "all cells, as long as is read": (ROWS, 0)}  # fmt: skip


def fillings(task: Task) -> dict[str, Filling]:
    """What may fill the task's cells."""
    return BOXES[len(task.spec["fields"])] if task.kind == "boxes" else FILLINGS[task.kind]


def submission(task: Task, filling: Filling, form: str, part: float = 1) -> bytes:
    """A file of FULL bytes at most whose cells look so; `part` of the length where that is as long as is read."""
    rows, size = FORMS[form]
    limit = LIMITS[task.kind]
    length = (
        int(part * min(limit.cell, limit.total // rows, FULL // rows - 100)) if not size else (size - 20_000) // rows
    )
    cell, at = "", 0
    while len(cell) < length:  # many items at a time
        cell, at = cell + "".join(map(filling, range(at, at + 100_000))), at + 100_000
    if size:
        cell = cell.encode()[:length].decode(errors="ignore")
    cell = cell[:length]
    ends = max(cell.rfind(end) for end in (filling(0)[-1], filling(1)[-1])) + 1  # no item is cut
    return task.file(dict.fromkeys(range(rows), cell[:ends]))


_several = Task("number", str, spec={"extra_rows": "ignore"})
# Files that are dear to read, whatever their cells mean.
FILES: dict[str, tuple[Task, Callable[[], bytes]]] = {
    "a first line of 11 million names": (NUMBER, lambda: b"ab," * (FULL // 3)),
    "a row of 11 million cells": (NUMBER, lambda: b"id,y\n" + b"ab," * (FULL // 3 - 9)),
    "a row of 11 million cells with lines in quotes": (NUMBER, lambda: (b"id,y\n" + (b"ab," * 1000 + b'"\n",') * (FULL // 3005))[:FULL]),
    "20,000 columns": (NUMBER, lambda: (",".join(f"c{at}" for at in range(19_999)) + ",c1\n" + ("1," * 19_999 + "1\n") * 820).encode()),
    "8 million rows": (NUMBER, lambda: b"id,y\n" + b"1,1\n" * 8_000_000),
    "8 million rows of an id that may have several": (_several, lambda: b"id,y\n" + b"1,1\n" * 8_000_000),
    "33 million empty lines": (NUMBER, lambda: b"id,y" + b"\n" * (FULL - 9)),
    "33 million carriage returns": (NUMBER, lambda: b"id,y" + b"\r" * (FULL - 9)),
    "one quoted cell that never ends": (NUMBER, lambda: b'id,y\n1,"' + b"\n" * (FULL - 9)),
    "doubled quotes": (NUMBER, lambda: b'id,y\n1,"' + b'"' * (FULL - 9)),
    "ids of 600 KB": (NUMBER, lambda: b"id,y\n" + b"".join(b"0" * 600_000 + b"%d,1\n" % at for at in range(ROWS))),
    "NUL bytes": (NUMBER, lambda: b"\0" * FULL),
    "blanks": (NUMBER, lambda: b" " * FULL),
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, str]]:
    """(metric, filling, form) of every submission that is tried."""
    for metric, task in TASKS.items():
        for filling in fillings(task):
            for form in FORMS:
                yield metric, filling, form
