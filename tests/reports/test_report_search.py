"""What mle-report says of searches: loops, gains, first medals, costs and standing over time; numbers worked by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from report_builders import a_set, rollout, rows
from search_records import node, search, verdict
from shown_rollouts import grade

from mletools.reports.search import (
    SHARES,
    Search,
    cost,
    first_medal_s,
    improve_rate,
    over_time,
    searched,
    shares_used,
)
from mletools.reports.turns import Verdict, turns


def scored(*scores: float | None, lower: bool = False) -> dict[str, Any]:
    return search("x", *[node(at, (), score, at) for at, score in enumerate(scores)], lower=lower)


def usd(value: float | None) -> dict[str, Any]:
    return {"prompt_tokens": 1, "completion_tokens": 1, "seconds": 1.0, "usd": value}


def gains(record: dict[str, Any]) -> float | None:
    return improve_rate(turns(record))


def statistics(record: dict[str, Any]) -> Search | None:
    return searched(record, turns(record))


# --- one search -----------------------------------------------------------------------------------------------------


def test_gains_are_over_all_nodes_before_in_either_direction() -> None:
    record = scored(None, 0.5, 0.4, 0.6, None, 0.6, 0.7)
    assert [turn.improved for turn in turns(record)] == [False, True, False, True, False, False, True]
    assert gains(record) == 2 / 5  # of the five nodes after the first score; a tie is none
    assert gains(scored(None, 0.5, 0.4, 0.6, None, 0.6, 0.7, lower=True)) == 1 / 5
    assert gains(scored(0.5)) is None and gains(scored(None, None)) is None and gains(scored()) is None
    assert gains(scored(None, None, 0.5, None)) == 0.0
    assert gains(scored(0.0, -1.0, lower=True)) == 1.0  # 0 is a score


def test_the_first_medal_is_a_nodes_whatever_was_chosen() -> None:
    graded = [verdict(1.9), None, verdict(1.4, "bronze"), verdict(0.9, "gold")]
    nodes = [node(at, (), 2.0 - at, 10.0 * (at + 1), grade=grade) for at, grade in enumerate(graded)]
    assert first_medal_s(search("x", *nodes, chosen=0)) == 30.0
    assert first_medal_s(search("x", *nodes[:2])) is None


def test_what_the_phases_used() -> None:
    record = search("x", cost={"research": {"seconds": 3.0, "usd": None}, "develop": usd(0.5)})
    none = {"prompt_tokens": None, "completion_tokens": None}
    assert cost(record) == {"research": {"seconds": 3.0, "usd": None, **none}, "develop": usd(0.5)}


def test_the_share_used_is_that_of_the_scarcest_budget() -> None:
    def used(budget: dict[str, Any], *paid: float | None) -> list[float]:
        nodes = [
            node(at, (), 1.0, when, usage=usd(each))
            for at, (when, each) in enumerate(zip((10, 40, 60), paid, strict=True))
        ]
        return shares_used(search("x", *nodes, budget=budget))

    none = {"seconds": None, "nodes": None, "usd": None}
    assert used({**none, "seconds": 100.0}, 1, 1, 1) == pytest.approx([0.1, 0.4, 0.6])
    assert used({**none, "seconds": 100.0, "nodes": 4}, 1, 1, 1) == pytest.approx([0.25, 0.5, 0.75])
    assert used({**none, "nodes": 10, "usd": 4.0}, 1, 2, 1) == pytest.approx([0.25, 0.75, 1.0])
    assert used({**none, "nodes": 10, "usd": 4.0}, 1, None, 1) == pytest.approx([0.1, 0.2, 0.3])  # nobody knows the USD
    assert used(none, 1, 1, 1) == pytest.approx([1 / 6, 4 / 6, 1.0])


def test_a_round_is_done_when_its_last_node_is() -> None:
    nodes = [node(0, (), 1.0, 30, round=0), node(1, (), 1.0, 30, round=0), node(2, (0,), 1.0, 50, round=1)]
    assert shares_used(search("x", *nodes, budget={"nodes": 4})) == [0.5, 0.5, 0.75]


@pytest.mark.parametrize("lower", [False, True])
def test_standing_over_time_by_hand(lower: bool) -> None:
    """Scores that go by validation and tests that disagree with them; the chosen node is not the best by score."""
    sign = -1 if lower else 1
    nodes = [
        node(0, (), None, 15, grade=verdict(None)),
        node(1, (), sign * 0.5, 30, grade=verdict(sign * 0.7, "bronze", 70.0)),
        node(2, (), sign * 0.8, 45, grade=verdict(sign * 0.6, None, 60.0)),
        node(3, (), sign * 0.7, 62, grade=verdict(sign * 0.9, "gold", 90.0)),
        node(4, (), sign * 0.9, 85, grade=verdict(None)),
    ]
    found = over_time(search("x", *nodes, lower=lower, chosen=3))
    bronze, none, gold, unfit = (
        Verdict(True, True, 70.0),
        Verdict(True, False, 60.0),
        Verdict(True, True, 90.0),
        Verdict(False, False, None),
    )
    assert [standing.share for standing in found] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0] == list(SHARES)
    # nodes are done at 0.15, 0.3, 0.45, 0.62, 0.85; then the search is over, and has chosen node 3
    assert [standing.handed_in for standing in found] == [
        None,
        None,
        bronze,
        bronze,
        none,
        none,
        none,
        none,
        gold,
        gold,
    ]
    assert [standing.perfect for standing in found] == [None, None, *[bronze] * 4, *[gold] * 4]
    early = over_time(search("x", *nodes, lower=lower, chosen=4, budget={"seconds": 84.0}), [0.99, 1.0])
    assert [standing.handed_in for standing in early] == [none, unfit]  # at 1 all is done, though it took longer
    nothing = over_time(search("x", *nodes, lower=lower, chosen=None), [1.0])[0]
    assert nothing.handed_in is None and nothing.perfect == gold


def test_at_the_end_stands_what_was_handed_in() -> None:
    """An ensemble, or the program run again on all rows: its verdict is not the chosen node's."""
    nodes = [node(0, (), 0.5, 10.0, grade=verdict(0.5)), node(1, (0,), 0.4, 50.0, grade=verdict(0.4, "bronze", 40.0))]
    made = search("x", *nodes, chosen=1, grade={**grade(0.2, "gold"), "normalised_score": 90.0})
    made["search"]["ensemble"] = [1, 0]
    found = over_time(made, [0.4, 0.5, 1.0])
    node_1, gold = Verdict(True, True, 40.0), Verdict(True, True, 90.0)
    assert [standing.handed_in for standing in found] == [Verdict(True), gold, gold]  # after 0.5 the search is over
    assert [standing.perfect for standing in found] == [Verdict(True), node_1, node_1]


def test_searches_without_nodes_and_other_rollouts() -> None:
    assert [standing.handed_in for standing in over_time(search("x"))] == [None] * 10
    assert (
        statistics(rollout("a", 0, 0.5)) is None and statistics({**rollout("a", 0, 0.5), "scaffold": "search"}) is None
    )
    cut = scored(0.5, 0.6)
    assert statistics({**cut, "turns": [*cut["turns"], {"action": "draft", "duration_s": 1.0}]}) is None
    found = statistics(cut)
    assert found and (found.loops, found.improve_rate, found.first_medal_s) == (2, 1.0, None)


# --- sets -----------------------------------------------------------------------------------------------------------

BOARD = {"human_rank": 0.5, "human_rank_rule": "mle-rl", "normalised_score": 50.0, "teams": 10}


def run(task: str, sample: int, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A graded rollout that is a search of these nodes."""
    found = search("x", *nodes, lower=False, **{name: more.pop(name) for name in ("chosen", "cost") if name in more})
    made = {**rollout(task, sample, 0.5, **more), "scaffold": "search", "turns": list(nodes), "search": found["search"]}
    chosen = found["search"]["chosen"]
    told = {} if chosen is None else nodes[chosen]["grade"] or {}  # what is handed in is the chosen node's submission
    verdict = {name: value for name, value in told.items() if name in ("medal", "normalised_score")}
    return {**made, "grade": {**made["grade"], **verdict}}


def searches() -> list[dict[str, Any]]:
    """Task a, with a leaderboard: a search of 4 nodes and one of 2. Task b, without: one of 10 nodes; one is missing."""
    bronze, gold = verdict(0.6, "bronze", 60.0), verdict(0.9, "gold", 90.0)
    spent = {"research": usd(2.0), "develop": {**usd(3.0), "seconds": 5.0}}
    cheap = {"research": usd(1.0), "develop": {**usd(None), "seconds": 9.0}}
    first = [
        node(0, (), 0.1, 10, grade=verdict(0.2, None, 20.0)),
        node(1, (), 0.2, 20, grade=bronze),
        node(2, (), 0.1, 30, grade=gold),
        node(3, (), 0.2, 40),
    ]
    second = [node(0, (), 0.3, 30, grade=verdict(0.3, None, 30.0)), node(1, (), 0.4, 50, grade=bronze)]
    other = [node(at, (), 0.1, 5 * (at + 1)) for at in range(10)]
    records = [
        run("a", 0, *first, chosen=1, cost=spent, **BOARD),
        run("a", 1, *second, chosen=1, cost=cheap, **BOARD),
        run("b", 0, *other, chosen=0, cost=cheap),
    ]
    records[0]["search"]["fallbacks"] = {"search-idea": 2, "search-choose": 1}
    return records


def test_means_are_over_repeats_and_then_over_tasks() -> None:
    found = rows([a_set("x", *searches())])
    a, b, every = (found[task, "x"]["search"] for task in ("a", "b", "all"))
    assert (a["searches"], b["searches"], every["searches"]) == (2, 1, 3)
    assert (a["loops_mean"], b["loops_mean"], every["loops_mean"]) == (3.0, 10.0, 6.5)
    assert a["loops_sem"] == pytest.approx(1.0)  # 4 and 2: sd sqrt 2, n 2
    assert every["loops_sem"] == pytest.approx(2.5)  # the repeats' means over tasks: 7 and 2 (b's second is missing)
    assert (a["improve_rate_mean"], b["improve_rate_mean"]) == (pytest.approx((1 / 3 + 1) / 2), 0.0)
    assert every["improve_rate_mean"] == pytest.approx(1 / 3)
    assert a["improve_rate_ci"][0] == 0.0 and a["improve_rate_ci"][1] == 1.0  # cut off where the scale ends
    assert (a["first_medal_s_mean"], a["medalled"]) == (35.0, 2) and (b["first_medal_s_mean"], b["medalled"]) == (
        None,
        0,
    )
    assert (every["first_medal_s_mean"], every["medalled"]) == (35.0, 2)
    assert a["cost"]["research"] == {"seconds": 1.0, "prompt_tokens": 1.0, "completion_tokens": 1.0, "usd": 1.5}
    assert a["cost"]["develop"]["usd"] == 3.0 and a["cost"]["develop"]["seconds"] == 7.0  # USD: of the one that tells
    assert every["cost"]["develop"]["seconds"] == 8.0 and b["cost"]["develop"]["usd"] is None


def test_a_set_over_time_by_hand() -> None:
    found = rows([a_set("x", *searches())])
    a, b, every = (found[task, "x"]["search"]["over_time"] for task in ("a", "b", "all"))

    def curve(points: list[dict[str, Any]], name: str) -> list[Any]:
        return [points[at][name] for at in (0, 1, 2, 3, 4, 9)]  # at 10, 20, 30, 40, 50 and 100 %

    assert curve(a, "share") == [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]
    assert curve(a, "normalised") == [10.0, 30.0, 45.0, 45.0, 60.0, 60.0]
    assert curve(a, "perfect_normalised") == [10.0, 30.0, 60.0, 60.0, 75.0, 75.0]
    assert curve(a, "medal") == [0.0, 0.5, 0.5, 0.5, 1.0, 1.0] == curve(a, "perfect_medal")
    assert curve(b, "medal") == [0.0] * 6 and curve(b, "normalised") == [None] * 6
    assert curve(every, "medal") == [0.0, 0.25, 0.25, 0.25, 0.5, 0.5]
    assert curve(every, "normalised") == curve(a, "normalised")


def test_missing_searches_hand_nothing_in_unless_ignored_or_mixed() -> None:
    first, _, other = searches()
    two = [first, other, run("b", 1, node(0, (), 0.1, 10, grade=verdict(0.9, "gold")), chosen=0)]

    def last(*runs: dict[str, Any], **options: Any) -> float:
        value: float = rows([a_set("x", *runs)], **options)["a", "x"]["search"]["over_time"][9]["medal"]
        return value

    assert last(*two) == 0.5 and last(*two, missing="ignore") == 1.0
    assert last(*two, rollout("b", 2, 0.5)) == 1.0  # mixed: nobody knows whether what is missing is a search
    everything = rows([a_set("x", *two), a_set("y", first, rollout("c", 0, 0.5))])
    assert everything["all", "x"]["search"]["over_time"][9]["medal"] == pytest.approx(
        (0.5 + 0.5 + 0) / 3
    )  # c is missing
    assert "search" not in everything["c", "y"] and "search" not in everything["c", "x"]
    assert everything["all", "y"]["search"]["searches"] == 1


def test_what_a_search_ran_is_in_its_usage() -> None:
    one = {**searches()[0], "usage": {**usd(1.0), "seconds": 40.0}, "settings": {}}
    one["execution"] = one["turns"][1]["execution"]
    assert rows([a_set("x", one)])["a", "x"]["seconds"] == 40.0


def test_sets_without_searches_say_nothing_of_them() -> None:
    assert all("search" not in row for row in rows([a_set("x", rollout("a", 0, 0.5))]).values())


# --- the command ----------------------------------------------------------------------------------------------------


def write(path: Path, *rollouts: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts))


def test_the_table_of_searches(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", *searches())
    write(tmp_path / "y.jsonl", rollout("a", 0, 0.5))
    told = run_command("mle-report", "x.jsonl", "y.jsonl", cwd=tmp_path).stdout.decode()
    table = next(part for part in told.split("\n\n") if "first medal s" in part).split("\n")
    assert table[0].split()[:5] == ["task", "set", "searches", "loops", "±"]
    assert [line.split() for line in table[2:]] == [
        ["a", "x", "2", "3.0", "1.0", "66.7%", "33.3%", "35", "15", "2/2", "3"],
        ["b", "x", "1", "10.0", "-", "0.0%", "-", "-", "-", "0/1", "0"],
        ["all", "x", "3", "6.5", "2.5", "33.3%", "41.7%", "35", "15", "2/3", "3"],
    ]
    phases = next(part for part in told.split("\n\n") if part.startswith("cost per search")).split("\n")
    assert [line.split() for line in phases[2:]] == [
        ["research", "x", "1.0", "1", "1", "1.2500"],
        ["develop", "x", "8.0", "1", "1", "3.0000"],
    ]
    assert "\nloops: nodes; improve rate: " in told
    alone = run_command("mle-report", "y.jsonl", cwd=tmp_path).stdout.decode()
    assert "loops" not in alone and "first medal" not in alone
    assert run_command("mle-report", "--over-time", "y.jsonl", cwd=tmp_path).stdout == b"no searches\n"
    assert run_command("mle-report", "--over-time", "--allow-empty", "/dev/null").stdout == b"no rollouts\n"


def test_the_table_over_time(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", *searches())
    told = run_command("mle-report", "--over-time", "--label", "rd", "x.jsonl", cwd=tmp_path).stdout.decode()
    table = [line.split() for line in told.partition("\n\n")[0].split("\n")]
    assert table[0] == ["over", "time", "set", "selection", *(f"{tenth}0%" for tenth in range(1, 11))]
    assert [line[:4] for line in table[2:]] == [
        ["any", "medal", "rd", "handed"],
        ["any", "medal", "rd", "perfect"],
        ["normalised", "score", "rd", "handed"],
        ["normalised", "score", "rd", "perfect"],
    ]
    assert table[2][5:] == ["0.0%", "25.0%", "25.0%", "25.0%", *["50.0%"] * 6]
    assert table[4][5:] == ["10.0", "30.0", "45.0", "45.0", *["60.0"] * 6]
    assert table[5][4:] == ["10.0", "30.0", "60.0", "60.0", *["75.0"] * 6]
    assert "missing runs: 1 of 4; counted as invalid (--missing invalid)" in told
    refused = run_command("mle-report", "--over-time", "--compare", "x.jsonl", "x.jsonl", cwd=tmp_path, check=False)
    assert (
        refused.returncode == 2
        and b"--compare, --over-time, --over-turns and --over-traces are different tables" in refused.stderr
    )


@pytest.mark.slow
def test_no_table_of_searches_is_wider_than_a_terminal(tmp_path: Path) -> None:
    far = [node(at, (), at / 7, 43200.0 * at, grade=verdict(0.5, "gold", 100.0)) for at in range(1, 9)]
    many = [run("breast_cancer-b658d37ea34552ba", at, *far, chosen=1, **BOARD) for at in range(12)]
    for one in many:
        one["search"]["cost"] = {phase: {**usd(123.45), "seconds": 43210.9} for phase in ("research", "develop")}
    write(tmp_path / "x.jsonl", *many)
    for more in ((), ("--over-time",)):
        labels = ("--label", "before", "--label", "after")
        done = run_command("mle-report", *labels, *more, "x.jsonl", "x.jsonl", cwd=tmp_path)
        assert 80 < max(map(len, done.stdout.decode().split("\n"))) <= 130


def test_records_say_what_the_tables_say(tmp_path: Path) -> None:
    write(tmp_path / "x.jsonl", *searches())
    lines = run_command("mle-report", "--json", "x.jsonl", cwd=tmp_path).stdout.splitlines()
    last = json.loads(lines[-1])
    assert last["task"] == "all" and last["search"]["loops_mean"] == 6.5 and len(last["search"]["over_time"]) == 10
    assert not math.isnan(last["search"]["improve_rate_mean"])
