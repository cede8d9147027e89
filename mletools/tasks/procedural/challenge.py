"""A world is split, its rows get ids, its files their names: what a solver sees, what is asked of him, the answers.

Not covered: thresholds (board), the description (describe), and whether it is any good (soundness).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..draft import TaskDraft, make_ids
from ..forms import GRADES, Form
from ..table import Column, Rejected, csv_bytes, shortest
from .target import LEAST_QUERIES
from .world import TaskWorld

# Fewer of a class in the test or in train.csv say nothing about a solution.
FEWEST_OF_A_CLASS = 3
DECIMALS = 6
# Metrics that a constant prediction has no score in: the dummy hands in the numbers of the rows.
OF_ORDER = {"spearman", "spearman_by_group"}
RANKED_COLUMN = "ranking"
TAGS_COLUMN = "tags"


@dataclass(frozen=True)
class Challenge:
    """A task but for its thresholds and description.

    `public` and `answers` are file contents; `submission` and `metric` are those parts of the record. `train` and `test`
    are row numbers of the world in the order of the files, `ids` the ids of all rows by row number.
    """

    world: TaskWorld
    form: str
    metric: dict[str, Any]
    submission: dict[str, Any]
    public: dict[str, bytes]
    answers: bytes
    train: list[int]
    test: list[int]
    ids: list[str]

    @property
    def grading(self) -> dict[str, Any]:
        """What a score needs of the record."""
        return {"submission": self.submission, "metric": self.metric}

    @property
    def task_draft(self) -> TaskDraft:
        """The draft in the form that all sources share."""
        world, target, train, test = self.world, self.world.target, self.train, self.test
        targets = target.columns
        names, query = [column.name for column in targets], submission_group(world) if target.groups else ""
        views = {"plain": world.plain, "right": world.right}
        return TaskDraft(
            name=world.name,
            modality=world.modality,
            problem=target.problem,
            form=Form(self.form, names, target.labels, query=query, parse=str(self.submission["parse"])),
            submission=self.submission,
            metric=self.metric,
            public=dict(self.public),
            answers=self.answers,
            features=feature_columns(world),
            targets=targets,
            y=target.y[train],
            train_ids=[self.ids[at] for at in train],
            test_ids=[self.ids[at] for at in test],
            train_queries=[target.groups[at] for at in train] if target.groups else [],
            test_queries=[target.groups[at] for at in test] if target.groups else [],
            views={name: (view[train], view[test]) for name, view in views.items()},
            known=target.known[test],
        )

    def hand_in(self, predictions: Any) -> bytes:
        """The submission that hands in predictions for the test rows, in their order.

        Class probabilities of shape (tests, labels), else shape (tests, columns) or (tests, units): probabilities of a
        tag or of a pixel, or numbers, which are kept within the range of train.csv.
        """
        import numpy as np

        if self.form == "number" and not self.world.target.groups:
            seen = self.world.target.y[self.train]
            predictions = np.clip(predictions, seen.min(), seen.max())
        return _csv(self.world, self.form, self.submission, [self.ids[at] for at in self.test], self.test, predictions)


def make_challenge(world: TaskWorld, rng: Any, lower_is_better: bool) -> Challenge:
    """Draws the split and the ids. Rejected when a class is too rare to be split."""
    dna = world.origin["dna"]
    form, target = dna["form"], world.target
    train, test = _split(world, rng)
    made = make_ids(len(train) + len(test), rng)
    ids = [""] * len(made)
    for at, name in zip((*train, *test), made, strict=True):
        ids[at] = name
    submission = _submission(world, form, train, test)
    metric: dict[str, Any] = {"name": dna["metric"], "params": {**dna["params"], **world.params}}
    metric["lower_is_better"] = lower_is_better
    if form == "number" and target.groups:
        metric["group"] = submission_group(world)
    if form == "number" and len(target.columns) > 1:
        metric["columns"] = "flat"
    test_ids = [ids[at] for at in test]
    public = {
        **_tables(world, train, test, ids, rng),
        **_assets(world, ids),
        "sample_submission.csv": _csv(world, form, submission, test_ids, test, _constant(world, form, train, test)),
    }
    answers = _answers(world, form, submission, test_ids, test)
    return Challenge(world, form, metric, submission, public, answers, train, test, ids)


def submission_group(world: TaskWorld) -> str:
    """The column of the query, which rows of a ranking share."""
    return str(world.origin["query_column"])


def _split(world: TaskWorld, rng: Any) -> tuple[list[int], list[int]]:
    """(train rows, test rows), both shuffled; each class in its share in both, a query whole on one side."""
    import numpy as np

    target, rows = world.target, len(world.target.y)
    share = world.origin["dna"]["test_share"]
    order = [int(at) for at in rng.permutation(rows)]
    if world.tilt is not None:
        weights = np.round(world.tilt, 6)
        order = [int(at) for at in rng.choice(rows, size=rows, replace=False, p=weights / weights.sum())]
    if target.groups:
        groups = sorted(set(target.groups))
        chosen = {
            groups[at] for at in rng.permutation(len(groups))[: max(LEAST_QUERIES // 2, round(share * len(groups)))]
        }
        test = {at for at in order if target.groups[at] in chosen}
    else:
        strata: dict[int, list[int]] = {}
        for at in order:
            strata.setdefault(int(target.y[at, 0]) if _classes(world) else 0, []).append(at)
        test = set()
        for code in sorted(strata):
            count = max(FEWEST_OF_A_CLASS, round(share * len(strata[code])))
            if len(strata[code]) - count < FEWEST_OF_A_CLASS:
                raise Rejected(f"split: only {len(strata[code])} rows are {target.labels[code]}")
            test.update(strata[code][:count])
        if _classes(world) and len(strata) < len(target.labels):
            raise Rejected("split: a class has no row")
    # Rows were taken in an order that may be tilted; the files must not show it.
    shuffled = [int(at) for at in rng.permutation(rows)]
    return [at for at in shuffled if at not in test], [at for at in shuffled if at in test]


def _classes(world: TaskWorld) -> bool:
    return world.target.problem in ("binary_classification", "multiclass_classification")


def _submission(world: TaskWorld, form: str, train: Sequence[int], test: Sequence[int]) -> dict[str, Any]:
    target = world.target
    names = [column.name for column in target.columns]
    base: dict[str, Any] = {"id": ["id"], "target": names, "parse": "number", "rows": len(test)}
    if form == "label" and world.origin["dna"]["metric"] in GRADES:
        return base
    if form == "label":
        return {**base, "parse": "label", "labels": target.labels}
    if form == "probabilities":
        return {**base, "target": [f"prob_{label}" for label in target.labels], "range": [0, 1], "row_sum": 1}
    if form == "probability":
        return {**base, "range": [0, 1]}
    if form == "tagset":
        return {**base, "target": [TAGS_COLUMN], "parse": "tagset", "empty_ok": True}
    if form == "ranked":
        queries = len({target.groups[at] for at in test})
        return {**base, "id": [submission_group(world)], "target": [RANKED_COLUMN], "parse": "ranked", "rows": queries}
    if form == "mask":
        return {**base, "parse": "rle", "empty_ok": True}
    return base


def _tables(world: TaskWorld, train: list[int], test: list[int], ids: list[str], rng: Any) -> dict[str, bytes]:
    """train.csv, test.csv and the side tables, whose lines are shuffled."""
    target = world.target
    columns, cells = _feature_cells(world, ids)
    targets = target.cells

    def rows(order: list[int], extra: dict[str, list[str]]) -> bytes:
        every = {**{name: cells[name] for name in columns}, **extra}
        picked = [[values[at] for at in order] for values in every.values()]
        return csv_bytes(["id", *every], [[ids[at] for at in order], *picked])

    found = {"train.csv": rows(train, targets), "test.csv": rows(test, {})}
    for rendered in world.rendered:
        for side in rendered.sides:
            lines = [(ids[at], *line) for at in range(len(target.y)) for line in side.rows[at]]
            lines = [lines[at] for at in rng.permutation(len(lines))]
            header = ["id", *(column.name for column in side.columns)]
            found[side.name] = csv_bytes(header, [list(column) for column in zip(*lines, strict=True)])
    return found


def _feature_cells(world: TaskWorld, ids: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """(names of the feature columns, their cells): the query, columns of tables, paths of files."""
    cells: dict[str, list[str]] = {}
    if world.target.groups:
        cells[submission_group(world)] = world.target.groups
    for rendered in world.rendered:
        cells.update(rendered.cells)
        for asset in rendered.assets:
            cells[asset.column] = [f"{asset.folder}/{name}.{asset.ending}" for name in ids]
    return list(cells), cells


def feature_columns(world: TaskWorld) -> list[Column]:
    """The feature columns of train.csv and test.csv with their meanings, in the order of the files."""
    found = []
    if world.target.groups:
        found.append(Column(submission_group(world), str(world.origin["query_meaning"]), number=False))
    for rendered in world.rendered:
        found += rendered.columns
        found += [Column(asset.column, f"file: {asset.meaning}", number=False) for asset in rendered.assets]
    return found


def _assets(world: TaskWorld, ids: list[str]) -> dict[str, bytes]:
    return {
        f"{asset.folder}/{name}.{asset.ending}": content
        for rendered in world.rendered
        for asset in rendered.assets
        for name, content in zip(ids, asset.contents, strict=True)
    }


def _constant(world: TaskWorld, form: str, train: list[int], test: list[int]) -> Any:
    """What a dummy hands in: even probabilities, the commonest class or tag, the mean, the order of the file, no mask."""
    import numpy as np

    target = world.target
    if form == "probabilities":
        return np.full((len(test), len(target.labels)), 1 / len(target.labels))
    if form == "probability":
        return np.full((len(test), 2 if _classes(world) else target.y.shape[1]), 0.5)
    if form == "label":
        counts = Counter(int(code) for code in target.y[train, 0])
        best = max(range(len(target.labels)), key=lambda code: counts[code])
        return np.tile(np.eye(len(target.labels))[best], (len(test), 1))
    if form == "tagset":
        shares = target.y[train].mean(axis=0)
        return np.tile(np.where(shares == shares.max(), 1.0, 0.0), (len(test), 1))
    if form == "mask":
        # The pixels that are most often set, at least one: an empty mask would teach nothing of the format.
        shares = target.y[train].mean(axis=0)
        return np.tile(np.where(shares >= np.quantile(shares, 0.9), 1.0, 0.0), (len(test), 1))
    if form == "ranked":
        return np.zeros((len(test), 1))
    if world.origin["dna"]["metric"] in OF_ORDER:
        return np.arange(1.0, len(test) + 1)[:, None]
    return np.tile(np.round(target.y[train].mean(axis=0), 4), (len(test), 1))


def _csv(
    world: TaskWorld, form: str, submission: dict[str, Any], test_ids: list[str], test: list[int], values: Any
) -> bytes:
    target, header = world.target, [*submission["id"], *submission["target"]]
    if form == "label":
        columns = [[target.labels[code] for code in values.argmax(axis=1)]]
    elif form == "tagset":
        columns = [[" ".join(t for t, p in zip(target.labels, row, strict=True) if p >= 0.5) for row in values]]
    elif form == "mask":
        columns = [[rle(row >= 0.5) for row in values]]
    elif form == "ranked":
        queries, lists = _ranked(world, test_ids, test, values[:, 0])
        return csv_bytes(header, [queries, lists])
    elif form == "probability" and _classes(world):
        columns = [_numbers(values[:, -1])]
    else:
        columns = [_numbers(column) for column in values.T]
    return csv_bytes(header, [test_ids, *columns])


def _numbers(values: Any) -> list[str]:
    return [shortest(round(float(value), DECIMALS)) for value in values]


def _ranked(world: TaskWorld, test_ids: list[str], test: list[int], values: Any) -> tuple[list[str], list[str]]:
    """(queries, the ids of each query's rows with the highest value first), queries in the order of test.csv."""
    import numpy as np

    groups = [world.target.groups[at] for at in test]
    queries = list(dict.fromkeys(groups))
    order = np.argsort(-np.round(values, 9), kind="stable")
    return queries, [" ".join(test_ids[at] for at in order if groups[at] == query) for query in queries]


def _answers(world: TaskWorld, form: str, submission: dict[str, Any], test_ids: list[str], test: list[int]) -> bytes:
    import numpy as np

    target, header = world.target, [*submission["id"], *submission["target"]]
    y = target.y[test]
    if form == "ranked":
        groups = [target.groups[at] for at in test]
        queries = list(dict.fromkeys(groups))
        found = [
            " ".join(name for name, group, hit in zip(test_ids, groups, y[:, 0], strict=True) if group == query and hit)
            for query in queries
        ]
        return csv_bytes(header, [queries, found])
    if form == "tagset":
        return _csv(world, form, submission, test_ids, test, y.astype(float))
    if form == "probabilities":
        return _csv(world, form, submission, test_ids, test, np.eye(len(target.labels))[y[:, 0].astype(int)])
    if form == "probability":
        return csv_bytes(header, [test_ids, *([str(int(cell)) for cell in column] for column in y.T)])
    cells = [[target.cells[column.name][at] for at in test] for column in target.columns]
    if target.groups:
        return csv_bytes([*header, submission_group(world)], [test_ids, *cells, [target.groups[at] for at in test]])
    return csv_bytes(header, [test_ids, *cells])


def rle(mask: Any) -> str:
    """Run-length code of a flat 0/1 mask of shape (units,): "start length ..." with units counted from 1; "" if empty."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask, dtype=int), [0]])))
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True))
