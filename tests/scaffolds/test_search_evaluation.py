"""Evaluation in a search: which score a program has, and which node is handed in, for metrics of both directions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from taped import Taped

from mletools.base.tape import Tapes
from mletools.sandbox.programs import text_record
from mletools.scaffolds.interface import Job
from mletools.scaffolds.printed import printed_score
from mletools.scaffolds.search.components import SearchSettings, constants_of
from mletools.scaffolds.search.data import Choice, Developed
from mletools.scaffolds.search.evaluation import (
    AgentReported,
    Aggregated,
    Judged,
    Standard,
    ThreeSplits,
    candidates_of,
)
from mletools.scaffolds.search.graph import Graph
from mletools.scaffolds.search.node_context import NodeContext

GRADE = 0.987654321  # on the test rows: nobody may see it
FRESH = 0.456789123  # another
SAID = {"finish_reason": "stop", "prompt_tokens": 10, "completion_tokens": 5, "seconds": 1.5, "usd": 0.25}
NONE = {"head": "", "tail": "", "bytes": 0}


def told(score: float | None, status: str = "ok", stdout: bytes = b"", valid: bool = True) -> dict[str, Any]:
    """What a run comes to: without a score, or without a submission where that is None."""
    execution = {"status": status, "duration_s": 2.0, "stdout": text_record(stdout), "stderr": NONE}
    verdict = {"valid": valid, "reason": None if valid else "1 row is missing", "score": score}
    return {
        "execution": execution,
        "validation": None if score is None else verdict,
        "grade": {"valid": True, "score": GRADE},
    }


def graph_of(folder: Path, nodes: list[tuple[int, float | None, str | None]], lower: bool = False) -> Graph:
    """A graph of nodes (branch, score, code)."""
    graph = Graph(folder / "graph.jsonl", lower)
    for number, (branch, score, code) in enumerate(nodes):
        graph.add(
            [
                {
                    "number": number,
                    "parents": [] if branch == number else [branch],
                    "operation": "draft" if branch == number else "improve",
                    "branch": branch,
                    "depth": int(branch != number),
                    "repairs": 0,
                    "round": number,
                    "hypothesis": f"idea {number}",
                    "component": "Model",
                    "problem": None if score is not None else "failed",
                    "why": "",
                    "score": score,
                    "lesson": f"lesson {number}",
                    "seconds": 1.0,
                    "elapsed": number + 1.0,
                    "usage": {},
                    "code": code,
                    **told(score),
                    "asked": [],
                    "trials": [],
                }
            ]
        )
    return graph


class World:
    """A place: its model gives these answers, its sandbox these outcomes by program."""

    def __init__(self, answers: Any = (), runs: Any = ()):
        self.answers, self.runs = list(answers), dict(runs)
        self.asked: list[Any] = []
        self.ran: list[tuple[Any, ...]] = []

    def ask(self, who: str, role: str, messages: Any, seed: int, tools: Any, most: int) -> dict[str, Any]:
        self.asked.append((role, messages))
        answer = self.answers.pop(0)
        return answer if isinstance(answer, dict) else {"text": answer, **SAID}

    def fact(self, name: str) -> str:
        return f"({name})"

    def at_once(self, work: Any, items: Any) -> list[Any]:
        return [work(item) for item in items]

    def run(
        self,
        code: str,
        wall_s: float,
        seed: int,
        judged: bool = True,
        *,
        arguments: tuple[str, ...] = (),
        rows: str = "",
    ) -> dict[str, Any]:
        self.ran.append((code, wall_s, seed, arguments, rows))
        found = self.runs[code]
        outcome = found.pop(0) if isinstance(found, list) else found
        return outcome if isinstance(outcome, dict) else told(outcome)


def context_of(world: World, task: dict[str, Any], **bounds: Any) -> NodeContext:
    settings = replace(SearchSettings(execution_seconds=77.0, max_seconds=None), **bounds)
    job = Job("a", "b", 1, 0, 7, task, {"model": "m"}, "search", settings)
    return NodeContext(job, Taped(world, Tapes(None).tape("a")), "choice")


def task_of(lower: bool = False) -> dict[str, Any]:
    return {
        "id": "t-1",
        "name": "harvest",
        "description": "Predict the yield of each field.",
        "modality": "tabular",
        "problem": "regression",
        "metric": {"name": "rmse" if lower else "r2", "params": {}, "lower_is_better": lower},
        "submission": {"id": ["field"], "target": ["yield"]},
        "data": {"public": ["train.csv", "test.csv"]},
    }


def chosen(evaluation: Any, graph: Graph, world: World) -> Choice:
    choice: Choice = evaluation.choose(graph, context_of(world, task_of(graph.lower)))
    return choice


@pytest.mark.parametrize(("finish_reason", "code"), [("stop", "print(1)\n"), ("length", None)])
def test_a_program_that_was_cut_off_is_none(finish_reason: str, code: str | None) -> None:
    said = {"text": "```python\nprint(1)", **SAID, "finish_reason": finish_reason}
    context = context_of(World([said]), task_of())
    assert context.answer("develop", "search-draft", "?").code == code


# --- the score that a program prints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "score"),
    [
        (b"Validation score: 0.8123\n", 0.8123),
        (b"fold 1\n  Validation score:   -1.5e-3  \r\nbye", -0.0015),
        (b"Validation score: 0.1\nValidation score: 0.2\nValidation score: 0.3", 0.3),
        (b"Validation score: 7", 7.0),
        (b"", None),
        (b"score: 0.5\n", None),
        (b"My Validation score: 0.5\n", None),
        (b"validation score: 0.5\n", 0.5),
        (b"Validation score:\n0.5\n", None),
        (b"Validation score: nan\n", None),
        (b"Validation score: -inf\n", None),
        (b"Validation score: Infinity\n", None),
        (b"Validation score: 1e999\n", None),
        (b"Validation score: 0.8 (accuracy)\n", None),
        (b"Validation score: 1_0\n", None),
        ("Validation score: \u0661\u0662\n".encode(), None),
        (b"Validation score: 0x10\n", None),
        (b"Validation score: " + b"9" * 300, None),
        (b"Validation score: 0." + b"9" * 3_000_000, None),
        (b"Validation score: 0.9\n" + b"\xff\x00\x80", 0.9),
        (b"Validation score: 0.5\xe2\x80\xa8Validation score: 0.9", None),  # U+2028 ends no line
        (b"Validation score: 0.9\nValidation score: nan\n", None),  # the last word counts
        (b"Validation score: 0.9\n" * 100_000 + b"Validation score: 0.4\n", 0.4),
        (b"Validation score: 0.6\n" + b"x" * 3_000_000, 0.6),
        (b"x" * 3_000_000 + b"\nValidation score: 0.7\n", 0.7),
    ],
)
def test_what_a_program_says_of_itself(printed: bytes, score: float | None) -> None:
    developed = Developed("print()", told(0.25, stdout=printed), None)
    assert AgentReported().score(developed) == score
    assert Standard().score(developed) == 0.25  # which is not fooled


def test_torn_lines_are_not_read() -> None:
    # the output was cut within the numbers 0.812 and 0.999, or within the words before a mark
    for head, tail, score in [
        ("Validation score: 0.8", "12\nbye\n", None),
        ("a\nValidation score: 0.5\nValidation score: 0.8", "12\n", 0.5),
        ("a\n", "Validation score: 0.9\nb", None),
        ("Validation score: 0.5\n", "x\nValidation score: 0.7", 0.7),
    ]:
        assert printed_score({"head": head, "tail": tail, "bytes": 10**6}) == score


def test_a_program_that_did_not_run_has_no_score() -> None:
    for evaluation in (AgentReported(), Standard(), Judged(), Aggregated()):
        assert evaluation.score(Developed(None, None, "no_code")) is None


@pytest.mark.parametrize("evaluation", [Standard(), Judged(), Aggregated()])
def test_the_score_on_held_out_rows(evaluation: Any) -> None:
    def score(**run: Any) -> Any:
        return evaluation.score(Developed("print()", told(**run), None))

    assert score(score=0.5) == 0.5 and score(score=0.0) == 0.0
    assert score(score=None) is None and score(score=0.5, valid=False) is None
    assert score(score=0.5, status="timeout") is None


def test_only_programs_of_their_own_report() -> None:
    assert [each.reports for each in (AgentReported, Standard, Judged, Aggregated)] == [True, False, False, False]
    assert constants_of(AgentReported()) == constants_of(Standard()) == {}
    assert constants_of(Judged()) == {"candidates": 6} and constants_of(Aggregated()) == {
        "candidates": 6,
        "rounds": 1,
        "fresh": 1.0,
    }


# --- the best score ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluation", [AgentReported(), Standard()])
@pytest.mark.parametrize(("lower", "number"), [(False, 1), (True, 3)])
def test_the_best_score_is_handed_in(tmp_path: Path, evaluation: Any, lower: bool, number: int) -> None:
    graph = graph_of(tmp_path, [(0, 0.5, "a"), (0, 0.9, "b"), (2, None, None), (2, 0.1, "d"), (0, 0.9, "e")], lower)
    choice = chosen(evaluation, graph, World())
    assert choice.number == number and choice.how == "the best score of the search"
    assert choice.candidates == ({"node": number, "score": graph[number].score, "holdout": None},)


@pytest.mark.parametrize("evaluation", [AgentReported(), Standard(), Judged(), Aggregated()])
def test_nothing_is_handed_in_where_nothing_has_a_score(tmp_path: Path, evaluation: Any) -> None:
    for place, nodes in enumerate(([], [(0, None, None), (1, None, "x")])):
        choice = chosen(evaluation, graph_of(tmp_path / str(place), nodes), World())
        assert choice == Choice(None, "no experiment has a score")


# --- chosen by a model ---------------------------------------------------------------------------------------------------

NODES: list[tuple[int, float | None, str | None]] = [
    (0, 0.50, "a"), (0, 0.90, "b"), (2, 0.10, "c"), (2, None, "d"), (2, 0.20, "e"), (5, 0.30, "f"), (5, 0.40, "g"), (0, 0.91, "h"),
]  # fmt: skip
# best first: 7, 1, 0, 6, 5, 4, 2


def answer(number: Any, why: Any = "its features\nhold") -> str:
    return f"<think>perhaps 0</think>{json.dumps({'experiment': number, 'why': why})}"


def test_a_model_chooses_among_the_best(tmp_path: Path) -> None:
    world = World([answer(6)])
    choice = chosen(Judged(candidates=4), graph_of(tmp_path, NODES), world)
    assert choice.number == 6 and choice.how == "chosen by a model among the 4 best: its features hold"
    assert [each["node"] for each in choice.candidates] == [7, 1, 0, 6]
    ((role, (message,)),) = world.asked
    assert role == "search-choose" and "higher is better" in message["content"]
    lines = [line for line in message["content"].split("\n") if line.startswith("- experiment ")]
    assert [line.split(":")[0] for line in lines] == [f"- experiment {number}" for number in (7, 1, 0, 6)]
    for number, line in zip((7, 1, 0, 6), lines, strict=True):
        assert f"idea {number}" in line and f"(lesson {number})" in line
    assert "0.91" in lines[0] and "# Task: harvest" in message["content"]


def test_a_model_is_told_where_less_is_better(tmp_path: Path) -> None:
    world = World([answer(4)])
    choice = chosen(Judged(candidates=2), graph_of(tmp_path, NODES, lower=True), world)
    assert choice.number == 4 and [each["node"] for each in choice.candidates] == [2, 4]
    assert "on the validation rows; lower is better." in world.asked[0][1][0]["content"]


@pytest.mark.parametrize("wrong", [3, 5, 99, -1, 1.5, True, "7 or 1", None, [7], 1e300])
def test_a_number_that_was_not_asked_about(tmp_path: Path, wrong: Any) -> None:
    world = World([answer(wrong), answer(wrong)])
    choice = chosen(Judged(candidates=4), graph_of(tmp_path, NODES), world)
    assert choice.number == 7 and "could not be read" in choice.how and len(world.asked) == 2
    better = World([answer(wrong), answer(1)])
    assert chosen(Judged(candidates=4), graph_of(tmp_path / "again", NODES), better).number == 1


def test_a_model_that_says_nothing_of_use(tmp_path: Path) -> None:
    for place, answers in enumerate((["the last one", "well"], [{"refused": "too long"}])):
        assert chosen(Judged(), graph_of(tmp_path / str(place), NODES), World(answers)).number == 7
    assert chosen(Judged(), graph_of(tmp_path / "why", NODES), World([answer(1, 5)])).how.endswith("6 best")
    long = chosen(Judged(), graph_of(tmp_path / "long", NODES), World([answer(1, "x" * 10**6)]))
    assert long.number == 1 and len(long.how) < 400


def test_of_one_there_is_no_choice(tmp_path: Path) -> None:
    graph, world = graph_of(tmp_path, [(0, 0.5, "a"), (0, None, "b")]), World()
    assert chosen(Judged(), graph, world).number == 0 and not world.asked
    assert chosen(Judged(candidates=1), graph_of(tmp_path / "more", NODES), world).number == 7 and not world.asked


def test_no_test_score_is_in_a_prompt(tmp_path: Path) -> None:
    graph, world = graph_of(tmp_path, NODES), World([answer(1)])
    assert graph.details(1)["grade"]["score"] == GRADE
    chosen(Judged(), graph, world)
    assert world.asked and "0.9876" not in json.dumps(world.asked)


# --- chosen on selection rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "most", "numbers"),
    [
        # heads of the branches: 7 (0.91), 6 (0.4), 4 (0.2); then 1 (0.9), 0 (0.5), 5 (0.3), 2 (0.1)
        (False, 6, [7, 6, 4, 1, 0, 5]),
        (False, 2, [7, 6]),
        (False, 0, [7]),
        # heads: 2 (0.1), 5 (0.3), 0 (0.5); then 4 (0.2), 6 (0.4), 1 (0.9), 7 (0.91)
        (True, 6, [2, 5, 0, 4, 6, 1]),
        (True, 9, [2, 5, 0, 4, 6, 1, 7]),
    ],
)
def test_who_is_a_candidate(tmp_path: Path, lower: bool, most: int, numbers: list[int]) -> None:
    assert [node.number for node in candidates_of(graph_of(tmp_path, NODES, lower), most)] == numbers


def test_a_program_is_a_candidate_once(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.8, "a"), (0, 0.7, "b"), (1, 0.6, "c"), (0, 0.5, "b"), (0, 0.4, None)]
    graph = graph_of(tmp_path, nodes)
    assert [node.number for node in graph.ranked()] == [0, 1, 2, 3, 4, 5]
    assert [node.number for node in candidates_of(graph, 6)] == [0, 2, 3]


@pytest.mark.parametrize(("lower", "number", "order"), [(False, 4, [4, 6, 7]), (True, 0, [0, 2, 5])])
def test_the_best_on_selection_rows_is_handed_in(tmp_path: Path, lower: bool, number: int, order: list[int]) -> None:
    runs = {"h": 0.2, "g": 0.3, "e": FRESH, "c": 0.3, "f": 0.7, "a": 0.1}
    world = World(runs=runs)
    graph = graph_of(tmp_path, NODES, lower)
    choice = chosen(Aggregated(candidates=3), graph, world)
    assert choice.number == number
    assert choice.how == "the best score on selection rows; 3 of 3 candidates could be scored again on selection rows"
    assert [each["node"] for each in choice.candidates] == order
    codes = {node: code for node, (_, _, code) in enumerate(NODES)}
    for each in choice.candidates:
        assert each["score"] == graph[each["node"]].score and each["holdout"] == runs[codes[each["node"]] or ""]
    ran = ["h", "g", "e"] if not lower else ["c", "f", "a"]
    assert [run[0] for run in world.ran] == ran
    assert {(run[1], run[3], run[4]) for run in world.ran} == {(77.0, (), "selection")}
    assert not world.asked


def test_equals_on_selection_rows_are_told_apart_by_the_search(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.7, "b"), (2, 0.8, "c"), (3, 0.6, "d")]
    fresh = {"a": 0.1, "b": 0.5, "c": 0.5, "d": told(None)}
    choice = chosen(Aggregated(), graph_of(tmp_path, nodes), World(runs=fresh))
    assert choice.number == 2 and [each["node"] for each in choice.candidates] == [2, 1, 0, 3]
    assert choice.how == (
        "the best score of the search among 2 that are equal on selection rows; "
        "3 of 4 candidates could be scored again on selection rows"
    )
    # equals that are not the best matter to nobody
    worse = {"a": 0.6, "b": 0.5, "c": 0.5, "d": 0.5}
    choice = chosen(Aggregated(), graph_of(tmp_path / "worse", nodes), World(runs=worse))
    assert choice.number == 0 and choice.how.startswith("the best score on selection rows; 4 of 4 ")
    # equal there too: the one that was made first
    same: list[Any] = [(0, 0.1, "a"), (1, 0.7, "b"), (2, 0.7, "c")]
    assert chosen(Aggregated(), graph_of(tmp_path / "same", same), World(runs=fresh)).number == 1
    low = graph_of(tmp_path / "low", [(0, 0.8, "b"), (1, 0.7, "c")], lower=True)
    assert chosen(Aggregated(), low, World(runs=fresh)).number == 1


def test_programs_that_fail_on_selection_rows(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.8, "b"), (2, 0.7, "c")]
    invalid, late = told(0.99, valid=False), told(0.99, status="timeout")
    choice = chosen(Aggregated(), graph_of(tmp_path, nodes), World(runs={"a": invalid, "b": late, "c": 0.1}))
    assert choice.number == 2 and choice.how.startswith("the best score on selection rows; 1 of 3 ")
    assert [each["holdout"] for each in choice.candidates] == [0.1, None, None]
    runs = {"a": invalid, "b": late, "c": told(None)}
    for lower, number in ((False, 0), (True, 2)):
        choice = chosen(Aggregated(), graph_of(tmp_path / str(lower), nodes, lower), World(runs=runs))
        assert choice.number == number
        assert choice.how == ("the best score of the search: 0 of 3 candidates could be scored again on selection rows")


def test_one_candidate_is_not_run_again(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.8, "a"), (1, 0.9, "a"), (2, None, "c")]
    world = World()
    choice = chosen(Aggregated(), graph_of(tmp_path, nodes), world)
    assert (choice.number, choice.how, world.ran) == (1, "only one candidate", [])
    assert choice.candidates == ({"node": 1, "score": 0.9, "holdout": None},)


def test_the_mean_of_several_rounds_counts(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.8, "b"), (2, 0.7, "c")]
    world = World(runs={"a": [0.6, 0.2], "b": [0.5, 0.5], "c": [1.0, None]})
    choice = chosen(Aggregated(rounds=2), graph_of(tmp_path, nodes), world)
    assert choice.number == 1 and [each["holdout"] for each in choice.candidates] == [0.5, 0.4, None]
    assert len({run[2] for run in world.ran}) == 6  # every run has a seed of its own


def test_the_searchs_own_score_may_count_too(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.6, "b"), (2, 0.5, "c")]
    graph = graph_of(tmp_path, nodes)
    # alone, selection rows choose b; half and half: a (0.9 + 0.5) / 2 = 0.7, b (0.6 + 0.7) / 2 = 0.65, c 0.35
    for fresh, order in ((1.0, [1, 0, 2]), (0.5, [0, 1, 2])):
        choice = chosen(Aggregated(fresh=fresh), graph, World(runs={"a": 0.5, "b": 0.7, "c": 0.2}))
        assert [each["node"] for each in choice.candidates] == order and choice.number == order[0]


def test_time_is_kept_for_the_slowest_candidate(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (1, 0.8, "b"), (2, 0.7, "c"), (2, None, None)]
    graph = graph_of(tmp_path, nodes)  # every run took 2 s
    assert Aggregated().reserve(graph, False) == pytest.approx(1.1 * 2)
    assert Aggregated(candidates=2, rounds=2).reserve(graph, False) == pytest.approx(1.1 * 2 * 2)
    assert Aggregated().reserve(graph, True) == pytest.approx(1.1 * 2 * 3)  # one after the other
    assert Standard().reserve(graph, True) == AgentReported().reserve(graph, True) == 0
    for seconds, ran in ((2.5, ["a", "b", "c"]), (1.5, [])):
        world = World(runs={"a": 0.1, "b": 0.2, "c": 0.3})
        context = context_of(world, task_of())
        context._deadline = seconds
        choice = Aggregated().choose(graph, context)
        assert [code for code, *_ in world.ran] == ran
        assert all(wall_s == seconds for _, wall_s, *_ in world.ran)
        assert (context.seconds, context.clock) == (2.0 * len(ran), 2.0 * bool(ran))  # at once
        if not ran:
            assert choice.number == 0 and choice.how.endswith(
                "no time was left to compare it with others on selection rows"
            )


def graph_with(folder: Path, nodes: list[Any], lower: bool = False, **changed: list[Any]) -> Graph:
    """`graph_of` with a list of `seconds` of its runs, or of whether submissions are `valid` on the test rows."""
    graph_of(folder, nodes, lower).close()
    file = folder / "graph.jsonl"
    made = [json.loads(line) for line in file.read_text().splitlines()]
    for at, node in enumerate(made):
        if "seconds" in changed:
            node["execution"]["duration_s"] = changed["seconds"][at]
        if "valid" in changed:
            node["grade"]["valid"] = changed["valid"][at]
    file.write_text("".join(f"{json.dumps(node)}\n" for node in made))
    return Graph(file, lower)


@pytest.mark.parametrize(("left", "seconds"), [(1800.0, [300, 400, 2400]), (1.0, [0.6, 0.7, 40])])
def test_the_best_is_not_lost_to_quicker_ones_where_time_is_short(
    tmp_path: Path, left: float, seconds: list[float]
) -> None:
    nodes: list[Any] = [(0, 0.70, "a"), (1, 0.71, "b"), (2, 0.95, "c")]
    world = World(runs={"a": 0.70, "b": 0.71})
    context = context_of(world, task_of())
    context._deadline = left
    choice = Aggregated().choose(graph_with(tmp_path, nodes, seconds=seconds), context)
    assert choice.number == 2 and not world.ran
    assert choice.how == "the best score of the search: no time was left to compare it with others on selection rows"
    assert choice.candidates == ({"node": 2, "score": 0.95, "holdout": None},)


def test_it_is_said_how_many_were_too_slow_to_be_compared(tmp_path: Path) -> None:
    nodes: list[Any] = [(0, 0.95, "a"), (1, 0.71, "b"), (2, 0.70, "c")]
    context = context_of(World(runs={"a": 0.2, "c": 0.3}), task_of())
    context._deadline = 1800.0
    choice = Aggregated().choose(graph_with(tmp_path, nodes, seconds=[300, 2400, 400]), context)
    assert choice.number == 2
    assert choice.how == (
        "the best score on selection rows; 2 of 2 candidates could be scored again on selection rows; "
        "for 1 more no time was left"
    )


@pytest.mark.parametrize(("ran_s", "number"), [(1800.0, 0), (100.0, 1)])
def test_the_best_is_not_lost_where_the_searchs_time_ends_its_run(tmp_path: Path, ran_s: float, number: int) -> None:
    nodes: list[Any] = [(0, 0.95, "a"), (1, 0.71, "b"), (2, 0.70, "c")]
    late = told(None, status="timeout")
    late["execution"]["duration_s"] = ran_s  # at the end of the search's time, or of its own limit
    context = context_of(World(runs={"a": late, "b": 0.3, "c": 0.2}), task_of())
    context._deadline = 1800.0
    choice = Aggregated().choose(graph_of(tmp_path, nodes), context)
    assert choice.number == number
    ran = "2 of 3 candidates could be scored again on selection rows"
    assert choice.how == (
        f"the best score of the search: the search's time ended its run on selection rows; {ran}"
        if number == 0
        else f"the best score on selection rows; {ran}"
    )
    assert [each["holdout"] for each in choice.candidates] == ([None, 0.3, 0.2] if number == 0 else [0.3, 0.2, None])


@pytest.mark.parametrize("evaluation", [Standard(), AgentReported(), Aggregated(), Judged(), ThreeSplits()])
def test_an_invalid_submission_is_not_handed_in_where_there_is_a_valid_one(tmp_path: Path, evaluation: Any) -> None:
    nodes: list[Any] = [(0, 0.9, "a"), (0, 0.8, "b"), (2, 0.7, "c"), (3, 0.6, "d")]
    fresh = {"a": 0.99, "b": 0.9, "c": 0.5, "d": 0.4}
    world = World([answer(0)], fresh)
    choice = chosen(evaluation, graph_with(tmp_path / "some", nodes, valid=[False, True, True, True]), world)
    assert choice.number == 1
    assert "a" not in [code for code, *_ in world.ran]
    if not world.ran:
        assert "the best score of the search among submissions that are valid on the test rows" in choice.how
    none = World([answer(0)], fresh)
    choice = chosen(evaluation, graph_with(tmp_path / "none", nodes, valid=[False] * 4), none)
    assert choice.number == 0
    # no model learns of it, not even by the time that is left for programs
    valid = World([answer(0)], fresh)
    graph = graph_of(tmp_path / "all", nodes)
    assert chosen(evaluation, graph, valid).number == 0 and valid.asked == world.asked == none.asked
    slow = [
        graph_with(tmp_path / str(at), nodes, seconds=[50, 1, 1, 1], valid=[at, True, True, True])
        for at in (False, True)
    ]
    assert len({evaluation.reserve(each, False) for each in slow}) == 1
