"""What a search remembers: the kernel's numbers by hand, who is recalled, lessons, likeness of texts, a user's notes."""

import bisect
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from search_graphs import TASK, child, graph_of, made, node

from mletools.base.errors import ToolError
from mletools.scaffolds.interface import Settings
from mletools.scaffolds.messages import fenced
from mletools.scaffolds.search import node_context
from mletools.scaffolds.search.data import Expansion, Lesson, Unanswered
from mletools.scaffolds.search.graph import Graph
from mletools.scaffolds.search.memory import (
    MOST_LINES,
    Chain,
    Kernel,
    NoMemory,
    Retrieval,
    Siblings,
    draw,
    error_class,
    potential,
    probabilities,
    read_lesson,
    score_lesson,
)
from mletools.scaffolds.search.reasoning import scen_prob_multiplier, weighted
from mletools.scaffolds.search.sections import MOST_HYPOTHESIS, MOST_PRINTED, experiment_line, failed_attempts, plain
from mletools.scaffolds.search.similarity import best_passages, bm25, cosines, read_passages, tf_idf_cosines


def never(text: str, others: Sequence[str]) -> list[float]:
    raise AssertionError("nothing was to be compared")


def alike(by_text: dict[str, float]) -> Callable[[str, Sequence[str]], list[float]]:
    return lambda text, others: [by_text[other] for other in others]


class NodeContext:
    """Feeds one prepared answer to the real reader; None: it cannot be read."""

    def __init__(self, answer: str | None):
        self.task, self.answer = TASK, answer
        self.job = SimpleNamespace(task=TASK, settings=Settings())
        self.prompts: list[str] = []

    task_text = node_context.NodeContext.task_text

    def fact(self, name: str) -> str:
        return f"({name})"

    def read(self, phase: str, role: str, prompt: str, reader: Callable[[str], Any]) -> Any:
        assert (phase, role) == ("research", "search-lesson")
        self.prompts.append(prompt)
        if self.answer is None:
            raise Unanswered("cut off")
        return reader(self.answer)


# --- the kernel ---------------------------------------------------------------------------------------------------


def test_the_potential_of_equation_1() -> None:
    # a path of 30 nodes halves the similarity: exp(-30 ln2 / 30) = 0.5; tanh(0) = 0
    assert potential(0.6, 30, 0.0) == pytest.approx(0.3)
    # 1 * 0.6 * 1 + 1 * tanh(0.5) = 0.6 + 0.46211716 (e = 2.71828183: (e - 1)/(e + 1) = 1.71828183/3.71828183)
    assert potential(0.6, 0, 0.5) == pytest.approx(1.06211716)
    # a worse node: 0.6 - 0.46211716
    assert potential(0.6, 0, -0.5) == pytest.approx(0.13788284)
    # no score to compare with: beta = 0
    assert potential(0.6, 0, 9.0, beta=0.0) == pytest.approx(0.6)
    # 2 * 0.25 * exp(-ln2) + 0.5 * tanh(0) = 0.25
    assert potential(0.25, 1, 0.0, alpha=2.0, beta=0.5, gamma=math.log(2)) == pytest.approx(0.25)


def test_the_potential_is_clipped() -> None:
    assert potential(1.0, 0, 100.0, alpha=3.0) == 2.0  # 3 + 1
    assert potential(-1.0, 0, -100.0, alpha=3.0) == -2.0
    assert potential(1.0, 0, 100.0) == pytest.approx(2.0)  # the defaults reach the bound, and not beyond it


def test_the_softmax() -> None:
    # exp(0) : exp(ln 3) = 1 : 3
    assert probabilities([0.0, math.log(3)]) == pytest.approx([0.25, 0.75])
    assert probabilities([-2.0, -2.0, -2.0, -2.0]) == pytest.approx([0.25] * 4)
    assert probabilities([]) == []


def test_draws_follow_the_cumulative_weights() -> None:
    # weights 1, 2, 5 of 8: below 0.125 the first, below 0.375 the second, else the third
    for seed in range(200):
        at = random.Random(seed).random()
        wanted = 0 if at < 0.125 else 1 if at < 0.375 else 2
        assert draw([1.0, 2.0, 5.0], 1, random.Random(seed)) == [wanted]


def test_draws_are_distinct_and_in_proportion_to_what_is_left() -> None:
    rng = random.Random(0)
    firsts, orders = Counter[int](), Counter[tuple[int, ...]]()
    for _ in range(4000):
        found = draw([1.0, 2.0, 5.0], 2, rng)
        assert len(set(found)) == 2
        firsts[found[0]] += 1
        orders[tuple(found)] += 1
    # first: 1/8, 2/8, 5/8. Then 2 after 0: 5/(2 + 5) of 1/8 = 0.0893; 0 after 2: 1/(1 + 2) of 5/8 = 0.2083
    for place, share in enumerate((0.125, 0.25, 0.625)):
        assert firsts[place] / 4000 == pytest.approx(share, abs=0.03)
    assert orders[0, 2] / 4000 == pytest.approx(0.0893, abs=0.02)
    assert orders[2, 0] / 4000 == pytest.approx(0.2083, abs=0.02)


def test_a_weight_of_0_is_never_drawn_unless_all_are_0() -> None:
    for seed in range(50):
        assert sorted(draw([0.0, 1.0, 0.0, 1.0], 3, random.Random(seed))) == [1, 3]
    seen = {draw([0.0, 0.0], 1, random.Random(seed))[0] for seed in range(50)}
    assert seen == {0, 1}
    assert draw([], 2, random.Random(0)) == []


def test_how_often_a_scenario_challenge_counts() -> None:
    # (3 sota + 2 fail) // 2 // 4: 0 -> 3; sota 1 fail 2: 7 // 2 = 3 -> 0; fail 4: 4 -> 1; sota 3: 9 // 2 = 4 -> 1;
    # sota 4 fail 2: 16 // 2 = 8 -> 2; sota 8: 12 -> 3; sota 20: 30 // 4 = 7
    table = {(0, 0): 3, (1, 2): 3, (0, 3): 3, (0, 4): 2, (3, 0): 2, (4, 2): 1, (0, 8): 1, (8, 0): 0, (20, 0): 0}
    for (sota, fail), wanted in table.items():
        assert scen_prob_multiplier(sota, fail) == wanted, (sota, fail)


def test_the_weights_of_the_axes() -> None:
    scores = {"alignment": 8.0, "impact": 5.0, "novelty": 3.0, "feasibility": 10.0, "risk_reward": 4.0}
    assert weighted(scores) == pytest.approx(1.6 + 2.0 + 0.6 + 1.0 + 0.4)
    assert weighted(dict.fromkeys(scores, 7.0)) == pytest.approx(7.0)


# --- who is recalled ----------------------------------------------------------------------------------------------


def two_branches(tmp_path: Path, lower: bool = False) -> Graph:
    """Branch 0: nodes 0 (0.50), 2 (0.60). Branch 1: nodes 1 (0.70), 3 (failed), 4 (0.40)."""
    return graph_of(
        tmp_path,
        made(0, score=0.5),
        made(1, score=0.7),
        child(2, 0, 0, score=0.6),
        child(3, 1, 1, score=None, problem="failed"),
        child(4, 1, 1, score=0.4),
        lower=lower,
    )


def recalled(
    memory: Any, graph: Graph, parents: tuple[int, ...], similar: Any, seed: int = 0, *texts: str
) -> list[int]:
    expansion = Expansion("improve" if parents else "draft", parents)
    return [node.number for node in memory.recall(graph, expansion, texts, similar, random.Random(seed))]


def drawn_by(bounds: Sequence[float], nodes: Sequence[int], best: int, seed: int) -> list[int]:
    """The node of the first bound above the first number of the seed, and the best of all, which is always told."""
    drawn = nodes[bisect.bisect(bounds, random.Random(seed).random())]
    return list(dict.fromkeys([drawn, best]))


def test_the_kernel_draws_from_all_branches_by_its_numbers(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    # The branch of node 2 has the path 0, 2 (L = 2) and the best 0.6. exp(-2 ln2 / 30) = 0.954842.
    # node 0: 0 + tanh(0.5 - 0.6 = -0.1) = -0.099668
    # node 1: 0.2 * 0.954842 + tanh(0.7 - 0.6 = 0.1) = 0.190968 + 0.099668 = 0.290636
    # node 2: -1 * 0.954842 + tanh(0) = -0.954842
    # node 4: 0.9 * 0.954842 + tanh(0.4 - 0.6 = -0.2) = 0.859358 - 0.197375 = 0.661983
    # exp: 0.905138, 1.337278, 0.384873, 1.938633, together 4.565922
    similar = alike({"idea 0": 0.0, "idea 1": 0.2, "idea 2": -1.0, "idea 4": 0.9})
    for seed in range(100):
        wanted = drawn_by((0.198238, 0.491120, 0.575413), (0, 1, 2, 4), 1, seed)
        assert recalled(Kernel(drawn=1), graph, (2,), similar, seed, "mine") == wanted
    drew = {number for seed in range(40) for number in recalled(Kernel(), graph, (2,), similar, seed, "mine")}
    assert drew == {0, 1, 2, 4}  # also of the own branch; never the failed one


def test_the_pool_of_the_release_has_the_records_of_branches(tmp_path: Path) -> None:
    graph, lower = two_branches(tmp_path), two_branches(tmp_path / "lower", lower=True)
    # node 4 (0.4) is worse than node 1 (0.7) before it; where lower is better, node 2 (0.6) than node 0 (0.5)
    similar = alike({f"idea {number}": 0.0 for number in (0, 1, 2, 4)})
    for each, pool in ((graph, {0, 1, 2}), (lower, {0, 1, 4})):
        kernel = Kernel(drawn=1, pool="best")
        assert {recalled(kernel, each, (2,), similar, seed, "mine")[0] for seed in range(40)} == pool
    with pytest.raises(ToolError, match="pool is all or best, not some"):
        Kernel(pool="some")


def test_the_sign_of_the_difference_where_lower_is_better(tmp_path: Path) -> None:
    graph = two_branches(tmp_path, lower=True)
    # The best of branch 0 is 0.5. node 0: 0; node 1: tanh(0.5 - 0.7) = -0.197375; node 2: tanh(0.5 - 0.6) = -0.099668;
    # node 4: tanh(0.5 - 0.4) = 0.099668. exp: 1, 0.820883, 0.905138, 1.104804, together 3.830825
    similar = alike({f"idea {number}": 0.0 for number in (0, 1, 2, 4)})
    for seed in range(100):
        wanted = drawn_by((0.261040, 0.475323, 0.711601), (0, 1, 2, 4), 4, seed)
        assert recalled(Kernel(drawn=1), graph, (2,), similar, seed, "mine") == wanted


def test_a_draft_has_no_best_to_compare_with(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    # L = 0 and beta = 0: U = S. 0, 1, 2, 4 have 1, 0, 0, 0: p(0) = e / (e + 3) = 0.475367
    similar = alike({"idea 0": 1.0, "idea 1": 0.0, "idea 2": 0.0, "idea 4": 0.0})
    for seed in range(100):
        found = recalled(Kernel(drawn=1), graph, (), similar, seed, "new")
        assert (found == [0, 1]) == (random.Random(seed).random() < 0.475367)
    # nothing to be similar to: even draws, and nobody is asked for cosines
    assert {recalled(Kernel(drawn=1), graph, (), never, seed)[0] for seed in range(60)} == {0, 1, 2, 4}


def test_without_a_hypothesis_the_parents_counts(tmp_path: Path) -> None:
    asked: list[tuple[str, list[str]]] = []

    def similar(text: str, others: Sequence[str]) -> list[float]:
        asked.append((text, list(others)))
        return [0.0] * len(others)

    graph = two_branches(tmp_path)
    recalled(Kernel(), graph, (2,), similar)
    recalled(Kernel(), graph, (2,), similar, 0, "first", "second", "first")
    assert asked == [(text, ["idea 0", "idea 1", "idea 2", "idea 4"]) for text in ("idea 2", "first", "second")]


def test_the_kernel_is_applied_to_every_hypothesis(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    by_text = {
        "one": {"idea 0": 0.0, "idea 1": 0.2, "idea 2": -1.0, "idea 4": 0.9},
        "other": {"idea 0": 0.0, "idea 1": 0.9, "idea 2": 0.0, "idea 4": -0.9},
    }

    def similar(text: str, others: Sequence[str]) -> list[float]:
        return [by_text[text][other] for other in others]

    # As above p(4) = 0.424587 for "one". For "other": node 0: -0.099668; node 1: 0.859358 + 0.099668 = 0.959026; node 2: 0;
    # node 4: -0.859358 - 0.197375 = -1.056733. exp: 0.905138, 2.609154, 1, 0.347590, together 4.861882; p(4) = 0.071493.
    # Each draws one; of two different ones either stays with 1/2: node 4 with (0.424587 + 0.071493) / 2 = 0.248040
    drew = sum(4 in recalled(Kernel(drawn=1), graph, (2,), similar, seed, "one", "other") for seed in range(4000))
    assert drew / 4000 == pytest.approx(0.248040, abs=0.025)
    # two stay, and node 1, as the best of all
    assert 1 in (both := recalled(Kernel(drawn=2), graph, (2,), similar, 0, "one", "other")) and 2 <= len(both) <= 3


def test_the_best_of_all_may_be_of_the_own_branch(tmp_path: Path) -> None:
    similar = alike({f"idea {number}": 0.0 for number in (0, 1, 2, 4)})
    assert recalled(Kernel(drawn=0), two_branches(tmp_path), (4,), similar) == [1]


def test_an_empty_graph_and_one_of_failures(tmp_path: Path) -> None:
    assert recalled(Kernel(), graph_of(tmp_path / "a"), (), never) == []
    failed = graph_of(tmp_path / "b", made(0, score=None, problem="failed"))
    assert recalled(Kernel(), failed, (0,), never) == []
    assert recalled(NoMemory(), two_branches(tmp_path / "c"), (2,), never) == []


def test_siblings_are_the_newest_children_and_failures_count(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    graph.add([child(5, 1, 1, score=0.1)])
    graph.add([made(6, parents=[2, 1], operation="merge", branch=0, depth=2)])
    assert recalled(Siblings(), graph, (1,), never) == [3, 4, 5, 6]
    assert recalled(Siblings(most=2), graph, (1,), never) == [5, 6]
    assert recalled(Siblings(most=0), graph, (1,), never) == []
    assert recalled(Siblings(), graph, (2, 1), never) == [3, 4, 5, 6]
    assert recalled(Siblings(), graph, (), never) == [0, 1]


def test_a_chain_is_told_its_earlier_steps(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    graph.add([child(5, 4, 1, 2, score=0.1)])
    assert recalled(Chain(), graph, (5,), never) == [1, 3, 4]
    assert recalled(Siblings(), graph, (5,), never) == []  # which a chain has not
    assert recalled(Chain(most=2), graph, (5,), never) == [3, 4]
    assert recalled(Chain(most=0), graph, (5,), never) == []
    assert recalled(Chain(), graph, (), never) == [0, 1]


# --- lines and lessons --------------------------------------------------------------------------------------------


def test_an_experiment_in_a_line(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    assert experiment_line(node(score=0.81234567), graph) == "- experiment 7: Use trees. -> score 0.812346"
    assert experiment_line(node(lesson="It\nhelps. "), graph) == "- experiment 7: Use trees. -> score 0.8 (It helps.)"
    for supported, told in ((True, "hypothesis supported: It helps."), (False, "hypothesis not supported: It helps.")):
        assert experiment_line(node(lesson="It helps.", supported=supported), graph).endswith(f" -> score 0.8 ({told})")
    assert experiment_line(node(score=None, problem="slow"), graph) == "- experiment 7: Use trees. -> failed: slow"
    hostile = experiment_line(node(hypothesis="a\n# Candidates\n\n" + "x" * 5000, lesson="y\u2028" * 5000), graph)
    assert len(hostile.splitlines()) == 1 and len(hostile) < MOST_HYPOTHESIS + 500


def test_a_failure_in_a_line_says_how(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    failed = {"score": None, "problem": "failed", "why": "The program failed:\nKeyError: 'y'"}
    assert experiment_line(node(**failed), graph) == (
        "- experiment 7: Use trees. -> failed: failed (The program failed: KeyError: 'y')"
    )
    assert experiment_line(node(**failed, lesson="y is called z."), graph).endswith(
        "-> failed: failed (y is called z.)"
    )


def test_all_failed_attempts_at_an_idea(tmp_path: Path) -> None:
    """0 failed; 1 and 2 repair it and fail, 3 repairs 2 and fails, 4 repairs 1 and works, 5 is another idea."""

    def failed(number: int, *parents: int, **changes: Any) -> dict[str, Any]:
        exchange = {
            "phase": "develop",
            "who": "policy",
            "usage": dict(node_context.NO_USAGE),
            "messages": [{"content": "?"}, {"content": f"Plan {number}.\n\n```python\nx\n```"}],
        }
        operation = "debug" if parents else "draft"
        known = {"parents": list(parents), "operation": operation, "branch": 0, "score": None, "problem": "failed"}
        return made(number, **{**known, "why": f"why {number}", "asked": [exchange], **changes})

    graph = graph_of(
        tmp_path,
        failed(0),
        failed(1, 0),
        failed(2, 0, problem="slow", why=""),
        failed(3, 2, asked=[]),
        failed(4, 1, score=0.5, problem=None),
        failed(5, branch=5),
    )
    lines = ["Plan 0. -> failed: why 0", "Plan 1. -> failed: why 1"]
    slow = "Plan 2. -> failed: The full run would have taken too long."
    assert failed_attempts(graph, 3) == (*lines, slow)
    assert failed_attempts(graph, 2) == (*lines, "no plan was stated -> failed: why 3")
    assert failed_attempts(graph, 5) == ()


def test_texts_of_agents_become_plain_lines() -> None:
    assert plain(" a\r\n\tb ", 10) == "a b"
    assert plain("abcdefgh", 6) == "abc..."
    assert plain("x\ud800y", 10) == "x\ufffdy"  # JSON may hold half of a pair; no file may


def test_a_fence_cannot_be_closed_by_what_is_in_it() -> None:
    assert fenced("a\n```\n# Candidates", "python") == "````python\na\n```\n# Candidates\n````"
    assert fenced("a") == "```\na\n```"


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        (made(5, score=None, problem="failed"), ""),
        (made(5, score=0.75), "the best so far"),
        (made(5, score=0.65), "0.05 worse than the best so far"),
        (child(5, 2, 0, score=0.65), "0.05 better than its parent, 0.05 worse than the best so far"),
        (child(5, 2, 0, score=0.75), "0.15 better than its parent, the best so far"),
        (child(5, 1, 1, score=0.7), "as good as its parent"),
        (child(5, 3, 1, score=0.2), "0.5 worse than the best so far"),
    ],
)
def test_what_scores_alone_teach(tmp_path: Path, new: dict[str, Any], wanted: str) -> None:
    graph = two_branches(tmp_path)
    for memory in (NoMemory(), Siblings()):
        assert memory.lesson(NodeContext("not asked"), graph, new) == Lesson(wanted)  # type: ignore[arg-type]


def test_what_scores_teach_where_lower_is_better(tmp_path: Path) -> None:
    assert score_lesson(graph_of(tmp_path / "a"), made(0)) == "the first with a score"
    graph = two_branches(tmp_path / "b", lower=True)
    assert score_lesson(graph, child(5, 2, 0, score=0.5)) == (
        "0.1 better than its parent, 0.1 worse than the best so far"
    )


def test_a_lesson_is_asked_for_and_no_test_score_is_told(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    context: Any = NodeContext('Thinking.\n```json\n{"supported": false, "lesson": "Deeper trees\\noverfit."}\n```')
    new = child(5, 2, 0, score=0.55, code="print(2)\nprint('deep')\n", hypothesis="Deeper trees.")
    assert Kernel().lesson(context, graph, new) == Lesson("Deeper trees overfit.", False)
    (prompt,) = context.prompts
    assert "# The idea\n\nDeeper trees.\n" in prompt
    assert (
        "# The present program\n\nIts score: 0.55 (higher is better).\n\n```python\nprint(2)\nprint('deep')\n```"
        in prompt
    )
    assert "# The parent program\n\nIts score: 0.6 (higher is better). The changes:" in prompt
    assert " print(2)\n+print('deep')\n" in prompt
    assert "# What it printed\n\n```\nepoch 1\nValidation score: 0.55\n```" in prompt
    assert "# The best so far\n\n- experiment 1: idea 1 -> score 0.7\n" in prompt
    assert "7411" not in prompt


def test_where_no_lesson_can_be_read_the_scores_speak(tmp_path: Path) -> None:
    graph = two_branches(tmp_path)
    context: Any = NodeContext(None)
    by_score = Kernel().lesson(context, graph, child(5, 2, 0, score=0.75))
    assert by_score == Lesson("0.15 better than its parent, the best so far")
    assert len(context.prompts) == 1
    nothing = made(5, score=None, problem="unanswered", code=None, execution=None, validation=None, grade=None)
    assert Kernel().lesson(context, graph, nothing) == Lesson() and len(context.prompts) == 1  # no program, no question


def test_a_failure_is_told_with_its_reason_and_without_a_run(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    context: Any = NodeContext('{"supported": false, "lesson": "Keep all rows."}')
    verdict = {"valid": False, "score": None, "reason": "3 rows\nare missing"}
    new = made(0, score=None, problem="invalid", validation=verdict, execution=None)
    assert Kernel().lesson(context, graph, new) == Lesson("Keep all rows.", False)
    (prompt,) = context.prompts
    assert "It failed: invalid. 3 rows are missing\n" in prompt
    assert "# What it printed" not in prompt and "No experiment has a score yet." in prompt


def test_both_outputs_are_told_and_cut_in_the_middle(tmp_path: Path) -> None:
    context: Any = NodeContext('{"supported": true, "lesson": "Fine."}')
    out = {"head": "begun\n" + "o" * 9000, "tail": "", "bytes": 9006}
    err = {"head": "Traceback\n", "tail": "KeyError: 'id'\n", "bytes": 9000}
    run = {"stdout": out, "stderr": err, "duration_s": 1.0}
    Kernel().lesson(context, graph_of(tmp_path), made(0, score=None, problem="failed", execution=run))
    told = context.prompts[0].partition("# What it printed\n\n")[2].partition("# The best so far")[0]
    # 9000 bytes less the 10 and the 15 that are kept
    assert told.startswith("```\nbegun\n") and told.endswith(
        "Traceback\n\n[... 8975 bytes left out ...]\nKeyError: 'id'\n```\n\n"
    )
    assert len(told) < MOST_PRINTED


def test_long_programs_are_not_compared_line_by_line(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, made(0, code="a = 1\n" * (MOST_LINES + 1)))
    context: Any = NodeContext('{"supported": true, "lesson": "Fine."}')
    Kernel().lesson(context, graph, child(1, 0, 0, code="a = 2\n" * 9000))
    assert "The changes" not in context.prompts[0]
    assert "characters left out" in context.prompts[0] and len(context.prompts[0]) < 30_000


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("no JSON", "your answer holds no JSON object that can be read"),
        ('{"lesson": "x"}', '"supported" has to be true or false; it is missing or null'),
        ('{"supported": "partly", "lesson": "x"}', '"supported" has to be true or false, not "partly"'),
        ('{"supported": true, "lesson": ["x"]}', '"lesson" has to be a text, not ["x"]'),
    ],
)
def test_lessons_that_cannot_be_read(answer: str, problem: str) -> None:
    with pytest.raises(ValueError) as error:
        read_lesson(answer)
    assert str(error.value) == problem


# --- likeness and notes -------------------------------------------------------------------------------------------


def test_the_likeness_of_texts() -> None:
    same, other, near = tf_idf_cosines(
        ["gradient boosting trees", "Gradient  boosting trees", "a linear svm", "boosting"]
    )
    assert same == pytest.approx(1.0) and other == 0.0 and 0.0 < near < 1.0
    # "a b" and "a c" have the words a, b, ab and a, c, ac; idf of a is ln(3/3) + 1 = 1, of the rest ln(3/2) + 1 = 1.405465:
    # 1 / (1 + 2 * 1.405465^2) = 1 / 4.950664
    assert tf_idf_cosines(["a b", "a c"]) == pytest.approx([1 / 4.950664], abs=1e-6)
    assert tf_idf_cosines(["", "x y", "..."]) == [0.0, 0.0]
    assert tf_idf_cosines(["?", "!"]) == [0.0]
    assert tf_idf_cosines(["alone"]) == [] and tf_idf_cosines([]) == []


def test_the_cosines_of_vectors() -> None:
    # (3, 4) and (4, 3): 24 / 25; with its opposite -1; with nothing 0
    assert cosines([[3, 4], [4, 3], [-6, -8], [0, 0], [3e200, 4e200]]) == [0.96, -1.0, 0.0, 1.0]
    assert cosines([[0, 0], [1, 1]]) == [0.0]
    assert cosines([[1, 2]]) == []
    for wrong in ([[1, 2], [1]], [[1, 2], [1, float("nan")]], [[1], ["x"]]):
        with pytest.raises(ToolError) as error:
            cosines(wrong)  # type: ignore[arg-type]
        assert str(error.value).startswith("the embeddings are not ")


def test_passages_are_cut_at_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.TXT").write_text("x " * 1000)
    (tmp_path / "a.md").write_text("\ufeffFirst.\r\n\r\nSecond.\n \n" + "w" * 1490 + "\n\nLast.\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text("not,read\n")
    found = read_passages(tmp_path)
    assert found[:3] == ["First.\n\nSecond.", "w" * 1490 + "\n\nLast.", ("x " * 750).strip()]
    assert found[3:] == [("x " * 250).strip()]
    assert read_passages(tmp_path) == found


def test_a_word_that_never_ends_is_cut_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("z" * 3100)
    assert [len(passage) for passage in read_passages(tmp_path)] == [1500, 1500, 100]


def test_knowledge_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as error:
        read_passages(tmp_path / "none")
    assert str(error.value) == f"{tmp_path}/none: no such folder of knowledge"
    (tmp_path / "a.md").write_text(" \n\n")
    with pytest.raises(ToolError) as error:
        read_passages(tmp_path)
    assert str(error.value) == f"{tmp_path}: no knowledge in it: it needs .md or .txt files with text"
    (tmp_path / "a.md").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ToolError) as error:
        read_passages(tmp_path)
    assert str(error.value) == f"{tmp_path}/a.md: not UTF-8"
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").symlink_to(tmp_path / "gone")
    with pytest.raises(ToolError) as error:
        read_passages(tmp_path)
    assert str(error.value) == f"{tmp_path}/a.md: No such file or directory"


def test_the_nearest_passages_come_first_and_strangers_not_at_all() -> None:
    near = {"a": 0.1, "b": 0.0, "c": 0.5, "d": 0.1, "e": -0.2}
    assert best_passages("q", list(near), alike(near)) == ["c", "a", "d"]
    assert best_passages("q", list(near), alike(near), most=1) == ["c"]
    assert best_passages("q", ["b", "e"], alike(near)) == []
    assert best_passages("q", [], never) == []


# --- BM25 and retrieval -------------------------------------------------------------------------------------------


def test_bm25() -> None:
    # N = 2, n = 1: ln(1 + 1.5 / 1.5) = ln 2; 2 of 1.5 words on average: 2 * 2.2 / (2 + 1.2 (0.25 + 0.75 * 2 / 1.5)) = 4.4 / 3.5
    assert bm25("Folds?", ["folds, FOLDS", "trees"]) == [pytest.approx(math.log(2) * 4.4 / 3.5), 0.0]
    # a word of the query counts once, and a word of all texts hardly: ln(1 + 0.5 / 2.5)
    assert bm25("a a", ["a", "a"]) == [pytest.approx(math.log(1.2))] * 2
    # without the length (b = 0) and for a large k1 the number of times counts
    one, two = bm25("x", ["x y y y", "x x z"], k1=1e9, b=0.0)
    assert two == pytest.approx(2 * one)
    assert bm25("", ["a"]) == [0.0] and bm25("a", []) == [] and bm25("a", ["", "."]) == [0.0, 0.0]


def test_retrieval_finds_what_failed_alike(tmp_path: Path) -> None:
    nodes = [
        made(0, "Train gradient boosting.", score=0.9),
        made(1, "Embed the pictures with a network.", score=None, problem="failed", why="CUDA is missing", lesson="[RuntimeError] no GPU here"),
        made(2, "Scale all columns.", score=0.5),
        made(3, "Take logarithms of prices.", score=0.4),
    ]  # fmt: skip
    graph = graph_of(tmp_path, *nodes)
    memory = Retrieval(drawn=0, found=1)
    similar = lambda text, others: [0.0] * len(others)  # noqa: E731
    found = memory.recall(graph, Expansion("improve", (0,)), ["A network on pictures."], similar, random.Random(0))
    assert [node.number for node in found] == [0, 1]  # the best, and the failure that is alike
    again = memory.recall(graph, Expansion("improve", (2,)), [], similar, random.Random(0))  # by its parent's words
    assert [node.number for node in again] == [0]
    by_server = Retrieval(drawn=0, found=1, by="embedding")
    near = lambda text, others: [float("logarithms" in each) for each in others]  # noqa: E731
    found = by_server.recall(graph, Expansion("draft"), ["prices"], near, random.Random(0))
    assert [node.number for node in found] == [0, 3]
    with pytest.raises(ToolError, match="by is bm25 or embedding, not words"):
        Retrieval(by="words")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        ({"problem": "failed", "status": "error", "why": "It failed with exit code 1: KeyError: 'x'"}, "KeyError"),
        ({"problem": "failed", "status": "error", "why": "It failed with exit code 1: torch.OutOfMemoryError: big"}, "OutOfMemoryError"),
        ({"problem": "failed", "status": "error", "why": "It failed."}, "failed"),
        ({"problem": "failed", "status": "timeout"}, "timeout"),
        ({"problem": "failed", "status": "memory"}, "memory"),
        ({"problem": "slow", "status": None}, "timeout"),
        ({"problem": "debug", "status": None, "trials": [{"debug": True, "status": "timeout"}]}, "timeout"),
        ({"problem": "invalid", "status": "ok", "why": "ValueError: a column is missing"}, "invalid"),
        ({"problem": "no_code", "status": None}, "no_code"),
    ],
)  # fmt: skip
def test_the_class_of_an_error(changes: dict[str, Any], kind: str | None) -> None:
    status = changes.pop("status", "ok")
    details = made(1, **changes)
    details["execution"] = None if status is None else {**details["execution"], "status": status}
    assert error_class(details) == kind
    lesson = Retrieval().lesson(NodeContext(None), graph_for_lessons(), {**details, "code": None, "score": None})
    assert lesson.text.startswith(f"[{kind}] ") == (kind is not None)


def graph_for_lessons() -> Any:
    return SimpleNamespace(best=lambda: None)
