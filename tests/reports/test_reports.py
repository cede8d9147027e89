"""Statistics of graded rollouts: formulas, repeats, missing runs, summaries, comparisons; numbers worked by hand."""

import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from report_builders import a_set, rollout, rows
from shown_rollouts import EXECUTION

from mletools.base.errors import ToolError
from mletools.records import schema
from mletools.reports.comparison import compare
from mletools.reports.runs import RunSet, aligned, expected_runs
from mletools.reports.statistics import (
    avg_at_k,
    best_at_k,
    chances_of_best,
    effective_runs,
    newcombe_interval,
    paired_interval,
    population_sd,
    raw_best_at_k,
    sem,
    t_interval,
    wilson_interval,
)
from mletools.reports.summary import summaries
from mletools.reports.table import interval, number
from mletools.reports.tables import comparison, costs, formats, notes, report

# --- formulas -------------------------------------------------------------------------------------------------------


def test_wilson_intervals_by_hand() -> None:
    # z² = 3.841459 at 95 %: n of n begins at n / (n + z²), 0 of n ends at z² / (n + z²)
    assert wilson_interval(1.0, 4, 0.95) == pytest.approx([4 / 7.841459, 1.0], abs=1e-6)
    assert wilson_interval(0.0, 4, 0.95) == pytest.approx([0.0, 3.841459 / 7.841459], abs=1e-6)
    # 1 of 2: 0.5 ± 1.959964 sqrt(0.125 + 0.240091) / 2.920729
    assert wilson_interval(0.5, 2, 0.95) == pytest.approx([0.094531, 0.905469], abs=1e-6)
    assert wilson_interval(None, 4, 0.95) is None and wilson_interval(0.5, 0, 0.95) is None
    one = wilson_interval(1.0, 1, 0.5)  # z² = 0.454936
    assert one == pytest.approx([1 / 1.454936, 1.0], abs=1e-6) and one[1] == 1.0


def test_runs_that_a_mean_of_shares_is_worth() -> None:
    assert effective_runs([4]) == 4 and effective_runs([4, 4, 4]) == 12 and effective_runs([]) == 0
    assert effective_runs([1, 4]) == pytest.approx(4 / 1.25) and effective_runs([0, 4]) == 4


def test_shares_have_intervals_with_a_width_though_all_runs_agree() -> None:
    runs = [rollout(task, n, 0.5) for task in "ab" for n in range(4)]
    found = rows([a_set("x", *runs)])
    assert found["a", "x"]["valid"] == found["all", "x"]["valid"] == 1.0
    assert found["a", "x"]["valid_ci"] == pytest.approx([0.510109, 1.0], abs=1e-6)
    assert found["all", "x"]["valid_ci"] == pytest.approx([8 / 11.841459, 1.0], abs=1e-6)
    assert found["a", "x"]["gold_ci"] == pytest.approx([0.0, 0.489891], abs=1e-6)
    # tasks that differ in their runs: 4 and 1 count as 3.2, not 5
    few = rows([a_set("x", *[rollout("a", n, 0.5) for n in range(4)], rollout("b", 0, 0.5))], missing="ignore")[
        "all", "x"
    ]
    assert few["valid_ci"] == pytest.approx([3.2 / 7.041459, 1.0], abs=1e-6)
    alone = rows([a_set("x", rollout("a", 0, 0.5))])["all", "x"]
    assert alone["valid_sem"] is None and alone["valid_ci"] == pytest.approx([1 / 4.841459, 1.0], abs=1e-6)


def test_sem_and_t_interval() -> None:
    assert sem([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))  # sd 1 with ddof 1, n 3
    assert sem([1.0]) is None and t_interval(1.0, [1.0], 0.95) is None
    # two degrees of freedom: t(0.975) = 4.302653; one: t(0.75) = 1
    assert t_interval(2.0, [1.0, 2.0, 3.0], 0.95) == pytest.approx([2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5])
    assert t_interval(1.0, [0.0, 2.0], 0.5) == pytest.approx([0.0, 2.0], abs=1e-9)
    assert t_interval(1.0, [0.0, 2.0], 0.5, 0.5, 1.5) == [0.5, 1.5]
    assert t_interval(2.0, [2.0, 2.0], 0.95) is None  # repeats that agree are no proof


def test_scores_near_the_largest_float_have_a_report() -> None:
    """What would be larger than any float is not known, in place of infinite, which is no JSON."""
    most = 1.7e308
    assert t_interval(4e307, [8e307, 2.0], 0.95) is None and sem([most, -most]) is None
    assert paired_interval([most, -most, most] * 10, 0.95, 0) is None and avg_at_k([most, most], 2, 2) == most
    runs = [rollout("a", sample, score, metric="rmse", lower=True) for sample, score in enumerate((8e307, 2.0))]
    found = rows([a_set("x", *runs)])["a", "x"]
    assert found["score_mean"] == pytest.approx(4e307) and found["score_ci"] is None
    assert number(-1e200) == "-1e+200" and number(12345678.9) == "12345678.900"
    far = [a_set(label, rollout("a", 0, score)) for label, score in (("x", most), ("y", -most))]
    with pytest.raises(ToolError, match="no task has a value of score"):
        compare(*far, by="score")


def test_deviations_are_those_of_the_repeats_alone() -> None:
    """MLE-RL, table 1: 28.8 ± 5.7 % are medals in 5, 6 and 8 of 22 competitions."""
    medals = (5, 6, 8)
    assert population_sd([count / 22 for count in medals]) == pytest.approx(0.0567, abs=5e-5)
    assert population_sd([1.0, 1.0]) == 0 and population_sd([1.0]) is None
    runs = [
        rollout(f"t{task}", sample, 0.5, medal="gold" if task < count else None)
        for sample, count in enumerate(medals) for task in range(22)
    ]  # fmt: skip
    sets = [a_set("x", *runs)]
    found = rows(sets, spread="sd")["all", "x"]
    assert found["sd"]["medal"] == pytest.approx(0.0567, abs=5e-5)
    assert found["medal_sem"] == pytest.approx(found["sd"]["medal"] / math.sqrt(2))
    table = report(summaries(sets, spread="sd"))
    assert "± SD" in table and "± SEM" not in table and "standard deviation over repeats (ddof 0" in table
    (line,) = [line for line in table.split("\n") if line.startswith("any medal")]
    assert line.split()[3:5] == ["28.8%", "5.7%"]
    assert "sd" not in rows(sets)["all", "x"] and "± SEM" in report(summaries(sets))


def test_tasks_that_were_trained_on_are_told_and_held_apart(tmp_path: Path) -> None:
    """All has them; the rows of both parts stand behind it. The copy of a task under another id is known by its data."""
    runs = [rollout(task, 0, score) for task, score in (("a", 0.9), ("b", 0.7), ("c", 0.5))]
    copy = {**runs[0]["task"], "id": "a-again"}
    for one in runs:
        one["task"]["data"]["digest"] = f"sha256:{one['task']['id']}"
    copy["data"] = {**copy["data"], "digest": "sha256:a"}
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
    (tmp_path / "train.jsonl").write_text(json.dumps(copy) + "\n" + json.dumps(runs[1]) + "\n")
    table = run_command("mle-report", "--trained", "train.jsonl", "x.jsonl", cwd=tmp_path).stdout.decode()
    scores = {
        line.split("  ")[0]: line for line in table.split("\n") if line.startswith(("all ", "trained on", "held out"))
    }
    assert "0.8" in scores["trained on"] and "0.5" in scores["held out"] and "0.7" in scores["all"]
    assert "trained on (--trained): 2 tasks, also part of all; held out: the other tasks" in table
    told = run_command("mle-report", "--json", "--trained", "train.jsonl", "x.jsonl", cwd=tmp_path).stdout.splitlines()
    assert [(json.loads(line)["task"], json.loads(line).get("trained")) for line in told] == [
        ("a", None), ("b", None), ("c", None), ("trained on", None), ("held out", None), ("all", 2),
    ]  # fmt: skip


def test_at_k_is_mle_ideators_rule_when_there_are_just_k_runs() -> None:
    assert avg_at_k([60.0, 30.0], 3, 3) == pytest.approx(45.0)  # the invalid third is left out, not counted 0
    assert best_at_k([60.0, 30.0], 3, 3) == pytest.approx(60.0)
    assert avg_at_k([], 3, 3) == 0.0 and best_at_k([], 3, 3) == 0.0
    assert avg_at_k([60.0, 30.0], 2, 3) is None and best_at_k([60.0, 30.0], 2, 3) is None


def test_at_k_of_more_runs_by_hand() -> None:
    # 60, 30 and two invalid: the 6 pairs hold (60, 30), (60, -) twice, (30, -) twice, (-, -)
    assert best_at_k([60.0, 30.0], 4, 2) == pytest.approx((60 + 60 + 60 + 30 + 30 + 0) / 6)
    assert avg_at_k([60.0, 30.0], 4, 2) == pytest.approx((45 + 60 + 60 + 30 + 30 + 0) / 6)
    assert raw_best_at_k([60.0, 30.0], 4, 2) == pytest.approx((60 + 60 + 60 + 30 + 30) / 5)
    assert chances_of_best(4, 2) == pytest.approx([3 / 6, 2 / 6, 1 / 6, 0])


@pytest.mark.parametrize("valid", [[], [7.0], [9.0, 4.0, 4.0], [9.0, 8.0, 3.0, 1.0, 0.5, 0.25]])
@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_at_k_is_the_mean_over_all_subsets(valid: list[float], k: int) -> None:
    runs = [*valid, *[None] * (6 - len(valid))]
    subsets = [[x for x in subset if x is not None] for subset in itertools.combinations(runs, k)]
    assert avg_at_k(valid, 6, k) == pytest.approx(statistics.fmean(statistics.fmean(s) if s else 0 for s in subsets))
    assert best_at_k(valid, 6, k) == pytest.approx(statistics.fmean(max(s, default=0) for s in subsets))


def test_at_k_of_many_runs_stays_finite() -> None:
    assert best_at_k([1.0] * 3000, 3000, 1500) == pytest.approx(1.0)
    assert avg_at_k([2.0], 3000, 1) == pytest.approx(2 / 3000)


def test_the_bootstrap_is_deterministic_and_brackets_the_mean() -> None:
    differences = [0.1, 0.21, 0.3, 0.43, 0.17, 0.38, 0.29] * 3
    interval = paired_interval(differences, 0.95, 0)
    assert interval == paired_interval(differences, 0.95, 0) != paired_interval(differences, 0.95, 1)
    assert interval is not None and 0.1 <= interval[0] < 0.268 < interval[1] <= 0.43


def test_few_pairs_have_students_t_and_pairs_that_agree_no_interval() -> None:
    assert paired_interval([1.0, 2.0, 3.0], 0.95, 0) == t_interval(2.0, [1.0, 2.0, 3.0], 0.95)
    assert paired_interval([0.5], 0.95, 0) is None
    assert paired_interval([0.5] * 3, 0.95, 0) is None and paired_interval([0.0] * 30, 0.95, 0) is None


@pytest.mark.parametrize(("passed", "runs"), [(0, 5), (3, 7), (10, 10), (56, 70)])
def test_wilsons_interval_is_scipys(passed: int, runs: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(passed, runs).proportion_ci(0.95, "wilson")
    assert wilson_interval(passed / runs, runs, 0.95) == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_newcombes_interval_by_hand_and_at_the_ends_of_the_scale() -> None:
    # Newcombe 1998, table II, method 10: 56 of 70 less 48 of 80 is 0.0524 to 0.3339, 10 of 10 less 0 of 20 0.6791 to 1
    assert newcombe_interval(48 / 80, 80, 56 / 70, 70, 0.95) == pytest.approx([0.0524, 0.3339], abs=5e-5)
    assert newcombe_interval(0.0, 20, 1.0, 10, 0.95) == pytest.approx([0.6791, 1.0], abs=5e-5)
    none = newcombe_interval(0.0, 10, 0.0, 10, 0.95)
    assert none is not None and none[0] == -none[1] < 0
    assert newcombe_interval(0.0, 0, 1.0, 10, 0.95) is None


# --- repeats and missing runs ---------------------------------------------------------------------------------------


def test_a_repeat_is_a_seed_and_a_sample_and_keeps_its_place_in_every_task() -> None:
    first = [rollout("a", 0, 0.1), rollout("a", 0, 0.2, run_seed=1), rollout("a", 0, 0.3, run_seed=2)]
    second = [rollout("b", 0, 0.6, run_seed=2), rollout("b", 0, 0.4)]  # seed 1 is missing
    run_set = a_set("x", *first, *second)
    assert expected_runs(run_set, "ab") == {"a": 3, "b": 3}
    scores = {task: [run and run.score for run in row] for task, row in aligned(run_set.tasks, 3).items()}
    assert scores == {"a": [0.1, 0.2, 0.3], "b": [0.4, None, 0.6]}


def test_tasks_run_with_different_seeds_are_aligned_by_order() -> None:
    run_set = a_set("x", rollout("a", 0, 0.1), rollout("b", 0, 0.2, run_seed=1), rollout("b", 1, 0.3, run_seed=1))
    scores = {task: [run and run.score for run in row] for task, row in aligned(run_set.tasks, 2).items()}
    assert scores == {"a": [0.1, None], "b": [0.2, 0.3]}


def test_a_group_that_a_filter_cut_short_is_known_by_its_size() -> None:
    cut = [rollout("a", sample, 0.5, group_size=4) for sample in (0, 3)]
    assert expected_runs(a_set("x", *cut), "a") == {"a": 4}
    assert expected_runs(a_set("x", *cut, rollout("a", 0, 0.5, run_seed=1)), "ab") == {"a": 5, "b": 5}
    assert expected_runs(a_set("x", *cut), "a", at_least=6) == {"a": 6}
    assert expected_runs(a_set("x"), "a") == {"a": 0}


def several(task: str, number: int, sample: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Records of one job, all gold: the traces of a run, or the states of a task."""
    made = [rollout(task, sample, 0.5, medal="gold", reward=1.0, **more) for _ in range(number)]
    return [{**one, "id": f"{one['id']}-{at}"} for at, one in enumerate(made)]


def test_tasks_may_differ_in_their_number_of_traces() -> None:
    run_set = a_set("x", *several("a", 5, trace="memory"), *several("b", 2, trace="reset"))
    assert expected_runs(run_set, "abc") == {"a": 5, "b": 2, "c": 1}  # of c the whole run is missing
    found = rows([run_set])
    assert [(found[task, "x"]["rollouts"], found[task, "x"]["missing"]) for task in ("a", "b", "all")] == [(5, 0), (2, 0), (7, 0)]  # fmt: skip
    assert found["b", "x"]["gold"] == found["all", "x"]["gold"] == 1.0 and found["all", "x"]["k"] == 2
    assert rows([run_set], missing="error")["b", "x"]["gold"] == 1.0
    verdict = compared(
        run_set, a_set("y", *several("a", 1, trace="memory"), *several("b", 4, trace="reset")), by="medal"
    )
    assert (verdict["tie"], verdict["missing"]) == (2, [0, 0])


def test_runs_of_several_traces_can_be_missing() -> None:
    both = [several(task, number, sample, trace="reset", group_size=2) for task, number, sample in (("a", 3, 0), ("a", 4, 1), ("b", 5, 0))]  # fmt: skip
    assert expected_runs(a_set("x", *both[0], *both[1], *both[2]), "ab") == {"a": 7, "b": 6}
    found = rows([a_set("x", *both[0], *both[1], *both[2])])["b", "x"]
    assert (found["missing"], found["gold"]) == (1, pytest.approx(5 / 6))
    later = several("a", 2, run_seed=1, trace="reset")  # b was not run with this seed
    assert expected_runs(a_set("x", *several("a", 3, trace="reset"), *later, *several("b", 1, trace="reset")), "ab") == {"a": 5, "b": 2}  # fmt: skip


def test_tasks_may_differ_in_their_number_of_states() -> None:
    def ideas(task: str, states: int, samples: int) -> list[dict[str, Any]]:
        made = [several(task, states, sample, scaffold="idea", group_size=2) for sample in range(samples)]
        return [{**one, "group": f"{task}-{state}"} for same in made for state, one in enumerate(same)]

    run_set = a_set("x", *ideas("a", 4, 2), *ideas("b", 1, 2))
    assert expected_runs(run_set, "ab") == {"a": 8, "b": 2}
    assert rows([run_set])["b", "x"]["gold"] == 1.0
    lacking = a_set("x", *ideas("a", 4, 1), *ideas("b", 1, 2))  # of each state of a one idea is missing
    assert rows([lacking])["a", "x"]["missing"] == 4 and rows([lacking])["a", "x"]["gold"] == 0.5


def test_missing_runs_count_as_invalid_or_are_ignored_or_stop() -> None:
    run_set = a_set("x", *[rollout("a", n, 0.5, medal="gold", reward=1.0) for n in (0, 1)], rollout("b", 0, 0.7, medal="gold", reward=0.8))  # fmt: skip
    counted = rows([run_set])
    assert (counted["b", "x"]["rollouts"], counted["b", "x"]["missing"], counted["all", "x"]["missing"]) == (1, 1, 1)
    assert (counted["b", "x"]["medal"], counted["b", "x"]["valid"], counted["b", "x"]["reward_mean"]) == (0.5, 0.5, 0.4)
    assert counted["all", "x"]["medal"] == 0.75 and counted["b", "x"]["score_mean"] == 0.7
    ignored = rows([run_set], missing="ignore")
    assert (ignored["b", "x"]["medal"], ignored["b", "x"]["reward_mean"], ignored["b", "x"]["missing"]) == (1.0, 0.8, 1)
    with pytest.raises(ToolError, match=r"^x: 1 of 4 runs are missing: 1 of b \(--missing invalid or ignore continues without them\)$"):  # fmt: skip
        rows([run_set], missing="error")
    full = a_set("y", *run_set_rollouts(2))
    assert rows([full], missing="error")["all", "y"]["missing"] == 0


def test_names_of_tasks_and_sets_cannot_steer_a_terminal() -> None:
    steered = "\x1b[2J\na\u202e"
    printed = report(list(rows([a_set(steered, rollout(steered, 0, 0.5), rollout(steered, 1, 0.4))]).values()))
    assert "␛[2J␊a\\u202e" in printed
    assert printed.replace("\n", "").isprintable()


def run_set_rollouts(count: int) -> list[dict[str, Any]]:
    return [rollout(task, n, 0.5) for task in ("a", "b") for n in range(count)]


def test_a_missing_run_has_the_reward_of_one_that_handed_in_nothing() -> None:
    credit = {"rule": "partial-credit", "failure": -10.0}
    run_set = a_set("x", rollout("a", 0, 2.0, reward=2.0, rule=credit, group_size=2))
    assert rows([run_set])["a", "x"]["reward_mean"] == -4.0
    run_set = a_set("x", rollout("a", 0, 2.0, reward=2.0, rule={"rule": "raw"}, group_size=2))
    assert rows([run_set])["a", "x"]["reward_mean"] == 2.0  # raw has no reward for such a run


def test_a_task_that_one_set_lacks_is_missing_there() -> None:
    sets = [a_set("x", *run_set_rollouts(2)), a_set("y", rollout("a", 0, 0.5), rollout("a", 1, 0.5))]
    found = rows(sets)
    assert (found["b", "y"]["rollouts"], found["b", "y"]["missing"], found["b", "y"]["valid"]) == (0, 2, 0.0)
    assert found["all", "y"]["valid"] == 0.5 and found["b", "y"]["metric"] == "auc, higher is better"
    assert ("b", "y") not in rows(sets, missing="ignore")
    with pytest.raises(ToolError, match=r"^y: 2 of 4 runs are missing: 2 of b "):
        rows(sets, missing="error")
    with pytest.raises(ToolError, match=r"^z: no rollouts "):
        rows([*sets[:1], a_set("z")], missing="error")


# --- summaries ------------------------------------------------------------------------------------------------------


def test_means_are_over_tasks_and_sem_over_repeats() -> None:
    rewards = {"a": (0.0, 0.4), "b": (0.5, 0.7), "c": (1.0, 1.0)}
    run_set = a_set("x", *[rollout(t, n, 0.5, reward=r) for t, pair in rewards.items() for n, r in enumerate(pair)])
    found = rows([run_set])
    a, overall = found["a", "x"], found["all", "x"]
    assert (a["reward_mean"], a["reward_sem"]) == (pytest.approx(0.2), pytest.approx(0.2))  # sd 0.2828, n 2
    # the repeats' means are 0.5 and 0.7: mean 0.6, SEM 0.1, t(0.975; 1) = 12.7062
    assert (overall["reward_mean"], overall["reward_sem"]) == (pytest.approx(0.6), pytest.approx(0.1))
    assert overall["reward_ci"] == pytest.approx([0.6 - 1.27062, 0.6 + 1.27062])


def test_tasks_weigh_the_same_however_many_runs_they_have() -> None:
    run_set = a_set("x", *[rollout("a", n, 0.9) for n in range(3)], rollout("b", 0, 0.1))
    assert rows([run_set], missing="ignore")["all", "x"]["score_mean"] == pytest.approx(0.5)


def test_medals_are_exclusive_and_rates_are_shares_of_runs() -> None:
    medals = ("gold", "silver", None, "gold")
    run_set = a_set("x", *[rollout("a", n, 0.5, medal=m, above_median=n < 3) for n, m in enumerate(medals)])
    a = rows([run_set])["a", "x"]
    assert [a[name] for name in ("bronze", "silver", "gold", "medal", "above_median")] == [0, 0.25, 0.5, 0.75, 0.75]
    # 3 of 4, z² = 3.841459: (0.75 + 0.480182 ± 1.959964 sqrt(0.046875 + 0.060023)) / 1.960365
    assert a["medal_ci"] == pytest.approx([0.300642, 0.954413], abs=2e-6)
    assert a["medal_sem"] == pytest.approx(0.25)  # sd of 1, 1, 0, 1 is 0.5


def test_the_best_score_is_by_the_sets_own_direction() -> None:
    """Of a task whose metric was turned between the two sets."""
    sets = [
        a_set(name, *[rollout("a", n, s, lower=name == "y") for n, s in enumerate((0.1, 0.5, 0.9))]) for name in "xy"
    ]
    found = rows(sets)
    assert [found["a", name]["score_best"] for name in "xy"] == [0.9, 0.1]
    assert rows(sets, runs=2)["a", "y"]["score_best_at_k"] == pytest.approx((0.1 + 0.1 + 0.5) / 3)


def test_raw_scores_are_direction_aware_and_do_not_mix() -> None:
    errors = [rollout("a", n, s, lower=True, metric="rmse") for n, s in enumerate((3.0, 1.0, None))]
    run_set = a_set("x", *errors, *[rollout("b", n, 0.5) for n in range(3)])
    found = rows([run_set], runs=2)
    a = found["a", "x"]
    assert (a["score_mean"], a["score_best"], a["metric"]) == (2.0, 1.0, "rmse, lower is better")
    assert a["score_best_at_k"] == pytest.approx((1 + 1 + 3) / 3)  # pairs (3, 1), (1, -), (3, -)
    overall = found["all", "x"]
    assert [overall[name] for name in ("score_mean", "score_sem", "score_ci", "score_best")] == [None] * 4
    assert overall["metric"] == "mixed"


def board(task: str, sample: int, rank: float | None, normalised: float | None, **more: Any) -> dict[str, Any]:
    """A rollout on a task with a leaderboard; invalid without a rank."""
    score = None if rank is None else 0.5
    facts = {"human_rank": rank, "human_rank_rule": "dojo", "normalised_score": normalised, "teams": 100}
    return rollout(task, sample, score, **{**facts, **more})


def test_an_invalid_run_has_human_rank_and_normalised_score_0_where_there_is_a_leaderboard() -> None:
    ranked = [board("a", 0, 0.9, 80.0), board("a", 1, 0.6, 40.0), board("a", 2, None, None)]
    failed = [board("b", n, None, None) for n in range(3)]
    run_set = a_set("x", *ranked, *failed, *[rollout("c", n, 0.5) for n in range(3)])
    found = rows([run_set])
    a, b, c, overall = (found[task, "x"] for task in ("a", "b", "c", "all"))
    assert (a["human_rank_mean"], a["normalised_mean"]) == (pytest.approx(0.5), pytest.approx(40.0))
    assert (a["normalised_avg_at_k"], a["normalised_best_at_k"]) == (pytest.approx(60.0), pytest.approx(80.0))
    assert (b["human_rank_mean"], b["normalised_mean"], b["normalised_avg_at_k"]) == (0.0, 0.0, 0.0)
    assert (c["human_rank_mean"], c["normalised_mean"], c["normalised_best_at_k"]) == (None, None, None)
    assert (overall["human_rank_mean"], overall["human_rank_rule"]) == (pytest.approx(0.25), "dojo")
    assert overall["normalised_avg_at_k"] == pytest.approx(30.0)
    public = {"teams": None, "public_teams": 50}  # a public leaderboard alone has ranks, and no normalised scores
    runs = [board("a", 0, 0.8, None, **public), board("a", 1, None, None, **public)]
    alone = rows([a_set("x", *runs)])["a", "x"]
    assert (alone["human_rank_mean"], alone["normalised_mean"]) == (pytest.approx(0.4), None)


def test_k_is_what_all_sets_have_unless_asked_for() -> None:
    sets = [a_set("x", *run_set_rollouts(2)), a_set("y", *run_set_rollouts(5))]
    assert {row["k"] for row in rows(sets).values()} == {2}
    asked = rows(sets, runs=3)
    assert asked["a", "x"]["k"] == 3 and asked["a", "x"]["missing"] == 1 and asked["a", "y"]["missing"] == 0


def test_human_ranks_of_two_rules_do_not_mix() -> None:
    run_set = a_set("x", board("a", 0, 0.9, 80.0), board("a", 1, 0.9, 80.0, human_rank_rule="mle-rl"))
    with pytest.raises(ToolError, match=r"^x: human ranks by dojo and mle-rl: grade again with one --human-rank$"):
        rows([run_set])


def test_answers_are_counted_by_how_they_were_read() -> None:
    def turns(*formats: tuple[str, str | None]) -> list[dict[str, Any]]:
        return [{"action": "a", "duration_s": 1.0, "format": {"read": read, "rule": rule}} for read, rule in formats]

    exact, first, missing = ("exact", None), ("lenient", "first_action"), ("none", "missing")
    one = rollout("a", 0, 0.5, turns=turns(exact, exact, first, missing))
    other = rollout("b", 0, 0.5, turns=turns(exact, first, first, ("lenient", "hermes")))
    old = rollout("c", 0, 0.5, turns=[{"action": "a", "duration_s": 1.0}])  # of a version that did not say
    found = rows([a_set("x", one, other, old)])
    assert found["a", "x"]["format"] == {
        "answers": 4, "exact": 0.5, "lenient": {"first_action": 0.25}, "none": {"missing": 0.25},
    }  # fmt: skip
    assert found["all", "x"]["format"] == {
        "answers": 8, "exact": 3 / 8, "lenient": {"first_action": 3 / 8, "hermes": 1 / 8}, "none": {"missing": 1 / 8},
    }  # fmt: skip
    assert "format" not in found["c", "x"]
    table = formats([found["all", "x"]])
    assert [line.split() for line in table.text().split("\n")[2:]] == [
        ["exact", "x", "8", "37.5%"],
        ["lenient", "first_action", "x", "37.5%"],
        ["lenient", "hermes", "x", "12.5%"],
        ["not", "read", "missing", "x", "12.5%"],
    ]
    assert not formats([rows([a_set("y", old)])["all", "y"]]).rows
    assert table.text() in report(list(found.values()))


def test_costs_are_summed_over_the_rollouts_that_tell() -> None:
    told = {"prompt_tokens": 100, "completion_tokens": 20, "seconds": 2.0, "usd": 0.5}
    run_set = a_set(
        "x",
        rollout("a", 0, 0.5, usage=told, reveal_test=True, execution={**EXECUTION, "duration_s": 3.0}),
        rollout("a", 1, 0.5),
    )
    a = rows([run_set])["a", "x"]
    assert (a["seconds"], a["prompt_tokens"], a["completion_tokens"], a["tokens_rollouts"]) == (6.0, 100, 20, 1)
    assert (a["usd"], a["usd_rollouts"], a["revealed"]) == (0.5, 1, 1)
    assert rows([a_set("y", rollout("a", 0, 0.5))])["a", "y"]["usd"] is None
    # an agent in turns ran its programs itself: they are in its usage
    in_turns = rollout("a", 0, 0.5, usage=told, settings={}, execution={**EXECUTION, "duration_s": 3.0})
    assert rows([a_set("z", in_turns)])["a", "z"]["seconds"] == 2.0


def used(prompt: int | None, usd: float | None) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": 10, "seconds": 1.0, "usd": usd}


def test_costs_are_apart_by_role_where_there_are_several() -> None:
    by_role = {"policy": used(100, 0.25), "ideator": used(50, 1.0)}
    judged = [{"turn": 0, "type": None, "rationale": "", "by": "m", "effective": None, "usage": used(7, 0.5)}] * 2
    one = rollout("a", 0, 0.5, usage=used(150, 1.25), usage_by_role=by_role, idea_types=judged)
    other = rollout("a", 1, 0.5, usage=used(None, None), usage_by_role={"policy": used(None, None)})
    old = rollout("b", 0, 0.5, usage=used(30, 0.1))
    found = rows([a_set("x", one, other, old)])
    assert "usage_by_role" not in found["b", "x"]
    whole = found["all", "x"]
    schema.check(whole, "summary")
    assert whole["usage_by_role"]["judge"] == {
        "rollouts": 1, "seconds": 2.0, "prompt_tokens": 14, "completion_tokens": 20, "tokens_rollouts": 1,
        "usd": 1.0, "usd_rollouts": 1,
    }  # fmt: skip
    lines = [line.split() for line in costs([whole]).text().split("\n")[2:]]
    assert [line[:3] for line in lines] == [
        ["x", "all", "3"], ["x", "policy", "2"], ["x", "ideator", "1"], ["x", "judge", "1"],
    ]  # fmt: skip
    assert lines[1][5:] == ["100", "(1/2)", "10", "(1/2)", "0.25", "(1/2)", "0.2500"]
    assert "cost of judge (mle-classify-ideas): spent after the rollouts, not part of all" in notes([whole])
    assert "role" not in costs([rows([a_set("y", other)])["all", "y"]]).header
    hostile = rollout("a", 0, 0.5, usage_by_role={"policy": used(1, None), "\x1b[2J\nall": used(1, None)})
    assert costs([rows([a_set("z", hostile)])["all", "z"]]).text().replace("\n", "").isprintable()


# --- comparisons ----------------------------------------------------------------------------------------------------


def compared(first: RunSet, second: RunSet, **options: Any) -> dict[str, Any]:
    record = compare(first, second, **options)
    schema.check(record, "comparison")
    return record


def test_a_comparison_pairs_tasks_and_names_what_it_leaves_out() -> None:
    before = a_set("p", *[rollout(task, 0, 0.5, reward=r) for task, r in (("a", 0.1), ("b", 0.5), ("c", 0.9), ("d", 0.3))])  # fmt: skip
    after = a_set("q", *[rollout(task, 0, 0.5, reward=r) for task, r in (("c", 0.8), ("b", 0.5), ("a", 0.4), ("e", 0.3))])  # fmt: skip
    record = compared(before, after)
    assert [(row["task"], row["result"]) for row in record["tasks"]] == [("a", "win"), ("b", "tie"), ("c", "loss")]
    assert (record["win"], record["tie"], record["loss"]) == (1, 1, 1)
    assert record["difference_mean"] == pytest.approx(0.2 / 3)
    assert (record["only_first"], record["only_second"]) == (["d"], ["e"])
    assert record["difference_ci"][0] < record["difference_mean"] < record["difference_ci"][1]


def test_sets_without_a_task_to_compare_are_an_error_that_names_them() -> None:
    one, other = a_set("p", *[rollout(task, 0, 0.5) for task in "abcde"]), a_set("q", rollout("z", 0, 0.5))
    with pytest.raises(ToolError, match="no task is in both sets: p has a, b, c and 2 more; q has z"):
        compare(one, other)
    with pytest.raises(ToolError, match="no task is in both sets: p has no rollouts; q has z"):
        compare(a_set("p"), other)
    with pytest.raises(ToolError, match=r"no task has a value of human-rank in both sets \(z\): .* \(--by\)"):
        compare(a_set("p", rollout("z", 0, 0.5)), other, by="human-rank")


def test_ranks_against_baselines_are_not_called_human() -> None:
    def runs(task: str, *baselines: str) -> list[dict[str, Any]]:
        made = [
            rollout(task, n, 0.5, human_rank=0.5, human_rank_rule="dojo", normalised_score=50.0, teams=9)
            for n in (0, 1)
        ]
        for one in made:
            one["task"]["provenance"]["baselines"] = [{"name": name, "score": 0.1} for name in baselines]
        return made

    made, people = runs("a", "dummy"), runs("b")
    assert rows([a_set("x", *made)])["all", "x"]["ranked_against"] == "baselines"
    assert rows([a_set("x", *people)])["all", "x"]["ranked_against"] == "people"
    both = rows([a_set("x", *made, *people)])
    assert [both[task, "x"]["ranked_against"] for task in ("a", "b", "all")] == ["baselines", "people", "both"]
    assert "ranked_against" not in rows([a_set("x", rollout("c", 0, 0.5))])["all", "x"]
    text = report(summaries([a_set("x", *made)]))
    assert "rank vs baselines" in text and "human rank" not in text and "of baselines, not of people" in text
    assert "rank vs baselines" not in report(summaries([a_set("x", *people)]))
    assert "of people or of baselines" in report(summaries([a_set("x", *made, *people)]))
    record = compared(a_set("p", *made), a_set("q", *made), by="human-rank")
    assert "human ranks: tasks with a leaderboard, whose scores are those of baselines" in comparison(record)
    assert "ranked_against" not in compared(a_set("p", *made), a_set("q", *made), by="valid")


def test_percentages_are_rounded_half_up() -> None:
    """12.5 and 37.5 in one direction, 6.25 and 18.75 as well; other numbers are formatted as they are."""
    assert [number(value, ".0%") for value in (0.125, 0.375, 0.625, 0.0, 1.0)] == ["13%", "38%", "63%", "0%", "100%"]
    assert [number(value, ".1%") for value in (0.0625, 0.1875)] == ["6.3%", "18.8%"]
    assert number(-0.1, "+.1%") == "-10.0%" and number(None, ".0%") == "-" and number(0.125, ".2f") == "0.12"
    assert interval([0.125, 0.375], ".0%") == "13% to 38%"
    runs = [rollout("a", n, 0.5, medal={0: "bronze", 1: "silver", 2: "silver", 3: "silver"}.get(n)) for n in range(8)]
    (line,) = [line for line in report(summaries([a_set("x", *runs)])).split("\n") if line.startswith("a ")]
    assert "13/38/0" in line and " 50%" in line


def test_a_report_has_no_two_columns_of_one_name() -> None:
    runs = [rollout("a", n, 0.5, human_rank=0.5, normalised_score=50.0, teams=9) for n in range(3)]
    text = report(summaries([a_set("x", *runs)]))
    assert "score best@3" in text and "norm. best@3" in text and "norm. avg@3" in text
    assert " best@3" not in text.replace("score best@3", "").replace("norm. best@3", "").split("missing runs")[0]


def test_a_comparison_by_score_turns_errors_round_and_does_not_add_different_metrics() -> None:
    def both(a: float | None, b: float | None) -> list[dict[str, Any]]:
        return [rollout("a", 0, a, lower=True, metric="rmse"), rollout("b", 0, b)]

    record = compared(a_set("p", *both(3.0, 0.5)), a_set("q", *both(1.0, 0.4)), by="score")
    assert [(row["difference"], row["result"]) for row in record["tasks"]] == [(2.0, "win"), (pytest.approx(-0.1), "loss")]  # fmt: skip
    assert record["difference_mean"] is None and record["difference_ci"] is None
    record = compared(a_set("p", *both(3.0, 0.5)), a_set("q", *both(1.0, None)), by="score")
    assert record["without_value"] == ["b"] and record["difference_mean"] == 2.0 and record["difference_ci"] is None
    record = compared(a_set("p", *both(3.0, 0.5)), a_set("q", *both(1.0, None)), by="valid")
    assert (record["win"], record["tie"], record["loss"]) == (0, 1, 1)


def test_missing_runs_count_in_a_comparison_but_missing_tasks_do_not() -> None:
    before = a_set("p", *[rollout("a", n, 0.5, medal="gold") for n in range(2)])
    after = a_set("q", rollout("a", 0, 0.5, medal="gold", group_size=2))
    assert compared(before, after, by="medal")["tasks"][0]["difference"] == -0.5
    ignoring = compared(before, after, by="medal", missing="ignore")
    assert (ignoring["tie"], ignoring["missing"], ignoring["rollouts"]) == (1, [0, 1], [2, 1])


def graded_with(one: dict[str, Any], **options: Any) -> dict[str, Any]:
    entry = {"tool": "mle-grade", "version": "0.1.0", "options": options, "seed": 0}
    return {**one, "lineage": [*one["lineage"], entry]}


def test_rewards_and_human_ranks_of_different_rules_do_not_compare() -> None:
    raw = a_set("q", rollout("a", 0, 0.5, reward=0.5, rule={"rule": "raw"}))
    with pytest.raises(
        ToolError, match=r"^rewards by milestone and raw do not compare: grade again with one --reward$"
    ):
        compare(a_set("p", rollout("a", 0, 0.5, reward=0.5)), raw)
    more = a_set("q", graded_with(rollout("a", 0, 0.5, reward=3.0), milestone="gold=2", human_rank="mle-rl"))
    with pytest.raises(ToolError, match=r"^rewards by milestone and milestone, --milestone gold=2 do not compare: "):
        compare(a_set("p", graded_with(rollout("a", 0, 0.5, reward=1.0))), more)
    credit = {"rule": "partial-credit", "failure": -5.0, "scale": "thresholds"}
    less = rollout("a", 0, 0.5, reward=0.5, rule=credit)
    graded = graded_with(less, reward="partial-credit", failure_reward=-5.0, scale_score="thresholds")
    again = graded_with(graded, reward="partial-credit", scale_score="thresholds")  # the last grading counts
    rules = [run.reward_rule for run in a_set("p", graded, {**again, "id": "again"}).runs]
    told = "partial-credit, scores scaled by thresholds"
    assert rules == [f"{told}, --failure-reward -5.0", told]
    sets = [a_set(rule, board("a", 0, 0.9, 80.0, human_rank_rule=rule)) for rule in ("dojo", "mle-rl")]
    with pytest.raises(ToolError, match=r"^human ranks by dojo and mle-rl do not compare"):
        compare(sets[0], sets[1], by="human-rank")
    assert compared(sets[0], sets[1], by="normalised")["tie"] == 1


# --- the command ----------------------------------------------------------------------------------------------------


def write(path: Path, *rollouts: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts))


def test_the_order_of_the_input_changes_no_number(tmp_path: Path) -> None:
    rollouts = [rollout(t, n, (n + 1) / 7, reward=n / 3) for t in ("a", "b") for n in range(4)]
    write(tmp_path / "x.jsonl", *rollouts)
    write(tmp_path / "y.jsonl", *rollouts[:4][::-1], *rollouts[4:][::-1])
    told = [run_command("mle-report", "--label", "z", f"{n}.jsonl", cwd=tmp_path).stdout for n in ("x", "y")]
    assert told[0] == told[1] and b"all" in told[0]


@pytest.mark.slow
def test_no_line_is_wider_than_a_terminal(tmp_path: Path) -> None:
    long = "breast_cancer-b658d37ea34552ba"
    facts = {
        "metric": "balanced_accuracy",
        "usage": {"prompt_tokens": 12345678, "completion_tokens": 1234567, "usd": 123.0},
    }
    write(tmp_path / "x.jsonl", *[board(long, n, 0.5, 50.0, reward=0.5, **facts) for n in range(64)])
    for more in ((), ("--compare",)):
        done = run_command(
            "mle-report", "--label", "before", "--label", "after", *more, "x.jsonl", "x.jsonl", cwd=tmp_path
        )
        assert max(map(len, done.stdout.decode().split("\n"))) <= 136


def test_a_rollout_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", *[rollout("a", 0, 0.5)] * 2)
    done = run_command("mle-report", "x.jsonl", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.decode() == "mle-report: x.jsonl:2: duplicate rollout a-0-0, first in line 1: a run counts once\n"
    )
    done = run_command("mle-report", "--json", "--max-rejects", "1", "x.jsonl", cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[0])["rollouts"] == 1


def of_complexity(task: str, sample: int, score: float | None, split: str, **own: str) -> dict[str, Any]:
    made = rollout(task, sample, score, settings={"own": own})
    made["task"]["provenance"]["split"] = split
    return made


def test_rows_by_complexity_stand_before_the_row_over_all_tasks() -> None:
    made = [of_complexity("a", 0, 0.5, "low"), of_complexity("b", 0, None, "low"), of_complexity("c", 0, 0.7, "high")]
    set_ = a_set("x", *made, of_complexity("d", 0, 0.7, "dev"))
    found = summaries([set_], complexity=True)
    assert [(row["task"], row["valid"]) for row in found][4:] == [("low", 0.5), ("high", 1.0), ("all", 0.75)]
    assert found[4]["rollouts"] == 2 and len({row["id"] for row in found}) == 7
    assert [row["task"] for row in summaries([set_])] == ["a", "b", "c", "d", "all"]


def test_sets_by_the_model_of_a_role(tmp_path: Path) -> None:
    made = [of_complexity("a", at, 0.5 if at else None, "low", **own) for at, own in enumerate([{"ideator": "o3"}, {}])]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    line = ("mle-report", "--json", "--sets-by", "ideator", "--complexity", "x.jsonl")
    found = [json.loads(text) for text in run_command(*line, cwd=tmp_path).stdout.splitlines()]
    assert [(row["task"], row["set"], row["valid"]) for row in found if row["task"] != "a"] == [
        ("low", "x: o3", 0.0), ("low", "x: none", 1.0), ("all", "x: o3", 0.0), ("all", "x: none", 1.0),
    ]  # fmt: skip
    idea = {**made[0], "scaffold": "idea", "settings": {"own": {"implementer": "o4"}}}  # whose policy is the ideator
    (tmp_path / "y.jsonl").write_text(json.dumps(idea) + "\n")
    line = ("mle-report", "--json", "--sets-by", "ideator", "y.jsonl")
    ideator = [json.loads(text)["set"] for text in run_command(*line, cwd=tmp_path).stdout.splitlines()]
    assert ideator == ["y: scripted"] * 2
    refused = run_command("mle-report", "--html", "--complexity", "x.jsonl", cwd=tmp_path, check=False)
    assert refused.returncode == 2 and b"--sets-by and --complexity are for tables" in refused.stderr


def test_tables_are_text_markdown_or_csv_without_empty_columns(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", rollout("a|b", 0, 0.5), rollout("c", 0, None))
    text, markdown, csv = (
        run_command("mle-report", "--format", form, "x.jsonl", cwd=tmp_path).stdout.decode().split("\n\n")
        for form in ("text", "markdown", "csv")
    )
    header = ["task", "set", "runs", "valid", "> median", "b/s/g %", "medal", "score", "score best@1", "metric"]
    assert text[0].split("\n")[0].split("  ") == header  # no reward, no SEM: nobody has one
    lines = [[cell.strip() for cell in line.split(" |")] for line in markdown[0].split("\n")]
    assert lines[0] == ["| task", *header[1:-1], "metric", ""] and lines[2][0] == r"| a\|b"
    assert csv[0].split("\n")[:2] == [",".join(header), "a|b,x,1,100%,0%,0/0/0,0%,0.5,0.5,auc ↑"]
    assert len(csv) == len(markdown) - 2 and markdown[-2].startswith("- missing runs: 0 of 2")  # csv has no notes
    refused = run_command("mle-report", "--format", "csv", "--json", "x.jsonl", cwd=tmp_path, check=False)
    assert refused.returncode == 2 and b"--format is for tables" in refused.stderr


def test_validation_is_compared_with_test_by_the_scores_that_were_shown() -> None:
    def one(number: int, validation: float | None, test: float | None, shown: int, **more: Any) -> dict[str, Any]:
        turns = [{"action": "score", "duration_s": 1.0, "shown_score": 0.5} for _ in range(shown)]
        verdict = None if validation is None else {"valid": True, "reason": None, "score": validation}
        made = rollout(
            "a", number, test, turns=[*turns, {"action": "answer", "duration_s": 1.0}], validation=verdict, **more
        )
        made["grade"]["thresholds"] = {"median": 0.6, "bronze": 0.7, "silver": 0.75, "gold": 0.8}
        return made

    lower = one(7, 0.5, 0.6, 20, lower=True)
    lower["grade"]["thresholds"] = {"median": 1.0, "bronze": 0.9, "silver": 0.8, "gold": 0.5}
    flat = one(8, 0.9, 0.8, 20)
    flat["grade"]["thresholds"] = None
    runs = [
        one(0, 0.7, 0.75, 1), one(1, 0.75, 0.65, 2), one(2, 0.7, 0.7, 3), one(3, 0.9, 0.5, 9), lower, flat,
        one(4, None, 0.7, 0), one(5, 0.7, None, 1), one(6, 0.7, 0.1, 1, reveal_test=True),
    ]  # fmt: skip
    found = rows([a_set("x", *runs)])["all", "x"]["validation_gap"]
    assert [(each["scores"], each["rollouts"], each["validation_better"]) for each in found] == [
        ("1", 1, 0.0), ("2 to 3", 2, 0.5), ("8 to 15", 1, 1.0), ("16 and more", 2, 1.0),
    ]  # fmt: skip
    # of the way from median to gold: (0.7 - 0.75) / 0.2; (0.1 / 0.2 + 0) / 2; 0.4 / 0.2; (0.6 - 0.5) / (1 - 0.5)
    assert [each["gap_mean"] for each in found] == pytest.approx([-0.25, 0.25, 2.0, 0.2])
    assert found[1]["gap_sem"] == pytest.approx(0.25) and found[3]["gap_sem"] is None
    text = report(list(rows([a_set("x", *runs)]).values()))
    assert "scores shown" in text and "+2.000" in text and "positive: the validation score is better" in text
    assert "validation_gap" not in rows([a_set("y", rollout("a", 0, 0.5))])["all", "y"]
