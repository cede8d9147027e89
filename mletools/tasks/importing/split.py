"""Holds out rows of somebody's table, and makes the draft that baselines are trained on.

Not covered: the draws of tables that are made here (draft).
"""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..baselines import MOST_TRAINED_ON
from ..draft import GRADES, Draft, constant, form_of
from ..record import Parts
from ..table import Column, Rejected, Table
from .columns import Columns, features_of, is_number, labels_of, read_columns, written
from .declare import MOST_LABELS

MOST_BASELINE_BYTES = 200 << 20


def held_out(
    rows: Sequence[int], strata: Mapping[int, str], groups: Mapping[int, Hashable], share: float, rng: Any
) -> list[int]:
    """The rows of a test set, in their order: about `share` of each stratum, and no group in both sets.

    Rows that `strata` does not name are one stratum, those that `groups` does not name are each alone. Where a stratum
    has two groups or more, one at least is held out and one is kept.
    """
    units: dict[Hashable, list[int]] = {}
    for at in rng.permutation(len(rows)):
        row = rows[at]
        units.setdefault(groups.get(row, ("alone", row)), []).append(row)
    layers: dict[str, list[list[int]]] = {}
    for unit in units.values():
        layers.setdefault(strata.get(unit[0], ""), []).append(unit)
    test: list[int] = []
    for name in sorted(layers):
        layer, taken = layers[name], 0
        wanted = max(1, round(share * sum(map(len, layer))))
        for unit in layer[:-1]:
            if taken >= wanted:
                break
            test.extend(unit)
            taken += len(unit)
    return sorted(test)


def complete_rows(columns: Columns, targets: Sequence[str]) -> list[int]:
    """The rows whose targets are all there."""
    return [at for at, cells in enumerate(zip(*(columns[name] for name in targets), strict=True)) if all(cells)]


def strata_of(columns: Columns, targets: Sequence[str], rows: Sequence[int], form: str) -> dict[int, str]:
    """The stratum of each row: its label, where there is one target of few labels."""
    if form == "number" or len(targets) != 1 or len({columns[targets[0]][at] for at in rows}) > MOST_LABELS:
        return {}
    return {at: columns[targets[0]][at] for at in rows}


def draft_of(
    train: Columns, test: Columns, targets: Sequence[str], form: str, given: Mapping[str, Any], answers: bytes
) -> Draft:
    """The draft for baselines: features are the columns of both tables. Rejected where none can be trained.

    `targets` are columns of `train`; `given` is the grading part of the record.
    """
    if form == "other":
        raise Rejected(f"baselines do not predict {given['submission']['parse']}")
    missing = [name for name in targets if name not in train]
    if missing:
        raise Rejected(f"train.csv has no column {missing[0]!r}")
    if form != "number" and len(targets) > 1:
        raise Rejected("baselines predict one column of labels only")
    (key,) = given["submission"]["id"] if len(given["submission"]["id"]) == 1 else [""]
    if key not in test:
        raise Rejected("test.csv has no id column")
    rows = complete_rows(train, targets)
    rows = rows[:: max(1, -(-len(rows) // MOST_TRAINED_ON))]
    cells = {name: [train[name][at] for at in rows] for name in targets}
    if not rows or (form == "number" and not all(map(is_number, cells.values()))):
        raise Rejected("the targets in train.csv are no numbers")
    labels = [] if form == "number" else labels_of(cells[targets[0]])
    if labels and form == "probabilities":
        if set(labels) != set(given["submission"]["target"]):
            raise Rejected("train.csv has other labels than the submission has columns")
        labels = list(given["submission"]["target"])
    if labels and (len(labels) < 2 or len(labels) > MOST_LABELS or (form == "probability" and len(labels) > 2)):
        raise Rejected(f"column {targets[0]!r} of train.csv has {len(labels)} labels")
    shared = {name: train[name] for name in test if name in train}
    features = features_of(shared, [key, *targets])
    names = [column.name for column in features]
    sample = constant(form, labels, cells)
    submitted = [key, *given["submission"]["target"]]
    columns = [Column(name, "") for name in targets]
    return Draft(
        table=Table("", "", "", "", features, columns, {}, labels, labels[-1] if len(labels) == 2 else ""),
        metric=given["metric"]["name"],
        params=given["metric"]["params"],
        form=form,
        train_targets=columns,
        submission=dict(given["submission"]),
        train=[],
        test=[],
        test_ids=test[key],
        public={
            "train.csv": written(train, [*names, *targets], rows),
            "test.csv": written(test, names),
            "sample_submission.csv": written(
                {key: test[key], **{name: [value] * len(test[key]) for name, value in zip(submitted[1:], sample, strict=True)}},
                submitted,
            ),
        },
        answers=answers,
    )  # fmt: skip


def draft_of_parts(parts: Parts, target: str | None) -> Draft:
    """The draft for baselines out of train.csv and test.csv among a task's public files. Rejected where they are not.

    `target` is the column of labels in train.csv, where the submission has one column a class.
    """
    given = parts.grading
    if "file" in given["metric"]:
        raise Rejected("its metric is code")
    if set(given["metric"]) - {"name", "params", "lower_is_better"} or any(key.startswith("answer_") for key in given):
        raise Rejected("baselines are made where answers and predictions look alike")
    for name in ("train.csv", "test.csv"):
        if name not in parts.public:
            raise Rejected(f"there is no {name}")
    tables = []
    for name in ("train.csv", "test.csv"):
        path = parts.public[name]
        if isinstance(path, bytes) or path.stat().st_size > MOST_BASELINE_BYTES:
            raise Rejected(f"{name} has more than {MOST_BASELINE_BYTES >> 20} MB")
        tables.append(read_columns(path))
    train, test = tables
    form = form_of(given["metric"]["name"], [given["submission"]["parse"]], ())
    targets = given["submission"]["target"]
    if form == "probabilities" and len(targets) == 1:
        form = "probability"
    answers = parts.private[given["answers"]]
    content = answers.read_bytes() if isinstance(answers, Path) else answers
    named = [target] if form == "probabilities" and target else targets
    if given["metric"]["name"] in GRADES:
        form = "label"
    return draft_of(train, test, named, form, given, content)
