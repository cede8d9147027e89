"""A simulated leaderboard: some forty solutions of rising strength, really trained and scored on the hidden test set.

The ladder is the part of it with names that mean something: dummy, the best constant, linear, a tuned ensemble, one feature
alone, an ensemble that is given the right features, and the ceiling, which knows the rule and not the noise. Not covered:
what the scores are used for (thresholds).
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..baselines import SCORE_ROUND
from ..draft import TaskDraft
from ..forms import OF_ORDER
from ..learners import Arrays, best_by_folds, fit_predict, models
from ..table import Rejected, csv_bytes, shortest

# The score of a submission's bytes; ValueError where it has none.
ScoreOf = Callable[[bytes], float]
MOST_UNITS = 1500
# Of so many features, those that lie closest to the target, one alone is tried.
MOST_ALONE = 12
BALANCED = {"f1_macro", "balanced_accuracy", "balanced_log_loss", "f1_multilabel_macro"}
# (view, model, share of train.csv) of each team that trains one model.
ENTRANTS: tuple[tuple[str, str, str], ...] = (
    *(("plain", model, "all") for model in ("stump", "tree", "deep_tree", "linear_shrunk", "linear", "linear_free")),
    *(("plain", model, "all") for model in ("neighbours", "many_neighbours", "forest", "extra_trees", "boosted")),
    *(("plain", model, "third") for model in ("tree", "linear", "neighbours", "forest", "boosted")),
    *(("plain", model, "half") for model in ("tree", "linear", "neighbours", "forest")),
    *(("right", model, "all") for model in ("tree", "linear", "neighbours", "forest", "extra_trees", "boosted")),
    *(("right", model, "half") for model in ("forest", "linear")),
)
# Teams that hand in the mean of others' predictions.
BLENDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("plain linear and forest", ("plain linear", "plain forest")),
    ("plain forest and boosted", ("plain forest", "plain boosted")),
    ("plain linear and neighbours", ("plain linear", "plain neighbours")),
    ("plain everything", ("plain linear", "plain neighbours", "plain forest", "plain extra_trees", "plain boosted")),
    ("right forest and boosted", ("right forest", "right boosted")),
)
# Teams that trust another's predictions so far: the rest is the dummy's constant.
QUANTILES = (0.1, 0.25, 0.5)
CAUTIOUS = (0.25, 0.5, 0.75)
MUST = ("plain linear", "plain tuned", "right tuned", "ceiling")
TUNED = ("linear", "neighbours", "forest", "extra_trees", "boosted")


@dataclass(frozen=True)
class Board:
    """`teams`: (name, score), the best first. `ladder`: [{name, score}], the dummy first and the ceiling last."""

    teams: list[tuple[str, float]]
    ladder: list[dict[str, Any]]

    @property
    def csv(self) -> bytes:
        names, scores = zip(*self.teams, strict=True)
        return csv_bytes(["team", "score"], [list(names), [shortest(score) for score in scores]])


def make_board(draft: TaskDraft, score: ScoreOf, seed: int) -> Board:
    """Trains and scores every team. Rejected when the metric is undefined for one of the ladder."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictions = dict(_teams(draft, seed))
    dummy = _scored(draft.public["sample_submission.csv"], score)
    scores: dict[str, float] = {}
    for name, values in predictions.items():
        try:
            scores[name] = _scored(draft.hand_in(values), score)
        except Rejected:
            # A team may predict what this metric cannot score (a constant has no rank); the ladder may not.
            if name in MUST:
                raise
    sign = -1 if draft.metric["lower_is_better"] else 1
    constants = _constants(draft, score)
    rungs = {
        "dummy": dummy,
        **({"constant": max(constants, key=lambda value: sign * value)} if constants else {}),
        "linear": scores["plain linear"],
        "tuned_ensemble": scores["plain tuned"],
        "single_feature": scores.pop("single feature", dummy),
        "right_features": scores["right tuned"],
        "ceiling": scores.pop("ceiling"),
    }
    teams = sorted({**scores, "sample submission": dummy}.items(), key=lambda team: (-sign * team[1], team[0]))
    return Board(teams, [{"name": name, "score": value} for name, value in rungs.items()])


def _constants(draft: TaskDraft, score: ScoreOf) -> list[float]:
    """The scores of handing in one quantile of the training targets for every row, where numbers are asked for.

    A relative error may prefer a low one to any model that was not made for it.
    """
    import numpy as np

    if draft.form.kind != "number" or draft.test_queries or draft.metric["name"] in OF_ORDER:
        return []
    rows = draft.rows[1]
    return [_scored(draft.hand_in(np.tile(np.quantile(draft.y, at, axis=0), (rows, 1))), score) for at in QUANTILES]


def _scored(submission: bytes, score: ScoreOf) -> float:
    import math

    try:
        value = float(score(submission))
    except ValueError as error:
        raise Rejected(f"score: undefined: {error}") from error
    if not math.isfinite(value):
        raise Rejected(f"score: {value}")
    return round(value, SCORE_ROUND)


def _teams(draft: TaskDraft, seed: int) -> Iterator[tuple[str, Any]]:
    """(name, predictions for the test rows) of every team but the dummy, the single feature and the ceiling included."""
    import numpy as np

    made: dict[str, Any] = {}
    for view, model, share in ENTRANTS:
        name = f"{view} {model}" if share == "all" else f"{view} {model}, a {share} of the rows"
        made[name] = _predict(draft, draft.views[view], seed, model, {"all": 1, "half": 2, "third": 3}[share])
    for name, members in BLENDS:
        made[name] = sum(made[member] for member in members) / len(members)
    for view in draft.views:
        made[f"{view} tuned"] = _tuned(draft, draft.views[view], seed, {name: made[f"{view} {name}"] for name in TUNED})
    mean = made["plain forest"].mean(axis=0, keepdims=True)
    for trust in CAUTIOUS:
        made[f"plain forest, {trust:.0%} trusted"] = trust * made["plain forest"] + (1 - trust) * mean
    yield from made.items()
    yield "single feature", _alone(draft, seed)
    known = np.asarray(draft.known, dtype=float)
    if draft.metric["name"] in BALANCED and draft.form.kind == "label":
        known = known / np.bincount(draft.y[:, 0].astype(int), minlength=known.shape[1])
    yield "ceiling", known


def _arrays(draft: TaskDraft, view: tuple[Any, Any], column: int | None, every: int = 1) -> Arrays:
    """What one model learns from: of a dense target (units) all units as rows, else one column of the target or all."""
    import numpy as np

    y = np.asarray(draft.y, dtype=float)
    if draft.train_queries and draft.form.kind == "number":
        queries = np.array(draft.train_queries)
        y = y - np.array([y[queries == query].mean(axis=0) for query in queries])
    rows = np.sort(np.argsort(y[:, 0], kind="stable")[::every])
    x, answers, test = view[0][rows], y[rows], view[1]
    labels = _labels(draft)
    if test.ndim == 3:
        x, answers, test = (part.reshape(-1, part.shape[2]) for part in (x, answers[:, :, None], test))
        step = -(-len(x) // MOST_UNITS)
        x, answers = x[::step], answers[::step]
    elif column is not None:
        answers = answers[:, [column]]
    if labels:
        answers = answers.astype(int)
    x, test = _scaled(x, test)
    return Arrays(x, answers, test, labels, draft.metric["name"] in BALANCED)


def _scaled(x: Any, test: Any) -> tuple[Any, Any]:
    import numpy as np

    middle, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    return np.round((x - middle) / spread, 6), np.round((test - middle) / spread, 6)


def _labels(draft: TaskDraft) -> int:
    """How many classes a model tells apart, 0 for numbers; tags and pixels are two classes each."""
    if draft.form.kind == "mask" or draft.form.tags:
        return 2
    return len(draft.form.labels)


def _predict(draft: TaskDraft, view: tuple[Any, Any], seed: int, model: str, every: int = 1) -> Any:
    """Predictions for the test rows, in the shape that TaskDraft.hand_in takes."""
    import numpy as np

    several = _labels(draft) == 2 and draft.y.shape[1] > 1
    if view[1].ndim == 3:
        arrays = _arrays(draft, view, None, every)
        values = fit_predict(arrays, models(arrays, seed)[model])[:, -1]
        return values.reshape(draft.rows[1], -1)
    if not several:
        arrays = _arrays(draft, view, None, every)
        return fit_predict(arrays, models(arrays, seed)[model])
    columns = []
    for at in range(draft.y.shape[1]):
        arrays = _arrays(draft, view, at, every)
        columns.append(fit_predict(arrays, models(arrays, seed)[model])[:, 1])
    return np.column_stack(columns)


def _tuned(draft: TaskDraft, view: tuple[Any, Any], seed: int, made: dict[str, Any]) -> Any:
    """The mean of the two models with the least error on held-out folds of train.csv; of several tags, on the first."""
    column = 0 if view[1].ndim == 2 and draft.y.shape[1] > 1 else None
    arrays = _arrays(draft, view, column)
    candidates = models(arrays, seed)
    best = best_by_folds({name: (arrays, candidates[name]) for name in TUNED})
    return sum(made[name] for name in best) / len(best)


def _alone(draft: TaskDraft, seed: int) -> Any:
    """A shallow tree on the one feature of the plain view that does best on held-out folds of train.csv."""
    import numpy as np

    view = draft.views["plain"]
    column = 0 if view[1].ndim == 2 and draft.y.shape[1] > 1 else None
    arrays = _arrays(draft, view, column)
    y = arrays.y[:, 0].astype(float)
    near = np.abs((arrays.x * (y - y.mean())[:, None]).mean(axis=0))
    candidates = np.argsort(-np.round(near, 9), kind="stable")[:MOST_ALONE]
    tree = models(arrays, seed)["tree"]
    alone = {
        str(at): (Arrays(arrays.x[:, [at]], arrays.y, arrays.test[:, [at]], arrays.labels, arrays.balanced), tree)
        for at in candidates
    }
    best = best_by_folds(alone)[0]
    alone_view = (view[0][..., [int(best)]], view[1][..., [int(best)]])
    return _predict(draft, alone_view, seed, "tree")
