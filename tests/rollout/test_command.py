"""Scaffold command: other people's agents in the sandbox, what of their work is recorded, and what they cannot do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command, without_times
from model_server import FaultyServer
from outside_agents import write_agents
from played import FAST, SEARCH, Answer, call, command, in_steps, program, test_score, write_tasks
from played_checks import check_nothing_told, check_protocol, check_tokens, graded, secrets_of

SAMPLE = "cp input/sample_submission.csv submission.csv"
WRITES = f"cat > solve.py <<'EOF'\n{program(2.9)}EOF\npython3 solve.py"
SOLVES = [call("bash", command="ls input"), call("bash", command=WRITES), "It is done."]


def by_hand(folder: Path, agent: str, *options: str) -> dict[str, Any]:
    """The rollout of an agent that asks no model."""
    line = ("mle-rollout", "--scaffold", "command", "--agent", agent, *FAST, *options, "tasks.jsonl")
    (record,) = records(run_command(*line, cwd=folder).stdout)
    return record


def play(folder: Path, answer: Answer, agent: str, *options: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rollout of the agent FOLDER/agent/AGENT.py, and what its model's server was asked."""
    place = str(folder / "agent")
    with FaultyServer(answer) as server:
        line = command(server, "command", "--agent", f"python3 {place}/{agent}.py", "--agent-folder", place, *options)
        (record,) = records(run_command(*line, cwd=folder).stdout)
        return record, list(server.requests)


def test_what_an_agent_leaves_is_graded(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    agent = f"diff - {{instruction_file}} && echo {{model}} asks $OPENAI_BASE_URL; ls; {SAMPLE}; exit 3"
    record = by_hand(tmp_path, agent)
    execution = record["execution"]
    assert (execution["status"], execution["exit_code"], execution["backend"]) == ("error", 3, "local")
    assert execution["protections"]["no_network"] and execution["protections"]["private_files"]
    said = execution["stdout"]["head"].split("\n")
    assert said[0] == "scripted asks http://127.0.0.1:8000/v1" and {"input", "instruction.md"} <= set(said)
    (message,) = record["messages"]
    assert message["role"] == "user" and "Predict y from x" in message["content"]
    assert (record["turns"], record["code"], record["stop_reason"]) == ([], None, "finished")
    assert record["settings"]["own"] == {"agent": agent}
    (after,) = graded(tmp_path, [record])
    assert after["grade"]["valid"] and after["grade"]["score"] == test_score(tmp_path, task, 0)


def test_the_conversation_is_recorded_with_its_exact_tokens(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    write_agents(tmp_path)
    record, requests = play(tmp_path, in_steps(SOLVES), "shell")
    assert [message["role"] for message in record["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant")
    ]
    assert "sample_submission.csv" in record["messages"][3]["content"]
    assert [turn["action"] for turn in record["turns"]] == ["agent"] * 3
    assert [bool(turn["submission"]) for turn in record["turns"]] == [False, True, False]
    assert record["turns"][1]["grade"]["score"] == test_score(tmp_path, task, 2.9)
    assert record["execution"]["stdout"]["head"] == "the agent has ended\n"
    (tmp_path / "rollout.jsonl").write_text(json.dumps(record) + "\n")
    shown = run_command("mle-show", "--color", "never", "rollout.jsonl", cwd=tmp_path).stdout.decode()
    assert "step 2" in shown and "the agent has ended" in shown and "nothing was handed in" not in shown
    assert check_tokens(record, requests) == 1 and requests[0]["tools"][0]["function"]["name"] == "bash"
    check_protocol(requests[-1]["messages"])
    check_nothing_told(tmp_path, [record], requests)
    (after,) = graded(tmp_path, [record])
    assert after["grade"]["score"] == test_score(tmp_path, task, 2.9)


ANEW = """
from asking import ask

first = [{"role": "system", "content": "You plan."}, {"role": "user", "content": "What comes first?"}]
said = ask(first)
ask([*first, {**said, "content": said["content"] + " "}, {"role": "user", "content": [{"type": "text", "text": "And then?"}]}])
ask([{"role": "developer", "content": "You plan."}, {"role": "user", "content": "In short: what is left?"}], max_tokens=2)
"""


def test_a_conversation_that_begins_anew_is_another_sequence(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    write_agents(tmp_path, anew=ANEW)
    record, requests = play(tmp_path, in_steps(["Look at the data.", "Fit a line.", "All of it."]), "anew")
    assert [message["role"] for message in record["messages"]] == [
        *("system", "user", "assistant", "user", "assistant", "user", "assistant")
    ]
    assert [turn.get("dropped") for turn in record["turns"]] == [None, None, [1, 2, 3, 4]]
    assert record["turns"][2]["usage"]["completion_tokens"] == 2
    assert (
        check_tokens({**record, "turns": [*record["turns"][:2], {**record["turns"][2], "problem": "length"}]}, requests)
        == 2
    )


SPEAKS = """
import json, os, urllib.request
from asking import request

talk = [{"role": "user", "content": "Hello"}]
print(json.load(urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models"))["data"][0]["id"])
for body in (
    b"no JSON", b'{"messages": [{"role": "user", "content": NaN}]}', {"messages": []}, {"messages": talk, "n": 2},
    {"messages": [{"role": "robot", "content": "x"}]}, {"messages": talk, "tools": [{"type": "function", "function": {}}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
):
    print(request(body)[0], end=" ")
print(request({"input": "x"}, "/responses")[0])
status, text = request({"messages": talk, "stream": True})
chunk, end = [line[len("data: "):] for line in text.split("\\n") if line]
print(status, json.loads(chunk)["choices"][0]["delta"]["content"].split(), end)
"""


def test_what_is_not_spoken_is_refused_in_the_box_and_streams_are_answered(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    write_agents(tmp_path, speaks=SPEAKS)
    record, requests = play(tmp_path, lambda body: "Good day", "speaks")
    said = record["execution"]["stdout"]["head"].split("\n")
    assert said[:3] == ["played", "400 " * 7 + "404", "200 ['Good', 'day'] [DONE]"] and len(requests) == 1


def test_what_a_models_server_refuses_is_told_to_the_agent(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    asks = 'from asking import request\nfor turn in range(9):\n    print(*request({"messages": [{"role": "user", "content": "x"}]}), flush=True)\n'
    write_agents(tmp_path, asks=asks)

    def refuse(body: dict[str, Any]) -> str:
        raise ValueError("no such thing")

    record, _ = play(tmp_path, refuse, "asks", "--max-turns", "3")
    told = record["execution"]["stdout"]["head"]
    assert told.count("400 ") == 3 and "no such thing" in told and "http://" not in told and record["turns"] == []
    assert record["stop_reason"] == "format"


def test_an_agent_may_say_as_much_as_it_likes(tmp_path: Path) -> None:
    """Its box has a bound of 256 KB for each cell here; what it hands in is from behind that."""
    write_tasks(tmp_path)
    loud = f"""
import os, sys
from asking import ask

for turn in range(3):
    ask([{{"role": "user", "content": "x"}}])
    print("p" * 5_000_000, flush=True)
    print("e" * 5_000_000, file=sys.stderr, flush=True)
os.system({SAMPLE!r})
print("the agent has ended")
"""
    write_agents(tmp_path, loud=loud)
    record, _ = play(tmp_path, in_steps(["well"]), "loud", "--output-size", "256")
    assert (record["stop_reason"], len(record["turns"]), record["execution"]["status"]) == ("finished", 3, "ok")
    stdout = record["execution"]["stdout"]
    assert stdout["head"].startswith("pppp") and 100_000 < stdout["bytes"] < 2_000_000
    assert graded(tmp_path, [record])[0]["grade"]["valid"]


def test_bounds_end_the_work_and_what_lies_there_counts(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    write_agents(tmp_path)
    again = in_steps([call("bash", command=WRITES)])
    record, requests = play(tmp_path, again, "shell", "--max-turns", "2")
    assert (record["stop_reason"], len(record["turns"]), len(requests)) == ("max_turns", 2, 2)
    assert graded(tmp_path, [record])[0]["grade"]["valid"]


@pytest.mark.slow
def test_the_bound_of_tokens_ends_the_work(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    write_agents(tmp_path)
    record, _ = play(tmp_path, in_steps([call("bash", command=WRITES)]), "shell", "--max-tokens", "30")
    assert record["stop_reason"] == "length"


BOTH = """
from concurrent.futures import ThreadPoolExecutor
from asking import ask

with ThreadPoolExecutor(2) as pool:
    print(sorted(pool.map(lambda text: ask([{"role": "user", "content": text}])["content"], ("one", "two"))))
"""


@pytest.mark.parametrize("start", mostly_slow(["warm", "cold"], 1))
def test_questions_at_once_are_answered_one_after_the_other(start: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    write_agents(tmp_path, both=BOTH)
    record, requests = play(tmp_path, lambda body: body["messages"][0]["content"] + " it is", "both", "--start", start)
    assert record["execution"]["stdout"]["head"] == "['one it is', 'two it is']\n"
    assert record["execution"]["start"] == start
    assert [turn.get("dropped") for turn in record["turns"]] == [None, [0, 1]] and check_tokens(record, requests) == 2


REACHES = """
import socket, sys
for host, port in (("127.0.0.1", 8000), ("127.0.0.1", int(sys.argv[1])), ("::1", int(sys.argv[1])), ("1.1.1.1", 53)):
    try:
        socket.create_connection((host, port), 2).close()
        print("reached")
    except OSError:
        print("closed")
"""


def test_nothing_but_the_model_can_be_reached_and_no_answer_is_in_the_box(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    place = write_agents(tmp_path, reaches=REACHES, search=SEARCH)
    with FaultyServer(lambda body: "x") as server:
        port = server.url.rpartition(":")[2]
        agent = f"python3 {place}/reaches.py {port}; python3 {place}/search.py"
        record = by_hand(tmp_path, agent, "--agent-folder", place)
    *reached, found = record["execution"]["stdout"]["head"].strip().split("\n")
    assert reached == ["reached", "closed", "closed", "closed"]
    rows = {row.split(",")[2] for row in (tmp_path / task["data"]["dir"] / "public/train.csv").read_text().split()[1:]}
    assert rows & set(json.loads(found.replace("'", '"'))) and not secrets_of(tmp_path, task) & set(found.split("'"))


HOSTILE = {
    "hands a link in": ("ln -s /etc/passwd submission.csv", "finished", None),
    "kills its server": (f"{SAMPLE}; kill -9 $PPID; sleep 600", "finished", True),
    "forks": (f"{SAMPLE}; for i in $(seq 300); do sleep 600 & done", "timeout", True),
    "fills its disk": ("for i in 1 2 3 4 5 6; do head -c 60000000 /dev/zero > $i; done; echo x > submission.csv", None, False),
    "never ends": (f"{SAMPLE}; sleep 600", "timeout", True),
    "links the questions": (f"{SAMPLE}; rm -r _relay; ln -s / _relay", "finished", True),
    "forges questions": (
        f"{SAMPLE}; (while :; do echo '{{\"number\": 1, \"same\": 99}}' > _relay/request.json; done) & sleep 1",
        None,
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(HOSTILE))
def test_a_hostile_agent_has_a_verdict(name: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    agent, reason, valid = HOSTILE[name]
    record = by_hand(tmp_path, agent, "--max-seconds", "4")
    assert reason in (None, record["stop_reason"])
    (after,) = graded(tmp_path, [record])
    assert after["grade"]["valid"] == bool(valid), after["grade"]["reason"]
    if valid is None:
        assert record["execution"]["submission_problem"] == "submission.csv is a symbolic link"


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_replies_that_it_had(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    place = write_agents(tmp_path)
    own = ("--agent", f"python3 {place}/shell.py", "--agent-folder", place, "--retries", "0", "-o", "out.jsonl")
    with FaultyServer(in_steps(SOLVES)) as server:
        clean = records(run_command(*command(server, "command", *own[:-2]), cwd=tmp_path).stdout)
    with FaultyServer(in_steps(SOLVES), ["", "500", "500"]) as server:
        assert run_command(*command(server, "command", *own), cwd=tmp_path, check=False).returncode == 1
        run_command(*command(server, "command", *own, "--resume"), cwd=tmp_path, check=False)
        run_command(*command(server, "command", *own, "--resume"), cwd=tmp_path)
        assert len(server.requests) == len(SOLVES) + 2
    ours = records((tmp_path / "out.jsonl").read_bytes())
    for record in (*clean, *ours):
        record["lineage"] = []
    (one,), (other,) = without_times(ours), without_times(clean)
    for name in one:
        assert one[name] == other[name], name


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--scaffold command needs --agent CMD, the command line of the agent"),
        (("--agent", "true", "--backend", "docker"), "leave --on out, and take --backend local"),
        (("--agent", "true", "--backend", "docker", "--dry-run"), "leave --on out, and take --backend local"),
        (("--agent", "true", "--agent-folder", "."), "lie in one another: move either"),
        (("--agent", "true", "--agent-folder", "/"), "programs would see all of /: name a folder of its own"),
        (
            ("--agent", "true", "--validation", "0.2"),
            "--validation is about agents in turns, not --scaffold single or command",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    tmp_path.chmod(0o755)
    done = run_command(
        "mle-rollout", "--scaffold", "command", *FAST, *options, "tasks.jsonl", cwd=tmp_path, check=False
    )
    assert done.returncode in (1, 2) and told in " ".join(done.stderr.decode().split())


# ---- a real one


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with mini-swe-agent."""
    folder = tmp_path_factory.mktemp("real") / "mini"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    line = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "mini-swe-agent==2.4.6"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"mini-swe-agent cannot be installed here: {done.stderr[-300:]}")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mini_swe_agent_solves_a_task(mini: Path, tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    ends = call("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    agent = (
        "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors MSWEA_SILENT_STARTUP=1 "
        f'{mini}/bin/mini -y --exit-immediately -m openai/{{model}} -t "$(cat {{instruction_file}})"'
    )
    with FaultyServer(in_steps([*SOLVES[:2], ends])) as server:
        line = command(
            server,
            "command",
            "--agent",
            agent,
            "--agent-folder",
            str(mini),
            "--max-seconds",
            "200",
            "--processes",
            "128",
        )
        (record,) = records(run_command(*line, cwd=tmp_path).stdout)
        requests = list(server.requests)
    said = record["execution"]["stdout"]
    assert record["stop_reason"] == "finished" and len(record["turns"]) == 3, said["head"] + said["tail"]
    assert check_tokens(record, requests) == 1
    assert any(
        "sample_submission.csv" in message["content"] for message in record["messages"] if message["role"] == "tool"
    )
    check_nothing_told(tmp_path, [record], requests)
    (after,) = graded(tmp_path, [record])
    assert after["grade"]["score"] == test_score(tmp_path, task, 2.9)
