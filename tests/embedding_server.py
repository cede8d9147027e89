"""A server of embeddings that fails in the ways that a test asks for."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def vector(text: str) -> list[float]:
    """What the server's model makes of a text."""
    return [float(len(text)), sum(map(ord, text)) / 8, -0.5]


def listed(body: dict[str, Any]) -> dict[str, Any]:
    data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(body["input"])]
    return {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


class Server:
    """Answers each request with the next step of `script`, then with `always`; a step is a function of the handler."""

    def __init__(self) -> None:
        self.script: list[Callable[[Any], None]] = []
        self.always: Callable[[Any], None] = lambda handler: send(handler, 200, listed(handler.body))
        self.seen: list[dict[str, Any]] = []
        server, taking = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with taking:
                    server.seen.append({"path": self.path, "headers": dict(self.headers), "body": self.body})
                    step = server.script.pop(0) if server.script else server.always
                step(self)

            def log_message(self, *args: Any) -> None:
                pass

        class Crowd(ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

        self.http = Crowd(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.endpoint = f"{self.url}/v1/embeddings"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def asked(self) -> list[list[str]]:
        return [one["body"]["input"] for one in self.seen]


def send(handler: Any, status: int, body: Any, cut: bool = False, **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2] if cut else content)
    handler.close_connection = cut


def status(code: int, message: str = "not now", **headers: str) -> Callable[[Any], None]:
    return lambda handler: send(handler, code, {"error": {"message": message}}, **headers)


def cut(handler: Any) -> None:
    send(handler, 200, listed(handler.body), cut=True)
