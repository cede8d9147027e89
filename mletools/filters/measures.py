"""Measures of rollouts that the filters compare with their thresholds."""

from collections.abc import Callable, Mapping
from typing import Any

from ..records.errors import RecordError
from .options import FilterOptions
from .steps import reference_of
from .values import difference

# (task, test score, rule) -> {"human_rank", "human_rank_rule"}, both None for a task without a leaderboard
HumanRank = Callable[[Mapping[str, Any], float, str], dict[str, Any]]


def measured(rollout: Mapping[str, Any], options: FilterOptions, human_rank: HumanRank) -> dict[str, Any]:
    """{gain, validation_rank}: the human rank less the reference's, and that of the validation score shown.

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
    measures: dict[str, Any] = {}
    reference = reference_of(rollout)
    if "tau_adv" in filters and reference is not None:
        if reference.get("human_rank_rule") != rule:
            reference = human_rank(task, reference["score"], rule)
        measures["gain"] = difference(grade["human_rank"], reference["human_rank"])
    shown = (rollout.get("validation") or {}).get("score")
    if "tau_val" in filters and shown is not None:
        measures["validation_rank"] = human_rank(task, shown, rule)["human_rank"]
    return measures
