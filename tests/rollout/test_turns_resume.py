"""Agents in turns and trouble: a server that fails or dies, and runs that are killed and go on."""

import json
import random
import signal
from pathlib import Path

import pytest
from conftest import mostly_slow, records, run_command
from model_server import FaultyServer
from played import (
    FAST,
    FINISHES,
    PLAYS,
    cell,
    command,
    in_steps,
    write_tasks,
)
from played_checks import (
    alike,
    check_tokens,
)
from stopping import FAULTS, gone, stopped

from mletools.base.tape import Tapes

# ---- a server's faults


@pytest.mark.parametrize("scaffold", mostly_slow(PLAYS, 1))
@pytest.mark.slow
def test_a_servers_faults_change_nothing(scaffold: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    answer, options = PLAYS[scaffold]
    with FaultyServer(answer) as server:
        line = command(server, scaffold, *options, "-k", "-j", "2")
        clean = records(run_command(*line, cwd=tmp_path).stdout)
    with FaultyServer(answer, FAULTS) as server:
        line = command(server, scaffold, *options, "-k", "-j", "2", "--force", "--retries", "12")
        troubled = records(run_command(*line, cwd=tmp_path).stdout)
    assert alike(clean, troubled)


@pytest.mark.slow
def test_a_server_that_dies_is_one_line_and_the_run_goes_on_later(tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    answer, options = PLAYS["react"]
    with FaultyServer(answer) as server:
        clean = records(run_command(*command(server, "react", *options), cwd=tmp_path).stdout)
        asked = len(server.requests)
    with FaultyServer(answer, ["", "", "", "", "", "", "", *["500"] * 90]) as server:
        url = server.url
        line = command(server, "react", *options, "-j", "2", "--retries", "1", "-o", "out.jsonl")
        done = run_command(*line, cwd=tmp_path, check=False)
        answered = 7
    assert done.returncode == 1 and not (tmp_path / "out.jsonl").exists()
    assert done.stderr.decode() == (
        f"mle-rollout: {url}/v1/chat/completions: no answer after 2 tries; the last error: 500: not now\n"
    )
    with FaultyServer(answer) as server:
        line = command(server, "react", *options, "-j", "2", "--retries", "1", "-o", "out.jsonl", "--resume")
        run_command(*line, cwd=tmp_path)
        assert len(server.requests) == asked - answered  # what was answered is not asked again
    assert alike(clean, records((tmp_path / "out.jsonl").read_bytes()))
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.jsonl"]


# ---- killed


KILLS = [
    ("react", 0.1), ("react", 0.5), ("react", 0.8), ("codeact", 0.2), ("codeact", 0.9), ("memory", 0.2), ("memory", 0.8),
    ("improve", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scaffold", "share"),
    [("codeact", 0.6), ("memory", 0.5), *(pytest.param(*each, marks=pytest.mark.slow) for each in KILLS)],
)
@pytest.mark.slow
def test_killed_and_resumed_loses_and_pays_nothing_twice(scaffold: str, share: float, tmp_path: Path) -> None:
    write_tasks(tmp_path, 3)
    answer, options = PLAYS[scaffold]
    with FaultyServer(answer) as server:
        clean = records(run_command(*command(server, scaffold, *options), cwd=tmp_path).stdout)
        states = records((tmp_path / "states.jsonl").read_bytes()) if scaffold == "codeact" else []
        asked = len(server.requests)
    (tmp_path / "states.jsonl").unlink(missing_ok=True)
    with FaultyServer(answer, latency_s=0.05) as server:
        line = command(server, scaffold, *options, "-j", "3", "-o", "out.jsonl")
        code, family, _ = stopped(line, tmp_path, lambda: len(server.requests) >= share * asked, signal.SIGKILL)
        assert code == -signal.SIGKILL and family and gone(family)
        before = records((tmp_path / "out.jsonl.partial").read_bytes().rpartition(b"\n")[0])
        assert not (tmp_path / "out.jsonl").exists() and (tmp_path / "out.jsonl.tape").exists()
        for name in ("out.jsonl.partial", "out.jsonl.tape"):
            with (tmp_path / name).open("ab") as file:
                file.write(b'{"job": "torn')
        run_command(*line, "--resume", cwd=tmp_path)
        assert len(server.requests) <= asked + 3  # those in flight
        total = len(server.requests)
        made = records((tmp_path / "out.jsonl").read_bytes())
        assert made[: len(before)] == before and len(made) == len(clean) and alike(clean, made)
        assert all([check_tokens(record, server.requests) for record in made])
        if states:
            assert alike(states, records((tmp_path / "states.jsonl").read_bytes()))
            assert all("slope 2.9" in json.dumps(record["messages"]) for record in made)  # 2.5 + 0.2 + 0.2
        run_command(*line, "--resume", cwd=tmp_path)  # nothing left to do
        assert len(server.requests) == total
    assert not list(tmp_path.glob("*.tape")) and not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
def test_a_session_is_rebuilt_whole_however_little_time_is_left(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    script = [cell("import time\ntime.sleep(2)\nx = 5"), cell("print('x is', x)"), FINISHES]
    with FaultyServer(in_steps(script), latency_s=0.2) as server:
        line = command(server, "codeact", "--max-seconds", "3", "-o", "out.jsonl")
        code, _, _ = stopped(line, tmp_path, lambda: len(server.requests) == 2, signal.SIGKILL)
        assert code == -signal.SIGKILL
        run_command(*line, "--resume", cwd=tmp_path)
    (record,) = records((tmp_path / "out.jsonl").read_bytes())
    assert [turn["cell"]["status"] for turn in record["turns"][:2]] == ["ok", "ok"]
    assert record["messages"][5]["content"] == "```\nx is 5\n```"


@pytest.mark.nightly
@pytest.mark.parametrize("scaffold", ["codeact", "memory"])
def test_killed_again_and_again(scaffold: str, tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    answer, options = PLAYS[scaffold]
    with FaultyServer(answer) as server:
        clean = records(run_command(*command(server, scaffold, *options), cwd=tmp_path).stdout)
        asked = len(server.requests)
    (tmp_path / "states.jsonl").unlink(missing_ok=True)
    draws, kills = random.Random(5), 0
    with FaultyServer(answer, latency_s=0.03) as server:
        line = command(server, scaffold, *options, "-j", "2", "-o", "out.jsonl")
        while not (tmp_path / "out.jsonl").exists():
            at = len(server.requests) + draws.randint(1, 6)
            resume = ["--resume"] if kills else []
            code, family, told = stopped(
                [*line, *resume], tmp_path, lambda at=at: len(server.requests) >= at, signal.SIGKILL
            )  # type: ignore[misc]
            assert code in (0, -signal.SIGKILL), told
            assert gone(family)
            kills += code != 0
        assert kills > 2 and len(server.requests) <= asked + 2 * kills
    assert alike(clean, records((tmp_path / "out.jsonl").read_bytes()))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_all_sandboxes_and_the_run_can_go_on(number: int, tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    answer, options = PLAYS["codeact"]
    with FaultyServer(answer, latency_s=0.05) as server:
        line = command(server, "codeact", *options, "-j", "3", "-o", "out.jsonl")
        code, family, told = stopped(line, tmp_path, lambda: len(server.requests) >= 9, number)
        assert code == 128 + number and b"Traceback" not in told
        assert len(family) > 2 and gone(family)
        run_command(*line, "--resume", cwd=tmp_path)
    made = records((tmp_path / "out.jsonl").read_bytes())
    assert len(made) == 4 and {record["validation"]["valid"] for record in made} == {True}


def test_resuming_with_other_options_is_refused(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    answer, _ = PLAYS["react"]
    with FaultyServer(answer) as server:
        run_command(*command(server, "react", "-o", "out.jsonl"), cwd=tmp_path)
        line = command(server, "react", "--max-turns", "3", "-o", "out.jsonl", "--resume")
        done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.decode()
        == "mle-rollout: cannot resume out.jsonl with other options: --max-turns was not given and is 3\n"
    )


def test_a_foreign_tape_is_refused(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "out.jsonl.tape").write_text("my own notes\n")
    line = command("http://127.0.0.1:9", "react", "-o", "out.jsonl", "--resume")
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and (tmp_path / "out.jsonl.tape").read_text() == "my own notes\n"
    assert done.stderr.decode() == "mle-rollout: out.jsonl.tape:1: not a tape of this command; move the file away\n"


@pytest.mark.parametrize(("left", "named"), [("tape", "tape"), ("graph/1.jsonl", "graph")])
def test_what_a_killed_run_paid_for_is_not_discarded_unasked(left: str, named: str, tmp_path: Path) -> None:
    """Also where it had completed no record."""
    write_tasks(tmp_path)
    path = tmp_path / f"out.jsonl.{left}"
    path.parent.mkdir(exist_ok=True)
    text = '{"kind": "search"}\n{"number": 0}\n' if named == "graph" else '{"job": "a", "what": "ask"}\n'
    path.write_text(text)
    line = ["mle-rollout", *FAST, "tasks.jsonl", "-o", "out.jsonl"]
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and path.read_text() == text
    assert done.stderr.decode() == (
        f"mle-rollout: out.jsonl.{named}: left by an unfinished run; --resume continues it, --force discards it\n"
    )
    run_command(*line, "--force", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("out*")) == [
        "out.jsonl", *(["out.jsonl.graph"] if named == "graph" else [])
    ]  # fmt: skip


@pytest.mark.parametrize("done", ["none", "first", "second"])
@pytest.mark.parametrize("scaffold", ["react", "memory"])
def test_a_task_that_stands_twice_in_the_input_is_finished_twice(scaffold: str, done: str, tmp_path: Path) -> None:
    """A killed run had written the records of one copy: without a tape, or of the copy that the tape names."""
    write_tasks(tmp_path)
    answer, options = PLAYS[scaffold]
    (tmp_path / "tasks.jsonl").write_text((tmp_path / "tasks.jsonl").read_text() * 2)
    with FaultyServer(answer) as server:
        line = command(server, scaffold, *options, "-g", "1", "--write-states", "states.jsonl", "-o", "out.jsonl")
        run_command(*line, cwd=tmp_path)
        written = {
            name: (tmp_path / name).read_bytes().splitlines(keepends=True) for name in ("out.jsonl", "states.jsonl")
        }
        for name, lines in written.items():
            (tmp_path / name).unlink()
            (tmp_path / f"{name}.partial").write_bytes(b"".join(lines[: len(lines) // 2]))
        if done != "none":
            ids = [json.loads(each)["id"] for lines in written.values() for each in lines[: len(lines) // 2]]
            tapes = Tapes(tmp_path / "out.jsonl.tape")
            tapes.done(ids[0] + ("" if done == "first" else "-2"), ids)
            tapes.close(complete=False)
        asked = len(server.requests)
        run_command(*line, "--resume", cwd=tmp_path)
        assert len(server.requests) == asked * 3 // 2
    for name, lines in written.items():
        made = records((tmp_path / name).read_bytes())
        assert alike(records(b"".join(lines)), made) and len(made) == len(lines) > 1


def test_a_run_that_never_reached_its_model_is_begun_again(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", *FAST, "-m", "m", "--scaffold", "react", "-o", "out.jsonl", "--retries", "0", "tasks.jsonl"]
    done = run_command(*line, "--model-url", "http://127.0.0.1:9", cwd=tmp_path, check=False)
    assert done.returncode == 1 and (tmp_path / "out.jsonl.tape").exists()
    answer, options = PLAYS["react"]
    with FaultyServer(answer) as server:
        run_command(*line, "--model-url", server.url, *options, cwd=tmp_path)
    assert records((tmp_path / "out.jsonl").read_bytes())


@pytest.mark.parametrize("order", [(), ("-k",)])
def test_traces_ahead_of_a_refused_request_are_written_and_paid_once(order: tuple[str, ...], tmp_path: Path) -> None:
    write_tasks(tmp_path)
    options = ("--max-traces", "3", "--max-turns", "1", *order, "--max-rejects", "1", "-o", "out.jsonl")
    with FaultyServer(PLAYS["memory"][0], ["", "", "400"]) as server:
        line = [each for each in command(server, "memory", *options) if each != "-q"]
        told = run_command(*line, cwd=tmp_path).stderr.decode()
        before = records((tmp_path / "out.jsonl").read_bytes())
        assert [record["trace_number"] for record in before] == [0, 1]
        assert "--resume works on the refused rollouts again, with the answers that they have" in told
        assert (tmp_path / "out.jsonl.tape").exists()
        asked = len(server.requests)
        run_command(*line, "--resume", cwd=tmp_path)
        assert len(server.requests) == asked + 1
    made = records((tmp_path / "out.jsonl").read_bytes())
    assert made[:2] == before and [record["trace_number"] for record in made] == [0, 1, 2]
    assert not list(tmp_path.glob("out.jsonl.*"))
