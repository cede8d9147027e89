"""Servers of OpenAI's chat protocol for tests: one in this process that fails by script, and a real one.

`FaultyServer` counts words as tokens and gives ids, so that a conversation's next prompt begins with the last prompt and
answer. `real_server` serves a checkpoint with vLLM in a process of its own.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
END = 1
ROLES = {"system": 2, "user": 3, "assistant": 4, "tool": 5, "developer": 6}
KNOWN = {
    "model", "messages", "temperature", "top_p", "max_tokens", "seed", "tools", "tool_choice", "stop", "logprobs",
}  # fmt: skip
REASONS = {200: "OK", 400: "Bad Request"}
MOST_BYTES = 200 * 2**20  # of a body without end, should the client read on


def token_ids(text: str) -> list[int]:
    """One id per word with the space before it, from 16 on."""
    return [16 + zlib.crc32(piece.encode()) % 50_000 for piece in pieces(text)]


def pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+\Z", text)


def prompt_ids(messages: list[dict[str, Any]]) -> list[int]:
    """The prompt as this server's model would see it: role, words, end, and the role of the answer."""
    ids = []
    for message in messages:
        ids += [ROLES[message["role"]], *token_ids(_rendered(message)), END]
    return [*ids, ROLES["assistant"]]


def _rendered(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls")
    return (message.get("content") or "") + (json.dumps(calls) if calls else "")


def completion(body: dict[str, Any], said: str | dict[str, Any]) -> dict[str, Any]:
    """A chat completion of what was `said`, cut at `stop` and `max_tokens`; ids and logprobs where the body asks."""
    message: dict[str, Any] = {"role": "assistant", **({"content": said} if isinstance(said, str) else said)}
    text, finish = message.get("content"), "tool_calls" if message.get("tool_calls") else "stop"
    for stop in body.get("stop") or []:
        text = text.split(stop)[0] if text else text
    message["content"] = text
    ids = token_ids(_rendered(message))
    if len(ids) >= body["max_tokens"] and finish == "stop":
        finish, ids = "length", ids[: body["max_tokens"]]
        message["content"] = "".join(pieces(text or "")[: body["max_tokens"]])
    else:
        ids.append(END)
    prompt = prompt_ids(body["messages"])
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    answer: dict[str, Any] = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": body["model"]}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": str(one), "logprob": -(one % 7 + 1) / 8} for one in ids]}
    if body.get("return_token_ids"):
        choice["token_ids"] = ids
        answer["prompt_token_ids"] = prompt
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
    return {**answer, "choices": [choice], "usage": usage}


def _changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], bytes]:
    def rubbish(good: dict[str, Any]) -> bytes:
        change(good)
        return json.dumps(good).encode()

    return rubbish


# Whole HTTP answers with status 200 whose body is no good completion: name -> what the good one becomes.
RUBBISH: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "html": lambda good: b"<html><body><h1>Bad gateway</h1></body></html>",
    "empty": lambda good: b"",
    "binary": lambda good: bytes(range(256)),
    "truncated": lambda good: json.dumps(good).encode()[:-9],
    "deep": lambda good: b"[" * 100_000,
    "nan": lambda good: json.dumps({**good, "usage": {"prompt_tokens": float("nan")}}).encode(),
    "list": lambda good: b"[1, 2]",
    "no-choices": _changed(lambda good: good.update(choices=[])),
    "odd-choices": _changed(lambda good: good.update(choices={"0": 1})),
    "odd-choice": _changed(lambda good: good.update(choices=["hello"])),
    "no-message": _changed(lambda good: good["choices"][0].pop("message")),
    "odd-text": _changed(lambda good: good["choices"][0]["message"].update(content=["hello"])),
    "odd-calls": _changed(lambda good: good["choices"][0]["message"].update(tool_calls=[{"function": "f"}])),
    "odd-usage": _changed(lambda good: good.update(usage=[3])),
    "negative": _changed(lambda good: good["usage"].update(prompt_tokens=-3)),
    "odd-count": _changed(lambda good: good["usage"].update(completion_tokens="3")),
    "odd-ids": _changed(lambda good: good["choices"][0].update(token_ids=["a"])),
    "negative-ids": _changed(lambda good: good.update(prompt_token_ids=[5, -1])),
    "odd-logprobs": _changed(lambda good: good["choices"][0].update(logprobs={"content": "none"})),
    "fewer-logprobs": _changed(lambda good: good["choices"][0].update(logprobs={"content": [{"logprob": -1.0}] * 99})),
    "text-logprobs": _changed(lambda good: good["choices"][0]["logprobs"]["content"][0].update(logprob="-1")),
    "abort": _changed(lambda good: good["choices"][0].update(finish_reason="abort")),
    "error": lambda good: b'{"error": {"message": "upstream failed", "code": 502}}',
}
# Trouble below: no answer; the connection reset; half a body; half of a chunked one; a body a byte at a time; silence;
# a body that does not end.
BROKEN = ("drop", "reset", "cut", "cut-chunks", "drip", "hang", "endless")


class FaultyServer:
    """A server in a thread of this process. Use it as a context manager; `url` is where, `requests` the bodies it got.

    `answer` gets a request's body and gives a text or the keys of a message (content, tool_calls, ...); it runs on the
    server's one thread. Request i, in order of arrival, meets faults[i]: "" (none), a status ("429", or "503@2" with
    Retry-After: 2), a key of RUBBISH or one of BROKEN. Those after the last fault are answered, `latency_s` after they
    came. `strict` refuses unknown fields with 400, as OpenAI does; `context` refuses prompts that with max_tokens are
    longer than that many tokens, in vLLM's way. Hundreds of connections at once are fine.
    """

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], str | dict[str, Any]],
        faults: Sequence[str] = (),
        latency_s: float = 0.0,
        strict: bool = False,
        context: int | None = None,
    ) -> None:
        unknown = [one for one in faults if one and one not in RUBBISH and one not in BROKEN and not one[:3].isdigit()]
        assert not unknown, f"no such faults: {unknown}"
        self.answer, self.faults, self.latency_s, self.strict, self.context = answer, faults, latency_s, strict, context
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.most_at_once = 0
        self._now = 0

    def __enter__(self) -> "FaultyServer":
        self._loop = asyncio.new_event_loop()
        starting = asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        self._server = self._loop.run_until_complete(starting)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        async def end() -> None:
            self._server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._request(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; whether the connection may serve another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)^content-length: *(\d+)", head, re.M)
        content = await reader.readexactly(int(length[1]) if length else 0)
        if not re.match(r"POST \S*/v1/chat/completions ", head):
            return _send(writer, 404, {"error": {"message": "nothing here"}})
        body = json.loads(content)
        fault = self.faults[len(self.requests)] if len(self.requests) < len(self.faults) else ""
        self.requests.append(body)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(0 if fault else self.latency_s)
            return await self._serve(fault, body, reader, writer)
        finally:
            self._now -= 1

    async def _serve(self, fault: str, body: dict[str, Any], reader: asyncio.StreamReader, writer: Any) -> bool:
        if fault[:3].isdigit():
            status, _, after = fault.partition("@")
            return _send(writer, int(status), {"error": {"message": "not now"}}, after)
        if self.strict and body.keys() - KNOWN:
            return _send(
                writer, 400, {"error": {"message": f"Unrecognized request argument: {min(body.keys() - KNOWN)}"}}
            )
        asked = len(prompt_ids(body["messages"])) + body["max_tokens"]
        if self.context is not None and asked > self.context:
            message = f"This model's maximum context length is {self.context} tokens. However, you requested {asked}."
            return _send(writer, 400, {"object": "error", "message": message, "type": "BadRequestError", "code": 400})
        try:
            good = completion(body, self.answer(body))
        except Exception as error:  # a fault of the test's own function: told, and not tried again
            return _send(writer, 400, {"error": {"message": f"{type(error).__name__}: {error}"}})
        if fault in RUBBISH:
            return _send(writer, 200, RUBBISH[fault](good))
        return await _broken(fault, json.dumps(good).encode(), reader, writer) if fault else _send(writer, 200, good)


def _send(writer: Any, status: int, body: Any, retry_after: str = "") -> bool:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    after = f"Retry-After: {retry_after}\r\n" if retry_after else ""
    writer.write(_head(status, f"{after}Content-Length: {len(content)}") + content)
    return True


def _head(status: int, lines: str) -> bytes:
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Trouble')}\r\n{lines}\r\n\r\n".encode()


async def _broken(fault: str, content: bytes, reader: asyncio.StreamReader, writer: Any) -> bool:
    half = content[: len(content) // 2]
    if fault == "reset":
        linger = struct.pack("ii", 1, 0)  # a close that discards, and says so
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    elif fault == "cut":
        writer.write(_head(200, f"Content-Length: {len(content)}") + half)
    elif fault == "cut-chunks":
        writer.write(_head(200, "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n" % (len(half), half))
    elif fault == "hang":
        await reader.read()
    elif fault == "drip":
        writer.write(_head(200, "Content-Length: 1000000"))
        while not reader.at_eof():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)
    elif fault == "endless":
        writer.write(_head(200, "Transfer-Encoding: chunked"))
        for _ in range(MOST_BYTES >> 20):
            writer.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")
            await writer.drain()
    return False


@dataclass(frozen=True)
class RealServer:
    """A server that is up: its address, what it is ("vllm"), the name its model answers to."""

    url: str
    kind: str
    name: str


def long_tiny(folder: Path, context: int = 16384, seed: int = 0) -> Path:
    """An untrained checkpoint in `folder` with room for `context` tokens (vLLM knows no heads as small as nano's)."""
    from mletools.training.tiny import make_tiny

    texts = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
    make_tiny([{"messages": [{"content": text} for text in texts]}], folder, "tiny", seed)
    for name, key in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings, key: context}, indent=2))
    return folder


def tiny_adapter(base: Path, folder: Path, seed: int | None) -> None:
    """A LoRA adapter of rank 4 with random weights; seed None: one that changes nothing, as training begins with."""
    import torch

    peft = pytest.importorskip("peft", reason="peft is not installed: adapters are not tested")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed or 0)
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=seed is None, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(folder, save_embedding_layers=False)


@contextlib.contextmanager
def real_server(folder: Path, *options: str, **variables: str) -> Iterator[RealServer]:
    """Serve the checkpoint in `folder` with vLLM's build for CPUs; where there is none, the test is skipped.

    options, variables: of vLLM's command line and environment, beside those that every test wants. transformers' own server is no stand-in: it heeds no temperature and tells neither token ids nor logprobs.
    """
    python = vllm_python()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE",
    }  # fmt: skip
    at = ["--model", str(folder), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    exact = ["--dtype", "float32", "--enforce-eager", "--logprobs-mode", "processed_logprobs"]
    # A seeded request whose prompt is read in several steps ends this version on CPUs (no offset of a generator).
    steps = ["--no-enable-chunked-prefill", "--max-num-seqs", "32"]
    tools = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", *at, *exact, *steps, *tools, *options]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, **settings, **variables},
            start_new_session=True,
            cwd=folder,
        )
        try:
            _wait_until_up(f"http://127.0.0.1:{port}/health", process, log)
            yield RealServer(f"http://127.0.0.1:{port}", "vllm", "tiny")
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)


def vllm_python() -> str:
    """The Python whose vLLM is to serve: of MLETOOLS_VLLM_PYTHON, of .vllm/, or this one."""
    named, own = os.environ.get("MLETOOLS_VLLM_PYTHON"), ROOT / ".vllm" / "bin" / "python"
    if named:
        return named
    if own.exists():
        return str(own)
    if importlib.util.find_spec("vllm"):
        return sys.executable
    pytest.skip("no vLLM: neither MLETOOLS_VLLM_PYTHON nor .vllm/ nor this Python has it")


def vllm_environment() -> dict[str, str]:
    """Of a process of vLLM's Python that runs this checkout; where that cannot be, the test is skipped."""
    found = subprocess.run(
        [vllm_python(), "-c", "import mletools.commands.rollout"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    if found.returncode:
        pytest.skip(f"vLLM's Python lacks what mle-rollout needs: {found.stderr.strip().splitlines()[-1]}")
    own = {key: value for key, value in os.environ.items() if not key.startswith("MLE_")}
    return {**own, "PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Any) -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.25)
    log.seek(0)
    raise RuntimeError(f"the server did not come up:\n{log.read().decode(errors='replace')[-6000:]}")
