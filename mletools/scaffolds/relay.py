"""The model's server in the box of an external agent: it hands the agent's questions out, one for each cell of a session.

Its source runs in the session's interpreter (`command` sends it), so it needs the standard library alone. The agent is a
child process, which asks http://127.0.0.1:8000/v1 in OpenAI's chat protocol. `serve` delivers the last reply and returns
with the next question in REQUEST, or with the agent's end. Covered: whole and streamed answers, tools, several questions at
once, which are answered one after the other; any amount of output. Not covered: other protocols, images. The agent can end
or imitate this, for it is the same user in the same box: whoever reads REQUEST believes nothing of it but that the agent asks.
"""

import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypedDict

PORT = 8000
URL = f"http://127.0.0.1:{PORT}/v1"
FOLDER = "_relay"
REQUEST = f"{FOLDER}/request.json"
INSTRUCTION = "instruction.md"
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
MOST_BYTES = 16 << 20  # of a question
MOST_OUTPUT = 1 << 17  # bytes of the agent's output between two questions; the box would end with much more of it
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEY = "none"  # the agent's key: the real one stays outside


class Function(TypedDict):
    """The function of a call; its arguments are a text."""

    name: str
    arguments: str


class Call(TypedDict):
    """An agent's call of a tool in the chat protocol."""

    id: str
    type: str
    function: Function


class ChatMessage(TypedDict, total=False):
    """A message of the chat protocol; role and content are always there."""

    role: str
    content: str
    tool_calls: "list[Call]"
    tool_call_id: str


class Question(TypedDict):
    """A request of the agent's, in one form. max_tokens: of the answer, None: no bound."""

    messages: "list[ChatMessage]"
    tools: "list[dict[str, object]] | None"
    max_tokens: "int | None"


class ReplyCall(TypedDict):
    id: str
    name: str
    arguments: str


class Answer(TypedDict, total=False):
    """The policy's reply, or why there is none (error)."""

    error: str
    text: str
    reasoning: "str | None"
    tool_calls: "list[ReplyCall]"
    finish_reason: str
    prompt_tokens: "int | None"
    completion_tokens: "int | None"


def question(body: Any) -> Question:
    """The question in a request. ValueError says what it has that is not supported."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        raise ValueError("a request has a list of messages")
    if body.get("n") not in (None, 1):
        raise ValueError("n: one answer at a time")
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    if most is not None and (type(most) is not int or not 0 < most < 1 << 31):
        raise ValueError("max_tokens is no number of tokens")
    return {
        "messages": [message(each) for each in body["messages"]],
        "tools": [_tool(each) for each in _listed(body, "tools")] or None,
        "max_tokens": most,
    }


def message(given: Any) -> ChatMessage:
    """A chat message: its role, its text, its calls or the call that it answers. ValueError: it is none."""
    if not isinstance(given, dict) or given.get("role") not in ROLES:
        raise ValueError(f"a message has one of the roles {', '.join(ROLES)}")
    found: ChatMessage = {"role": ROLES[given["role"]], "content": _text(given.get("content"))}
    if calls := _listed(given, "tool_calls"):
        found["tool_calls"] = [_call(each) for each in calls]
    if found["role"] == "tool":
        if not isinstance(given.get("tool_call_id"), str):
            raise ValueError("a tool's message names no call")
        found["tool_call_id"] = given["tool_call_id"]
    return found


def _listed(holder: dict[str, object], name: str) -> list[object]:
    value = holder.get(name)
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return value or []


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError("the content of a message is a text or a list of texts")
    parts = [each.get("text") if isinstance(each, dict) else None for each in content]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("a message holds something else than text")
    return "\n".join(parts)  # type: ignore[arg-type]


def _call(given: Any) -> Call:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not all(isinstance(function.get(name), str) for name in ("name", "arguments")):
        raise ValueError("a call names no function, or its arguments are no text")
    if not isinstance(given.get("id"), str):
        raise ValueError("a call has no id")
    kept: Function = {"name": function["name"], "arguments": function["arguments"]}
    return {"id": given["id"], "type": "function", "function": kept}


def _tool(given: Any) -> dict[str, object]:
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a tool is a function with a name")
    if not isinstance(function.get("parameters", {}), dict):
        raise ValueError(f"the parameters of {name} are no object")
    return {"type": "function", "function": function}


class Relay:
    """The agent of a box, and the server that it asks."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.questions: queue.SimpleQueue[_Question | int] = queue.SimpleQueue()
        self._open: _Question | None = None
        self._number = 0
        self._room = [MOST_OUTPUT, MOST_OUTPUT]  # for standard output and standard error
        self._messages: list[ChatMessage] = []  # of the last question that was handed out
        self._tools: list[dict[str, object]] | None = None

    def begin(self, command: str, instruction: str) -> None:
        """Start the server, and the agent in the working folder, with the instruction as a file and on its stdin."""
        os.makedirs(FOLDER, exist_ok=True)
        with open(INSTRUCTION, "w", encoding="utf-8") as file:
            file.write(instruction)
        server = _Server(("127.0.0.1", PORT), _Handler)
        server.relay = self
        threading.Thread(target=server.serve_forever, daemon=True).start()
        values = {"instruction_file": os.path.abspath(INSTRUCTION), "base_url": URL, "model": self.model}
        for name, value in values.items():
            command = command.replace(f"{{{name}}}", shlex.quote(value))
        own = {"OPENAI_BASE_URL": URL, "OPENAI_API_BASE": URL, "OPENAI_API_KEY": _KEY}
        with open(INSTRUCTION, "rb") as stdin:
            agent = subprocess.Popen(
                [shutil.which("bash") or "/bin/sh", "-c", command],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **own},
                start_new_session=True,
            )
        outputs = [
            threading.Thread(target=self._pass_on, args=(at, source.fileno(), os.dup(at + 1)), daemon=True)
            for at, source in enumerate((agent.stdout, agent.stderr))
            if source is not None
        ]

        def end() -> None:
            code = agent.wait()
            for output in outputs:
                output.join(1.0)  # what the agent has left running may hold it open
            self.questions.put(code)

        for thread in (*outputs, threading.Thread(target=end, daemon=True)):
            thread.start()

    def _pass_on(self, at: int, source: int, to: int) -> None:
        """Pass an output of the agent on, and say once where the room until the next question is used up."""
        while chunk := os.read(source, 1 << 16):
            room = self._room[at]
            self._room[at] -= len(chunk)
            if room > 0:
                cut = b"\n[further output is dropped]\n" if room < len(chunk) else b""
                with suppress(OSError):
                    os.write(to, chunk[:room] + cut)

    def serve(self, reply: str | None = None) -> None:
        """Answer the question that was handed out, and hand the next one out; SystemExit: the agent has failed.

        Of messages that stood in the question before at the same places only the number is handed out.
        """
        if reply is not None and self._open is not None:
            self._open.answer(json.loads(reply))
        self._room = [MOST_OUTPUT, MOST_OUTPUT]
        item = self.questions.get()
        self._number += 1
        if isinstance(item, int):
            self._hand_out({"ended": item})
            if item:
                raise SystemExit(item if item > 0 else 128 - item)
            return
        self._open, asked = item, item.asked
        pairs = zip(self._messages, asked["messages"], strict=False)
        same = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
        if same is None:
            same = min(len(self._messages), len(asked["messages"]))
        self._messages = asked["messages"]
        changed = asked["tools"] != self._tools
        self._tools = asked["tools"]
        new = {
            **asked,
            "same": same,
            "messages": asked["messages"][same:],
            "tools": asked["tools"] if changed else False,
        }
        self._hand_out(new)

    def _hand_out(self, content: dict[str, object]) -> None:
        path = f"{REQUEST}.new"
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            json.dump({"number": self._number, **content}, file)
        os.replace(path, REQUEST)


class _Question:
    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self._answered = threading.Event()
        self._reply: Answer = {}

    def answer(self, reply: Answer) -> None:
        self._reply = reply
        self._answered.set()

    def wait(self) -> Answer:
        self._answered.wait()
        return self._reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    relay: Relay


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/models"):
            listed = {"id": self.server.relay.model, "object": "model", "created": 0, "owned_by": "mletools"}
            self._send(200, {"object": "list", "data": [listed]})
        else:
            self._send(404, _error("there is /v1/chat/completions and /v1/models"))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            self._send(413, _error(f"a request says its length, which is at most {MOST_BYTES} bytes"))
            return
        content = self.rfile.read(int(length))
        if not self.path.split("?")[0].endswith("/chat/completions"):
            self._send(404, _error("only OpenAI's chat protocol is spoken here: POST /v1/chat/completions"))
            return
        try:
            body = json.loads(content, parse_constant=_refuse)
            asked = question(body)
        except (ValueError, RecursionError) as error:
            self._send(400, _error(str(error)))
            return
        waiting = _Question(asked)
        self.server.relay.questions.put(waiting)
        reply = waiting.wait()
        if "error" in reply:
            self._send(400, _error(reply["error"]))
        elif body.get("stream"):
            self._stream(reply)
        else:
            self._send(200, _completion(self.server.relay.model, reply, "message"))

    def _send(self, status: int, value: dict[str, object]) -> None:
        content = json.dumps(value).encode()
        with suppress(OSError):  # the agent has gone
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _stream(self, reply: Answer) -> None:
        """The whole answer in one piece, as a stream."""
        chunk = _completion(self.server.relay.model, reply, "delta")
        self.close_connection = True
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        pass


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _error(text: str) -> dict[str, object]:
    return {"error": {"message": text, "type": "invalid_request_error"}}


def _completion(model: str, reply: Answer, part: str) -> dict[str, object]:
    """A chat completion; `part`: message, or delta of the one chunk of a stream."""
    calls: list[dict[str, object]] = [
        {"id": each["id"], "type": "function", "function": {"name": each["name"], "arguments": each["arguments"]}}
        for each in reply["tool_calls"]
    ]
    for number, call in enumerate(calls if part == "delta" else ()):
        call["index"] = number
    said: dict[str, object] = {"role": "assistant", "content": reply["text"] or (None if calls else "")}
    if reply["reasoning"]:
        said["reasoning_content"] = reply["reasoning"]
    if calls:
        said["tool_calls"] = calls
    ended = {"length": "length", "content_filter": "content_filter"}.get(reply["finish_reason"], "stop")
    counts = {"prompt_tokens": reply["prompt_tokens"] or 0, "completion_tokens": reply["completion_tokens"] or 0}
    return {
        "id": "chatcmpl-relay",
        "object": "chat.completion" if part == "message" else "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, part: said, "finish_reason": "tool_calls" if calls and ended == "stop" else ended}],
        "usage": {**counts, "total_tokens": sum(counts.values())},
    }
