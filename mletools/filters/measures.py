"""Measures of rollouts that the filters compare with their thresholds."""

from collections.abc import Callable
from typing import TypedDict

from ..base.errors import RecordError
from ..records.rollout import HumanRank, RankRule, Rollout
from ..records.task import Task
from .options import FilterOptions
from .steps import reference_of
from .values import difference

HumanRanks = Callable[[Task, float, RankRule], HumanRank]  # of a test score, by a rule


class Measures(TypedDict, total=False):
    """What filters compare: the human rank less the reference's, and that of the validation score shown."""

    gain: float
    validation_rank: float


class Notes(Measures, total=False):
    """What goes into a rollout's `filter` beside the decision; see records.FilterDecision."""

    masked: list[int]
    tau_abs: float
    normalised: float
    reward: float


def measured(rollout: Rollout, options: FilterOptions, human_rank: HumanRanks) -> Measures:
    """The measures of a rollout.

    What the options do not need, or the rollout does not have, is left out. RecordError for a rollout without a grade,
    and for a valid one of a task without a leaderboard: it has no human rank.
    """
    for key in ("grade", "reward"):
        if key not in rollout:
            raise RecordError(f'no "{key}": was this written by mle-grade?')
    grade, task = rollout["grade"], rollout["task"]
    filters = [name for name in ("tau_adv", "tau_val") if getattr(options, name) is not None]
    if not filters or not grade["valid"]:
        return {}
    rule = grade.get("human_rank_rule")
    if rule is None:
        raise RecordError(f"--{filters[0].replace('_', '-')}: the task has no leaderboard")
    measures: Measures = {}
    reference = reference_of(rollout)
    if "tau_adv" in filters and reference is not None:
        rank = reference[1]
        if rank is None or rank["human_rank_rule"] != rule:
            rank = human_rank(task, reference[0], rule)
        measures["gain"] = difference(_known(grade.get("human_rank")), _known(rank["human_rank"]))
    validation = rollout.get("validation")
    if "tau_val" in filters and validation and validation["score"] is not None:
        measures["validation_rank"] = _known(human_rank(task, validation["score"], rule)["human_rank"])
    return measures


def _known(rank: float | None) -> float:
    """A rank of a task with a leaderboard. RecordError: there is none."""
    if rank is None:
        raise RecordError("a task with a leaderboard, but no human rank: was this written by mle-grade?")
    return rank
