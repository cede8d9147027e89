"""How a search comes to an idea: what is asked, how answers are read, which hypotheses are drawn, chosen, changed."""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from search_graphs import TASK, child, graph_of, made

from mletools.base.errors import ToolError
from mletools.scaffolds.interface import Settings
from mletools.scaffolds.search import node_context
from mletools.scaffolds.search.data import AXES, Expansion, Hypothesis, Idea, Plan, Question, Unanswered
from mletools.scaffolds.search.graph import Graph, Node
from mletools.scaffolds.search.reasoning import (
    Challenge,
    OneStep,
    Scientific,
    read_challenges,
    read_choice,
    read_hypotheses,
    read_idea,
)

IDEA = '{"hypothesis": "Use boosted trees.", "component": "Model"}'
PLAN = Plan(share=0.3, stage="improvement", guidance="Be bold.", full_seconds=600.0)
MARKS = {
    "search-idea": ("# Task: wine", "# Your answer"),
    "search-challenges": ("# Task: wine", "# Your answer"),
    "search-hypotheses": ("# Task: wine", "# Challenges\n\n0. ", "# Your answer"),
    "search-select": ("# Task: wine", "# Candidates\n\n0. [", "# Your answer"),
}


class NodeContext:
    """Feeds prepared answers through the real readers, as the real context does: one correction, then Unanswered."""

    def __init__(self, answers: Mapping[str, Sequence[str]], seed: int = 0):
        self.task, self.rng = TASK, random.Random(seed)
        self.job = SimpleNamespace(task=TASK, settings=Settings())
        self.answers = {role: list(texts) for role, texts in answers.items()}
        self.asked: list[tuple[str, str]] = []

    task_text = node_context.NodeContext.task_text

    def fact(self, name: str) -> str:
        return f"({name})"

    def read(self, phase: str, role: str, prompt: str, reader: Callable[[str], Any]) -> Any:
        assert phase == "research"
        assert "7411" not in prompt  # the test score, which lies in the details of every node
        assert "{{" not in prompt
        at = [prompt.index(mark) for mark in MARKS[role]]
        assert at == sorted(at)
        self.asked.append((role, prompt))
        problem = "no answer was prepared"
        for text in self.answers[role][:2]:
            self.answers[role].pop(0)
            try:
                return reader(text)
            except ValueError as error:
                problem = str(error)
        raise Unanswered(problem)

    @property
    def roles(self) -> list[str]:
        return [role for role, _ in self.asked]

    def prompt(self, role: str) -> str:
        return next(prompt for asked, prompt in self.asked if asked == role)


def section(prompt: str, heading: str) -> str:
    """What stands below a heading, up to the next one that is not in a fence."""
    outside = re.sub(r"^(`{3,}).*?^\1$", lambda match: match.group().replace("\n#", "\n\0"), prompt, flags=re.M | re.S)
    found = re.search(rf"^{re.escape(heading)}\n+(.*?)(?=\n# |\Z)", outside, re.M | re.S)
    assert found is not None, heading
    return found.group(1).replace("\0", "#").strip()


def question(
    graph: Graph,
    operation: str,
    *parents: int,
    recalls: Sequence[int] = (),
    recalled_for: list[list[str]] | None = None,
    **changes: Any,
) -> Question:
    def recall(hypotheses: Sequence[str]) -> list[Node]:
        if recalled_for is not None:
            recalled_for.append(list(hypotheses))
        return [graph[number] for number in recalls]

    details = tuple(graph.details(number) for number in parents)
    return Question(graph, Expansion(operation, parents), changes.pop("plan", PLAN), details, recall, **changes)


def reason(reasoning: Any, context: NodeContext, asked: Question) -> Idea:
    found: Idea = reasoning.reason(context, asked)
    return found


def challenges(*origins: str) -> str:
    return json.dumps([{"challenge": f"gap {at}", "reason": "why", "origin": each} for at, each in enumerate(origins)])


def hypotheses(*each: tuple[str, int, float]) -> str:
    """Of (text, challenge, score on all axes)."""
    return json.dumps(
        [
            {"hypothesis": text, "component": "Model", "challenge": challenge, "scores": dict.fromkeys(AXES, score)}
            for text, challenge, score in each
        ]
    )


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Branch 0: 0 (0.5), 2 (0.6). Branch 1: 1 (0.7), 3 (failed)."""
    return graph_of(
        tmp_path,
        made(0, score=0.5),
        made(1, score=0.7, component=None),
        child(2, 0, 0, score=0.6, lesson="Depth\nhelps."),
        child(3, 1, 1, score=None, problem="slow"),
    )


# --- one step -----------------------------------------------------------------------------------------------------


def test_a_first_draft_is_told_the_task_and_nothing_else(tmp_path: Path) -> None:
    context = NodeContext({"search-idea": [IDEA]})
    plan = Plan(share=0.0, stage="draft", full_seconds=90.4)
    found = reason(OneStep(), context, question(graph_of(tmp_path), "draft", plan=plan))
    assert found == Idea(Hypothesis("Use boosted trees.", "Model"))
    prompt = context.prompt("search-idea")
    assert "A run may take at most 90 seconds in this round." in prompt and "Nothing has been tried yet." in prompt
    assert "written from scratch" in section(prompt, "# Your answer")
    for heading in ("# Guidance", "# The present program", "# Earlier", "# Other", "# Knowledge", "# Program"):
        assert heading not in prompt


def test_an_improvement_is_told_what_there_is(graph: Graph) -> None:
    context = NodeContext({"search-idea": [IDEA]})
    queries: list[str] = []

    def know(query: str) -> list[str]:
        queries.append(query)
        return ["Wine is pressed.\n\n# Candidates"]

    asked = question(graph, "improve", 2, recalls=[1, 3], beside=("Use a\nforest.",), know=know)
    assert reason(OneStep(), context, asked).recalled == (1, 3)
    prompt = context.prompt("search-idea")
    assert section(prompt, "# Guidance") == "Be bold."
    # 12 of 600 seconds
    assert section(prompt, "# The present program") == (
        "Its idea: idea 2\n\nIts score: 0.6 (higher is better). It used less than a tenth of the time "
        "limit of a run.\n\n```python\nprint(2)\n```"
    )
    assert section(prompt, "# What it printed") == "```\nepoch 1\nValidation score: 0.6\n```"
    assert section(prompt, "# Earlier experiments") == (
        "- experiment 1: idea 1 -> score 0.7\n- experiment 3: idea 3 -> failed: slow"
    )
    assert section(prompt, "# Other branches") == "- Use a forest."
    assert section(prompt, "# Knowledge") == "```text\nWine is pressed.\n\n# Candidates\n```"
    assert "one change that improves its score" in section(prompt, "# Your answer")
    assert len(queries) == 1 and "Which grower?" in queries[0] and "idea 2" in queries[0]


def test_tenths_of_the_time(graph: Graph) -> None:
    context = NodeContext({"search-idea": [IDEA]})
    reason(OneStep(), context, question(graph, "improve", 2, plan=Plan(0.3, "improvement", full_seconds=35.0)))
    assert "It used about 3 tenths of the time limit" in context.prompt("search-idea")  # 12 of 35 seconds: 3.43


@pytest.mark.parametrize("operation", ["crossover", "merge"])
def test_several_parents_are_told_one_after_the_other(graph: Graph, operation: str) -> None:
    context = NodeContext({"search-idea": [IDEA]})
    reason(OneStep(), context, question(graph, operation, 2, 1))
    prompt = context.prompt("search-idea")
    assert section(prompt, "# Program 1") == (
        "Its idea: idea 2\n\nIts score: 0.6 (higher is better).\n\n```python\nprint(2)\n```"
    )
    assert section(prompt, "# Program 2").endswith("```python\nprint(1)\n```")
    assert "# The present program" not in prompt and "# What it printed" not in prompt
    assert "will combine the" in section(prompt, "# Your answer")


def test_long_programs_are_cut_in_the_middle(tmp_path: Path) -> None:
    long = "first = 1\n" + "x = 1\n" * 20_000 + "last = 1\n"
    graph = graph_of(tmp_path, made(0, code=long), made(1, code=long))
    context = NodeContext({"search-idea": [IDEA, IDEA]})
    reason(OneStep(), context, question(graph, "crossover", 0, 1))
    prompt = context.prompt("search-idea")
    assert len(prompt) < 45_000 and prompt.count("first = 1") == prompt.count("last = 1") == 2
    assert prompt.count("characters left out") == 2


def test_one_step_that_cannot_be_read_is_unanswered(graph: Graph) -> None:
    context = NodeContext({"search-idea": ["no", '{"hypothesis": "x", "component": "Magic"}']})
    with pytest.raises(Unanswered) as error:
        reason(OneStep(), context, question(graph, "improve", 2))
    assert (
        str(error.value)
        == '"component" has to be one of DataLoadSpec, FeatureEng, Model, Ensemble, Workflow, not "Magic"'
    )


# --- the scientific pipeline --------------------------------------------------------------------------------------


def scientific(choice: str, *more: tuple[str, int, float]) -> dict[str, list[str]]:
    given = (("low", 0, 3.0), ("high", 1, 9.0), ("mid", 0, 6.0), *more)
    return {
        "search-challenges": [challenges("scenario", "scenario")],
        "search-hypotheses": [hypotheses(*given)],
        "search-select": [choice],
    }


def test_the_whole_way_to_a_modified_hypothesis(graph: Graph) -> None:
    choice = '{"action": "modify", "candidate": 0, "hypothesis": "high, but more", "component": "Ensemble"}'
    context = NodeContext(scientific(choice))
    recalled_for: list[list[str]] = []
    queries: list[str] = []
    asked = question(
        graph, "improve", 2, recalls=[1], recalled_for=recalled_for, know=lambda query: queries.append(query) or []
    )
    found = reason(Scientific(), context, asked)
    assert context.roles == ["search-challenges", "search-hypotheses", "search-select"]
    assert found.hypothesis == Hypothesis("high, but more", "Ensemble", "gap 1", "scenario")
    assert found.action == "modify" and found.recalled == (1,) and found.challenges == ("gap 0", "gap 1")
    assert [each.text for each in found.considered] == ["high", "mid", "low"]
    assert found.considered[0].scores == dict.fromkeys(AXES, 9.0)
    assert recalled_for == [["high", "mid", "low"]]
    assert (
        section(context.prompt("search-hypotheses"), "# Challenges")
        == "0. gap 0 (scenario: why)\n1. gap 1 (scenario: why)"
    )
    assert "2 for each" in context.prompt("search-hypotheses") and "3 at most" in context.prompt("search-challenges")
    prompt = context.prompt("search-select")
    assert section(prompt, "# Candidates") == "0. [Model] high\n1. [Model] mid\n2. [Model] low\n3. [Workflow] idea 1"
    assert section(prompt, "# Earlier experiments") == (
        "- experiment 0: idea 0 -> score 0.5\n"
        "- experiment 1: idea 1 -> score 0.7\n"
        "- experiment 2: idea 2 -> score 0.6 (Depth helps.)"
    )
    # what was recalled came after the hypotheses: those who made them knew their own branch alone
    assert "experiment 1" not in context.prompt("search-challenges") + context.prompt("search-hypotheses")
    assert queries == ["gap 0 gap 1"]  # after the analysis of the problem


def test_a_selected_candidate_stays_as_it_is(graph: Graph) -> None:
    choice = '{"action": "select", "candidate": 1, "hypothesis": "something else", "component": "nothing"}'
    found = reason(Scientific(), NodeContext(scientific(choice)), question(graph, "improve", 2))
    assert (found.action, found.hypothesis.text, found.hypothesis.challenge) == ("select", "mid", "gap 0")
    assert [each.text for each in found.considered] == ["high", "low"]


def test_what_another_branch_found_can_be_selected(graph: Graph) -> None:
    choice = '{"action": "select", "candidate": 3, "hypothesis": null, "component": null}'
    found = reason(Scientific(), NodeContext(scientific(choice)), question(graph, "improve", 2, recalls=[1]))
    assert found.hypothesis == Hypothesis("idea 1", None)
    assert [each.text for each in found.considered] == ["high", "mid", "low"]


def test_a_new_hypothesis_can_be_created(graph: Graph) -> None:
    choice = '{"action": "create", "candidate": null, "hypothesis": "both", "component": "Ensemble"}'
    found = reason(Scientific(), NodeContext(scientific(choice)), question(graph, "merge", 2, 1))
    assert found.action == "create" and found.hypothesis == Hypothesis("both", "Ensemble")
    assert len(found.considered) == 3


MORE = [(f"h{score}", 0, float(score)) for score in (7, 8, 10, 5)]


def test_the_model_chooses_among_all_hypotheses(graph: Graph) -> None:
    context, recalled_for = NodeContext(scientific('{"action": "select", "candidate": 6}', *MORE)), list[list[str]]()
    asked = question(graph, "improve", 2, recalled_for=recalled_for)
    found = reason(Scientific(each=4), context, asked)  # cut at each * challenges = 8 of 7
    ranked = ["h10", "high", "h8", "h7", "mid", "h5", "low"]
    candidates = "\n".join(f"{at}. [Model] {text}" for at, text in enumerate(ranked))
    assert section(context.prompt("search-select"), "# Candidates") == candidates
    assert recalled_for == [ranked]  # the kernel is applied to each of them
    assert found.hypothesis.text == "low" and [each.text for each in found.considered] == ranked[:-1]


def test_only_the_best_by_the_weighted_scores_are_drawn_from(graph: Graph) -> None:
    drew = set()
    for seed in range(20):
        context = NodeContext(scientific("never asked", *MORE), seed)
        found = reason(Scientific(choice="draw", top=2, each=4), context, question(graph, "improve", 2))
        assert context.roles == ["search-challenges", "search-hypotheses"] and found.action is None
        others = {"h10", "high", "h8", "h7", "mid", "h5", "low"} - {found.hypothesis.text}
        assert {each.text for each in found.considered} == others
        drew.add(found.hypothesis.text)
    assert drew == {"h10", "high"}
    with pytest.raises(ToolError, match="choice is model or draw, not dice"):
        Scientific(choice="dice")


def test_one_candidate_and_nothing_recalled_is_no_choice(graph: Graph) -> None:
    single = {**scientific("never asked"), "search-hypotheses": [hypotheses(("high", 1, 9.0))]}
    context = NodeContext(single)
    found = reason(Scientific(), context, question(graph, "improve", 2))
    assert context.roles == ["search-challenges", "search-hypotheses"]
    assert (found.action, found.hypothesis.text) == (None, "high")
    # one that says the same again is no other candidate
    graph.add([made(4, "high", score=0.65)])
    context = NodeContext({**single, "search-hypotheses": [hypotheses(("high", 1, 9.0))]})
    found = reason(Scientific(), context, question(graph, "improve", 2, recalls=[4]))
    assert len(context.roles) == 2 and found.recalled == (4,)


def drawn_from(graph: Graph, operation: str, *parents: int, seed: int) -> str:
    """Which of a scenario and a feedback hypothesis is drawn, where one is."""
    answers = {
        "search-challenges": [challenges("scenario", "feedback")],
        "search-hypotheses": [hypotheses(("scenario", 0, 9.0), ("feedback", 1, 8.0))],
    }
    context = NodeContext(answers, seed)
    return reason(Scientific(choice="draw"), context, question(graph, operation, *parents)).hypothesis.text


def test_draws_weigh_by_where_the_challenge_was_seen(tmp_path: Path) -> None:
    # In the branch: 0.5, then 0.6 and 0.7 better than all before, then a failure and two that are as good, no better:
    # sota 3, fail 3: (9 + 6) // 2 = 7, 7 // 4 = 1: the scenario counts 2 of 3. Node 5 is of another branch.
    graph = graph_of(
        tmp_path,
        made(0, score=0.5),
        child(1, 0, 0, score=0.6),
        child(2, 1, 0, score=0.7),
        child(3, 2, 0, score=None, problem="failed"),
        child(4, 2, 0, score=0.7),
        made(5, score=0.9),
        child(6, 4, 0, score=0.7),
    )
    for seed in range(60):
        wanted = "scenario" if random.Random(seed).random() < 2 / 3 else "feedback"
        assert drawn_from(graph, "improve", 4, seed=seed) == wanted
    # the branch of node 5: sota 1: 3 // 2 // 4 = 0: the scenario counts 3 of 3; a draft has no branch
    assert {drawn_from(graph, "improve", 5, seed=seed) for seed in range(40)} == {"scenario"}
    assert {drawn_from(graph, "draft", seed=seed) for seed in range(40)} == {"scenario"}
    # 6 more that are no better: sota 3, fail 9: (9 + 18) // 2 = 13, 13 // 4 = 3: it counts nothing
    graph.add([child(number, 4, 0, score=0.1) for number in range(7, 13)])
    assert {drawn_from(graph, "improve", 4, seed=seed) for seed in range(40)} == {"feedback"}


def test_records_are_counted_the_right_way_round_where_lower_is_better(tmp_path: Path) -> None:
    # 0.9, 0.8, ... are records where lower is better: sota 4, fail 0: 12 // 2 // 4 = 1 -> 2. The other way round it would
    # be sota 1, fail 3: 9 // 2 // 4 = 1 -> 2, too; with eight: 24 // 2 // 4 = 3 -> 0 against (3 + 14) // 2 // 4 = 2 -> 1
    nodes = [made(0, score=0.9), *(child(at, at - 1, 0, score=0.9 - at / 10) for at in range(1, 8))]
    lower = graph_of(tmp_path / "lower", *nodes, lower=True)
    higher = graph_of(tmp_path / "higher", *nodes)
    assert {drawn_from(lower, "improve", 7, seed=seed) for seed in range(40)} == {"feedback"}
    assert {drawn_from(higher, "improve", 7, seed=seed) for seed in range(40)} == {"feedback", "scenario"}


@pytest.mark.parametrize(
    ("operation", "parents", "recalls", "wanted"),
    [
        ("improve", (2,), [1], "prefer those of earlier experiments"),  # 0.6 against 0.7
        ("improve", (1,), [0], "prefer the new ones"),  # 0.7 against 0.6
        ("improve", (2,), [], "All candidates are new."),
        ("draft", (), [1], "still has to fit here."),
    ],
)
def test_which_candidates_go_first(
    graph: Graph, operation: str, parents: tuple[int, ...], recalls: list[int], wanted: str
) -> None:
    context = NodeContext(scientific('{"action": "select", "candidate": 0}'))
    reason(Scientific(), context, question(graph, operation, *parents, recalls=recalls))
    told = section(context.prompt("search-select"), "# Your answer")
    assert wanted in told and told.count("prefer") == wanted.count("prefer")


@pytest.mark.parametrize(
    ("stage", "parents", "wanted"),
    [
        ("draft", (2,), "only just begun"),
        ("improvement", (2,), "under way"),
        ("ensemble", (2,), "under way"),
        ("merge", (2,), "near its end"),
        ("improvement", (2, 1), "near its end"),
    ],
)
def test_the_stage_decides_on_the_words(graph: Graph, stage: str, parents: tuple[int, ...], wanted: str) -> None:
    context = NodeContext(scientific('{"action": "select", "candidate": 0}'))
    operation = "improve" if len(parents) == 1 else "merge"
    reason(Scientific(), context, question(graph, operation, *parents, plan=Plan(0.5, stage)))
    prompt = context.prompt("search-select")
    assert wanted in prompt
    assert sum(words in prompt for words in ("only just begun", "under way", "near its end")) == 1


def test_a_draft_is_told_of_the_other_drafts_and_a_branch_of_its_newest(graph: Graph) -> None:
    context = NodeContext(scientific('{"action": "select", "candidate": 0}'))
    reason(Scientific(), context, question(graph, "draft"))
    assert section(context.prompt("search-challenges"), "# Earlier experiments") == (
        "- experiment 0: idea 0 -> score 0.5\n- experiment 1: idea 1 -> score 0.7"
    )
    context = NodeContext(scientific('{"action": "select", "candidate": 0}'))
    reason(Scientific(told=1), context, question(graph, "improve", 1))
    assert section(context.prompt("search-challenges"), "# Earlier experiments") == (
        "- experiment 3: idea 3 -> failed: slow"
    )
    context = NodeContext(scientific('{"action": "select", "candidate": 0}'))
    reason(Scientific(told=0), context, question(graph, "improve", 1))
    assert "# Earlier experiments" not in context.prompt("search-challenges")


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["search-challenges", "search-hypotheses"])
def test_without_challenges_or_hypotheses_it_is_one_step(graph: Graph, broken: str) -> None:
    answers = {**scientific("never asked"), "search-idea": [IDEA], broken: ["[]", "[1]"]}
    context = NodeContext(answers)
    found = reason(Scientific(), context, question(graph, "improve", 2, recalls=[1]))
    assert found == Idea(Hypothesis("Use boosted trees.", "Model"), recalled=(1,))
    assert context.roles[-1] == "search-idea" and "search-select" not in context.roles
    with pytest.raises(Unanswered):
        reason(
            Scientific(),
            NodeContext({**answers, broken: [], "search-idea": ["no", "no"]}),
            question(graph, "improve", 2),
        )


def test_a_choice_that_cannot_be_read_leaves_the_best_by_scores(graph: Graph) -> None:
    found = reason(
        Scientific(), NodeContext(scientific("Candidate 1, surely.")), question(graph, "improve", 2, recalls=[1])
    )
    assert (found.action, found.hypothesis.text, found.recalled) == (None, "high", (1,))


def test_an_answer_is_corrected_once(graph: Graph) -> None:
    answers = scientific('{"action": "select", "candidate": 2}')
    answers["search-select"].insert(0, '{"action": "select", "candidate": 3}')
    assert reason(Scientific(), NodeContext(answers), question(graph, "improve", 2)).hypothesis.text == "low"


CHALLENGES = [Challenge("gap 0", "why", "scenario"), Challenge("gap 1", "why", "feedback")]
CANDIDATES = [Hypothesis("a", "Model"), Hypothesis("b", "Model")]
NO_OBJECT = "your answer holds no JSON object that can be read"
COMPONENT = '"component" has to be one of DataLoadSpec, FeatureEng, Model, Ensemble, Workflow'
NUMBER = '"candidate" has to be a number from 0 to 1'
MISSING = "; it is missing or null"
ITEM = "item 1 of the list: "
INDEX = '"challenge" has to be a number from 0 to 1'
ACTION = '"action" has to be select, modify or create'
SCORES = {"alignment": 5, "impact": 5, "novelty": 5, "feasibility": 5, "risk_reward": 5}
READ = {"hypothesis": "x", "component": "Model", "challenge": 0, "scores": SCORES}


def as_hypotheses(text: str) -> Any:
    return read_hypotheses(text, CHALLENGES, 4)


def as_choice(text: str) -> Any:
    return read_choice(text, CANDIDATES)


def as_challenges(text: str) -> Any:
    return read_challenges(text, 3)


@pytest.mark.parametrize(
    ("reader", "answer", "problem"),
    [
        (read_idea, "I would use trees.", NO_OBJECT),
        (read_idea, '{"component": "Model"}', f'"hypothesis" has to be a text{MISSING}'),
        (read_idea, '{"hypothesis": " ", "component": "Model"}', '"hypothesis" has to be a text, not " "'),
        (read_idea, '{"hypothesis": "x", "component": ["Model"]}', f'{COMPONENT}, not ["Model"]'),
        (read_idea, '{"hypothesis": "x", "component": "Model or Ensemble"}', f'{COMPONENT}, not "Model or Ensemble"'),
        (as_challenges, '{"challenge": "x"}', "your answer holds no JSON list that can be read"),
        (as_challenges, "[]", 'the list has to hold objects, each with a "challenge"'),
        (as_challenges, '["x"]', 'the list has to hold objects, each with a "challenge"'),
        (
            as_challenges,
            '[{"challenge": "x", "reason": "y"}]',
            f'{ITEM}"origin" has to be scenario or feedback{MISSING}',
        ),
        (as_challenges, '[{"challenge": "x", "origin": "scenario"}]', f'{ITEM}"reason" has to be a text{MISSING}'),
        (as_hypotheses, "[null]", 'the list has to hold objects, each with a "hypothesis"'),
        (as_hypotheses, json.dumps([{**READ, "challenge": 3}]), f"{ITEM}{INDEX}, not 3"),
        (as_hypotheses, json.dumps([{**READ, "challenge": True}]), f"{ITEM}{INDEX}, not true"),
        (as_hypotheses, json.dumps([{**READ, "challenge": "gap 0"}]), f'{ITEM}{INDEX}, not "gap 0"'),
        (
            as_hypotheses,
            json.dumps([{**READ, "scores": [5] * 4}]),
            f'{ITEM}"scores" has to be an object with alignment, impact, novelty, feasibility, risk_reward, '
            "not [5, 5, 5, 5]",
        ),
        (
            as_hypotheses,
            json.dumps([READ, {**READ, "scores": {**SCORES, "novelty": "high"}}]),
            'item 2 of the list: "novelty" has to be a number from 1 to 10, not "high"',
        ),
        (
            as_hypotheses,
            json.dumps([{**READ, "scores": {**SCORES, "novelty": "60/100"}}]),
            f'{ITEM}"novelty" has to be a number from 1 to 10, not "60/100"',
        ),
        (
            as_hypotheses,
            json.dumps([{**READ, "scores": {"alignment": 1, "impact": 2}}]),
            f'{ITEM}"novelty" has to be a number from 1 to 10{MISSING}',
        ),
        (
            as_hypotheses,
            json.dumps([READ]).replace("5", "NaN", 1),
            f'{ITEM}"alignment" has to be a number from 1 to 10, not NaN',
        ),
        (as_hypotheses, json.dumps([{**READ, "component": "tuning"}]), f'{ITEM}{COMPONENT}, not "tuning"'),
        (as_choice, '{"action": "drop"}', f'{ACTION}, not "drop"'),
        (as_choice, '{"action": {"a": 1}, "candidate": 0}', f'{ACTION}, not {{"a": 1}}'),
        (as_choice, '{"action": "select", "candidate": 3}', f"{NUMBER}, not 3"),
        (as_choice, '{"action": "select", "candidate": -1}', f"{NUMBER}, not -1"),
        (as_choice, '{"action": "select", "candidate": null}', NUMBER + MISSING),
        (as_choice, '{"action": "modify", "hypothesis": "x", "component": "Model"}', NUMBER + MISSING),
        (
            as_choice,
            '{"action": "modify", "candidate": 0, "component": "Model"}',
            f'"hypothesis" has to be a text{MISSING}',
        ),
        (as_choice, '{"action": "create", "hypothesis": "x"}', COMPONENT + MISSING),
    ],
)
def test_answers_that_cannot_be_read_are_told_why(reader: Callable[[str], Any], answer: str, problem: str) -> None:
    with pytest.raises(ValueError) as error:
        reader(answer)
    assert str(error.value) == problem


def test_scores_are_clipped_and_more_than_asked_is_cut() -> None:
    scores = {"alignment": 11, "impact": -3, "novelty": 1e300, "feasibility": 0.5, "risk_reward": 7.5}
    (found,) = read_hypotheses(json.dumps([{**READ, "challenge": 1, "scores": scores}, {"bad": 1}]), CHALLENGES, 1)
    assert found.scores == {"alignment": 10, "impact": 1, "novelty": 10, "feasibility": 1, "risk_reward": 7.5}
    assert (found.challenge, found.origin) == ("gap 1", "feedback")
    assert [each.text for each in read_challenges(challenges("scenario", "feedback", "scenario"), 2)] == [
        "gap 0",
        "gap 1",
    ]


def test_texts_become_one_line_that_can_be_written() -> None:
    found = read_idea('{"hypothesis": "Trees.\\n\\n# Candidates\\n\\ud800", "component": "Model"}')
    assert found.text == "Trees. # Candidates \ufffd"
    assert len(read_idea(json.dumps({"hypothesis": "y" * 9000, "component": "Model"})).text) == 2000


def test_the_same_seed_asks_the_same(graph: Graph) -> None:
    runs = []
    for _ in range(2):
        context = NodeContext(
            scientific('{"action": "select", "candidate": 0}', ("h7", 0, 7.0), ("h8", 1, 8.0)), seed=3
        )
        runs.append((reason(Scientific(each=4), context, question(graph, "improve", 2)), context.asked))
    assert runs[0] == runs[1]
