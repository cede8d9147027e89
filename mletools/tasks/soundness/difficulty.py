"""Checks of thresholds and baselines, and of the evaluator: is the task in order, learnable, not trivial, in time?

Where a record has no baselines, models are trained on the columns of train.csv and test.csv (models). Not covered:
whether a model learns from pictures, sounds or texts where a record has no baselines and nothing was tried out.
"""

import math
from typing import Any

from ...base.errors import RecordError
from ...grading import rounded
from ...records.task import Thresholds
from ..thresholds import NAMES, ordered
from .case import Skipped
from .view import View

# The share of the way from the dummy to gold that a standard pipeline has to go to be clearly better.
CLEARLY = 0.1
# Without thresholds: so many deviations better than its own predictions in a wrong order.
DEVIATIONS = 3.0
SHUFFLES = 12
# Baselines that are no standard pipeline: they know too little or too much.
SPECIAL = ("dummy", "constant", "single_feature", "right_features", "ceiling")


def thresholds_ordered(view: View) -> str:
    """dummy < median < bronze < silver < gold in the metric's direction, the dummy scored now. SandMLE eq. 1."""
    dummy, thresholds = _dummy(view), _thresholds(view)
    if ordered(dummy, thresholds, view.lower):
        return ""
    told = ", ".join(f"{name} {thresholds[name]:g}" for name in NAMES)
    return f"dummy {dummy:g}, {told} are not in order"


def gold_reachable(view: View) -> str:
    """Some baseline reaches gold; being equal is enough, as for a medal."""
    scores, gold = _baselines(view), _thresholds(view)["gold"]
    if not scores:
        raise Skipped("the record has no baselines")
    best = max(scores.values(), key=lambda score: _good(view, score))
    return "" if _good(view, best) >= _good(view, gold) else f"the best baseline scores {best:g}, gold is {gold:g}"


def medals_stable(view: View) -> str:
    """Gold is at least one standard error further than bronze: `medal_stability`, by bootstrap over the test rows."""
    known = view.task["provenance"].get("medal_stability")
    if known is None:
        raise Skipped("the record has no medal_stability")
    gap, error = known["gap"], known["standard_error"]
    return "" if gap >= error else f"gold is {gap:g} from bronze, the standard error of a score is {error:g}"


def ceiling_above_gold(view: View) -> str:
    """The baseline that knows the rule is strictly better than gold."""
    scores, gold = _baselines(view), _thresholds(view)["gold"]
    if "ceiling" not in scores:
        raise Skipped("the record has no ceiling")
    high = _good(view, scores["ceiling"]) > _good(view, gold)
    return "" if high else f"the ceiling scores {scores['ceiling']:g}, gold is {gold:g}"


def learnable(view: View) -> str:
    """A standard pipeline goes at least a tenth of the way from the dummy's score to gold.

    It is the best of the record's baselines but for SPECIAL ones; without any the standard solution that was tried out,
    else the better of a linear model and a forest on the columns of the tables. Without thresholds the trained model
    must be better than the dummy and DEVIATIONS above its own predictions in SHUFFLES wrong orders.
    """
    standard = {name: score for name, score in _baselines(view).items() if name not in SPECIAL}
    if standard:
        name = max(standard, key=lambda each: _good(view, standard[each]))
        return _clear(view, name, standard[name])
    if view.case.trial is not None and _trial(view).score is not None:
        return _clear(view, "the standard solution", _trial(view).score)
    from .models import predictions, shuffled, submission_of

    table = view.once("arrays", lambda: _arrays(view))
    found = {name: submission_of(view, table, values) for name, values in predictions(table).items()}
    scores = {name: _score(view, content) for name, content in found.items()}
    name = max(scores, key=lambda each: _good(view, scores[each]))
    if _has_thresholds(view):
        return _clear(view, name, scores[name])
    wrong = [_good(view, _score(view, content)) for content in shuffled(found[name], len(view.ids), SHUFFLES)]
    mean = sum(wrong) / len(wrong)
    spread = math.sqrt(sum((each - mean) ** 2 for each in wrong) / (len(wrong) - 1))
    good, dummy = _good(view, scores[name]), _good(view, _dummy(view))
    if good > dummy and good > mean + DEVIATIONS * spread:
        return ""
    return f"{name} scores {scores[name]:g}, the dummy {_dummy(view):g}: no clear gain over chance"


def not_trivial(view: View) -> str:
    """Neither the dummy nor a constant reaches the median, and no single feature reaches gold.

    The record's baseline single_feature; without it trees of depth 3 on one column each, of which three folds of train
    choose the column.
    """
    thresholds = _thresholds(view)
    if _good(view, _dummy(view)) >= _good(view, thresholds["median"]):
        return f"the dummy scores {_dummy(view):g}, the median is {thresholds['median']:g}"
    scores = _baselines(view)
    if "constant" in scores and _good(view, scores["constant"]) >= _good(view, thresholds["median"]):
        return f"a constant scores {scores['constant']:g}, the median is {thresholds['median']:g}"
    if "single_feature" in scores:
        name, score = "a single feature", scores["single_feature"]
    else:
        from .models import single, submission_of

        try:
            table = view.once("arrays", lambda: _arrays(view))
        except Skipped:
            return ""  # there are no columns, so no column is enough
        column, values = single(table)
        name, score = f"column {column} alone", _score(view, submission_of(view, table, values))
    reached = _good(view, score) >= _good(view, thresholds["gold"])
    return f"{name} scores {score:g}, gold is {thresholds['gold']:g}" if reached else ""


def evaluator_deterministic(view: View) -> str:
    """The sample submission has the same score twice."""
    first, second = _dummy(view), _score(view, view.sample_bytes)
    return "" if first == second else f"the sample submission scores {first!r}, then {second!r}"


def runs_in_time(view: View) -> str:
    """A standard solution ended well, within its limit, with a submission that has a score."""
    if view.case.trial is None:
        raise Skipped("no solution was tried out")
    trial = _trial(view)
    if trial.status != "ok":
        return f"a standard solution ended with status {trial.status}: {trial.reason}"
    if trial.duration_s > trial.limit_s:
        return f"a standard solution took {trial.duration_s:.1f} of {trial.limit_s:g} s"
    return "" if trial.score is not None else f"a standard solution has no score: {trial.reason}"


def _trial(view: View) -> Any:
    return view.once("trial", view.case.trial or (lambda: None))


def _arrays(view: View) -> Any:
    from .models import arrays_of

    return arrays_of(view)


def _clear(view: View, name: str, score: float) -> str:
    dummy = _dummy(view)
    gain = _good(view, score) - _good(view, dummy)
    if not _has_thresholds(view):
        return "" if gain > 0 else f"{name} scores {score:g}, the dummy {dummy:g}"
    way = _good(view, view.task["thresholds"]["gold"]) - _good(view, dummy)
    if gain > 0 and gain >= CLEARLY * way:
        return ""
    gold = view.task["thresholds"]["gold"]
    return f"{name} scores {score:g}, which is not clearly better than the dummy, {dummy:g} (gold is {gold:g})"


def _good(view: View, score: float) -> float:
    return -score if view.lower else score


def _has_thresholds(view: View) -> bool:
    return bool(view.task.get("thresholds"))


def _thresholds(view: View) -> Thresholds:
    if not _has_thresholds(view):
        raise Skipped("the record has neither thresholds nor a leaderboard")
    return view.task["thresholds"]


def _baselines(view: View) -> dict[str, float]:
    return {each["name"]: each["score"] for each in view.task["provenance"].get("baselines", [])}


def _dummy(view: View) -> float:
    """The score of the sample submission, computed once."""
    if not view.sample_bytes:
        raise Skipped("there is no sample submission")
    return float(view.once("dummy", lambda: _score(view, view.sample_bytes)))


def _score(view: View, content: bytes) -> float:
    """A score with the decimals of a grade. Undefined where there is none."""
    try:
        score = float(view.case.score(content))
    except (ValueError, RecordError) as error:
        raise NoScore(str(error)) from None
    if not math.isfinite(score):
        raise NoScore(f"the score is {score}")
    return rounded(score, view.task["metric"])


class NoScore(Exception):
    """A submission that ought to have a score has none."""
