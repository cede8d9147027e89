"""Checks that a draft passes before it becomes a task; each is one function, and a new check is one more in CHECKS.

Not covered: whether the task teaches anything, which only rollouts can tell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..records.csv_files import read_columns, read_rows
from .draft import TaskDraft
from .table import Rejected
from .thresholds import ordered


@dataclass(frozen=True)
class Evidence:
    """What the checks look at."""

    draft: TaskDraft
    description: str
    baselines: list[dict[str, Any]]
    thresholds: dict[str, float]
    lower_is_better: bool


def check_draft(
    draft: TaskDraft,
    description: str,
    baselines: list[dict[str, Any]],
    thresholds: dict[str, float],
    lower_is_better: bool,
    names: Sequence[str] = (),
) -> dict[str, str]:
    """{check: "passed"} of every check, or of those of these names; Rejected with the first reason otherwise."""
    evidence = Evidence(draft, description, baselines, thresholds, lower_is_better)
    for name in names or CHECKS:
        reason = CHECKS[name](evidence)
        if reason:
            raise Rejected(f"{name}: {reason}")
    return {name: "passed" for name in names or CHECKS}


def _order(evidence: Evidence) -> str:
    dummy = evidence.baselines[0]["score"]
    right = ordered(dummy, evidence.thresholds, evidence.lower_is_better)
    return "" if right else "dummy and thresholds are out of order"


def _gold(evidence: Evidence) -> str:
    sign = -1 if evidence.lower_is_better else 1
    best = max(sign * entry["score"] for entry in evidence.baselines)
    return "" if best >= sign * evidence.thresholds["gold"] else "no baseline reaches gold"


def _learnable(evidence: Evidence) -> str:
    """Half of the baselines beat the dummy (a few of many do so by luck), and an R2 explains something."""
    if evidence.draft.metric["name"] == "r2" and evidence.thresholds["gold"] <= 0:
        return "gold explains none of the variation"
    sign = -1 if evidence.lower_is_better else 1
    dummy, *trained = (sign * entry["score"] for entry in evidence.baselines)
    better = sum(score > dummy for score in trained)
    return "" if 2 * better >= len(trained) else f"only {better} of {len(trained)} baselines beat the dummy"


def _separate(evidence: Evidence) -> str:
    """No row of the test is in train: neither by id nor by its features."""
    (_, *train), (_, *test) = (read_rows(evidence.draft.public[name]) for name in ("train.csv", "test.csv"))
    if {line[0] for line in train} & {line[0] for line in test}:
        return "train and test share an id"
    stop = 1 + len(evidence.draft.features)
    shared = {tuple(line[1:stop]) for line in train} & {tuple(line[1:stop]) for line in test}
    return "train and test share a row" if shared else ""


def _secret(evidence: Evidence) -> str:
    """No public file but train.csv has a target column, and no feature is a copy of the target."""
    draft = evidence.draft
    targets = {*(column.name for column in draft.targets), *draft.submission["target"]}
    if targets & set(next(read_rows(draft.public["test.csv"]))):
        return "test.csv has a target column"
    train = read_columns(draft.public["train.csv"])
    for target in draft.targets:
        for feature in draft.features:
            one, other = train[target.name], train[feature.name]
            pairs = len(set(zip(one, other, strict=True)))
            recoded = bool(draft.form.labels) and pairs == len(set(one)) == len(set(other))
            if one == other or recoded:
                return f"{feature.name} is a copy of the target"
    return ""


def _silent(evidence: Evidence) -> str:
    """The description names neither the answers nor the rule."""
    if "answers" in evidence.description:
        return "the description names the answers"
    rule = evidence.draft.origin.get("hidden_rule", "")
    told = [part for part in rule.split(" + ") if part and part in evidence.description]
    return "the description tells the rule" if told else ""


CHECKS: dict[str, Callable[[Evidence], str]] = {
    "thresholds_ordered": _order,
    "gold_reachable": _gold,
    "learnable": _learnable,
    "train_test_separate": _separate,
    "answers_secret": _secret,
    "description_silent": _silent,
}
# What makes thresholds worth having, and what makes the split of a table sound.
OF_THRESHOLDS = ("thresholds_ordered", "gold_reachable", "learnable")
OF_SPLIT = ("train_test_separate", "answers_secret")
