"""The top of the page of two sets: which is better, by how much, how sure that is, by whom, and what changed most."""

from typing import Any

from report_builders import a_set, rollout

from mletools.reports.page.headline import Makers, headline

SETTINGS: dict[str, Any] = {"runs": None, "missing": "invalid", "confidence": 0.95, "seed": 0}


def compared(first: list[dict[str, Any]], second: list[dict[str, Any]], by: str | None = None) -> tuple[Any, list[str]]:
    said: list[str] = []
    return headline(a_set("before", *first), a_set("after", *second), SETTINGS, by, said.append), said


def medals(task: str, won: int, runs: int, **more: Any) -> list[dict[str, Any]]:
    """Runs of a task, the first `won` with a medal and a reward of 1."""
    return [
        rollout(task, n, 0.5, medal="gold" if n < won else None, reward=float(n < won), **more) for n in range(runs)
    ]


def test_the_better_set_comes_with_its_difference_interval_and_n() -> None:
    first = [*medals("a", 1, 10), *medals("b", 1, 10), *medals("c", 3, 10)]
    second = [*medals("a", 8, 10), *medals("b", 5, 10), *medals("c", 3, 10)]
    top, said = compared(first, second)
    assert (top["verdict"], top["better"], said) == ("after is better than before in medals", "second", [])
    # Newcombe of 5 of 30 and 16 of 30; Wilson's limits are 7.3 to 33.6 % and 36.1 to 69.8 %
    assert top["result"] == "medals 16.7 → 53.3 %, +36.7 points, 95 % CI 12.6 to 55.6, paired by task"
    assert top["n"].startswith("n = 3 tasks, 30 and 30 rollouts; 2 tasks better, 1 equal, 0 worse. Interval: Newcombe")
    assert top["tasks"] == [("a", "10.0 → 80.0 %, +70.0 points"), ("b", "10.0 → 50.0 %, +40.0 points")]
    # the task differences 0.7, 0.4 and 0: mean 0.3667, SEM 0.2028, t(0.975; 2) = 4.302653
    assert dict(top["others"])["reward"] == "0.167 → 0.533, +0.367, 95 % CI -0.506 to 1.239, paired by task"
    turned, _ = compared(second, first)
    assert (turned["verdict"], turned["better"]) == ("before is better than after in medals", "first")


def test_the_verdict_names_other_quantities_that_say_otherwise() -> None:
    """No medal decides between the sets, though many more submissions are valid: 7 and 19 of 20."""
    first, second = ([rollout("a", n, 0.5 if n < valid else None, medal="gold" if n == 0 else None, reward=0.0)
                      for n in range(20)] for valid in (7, 19))  # fmt: skip
    top, _ = compared(first, second)
    assert top["verdict"] == (
        "No clear difference between before and after in medals, but after is better in valid submissions"
    )
    assert top["better"] == ""
    turned, _ = compared(second, first, "valid")
    assert turned["verdict"] == "before is better than after in valid submissions"  # medals say nothing
    more = [rollout("a", n, 0.5 if n < 7 else None, medal="gold" if n < 7 else None, reward=0.0) for n in range(20)]
    both, _ = compared([rollout("a", n, 0.5, reward=0.0) for n in range(20)], more)
    assert both["verdict"] == "after is better than before in medals, but before is better in valid submissions"


def test_few_runs_without_a_medal_are_no_proof() -> None:
    # Wilson's upper limit of 0 of 3 is z² / (3 + z²) = 0.5615
    top, _ = compared(medals("a", 0, 3), medals("a", 0, 3), "medal")
    assert (top["verdict"], top["better"]) == ("No clear difference between before and after in medals", "")
    assert top["result"] == "medals 0.0 → 0.0 %, +0.0 points, 95 % CI -56.1 to 56.1, paired by task"
    assert top["tasks"] == []


def test_without_medals_the_reward_decides_and_pairs_that_agree_have_no_interval() -> None:
    first, second = ([rollout(task, 0, 0.5, reward=r) for task in ("a", "b")] for r in (0.25, 0.5))
    top, _ = compared(first, second)
    assert top["result"] == "reward 0.250 → 0.500, +0.250, paired by task"
    assert (
        top["n"].endswith("No interval: there are too few tasks, or all differences are equal.") and top["better"] == ""
    )


def test_rewards_of_two_rules_do_not_decide() -> None:
    first = [rollout("a", 0, 0.5, reward=0.1), rollout("b", 0, 0.5, reward=0.1)]
    second = [rollout(task, 0, 0.5, reward=0.9, rule={"rule": "raw"}) for task in ("a", "b")]
    top, said = compared(first, second, "reward")
    assert top["result"].startswith("valid submissions 100.0 → 100.0 %") and "reward" not in dict(top["others"])
    assert len(said) == 1 and said[0].startswith(
        "after is not compared with before by reward: rewards by milestone and"
    )
    top, said = compared(first, [rollout(task, 0, 0.5, metric=f"of {task}") for task in ("a", "b")], "score")
    reason = "no task has a value of score in both sets (a, b): choose another quantity (--by)"
    assert top and said == [f"after is not compared with before by score: {reason}"]
    top, said = compared(first, [rollout("z", 0, 0.5)])
    assert top is None and said == ["after is not compared with before: no task has the same quantity in both"]


def test_shares_that_changed_most_come_first() -> None:
    first = [rollout("a", n, 0.5, stop_reason="max_turns") for n in range(10)]
    second = [rollout("a", n, 0.5, stop_reason="max_turns" if n < 2 else "finished") for n in range(10)]
    top, _ = compared(first, second)
    names = [name for name, _ in top["shares"]]
    assert names[:2] == ["stopped: finished", "stopped: max_turns"]
    # 0 and 8 of 10: 0.8 - sqrt(0.3098² + 0.2775²) to 0.9433
    assert dict(top["shares"])["stopped: finished"].startswith("0.0 → 80.0 %, +80.0 points, CI 38.4 to 94.3")


def test_makers_tell_differences_from_what_the_sets_share() -> None:
    makers = Makers()
    for label, seed in (("before", 1), ("after", 2)):
        for model in ("m", "n") if seed == 2 else ("m",):
            one = rollout("a", 0, 0.5, run_seed=seed)
            one["policy"] = {"model": model, "version": 1, "sampling": {"temperature": 0.5}}
            makers.add(one, label)
    differing, equal = makers.table({"before": "2026-01-02"})
    assert differing.header == ("option", "before", "after")
    assert differing.rows == [
        ["model", "m", "m, n"],
        ["scaffold", "single", "single"],
        ["file written", "2026-01-02", "-"],
        ["mle-rollout seed", "1", "2"],
    ]
    assert ["temperature", "0.5", "0.5"] in equal
