"""The exploration paths of a search: which nodes are made next, by rules whose numbers are worked out here by hand.

Every graph is built twice, for a metric of which more is better and, with the signs turned, for one of which less is.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mletools.base.errors import ToolError
from mletools.scaffolds.search.components import load
from mletools.scaffolds.search.data import Expansion, Plan
from mletools.scaffolds.search.graph import Graph
from mletools.scaffolds.search.paths import Adaptive, Chain, Evolution, Greedy, GreedyMerge, Mcts
from mletools.scaffolds.search.schedulers import SCHEDULERS, chances, drawn, pick, puct, rewards

PATHS = ("chain", "greedy", "greedy-merge", "mcts", "evolution", "adaptive")
Row = tuple[str, tuple[int, ...], float | str | None]  # operation, parents, score or problem; None: it failed
Build = Callable[[Sequence[Row]], Graph]
USED = {"prompt_tokens": 1, "completion_tokens": 1, "seconds": 1.0, "usd": 0.0}
WITHOUT, REPAIRS = Plan(0.2, "improvement"), Plan(0.2, "improvement", repairs=True)


def draft(score: float | str | None) -> Row:
    return "draft", (), score


def improve(parent: int, score: float | None) -> Row:
    return "improve", (parent,), score


def debug(parent: int, score: float | None) -> Row:
    return "debug", (parent,), score


def merge(parents: tuple[int, ...], score: float | None) -> Row:
    return "merge", parents, score


def extend(graph: Graph, rows: Sequence[Row]) -> None:
    """Add a node a row, with the details that the loop would fill in."""
    known: list[Any] = [vars(node) for node in graph.nodes]
    first = len(known)
    for operation, parents, score in rows:
        number, parent = len(known), known[parents[0]] if parents else None
        problem = "failed" if score is None else score if isinstance(score, str) else None
        known.append(
            {
                "number": number,
                "parents": parents,
                "operation": operation,
                "branch": number if parent is None else parent["branch"],
                "depth": 0 if parent is None else parent["depth"] + 1,
                "repairs": parent["repairs"] + 1 if parent is not None and operation == "debug" else 0,
                "round": number,
                "hypothesis": f"idea {number}",
                "component": "Model",
                "problem": problem,
                "why": "",
                "score": None if problem else -score if graph.lower else score,
                "lesson": "",
                "execution": None,
                "trials": [],
                "seconds": 1.0,
                "elapsed": float(number + 1),
                "usage": {"research": USED, "develop": USED},
                "asked": [],
            }
        )
    if rows:
        graph.add(known[first:])


@pytest.fixture(params=[False, True], ids=["more-is-better", "less-is-better"])
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Build]:
    made: list[Graph] = []

    def graph_of(rows: Sequence[Row]) -> Graph:
        made.append(Graph(tmp_path / f"{len(made)}.jsonl", request.param))
        extend(made[-1], rows)
        return made[-1]

    yield graph_of
    for graph in made:
        graph.close()


class Told(random.Random):
    """Dice that fall as they are told; one throw too many is an IndexError."""

    throws: list[float]

    def random(self) -> float:
        return self.throws.pop(0)


def told(*throws: float) -> Told:
    rng = Told(0)
    rng.throws = list(throws)
    return rng


def one(paths: Any, graph: Graph, plan: Plan = WITHOUT, rng: random.Random | None = None) -> tuple[Any, ...]:
    """The operation and the parents of a round of one node."""
    (found,) = paths.select(graph, plan, rng or told())
    return found.operation, *found.parents


def several(paths: Any, graph: Graph, plan: Plan = WITHOUT) -> list[tuple[Any, ...]]:
    return [(each.operation, *each.parents) for each in paths.select(graph, plan, random.Random(0))]


# --- chain --------------------------------------------------------------------------------------------------------


def test_chain_goes_on_from_the_newest_that_works(build: Build) -> None:
    assert one(Chain(), build([])) == ("draft",)
    worse = build([draft(0.9), improve(0, 0.5)])
    assert one(Chain(), worse) == ("improve", 1)  # not from the best
    failed = build([draft(0.9), improve(0, 0.5), improve(1, None)])
    assert one(Chain(), failed) == ("improve", 1)
    assert one(Chain(), failed, REPAIRS) == ("debug", 2)


def test_chain_repairs_three_times(build: Build) -> None:
    rows = [draft(0.9), improve(0, None), debug(1, None), debug(2, None)]
    assert one(Chain(), build(rows), REPAIRS) == ("debug", 3)
    assert one(Chain(), build([*rows, debug(3, None)]), REPAIRS) == ("improve", 0)
    assert one(Chain(debug_depth=2), build(rows), REPAIRS) == ("improve", 0)
    assert one(Chain(), build([draft(None)])) == ("draft",)  # none works, none may be repaired


@pytest.mark.parametrize(
    "problem, step", [("debug", "debug"), ("no_score", "debug"), ("unanswered", "draft"), ("no_code", "draft")]
)
def test_what_has_no_program_is_not_repaired(build: Build, problem: str, step: str) -> None:
    graph = build([draft(problem)])
    for paths in Chain(), Greedy(1, 1.0), Mcts(drafts=1), Evolution(1, 0.5, 1.0), Adaptive(branches=1):
        assert one(paths, graph, REPAIRS, random.Random(0))[0] == step


# --- greedy -------------------------------------------------------------------------------------------------------


def test_greedy_drafts_five_whatever_comes_of_them(build: Build) -> None:
    rows = [draft(0.5), draft(None), draft(0.7), draft(None)]
    assert one(Greedy(), build(rows), REPAIRS) == ("draft",)
    assert one(Greedy(), build([*rows, draft(0.6)])) == ("improve", 2)  # no rng are thrown where none may be repaired
    assert one(Greedy(drafts=4), build(rows)) == ("improve", 2)


def test_greedy_repairs_by_chance(build: Build) -> None:
    graph = build([draft(0.5), draft(None), draft(None), debug(2, 0.8), draft(0.6), draft(0.1), improve(3, 0.7)])
    # of the failed ones only 1 is a leaf
    assert one(Greedy(), graph, REPAIRS, told(0.5)) == ("improve", 3)  # 0.5 is not below 0.5
    assert one(Greedy(debug_probability=1.0), graph, REPAIRS, random.Random(0)) == ("debug", 1)
    many = build([draft(None), draft(0.3), draft(None), draft(None), debug(3, None), debug(4, None), debug(5, None)])
    once = Greedy(drafts=1)  # node 6 was repaired three times in a row: only 0 and 2 are left
    seen = Counter(one(once, many, REPAIRS, random.Random(seed)) for seed in range(200))
    assert set(seen) == {("debug", 0), ("debug", 2), ("improve", 1)}
    assert 70 < seen["improve", 1] < 130 and min(seen.values()) > 25  # 100, 50 and 50 of 200 on average


def test_greedy_drafts_again_where_none_works(build: Build) -> None:
    graph = build([draft(None)] * 5)
    assert one(Greedy(), graph) == ("draft",)
    assert one(Greedy(), graph, REPAIRS, told(0.7)) == ("draft",)


def test_merge_every_five_nodes(build: Build) -> None:
    rows = [draft(0.5), draft(0.6), draft(None), draft(0.3), draft(0.2)]
    rows += [improve(1, 0.7), improve(5, 0.65), improve(0, 0.55), improve(5, None)]
    assert one(GreedyMerge(), build(rows)) == ("improve", 5)  # four since the drafts
    rows += [improve(5, 0.4)]
    # the best: branch 1 with 0.7 (node 5), branch 0 with 0.55 (node 7)
    assert one(GreedyMerge(), build(rows)) == ("merge", 5, 7)
    assert one(Greedy(), build(rows)) == ("improve", 5)
    rows += [merge((5, 7), None), improve(5, 0.1), improve(5, 0.1), improve(5, 0.1), improve(5, 0.1)]
    assert one(GreedyMerge(), build(rows)) == ("improve", 5)  # four since the merge
    assert one(GreedyMerge(merge_every=4), build(rows)) == ("merge", 5, 7)


def test_merge_waits_for_a_second_branch(build: Build) -> None:
    rows = [draft(None), draft(0.5), improve(1, 0.6), improve(1, 0.6)]
    paths = GreedyMerge(drafts=2, merge_every=2)
    assert one(paths, build(rows)) == ("improve", 2)
    assert one(paths, build([*rows, draft(0.1)])) == ("merge", 2, 4)


# --- Monte Carlo tree search --------------------------------------------------------------------------------------


def test_reward_is_the_rank(build: Build) -> None:
    graph = build([draft(0.3), draft(None), draft(0.9), draft(0.1), draft(0.3)])
    # ranks 2.5, -, 4, 1, 2.5 of four
    assert rewards(graph, graph.nodes) == {0: 0.625, 2: 1.0, 3: 0.25, 4: 0.625}


def test_puct() -> None:
    # 0.75 + 1 * 1/3 * sqrt(3) / (1 + 2) = 0.75 + 0.5773503 / 3
    assert puct(0.75, 1 / 3, 3, 2) == pytest.approx(0.9424501)
    assert puct(0.5, 0.25, 16, 3, c=2.0) == 0.5 + 2 * 0.25 * 4 / 4


def test_mcts_goes_down_by_puct(build: Build) -> None:
    assert one(Mcts(), build([])) == ("draft",)
    graph = build([draft(0.5), improve(0, 0.7), draft(None)])
    # rewards 1/2, 1, 0. Root: N = 3, options 0, 2 and a new one, P = 1/3.
    #   U(0) = 0.75 + 0.5774 / 3 = 0.942; U(2) = 0.5774 / 2 = 0.289; U(new) = 0.577
    # Node 0: N = 2, P = 1/2. U(1) = 1 + 0.7071 / 2 = 1.354; U(new) = 0.707. Node 1: only a new child.
    assert one(Mcts(), graph, REPAIRS) == ("improve", 1)


def test_mcts_widens_where_deepening_does_not_pay(build: Build) -> None:
    graph = build([draft(0.9), improve(0, 0.5), improve(1, 0.4), improve(2, 0.3)])
    # rewards 1, 3/4, 1/2, 1/4. Root: N = 4, P = 1/2. U(0) = 0.625 + 0.5 * 2 / 5 = 0.825; U(new) = 0.5 * 2 = 1
    assert one(Mcts(), graph) == ("draft",)
    # c = 1/2. Root: U(0) = 0.725, U(new) = 0.5. 0: N = 4, Q(1) = 0.5: 0.5 + 0.5 / 4 = 0.625, new 0.5.
    # 1: N = 3, Q(2) = 0.375: 0.375 + 0.4330 / 3 = 0.519, new 0.433. 2: N = 2: 0.25 + 0.3536 / 2 = 0.427, new 0.354.
    assert one(Mcts(c=0.5), graph) == ("improve", 3)
    # With one draft only: 0: U(1) = 0.5 + 0.5 * 2 / 4 = 0.75, U(new) = 1
    assert one(Mcts(drafts=1), graph) == ("improve", 0)


def test_mcts_leaves_dead_ends(build: Build) -> None:
    failed = build([draft(None)] * 3)
    assert one(Mcts(), failed) == ("draft",)  # a fourth: the three lead to nothing
    assert one(Mcts(), failed, REPAIRS) == ("debug", 0)  # of equals the first
    # 0 has had its one child, which failed: nothing below it
    assert one(Mcts(drafts=1, children=1), build([draft(0.5), improve(0, None)])) == ("draft",)
    assert one(Mcts(drafts=1, children=1), build([draft(0.5), improve(0, None)]), REPAIRS) == ("debug", 1)
    tired = [draft(None), debug(0, None), debug(1, None)]
    assert one(Mcts(drafts=1), build(tired), REPAIRS) == ("debug", 2)
    assert one(Mcts(drafts=1), build([*tired, debug(2, None)]), REPAIRS) == ("draft",)
    # a repair that works is improved; the failed node above it gets no second child
    assert one(Mcts(drafts=1), build([draft(None), debug(0, 0.2)]), REPAIRS) == ("improve", 1)


def test_mcts_full_node(build: Build) -> None:
    graph = build([draft(0.9), improve(0, 0.5), improve(0, 0.6), improve(0, 0.7)])
    # rewards 1, 1/4, 1/2, 3/4. Root: only 0. 0: N = 4, c = 8. With a fourth child allowed P = 1/4:
    #   U(3) = 0.75 + 8 * 1/4 * 2 / 2 = 2.75; U(new) = 8 * 1/4 * 2 = 4
    assert one(Mcts(drafts=1, c=8.0, children=4), graph) == ("improve", 0)
    # without it P = 1/3: U(1) = 0.25 + 2.667, U(2) = 0.5 + 2.667, U(3) = 0.75 + 2.667
    assert one(Mcts(drafts=1, c=8.0), graph) == ("improve", 3)


# --- evolution ----------------------------------------------------------------------------------------------------


def test_parents_are_drawn_by_their_rank(build: Build) -> None:
    graph = build([draft(0.2), draft(0.9), draft(0.4), draft(0.8), draft(0.6), improve(1, 0.3)])
    # The five best, worst first: 5 (0.3), 2, 4, 3, 1 with weights 1 to 5 of 15: up to 0.067, 0.2, 0.4, 0.667, 1.
    # 0.5 draws 3. Of 5, 2, 4, 1 (1, 2, 3, 5 of 11: up to 0.091, 0.273, 0.545, 1) 0.99 draws 1 and 0.3 draws 4.
    assert one(Evolution(), graph, WITHOUT, told(0.4, 0.5, 0.99)) == ("crossover", 3, 1)
    assert one(Evolution(), graph, WITHOUT, told(0.4, 0.5, 0.3)) == ("crossover", 3, 4)
    assert one(Evolution(), graph, WITHOUT, told(0.5, 0.5)) == ("improve", 3)
    assert one(Evolution(), graph, WITHOUT, told(0.5, 0.0)) == ("improve", 5)  # 0 is no longer of the population


def test_evolution_without_two_parents(build: Build) -> None:
    paths = Evolution(population=2)
    assert one(paths, build([draft(None)])) == ("draft",)
    assert one(paths, build([draft(None), draft(0.1)]), WITHOUT, told(0.0)) == ("improve", 1)
    assert one(paths, build([draft(None), draft(None)])) == ("draft",)
    # 0.6: no repair; one parent only, so the next throw draws it
    assert one(paths, build([draft(None), draft(0.1)]), REPAIRS, told(0.6, 0.0)) == ("improve", 1)
    assert one(Evolution(2, debug_probability=1.0), build([draft(None)] * 2), REPAIRS, random.Random(0))[0] == "debug"


# --- schedulers ---------------------------------------------------------------------------------------------------

THREE = [draft(0.7), draft(0.5), draft(None), improve(0, 0.9)]  # branch 0: 0.9 and two nodes; 1: 0.5; 2: none works


def test_schedulers_that_throw_no_dice(build: Build) -> None:
    graph = build(THREE)
    assert pick(graph, [2, 0, 1], 3, told(), "round-robin") == [1, 2, 0]
    assert pick(graph, [2, 0, 1], 2, told(), "best") == [0, 1]
    assert pick(graph, [2, 1], 3, told(), "best") == [1, 2]
    # rewards 2/3, 1/3, 0, 1; N = 4, P = 1/3.
    # U(0) = 5/6 + 2/3 / 3 = 1.056; U(1) = 1/3 + 2/3 / 2 = 0.667; U(2) = 2/3 / 2 = 0.333
    assert pick(graph, [0, 1, 2], 3, told(), "mcts") == [0, 1, 2]
    # one score of six nodes: U(0) = 1/5 + 0.5 * 2.449 / 6 = 0.404; U(1) = 0.5 * 2.449 / 2 = 0.612
    stuck = build([draft(0.5), draft(None), *[improve(0, None)] * 4])
    assert pick(stuck, [0, 1], 2, told(), "mcts") == [1, 0]
    # as many nodes: Q decides, 1/2 and 1
    assert pick(build([draft(0.1), draft(0.9)]), [0, 1], 2, told(), "mcts") == [1, 0]
    assert pick(graph, [0, 1], 0, told(), "best") == []


def test_schedulers_by_chance(build: Build) -> None:
    graph = build(THREE)
    # u = 1 - 0.1 * 2/4 = 0.95; 1/2 - 0.1 * 1/4 = 0.475; 0 - 0.025
    # exp: 2.58571, 1.60801, 0.97531; their sum 5.16903
    assert chances(graph, graph.branches()) == pytest.approx({0: 0.500231, 1: 0.311086, 2: 0.188683}, abs=2e-6)
    # 0.6 lies between 0.5002 and 0.8113: 1; of the others 0 has 0.7261, so 0.8 is 2
    assert pick(graph, [0, 1, 2], 2, told(0.6, 0.8, 0.0), "probabilistic") == [1, 2]
    # weights 1/3, 1/2, 1/2: up to 0.25, 0.625, 1
    assert [pick(graph, [0, 1, 2], 1, told(at, 0, 0), "length") for at in (0.2, 0.3, 0.7)] == [[0], [1], [2]]
    firsts = Counter(pick(graph, [0, 1, 2], 2, random.Random(seed), "random")[0] for seed in range(300))
    assert set(firsts) == {0, 1, 2} and min(firsts.values()) > 60  # 100 each on average


def test_drawn_are_different() -> None:
    rng = random.Random(1)
    assert all(len(set(drawn({3: 1.0, 5: 2.0, 8: 0.1}, 2, rng))) == 2 for _ in range(100))
    assert sorted(drawn({3: 1.0, 5: 2.0}, 9, rng)) == [3, 5]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_orders_the_branches_it_is_given(build: Build, name: str) -> None:
    graph = build(THREE)
    assert sorted(pick(graph, [2, 0], 5, random.Random(3), name)) == [0, 2]


def test_unknown_scheduler() -> None:
    with pytest.raises(ToolError) as refused:
        load("paths", "adaptive", {"scheduler": "fifo"})
    assert str(refused.value) == ("scheduler fifo: known are round-robin, probabilistic, length, best, random, mcts")
    with pytest.raises(ToolError, match=r"^at_once 0: at least 1$"):
        Adaptive(at_once=0)


# --- adaptive -----------------------------------------------------------------------------------------------------

BEST = Adaptive(scheduler="best")


def test_adaptive_begins_broad_and_is_greedy_within_branches(build: Build) -> None:
    assert several(Adaptive(branches=4), build([])) == [("draft",)] * 4
    rows = [draft(0.5), draft(0.6), draft(0.7), improve(0, 0.4), improve(1, 0.8), improve(2, None)]
    assert several(BEST, build(rows)) == [("improve", 4), ("improve", 2), ("improve", 0)]
    assert several(BEST, build(rows), REPAIRS) == [("improve", 4), ("debug", 5), ("improve", 0)]
    assert several(Adaptive(scheduler="best", at_once=1), build(rows)) == [("improve", 4)]
    tired = [*rows, debug(5, None), debug(6, None), debug(7, None)]
    assert ("improve", 2) in several(BEST, build(tired), REPAIRS)


def test_adaptive_replaces_a_branch_that_never_worked(build: Build) -> None:
    rows = [draft(0.5), draft(None), draft(0.7)]
    assert several(BEST, build(rows)) == [("draft",), ("improve", 2), ("improve", 0)]
    assert several(Adaptive(scheduler="best", at_once=2), build(rows)) == [("draft",), ("improve", 2)]
    assert several(BEST, build(rows), REPAIRS) == [("improve", 2), ("improve", 0), ("debug", 1)]
    assert several(BEST, build([draft(None)] * 3)) == [("draft",)] * 3
    late = Plan(0.6, "improvement")
    assert several(BEST, build(rows), late) == [("improve", 2), ("improve", 0)]
    assert several(BEST, build([draft(None)] * 3), late) == [("draft",)]  # none is live


def test_adaptive_gives_up_after_five_failures(build: Build) -> None:
    rows = [draft(0.5), draft(0.9), draft(0.7), *[improve(1, None)] * 4]
    assert several(BEST, build(rows)) == [("improve", 1), ("improve", 2), ("improve", 0)]
    assert several(BEST, build([*rows, improve(1, None)])) == [("improve", 2), ("improve", 0)]
    assert ("improve", 1) in several(BEST, build([*rows, improve(1, 0.1)]))
    alone = Adaptive(branches=1, scheduler="best")
    assert several(alone, build([draft(0.5), *[improve(0, None)] * 5])) == [("draft",)]


@pytest.mark.parametrize("share, left", [(0.5, 5), (0.51, 4), (0.66, 4), (0.67, 3), (0.83, 3), (0.84, 2), (1.0, 2)])
def test_adaptive_prunes_the_worst(build: Build, share: float, left: int) -> None:
    # W = 5 - 2 = 3 steps of (1 - 0.5) / 3: at 0.5, 0.667 and 0.833
    graph = build([draft(0.5), draft(0.9), draft(0.7), draft(None), draft(0.6)])
    paths = Adaptive(branches=5, at_once=5, scheduler="best")
    expected = [("improve", 1), ("improve", 2), ("improve", 4), ("improve", 0), ("debug", 3)]
    assert several(paths, graph, Plan(share, "improvement", repairs=True)) == expected[:left]


def test_adaptive_keeps_two(build: Build) -> None:
    rows = [draft(0.5), draft(0.9), draft(0.7)]
    assert several(BEST, build(rows), Plan(0.9, "ensemble")) == [("improve", 1), ("improve", 2)]
    # the best is dead: the pruned one takes its place
    rows += [improve(1, None)] * 5
    assert several(BEST, build(rows), Plan(0.9, "ensemble")) == [("improve", 2), ("improve", 0)]


def test_adaptive_merges_at_the_end(build: Build) -> None:
    last, repairs = Plan(0.95, "merge"), Plan(0.95, "merge", repairs=True)
    rows = [draft(0.5), draft(0.9), draft(0.7), draft(0.6), improve(0, 0.8), improve(2, None)]
    assert several(BEST, build(rows), repairs) == [("merge", 1, 4, 2)]  # not the repair of 5, which is no merge
    assert several(Adaptive(merge_width=2), build(rows), last) == [("merge", 1, 4)]
    rows += [merge((1, 4, 2), None)]
    assert several(BEST, build(rows), last) == [("merge", 1, 4, 2)]
    assert several(BEST, build(rows), repairs) == [("debug", 6)]
    rows += [debug(6, None), debug(7, None)]
    assert several(BEST, build(rows), repairs) == [("debug", 8)]
    rows += [debug(8, 0.95)]
    assert several(BEST, build(rows), repairs) == [("merge", 9, 4, 2)]  # 9 is of branch 1, and its best now
    equal = build([draft(0.5), draft(0.8), improve(0, 0.8)])
    assert several(BEST, equal, last) == [("merge", 1, 2)]  # the older node first
    lonely = build([draft(0.5), draft(None), improve(0, 0.6)])
    assert several(BEST, lonely, last) == [("improve", 2)]


# --- all of them --------------------------------------------------------------------------------------------------


def grown(build: Build, size: int) -> Graph:
    """A graph of random steps, a third of which fail."""
    rng = random.Random(size)
    rows: list[Row] = []
    for number in range(size):
        score = None if rng.random() < 1 / 3 else round(rng.random(), 2)
        parent = rng.randrange(number) if number else 0
        if number < 3 or rng.random() < 0.05:
            rows.append(draft(score))
        else:
            rows.append(debug(parent, score) if rows[parent][2] is None else improve(parent, score))
    return build(rows)


@pytest.mark.parametrize("stage", ["draft", "improvement", "merge"])
@pytest.mark.parametrize("name", PATHS)
def test_same_graph_and_seed_same_answer(build: Build, tmp_path: Path, name: str, stage: str) -> None:
    graph = grown(build, 60)
    plan, paths = Plan(0.6, stage, repairs=True), load("paths", name, {})
    answers = [paths.select(graph, plan, random.Random(seed)) for seed in range(10)]
    again = Graph(tmp_path / "0.jsonl", graph.lower, read_only=True)
    assert len(again) == 60
    assert [paths.select(again, plan, random.Random(seed)) for seed in range(10)] == answers
    again.close()


@pytest.mark.parametrize("repairs", [False, True])
@pytest.mark.parametrize("name", PATHS)
def test_a_whole_search_makes_sense(build: Build, name: str, repairs: bool) -> None:
    graph, paths, rng = build([]), load("paths", name, {}), random.Random(11)
    made: Counter[str] = Counter()
    for turn in range(60):
        stage = "draft" if turn < 6 else "improvement" if turn < 50 else "merge"
        found = paths.select(graph, Plan(turn / 60, stage, repairs=repairs), rng)
        assert found, "the search would be over"
        for each in found:
            check_sound(graph, each, repairs)
            made[each.operation] += 1
        extend(graph, [(each.operation, each.parents, rng.choice([None, round(rng.random(), 2)])) for each in found])
    special = {"greedy-merge": {"merge"}, "evolution": {"crossover"}, "adaptive": {"merge"}}.get(name, set())
    assert set(made) == {"draft", "improve"} | special | ({"debug"} if repairs else set())


def check_sound(graph: Graph, found: Expansion, repairs: bool) -> None:
    scores = [graph[number].score for number in found.parents]
    if found.operation == "debug":
        assert repairs and scores == [None]
        assert graph[found.parents[0]].repairs < 3 and not graph.children(found.parents[0])
    else:
        assert None not in scores and len(set(found.parents)) == len(found.parents)
        low, high = {"draft": (0, 0), "improve": (1, 1), "crossover": (2, 2), "merge": (2, 3)}[found.operation]
        assert low <= len(found.parents) <= high


def work(select: Callable[[], Any]) -> int:
    """Byte code instructions of the package that a call carries out."""
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if "mletools" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        select()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("stage", ["improvement", "merge"])
@pytest.mark.parametrize("name", PATHS)
def test_work_grows_with_the_graph_and_no_faster(build: Build, name: str, stage: str) -> None:
    plan, paths = Plan(0.4, stage, repairs=True), load("paths", name, {})
    small, large = grown(build, 250), grown(build, 500)
    few, many = (work(lambda: paths.select(graph, plan, random.Random(0))) for graph in (small, large))  # noqa: B023
    assert 0 < many < 2.6 * few + 500
