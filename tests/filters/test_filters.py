"""Which rollouts are kept, and the reason for every drop."""

from dataclasses import replace
from typing import Any

from mletools.filters import FilterOptions, Selection, normal_form


def rollout(
    group: str,
    sample: int,
    reward: float | None,
    code: str = "",
    valid: bool = True,
    score: float = 0.5,
    size: int = 3,
    lower: bool = False,
) -> dict[str, Any]:
    grade = {
        "valid": valid,
        "reason": None if valid else "no submission.csv",
        "score": score if valid else None,
        "lower_is_better": lower,
    }
    return {
        "id": f"{group}{sample}",
        "group": group,
        "group_size": size,
        "sample": sample,
        "task": {"id": "t"},
        "code": code or f"x = {group!r}, {sample}",
        "grade": grade,
        "reward": reward,
    }


def decide(options: FilterOptions, *rollouts: dict[str, Any]) -> dict[str, str | None]:
    selection = Selection(options)
    decisions = [decision for one in rollouts for decision in selection.add(one)]
    decisions += list(selection.flush())
    return {one.rollout["id"]: one.reason for one in decisions}


def test_each_drop_has_its_reason() -> None:
    found = decide(
        FilterOptions(),
        rollout("a", 0, 0.3), rollout("a", 1, 0.5), rollout("a", 2, 0.0, valid=False),
        rollout("b", 0, 0.3), rollout("b", 1, 0.3), rollout("b", 2, None),
        rollout("c", 0, 0.3), rollout("c", 1, 0.0, valid=False), rollout("c", 2, 0.3, code="x='c',0 # again"),
    )  # fmt: skip
    assert found == {
        "a0": None, "a1": None, "a2": "invalid: no submission.csv",
        "b0": "no spread: all rewards left in the group are equal", "b1": "no spread: all rewards left in the group are equal",
        "b2": "no reward: the rule gives none to such a rollout",
        "c0": "small group: 1 left, fewer than 2", "c1": "invalid: no submission.csv", "c2": "duplicate: the same program as an earlier one",
    }  # fmt: skip


def test_a_program_of_a_dropped_group_is_no_earlier_one() -> None:
    """Else a task whose first group is all alike would never have a group again."""
    p, q = {"reward": 1.0, "code": "p = 1"}, {"reward": 0.2, "code": "q = 1"}
    groups = {"a": [p, p, p, p], "b": [p, p, q, q], "c": [p, p, q, {"reward": 0.1, "code": "r = 1"}]}
    found = decide(
        FilterOptions(),
        *(rollout(name, at, size=4, **one) for name, ones in groups.items() for at, one in enumerate(ones)),
    )
    assert [found[f"a{at}"] for at in range(4)] == [
        "small group: 1 left, fewer than 2",
        *["duplicate: the same program as an earlier one"] * 3,
    ]
    assert [id for id, reason in found.items() if reason is None] == ["b0", "b2"]
    assert found["c3"] == "small group: 1 left, fewer than 2"  # the others are those that b was kept for


def test_what_a_dropped_program_was_equal_to_is_no_duplicate() -> None:
    """Of two equal programs one is kept where one is worth it, also of two traces with one sample."""
    selection = Selection(FilterOptions(tau_adv=0.01, min_group=1, spread=False))
    pair = [(rollout("a", 0, 0.3, code="p = 1", size=2), 0.0), (rollout("a", 1, 0.5, code="p = 1", size=2), 0.3)]
    found = [one.reason for each, gain in pair for one in selection.add(each, {"gain": gain})]
    assert found == ["no gain: 0 over the reference's human rank, not more than 0.01", None]
    traces = [
        {**rollout("b", 0, 0.3, code="q = 1", size=2), "id": "b0", "trace": "t"},
        {**rollout("b", 0, 0.5, code="r = 1", size=2), "id": "b1", "trace": "t"},
    ]
    selection = Selection(FilterOptions(min_reward=0.4, min_group=1, spread=False))
    assert [one.reason is None for each in traces for one in selection.add(each)] == [False, True]
    (later,) = selection.add(rollout("c", 0, 0.9, code="q = 1", size=1))
    assert later.reason is None


def test_no_group_waits_for_a_rollout_without_a_step() -> None:
    """mle-filter --cut-steps --mark leaves it beside the steps of its group, each of which is a group of its own."""
    marked = {**rollout("a", 0, 0.3, size=4), "filter": {"kept": False, "reason": "no step: nothing was handed in"}}
    (decision,) = Selection(FilterOptions()).add(marked)
    told = decision.as_record()["filter"]
    assert told == {"kept": False, "reason": "no step: nothing was handed in", "arrived": 1, "members": 0}


def test_options_keep() -> None:
    group = [rollout("a", 0, 0.0, valid=False), rollout("a", 1, 0.3, code="y=1"), rollout("a", 2, 0.3, code="y = 1")]
    assert set(decide(FilterOptions(keep_invalid=True, keep_duplicates=True), *group).values()) == {None}
    lonely = FilterOptions(min_group=1, spread=False)
    assert [id for id, reason in decide(lonely, *group).items() if reason is None] == ["a1"]
    # where no rewards are compared, what has none may be imitated
    unrewarded = [rollout("a", 0, None, valid=False), rollout("a", 1, 0.3)]
    for options, kept in ((lonely, ["a1"]), (replace(lonely, keep_invalid=True), ["a0", "a1"])):
        assert [id for id, reason in decide(options, *unrewarded).items() if reason is None] == kept
    compared = FilterOptions(keep_invalid=True, min_group=1)
    assert decide(compared, *unrewarded)["a0"] == "no reward: the rule gives none to such a rollout"


def test_min_score_goes_in_the_metrics_direction() -> None:
    options = FilterOptions(min_score=0.5, min_group=1, spread=False)
    assert decide(options, rollout("a", 0, 0.1, score=0.4, size=1))["a0"] == "score: 0.4 is worse than 0.5"
    assert decide(options, rollout("a", 0, 0.1, score=0.4, size=1, lower=True))["a0"] is None


def test_min_reward_and_min_medal_keep_what_is_good() -> None:
    alone = FilterOptions(min_group=1, spread=False)
    members = [rollout("a", 0, 0.2), rollout("a", 1, 0.7), rollout("a", 2, 0.9)]
    for member, medal in zip(members, (None, "bronze", "silver"), strict=True):
        member["grade"]["medal"] = medal
    assert decide(replace(alone, min_reward=0.7), *members) == {
        "a0": "reward: 0.2 is below 0.7",
        "a1": None,
        "a2": None,
    }
    assert decide(replace(alone, min_medal="silver"), *members) == {
        "a0": "medal: none, less than silver", "a1": "medal: bronze, less than silver", "a2": None,
    }  # fmt: skip
    failed = [rollout("b", 0, None, valid=False), rollout("b", 1, 0.1, valid=False)]
    assert decide(replace(alone, keep_invalid=True, min_reward=0.5), *failed) == {
        "b0": "no reward: the rule gives none to such a rollout", "b1": "reward: 0.1 is below 0.5",
    }  # fmt: skip


def test_a_group_is_decided_when_complete_whatever_the_order() -> None:
    selection = Selection(FilterOptions())
    members = [rollout("a", 2, 0.1, code="same"), rollout("a", 0, 0.2, code="same"), rollout("a", 1, 0.3)]
    assert not list(selection.add(members[0])) and not list(selection.add(members[1]))
    decided = list(selection.add(members[2]))
    assert [(one.rollout["id"], one.reason is None) for one in decided] == [("a0", True), ("a1", True), ("a2", False)]
    assert not list(selection.flush())


def test_formatting_is_no_difference_and_names_are() -> None:
    assert normal_form("x=1 # one\n") == normal_form("x = (1)\n") != normal_form("y = 1\n")
    assert normal_form("def (") == normal_form("def  (\n")


def test_a_decision_tells_how_many_of_the_group_came_and_stay() -> None:
    selection = Selection(FilterOptions())
    for member in (rollout("a", 0, 0.1), rollout("a", 1, 0.2), rollout("a", 2, 0.3, valid=False)):
        decided = list(selection.add(member))
    assert [(one.reason is None, one.arrived, one.members) for one in decided] == [(True, 3, 2)] * 2 + [(False, 3, 2)]
    for member in (rollout("b", 0, 0.1), rollout("b", 1, 0.1)):
        assert not list(selection.add(member))
    assert [(one.reason is None, one.arrived, one.members) for one in selection.flush()] == [(False, 2, 0)] * 2
