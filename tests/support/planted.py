"""Small tasks that are clean, and functions that plant one kind of leak each into the files of such a task.

A planting function takes the Small task and gives another one; `check` of PLANTS names the check that must find it.
"""

import csv
import io
import json
import math
import struct
import wave
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mletools.tasks.table import csv_bytes

MODALITIES = ("tabular", "image", "audio", "text", "graph")
PROBLEMS = ("binary", "multiclass", "regression", "probabilities", "multilabel")
FOLDERS = {
    "image": ("images", "png"),
    "audio": ("clips", "wav"),
    "text": ("documents", "txt"),
    "graph": ("graphs", "csv"),
}
LABELS = {"binary": ["ash", "elm"], "multiclass": ["ash", "elm", "oak"], "probabilities": ["ash", "elm", "oak"]}
Table = dict[str, list[str]]


@dataclass(frozen=True)
class Small:
    """A task in memory: its record and all files of its folder."""

    task: dict[str, Any]
    files: dict[str, Any]

    def table(self, name: str) -> Table:
        header, *rows = csv.reader(io.StringIO(self.files[name].decode()))
        return {column: list(cells) for column, cells in zip(header, zip(*rows, strict=True), strict=True)}

    def having(self, tables: dict[str, Table] | None = None, **files: Any) -> "Small":
        """With these tables and files instead."""
        new = {name: csv_bytes(list(table), list(table.values())) for name, table in (tables or {}).items()}
        return replace(self, files={**self.files, **new, **files})


def png(pixels: Any, chunks: bytes = b"", tail: bytes = b"") -> bytes:
    """A grey picture that is not compressed, so that its size tells nothing; `chunks` come before its end."""
    high, wide = pixels.shape
    lines = b"".join(b"\0" + bytes(row) for row in pixels.astype(np.uint8))
    head = struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 0)) + chunks + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body + tail


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def wav(samples: Any) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(2000)
        file.writeframes((samples * 12000).astype("<i2").tobytes())
    return out.getvalue()


def _asset(modality: str, level: float, draws: np.random.RandomState) -> bytes:
    """A file whose content follows `level`, in [0, 1], with noise."""
    if modality == "image":
        return png(np.clip(draws.normal(60 + 120 * level, 40, (16, 16)), 0, 255))
    if modality == "audio":
        return wav(np.sin(np.arange(600) * (0.05 + 0.3 * level)) * 0.5 + draws.normal(0, 0.1, 600))
    if modality == "text":
        words = draws.choice(["river", "stone", "cloud", "grass", "night"], 30 + int(60 * level))
        return (" ".join(words) + ".\n").encode()
    edges = {tuple(sorted(draws.choice(12, 2, replace=False))) for _ in range(8 + int(30 * level))}
    return csv_bytes(["a", "b"], [[str(edge[at]) for edge in sorted(edges)] for at in (0, 1)])


def clean(
    modality: str = "tabular", problem: str = "binary", rows: int = 60, seed: int = 0, by_id: bool = False
) -> Small:
    """A task without leaks; `by_id`: the rows' files are found by the id, not by a column."""
    draws = np.random.RandomState(seed)
    level = draws.permutation(np.linspace(0, 1, rows))
    ids = [str(number) for number in 100000 + draws.permutation(900000)[:rows]]
    noisy = np.clip(level + draws.normal(0, 0.1, rows), 0, 1)
    targets, asked = _targets(problem, noisy, draws)
    table: Table = {"id": ids}
    files: dict[str, bytes] = {}
    if modality == "tabular":
        for name in ("height_cm", "width_cm", "depth_cm"):
            table[name] = [f"{value:.3f}" for value in 10 * level + draws.normal(0, 3, rows)]
        table["soil"] = list(draws.choice(["clay", "sand", "loam"], rows))
    else:
        folder, ending = FOLDERS[modality]
        stems = ids if by_id else [str(number) for number in 100000 + draws.permutation(900000)[:rows]]
        names = [f"{folder}/{stem}.{ending}" for stem in stems]
        table.update({} if by_id else {"file": names}, weight_kg=[f"{value:.2f}" for value in draws.gamma(2, 3, rows)])
        files = {f"public/{name}": _asset(modality, value, draws) for name, value in zip(names, level, strict=True)}
    first = round(rows * 0.66)

    def part(columns: Table, train: bool) -> Table:
        return {name: cells[:first] if train else cells[first:] for name, cells in columns.items()}

    shown = {"species": asked["classes"]} if problem == "probabilities" else targets
    answers = {"id": ids, **targets}
    constants = {name: [asked["constant"]] * rows for name in targets}
    small = Small(_record(modality, problem, targets, asked["spec"], rows - first, list(table), list(shown)), files)
    return small.having(
        {
            "public/train.csv": part({**table, **shown}, True),
            "public/test.csv": part(table, False),
            "public/sample_submission.csv": part({"id": ids, **constants}, False),
            "private/answers.csv": part(answers, False),
        },
        **{"public/description.md": small.task["description"].encode()},
    )


def _targets(problem: str, level: Any, draws: np.random.RandomState) -> tuple[Table, dict[str, Any]]:
    """(the columns of the answers, how they are asked for)."""
    if problem == "regression":
        return {"yield_kg": [f"{20 + 30 * value:.3f}" for value in level]}, {
            "constant": "35",
            "spec": {"parse": "number"},
        }
    if problem == "multilabel":
        marks = {
            name: [str(int(value)) for value in level + draws.normal(0, 0.2, len(level)) > cut]
            for name, cut in (("ripe", 0.4), ("sweet", 0.6))
        }
        return marks, {"constant": "0.5", "spec": {"parse": "number", "range": [0, 1]}}
    labels = LABELS[problem]
    classes = [labels[min(int(value * len(labels)), len(labels) - 1)] for value in level]
    if problem == "probabilities":
        hot = {f"prob_{label}": [str(int(label == each)) for each in classes] for label in labels}
        spec = {"parse": "number", "range": [0, 1], "row_sum": 1}
        return hot, {"constant": "0.333333", "classes": classes, "spec": spec}
    return {"species": classes}, {"constant": "ash", "spec": {"parse": "label", "labels": labels}}


METRICS = {"regression": "rmse", "multilabel": "auroc", "probabilities": "log_loss"}
# dummy, median, bronze, silver, gold, ceiling: places on the way from bad to good.
STEPS = {"rmse": (11.0, 8.0, 7.0, 6.0, 5.0, 4.0), "log_loss": (1.09861, 0.9, 0.8, 0.7, 0.6, 0.5)}
OTHERS = (0.5, 0.75, 0.8, 0.85, 0.9, 0.95)


def _record(
    modality: str, problem: str, targets: Table, spec: dict[str, Any], rows: int, columns: list[str], shown: list[str]
) -> dict[str, Any]:
    metric = METRICS.get(problem, "accuracy")
    dummy, median, bronze, silver, gold, ceiling = STEPS.get(metric, OTHERS)
    scores = {"dummy": dummy, "linear": bronze, "tuned_ensemble": silver, "right_features": gold}
    scores |= {"single_feature": median, "ceiling": ceiling}
    named = ", ".join(f"`{name}`" for name in dict.fromkeys([*columns, *shown, *targets]))
    folder = f" The files are in {FOLDERS[modality][0]}/." if modality in FOLDERS else ""
    return {
        "kind": "task",
        "version": 1,
        "id": f"{modality}-{problem}",
        "lineage": [],
        "name": "trees",
        "description": f"# Trees\n\ntrain.csv, test.csv and sample_submission.csv have the columns {named}.{folder}\n",
        "modality": modality,
        "problem": problem,
        "data": {"dir": f"tasks/{modality}-{problem}", "public": [], "digest": "", "private_digest": ""},
        "submission": {"id": ["id"], "target": list(targets), "rows": rows, **spec},
        "metric": {"name": metric, "params": {}, "lower_is_better": metric in ("rmse", "log_loss")},
        "answers": "private/answers.csv",
        "thresholds": {"median": median, "bronze": bronze, "silver": silver, "gold": gold},
        "provenance": {
            "source": modality,
            "seed": 0,
            "baselines": [{"name": name, "score": score} for name, score in scores.items()],
            "hidden_rule": "0.9 x [level of the ground water, more is higher] + 0.4 x [age above 12.5 years is higher]",
        },
    }


def truth(small: Small) -> list[float]:
    """The first target of every row of train, then of test, as a number or the code of its class."""
    train, answers = small.table("public/train.csv"), small.table("private/answers.csv")
    name = next(iter(small.task["submission"]["target"]))
    if name.startswith("prob_"):
        cells = train["species"] + [
            max(LABELS["probabilities"], key=lambda label: float(answers[f"prob_{label}"][at]))
            for at in range(len(answers["id"]))
        ]
    else:
        cells = train[name] + answers[name]
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        codes = sorted(set(cells))
        return [float(codes.index(cell)) for cell in cells]


def codes(small: Small, most: int = 3) -> list[int]:
    """The first target as one of a few codes: its class, or its third of the numbers."""
    values = truth(small)
    if len(set(values)) <= most:
        return [int(value) for value in values]
    order = sorted(values)
    return [min(most - 1, order.index(value) * most // len(order)) for value in values]


def _renamed(small: Small, new: list[str]) -> Small:
    """With these ids, of train and then of test."""
    train = small.table("public/train.csv")
    old = train["id"] + small.table("public/test.csv")["id"]
    place = dict(zip(old, new, strict=True))
    names = [name for name in small.files if name.endswith(".csv") and "/graphs/" not in name]
    tables = {name: small.table(name) for name in names}
    for table in tables.values():
        if "id" in table:
            table["id"] = [place.get(cell, cell) for cell in table["id"]]
    files = {}
    for name, content in small.files.items():
        stem = name.rsplit("/", 1)[-1].split(".")[0]
        files[name.replace(stem, place[stem]) if stem in place else name] = content
    return Small(small.task, files).having(tables)


def ids_modulo(small: Small) -> Small:
    marks, draws = codes(small), np.random.RandomState(1)
    base = 30000 + draws.permutation(60000)[: len(marks)]
    return _renamed(small, [str(3 * int(number) + mark) for number, mark in zip(base, marks, strict=True)])


def ids_sorted(small: Small) -> Small:
    order = np.argsort(np.argsort(truth(small), kind="stable"))
    return _renamed(small, [str(100000 + 7 * int(place)) for place in order])


def ids_worded(small: Small) -> Small:
    marks = codes(small)
    draws = np.random.RandomState(1)
    return _renamed(small, [f"{'kqz'[mark]}{number}" for mark, number in zip(marks, draws.permutation(90000) + 10000, strict=False)])  # fmt: skip


def _reordered(small: Small, name: str, order: Any) -> dict[str, Table]:
    return {name: {column: [cells[at] for at in order] for column, cells in small.table(name).items()}}


def _order(small: Small, train: bool, arrange: Callable[[list[float]], Any]) -> dict[str, Table]:
    values, first = truth(small), len(small.table("public/train.csv")["id"])
    part = values[:first] if train else values[first:]
    return _reordered(small, f"public/{'train' if train else 'test'}.csv", arrange(part))


def rows_sorted(small: Small) -> Small:
    by = lambda values: np.argsort(values, kind="stable")  # noqa: E731
    return small.having({**_order(small, True, by), **_order(small, False, by)})


def rows_in_turn(small: Small) -> Small:
    """The low ones and the high ones take turns, as far as both are there."""

    def turns(values: list[float]) -> list[int]:
        order = [int(at) for at in np.argsort(values, kind="stable")]
        half = len(order) // 2
        low, high = order[:half], order[half:]
        return [at for pair in zip(low, high, strict=False) for at in pair] + high[half:]

    return small.having({**_order(small, True, turns), **_order(small, False, turns)})


def rows_in_blocks(small: Small) -> Small:
    """Rows of one kind stand together, in many short blocks."""

    def blocks(values: list[float]) -> list[int]:
        order = np.argsort(values, kind="stable")
        pieces = [list(order[at : at + 4]) for at in range(0, len(order), 4)]
        return [int(at) for piece in np.random.RandomState(2).permutation(len(pieces)) for at in pieces[piece]]

    return small.having({**_order(small, True, blocks), **_order(small, False, blocks)})


def _files(small: Small) -> list[str]:
    """The names of the rows' files, of train and then of test."""
    tables = [small.table(f"public/{part}.csv") for part in ("train", "test")]
    if "file" in tables[0]:
        return [f"public/{name}" for table in tables for name in table["file"]]
    folder, ending = FOLDERS[small.task["modality"]]
    return [f"public/{folder}/{key}.{ending}" for table in tables for key in table["id"]]


def _with_names(small: Small, stems: list[str]) -> Small:
    old = _files(small)
    place = {
        name: f"{name.rsplit('/', 1)[0]}/{stem}.{name.rsplit('.', 1)[1]}" for name, stem in zip(old, stems, strict=True)
    }
    files = {place.get(name, name): content for name, content in small.files.items()}
    tables = {}
    for part in ("train", "test"):
        table = small.table(f"public/{part}.csv")
        table["file"] = [place[f"public/{name}"].removeprefix("public/") for name in table["file"]]
        tables[f"public/{part}.csv"] = table
    return Small(small.task, files).having(tables)


def names_modulo(small: Small) -> Small:
    marks, draws = codes(small), np.random.RandomState(1)
    base = 30000 + draws.permutation(60000)[: len(marks)]
    return _with_names(small, [str(3 * int(number) + mark) for number, mark in zip(base, marks, strict=True)])


def names_sorted(small: Small) -> Small:
    order = np.argsort(np.argsort(truth(small), kind="stable"))
    return _with_names(small, [f"{place:06d}" for place in order])


def _changed(small: Small, change: Callable[[bytes, int], bytes]) -> Small:
    marks = codes(small)
    new = {name: change(small.files[name], mark) for name, mark in zip(_files(small), marks, strict=True)}
    return small.having(**new)


def _wordy(kind: str, content: bytes, note: bytes, riff: bytes = b"ICMT") -> bytes:
    """The file with a note that no reader of its content sees."""
    if kind == "image":
        end = content.rindex(b"IEND") - 4
        return content[:end] + chunk(b"tEXt", b"Comment\0" + note) + content[end:]
    if kind == "audio":
        note += b" " * (len(note) % 2)
        extra = b"LIST" + struct.pack("<I", 12 + len(note)) + b"INFO" + riff + struct.pack("<I", len(note)) + note
        return content[:4] + struct.pack("<I", len(content) - 8 + len(extra)) + content[8:] + extra
    return b"# " + note + b"\n" + content


def sizes_padded(small: Small) -> Small:
    """Bytes after the end of a picture or sound, blanks at the end of a text."""
    blank = b" " if small.task["modality"] in ("text", "graph") else b"\0"
    return _changed(small, lambda content, mark: content + blank * (mark * 5))


def notes_written(small: Small) -> Small:
    draws = np.random.RandomState(3)
    kind = small.task["modality"]
    return _changed(
        small, lambda content, mark: _wordy(kind, content, b"batch %d" % (3 * draws.randint(100, 300) + mark))
    )


def marked_at_front(small: Small) -> Small:
    """A byte order mark in texts of one class."""
    return _changed(small, lambda content, mark: (b"\xef\xbb\xbf" if mark else b"") + content)


def dates_inside(small: Small) -> Small:
    draws, kind = np.random.RandomState(4), small.task["modality"]

    def dated(content: bytes, mark: int) -> bytes:
        day, hour = 1 + 9 * mark + draws.randint(9), draws.randint(24)
        if kind == "image":
            end = content.rindex(b"IEND") - 4
            stamp = chunk(b"tIME", struct.pack(">HBBBBB", 2021, 3, day, hour, 0, 0))
            return content[:end] + stamp + content[end:]
        return _wordy(kind, content, b"2021-03-%02d %02d:00:00" % (day, hour), b"ICRD")

    return _changed(small, dated)


def _first(table: Table, row: int) -> dict[str, str]:
    return {name: cells[row] for name, cells in table.items()}


def shared_row(small: Small) -> Small:
    """One row of the test set is a row of train: its cells, or the bytes of its file."""
    if small.task["modality"] == "tabular":
        train, test = small.table("public/train.csv"), small.table("public/test.csv")
        for name in test:
            test[name][3] = test[name][3] if name == "id" else train[name][5]
        return small.having({"public/test.csv": test})
    names = _files(small)
    return small.having(**{names[-2]: small.files[names[1]]})


def shared_id(small: Small) -> Small:
    train = small.table("public/train.csv")
    train["id"][4] = small.table("public/test.csv")["id"][2]
    return small.having({"public/train.csv": train})


def sample_told(small: Small) -> Small:
    """The sample submission is right in four of five rows."""
    sample, answers = small.table("public/sample_submission.csv"), small.table("private/answers.csv")
    for name in small.task["submission"]["target"]:
        sample[name] = [answer if at % 5 else cell for at, (cell, answer) in enumerate(zip(sample[name], answers[name], strict=True))]  # fmt: skip
    return small.having({"public/sample_submission.csv": sample})


def sample_sorted(small: Small) -> Small:
    values = truth(small)[len(small.table("public/train.csv")["id"]) :]
    order = np.argsort(values, kind="stable")
    return small.having(_reordered(small, "public/sample_submission.csv", order))


def answers_copied(small: Small) -> Small:
    return small.having(**{"public/extra.csv": small.files["private/answers.csv"]})


def answers_in_side_table(small: Small) -> Small:
    """Joined by the id, as codes, among rows of others and in another order."""
    ids = small.table("public/test.csv")["id"]
    marks = truth(small)[-len(ids) :]
    rows = [*zip(ids, (f"{mark:g}" for mark in marks), strict=True), ("1", "0"), ("2", "1")]
    order = np.random.RandomState(5).permutation(len(rows))
    table = {"plot": [rows[at][0] for at in order], "grade": [rows[at][1] for at in order]}
    return small.having({"public/plots.CSV": table})


def answers_in_json(small: Small) -> Small:
    ids = small.table("public/test.csv")["id"]
    marks = truth(small)[-len(ids) :]
    return small.having(**{"public/meta.json": json.dumps({"plots": dict(zip(ids, marks, strict=True))}).encode()})


def answers_dumped(small: Small) -> Small:
    answers = small.table("private/answers.csv")
    cells = answers[small.task["submission"]["target"][0]]
    return small.having(**{"public/notes.txt": ("checked: " + ", ".join(cells) + "\n").encode()})


def target_copied(small: Small) -> Small:
    """A column of test.csv is the target in other words."""
    values = truth(small)
    train, test = small.table("public/train.csv"), small.table("public/test.csv")
    first = len(train["id"])
    coded = [f"k{value:g}" if len(set(values)) < 5 else f"{math.log(value + 1):.9f}" for value in values]
    return small.having(
        {"public/train.csv": {**train, "grade": coded[:first]}, "public/test.csv": {**test, "grade": coded[first:]}}
    )


def names_with_answers(small: Small) -> Small:
    train, answers = small.table("public/train.csv"), small.table("private/answers.csv")
    name = small.task["submission"]["target"][0]
    words = train[name] + answers[name]
    return _with_names(small, [f"{at}_{word}" for at, word in enumerate(words)])


ALL, FILES = MODALITIES, tuple(FOLDERS)
# (the check that must find it, the modalities it applies to)
PLANTS: dict[Callable[[Small], Small], tuple[str, tuple[str, ...]]] = {
    ids_modulo: ("no_leak_ids", ALL),
    ids_sorted: ("no_leak_ids", ALL),
    ids_worded: ("no_leak_ids", ALL),
    rows_sorted: ("no_leak_row_order", ALL),
    rows_in_turn: ("no_leak_row_order", ALL),
    rows_in_blocks: ("no_leak_row_order", ALL),
    names_modulo: ("no_leak_file_names", FILES),
    names_sorted: ("no_leak_file_names", FILES),
    sizes_padded: ("no_leak_file_sizes", FILES),
    notes_written: ("no_leak_metadata", ("image", "audio", "graph")),
    marked_at_front: ("no_leak_metadata", ("text", "graph")),
    dates_inside: ("no_leak_timestamps", ("image", "audio", "graph")),
    shared_row: ("train_test_separate", ALL),
    shared_id: ("train_test_separate", ALL),
    sample_told: ("sample_uninformative", ALL),
    sample_sorted: ("sample_uninformative", ALL),
    answers_copied: ("answers_secret", ALL),
    answers_in_side_table: ("answers_secret", ALL),
    answers_in_json: ("answers_secret", ALL),
    answers_dumped: ("answers_secret", ALL),
    target_copied: ("answers_secret", ALL),
    names_with_answers: ("answers_secret", FILES),
}
