"""Top shares, gains, validation scores, running means and masks, on numbers worked out by hand."""

from typing import Any

import pytest
from filtered import cut_from, one_graded

from mletools.filters import Decision, FilterOptions, Remembered, Selection
from mletools.filters.masks import masked
from mletools.filters.values import difference, normalised, top_threshold

ALONE: dict[str, Any] = {"min_group": 1, "spread": False}


def decided(
    options: FilterOptions, *rollouts: dict[str, Any], measured: dict[str, Any] | None = None
) -> list[Decision]:
    selection = Selection(options)
    found = [one for rollout in rollouts for one in selection.add(rollout, measured)]
    return [*found, *selection.flush()]


def kept(decisions: list[Decision]) -> list[str]:
    return [one.rollout["id"] for one in decisions if one.reason is None]


def rewarded(*rewards: float | None, **changed: Any) -> list[dict[str, Any]]:
    return [one_graded(at, reward, **changed) for at, reward in enumerate(rewards)]


@pytest.mark.parametrize(
    ("rewards", "share", "threshold"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], 0.3, 0.8),  # 3 of 10
        ([0.1, 0.2, 0.3, 0.4], 0.3, 0.3),  # 1.2 of 4: 2
        ([0.2], 0.3, 0.2),  # one at least
        ([0.1, 0.5, 0.5, 0.5, 0.5, 0.2], 0.3, 0.5),  # 1.8 of 6: 2, and two more are equal to them
        ([0.4, 0.4, 0.4], 0.3, 0.4),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.7, 4),  # 0.7 * 10 is a bit more than 7
        ([0.3, 0.1], 1.0, 0.1),
    ],
)
def test_top_threshold(rewards: list[float], share: float, threshold: float) -> None:
    assert top_threshold(rewards, share) == threshold


def test_the_running_mean_prunes_what_is_far_below() -> None:
    # mean 5.6 / 8 = 0.7, sd sqrt((7 * 0.1^2 + 0.7^2) / 8) = sqrt(0.07) = 0.26458: below 0.7 - 0.52915 = 0.17085 is 0.0
    window = [0.8, 0.8, 0.8, 0.0, 0.8, 0.8, 0.8, 0.8]
    assert normalised(0.85, window) == 0.05 and normalised(0.85, window, sigmas=3.0) == 0.15
    # what is far above stays: mean 1.7 / 8 = 0.2125
    assert normalised(0.2125, [0.1] * 7 + [1.0]) == 0.0
    # mean 0.8, sd 0.4: 0 lies at 0.8 - 2 * 0.4 and is not less
    assert normalised(1.0, [1.0, 1.0, 0.0, 1.0, 1.0]) == 0.2
    # six: mean 5/6, sd sqrt(5)/6 = 0.3727, bound 0.0880: 0 is pruned; with the denominator n - 1, bound 0.0169, too
    assert normalised(1.0, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]) == 0.0
    assert normalised(0.25, [0.5]) == -0.25


def test_differences_are_those_of_the_decimal_numbers() -> None:
    assert 0.51 - 0.5 > 0.01 and difference(0.51, 0.5) == 0.01
    assert 0.43 - 0.4 < 0.03 and difference(0.43, 0.4) == 0.03


def test_the_window_has_the_last_rewards_and_not_the_rollouts_own() -> None:
    options = FilterOptions(window=2, tau_rm=0.03, binarise=True, **ALONE)
    found = decided(options, *rewarded(0.5, 0.51, 0.6, None, 0.525, 0.5625, 0.5))
    assert [(one.reason, one.notes.get("normalised"), one.notes.get("reward")) for one in found] == [
        ("warming up: 0 rewards in the window, fewer than 1", None, None),
        ("insignificant: 0.01 off the running mean, less than 0.03", 0.01, 1),  # less 0.5
        (None, 0.095, 1),  # less (0.5 + 0.51) / 2: what was dropped is in the window
        ("invalid: no submission.csv", None, None),  # and what is invalid is not
        (None, -0.03, 0),  # less (0.51 + 0.6) / 2 = 0.555: as much as 0.03
        ("insignificant: 0 off the running mean, less than 0.03", 0.0, 0),  # less (0.6 + 0.525) / 2
        (None, -0.04375, 0),  # less (0.525 + 0.5625) / 2 = 0.54375
    ]


def test_the_normalised_reward_is_the_reward_less_the_running_mean() -> None:
    options = FilterOptions(window=2, normalise=True, **ALONE)
    found = decided(options, *rewarded(0.5, 0.51, 0.6, None, 0.525))
    assert [(one.notes.get("normalised"), one.notes.get("reward")) for one in found] == [
        (None, None),  # warming up
        (0.01, 0.01),
        (0.095, 0.095),
        (None, None),  # invalid
        (-0.03, -0.03),  # negative rewards stay
    ]


def test_each_task_and_each_kind_of_trace_has_its_window() -> None:
    kinds: list[dict[str, Any]] = [
        {"trace": "reset"},
        {"trace": "memory"},
        {},
        {"task": {"id": "other"}, "trace": "reset"},
    ]
    rollouts = [one_graded(at, 0.1 * (at + 1), **kind) for at, kind in enumerate(kinds)]
    rollouts += [one_graded(at + 4, 0.9, **kind) for at, kind in enumerate(kinds)]
    found = decided(FilterOptions(window=8, **ALONE), *rollouts)
    assert [one.notes.get("normalised") for one in found] == [None] * 4 + [0.8, 0.7, 0.6, 0.5]
    assert kept(found) == ["r4", "r5", "r6", "r7"]
    # two of three: from the third on
    warm = decided(FilterOptions(window=3, window_min=2, **ALONE), *rewarded(0.1, 0.2, 0.3, 0.4))
    assert kept(warm) == ["r2", "r3"]
    assert warm[1].reason == "warming up: 1 rewards in the window, fewer than 2"


def test_the_top_of_the_input_and_of_what_was_seen() -> None:
    rewards = (0.5, 0.2, 0.9, 0.7, 0.5, None, 0.8, 0.1)
    whole = decided(FilterOptions(top=0.3, **ALONE), *rewarded(*rewards))
    assert kept(whole) == ["r2", "r3", "r6"]  # 2.1 of 7: 3, 0.9 0.8 0.7
    assert whole[0].reason == "not in the top: 0.5 is below 0.7" and whole[0].notes == {"tau_abs": 0.7}
    selection = Selection(FilterOptions(top=0.3, calibrate="seen", **ALONE))
    seen = [list(selection.add(rollout)) for rollout in rewarded(*rewards)]
    assert [len(each) for each in seen] == [1] * 8  # a stream flows
    # thresholds: 1 of 1, 1 of 2, 1 of 3, 2 of 4 (0.7), 2 of 5 (0.7), 2 of 6 (0.8), 3 of 7 (0.7)
    assert [one.notes.get("tau_abs") for (one,) in seen] == [0.5, 0.5, 0.9, 0.7, 0.7, None, 0.8, 0.7]
    assert kept([one for (one,) in seen]) == ["r0", "r2", "r3", "r6"] and not list(selection.flush())


def test_what_is_remembered_counts_in_the_top() -> None:
    before = Remembered()
    for _ in range(1200):
        before.reward("mill", 0.6)
    selection = Selection(FilterOptions(top=0.001, **ALONE), before)
    assert not [one for rollout in rewarded(0.5, 0.7) for one in selection.add(rollout)]
    assert [one.notes["tau_abs"] for one in selection.flush()] == [0.6, 0.6]  # 1.002 of 1002: 2, 0.7 and 0.6
    held = before.as_json()["mill"]["rewards"]
    assert len(held) == 1000 and held[-3:] == [0.6, 0.5, 0.7] and before.size == 1000


def test_gain_and_validation_score() -> None:
    options = FilterOptions(tau_adv=0.01, tau_val=0.1, **ALONE)
    for gain, rank, reason in (
        (0.02, 0.1, None),
        (0.01, 0.5, "no gain: 0.01 over the reference's human rank, not more than 0.01"),
        (-0.3, 0.05, "no gain: -0.3 over the reference's human rank, not more than 0.01"),
        (0.02, 0.09, "validation: human rank 0.09 is below 0.1"),
        (None, None, None),
    ):
        told = {name: value for name, value in (("gain", gain), ("validation_rank", rank)) if value is not None}
        (found,) = decided(options, one_graded(0, 0.5, cut=cut_from(None)), measured=told)
        assert found.reason == reason and found.notes == told


def test_a_dropped_reward_is_counted_under_the_first_filter_and_enters_the_window() -> None:
    options = FilterOptions(top=0.5, window=8, tau_rm=0.03, **ALONE)
    found = decided(options, *rewarded(0.9, 0.1, 0.8, code="the same"))
    assert [one.reason for one in found] == [
        "warming up: 0 rewards in the window, fewer than 1",
        "not in the top: 0.1 is below 0.8",
        None,  # the earlier ones of its program were dropped
    ]
    assert [one.notes["tau_abs"] for one in found] == [0.8] * 3
    assert found[2].notes["normalised"] == 0.3  # less (0.9 + 0.1) / 2


def test_a_group_is_compared_by_the_rewards_that_training_sees() -> None:
    pair = [one_graded(at, reward, group="g", group_size=2, sample=at) for at, reward in enumerate((0.6, 0.7))]
    first = one_graded(9, 0.1, group="h")
    selection = Selection(FilterOptions(window=8, binarise=True))
    found = [one for rollout in (first, *pair) for one in selection.add(rollout)]
    assert [one.reason for one in found[1:]] == ["no spread: all rewards left in the group are equal"] * 2
    assert [one.notes["reward"] for one in found[1:]] == [1, 1]


def test_too_many_open_groups_are_decided_as_they_are() -> None:
    selection = Selection(FilterOptions(open_groups=2, **ALONE))
    found = [[one.rollout["id"] for one in selection.add(one_graded(at, 0.5, group_size=2))] for at in range(4)]
    assert found == [[], [], ["r0"], ["r1"]] and selection.decided_early == 2
    assert [one.rollout["id"] for one in selection.flush()] == ["r2", "r3"]


def test_what_an_earlier_run_marked_stays_dropped_and_counts_nowhere() -> None:
    marked = one_graded(1, 0.9, filter={"kept": False, "reason": "score: it was"})
    found = decided(FilterOptions(window=4, **ALONE), *rewarded(0.5), marked, one_graded(2, 0.6))
    assert [one.reason for one in found[1:]] == ["score: it was", None]
    assert found[2].notes["normalised"] == 0.1


SUBMITTED = {"file": "submissions/a", "digest": "sha256:a", "bytes": 1}


def turn(at: int, action: str = "execute_code", problem: str | None = None, **more: Any) -> dict[str, Any]:
    return {"action": action, "duration_s": 1.0, "message": at, "problem": problem, **more}


def in_turns(*turns: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A rollout whose policy says every second message."""
    messages: list[dict[str, Any]] = []
    for _ in turns:
        messages += [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!", "loss": True}]
    return one_graded(0, 0.5, messages=messages, turns=list(turns), **changed)


def test_masks_are_on_bad_form_and_invalid_hand_ins() -> None:
    ran, left = {"execution": {"submission": None}}, {"execution": {"submission": SUBMITTED}}
    rollout = in_turns(
        turn(1, "none", "malformed"), turn(3, "none", "length"), turn(5, "request_info", "unknown"),
        turn(7, "validate_code", **ran), turn(9, **ran), turn(11, **left, grade={"valid": False}),
        turn(13, **left, grade={"valid": True}), turn(15, "python", **ran), turn(17, "validate_code", **left),
    )  # fmt: skip
    assert masked(rollout) == [1, 3, 5, 9, 11]
    messages = [{**one, "loss": False} if at < 5 else one for at, one in enumerate(rollout["messages"])]
    earlier = {**rollout, "messages": messages}
    assert masked(earlier) == [5, 9, 11]
    # a message that only a lenient reading finds is in bad form where the exact one is demanded
    lenient = {"format": {"read": "lenient", "rule": "first_action"}}
    for form, masks in (("strict", [1]), ("lenient", [])):
        settings = {"format": form}
        assert masked(in_turns({**turn(1, "python", **ran), **lenient}, turn(3, "python"), settings=settings)) == masks
    for stop_reason, masks in (("finished", []), ("format", [1])):
        alone = one_graded(0, 0.5, turns=[{"action": "solve", "duration_s": 1.0}], stop_reason=stop_reason)
        assert masked(alone) == masks
    # mle-grade has the last word on the submission that it read
    late = in_turns(turn(1, **left, grade={"valid": True}), grade={"valid": False, "digest": "sha256:a"})
    assert masked(late) == [1]
    cell = in_turns(
        turn(1, "python", submission=SUBMITTED, grade={"valid": False}), turn(3, "score", grade={"valid": False})
    )
    assert masked(cell) == [1]


def test_a_rollout_without_a_message_left_is_dropped() -> None:
    options = FilterOptions(mask_invalid=True, keep_invalid=True, **ALONE)
    answer = {"turns": [{"action": "solve", "duration_s": 1.0}]}
    good, bad = one_graded(0, 0.5, **answer), {**one_graded(1, None, **answer), "reward": -1.0}
    part = in_turns(turn(1, "none", "missing"), turn(3), id="r2", code="another")
    found = decided(options, good, bad, part)
    assert [one.notes for one in found] == [{"masked": []}, {"masked": [1]}, {"masked": [1]}]
    assert found[1].reason == "masked: none of the policy's messages may carry loss"
    assert kept(found) == ["r0", "r2"]
