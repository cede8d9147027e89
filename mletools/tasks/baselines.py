"""A simulated leaderboard for any draft: some forty solutions of rising strength, trained and scored on the hidden test.

They read what a solver gets, run on one thread and are deterministic. A drawn world has two views of its files: what a
quick pipeline makes of them ("plain") and the features that its rule looks at ("right"); tables have their columns. The
ladder is the part whose names mean something. Not covered: which of the scores become thresholds (thresholds).
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base import csv_files
from ..base.errors import RecordError
from ..grading import metrics, rounded
from ..records.task import Baseline, MetricSpec
from .draft import TaskDraft
from .folder import Content, read
from .learners import Data, alone, best_by_folds, predict
from .table import Rejected, csv_bytes, shortest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Predictions: TypeAlias = "dict[str, NDArray[np.float64]]"
# The teams see so many of the training rows, or units of a dense target, and no category with more levels.
MOST_TRAINED_ON = 2000
MOST_UNITS = 1500
MOST_LEVELS = 50
PLAIN = ("stump", "tree", "deep_tree", "linear_shrunk", "linear", "linear_free", "neighbours", "many_neighbours")
TREES = ("forest", "extra_trees", "boosted")
# The models of the teams by view, and what they are trained on: all rows, every second or every third.
TEAMS: dict[str, dict[int, tuple[str, ...]]] = {
    "plain": {
        1: (*PLAIN, *TREES),
        2: ("tree", "linear", "neighbours", "forest"),
        3: ("tree", "linear", "neighbours", "forest", "boosted"),
    },
    "right": {1: ("tree", "linear", "neighbours", *TREES), 2: ("linear", "forest")},
}
SHARES = {1: "", 2: ", a half of the rows", 3: ", a third of the rows"}
# Teams that hand in the mean of others' predictions.
BLENDS = (
    ("plain linear and forest", ("plain linear", "plain forest")),
    ("plain forest and boosted", ("plain forest", "plain boosted")),
    ("plain linear and neighbours", ("plain linear", "plain neighbours")),
    ("plain everything", ("plain linear", "plain neighbours", "plain forest", "plain extra_trees", "plain boosted")),
    ("right forest and boosted", ("right forest", "right boosted")),
)
# Teams that trust a forest so far: the rest is the mean of its predictions.
CAUTIOUS = (0.25, 0.5, 0.75)
QUANTILES = (0.1, 0.25, 0.5)
# The candidates of "tuned", which averages the two that are best on held-out rows.
TUNED = ("linear", "neighbours", "forest", "boosted")
# They are scored before the others are trained: where none beats the dummy, the files say nothing.
SCOUTS = ("plain linear", "plain forest", "plain boosted")
# Teams whose predictions any metric has to score.
MUST = (*SCOUTS, "plain tuned", "right tuned", "ceiling")


@dataclass(frozen=True)
class Board:
    """`teams`: (name, score), the best first. `ladder`: [{name, score}], the dummy first.

    `submissions` are those of the teams by name.
    """

    teams: list[tuple[str, float]]
    ladder: list[Baseline]
    submissions: dict[str, bytes]

    def nearest(self, score: float) -> bytes:
        """The submission of the team whose score is nearest to `score`."""
        name, _ = min(self.teams, key=lambda team: abs(team[1] - score))
        return self.submissions[name]

    @property
    def baselines(self) -> list[Baseline]:
        """The ladder and then all teams, as the record of a task without a leaderboard has them."""
        return [*self.ladder, *(Baseline(name=name, score=value) for name, value in self.teams)]

    @property
    def csv(self) -> bytes:
        names, scores = zip(*self.teams, strict=True)
        return csv_bytes(["team", "score"], [list(names), [shortest(score) for score in scores]])


def make_board(draft: TaskDraft, score: Callable[[bytes], float], seed: int) -> Board:
    """Trains and scores every team. Rejected where the metric is undefined, or no quick model beats the dummy."""
    seed &= 0x3FFFFFFF
    sign = -1 if draft.metric["lower_is_better"] else 1
    submissions = {"sample submission": read(draft.public["sample_submission.csv"])}
    scores = {"sample submission": score_of(submissions["sample submission"], score, draft.metric)}
    predictions: Predictions = {}

    def enter(name: str, values: Any) -> None:
        submissions[name] = draft.hand_in(values)
        try:
            scores[name] = score_of(submissions[name], score, draft.metric)
        except Rejected:
            # A team may predict what this metric cannot score (a constant has no rank); the ladder may not.
            if name in MUST:
                raise

    with one_thread():
        views = {name: _data(draft, *view) for name, view in (draft.views or {"plain": encode(draft)}).items()}
        for name in SCOUTS:
            predictions[name] = _shaped(draft, predict(name.removeprefix("plain "), views["plain"], seed))
            enter(name, predictions[name])
        dummy = scores["sample submission"]
        if all(sign * scores[name] <= sign * dummy for name in SCOUTS):
            raise Rejected(f"learnable: neither a linear model nor trees beat the dummy, {dummy:g}")
        for name, values in _teams(draft, views, predictions, seed).items():
            enter(name, values)
        enter("single feature", _shaped(draft, alone(views["plain"], seed)[1]))
        if draft.known is not None:
            known = draft.known
            if metrics.find(draft.metric["name"]).balanced and draft.form.kind == "label":
                known = known / views["plain"].y.mean(axis=0)
            enter("ceiling", known)
    constants = [score_of(draft.hand_in(values), score, draft.metric) for values in _constants(draft)]
    rungs = {
        "dummy": dummy,
        **({"constant": max(constants, key=lambda value: sign * value)} if constants else {}),
        "linear": scores["plain linear"],
        "tuned_ensemble": scores["plain tuned"],
        "single_feature": scores.pop("single feature", dummy),
        **({"right_features": scores["right tuned"]} if "right" in views else {}),
        **({"ceiling": scores.pop("ceiling")} if draft.known is not None else {}),
    }
    teams = sorted(scores.items(), key=lambda team: (-sign * team[1], team[0]))
    return Board(teams, [{"name": name, "score": value} for name, value in rungs.items()], submissions)


@contextmanager
def one_thread() -> Iterator[None]:
    """Models are trained on one thread, without warnings and without sklearn's checks of arguments."""
    from sklearn import config_context
    from threadpoolctl import threadpool_limits

    quick = config_context(assume_finite=True, skip_parameter_validation=True)
    with threadpool_limits(1), quick, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def libraries() -> dict[str, str]:
    """The versions that the scores of the baselines may depend on."""
    import numpy as np
    import sklearn

    return {"numpy": np.__version__, "scikit-learn": sklearn.__version__}


def score_of(submission: bytes, score: Callable[[bytes], float], metric: MetricSpec) -> float:
    """The rounded score of a submission's bytes. Rejected where it is undefined."""
    try:
        value = float(score(submission))
    except (ValueError, RecordError) as error:
        raise Rejected(f"score: undefined: {error}") from error
    if not math.isfinite(value):
        raise Rejected(f"score: {value}")
    return rounded(value, metric)


def encode(draft: TaskDraft) -> tuple[Any, Any]:
    """The columns of train.csv and test.csv as numbers: gaps as the median, a column for each level of a category.

    Rejected when no column is left to learn from.
    """
    import numpy as np

    names = [column.name for column in draft.features]
    train, test = (_read(draft.public[name], names) for name in ("train.csv", "test.csv"))
    pairs = []
    for column in draft.features:
        one, other = train[column.name], test[column.name]
        if column.number:
            pairs.append(numeric(one, other))
        elif one.nunique() <= MOST_LEVELS:
            levels = np.array(sorted(set(one)), dtype=object)
            pairs.append(tuple((cells.to_numpy()[:, None] == levels).astype(float) for cells in (one, other)))
    pairs = [pair for pair in pairs if pair[0].size]
    if not pairs:
        raise Rejected("there is no column to learn from")
    return tuple(np.column_stack(parts) for parts in zip(*pairs, strict=True))  # type: ignore[return-value]


def numeric(train: Any, test: Any) -> tuple[Any, Any]:
    """The numbers in two series of cells, what is none as the median of train; of shape (rows, 0) without any."""
    import numpy as np
    import pandas as pd

    values = [pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float, copy=True) for cells in (train, test)]
    known = values[0][np.isfinite(values[0])]
    if not len(known):
        return np.empty((len(train), 0)), np.empty((len(test), 0))
    one, other = (np.where(np.isfinite(each), each, np.median(known))[:, None] for each in values)
    return one, other


def _read(content: Content, names: list[str]) -> Any:
    import pandas as pd

    columns = csv_files.read_columns(read(content))
    return pd.DataFrame({name: columns[name] for name in names}, dtype=object)


def _data(draft: TaskDraft, x: Any, test: Any) -> Data:
    """What the models of a view learn from: of a dense target all units as rows."""
    import numpy as np

    y, kind, most = np.asarray(draft.y, dtype=float), "numbers", MOST_TRAINED_ON
    if draft.form.kind in ("mask", "tagset") or draft.form.tags:
        kind = "tags"
    elif draft.form.kind in ("label", "probability", "probabilities"):
        kind = "classes"
        y = np.eye(max(len(draft.form.labels), int(y.max()) + 1))[y[:, 0].astype(int)] if y.shape[1] == 1 else y
    if draft.train_queries and draft.form.kind == "number":
        groups = np.unique(draft.train_queries, return_inverse=True)[1]
        y = y - np.array([y[groups == group].mean(axis=0) for group in range(groups.max() + 1)])[groups]
    if x.ndim == 3:
        x, y, test = (part.reshape(-1, part.shape[2]) for part in (x, y[:, :, None], test))
        most = MOST_UNITS
    step = -(-len(x) // most)
    x, y = x[::step], y[::step]
    x, test = scaled(x, test)
    return Data(x, y, test, kind, metrics.find(draft.metric["name"]).balanced)


def scaled(x: Any, test: Any) -> tuple[Any, Any]:
    """Both with the columns of x at mean 0 and deviation 1."""
    import numpy as np

    middle, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    return np.round((x - middle) / spread, 6), np.round((test - middle) / spread, 6)


def _shaped(draft: TaskDraft, values: Any) -> Any:
    """Predictions in the shape that TaskDraft.hand_in takes."""
    return values if len(values) == len(draft.test_ids) else values.reshape(len(draft.test_ids), -1)


def _teams(draft: TaskDraft, views: Mapping[str, Data], known: Predictions, seed: int) -> Predictions:
    """The predictions of every team but those that are `known`."""
    made = dict(known)
    for view, data in views.items():
        for step, members in TEAMS[view].items():
            part = data if step == 1 else data.every(step)
            for model in members:
                name = f"{view} {model}{SHARES[step]}"
                if name not in made:
                    made[name] = _shaped(draft, predict(model, part, seed))
        best = best_by_folds({name: (data, name) for name in TUNED}, seed, 2)
        made[f"{view} tuned"] = _mean([made[f"{view} {name}"] for name in best])
    for name, blended in BLENDS:
        if all(member in made for member in blended):
            made[name] = _mean([made[member] for member in blended])
    forest = made["plain forest"]
    for trust in CAUTIOUS:
        mean = forest.mean(axis=0, keepdims=True)
        made[f"plain forest, {trust:.0%} trusted"] = trust * forest + (1 - trust) * mean
    return {name: values for name, values in made.items() if name not in known}


def _mean(predictions: list[Any]) -> Any:
    return sum(predictions) / len(predictions)


def _constants(draft: TaskDraft) -> list[Any]:
    """One quantile of the training targets for every row, where numbers are asked for.

    A relative error may prefer a low one to any model that was not made for it.
    """
    import numpy as np

    undefined = metrics.find(draft.metric["name"]).constant_is_undefined
    if draft.form.kind != "number" or draft.test_queries or undefined:
        return []
    return [np.tile(np.quantile(draft.y, at, axis=0), (len(draft.test_ids), 1)) for at in QUANTILES]
