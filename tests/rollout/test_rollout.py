"""mle-rollout against a server that dies, and what an agent is shown."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command

ANSWER = "A plan. In three. Sentences.\n\n```python\nprint(1)\n```"


class Handler(BaseHTTPRequestHandler):
    """A chat server that gives up after `server.lives` answers, and remembers what it was asked."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        with server.lock:
            server.lives -= 1
            alive = server.lives >= 0
            server.asked.append(asked)
        message = (
            {"choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}]}
            if alive
            else {"error": "out of memory"}
        )
        body = json.dumps(message).encode()
        self.send_response(200 if alive else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.lock, made.asked, made.lives = threading.Lock(), [], 7
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_dead_server_is_an_error_and_resuming_loses_and_doubles_nothing(
    server: Any, stages: dict[str, Any], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    ask = (
        "mle-rollout",
        "-m",
        "some-model",
        "-g",
        "6",
        "-j",
        "4",
        "--retries",
        "1",
        str(stages["tasks"]),
        "--data",
        str(stages["tasks"].parent),
        "-o",
        "out.jsonl",
    )
    died = run_command(*ask, cwd=tmp_path, check=False, MLE_MODEL_URL=url)
    assert died.returncode == 1 and not (tmp_path / "out.jsonl").exists()
    assert died.stderr.decode() == (
        f"mle-rollout: {url}/v1/chat/completions: no answer after 2 tries; the last error: 500: out of memory\n"
    )
    before = records((tmp_path / "out.jsonl.partial").read_bytes())
    assert len(before) <= 7
    server.lives = 1000
    run_command(*ask, "--resume", cwd=tmp_path, MLE_MODEL_URL=url)
    after = records((tmp_path / "out.jsonl").read_bytes())
    assert after[: len(before)] == before and len({record["id"] for record in after}) == len(after) == 12
    assert {record["code"] for record in after} == {"print(1)\n"}


@pytest.mark.slow
def test_resuming_with_a_policy_that_moved_on_is_refused(policy: Path, stages: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(policy / "tiny", tmp_path / "model")
    ask = ("mle-rollout", "-m", "hf:model", "--prompt", "single-brief", "--max-tokens", "4", str(stages["tasks"]), "-o")
    run_command(*ask, "out.jsonl", cwd=tmp_path)
    (tmp_path / "model" / "state.json").write_text('{"policy_version": 5}')
    done = run_command(*ask, "out.jsonl", "--resume", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "mle-rollout: cannot resume with another policy: hf:model was at version None, now at 5; choose another -o\n"
    )


def test_an_agent_is_never_shown_answers_scores_or_thresholds(
    server: Any, stages: dict[str, Any], tmp_path: Path
) -> None:
    server.lives = 1000
    url = f"http://127.0.0.1:{server.server_address[1]}"
    tasks = records(stages["tasks"].read_bytes())
    for prompt in ("single", "single-brief"):
        line = (
            "mle-rollout",
            "-m",
            "m",
            "--prompt",
            prompt,
            str(stages["tasks"]),
            "--data",
            str(stages["tasks"].parent),
        )
        run_command(*line, cwd=tmp_path, MLE_MODEL_URL=url)
    shown = json.dumps([asked["messages"] for asked in server.asked])
    assert len(server.asked) == 2 * len(tasks)
    for task in tasks:
        for secret in (
            task["answers"],
            "private",
            *map(str, task["thresholds"].values()),
            task["provenance"]["baselines"][1]["name"] + '"',
        ):
            assert secret not in shown
