"""Run a command while vLLM serves a model folder on this machine; end the servers with it.

    python examples/servers.py FOLDER CHAT_PORT EMBEDDING_PORT LOGS -- COMMAND...

Two servers of OpenAI's protocol, chat completions on CHAT_PORT and embeddings on EMBEDDING_PORT (0: none), with the model
under the name "rehearsal". The Python that has vLLM is that of MLETOOLS_VLLM_PYTHON, else .vllm/bin/python of the
checkout (.ci/run makes it), else this one. The exit code is the command's. The servers end when this process does,
however it ends. Covered: Linux; vLLM's builds for CPUs and for one GPU. Not covered: keys, several models.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

NAME = "rehearsal"
START_SECONDS = 1200  # on a busy machine
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else two servers share the same cores
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning idle threads slow down the sandboxes
}
FLOATS = ["--dtype", "float32"]  # the weights are written down for it
CHAT = ["--max-num-seqs", "32", "--no-enable-chunked-prefill", "--logprobs-mode", "processed_logprobs"]
EMBEDDINGS = ["--runner", "pooling", "--convert", "embed"]
PR_SET_PDEATHSIG = 1


def vllm_python() -> str:
    named, own = os.environ.get("MLETOOLS_VLLM_PYTHON"), Path(__file__).resolve().parent.parent / ".vllm/bin/python"
    return named or (str(own) if own.exists() else sys.executable)


def start(folder: str, port: int, log: Path, options: list[str]) -> subprocess.Popen[bytes]:
    with socket.socket() as free:
        if free.connect_ex(("127.0.0.1", port)) == 0:
            sys.exit(f"port {port} is in use: another rehearsal? (PORT=N EMBEDDING_PORT=N chooses others)")
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def end_with_parent() -> None:  # the engine's own processes watch their server
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    at = ["--model", os.path.abspath(folder), "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port)]
    command = [vllm_python(), "-m", "vllm.entrypoints.openai.api_server", *at, "--enforce-eager", *FLOATS, *options]
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**SETTINGS, **os.environ},
            preexec_fn=end_with_parent,
            start_new_session=True,
        )


def wait_until_up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.5)
    tail = log.read_text(errors="replace")[-2000:]
    sys.exit(f"the server on port {port} did not come up (vLLM of {vllm_python()}; {log}):\n{tail}")


def warm_up(port: int) -> None:
    """One request: vLLM compiles parts of itself then, for which a search's clock would run out."""
    body = {"model": NAME, "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 2}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=START_SECONDS).close()


def end(servers: list[subprocess.Popen[bytes]]) -> None:
    for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
        for server in servers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, number)
        for server in servers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(patience)


def main() -> int:
    if len(sys.argv) < 7 or sys.argv[5] != "--":
        sys.exit(__doc__)
    folder, chat, embedding, logs, _, *command = sys.argv[1:]
    Path(logs).mkdir(parents=True, exist_ok=True)
    os.environ["no_proxy"] = ",".join(filter(None, [os.environ.get("no_proxy"), "127.0.0.1"]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kinds = [(int(chat), "chat", CHAT), (int(embedding), "embeddings", EMBEDDINGS)]
    servers: list[subprocess.Popen[bytes]] = []
    try:
        used = [(port, Path(logs) / f"{kind}.log", options) for port, kind, options in kinds if port]
        servers += [start(folder, port, log, options) for port, log, options in used]
        for server, (port, log, _) in zip(servers, used, strict=True):
            wait_until_up(server, port, log)
        if int(chat):
            warm_up(int(chat))
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        end(servers)


if __name__ == "__main__":
    sys.exit(main())
