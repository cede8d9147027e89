"""The replies of tests/cases/replies, and a server that gives them one after the other.

A file a scaffold; its first lines say how a case is written.
"""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from conftest import TESTS

REPLIES = TESTS / "cases" / "replies"
SCAFFOLDS = ("single", "improve", "react", "codeact", "memory", "idea")


@dataclass
class ReplyCase:
    """A reply, and what a person reads out of it: `read` and `rule` as in a turn's format, the action, its content."""

    scaffold: str
    name: str
    family: str
    text: str = ""
    finish_reason: str = "stop"
    reasoning: str | None = None
    tool_calls: list[dict[str, str]] = field(default_factory=list)
    read: str = ""
    rule: str | None = None
    action: str | None = None
    content: str = ""

    @property
    def reply(self) -> dict[str, Any]:
        """As an Environment gives it."""
        return {name: getattr(self, name) for name in ("text", "finish_reason", "reasoning", "tool_calls")}

    @property
    def format(self) -> dict[str, str | None]:
        return {"read": self.read, "rule": self.rule}


def cases(scaffold: str) -> list[ReplyCase]:
    """The cases of a scaffold's file, in order."""
    text = (REPLIES / f"{scaffold}.txt").read_text(encoding="utf-8")
    return [_case(scaffold, part) for part in ("\n" + text).split("\n=== ")[1:]]


def _case(scaffold: str, part: str) -> ReplyCase:
    head, *sections = part.split("\n--- ")
    title, _, text = head.partition("\n")
    name, _, family = title.removesuffix(")").partition(" (")
    case = ReplyCase(scaffold, name, family, text)
    for section in sections:
        mark, _, body = section.partition("\n")
        kind, _, value = mark.partition(" ")
        if kind == "finish":
            case.finish_reason = value
        elif kind == "reasoning":
            case.reasoning = body
        elif kind == "call":
            call = {"id": f"c{len(case.tool_calls)}", "name": value, "arguments": body}
            case.tool_calls.append(call)
        elif kind == "reads":
            reads, _, action = value.partition(": ")
            case.read, _, rule = reads.partition(" ")
            case.rule, case.action, case.content = rule or None, action or None, body.strip("\n")
        else:
            raise AssertionError(f"{scaffold}: {name}: no such section: {mark}")
    assert case.read in ("exact", "lenient", "none"), f"{scaffold}: {name}: {case.read}"
    return case


class CaseServer:
    """Answers request i with reply i, and those after the last with `last`. Use it as a context manager."""

    def __init__(self, replies: Sequence[ReplyCase], last: str = ""):
        self.asked = 0
        server, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    case = replies[server.asked] if server.asked < len(replies) else ReplyCase("", "", "", last)
                    server.asked += 1
                content = json.dumps(_completion(case)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self) -> "CaseServer":
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()


def _completion(case: ReplyCase) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": case.text}
    if case.reasoning:
        message["reasoning_content"] = case.reasoning
    if case.tool_calls:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {k: call[k] for k in ("name", "arguments")}}
            for call in case.tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": case.finish_reason}
    return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 10}}
