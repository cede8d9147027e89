"""A model's server that lies: bounded in memory and time, one clear line, never a record with wrong ids, never the key elsewhere."""

import gzip
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import mostly_slow
from model_server import completion, token_ids

from mletools.base.errors import ToolError
from mletools.models import Request, ServerOptions, wire
from mletools.models.completion import read_reply
from mletools.models.embedding import HttpEmbeddings
from mletools.models.http import HttpModel

ASK = Request([{"role": "user", "content": "say it twice"}], seed=11, training=True)
KEY = "sk-secret-0123456789"
CHAT = completion(
    {"model": "tiny", "messages": ASK.messages, "max_tokens": 99, "logprobs": True, "return_token_ids": True},
    "said twice",
)
VECTORS = {"data": [{"index": 0, "embedding": [0.5, 1.0]}]}


class LyingServer:
    """Sends, to every request, what `lie` writes on its connection, and closes it; `heads` are the requests' headers."""

    def __init__(self, lie: Callable[[socket.socket], None]):
        self.lie, self.heads, self.sent = lie, list[bytes](), 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        head = b""
        try:
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            self.heads.append(head)
            self.lie(connection)
        except OSError:
            pass  # the client has heard enough
        finally:
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LyingServer]]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    opened: list[LyingServer] = []

    def make(lie: Callable[[socket.socket], None]) -> LyingServer:
        opened.append(LyingServer(lie))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def ask_chat(url: str, **options: Any) -> Any:
    return HttpModel("tiny", ServerOptions(url, **{"timeout": 10.0, "retries": 1, "backoff": 0.01, **options})).sample(
        [ASK]
    )


def ask_vectors(url: str, **options: Any) -> Any:
    return HttpEmbeddings(
        "tiny", ServerOptions(url, **{"timeout": 10.0, "retries": 1, "backoff": 0.01, **options})
    ).embed(["a"])


ASKING = {"chat": ask_chat, "embeddings": ask_vectors}
GOOD = {"chat": CHAT, "embeddings": VECTORS}


def problem(ask: Callable[..., Any], server: LyingServer, **options: Any) -> str:
    with pytest.raises(ToolError) as error:
        ask(server.url, **options)
    text = str(error.value)
    assert text.startswith(f"{server.url}/v1/") and "\n" not in text and text.isprintable() and len(text) < 800
    assert KEY not in text
    return text.partition(": ")[2]


def answer(content: bytes, status: str = "200 OK", lines: str = "") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    return lambda connection: connection.sendall(head.encode("latin-1") + content)


def endless(head: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def lie(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)

    return lie


def slow(head: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def lie(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(0.02)

    return lie


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = "the body is larger than 2 MB"
ENDLESS = {
    "a body": (OK + b"\r\n", b" " * 65536, LARGE),
    "a body that is longer than it says": (OK + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536, LARGE),
    "chunks": (CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n", LARGE),
    "small chunks": (CHUNKED, (b"40\r\n" + b" " * 64 + b"\r\n") * 999, LARGE),
    "a chunk's head": (CHUNKED + b"1;", b"a" * 65536, "connection dropped (ProtocolError)"),
    "trailers": (CHUNKED + b"0\r\n", b"X-More: 1\r\n" * 5000, LARGE),
    "headers": (OK, b"X-More: 1\r\n" * 5000, "connection dropped (ProtocolError)"),
    "a header": (OK + b"X-More: ", b"a" * 65536, "connection dropped (ProtocolError)"),
    "a status line": (b"HTTP/1.1 200 ", b"a" * 65536, "connection dropped (ProtocolError)"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 3000, LARGE),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("what", ASKING)
def test_what_does_not_end_is_cut(
    what: str, kind: str, serve: Callable[..., LyingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 2 * 2**20)
    head, piece, said = ENDLESS[kind]
    server = serve(endless(head, piece))
    begin = time.process_time()
    assert problem(ASKING[what], server) == f"no answer after 2 tries; the last error: {said}"
    assert time.process_time() - begin < 5 and len(server.heads) == 2


@pytest.mark.parametrize(
    "kind", mostly_slow(["a body", "a header", "small chunks", "trailers", "a status line", "interim answers"])
)
def test_what_comes_byte_by_byte_is_cut(kind: str, serve: Callable[..., LyingServer]) -> None:
    head, piece, _ = ENDLESS[kind]
    server = serve(
        slow(head, piece[:1] if kind in ("a body", "a header", "a status line") else piece[: piece.index(b"\n") + 1])
    )
    begin = time.monotonic()
    assert problem(ask_chat, server, timeout=0.3) == "no answer after 2 tries; the last error: no answer within 0.3 s"
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("what", ASKING)
def test_a_compressed_body_is_refused_unread(what: str, serve: Callable[..., LyingServer]) -> None:
    bomb = gzip.compress(b" " * 100_000_000)
    server = serve(answer(bomb, lines="Content-Encoding: gzip\r\n"))
    tracemalloc.start()
    try:
        said = problem(ASKING[what], server)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert said == "no answer after 2 tries; the last error: the body is compressed (gzip), which was not asked for"
    assert b"accept-encoding: identity" in server.heads[0].lower()


@pytest.mark.parametrize("what", ASKING)
def test_a_body_of_more_values_than_an_answer_has(
    what: str, serve: Callable[..., LyingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of empty lists takes 30 times its length in memory."""
    monkeypatch.setattr(wire, "MOST_VALUES", 1000)
    server = serve(answer(b"[" + b"[]," * 999 + b"[]]"))
    said = problem(ASKING[what], server)
    assert said == "no answer after 2 tries; the last error: the body holds more than 1000 values"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("what", ASKING)
def test_nobody_follows_a_redirection(what: str, status: int, serve: Callable[..., LyingServer]) -> None:
    other = serve(answer(json.dumps(GOOD[what]).encode()))
    server = serve(answer(b"", f"{status} Moved", f"Location: {other.url}/v1/x?key={KEY}\r\n"))
    said = problem(ASKING[what], server)
    assert said == (
        f"{status}: it redirects to {other.url}/v1/x?key=***, which is not followed: give that address if you trust it"
    )
    assert KEY.encode() in server.heads[0] and len(server.heads) == 1 and not other.heads


def test_a_redirection_to_anything_is_one_line(serve: Callable[..., LyingServer]) -> None:
    server = serve(answer(b"", "302 Found", "Location: http://\x1b[2J\x07\xa0" + "a" * 9000 + "\r\n"))
    assert problem(ask_chat, server).startswith("302: it redirects to http://\ufffd[2J\ufffd aaa")
    assert problem(ask_chat, serve(answer(b"", "302 Found"))).startswith("302: it redirects to nowhere, ")


def test_a_complaint_is_one_line_and_steers_no_terminal(serve: Callable[..., LyingServer]) -> None:
    words = f"no\n\x1b]0;owned\x07\x1b[2J\u202e key {KEY} " + "x" * 100_000
    server = serve(answer(json.dumps({"error": {"message": words}}).encode(), "401 No"))
    assert problem(ask_chat, server).startswith("401: no \ufffd]0;owned\ufffd\ufffd[2J\ufffd key *** xxx")


@pytest.mark.parametrize(
    "after", ["9" * 5000, "9" * 90, "-1", "nan", "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 99 Foo", "\x1b"]
)
def test_a_senseless_wait_is_none(after: str, serve: Callable[..., LyingServer]) -> None:
    def lie(connection: socket.socket) -> None:
        good = len(server.heads) > 1
        answer(
            json.dumps(CHAT).encode() if good else b"{}", "200 OK" if good else "429 No", f"retry-after: {after}\r\n"
        )(connection)

    server = serve(lie)
    waited: list[float] = []
    model = HttpModel("tiny", ServerOptions(server.url, timeout=10.0, retries=1, backoff=0.01))
    model._closed.wait = lambda seconds=None: waited.append(seconds) or False  # type: ignore[method-assign, assignment]
    assert model.sample([ASK])[0].text == "said twice"
    assert len(waited) == 1 and 0 <= waited[0] <= 60


# ---- bodies that say two things, or nonsense


def changed(**more: Any) -> bytes:
    """CHAT with other values, by their paths: choices__0__token_ids=[...]."""
    made = json.loads(json.dumps(CHAT))
    for path, value in more.items():
        *way, last = path.split("__")
        at: Any = made
        for step in way:
            at = at[int(step)] if step.isdigit() else at[step]
        at[int(last) if last.isdigit() else last] = value
    return json.dumps(made).encode()


IDS = CHAT["choices"][0]["token_ids"]
PROBS = CHAT["choices"][0]["logprobs"]["content"]
LIES: dict[str, tuple[bytes, str]] = {
    "two choices": (changed(choices=CHAT["choices"] * 2), "the answer has 2 choices where 1 was asked for"),
    "no choice": (changed(choices=[]), "the body is no chat completion"),
    "fewer ids": (changed(choices__0__token_ids=IDS[:-1]), "the answer has 2 token ids and says 3 completion_tokens"),
    "more ids": (changed(choices__0__token_ids=[*IDS, 5]), "the answer has 4 token ids and says 3 completion_tokens"),
    "fewer prompt ids": (changed(prompt_token_ids=[5]), f"the answer has 1 token ids and says {CHAT['usage']['prompt_tokens']} prompt_tokens"),
    "ids as text": (changed(choices__0__token_ids="123"), "the answer's token ids are invalid"),
    "ids as an object": (changed(choices__0__token_ids={"0": 1}), "the answer's token ids are invalid"),
    "ids that are fractions": (changed(choices__0__token_ids=[1.5, 2, 3]), "the answer's token ids are invalid"),
    "ids that are true": (changed(choices__0__token_ids=[True, 2, 3]), "the answer's token ids are invalid"),
    "huge ids": (changed(choices__0__token_ids=[10**30, 2, 3]), "the answer's token ids are invalid"),
    "ids in lists": (changed(choices__0__token_ids=[[1], [2], [3]]), "the answer's token ids are invalid"),
    "fewer logprobs": (changed(choices__0__logprobs__content=PROBS[:-1]), "the answer has 3 token ids and 2 logprobs"),
    "NaN logprobs": (changed(choices__0__logprobs__content__0__logprob=float("nan")), "the body is no chat completion"),
    "infinite logprobs": (changed(choices__0__logprobs__content__0__logprob=-float("inf")), "the body is no chat completion"),
    "logprobs as text": (changed(choices__0__logprobs__content__0__logprob="NaN"), "the answer's logprobs are invalid"),
    "logprobs above 0": (changed(choices__0__logprobs__content__0__logprob=5.0), "the answer's logprobs are invalid"),
    "huge logprobs": (changed(choices__0__logprobs__content__0__logprob=-(10**200)), "the answer's logprobs are invalid"),
    "logprobs beyond floats": (changed().replace(b'"logprob": -', b'"logprob": -1e999', 1), "the body is no chat completion"),
    "logprobs that are lists": (changed(choices__0__logprobs__content=[[]] * 3), "the answer's logprobs are invalid"),
    "a huge count": (changed(usage__prompt_tokens=10**30), "'prompt_tokens' in the answer is not a count"),
    "a count as text": (changed(usage__completion_tokens="3"), "'completion_tokens' in the answer is not a count"),
    "a count of many digits": (changed().replace(b'"prompt_tokens": ', b'"prompt_tokens": ' + b"9" * 5000), "the body is no chat completion"),
    "text as a list": (changed(choices__0__message__content=["a"]), "'content' in the answer is a list"),
    "nested": (b'{"choices":' * 50_000, "the body is no chat completion"),
    "a choice of null": (changed(choices=[None]), "the body is no chat completion"),
    "a message of null": (changed(choices__0__message=None), "the body is no chat completion"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_contradicts_itself_is_none(lie: str) -> None:
    body, said = LIES[lie]
    with pytest.raises(ValueError) as error:
        read_reply(body)
    assert str(error.value) == said


def test_such_an_answer_is_asked_for_again(serve: Callable[..., LyingServer]) -> None:
    lies = [LIES["fewer ids"][0], LIES["NaN logprobs"][0], LIES["two choices"][0], changed()]
    server = serve(lambda connection: answer(lies[len(server.heads) - 1])(connection))
    (reply,) = ask_chat(server.url, retries=3)
    assert (reply.text, reply.token_ids, len(server.heads)) == ("said twice", [*token_ids("said twice"), 1], 4)
    assert reply.logprobs is not None and len(reply.logprobs) == 3


VECTOR_LIES: dict[str, Any] = {
    "too many": {"data": VECTORS["data"] * 2},
    "none": {"data": []},
    "another's": {"data": [{"index": 7, "embedding": [0.5]}]},
    "true": {"data": [{"index": False, "embedding": [0.5]}]},
    "empty": {"data": [{"index": 0, "embedding": []}]},
    "texts": {"data": [{"index": 0, "embedding": ["NaN"]}]},
    "base64": {"data": [{"index": 0, "embedding": "AAAA"}]},
    "NaN": {"data": [{"index": 0, "embedding": [float("nan")]}]},
    "huge": {"data": [{"index": 0, "embedding": [10**400]}]},
    "deep": {"data": [{"index": 0, "embedding": [[0.5]]}]},
    "an object": {"data": {"0": [0.5]}},
}


@pytest.mark.parametrize("lie", VECTOR_LIES)
def test_vectors_that_are_none(lie: str, serve: Callable[..., LyingServer]) -> None:
    server = serve(answer(json.dumps(VECTOR_LIES[lie]).encode()))
    assert problem(ask_vectors, server).startswith("no answer after 2 tries; the last error: ")
    assert len(server.heads) == 2
