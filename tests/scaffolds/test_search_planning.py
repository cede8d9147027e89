"""Planning of a search: stages by the share of the budget, limits of a run and guidance by stage, the expert's role."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from search_graphs import made

from mletools.records.rollout import Stage
from mletools.scaffolds.interface import Job
from mletools.scaffolds.search.components import SearchSettings, constants_of, stored_constants
from mletools.scaffolds.search.data import Budget, Plan
from mletools.scaffolds.search.graph import Graph
from mletools.scaffolds.search.node_context import NodeContext
from mletools.scaffolds.search.planning import EFFORT, MODEL_FIRST, DynamicPlanning, NoPlanning, stage_of

TASK: dict[str, Any] = {
    "id": "t-1",
    "name": "harvest",
    "description": "Predict the yield of each field.\n",
    "modality": "tabular",
    "problem": "regression",
    "metric": {"name": "rmse", "params": {}, "lower_is_better": True},
    "submission": {"id": ["field"], "target": ["yield"]},
    "data": {"public": ["train.csv", "test.csv"]},
    "answers": "private/answers.csv",
    "thresholds": {"gold": 0.123454321},
    "provenance": {"hidden_rule": "yield is rain times sun"},
}
ANALYSIS = {
    "task_type": "Regression",
    "data_type": "Tabular",
    "summary": "Fields and\n# their yields",
    "data": "train.csv and test.csv",
    "submission": "field, yield",
    "metric": "root mean squared error, lower is better",
    "longer_limit": False,
}
SAID = {"finish_reason": "stop", "prompt_tokens": 10, "completion_tokens": 5, "seconds": 1.5, "usd": 0.25}


class Model:
    """A place whose model gives these answers, and keeps what it was asked."""

    def __init__(self, *answers: Any):
        self.answers, self.asked = list(answers), []  # type: ignore[var-annotated]

    def ask(self, who: str, role: str, messages: Any, *rest: Any, refusable: bool = False) -> dict[str, Any]:
        self.asked.append((who, role, messages))
        answer = self.answers.pop(0)
        return answer if isinstance(answer, dict) else {"text": answer, **SAID}

    def fact(self, name: str) -> str:
        return f"({name}: train.csv)"


def context_of(model: Model, **settings: Any) -> NodeContext:
    bounds = replace(SearchSettings(max_seconds=None), **settings)
    job = Job("a", "b", 1, 0, 7, TASK, {"model": "m"}, "search", bounds)
    return NodeContext(job, model, "begin")  # type: ignore[arg-type]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph(tmp_path / "graph.jsonl", lower_is_better=True)


@pytest.mark.parametrize(
    ("share", "stage"),
    [
        (0.0, "draft"), (0.0999, "draft"), (0.1, "improvement"), (0.3333, "improvement"), (4 / 12, "ensemble"),
        (0.7, "ensemble"), (0.7999, "ensemble"), (0.8, "merge"), (1.0, "merge"), (1.3, "merge"),
    ],
)  # fmt: skip
def test_the_stage_of_a_share(share: float, stage: str) -> None:
    assert stage_of(share) == stage and stage in get_args(Stage)


def test_the_bounds_of_stages_can_be_moved_and_left_out() -> None:
    assert [stage_of(share, 0.3, 0.4, 0.5) for share in (0.2, 0.3, 0.4, 0.5)] == list(get_args(Stage))
    assert [stage_of(share, draft=0.0) for share in (0.0, 0.05)] == ["improvement", "improvement"]
    assert [stage_of(share, ensemble=0.8) for share in (0.79, 0.8)] == ["improvement", "merge"]
    assert stage_of(0.6, draft=0.9, ensemble=0.8, merge=0.5) == "merge"


def test_the_stages_of_the_release_are_constants(graph: Graph) -> None:
    release = DynamicPlanning(ensemble_from=0.7)
    shares = (0.05, 0.1, 0.5, 0.6999, 0.7, 0.8)
    assert [release.plan(graph, Budget(share)).stage for share in shares] == [
        "draft", "improvement", "improvement", "improvement", "ensemble", "merge",
    ]  # fmt: skip
    own = DynamicPlanning(draft_until=0.0, ensemble_from=0.2, merge_from=0.3)
    assert [own.plan(graph, Budget(share)).stage for share in (0.0, 0.25, 0.3)] == ["improvement", "ensemble", "merge"]


def test_no_planning_plans_every_round_alike(graph: Graph) -> None:
    plan = NoPlanning()
    model = Model()
    assert plan.begin(context_of(model)) == "" and not model.asked and constants_of(plan) == {}
    assert plan.plan(graph, Budget(0.05, 3600.0)) == Plan(0.05, "draft", "", 3600.0, 600.0)
    assert plan.plan(graph, Budget(0.95, 90.0, 10.0)) == Plan(0.95, "merge", "", 90.0, 90.0)


SHARES = {"draft": 0.05, "improvement": 0.2, "ensemble": 0.5, "merge": 0.9}  # one of each stage


@pytest.mark.parametrize(
    ("stage", "full", "debug"),
    [("draft", 900.0, 150.0), ("improvement", 1800.0, 300.0), ("ensemble", 3600.0, 600.0), ("merge", 3600.0, 600.0)],
)
def test_limits_of_a_run_grow_by_stage(graph: Graph, stage: str, full: float, debug: float) -> None:
    # a quarter, a half and the whole of an hour; a sixth of that for a debug run
    share = SHARES[stage]
    plan = DynamicPlanning().plan(graph, Budget(share, 3600.0))
    assert (plan.share, plan.stage, plan.full_seconds) == (share, stage, full)
    assert plan.debug_seconds == pytest.approx(debug) and not plan.repairs
    half = DynamicPlanning(early=0.5, middle=0.75, debug_share=0.5).plan(graph, Budget(share, 400.0))
    assert half.full_seconds == {"draft": 200.0, "improvement": 300.0}.get(stage, 400.0)
    assert half.debug_seconds == half.full_seconds / 2


def test_a_plan_tells_what_is_used_and_left(graph: Graph) -> None:
    def told(*budget: Any) -> str:
        return DynamicPlanning().plan(graph, Budget(*budget)).guidance

    assert "About 30 % of the search's budget is used." in told(0.333, 3600.0)
    assert "About 30 % of the search's budget is used; time left: about 8 hours." in told(0.333, 3600.0, 8 * 3600.0)
    assert "time left: about 95 minutes." in told(0.9, 3600.0, 5700.0)
    assert "time left: less than two minutes." in told(0.9, 3600.0, 60.0)
    assert "longest run" not in told(0.9)
    for number, seconds in enumerate((700.0, 1380.0, 100.0)):
        run = {"stdout": {}, "stderr": {}, "duration_s": seconds, "status": "ok"}
        graph.add([made(number, execution=run)])
    assert "is used. The longest run so far took about 23 minutes." in told(0.5)


def test_an_improvement_without_gain_for_long_is_planned_like_an_ensemble(graph: Graph) -> None:
    graph.add([made(0, score=0.5)])  # lower is better
    graph.add([made(number, score=None if number % 2 else 0.6, problem="failed") for number in range(1, 9)])
    planning, budget = DynamicPlanning(), Budget(0.2, 3600.0)
    before = planning.plan(graph, budget)
    assert (before.stage, before.full_seconds) == ("improvement", 1800.0) and "no new best" not in before.guidance
    graph.add([made(9, score=0.5)])  # as good, not better
    plan = planning.plan(graph, budget)
    assert (plan.stage, plan.full_seconds) == ("ensemble", 3600.0)
    assert "The last 9 experiments brought no new best score." in plan.guidance
    assert planning.plan(graph, Budget(0.05)).stage == "draft" and planning.plan(graph, Budget(0.9)).stage == "merge"
    graph.add([made(10, score=0.4)])
    assert planning.plan(graph, budget) == before


def test_runs_get_more_time_after_some_that_ran_out_of_it(graph: Graph) -> None:
    stopped = {"stdout": {}, "stderr": {}, "duration_s": 900.0, "status": "timeout"}
    failed: dict[str, Any] = {"score": None, "problem": "failed", "execution": stopped}
    in_debug = {**failed, "problem": "debug", "execution": None, "trials": [{"status": "ok"}, {"status": "timeout"}]}
    too_slow = {**failed, "problem": "slow", "execution": None, "trials": [{"status": "ok"}]}
    planning, draft, improvement = DynamicPlanning(), Budget(0.05, 3600.0), Budget(0.2, 3600.0)

    def limits() -> tuple[float, float]:
        return planning.plan(graph, draft).full_seconds, planning.plan(graph, improvement).full_seconds

    graph.add([made(0, **failed)])
    assert limits() == (900.0, 1800.0)
    for number, late in enumerate((in_debug, too_slow), 1):
        graph.add([made(number, **late)])
        assert limits() == (1800.0, 3600.0)
    assert DynamicPlanning(late=4).plan(graph, draft).full_seconds == 900.0
    graph.add([made(3, score=None, problem="debug", execution=None)])  # for another reason
    assert limits() == (900.0, 1800.0)


def test_guidance_goes_from_novelty_to_what_is_costly(graph: Graph) -> None:
    told = {
        stage: DynamicPlanning().plan(graph, Budget(SHARES[stage], 60.0)).guidance.replace("\n", " ")
        for stage in get_args(Stage)
    }
    assert not any("second" in text for text in told.values())  # the limit of a run is told once, elsewhere
    assert len(set(told.values())) == 4 and "" not in told.values()
    cheap = {stage for stage, text in told.items() if "No ensembles" in text and "no cross-validation" in text}
    worth = {stage for stage, text in told.items() if "Ensembles and cross-validation are worth their cost now" in text}
    assert cheap == {"draft"} and worth == {"ensemble", "merge"}
    # no heading of a prompt's own, nothing left to fill in
    assert not any(line.startswith("#") or "{{" in line for text in told.values() for line in text.split("\n"))


@pytest.mark.parametrize(("share", "asked"), [(0.0, True), (0.2499, True), (0.25, False), (0.8, False)])
def test_the_model_comes_first_while_most_of_the_budget_is_left(graph: Graph, share: float, asked: bool) -> None:
    guidance = DynamicPlanning().plan(graph, Budget(share, 60.0)).guidance
    assert guidance.endswith(MODEL_FIRST) is asked and ("architecture" in guidance) is asked
    never = DynamicPlanning(model_until=0.0).plan(graph, Budget(share, 60.0))
    assert MODEL_FIRST not in never.guidance


def test_a_search_begins_with_an_analysis_that_makes_the_role() -> None:
    model = Model(f"<think>hm</think>\n```json\n{json.dumps(ANALYSIS)}\n```")
    context = context_of(model)
    role = DynamicPlanning().begin(context)
    ((who, asked, messages),) = model.asked
    assert (who, asked, len(messages)) == ("policy", "search-analysis", 1) and messages[0]["role"] == "user"
    prompt = messages[0]["content"]
    for known in (
        "harvest",
        "Predict the yield of each field.",
        "rmse",
        "lower is better",
        "(data_preview: train.csv)",
        "field, yield",
    ):
        assert known in prompt
    for secret in ("answers.csv", "0.123454321", "rain times sun"):
        assert secret not in prompt and secret not in role
    lines = role.split("\n")
    assert "- Kind of task: Regression" in lines and "- Kind of data: Tabular" in lines
    assert "- Summary: Fields and # their yields" in lines  # one line: no heading comes of an answer
    assert "- Score: root mean squared error, lower is better" in lines
    assert EFFORT[False] in role and "seconds" not in role  # which are told where they hold
    assert context.usage["research"]["completion_tokens"] == 5 and context.usage["develop"]["completion_tokens"] == 0


def test_a_task_that_needs_long_training_is_advised_the_whole_limit() -> None:
    role = DynamicPlanning().begin(context_of(Model(json.dumps({**ANALYSIS, "longer_limit": True}))))
    assert EFFORT[True] in role


@pytest.mark.parametrize(
    "wrong",
    [
        "no idea",
        "[]",
        json.dumps({**ANALYSIS, "metric": ""}),
        json.dumps({**ANALYSIS, "longer_limit": "perhaps"}),
        "{" * 5000,
    ],
)
def test_an_analysis_that_cannot_be_read_is_asked_for_again(wrong: str) -> None:
    model = Model(wrong, json.dumps(ANALYSIS))
    assert "Regression" in DynamicPlanning().begin(context_of(model)) and len(model.asked) == 2
    stubborn = Model(wrong, wrong)
    assert DynamicPlanning().begin(context_of(stubborn)) == "" and len(stubborn.asked) == 2


def test_a_search_goes_on_without_a_role() -> None:
    assert DynamicPlanning().begin(context_of(Model({"refused": "the prompt is too long"}))) == ""
    model = Model()
    assert DynamicPlanning(role=False).begin(context_of(model)) == "" and not model.asked


def test_the_constants_can_be_given() -> None:
    assert constants_of(DynamicPlanning()) == {
        "draft_until": 0.1,
        "ensemble_from": 1 / 3,
        "merge_from": 0.8,
        "early": 0.25,
        "middle": 0.5,
        "stagnant": 9,
        "late": 2,
        "debug_share": 1 / 6,
        "least_debug": 10.0,
        "model_until": 0.25,
        "role": True,
        "growth": 1.0,
    }


@pytest.mark.parametrize(("late", "factor"), [(0, 1.0), (1, 2.0), (2, 3.0), (4, 3.0)])
def test_limits_grow_after_nodes_that_ran_out_of_time(graph: Graph, late: int, factor: float) -> None:
    slow = {"score": None, "problem": "slow", "execution": None}
    graph.add([made(number, **({} if number < 3 else slow)) for number in range(3 + late)])
    plan = DynamicPlanning(growth=3.0, late=99).plan(graph, Budget(0.05, 3600.0))
    assert (plan.full_seconds, plan.debug_seconds) == (900.0 * factor, pytest.approx(150.0 * factor))
    assert ("runs have longer limits for now" in plan.guidance) == (late > 0)
    late_stage = DynamicPlanning(growth=3.0, late=99).plan(graph, Budget(0.5, 3600.0))
    assert late_stage.full_seconds == 3600.0  # never more than the user's
    plain = DynamicPlanning(late=99).plan(graph, Budget(0.05, 3600.0))
    assert plain.full_seconds == 900.0 and "longer limits" not in plain.guidance
    assert (
        "growth" not in stored_constants(DynamicPlanning())
        and stored_constants(DynamicPlanning(growth=3.0))["growth"] == 3
    )
