"""The exploration graph on disk: what it tells, what is forgotten after a kill, what it refuses."""

import fcntl
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mletools.base.errors import ToolError
from mletools.base.output import is_locked
from mletools.scaffolds.search.graph import Graph, added, is_graph


def made(number: int, score: float | None, parents: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """A node's details, as the loop writes them."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "seconds": 1.5, "usd": 0.25}
    return {
        "number": number,
        "parents": list(parents),
        "operation": "improve" if parents else "draft",
        "branch": number,
        "depth": 0,
        "repairs": 0,
        "round": number,
        "hypothesis": f"idea {number}",
        "component": "Model",
        "problem": None if score is not None else "failed",
        "why": "",
        "score": score,
        "lesson": "",
        "execution": None,
        "trials": [],
        "seconds": 3.0,
        "elapsed": 3.0 * (number + 1),
        "code": f"print({number})\n",
        "usage": {"research": dict(usage), "develop": dict(usage)},
        "asked": [{"who": who, "usage": {**usage, "seconds": 1.0}} for who in ("researcher", "policy")],
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "graphs" / "one.jsonl"


def test_it_tells_what_was_added_also_when_read_again(file: Path) -> None:
    graph = Graph(file, lower_is_better=False)
    graph.add([made(0, 0.5), made(1, None, branch=1)])
    graph.add([made(2, 0.7, (0,), branch=0, depth=1), made(3, 0.7, (1, 0), branch=1)])
    graph.close()
    again = Graph(file, lower_is_better=False)
    assert again.nodes == graph.nodes
    assert [node.number for node in again.good()] == [0, 2, 3]
    assert again.best() == again[2]  # of equals the first
    assert [node.number for node in again.children(0)] == [2, 3]
    assert {draft: [node.number for node in nodes] for draft, nodes in again.branches().items()} == {
        0: [0, 2],
        1: [1, 3],
    }
    assert [node.number for node in again.path(3)] == [1, 3]
    assert again.details(2)["code"] == "print(2)\n"
    assert again.elapsed == 12.0
    assert again.rounds == 4
    # four nodes of 0.25 USD a phase
    assert again.spent["develop"] == {"prompt_tokens": 40, "completion_tokens": 20, "seconds": 6.0, "usd": 1.0}
    assert again.spent_by_role == graph.spent_by_role and set(again.spent_by_role) == {"policy", "researcher"}
    assert again.spent_by_role["policy"] == {**again.spent["develop"], "seconds": 4.0}


def test_lower_may_be_better(file: Path) -> None:
    graph = Graph(file, lower_is_better=True)
    graph.add([made(0, 0.5), made(1, 0.4), made(2, 0.6)])
    assert graph.best() == graph[1]
    assert graph.gain(0.4, 0.5) == pytest.approx(0.1)
    assert graph.best([graph[0], graph[2]]) == graph[0]


def test_a_round_that_is_not_all_there_is_forgotten(file: Path) -> None:
    graph = Graph(file, lower_is_better=False)
    graph.add([made(0, 0.5)])
    whole = file.stat().st_size
    graph.add([made(1, 0.6), made(2, 0.7)])
    graph.close()
    lines = file.read_bytes().splitlines(keepends=True)
    for torn in (lines[:2], [*lines[:2], lines[2][:-1]], [lines[0], lines[1][:40]]):
        file.write_bytes(b"".join(torn))
        again = Graph(file, lower_is_better=False)
        assert len(again) == 1
        assert file.stat().st_size == whole
        again.add([made(1, 0.6), made(2, 0.7)])
        again.close()
        assert len(Graph(file, lower_is_better=False)) == 3


def test_another_file_is_refused(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"kind": "rollout"}) + "\n")
    with pytest.raises(ToolError, match=r"one\.jsonl:1: not a graph of this command; move the file away"):
        Graph(file, lower_is_better=False)


def test_what_is_not_known_makes_the_sum_unknown() -> None:
    known, unknown = ({"prompt_tokens": 1, "completion_tokens": 2, "seconds": 1.0, "usd": usd} for usd in (0.5, None))
    assert added(known, unknown) == {"prompt_tokens": 2, "completion_tokens": 4, "seconds": 2.0, "usd": None}


@pytest.mark.slow
def test_memory_does_not_grow_with_what_nodes_hold(file: Path) -> None:
    """500 nodes of 100 KB each: what stays is some KB a node."""
    big = "x" * 100_000
    graph = Graph(file, lower_is_better=False)
    tracemalloc.start()
    for number in range(500):
        graph.add([made(number, number / 500, (number - 1,) if number else (), code=big)])
    held, _ = tracemalloc.get_traced_memory()
    graph.close()
    again = Graph(file, lower_is_better=False)
    more, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert file.stat().st_size > 50_000_000
    assert held < 3_000_000
    assert more < 6_000_000
    assert peak < 12_000_000
    assert len(again) == 500


# --- lines about the search, and who writes ----------------------------------------------------------------------------


ABOUT: Any = {"id": "s", "task": {"id": "t", "name": "pond", "data": {"digest": "d"}, "metric": {"name": "mae"}}}


def test_it_says_of_what_search_it_is(file: Path) -> None:
    graph = Graph(file, lower_is_better=False)
    assert graph.about() is None
    graph.tell({**ABOUT, "turns": [1, 2]})
    assert is_graph(file)
    graph.add([made(0, 0.5)])
    graph.add([made(1, 0.6), made(2, 0.7)])
    assert graph.about() == ({**ABOUT, "turns": []}, False)
    graph.tell({**ABOUT, "how": "so"}, ended=True)
    graph.close()
    again = Graph(file, lower_is_better=False, read_only=True)
    assert again.about() == ({**ABOUT, "how": "so", "turns": []}, True)
    assert [node.number for node in again.nodes] == [0, 1, 2] and again.details(2)["score"] == 0.7
    file.write_bytes(file.read_bytes()[:-20])
    again = Graph(file, lower_is_better=False)
    assert again.about() == ({**ABOUT, "turns": []}, False) and len(again) == 3
    again.add([made(3, 0.8)])
    assert again.details(3)["score"] == 0.8
    other = file.with_name("other.jsonl")
    other.write_text(json.dumps({"kind": "rollout"}) + "\n")
    assert not is_graph(other) and not is_graph(file.parent) and not is_graph(file.with_name("none"))


def test_two_runs_do_not_write_one_graph_and_anyone_may_read_it(file: Path) -> None:
    graph = Graph(file, lower_is_better=False)
    graph.add([made(0, 0.5)])
    for anew in (False, True):
        with pytest.raises(
            ToolError, match=r"one\.jsonl: another run is writing it; wait for it or choose another --graph"
        ):
            Graph(file, lower_is_better=False, anew=anew)
    assert is_locked(file) and len(Graph(file, lower_is_better=False, read_only=True)) == 1
    graph.close()
    assert not is_locked(file) and not is_locked(file.with_name("none"))
    assert len(Graph(file, lower_is_better=False, anew=True)) == 0


def test_a_reader_that_looks_for_a_moment_keeps_no_writer_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir()
    file.touch()
    reader = file.open("rb")
    fcntl.flock(reader, fcntl.LOCK_SH)
    monkeypatch.setattr("mletools.base.output.time.sleep", lambda seconds: reader.close())
    graph = Graph(file, lower_is_better=False)
    assert reader.closed and is_locked(file)
    graph.close()


@pytest.mark.parametrize(
    ("task", "fits"),
    [
        ({"id": "t", "name": "lake", "data": {"digest": "e"}, "metric": {"name": "mae"}}, True),
        ({"id": "u", "name": "lake", "data": {"digest": "d"}, "metric": {"name": "mae"}}, True),
        ({"id": "u", "name": "lake", "data": {"digest": "d"}, "metric": {"name": "rmse"}}, False),
        ({"id": "u", "name": "lake", "data": {"digest": "e"}, "metric": {"name": "mae"}}, False),
    ],
)
def test_nodes_of_another_task_are_not_taken_over(file: Path, task: Any, fits: bool) -> None:
    graph = Graph(file, lower_is_better=False)
    graph.tell(ABOUT)
    graph.add([made(0, 0.5)])
    graph.close()
    new = Graph(file.with_name("new.jsonl"), lower_is_better=False)
    if fits:
        new.take_over(file, task)
        assert new.taken_over == len(new) == 1
    else:
        with pytest.raises(
            ToolError, match=r"one\.jsonl: is of task pond \(t\), not of lake \(u\): the id and the data, or "
        ):
            new.take_over(file, task)
