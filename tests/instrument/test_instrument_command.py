"""mle-instrument as it is called, and what becomes of its reports in mle-sandbox and mle-grade."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, TESTS, mostly_slow, records, run_command
from model_server import FaultyServer

from mletools.instrument import MARKERS
from mletools.models import Request
from mletools.simulated import instrumenter

HEAD = "import numpy as np, pandas as pd\nfrom sklearn.linear_model import LogisticRegression\nfrom sklearn.metrics import log_loss\n"
LOAD = 'train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")\nsub = pd.read_csv("input/sample_submission.csv")\n'
READY = (
    "columns = [c for c in test if c not in sub]\n"
    "target = [c for c in train if c not in test][0]\n"
    "X_train, X_test = train[columns].fillna(0), test[columns].fillna(0)\n"
)
FIT = "model = LogisticRegression()\nmodel.fit(X_train, train[target])\n"
LOSSES = (
    "print(log_loss(train[target], model.predict_proba(X_train)))\n"
    "val = X_train[::2]\n"
    "print(model.score(val, train[target][::2]))\n"
)
PREDICT = 'pred = model.predict(X_test)\nsub[target] = pred\nsub.to_csv("submission.csv", index=False)\n'
SEVEN = list(MARKERS)
IMPORTED, LOADED, DEFINED, TRAINING, TRAINED, TESTING, PREDICTED = MARKERS
FORGED = "".join(f"print({text!r}); print('[mle:0000000000000007] {text}')\n" for text in MARKERS)
READS_ITSELF = """import os, re
found = re.search(r"\\[mle:\\w+\\]", open(__file__).read())
nonce = found.group() if found else "[mle:0000000000000007]"
for text in ("loaded data", "trained model", "nothing of the kind"):
    os.write(1, f"\\n{nonce} {text}\\n".encode())
"""
# A program, the reports that arrive, and whether it hands in a valid submission.
SOLUTIONS: dict[str, tuple[str, list[str], bool]] = {
    "whole": (HEAD + LOAD + READY + FIT + LOSSES + PREDICT, SEVEN, True),
    "no such package": ("import no_such_package\n" + LOAD, [], False),
    "no such file": (HEAD + LOAD.replace("test.csv", "tests.csv"), [IMPORTED, LOADED], False),
    "loads nothing": (HEAD + 'data = pd.read_csv("nothing.csv")\n', [IMPORTED], False),
    "no such column": (HEAD + LOAD + READY + FIT.replace("train[target]", "train[0]"), [IMPORTED, LOADED, DEFINED], False),
    "hands in nothing": (HEAD + LOAD + READY + FIT + PREDICT.rpartition("sub.")[0], [IMPORTED, LOADED, DEFINED, TRAINED, PREDICTED], False),
    "prints the texts": (FORGED, [], False),
    "reads itself": (READS_ITSELF, [IMPORTED], False),
    "does not parse": ("import os\ndef (\n", [], False),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(stages: dict[str, Any]) -> Path:
    """The folder of the pipe with `solutions.jsonl` in it, a record of the wine task for each of SOLUTIONS."""
    folder: Path = stages["folder"]
    template = next(r for r in records(stages["rollouts"].read_bytes()) if "class" in r["task"]["problem"])
    made = [{**template, "id": name, "code": code} for name, (code, _, _) in SOLUTIONS.items()]
    (folder / "solutions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in made))
    return folder


def good_answer(body: dict[str, Any]) -> str:
    """What the scripted model says to a request."""
    return instrumenter.play("", Request(body["messages"], 0)).text


def graded(folder: Path, source: str, *options: str, stderr: bytes = b"") -> dict[str, dict[str, Any]]:
    """The records after mle-instrument with these options, mle-sandbox and mle-grade, by id."""
    done = run_command("mle-instrument", "-q", *options, source, cwd=folder)
    assert done.stderr == stderr
    ran = run_command("mle-sandbox", "-q", "--timeout", "100", input=done.stdout, cwd=folder)
    found = run_command("mle-grade", "-q", "--reward", "partial-credit", input=ran.stdout, cwd=folder)
    return {record["id"]: record for record in records(found.stdout)}


@pytest.mark.parametrize("options", mostly_slow([(), ("--mode", "lm", "-m", "scripted")], 1))
def test_reports_arrive_and_are_paid_for(place: Path, options: tuple[str, ...]) -> None:
    found = graded(place, "solutions.jsonl", *options)
    for name, (code, markers, valid) in SOLUTIONS.items():
        record = found[name]
        if options:  # the scripted model reports no losses, and the data once both files are read
            left_out = (TRAINING, TESTING, LOADED if name == "no such file" else "")
            markers = [text for text in markers if text not in left_out]
        assert record["execution"]["markers"] == markers, name
        assert record["grade"]["valid"] == valid, name
        if not valid:
            assert record["reward"] == pytest.approx(-10 + 0.1 * len(markers)), name
        else:
            assert abs(record["reward"]) < 9
        shown = record["execution"]["stdout"]["head"] + record["execution"]["stderr"]["head"]
        assert record["code"] == code and record["instrument"]["nonce"] not in shown
    if options:
        modes = {name: record["instrument"]["mode"] for name, record in found.items()}
        assert modes == {**dict.fromkeys(SOLUTIONS, "lm"), "prints the texts": "ast", "does not parse": None}
        assert found["prints the texts"]["instrument"]["refusal"] == "has no reports"
        assert "usage" not in found["does not parse"]["instrument"]


@pytest.mark.slow
def test_plain_markers_can_be_forged_as_the_warning_says(place: Path) -> None:
    warning = b"mle-instrument: with --plain-markers a solution can print the reports itself, and earn their credit for nothing\n"
    found = graded(place, "solutions.jsonl", "--plain-markers", stderr=warning)
    assert found["whole"]["instrument"]["nonce"] == "" and found["whole"]["execution"]["markers"] == SEVEN
    assert "trained model\n" in found["whole"]["execution"]["stdout"]["head"]
    # plain markers stand in the program: a traceback shows that of the call that failed, which is no report
    assert found["loads nothing"]["execution"]["markers"] == [IMPORTED]
    assert "loaded data" in found["loads nothing"]["execution"]["stderr"]["head"]
    assert found["prints the texts"]["execution"]["markers"] == SEVEN


@pytest.mark.slow
def test_programs_print_hand_in_and_fail_as_before(place: Path, stages: dict[str, Any]) -> None:
    """Every program of tests/solutions, whose warm runs have fixed seeds, with and without reports."""
    public = place / "soup" / "public"
    public.mkdir(parents=True)
    rows = "".join(f"{at},{at % 7},{at % 5},{at % 3},{at % 2}\n" for at in range(60))
    (public / "train.csv").write_text("id,a,b,c,y\n" + rows)
    (public / "test.csv").write_text("id,a,b,c\n" + "".join(f"{at},{at % 4},1,2\n" for at in range(9)))
    template = records(stages["rollouts"].read_bytes())[0]
    task = {**template["task"], "data": {**template["task"]["data"], "dir": "soup"}}
    paths = sorted((TESTS / "solutions").glob("*.py"))
    made = [{**template, "task": task, "id": path.name, "code": path.read_text()} for path in paths]
    source = "".join(json.dumps(record) + "\n" for record in made).encode()
    outcomes = []
    for options in (None, (), ("--mode", "lm", "-m", "scripted")):
        told = source if options is None else run_command("mle-instrument", "-q", *options, input=source).stdout
        ran = run_command("mle-sandbox", "-q", "-k", "--timeout", "60", input=told, cwd=place)
        found = {}
        for record in records(ran.stdout):
            execution = record["execution"]
            printed = execution["stdout"]["head"]
            lines = execution["stderr"]["head"].split("\n")
            failed = [line for line in lines if line.startswith("  File") or not line.startswith(" ")]  # no source
            found[record["id"]] = (
                execution["status"],
                execution["exit_code"],
                printed,
                failed,
                execution["submission"],
            )
        outcomes.append(found)
    assert len(outcomes[0]) == len(paths) == len(outcomes[1])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] == outcomes[2]


@pytest.mark.parametrize(
    ("persona", "modes"),
    [
        ("lazy", {"lm"}),
        ("hostile", {"ast"}),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("looping", {"ast"}), ("malformed", {"ast", "lm"}), ("solver", {"lm"}))
        ),
    ],
)
def test_what_a_bad_model_makes_of_programs_never_runs(place: Path, persona: str, modes: set[str]) -> None:
    played = records((place / "rollouts.jsonl").read_bytes())
    first = played
    for number in range(15 if persona == "malformed" else 0):  # how it errs depends on the program's text
        again = [
            {**one, "id": f"{one['id']}{number}", "code": f"{one['code']}\n# {number}\n"}
            for one in first
            if one["code"]
        ]
        played = [*played, *again]
    source = "".join(json.dumps(record) + "\n" for record in played).encode()
    done = run_command("mle-instrument", "-k", "--mode", "lm", "-m", f"scripted:{persona}", input=source)
    plain = {record["id"]: record for record in records(run_command("mle-instrument", "-k", input=source).stdout)}
    seen, refusals = set(), set()
    for record in records(done.stdout):
        by_table, added = plain[record["id"]]["instrument"], record["instrument"]
        if "model" not in added:
            assert added == by_table  # no code, or none that parses
            continue
        seen.add(added["mode"])
        refusals.add(added["refusal"])
        if added["mode"] == "ast":
            assert {name: added[name] for name in by_table} == by_table and added["refusal"]
        else:
            assert added["nonce"] == by_table["nonce"] and added["refusal"] is None
            if persona == "lazy":
                assert added["markers"] == SEVEN[:2]
            else:  # a model also sees what a module does that the table does not know
                assert set(by_table["markers"]) <= set(added["markers"])
    assert seen == modes, refusals
    told = "by the model" if modes == {"lm"} else "refused, by syntax tree"
    assert told in done.stderr.decode()


READ = ("blocks", "unclosed")  # the same program twice, and a block that is never closed: no doubt what is meant


@pytest.mark.parametrize("how", READ)
def test_an_answer_in_another_form_is_read(place: Path, how: str) -> None:
    said = instrumenter.careless(SOLUTIONS["whole"][0], how).text
    source = (place / "solutions.jsonl").read_bytes().split(b"\n")[0]
    with FaultyServer(lambda body: said) as server:
        command = ("mle-instrument", "-q", "--mode", "lm", "-m", "m", "--model-url", server.url)
        (record,) = records(run_command(*command, input=source).stdout)
    added = record["instrument"]
    assert (added["mode"], added["refusal"]) == ("lm", None)
    assert added["markers"] == [marker for marker in SEVEN if not marker.endswith("loss:")]


@pytest.mark.parametrize("how", [how for how in instrumenter.CARELESS if how not in READ])
def test_each_careless_answer_is_refused(place: Path, how: str) -> None:
    code = SOLUTIONS["whole"][0]
    said = instrumenter.careless(code, how).text
    source = (place / "solutions.jsonl").read_bytes().split(b"\n")[0]
    with FaultyServer(lambda body: said) as server:
        command = ("mle-instrument", "-q", "--mode", "lm", "-m", "m", "--model-url", server.url, "--price", "1,2")
        (record,) = records(run_command(*command, input=source).stdout)
    added = record["instrument"]
    expected = {
        "corrects": "changes the program: line 1 of the answer",
        "drops": "leaves out line 16 of the program",
        "value": "changes the program: line 23 of the answer",
        "text": "has no single block of Python",
        "early": "reports 'trained model' before anything that earns it",
        "endless": "cut off after 8192 tokens",
    }
    assert (added["mode"], added["refusal"], added["markers"]) == ("ast", expected[how], SEVEN)
    spent = added["usage"]
    assert spent["usd"] == pytest.approx((spent["prompt_tokens"] + 2 * spent["completion_tokens"]) / 1e6)


def test_the_model_sees_no_nonce_and_jobs_change_nothing(place: Path) -> None:
    source = b"".join((place / "rollouts.jsonl").read_bytes().splitlines(keepends=True)[:6])

    outputs = []
    for jobs in ("1", "3"):
        with FaultyServer(good_answer, faults=["500", "html"], latency_s=0.01) as server:
            command = ("mle-instrument", "-q", "-k", "--mode", "lm", "-m", "m", "--model-url", server.url)
            found = records(run_command(*command, "-j", jobs, input=source).stdout)
        for record in found:
            record["instrument"].get("usage", {}).pop("seconds", None)
        outputs.append(found)
        asked = json.dumps(server.requests)
        assert "[mle:" not in asked and not any("temperature" in body for body in server.requests)
    assert outputs[0] == outputs[1] and {r["instrument"]["mode"] for r in found} >= {"lm"}


def test_a_program_that_is_too_long_for_the_model_is_left_to_the_table(place: Path) -> None:
    source = (place / "solutions.jsonl").read_bytes().split(b"\n")[0]
    with FaultyServer(lambda body: "", context=100) as server:
        command = ("mle-instrument", "-q", "--mode", "lm", "-m", "m", "--model-url", server.url)
        (record,) = records(run_command(*command, input=source).stdout)
    assert record["instrument"]["refusal"] == "the program is too long for the model"
    assert record["instrument"]["mode"] == "ast" and record["instrument"]["markers"] == SEVEN


def test_a_server_that_fails_is_an_error_and_no_record(place: Path) -> None:
    source = (place / "solutions.jsonl").read_bytes()
    with FaultyServer(lambda body: "", faults=["500"] * 4) as server:
        command = ("mle-instrument", "--mode", "lm", "-m", "m", "--retries", "1", "--model-url", server.url)
        done = run_command(*command, input=source, check=False)
    assert done.returncode == 1 and done.stdout == b"{"
    told = done.stderr.decode().splitlines()
    assert len(told) == 1 and told[0].startswith("mle-instrument: stdin:1: ") and "500" in told[0]


def test_killed_and_resumed_it_asks_about_the_rest_only(place: Path, tmp_path: Path) -> None:
    source = str(place / "solutions.jsonl")

    with FaultyServer(good_answer, faults=["", "", "hang"]) as server:
        command = ("mle-instrument", "-q", "--mode", "lm", "-m", "m", "--model-url", server.url)
        process = subprocess.Popen([str(BIN / command[0]), *command[1:], "-o", "out.jsonl", source], cwd=tmp_path)
        partial = tmp_path / "out.jsonl.partial"
        while len(server.requests) < 3 or partial.read_bytes().count(b"\n") < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "out.jsonl").exists()
        run_command(*command, "-o", "out.jsonl", "--resume", source, cwd=tmp_path)
        found = records((tmp_path / "out.jsonl").read_bytes())
        assert len(server.requests) == 3 + len(SOLUTIONS) - 1 - 2  # one does not parse, two were finished
        whole = records(run_command(*command, source, cwd=tmp_path).stdout)
    for record in [*found, *whole]:
        record["instrument"].get("usage", {}).pop("seconds", None)
    assert found == whole
