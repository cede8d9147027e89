"""States of react and memory, played by script on a server: what they hold, that they can be run again, work from them."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import (
    ENDS,
    FINISHES,
    HELP,
    SCORES,
    Played,
    cell,
    command,
    executes,
    in_steps,
    play,
    program,
    runs,
    test_score,
    validation_score,
    write_tasks,
)
from played_checks import alike, check_nothing_told, check_tokens, graded, observed

from mletools.rollout.draw import LearnableState
from mletools.scaffolds.interface import state_id

INVALID = "open('submission.csv', 'w').write('id,y\\n501,1\\n')\n"
STATES = ("--write-states", "states.jsonl")


def states_of(played: Played) -> list[dict[str, Any]]:
    return records((played.folder / "states.jsonl").read_bytes())


@pytest.fixture(scope="module")
def react(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A program that fails, a valid one, an invalid one, a better one."""
    folder = tmp_path_factory.mktemp("react")
    tasks = write_tasks(folder)
    script = [runs("1 / 0\n"), runs(program(2.5)), SCORES, runs(INVALID), runs(program(2.9)), SCORES, ENDS]
    with FaultyServer(in_steps(script)) as server:
        return play(server, "react", folder, tasks, *STATES)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One that is only tried, a valid one, a worse one, a better one; what is handed in is the best."""
    folder = tmp_path_factory.mktemp("memory")
    tasks = write_tasks(folder)
    script = [f"<validate_code>\n{program(2.4)}</validate_code>", *map(executes, map(program, (2.5, 2.0, 2.9)))]
    with FaultyServer(in_steps(script)) as server:
        return play(server, "memory", folder, tasks, "--max-traces", "1", "--max-turns", "4", *STATES)


@pytest.mark.parametrize(("of", "turns"), [("react", (1, 4)), ("memory", (1, 3))])
def test_a_state_is_written_where_the_solution_at_hand_is_a_new_valid_one(
    of: str, turns: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    played: Played = request.getfixturevalue(of)
    whole, states = played.of("mill_0"), states_of(played)
    task = played.tasks["mill_0"]
    assert [state["state"] for state in states] == [
        {
            "score": test_score(played.folder, task, slope),
            "validation": validation_score(played.folder, task, slope),
            "code": program(slope),
            "rollout": whole["id"],
            "turn": turn,
        }
        for turn, slope in zip(turns, (2.5, 2.9), strict=True)
    ]
    for state in states:
        turn = state["state"]["turn"]
        assert state["id"] == state_id(whole["id"], turn) and state["stop_reason"] == "asked"
        assert state["turns"] == whole["turns"][: turn + 1] and state["settings"] == whole["settings"]
        *before, told = state["messages"]
        assert before == whole["messages"][: len(before)]
        assert told == {"role": "user", "content": observed(whole, turn)}  # its ids come with the next answer
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "input").symlink_to(played.folder / f"views/{task['id']}-0.2/public")
    subprocess.run([sys.executable, "-c", states[1]["state"]["code"]], cwd=folder, check=True)
    assert "slope 2.9" in states[1]["turns"][-1]["execution"]["stdout"]["head"]
    assert len((folder / "submission.csv").read_text().splitlines()) > 10


def test_states_change_nothing_of_the_rollouts(react: Played, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    script = [runs("1 / 0\n"), runs(program(2.5)), SCORES, runs(INVALID), runs(program(2.9)), SCORES, ENDS]
    with FaultyServer(in_steps(script)) as server:
        assert alike(play(server, "react", tmp_path, tasks).records, react.records)


def test_a_resumed_run_writes_each_state_once(tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    script = in_steps([runs(program(2.5)), runs(program(2.9)), ENDS])
    with FaultyServer(script) as server:
        line = [*command(server, "react", *STATES), "-j", "1", "-o", "out.jsonl"]
        done = run_command(*line, cwd=tmp_path)
        whole = (tmp_path / "states.jsonl").read_bytes()
        assert done.returncode == 0 and len(records(whole)) == 4
        for name, lines in (
            ("out.jsonl", 1),
            ("states.jsonl", 3),
        ):  # killed in the second rollout, after its first state
            kept = (tmp_path / name).read_bytes().split(b"\n")
            (tmp_path / f"{name}.partial").write_bytes(b"".join(line + b"\n" for line in kept[:lines]))
            (tmp_path / name).unlink()
        run_command(*line, "--resume", cwd=tmp_path)
    assert Counter(each["id"] for each in records((tmp_path / "states.jsonl").read_bytes())) == Counter(
        each["id"] for each in records(whole)
    )


# --- from a state


def begins(scaffold: str, played: Played, folder: Path, policy: Any, *options: str, also: str = "") -> Played:
    """The rollouts of a scaffold from the first state of a run, and from the tasks in `also`."""
    first = json.dumps(states_of(played)[0]) + "\n"
    (folder / "begin.jsonl").write_text(first + also)
    with FaultyServer(policy) as server:
        line = command(server, scaffold, "--data", str(played.folder), *options, tasks="begin.jsonl")
        made = records(run_command(*line, cwd=folder).stdout)
        return Played(folder, played.tasks, made, list(server.requests))


@pytest.mark.parametrize("of", ["react", "memory"])
def test_react_begins_from_the_program_at_hand(of: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Also from a state that memory wrote, and the reward can be the improvement on it."""
    played: Played = request.getfixturevalue(of)
    start = states_of(played)[0]
    done = begins("react", played, tmp_path, in_steps([runs(program(2.9)), SCORES, ENDS]), "-g", "2")
    one, two = done.records
    question = one["messages"][1]["content"]
    score = validation_score(played.folder, played.tasks["mill_0"], 2.5)
    assert f"its score on the validation rows was {score:g}." in question and program(2.5).strip() in question
    assert "slope 2.5\n```" in question and two["messages"][1]["content"] == question
    assert one["group"] == two["group"] and one["id"] != two["id"]
    assert one["state"] == start["state"] and one["stop_reason"] == "finished" and one["code"] == program(2.9)
    assert [check_tokens(record, done.requests) for record in done.records] == [1, 1]
    check_nothing_told(played.folder, done.records, done.requests)
    rewards = [each["reward"] for each in graded(played.folder, done.records, "--reward", "improvement")]
    assert rewards == [1.0, 1.0]


def test_tasks_and_states_stand_in_one_input(react: Played, tmp_path: Path) -> None:
    """And a task's rollouts are those that it has alone."""
    tasks = (react.folder / "tasks.jsonl").read_text()
    policy = in_steps([runs(program(2.9)), ENDS])
    both = begins("react", react, tmp_path, policy, also=tasks)
    assert ["state" in record for record in both.records] == [True, False]
    with FaultyServer(policy) as server:
        alone = records(run_command(*command(server, "react", "--data", str(react.folder),
                                             tasks=str(react.folder / "tasks.jsonl")), cwd=tmp_path).stdout)  # fmt: skip
        dry = run_command(
            *(each for each in command(server, "react", "-g", "3", tasks="begin.jsonl") if each != "-q"), "--dry-run",
            cwd=tmp_path,
        )  # fmt: skip
    assert alike(alone, both.records[1:])
    assert b"would play 6 rollouts of played (1 rollouts and 1 tasks x 3)" in dry.stderr


def test_the_score_of_a_state_is_one_of_those_that_may_be_shown(react: Played, tmp_path: Path) -> None:
    policy = in_steps([runs(program(2.9)), SCORES, ENDS])
    for most, told in (("0", "its score is not told."), ("1", "its score on the validation rows was")):
        (record,) = begins("react", react, tmp_path, policy, "--max-scores", most).records
        assert told in record["messages"][1]["content"]
        assert not any("shown_score" in turn for turn in record["turns"])
    (record,) = begins("react", react, tmp_path, policy, "--max-scores", "2").records
    assert sum("shown_score" in turn for turn in record["turns"]) == 1


def test_the_first_trace_of_a_memory_begins_from_the_state(memory: Played, tmp_path: Path) -> None:
    """Whatever --reset-ratio says; later ones by that, from a pool that holds it."""

    def worse(body: dict[str, Any]) -> str:
        return executes(program(2.0))

    options = ("--max-traces", "3", "--max-turns", "1", "--pool-size", "1")
    done = begins("memory", memory, tmp_path, worse, *options, "--reset-ratio", "1")
    start = states_of(memory)[0]["state"]
    assert [record["trace"] for record in done.records] == ["memory", "reset", "reset"]
    assert done.records[0]["state"] == start
    again = begins("memory", memory, tmp_path, worse, *options, "--reset-ratio", "0")
    assert [record["state"] for record in again.records] == [start] * 3
    check_nothing_told(memory.folder, [*done.records, *again.records], done.requests + again.requests)


def test_a_state_without_a_validation_score_is_ranked_by_the_test_score_or_refused(
    memory: Played, tmp_path: Path
) -> None:
    state = states_of(memory)[0]
    state["state"]["validation"] = None
    (tmp_path / "begin.jsonl").write_text(json.dumps(state) + "\n")
    with FaultyServer(in_steps([executes(program(2.9))])) as server:
        line = command(server, "memory", "--data", str(memory.folder), "--max-traces", "1", "--max-turns", "1",
                       tasks="begin.jsonl")  # fmt: skip
        (record,) = records(run_command(*line, cwd=tmp_path).stdout)
        assert "its score is not told." in record["messages"][1]["content"]
        done = run_command(*line, "--memory-by", "validation", cwd=tmp_path, check=False)
    assert done.returncode == 1 and b"it has no validation score, by which solutions are ranked" in done.stderr


@pytest.mark.parametrize("scaffold", ["react", "memory"])
def test_what_cannot_be_begun_from_is_set_aside(scaffold: str, react: Played, tmp_path: Path) -> None:
    state, whole = states_of(react)[0], react.of("mill_0")
    without = json.loads(json.dumps(state))
    without["state"]["score"] = None
    lines = [json.dumps(each) + "\n" for each in (whole, without)]
    (tmp_path / "begin.jsonl").write_text("".join(lines))
    with FaultyServer(in_steps([ENDS])) as server:
        line = command(server, scaffold, "--data", str(react.folder), "--max-rejects", "9", tasks="begin.jsonl")
        done = run_command(*line, "--allow-empty", cwd=tmp_path, check=False)
        assert re.findall(r"begin.jsonl:(\d): (.*)", done.stderr.decode()) == [
            (str(at), "not a state with a valid solution: use what --scaffold react or memory --write-states wrote")
            for at in (1, 2)
        ]
        (tmp_path / "begin.jsonl").write_text(json.dumps(state) + "\n")
        done = run_command(*line, "--validation", "0.3", cwd=tmp_path, check=False)
        assert b"its score is on other validation rows: it was made with --validation 0.2" in done.stderr
        assert server.requests == []


def test_a_state_of_a_session_is_no_program_to_begin_from(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    with FaultyServer(in_steps([cell(program(2.5)), HELP, FINISHES])) as server:
        play(server, "codeact", tmp_path, tasks, "--ideator", "null", *STATES)
        done = run_command(*command(server, "react", tasks="states.jsonl"), cwd=tmp_path, check=False)
    assert done.returncode == 1 and b"states.jsonl:1: its solution is of a session: use what" in done.stderr


def test_states_are_drawn_by_their_own_rewards(react: Played, tmp_path: Path) -> None:
    """What began from a state and was graded counts for the state, not for its task."""
    policy = in_steps([runs(program(2.9)), ENDS])
    options = ("-g", "2", "--forever", "--passes", "1", "--draw", "learnable", "--draw-from", "graded.jsonl")
    done = begins("react", react, tmp_path, policy, *options, also=(react.folder / "tasks.jsonl").read_text())
    with open(tmp_path / "graded.jsonl", "w", encoding="utf-8") as file:
        for record in graded(react.folder, done.records):
            reward = float(record["sample"]) if "state" in record else 1.0
            file.write(json.dumps({**record, "reward": reward}) + "\n")
    first, task = states_of(react)[0]["id"], react.tasks["mill_0"]["id"]
    state = LearnableState.read(None, 0, tmp_path / "graded.jsonl", print)
    for _ in range(3):
        state.next([first, task])
    known = state.learnable.known
    assert (known[first]["spread"], known[first]["groups"]) == (0.5, 1) == (0.5, known[task]["groups"])
    assert known[task]["spread"] == 0 and state.learnable.shares([first, task]) == pytest.approx([0.9, 0.1])
