"""Figures of results against thresholds, baselines, cost and tries; ticks of a logarithmic axis."""

import re
from typing import Any

import pytest
from report_builders import a_set, rollout
from shown_rollouts import EXECUTION

from mletools.reports.page.figure import Figure, inline, log_ticks
from mletools.reports.page.figures import figures
from mletools.reports.page.scores import MOST_DOTS, MOST_TASKS, by_cost, by_task, by_tries, passes

pytest.importorskip("matplotlib", reason="needs the [report] extra")
THRESHOLDS = {"median": 0.5, "bronze": 0.6, "silver": 0.7, "gold": 0.8}


def measured(task: str, sample: int, score: float | None, lower: bool = False, **more: Any) -> dict[str, Any]:
    """A rollout of a task with thresholds and three baselines."""
    made = rollout(task, sample, score, lower=lower, **more)
    sign = -1 if lower else 1
    made["grade"]["thresholds"] = {name: sign * value for name, value in THRESHOLDS.items()}
    made["task"]["provenance"]["baselines"] = [
        {"name": name, "score": sign * value} for name, value in (("linear", 0.55), ("dummy", 0.1), ("ceiling", 0.9))
    ]
    return made


def drawn(*names: float) -> Figure:
    def draw(axes: Any) -> None:
        axes.plot(names, [1.0] * len(names))
        log_ticks(axes)

    return Figure("x", "", "", ("x",), (), draw)


@pytest.mark.parametrize("ends", [(0.4, 3.0), (0.8, 9.0), (0.3, 0.7), (0.01, 5000.0)])
def test_a_logarithmic_axis_has_plain_numbers(ends: tuple[float, float]) -> None:
    """Over about a decade the minor ticks have labels by default, in TeX."""
    svg = inline(drawn(*ends))
    assert "mathdefault" not in svg and "$" not in svg
    labels = [float(text) for text in re.findall(r">([0-9.]+)</text>", svg)]
    inside = [label for label in labels if ends[0] <= label <= ends[1]]
    assert len(inside) >= 2


def test_the_running_times_of_about_a_decade_have_plain_numbers() -> None:
    runs = [rollout("a", n, 0.5, execution={**EXECUTION, "duration_s": 0.5 + n}) for n in range(5)]
    (times,) = [figure for figure in figures([a_set("x", *runs)], {}, []) if figure.name == "times"]
    assert "mathdefault" not in inline(times)


@pytest.mark.parametrize("lower", [False, True])
def test_the_scores_of_a_task_stand_beside_its_thresholds_and_baselines(lower: bool) -> None:
    sign = -1 if lower else 1
    first = [measured("a b", n, sign * score, lower) for n, score in enumerate((0.3, 0.65, 0.4))]
    second = [measured("a b", 0, sign * 50.0, lower), measured("a b", 1, None, lower)]
    sets = {"x": a_set("x", *first).runs, "y": a_set("y", *second).runs}
    (figure,) = by_task(sets)
    assert figure.name == "scores-a-b"
    assert figure.title == f"a b: auc, {'lower' if lower else 'higher'} is better"
    assert [row[:2] for row in figure.rows[:2]] == [("x", 3), ("y", 1)]  # the invalid one has no score
    assert figure.rows[0][2:] == (sign * 0.3, sign * 0.65, sign * 0.4)  # worst, best, median
    assert [row[0] for row in figure.rows[2:6]] == ["median", "bronze", "silver", "gold"]
    assert [row[0] for row in figure.rows[6:]] == ["dummy", "linear", "ceiling"]  # from the worst
    assert "Beyond the axis: 1," in figure.caption and "right is better" in inline(figure)
    assert list(by_task({"x": a_set("x", rollout("c", 0, 0.5)).runs})) == []  # nothing to measure by


def test_of_many_baselines_the_caption_has_both_ends() -> None:
    run = measured("a", 0, 0.5)
    run["task"]["provenance"]["baselines"] = [{"name": f"b{at}", "score": 0.01 * at} for at in range(30)]
    (figure,) = by_task({"x": a_set("x", run).runs})
    assert "Baselines from the worst (30): b0 0 to b29 0.29." in figure.caption
    assert len(figure.rows) == 1 + 4 + 30


def test_large_sets_are_thinned_and_the_caption_says_so() -> None:
    runs = [measured("a", at, 0.3 + 0.0001 * at) for at in range(MOST_DOTS + 1)]
    (figure,) = by_task({"x": a_set("x", *runs).runs})
    assert f"a dot per rollout, at most {MOST_DOTS} of a set." in figure.caption
    assert inline(figure).count("<use ") < MOST_DOTS


def test_of_many_tasks_the_first_have_a_figure_and_the_first_says_so() -> None:
    runs = [measured(f"t{task}", 0, 0.5) for task in range(MOST_TASKS + 5)]
    found = list(by_task({"x": a_set("x", *runs).runs}))
    assert len(found) == MOST_TASKS
    assert found[0].caption.endswith(f"The first {MOST_TASKS} of {MOST_TASKS + 5} tasks have a figure.")
    assert "have a figure" not in found[1].caption


def test_reward_against_cost_needs_costs_and_one_rule() -> None:
    def runs(*tokens: int | None, **more: Any) -> Any:
        usage = [{"prompt_tokens": count, "completion_tokens": count, "usd": None} for count in tokens]
        return a_set(
            "x", *[rollout("a", n, 0.5, reward=0.2 * n, usage=used, **more) for n, used in enumerate(usage)]
        ).runs

    (figure,) = by_cost({"x": runs(10, 20, None, 60)})
    assert (figure.name, figure.rows[0][:3]) == ("cost-tokens", ("x", 3, 60.0))
    assert figure.rows[0][3] == pytest.approx(0.8 / 3)
    assert list(by_cost({"x": runs(None, None)})) == [] and list(by_cost({"x": runs(10, 10)})) == []
    assert list(by_cost({"x": runs(10, 20), "y": runs(10, 20, rule={"rule": "raw"})})) == []
    assert "tokens per rollout" in inline(figure)


def test_rollouts_that_cost_nothing_are_drawn() -> None:
    runs = [rollout("a", n, 0.5, reward=0.1 * n, usage={"usd": usd}) for n, usd in enumerate((0.0, 0.2, 0.5, 30.0))]
    (figure,) = by_cost({"x": a_set("x", *runs).runs})
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    figure.draw(axes)
    assert figure.name == "cost-usd" and axes.get_xscale() == "linear"


def test_pass_at_k_is_the_unbiased_estimator() -> None:
    """1 - C(n - c, k) / C(n, k): of four runs with one medal 1/4, 1/2 and 3/4; of two with none 0."""
    a = [rollout("a", n, 0.5, medal="gold" if n == 2 else None) for n in range(4)]
    assert [share for _, share, _ in passes(a_set("x", *a).runs, "medal")] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    b = [rollout("b", n, 0.5) for n in range(2)]
    both = passes(a_set("x", *a, *b).runs, "medal")
    assert [(k, share) for k, share, _ in both] == [(1.0, pytest.approx(0.125)), (2.0, pytest.approx(0.25))]
    assert passes([], "valid") == []
    many = passes(a_set("x", *[rollout("a", n, 0.5 if n % 2 else None) for n in range(300)]).runs, "valid")
    assert [k for k, _, _ in many[:64]] == list(range(1, 65)) and many[-1][:2] == (300.0, 1.0) and len(many) < 90
    named = [figure.name for figure in by_tries({"x": a_set("x", *a, *b).runs}) if figure]
    assert named == ["pass-medal"]  # all are valid: nothing to see
