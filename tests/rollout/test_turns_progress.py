"""Agents in turns with --instrument: what is watched, told and recorded, and what a program cannot say in its place."""

import json
from pathlib import Path

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import ENDS, FAST, Played, by_task, executes, fenced, in_steps, play, program, runs, write_tasks
from played_checks import observed

from mletools.instrument import MARKERS
from mletools.records import schema

IMPORTED, LOADED, DEFINED, _, TRAINED, _, PREDICTED = MARKERS
SAW = "Stages that the sandbox saw it complete: "
LOADS = "import pandas as pd\nfrom sklearn.linear_model import Ridge\ntrain = pd.read_csv('input/train.csv')\n"
FITS = "model = Ridge().fit(train[['x']], train['y'])\n"
FAILS = f"{LOADS}{FITS}print(train['z'])\nmodel.predict(pd.read_csv('input/test.csv')[['x']])\n"
# Says all of it, in our words too, and has done none of it.
BOASTS = "\n".join(f"print({marker!r})" for marker in MARKERS) + (
    f"\nprint({SAW + ', '.join(MARKERS) + '.'!r})\nimport re\n"
    "print(re.findall(r'\\[mle:', open(__file__).read()))\nprint('```')\n"
)


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("progress")
    tasks = write_tasks(folder, 2)
    scripts = {
        "mill_0": [runs(FAILS), runs("print(\n"), ENDS, runs(LOADS + program(2.5)), ENDS],
        "mill_1": [runs(BOASTS)],
    }
    with FaultyServer(by_task({name: in_steps(script) for name, script in scripts.items()})) as server:
        return play(server, "react", folder, tasks, "--max-turns", "5", "--instrument")


def test_a_program_that_failed_is_told_how_far_it_came(last: Played) -> None:
    record = last.of("mill_0")
    schema.check(record, "rollout")
    failed = record["turns"][0]["execution"]
    assert failed["status"] == "error" and failed["markers"] == [IMPORTED, LOADED, DEFINED, TRAINED]
    assert set(failed["watched"]) == {IMPORTED, LOADED, DEFINED, TRAINED, PREDICTED}
    told = observed(record, 0)
    assert (
        f"{SAW}imported packages, loaded data, defined model, trained model. Not seen: predicted test labels." in told
    )
    assert "KeyError: 'z'" in told and "[mle:" not in json.dumps(record)
    # what cannot be parsed is not watched: the traceback says it all
    assert "watched" not in record["turns"][1]["execution"] and SAW not in observed(record, 1)
    assert record["settings"]["instrument"] is True
    assert record["execution"]["markers"] == [IMPORTED, LOADED] == record["turns"][3]["execution"]["markers"]


def test_what_a_program_prints_is_never_our_sentence(last: Played) -> None:
    record = last.of("mill_1")
    told = observed(record, 0)
    assert record["turns"][0]["execution"]["markers"] == [IMPORTED]
    before, fence, printed = told.partition("````")
    assert before.count(SAW) == 1 and f"{SAW}imported packages." in before and fence
    assert SAW in printed.partition("\n````")[0] and SAW not in printed.partition("\n````")[2]


def test_the_credit_of_an_agent_in_turns(last: Played) -> None:
    text = "".join(json.dumps(record) + "\n" for record in last.records).encode()
    output = run_command(
        "mle-grade", "--data", ".", "-q", "--reward", "partial-credit", input=text, cwd=last.folder
    ).stdout
    rewards = {record["task"]["name"]: record for record in records(output)}
    assert rewards["mill_1"]["reward"] == pytest.approx(-9.9)  # one of seven, for the import that it really did
    assert rewards["mill_0"]["grade"]["valid"]


def test_the_improve_prompt_and_memory(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, 1)
    with FaultyServer(in_steps([fenced("import csv\n1 / 0\n"), fenced(program(2.5))])) as server:
        improved = play(server, "improve", tmp_path, tasks, "--instrument")
    question = improved.requests[1]["messages"][0]["content"]
    assert "ZeroDivisionError" in question and f"{SAW}imported packages." in question
    with FaultyServer(in_steps([executes("import csv\n1 / 0\n")])) as server:
        traced = play(server, "memory", tmp_path, tasks, "--instrument", "--max-traces", "1", "--max-turns", "1")
    assert f"{SAW}imported packages." in traced.records[0]["messages"][-1]["content"]


@pytest.mark.parametrize(("options", "seen"), [((), True), (("--plain-markers",), False)])
def test_a_pool_tells_what_the_sandbox_saw(options: tuple[str, ...], seen: bool, tmp_path: Path) -> None:
    """`single --pool`: the stages of an earlier program, unless it could have printed them itself."""
    write_tasks(tmp_path, 1)
    with FaultyServer(lambda body: fenced(program(2.5))) as server:
        line = ["mle-rollout", "-m", "played", "--model-url", server.url, "--data", ".", "-q"]
        rollouts = run_command(*line, "tasks.jsonl", cwd=tmp_path).stdout
        watched = run_command("mle-instrument", "-q", *options, input=rollouts, cwd=tmp_path).stdout
        executed = run_command("mle-sandbox", *FAST, input=watched, cwd=tmp_path).stdout
        (tmp_path / "pool.jsonl").write_bytes(executed)
        improve = [*line, "--pool", "pool.jsonl", "--improve-ratio", "1", "tasks.jsonl"]
        (record,) = records(run_command(*improve, cwd=tmp_path).stdout)
    question = record["messages"][0]["content"]
    assert "slope 2.5" in question
    assert (f"{SAW}imported packages" in question) is seen
    assert ("watched" in records(executed)[0]["execution"]) is seen


def test_sessions_are_not_watched(tmp_path: Path) -> None:
    refused = run_command("mle-rollout", "--scaffold", "codeact", "--instrument", cwd=tmp_path, check=False)
    assert refused.returncode == 2 and b"--instrument" in refused.stderr
