"""Workers without rounds: what begins next to what, kills, stops, extensions and forks; in this process."""

import json
import random
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import search_graphs
from search_graphs import graph_of
from taped import Taped
from test_search_loop import Killed, SlowTown, Town, Wall, job, play, settings, wall

from mletools.base.errors import ToolError
from mletools.base.output import is_locked
from mletools.base.tape import Tapes
from mletools.scaffolds.search import SearchScaffold, SearchSettings
from mletools.scaffolds.search.data import Expansion, Plan
from mletools.scaffolds.search.free import following
from mletools.scaffolds.search.graph import Graph
from mletools.scaffolds.search.paths import Adaptive
from mletools.scaffolds.search.record import record_so_far

__all__ = ["wall"]  # a fixture
DRAFT, ONE, TWO = Expansion("draft"), Expansion("improve", (1,)), Expansion("improve", (2,))


def free(*constants: str, preset: str = "rd-agent", **more: Any) -> SearchSettings:
    return settings(*constants, preset=preset, rounds="free", **{"max_turns": 12, "max_seconds": None, **more})


def turns(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [turn["node"] for turn in record["turns"]]


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "tape").read_text().splitlines()]


def nodes_in(path: Path) -> list[str]:
    """The lines of a graph that are nodes."""
    return [line for line in path.read_text().splitlines() if '"nodes_of_round": ' in line]


class Patient(Town):
    """The first program runs until six others have."""

    def __init__(self, *place: Any, **more: Any):
        super().__init__(*place, **more)
        self.others, self.first = threading.Semaphore(0), threading.Lock()
        self.waited = False

    def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
        if self.first.acquire(blocking=False):
            self.waited = all(self.others.acquire(timeout=20) for _ in range(6))
        else:
            self.others.release()
        return super().run(*ran, **more)


@pytest.mark.parametrize("preset", ["rd-agent", "aide", "ml-master", "aira-evo"])
def test_nobody_waits_for_a_slow_program(tmp_path: Path, preset: str) -> None:
    records, place = play(tmp_path, free(preset=preset, workers=3), Patient, hands=3)
    assert place.waited  # in whole rounds it would have waited in vain
    nodes = turns(records[-1])
    assert [node["number"] for node in nodes] == list(range(12))
    assert all(parent < node["number"] for node in nodes for parent in node["parents"])
    assert nodes[0]["number"] == 0 and max(node["elapsed_s"] - node["began_s"] for node in nodes) > 0
    assert records[-1]["search"]["chosen"] is not None


def test_drafts_are_told_of_those_beside_them(tmp_path: Path) -> None:
    _, place = play(tmp_path, free(max_turns=3), hands=3)
    ideas = [prompt for prompt in place.prompts if "# Other branches" in prompt]
    assert any(prompt.split("# Other branches")[1].count("\\n- ") >= 2 for prompt in ideas)


@pytest.mark.parametrize("kill_at", [pytest.param(at, marks=pytest.mark.slow) for at in (1, 9, 30, 70)] + [20, 50])
def test_a_killed_search_goes_on_with_what_was_paid_for(tmp_path: Path, kill_at: int) -> None:
    with pytest.raises(Killed):
        play(tmp_path, free(), hands=3, kill_at=kill_at)
    graph = tmp_path / "graph.jsonl"
    before = graph.read_text()
    begun = {event["job"]: event["answer"] for event in events(tmp_path) if event["what"] == "begin"}
    play(tmp_path, free(), hands=3, go_on=True)
    assert graph.read_text().startswith(before)
    nodes = [json.loads(line) for line in nodes_in(graph)]
    assert sorted(node["start"] for node in nodes) == list(range(12))
    for part, start in begun.items():  # what was under way was begun again as it was
        (node,) = [node for node in nodes if f"search/{node['start']}" == part]
        assert (node["operation"], node["parents"]) == (
            start["expansion"]["operation"],
            list(start["expansion"]["parents"]),
        )
    paid = Counter((event["job"], event["about"]) for event in events(tmp_path) if event["what"] in ("ask", "run"))
    assert set(paid.values()) == {1}


def test_with_one_worker_a_killed_search_gives_the_same(tmp_path: Path) -> None:
    found = free(workers=1, preset="aide")
    (tmp_path / "whole").mkdir()
    whole, place = play(tmp_path / "whole", found)
    for kill_at in range(0, len(place.events), 7):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        with pytest.raises(Killed):
            play(folder, found, kill_at=kill_at)
        again, rest = play(folder, found, go_on=True)
        assert again == whole
        assert sorted(rest.events) == sorted(place.events[kill_at:])


def test_the_time_of_a_search_is_kept_without_rounds(tmp_path: Path, wall: Wall) -> None:
    made = play(tmp_path, free(clock="wall", preset="aide", workers=2, max_seconds=60.0, max_turns=99), SlowTown)[0][-1]
    assert 3 < len(made["turns"]) < 20 and made["search"]["elapsed_s"] < 75
    elapsed = [node["elapsed_s"] for node in turns(made)]
    assert elapsed == sorted(elapsed)


def test_what_is_begun_next() -> None:
    assert following([DRAFT, DRAFT, ONE], [DRAFT]) == DRAFT
    assert following([DRAFT, ONE, TWO], [DRAFT, ONE]) == TWO
    assert following([ONE, TWO], [ONE, TWO, ONE]) == TWO
    assert following([Expansion("debug", (1,))], [Expansion("debug", (1,))]) is None
    assert following([Expansion("merge", (1, 2))], [Expansion("merge", (1, 2))]) is None
    assert following([], []) is None


def test_merges_are_made_beside_other_work_and_once(tmp_path: Path) -> None:
    made = play(tmp_path, free("planning.merge_from=0.5", max_turns=20), hands=3)[0][-1]
    late = [turn for turn in made["turns"] if turn["node"]["stage"] == "merge"]
    merges = [tuple(turn["node"]["parents"]) for turn in late if turn["action"] == "merge"]
    assert merges and len(merges) == len(set(merges))
    assert {"improve", "merge"} <= {turn["action"] for turn in late}
    found = settings("planning.merge_from=0.5", preset="rd-agent", max_turns=20, max_seconds=None)
    whole = play(tmp_path, found)[0][-1]
    late = [turn for turn in whole["turns"] if turn["node"]["stage"] == "merge"]
    assert {turn["action"] for turn in late} <= {"merge", "debug"}


def test_a_merge_comes_first_and_not_twice_at_once(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(search_graphs.made(number, score=1 - number / 10) for number in range(3)))
    merge = Expansion("merge", (0, 1, 2))

    def select(*under_way: Expansion) -> list[Expansion]:
        return Adaptive().select(graph, Plan(0.9, "merge", under_way=under_way), random.Random(0))

    assert select()[0] == merge and len(select()) == 3
    assert merge not in select(merge)
    assert Adaptive().select(graph, Plan(0.9, "merge"), random.Random(0)) == [merge]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"workers": 2}, "--workers is about --rounds free"),
        ({"rounds": "free", "max_scores": 3}, "--max-scores counts nodes in their order"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError, match=told):
        settings(**more)


# --- stop, extend, fork -----------------------------------------------------------------------------------------------


class Stopping(Town):
    """Its user has enough after so many events."""

    after = 25

    def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
        if len(self.events) > self.after:
            (self.folder / "stop").touch()
        return super().run(*ran, **more)


@pytest.mark.parametrize("rounds", ["whole", "free"])
def test_a_stopped_search_hands_in_its_best_so_far(tmp_path: Path, rounds: str) -> None:
    found = settings(preset="rd-agent", rounds=rounds, max_turns=40, max_seconds=None)
    made = play(tmp_path, found, Stopping, hands=3)[0][-1]
    assert made["search"]["ended"] == "user" and made["stop_reason"] == "finished"
    scores = [node["score"] for node in turns(made) if node["score"] is not None]
    assert 0 < len(made["turns"]) < 30
    assert made["validation"]["score"] == min(scores)
    assert made["usage"]["usd"] >= sum(turn["usage"]["usd"] for turn in made["turns"])


def test_a_program_that_runs_when_a_search_is_stopped_is_left(tmp_path: Path) -> None:
    class Hanging(Stopping):
        """The last program runs until the test is over."""

        over = threading.Event()

        def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
            if len(self.events) > 60:
                (self.folder / "stop").touch()
                if threading.current_thread() is not threading.main_thread() and more.get("rows") != "selection":
                    self.over.wait(20)
            return super().run(*ran, **more)

    made, place = play(tmp_path, free(evaluation="standard", max_turns=40), Hanging, hands=3)
    asked = len(place.events)
    Hanging.over.set()
    assert made[-1]["search"]["ended"] == "user" and len(made[-1]["turns"]) < 40
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.daemon:
            thread.join(2)
    assert not [event for event in place.events[asked:] if event.startswith("ask")]  # nothing more is paid for


@pytest.mark.parametrize("rounds", ["whole", "free"])
@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_a_killed_search_is_resumed_with_another_time(tmp_path: Path, rounds: str, seconds: float) -> None:
    first, then = (settings(preset="aide", rounds=rounds, max_turns=99, max_seconds=most) for most in (30.0, seconds))
    assert first.identity() == then.identity()
    with pytest.raises(Killed):
        play(tmp_path, first, kill_at=20)
    before = nodes_in(tmp_path / "graph.jsonl")
    made = play(tmp_path, then, go_on=True)[0][-1]
    assert nodes_in(tmp_path / "graph.jsonl")[: len(before)] == before
    assert made["search"]["budget"]["seconds"] == seconds and made["search"]["chosen"] is not None
    if seconds == 1.0:
        assert len(made["turns"]) == len(before)  # what was under way is left
    else:
        assert len(made["turns"]) > 15 and made["search"]["elapsed_s"] > 45


@pytest.mark.parametrize("rounds", ["whole", "free"])
@pytest.mark.parametrize("kill_at", [30, 47, 75])
def test_what_nodes_cost_that_are_left_after_a_kill_counts(tmp_path: Path, rounds: str, kill_at: int) -> None:
    first, then = (settings(preset="rd-agent", rounds=rounds, max_turns=99, max_seconds=most) for most in (1e6, 1.0))
    with pytest.raises(Killed):
        play(tmp_path, first, hands=3, kill_at=kill_at)
    done = len(nodes_in(tmp_path / "graph.jsonl"))
    paid = [json.loads(line) for line in (tmp_path / "tape").read_text().splitlines()]
    asked, ran = (sum(event["what"] == what for event in paid) for what in ("ask", "run"))
    records, place = play(tmp_path, then, hands=3, go_on=True)
    made = records[-1]
    assert len(made["turns"]) == done and made["search"]["ended"] == "seconds"
    assert not any(event.startswith("ask") for event in place.events)
    ran += len(place.events)  # the candidates
    assert made["usage"]["usd"] == pytest.approx(0.01 * asked) and made["usage_by_role"]["policy"]["usd"] > 0
    assert made["usage"]["usd"] == pytest.approx(sum(used["usd"] for used in made["search"]["cost"].values()))
    assert made["usage_by_role"]["policy"]["usd"] == made["usage"]["usd"]
    assert made["usage"]["seconds"] == pytest.approx(0.5 * asked + 2 * ran)
    assert made["usage"]["usd"] > sum(turn["usage"]["usd"] for turn in made["turns"]) + 0.01


@pytest.mark.parametrize("rounds", ["whole", "free"])
def test_nodes_under_way_end_with_a_search_that_is_resumed_with_less_time(tmp_path: Path, rounds: str) -> None:
    class Timed(Town):
        def run(self, code: str, wall_s: float, *ran: Any, **more: Any) -> dict[str, Any]:
            limits.append(wall_s)
            return super().run(code, wall_s, *ran, **more)

    limits = list[float]()
    most = {"preset": "rd-agent", "rounds": rounds, "max_turns": 99}
    with pytest.raises(Killed):
        play(tmp_path, settings(max_seconds=43200.0, **most), Timed, hands=3, kill_at=60)
    used = json.loads(nodes_in(tmp_path / "graph.jsonl")[-1])["elapsed"]
    assert max(limits) > 800
    limits.clear()
    play(tmp_path, settings(max_seconds=used + 60, **most), Timed, hands=3, go_on=True)
    assert limits and max(limits) <= 60


@pytest.mark.parametrize("rounds", ["whole", "free"])
def test_a_search_goes_on_from_a_node_of_another(tmp_path: Path, rounds: str) -> None:
    old, new = (tmp_path / name for name in ("old", "new"))
    old.mkdir()
    new.mkdir()
    found = settings(preset="aide", max_turns=8, max_seconds=None)
    whole, _ = play(old, found)
    text = (old / "graph.jsonl").read_text()
    fork = settings(preset="aide", rounds=rounds, max_turns=10, max_seconds=None, from_graph=f"{old / 'graph.jsonl'}:5")
    records, place = play(new, fork)
    made = records[-1]
    assert made["search"]["taken_over"] == 6 and len(made["turns"]) == 10
    assert made["turns"][:6] == whole[-1]["turns"][:6] and made["turns"][6:8] != whole[-1]["turns"][6:8]
    assert (old / "graph.jsonl").read_text() == text
    asked = sum(event.startswith("ask") for event in place.events)
    assert len(records) == asked + 1  # steps are its own alone
    assert made["usage"]["usd"] > 0.01 * asked
    with pytest.raises(ToolError, match="no node 99: it has 8 nodes"):
        (tmp_path / "wrong").mkdir()
        play(tmp_path / "wrong", settings(from_graph=f"{old / 'graph.jsonl'}:99"))
    with pytest.raises(ToolError, match="no such graph"):
        play(tmp_path / "wrong", settings(from_graph="nowhere.jsonl"))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            {},
            {"evaluation": "standard"},
            "scores are of --evaluation agent, those of this search of --evaluation standard",
        ),
        ({"evaluation": "judged"}, {"evaluation": "judged", "validation": 0.1}, "with --validation 0.2, those of this"),
        (
            {"evaluation": "standard"},
            {"evaluation": "three-splits"},
            "of this search of --evaluation three-splits with",
        ),
        ({"evaluation": "standard"}, {"evaluation": "aggregated"}, None),
        ({}, {"paths": "chain", "memory": "chain"}, None),
    ],
)
def test_scores_that_cannot_be_compared_are_not_taken_over(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], told: str | None
) -> None:
    old, new = (tmp_path / name for name in ("old", "new"))
    old.mkdir()
    new.mkdir()
    play(old, settings(preset="aide", max_turns=3, max_seconds=None, **before))
    fork = settings(preset="aide", max_turns=4, max_seconds=None, from_graph=str(old / "graph.jsonl"), **after)
    if told is None:
        assert play(new, fork)[0][-1]["search"]["taken_over"] == 3
        return
    with pytest.raises(ToolError, match=told):
        play(new, fork)


@pytest.mark.parametrize("rounds", ["whole", "free"])
def test_a_graph_tells_its_search_so_far_and_in_the_end(tmp_path: Path, rounds: str) -> None:
    found = settings(preset="rd-agent", rounds=rounds, max_turns=12, max_seconds=None)
    with pytest.raises(Killed):
        play(tmp_path, found, kill_at=60, hands=3)
    path = tmp_path / "graph.jsonl"

    def read() -> tuple[Any, bool]:
        graph = Graph(path, True, read_only=True)
        return record_so_far(graph)

    so_far, ended = read()
    assert not ended and 0 < len(so_far["turns"]) < 12 and so_far["search"]["chosen"] is None
    assert so_far["usage"]["usd"] == pytest.approx(sum(turn["usage"]["usd"] for turn in so_far["turns"]))
    assert so_far["search"]["elapsed_s"] == so_far["turns"][-1]["node"]["elapsed_s"] > 0
    made = play(tmp_path, found, go_on=True, hands=3)[0][-1]
    assert read() == (made, True) and made["turns"][: len(so_far["turns"])] == so_far["turns"]
    again = settings(preset="rd-agent", rounds=rounds, max_turns=14, max_seconds=None)
    with pytest.raises(Killed):  # what goes on has not ended
        play(tmp_path, again, go_on=True, kill_at=1)
    assert not read()[1] and len(read()[0]["turns"]) == 12


def test_what_cannot_begin_leaves_its_graph_to_others(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no such graph") as found:
        play(tmp_path, settings(from_graph="nowhere.jsonl"))
    assert found.value is not None and not is_locked(tmp_path / "graph.jsonl")


# --- presets that work so -------------------------------------------------------------------------------------------


def test_gome_goes_in_the_direction_of_a_diagnosis_and_knows_what_succeeded(tmp_path: Path) -> None:
    found = settings(preset="gome", max_turns=14, max_seconds=None)
    assert found.rounds == "free" and found.constants["planning"]["merge_from"] == 1.0
    records, place = play(tmp_path, found, hands=3)
    nodes = turns(records[-1])
    improved = [node for node, turn in zip(nodes, records[-1]["turns"], strict=True) if turn["action"] == "improve"]
    assert improved and all(node["challenge"].startswith("lost at ") for node in improved)
    assert all(node["challenges"][1].startswith("towards ") for node in improved)
    assert not any(turn["action"] == "merge" for turn in records[-1]["turns"])
    asked = [prompt for prompt in place.prompts if "# Diagnosis of the last run" in prompt]
    assert len(asked) == len(improved) and all("The direction of the next step: towards" in prompt for prompt in asked)
    assert any("# The last run" in prompt and "search-diagnosis" not in prompt for prompt in place.prompts)
    for node in nodes:  # each recalled node had the best score of its branch, or is the best of all
        assert all(nodes[number]["score"] is not None for number in node["recalled"])


def test_without_a_diagnosis_there_is_one_question_for_an_idea(tmp_path: Path) -> None:
    class Vague(Town):
        def ask(self, who: str, role: str, *rest: Any) -> dict[str, Any]:
            reply = super().ask(who, role, *rest)
            return {**reply, "text": "It depends."} if role == "search-diagnosis" else reply

    made = play(tmp_path, settings(preset="gome", max_turns=8, max_seconds=None), Vague, hands=3)[0][-1]
    assert made["search"]["fallbacks"]["search-diagnosis"] > 0
    assert all(node["challenge"] is None for node in turns(made))


def test_night_changes_large_programs_by_edits_and_finds_what_failed_alike(tmp_path: Path) -> None:
    class Wordy(Town):
        """Programs are long, and changed by their first line."""

        def ask(self, who: str, role: str, messages: Any, *rest: Any) -> dict[str, Any]:
            reply = super().ask(who, role, messages, *rest)
            asked = messages[-1]["content"]
            old = re.findall(r"^print\(\d+\)  # (?:fine|broken)$", asked, re.MULTILINE)
            if "<<<<<<< SEARCH" in asked:
                new = reply["text"].partition("```python\n")[2].partition("\n")[0]
                reply["text"] = f"A plan.\n\n<<<<<<< SEARCH\n{old[0]}\n=======\n{new}\n>>>>>>> REPLACE\n"
            elif "```python" in reply["text"]:
                reply["text"] = reply["text"].replace("\n```\n", "\n" + "# a long comment\n" * 200 + "```\n")
            return reply

    found = settings("coding.coder_loops=1", preset="night", max_turns=25, max_seconds=None)
    made = play(tmp_path, found, Wordy, hands=3)[0][-1]
    nodes = turns(made)
    lines = [turn["code"].count("\n") for turn in made["turns"] if turn["code"]]
    assert len(lines) > 8 and min(lines) > 200  # no edit has lost the rest
    assert any(node["lesson"].startswith("[") for node in nodes if node["score"] is None and node["lesson"])
    assert made["search"]["chosen"] is not None


def test_after_an_error_the_other_nodes_ask_for_nothing_more(tmp_path: Path) -> None:
    late, waiting, failed, broken = list[str](), list[int](), threading.Event(), threading.Lock()

    class Broken(Town):
        """The first program finds no place to run; the others are slow until then."""

        def run(self, *ran: Any, **more: Any) -> dict[str, Any]:
            if broken.acquire(blocking=False):
                raise ToolError("no place")
            waiting.append(1)
            failed.wait(20)
            return super().run(*ran, **more)

        def ask(self, *asked: Any) -> dict[str, Any]:
            if failed.is_set():
                late.append(asked[1])
            return super().ask(*asked)

    before = set(threading.enumerate())
    tapes = Tapes(tmp_path / "tape")
    environment: Any = Taped(Broken(tmp_path, hands=3), tapes.tape("search"))
    with pytest.raises(ToolError, match="no place"):
        list(SearchScaffold().play(job(free(max_turns=40)), environment))
    for _ in range(1000):  # until each of the others runs its program, or has been given up; it has two threads
        if 2 * len(waiting) >= len(set(threading.enumerate()) - before):
            break
        time.sleep(0.01)
    failed.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    tapes.close(complete=False)
    assert late == []
