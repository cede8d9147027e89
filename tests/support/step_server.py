"""A server over HTTP that answers each request as a test scripts it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class StepServer:
    """Answers each request with the next step of `script`, then with `always`.

    A step is a function of the request's handler, or what to send with status 200: bytes, or a value for JSON.
    `endpoint` is the address with `path`; `seen` holds each request's path, headers and body, `connections` is a count.
    """

    def __init__(self, path: str, always: Any) -> None:
        self.script: list[Any] = []
        self.always = always
        self.seen: list[dict[str, Any]] = []
        self.connections = 0
        server, taking = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                with taking:
                    server.connections += 1
                super().setup()

            def do_POST(self) -> None:
                self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with taking:
                    server.seen.append({"path": self.path, "headers": dict(self.headers), "body": self.body})
                    step = server.script.pop(0) if server.script else server.always
                step(self) if callable(step) else send(self, 200, step)

            def log_message(self, *args: Any) -> None:
                pass

        class ManyConnections(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

        self.http = ManyConnections(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.endpoint = self.url + path
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@contextmanager
def without_keys_and_proxies(server: StepServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepServer]:
    """The server until the end of the block, in an environment that names no key and no proxy."""
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.close()


# ---- steps


def send(handler: Any, status: int, body: Any, cut: bool = False, **headers: str) -> None:
    """Send a body of bytes, or a value as JSON; `cut`: only its first half, then close the connection."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2] if cut else content)
    handler.close_connection = cut


def status(code: int, message: str = "not now", **headers: str) -> Callable[[Any], None]:
    """A step that refuses the request."""
    return lambda handler: send(handler, code, {"error": {"message": message}}, **headers)


def drop(handler: Any) -> None:
    """A step that closes the connection without an answer."""
    handler.close_connection = True
