"""`harbor run` on exported tasks, in podman's containers without a network, and the way back.

Covered: Harbor's oracle and Terminus 2 (a scripted server stands for its model), the verifier in a box of its own, rewards, the
import, the report. Not covered: Harbor's guard of the network, which needs an image from a registry; agents that are installed in
the box.
"""

import json
import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, TESTS, records, run_command
from docker_daemon import write_grader

pytestmark = pytest.mark.slow
HARBOR = os.environ.get("MLETOOLS_HARBOR") or shutil.which("harbor") or str(ROOT / ".harbor/bin/harbor")
IMAGE = "localhost/mletools-tasks:test"
TERMINAL = (
    "tmux",
    "clear",
    "stty",
    "head",
    "cp",
    "mv",
    "touch",
    "uname",
)  # what Terminus 2 asks of a box, or its commands
PROGRAM = 'import shutil\nshutil.copy("input/sample_submission.csv", "submission.csv")\n'
REPLIES = (
    {"analysis": "A table.", "plan": "Look.", "commands": [{"keystrokes": "ls input\n", "duration": 1.0}]},
    {
        "analysis": "A sample lies there.",
        "plan": "Hand it in.",
        "commands": [{"keystrokes": f"cat > solve.py <<'END'\n{PROGRAM}END\npython3 solve.py\n", "duration": 3.0}],
    },
    {"analysis": "It is there.", "plan": "End.", "commands": [], "task_complete": True},
)


class Model(BaseHTTPRequestHandler):
    """The replies in their order, by how many the conversation has; the last one for ever."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = sum(message["role"] == "assistant" for message in body["messages"])
        message = {"role": "assistant", "content": json.dumps(REPLIES[min(said, len(REPLIES) - 1)])}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        answer = {"id": "a", "object": "chat.completion", "created": 0, "model": body["model"]}
        content = json.dumps({**answer, "choices": choices, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def model_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables with which podman has the image of the tasks, in storage of its own."""
    for program in (HARBOR, "podman", "podman-compose", "tmux", "runc"):
        beside = Path(HARBOR).parent / program
        if shutil.which(program) is None and not beside.exists():
            pytest.skip(f"no {program}: see .ci/run")
    if os.geteuid() != 0:
        pytest.skip("only root's podman is tried")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # root may not raise it everywhere
    limits = f'"nofile={files}:{files}", "nproc=4096:4096"'
    settings, storage = tmp_path / "containers.conf", tmp_path / "storage.conf"
    settings.write_text(
        f"[containers]\ndefault_ulimits = [{limits}]\n"
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    storage.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/data"\nrunroot = "{tmp_path}/run"\n')
    variables = {**os.environ, "CONTAINERS_CONF": str(settings), "CONTAINERS_STORAGE_CONF": str(storage)}
    variables["PATH"] = f"{Path(HARBOR).parent}:{variables['PATH']}"
    archive = tmp_path / "image.tar"
    write_grader(archive, TERMINAL)
    words = ["podman", "import", "-q", "-c", "ENV LANG=C.UTF-8", str(archive), IMAGE]
    done = subprocess.run(words, env=variables, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"podman takes no image here: {done.stderr.strip()[-300:]}")
    archive.unlink()
    yield variables
    subprocess.run(["podman", "rm", "-af", "-t", "0"], env=variables, capture_output=True)
    subprocess.run(["podman", "rmi", "-af"], env=variables, capture_output=True)


def test_a_job_of_harbor_and_the_way_back(tmp_path: Path, podman: dict[str, str], model_url: str) -> None:
    run_command(
        "mle-gen-task",
        "-q",
        "-n",
        "1",
        "--source",
        "tabular",
        "--samples",
        "200-300",
        "-o",
        "tasks.jsonl",
        cwd=tmp_path,
    )
    run_command("mle-export", "-q", "--to", "harbor", "--image", IMAGE, "-o", "exported", "tasks.jsonl", cwd=tmp_path)
    environment = ["--env", "no_network_podman:NoNetwork", "--no-delete", "-y", "-n", "1", "-o", "jobs"]
    variables = {
        **podman,
        "PYTHONPATH": str(TESTS / "support"),
        "OPENAI_API_KEY": "none",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    model = ["-m", "openai/scripted", "--ak", f"api_base={model_url}"]
    for agent in (["-a", "oracle"], ["-a", "terminus-2", *model]):
        words = [HARBOR, "run", "-p", "exported", *agent, *environment, "--job-name", agent[1]]
        done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=400)
        failed = [path.read_text()[-1500:] for path in (tmp_path / "jobs").glob("*/*/exception.txt")]
        assert done.returncode == 0 and not failed, (done.stdout[-1500:], failed)

    imported = run_command("mle-import", "-q", "--format", "harbor", "jobs", "--tasks", "tasks.jsonl", cwd=tmp_path)
    oracle, terminus = records(imported.stdout)
    assert (oracle["scaffold"], terminus["scaffold"]) == ("harbor:oracle", "harbor:terminus-2")
    assert len(terminus["turns"]) >= 3 and terminus["policy"]["model"] == "openai/scripted"
    assert any(PROGRAM in json.loads(call["function"]["arguments"])["keystrokes"]
               for message in terminus["messages"] for call in message.get("tool_calls", ()) if "keystrokes" in call["function"]["arguments"])  # fmt: skip
    assert terminus["turns"][1]["duration_s"] >= 3  # the program's turn, not the one before it
    graded = run_command("mle-grade", "-q", input=imported.stdout, cwd=tmp_path)
    for record in records(graded.stdout):
        told, grade = record["trial"]["rewards"], record["grade"]
        assert grade["valid"] and told["valid"] == 1 and told["score"] == grade["score"]
        assert told["reward"] == record["reward"] and told["medal"] == (grade["medal"] is not None) * told["medal"]
    assert b"otherwise" not in graded.stderr
    report = run_command("mle-report", input=graded.stdout, cwd=tmp_path).stdout.decode()
    assert "agent: harbor:oracle (1); harbor:terminus-2 (1)" in report
