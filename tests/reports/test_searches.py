"""Searches that are running, have been killed or have ended: their trees and summaries from graphs and unfinished outputs."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, run_command
from live_searches import NODES, graph, node
from search_records import node as turn
from search_records import search
from terminal import on_terminal

from mletools.base.errors import ToolError
from mletools.base.output import Output, is_locked
from mletools.reports.searches import Searches, names_searches, summary
from mletools.scaffolds.search.graph import Graph

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "MLE_JOBS")}


def shown(*args: str, **more: Any) -> str:
    return run_command("mle-show", "-q", *args, **more).stdout.decode()


def aged(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_what_names_searches(tmp_path: Path) -> None:
    graph(tmp_path / "graphs" / "one.jsonl").close()
    (tmp_path / "night.jsonl.graph").mkdir()
    (tmp_path / "day.jsonl").write_text(json.dumps(search("x")) + "\n")
    named = ("graphs", "graphs/one.jsonl", "night.jsonl", "night.jsonl.partial")
    assert all(names_searches(str(tmp_path / name)) for name in named)
    assert not any(map(names_searches, (str(tmp_path / "day.jsonl"), str(tmp_path / "none.jsonl"), "-", "/dev/null")))


def test_a_search_runs_while_its_graph_is_held_and_ends_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    writer = graph(path, *NODES)
    watched = Searches(str(path))
    aged(path, 100)
    (progress,) = watched.look()
    assert watched.running() and progress.state == "running" == progress.record["stop_reason"]
    assert progress.idle_s is not None and progress.idle_s >= 100 and progress.clock_s >= 3800
    told = progress.standing()
    assert re.match(
        r"running, 1:03:\d\d of 10:00:00 \(wall clock\), 8:56:\d\d left, 5 of 500 nodes, 3\.75 of 40 USD, ", told
    )
    assert re.search(r"the last node 1:\d\d ago$", told)
    assert "code" in progress.record and "execution" not in progress.record
    writer.close()
    (progress,) = watched.look()
    assert not watched.running() and progress.state == "interrupted" and progress.clock_s == 3700
    assert "interrupted (--resume goes on), 1:01:40 of 10:00:00" in progress.standing()
    writer = Graph(path, True)
    record = {**search("3f2a", chosen=None), "stop_reason": "finished"}
    writer.tell(record, ended=True)  # type: ignore[arg-type]
    writer.close()
    (progress,) = watched.look()
    assert progress.state == "ended" and progress.record["search"]["how"] == record["search"]["how"]
    assert len(progress.record["turns"]) == 5 and progress.standing().startswith("ended, 0:00 of 1:40 (work clock), 5 ")


def test_the_work_clock_does_not_go_on_by_itself(tmp_path: Path) -> None:
    writer = graph(tmp_path / "one.jsonl", *NODES, clock="work")
    aged(tmp_path / "one.jsonl", 100)
    (progress,) = Searches(str(tmp_path / "one.jsonl")).look()
    assert progress.clock_s == 3700 and "(work clock), 8:58:20 left" in progress.standing()
    writer.close()


def test_what_is_torn_or_not_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "graphs" / "one.jsonl"
    graph(path, *NODES[:2]).close()
    (path.parent / "other.jsonl").write_text('{"kind": "task"}\n')
    begun = json.dumps({**NODES[2], "nodes_of_round": 2}) + "\n"
    for torn in (b'{"number": 2, "par', begun.encode(), begun.encode() + b'{"number"'):
        whole = path.read_bytes()
        path.write_bytes(whole + torn)
        (progress,) = Searches(str(path.parent)).look()
        assert len(progress.record["turns"]) == 2
        assert "rd-agent, 2 nodes, best 0" in shown("--tree", str(path))
        path.write_bytes(whole)


def test_an_unfinished_output_has_finished_searches_and_those_under_way(tmp_path: Path) -> None:
    output, folder = tmp_path / "night.jsonl", tmp_path / "night.jsonl.graph"
    out = Output(output, None, False, lambda record: record["id"])
    watched = Searches(f"{output}.partial")
    assert watched.look() == [] and watched.running()
    first, second = (graph(folder / f"{id}.jsonl", *NODES[:count], id=id) for id, count in (("a", 3), ("b", 1)))
    assert [(each.record["id"], each.state) for each in watched.look()] == [("a", "running"), ("b", "running")]
    out.write(search("a", turn(0, (), 1.8, 60), chosen=0))
    first.close()
    assert [(each.record["id"], each.state) for each in watched.look()] == [("a", "ended"), ("b", "running")]
    with output.with_name("night.jsonl.partial").open("ab") as file:
        file.write(b'{"kind": "rollout", "torn')  # as it is being written
    assert "a: rd-agent, 1 node, best 0 (1.8), chosen 0" in shown("--tree", str(output))
    second.close()
    out.commit()
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    assert not watched.running()
    assert [(each.record["id"], each.state) for each in watched.look()] == [("a", "ended")]


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"none\.jsonl: No such file"):
        Searches(str(tmp_path / "none.jsonl")).look()
    old = tmp_path / "old.jsonl"
    old.write_text(json.dumps({**NODES[0], "nodes_of_round": 1}) + "\n")
    refused = run_command("mle-show", "--tree", str(old), check=False)
    assert refused.returncode == 1 and b"old.jsonl:1: " in refused.stderr


SUMMARY = """\
pond 3f2a: rd-agent, interrupted (--resume goes on), 1:01:40 of 10:00:00 (wall clock), \
8:58:20 left, 5 of 500 nodes, 3.75 of 40 USD

operation  nodes  with a score  new best  failed  slow  seconds   USD
---------  -----  ------------  --------  ------  ----  -------  ----
draft          2             1         1       1     -       60  1.50
improve        2             2         1       -     -       60  1.50
debug          1             -         -       -     1       30  0.75
all            5             3         2       1     1      150  3.75

clock  node  operation  best score
-----  ----  ---------  ----------
1:00      0  draft             1.8
3:20      2  improve           1.5

cost: 500 + 200 tokens, 20.0 s, 3.7500 USD of its nodes
seconds: total of models and programs
"""


def test_a_summary_counts_nodes_and_tells_the_best_over_time(tmp_path: Path) -> None:
    graph(tmp_path / "one.jsonl", *NODES).close()
    told = run_command("mle-report", "-q", str(tmp_path / "one.jsonl")).stdout.decode()
    assert re.sub(" +\n", "\n", told) == SUMMARY
    csv = run_command("mle-report", "-q", "--format", "csv", str(tmp_path)).stdout.decode()
    assert csv.startswith("operation,nodes,with a score,new best,failed,slow,seconds,USD\ndraft,2,1,1,1,-,60,1.50\n")
    for more in (["--json"], ["--html"], ["--over-time"], ["--label", "x"]):
        refused = run_command("mle-report", *more, str(tmp_path), check=False)
        assert refused.returncode == 2 and b"graphs of searches have a summary of their nodes" in refused.stderr
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(search("x")) + "\n")
    mixed = run_command("mle-report", str(tmp_path / "one.jsonl"), str(tmp_path / "rollouts.jsonl"), check=False)
    assert mixed.returncode == 1 and b"rollouts.jsonl: holds rollouts, beside graphs of searches" in mixed.stderr


def test_a_summary_marks_the_chosen_node(tmp_path: Path) -> None:
    record = search("x", turn(0, (), 1.8, 10), turn(1, (0,), 1.5, 20), turn(2, (1,), 1.6, 30), chosen=2)
    path = tmp_path / "night.jsonl"
    path.write_text(json.dumps(record) + "\n")
    (progress,) = Searches(str(path)).look()
    told = summary([progress])
    rows = [line.split() for line in told.split("\n") if re.match(r"0:\d\d ", line)]
    assert rows == [["0:10", "0", "draft", "1.8", "-"], ["0:20", "1", "improve", "1.5", "-"],
                    ["0:30", "2", "improve", "1.6", "1.25", "chosen"]]  # fmt: skip
    assert "chosen: node 2: the best of its branch, run again" in told
    assert summary([]) == "no searches"


def test_a_tree_of_a_running_search_says_why_and_when(tmp_path: Path) -> None:
    writer = graph(tmp_path / "one.jsonl", *NODES)
    rows = shown("--tree", "--width", "150", str(tmp_path / "one.jsonl")).split("\n")
    writer.close()
    assert rows[0] == "pond 3f2a: rd-agent, 5 nodes, best 2 (1.5), none chosen" and rows[1].startswith(
        "running, 1:01:4"
    )
    assert rows[2].split()[:9] == [
        "node",
        "stage",
        "clock",
        "score",
        "selection",
        "gain",
        "seconds",
        "USD",
        "hypothesis;",
    ]
    table = [re.split(" {2,}", row) for row in rows[3:8]]
    assert table[0] == ["┌ 0 draft", "draft", "1:00", "1.8*", "30.0", "0.75", "Model: idea 0"]
    assert table[1] == ["├ 2 improve", "improvement", "3:20", "1.5*", "+0.3", "30.0", "0.75", "best", "Model: idea 2"]
    assert table[2] == ["└ 4 improve", "draft", "1:01:40", "1.6", "1.4", "-0.1", "30.0", "0.75", "Model: idea 4"]
    assert table[3] == ["┌ 1 draft", "draft", "1:30", "failed", "30.0", "0.75", "KeyError: 'a' [Model: idea 1]"]
    assert table[4] == ["└ 3 debug", "draft", "3:50", "slow", "30.0", "0.75", "Model: idea 3"]


def test_a_running_search_can_be_read_node_by_node(tmp_path: Path) -> None:
    writer = graph(tmp_path / "one.jsonl", *NODES)
    told = shown("--node", "1", str(tmp_path))
    assert "stopped    running (this is what its graph holds so far) after 5 nodes\n" in told
    assert "── node 1: draft " in told and "── node 0" not in told and "why not\n  KeyError: 'a'\n" in told
    assert "what was handed in" not in shown(str(tmp_path))
    listed = shown("--list", str(tmp_path))
    assert listed.startswith("id ") and " running " in listed
    writer.close()


def test_watching_ends_with_the_search_and_prints_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    writer = graph(path, NODES[0])
    command = [str(BIN / "mle-show"), "-q", "--tree", "--watch", "--interval", "0.05", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        heads = (line for line in process.stdout if line.startswith(b"pond "))
        assert b" 1 node, " in next(heads)
        writer.add([NODES[1]])
        assert b" 2 nodes, " in next(heads)
        assert process.poll() is None
        writer.close()
        rest = process.stdout.read().decode()
        assert process.wait(timeout=60) == 0
    assert rest.count("pond ") == 1 and "\ninterrupted (--resume goes on), " in rest and "\x1b" not in rest


def test_a_search_in_a_kept_graph_and_in_the_output_is_shown_once(tmp_path: Path) -> None:
    graph(tmp_path / "graphs" / "one.jsonl", *NODES).close()
    (tmp_path / "night.jsonl").write_text(json.dumps(search("3f2a", turn(0, (), 1.8, 60))) + "\n")
    told = shown("--tree", "--watch", str(tmp_path / "graphs"), str(tmp_path / "night.jsonl"))
    assert told.count("pond 3f2a: ") == 1 and "5 nodes" in told


def test_watching_needs_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    graph(path, *NODES).close()
    for args in (["--watch", str(path)], ["--watch", "--tree", "--html", str(path)]):
        refused = run_command("mle-show", *args, check=False)
        assert refused.returncode == 2 and b"--watch is about --tree" in refused.stderr
    refused = run_command("mle-show", "--tree", "--watch", check=False)
    assert refused.returncode == 1 and b"--watch looks at files that grow" in refused.stderr


def test_ctrl_c_and_a_reader_that_leaves_end_a_watch_quietly(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    writer = graph(path, *NODES)
    command = [str(BIN / "mle-show"), "--tree", "--watch", "--interval", "0.05", str(path)]
    for leaves, code in ((False, 130), (True, 141)):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout.readline().startswith(b"pond ")
            if leaves:
                process.stdout.close()
            else:
                process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == code
            assert process.stderr.read() == b""
    writer.close()


def test_on_a_terminal_the_tree_is_drawn_in_place_and_fits(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    nodes = [node(number, (number - 1,) if number else (), 2 - number / 100, 60 * number) for number in range(60)]
    writer = graph(path, *nodes)

    def end() -> None:
        seen.wait(60)
        writer.close()

    seen = threading.Event()
    threading.Timer(2, seen.set).start()
    threading.Thread(target=end).start()
    screens = (
        on_terminal("mle-show", "-q", "--tree", "--watch", "--interval", "0.2", str(path))
        .decode()
        .split("\x1b[H\x1b[J")
    )
    frames = [screen for screen in screens if "pond" in screen]
    assert len(frames) > 1 and all(frame.count("\n") <= 23 and "lines …" in frame for frame in frames[:-1])
    assert frames[-1].count("improve") == 59 and "interrupted (--resume goes on), " in frames[-1]
    assert not is_locked(path)
