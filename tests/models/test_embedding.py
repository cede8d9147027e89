"""Embeddings over HTTP against a real server in a thread: what is asked, what is kept, what is tried again, what is told."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from embedding_server import Server, cut, listed, vector
from step_server import drop, send, status, without_keys_and_proxies

from mletools.base.errors import RecordError, ToolError
from mletools.models import ServerOptions, embedding, wire
from mletools.models.embedding import HttpEmbeddings, open_embeddings, read_vectors
from mletools.models.http import NO_KEY


def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], None]:
    def step(handler: Any) -> None:
        answer = listed(handler.body)
        change(answer)
        send(handler, 200, answer)

    return step


def first(**values: Any) -> Callable[[Any], None]:
    return changed(lambda answer: answer["data"][0].update(values))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with without_keys_and_proxies(Server(), monkeypatch) as server:
        yield server


def model(server: Server, url: str = "", **options: Any) -> HttpEmbeddings:
    return HttpEmbeddings(
        "words", ServerOptions(url or server.url, **{"timeout": 20.0, "retries": 2, "backoff": 0.01, **options})
    )


# ---- what is asked, and what comes back


def test_texts_become_vectors(server: Server) -> None:
    engine = model(server, url=f"{server.url}/v1/chat/completions")
    assert engine.embed(["ab", "c"]) == [[2.0, 24.375, -0.5], [1.0, 12.375, -0.5]]
    assert engine.embed([]) == []
    assert [(one["path"], one["body"]) for one in server.seen] == [
        ("/v1/embeddings", {"model": "words", "input": ["ab", "c"], "encoding_format": "float"})
    ]
    assert (engine.name, engine.url) == ("words", server.endpoint)


def test_the_index_says_which_text_a_vector_belongs_to(server: Server) -> None:
    server.script = [changed(lambda answer: answer["data"].reverse())]
    assert model(server).embed(["a", "bb", "ccc"]) == [vector("a"), vector("bb"), vector("ccc")]
    assert len(server.seen) == 1


def test_many_texts_go_in_batches_and_equal_ones_go_once(server: Server) -> None:
    texts = [f"text {index}" for index in range(300)]
    engine = model(server)
    assert engine.embed([*texts, texts[7]]) == [vector(text) for text in [*texts, texts[7]]]
    assert server.asked == [texts[at : at + 32] for at in range(0, len(texts), 32)]
    assert engine.embed([texts[299], "new", texts[0], "new"]) == [
        vector(text) for text in (texts[299], "new", texts[0], "new")
    ]
    assert server.asked[10:] == [["new"]]


def test_a_change_of_a_returned_vector_does_not_reach_the_cache(server: Server) -> None:
    engine = model(server)
    engine.embed(["a"])[0].clear()
    assert engine.embed(["a"]) == [vector("a")]


def test_the_least_recently_used_text_is_evicted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CACHED_TEXTS", 3)
    engine = model(server)
    for text in ("a", "b", "c", "a", "d"):  # the last pushes b out, for a was used since
        engine.embed([text])
    assert server.asked == [["a"], ["b"], ["c"], ["d"]]
    assert engine.embed(["a", "c", "d", "b"]) == [vector(text) for text in "acdb"]
    assert server.asked[4:] == [["b"]]
    assert engine.embed(list("vwxyz")) == [vector(text) for text in "vwxyz"], "more at once than are kept"


def test_any_text_can_be_sent(server: Server) -> None:
    texts = ["", "\u2028\x00é", "half \ud800 of a pair"]
    assert model(server).embed(texts) == [vector(text) for text in texts]
    assert server.asked == [texts]


# ---- trouble


BROKEN = [
    (lambda handler: send(handler, 200, b"<html>"), "the body is no list of embeddings"),
    (lambda handler: send(handler, 200, {"data": {"0": []}}), "the body is no list of embeddings"),
    (lambda handler: send(handler, 200, {"data": [[1.0], [2.0]]}), "the body is no list of embeddings"),
    (changed(lambda answer: answer["data"].pop()), "the answer to 2 texts has 1 embeddings"),
    (changed(lambda answer: answer["data"].append(answer["data"][0])), "the answer to 2 texts has 3 embeddings"),
    (first(index=1), "the answer does not say which embedding belongs to which text"),
    (first(index=None), "the answer does not say which embedding belongs to which text"),
    (first(index=2), "the answer does not say which embedding belongs to which text"),
    (first(embedding=[1.0, 2.0]), "the answer's embeddings differ in length: 2 to 3"),
    (first(embedding=[1.0, float("nan"), 2.0]), "the body is no list of embeddings"),
    (first(embedding=[1.0, float("inf"), 2.0]), "the body is no list of embeddings"),
    (first(embedding=[1.0, 10**400, 2.0]), "the body is no list of embeddings"),
    (first(embedding=[1.0, None, 2.0]), "an embedding in the answer is not a list of numbers"),
    (first(embedding=[1.0, True, 2.0]), "an embedding in the answer is not a list of numbers"),
    (first(embedding="AACAPw=="), "an embedding in the answer is not a list of numbers"),
    (changed(lambda answer: [one.update(embedding=[]) for one in answer["data"]]), "an embedding in the answer is not a list of numbers"),
    (lambda handler: send(handler, 200, {"error": {"message": "upstream failed", "code": 502}}), "502: upstream failed"),
    (cut, "connection dropped (ProtocolError)"),
    (drop, "connection dropped (ProtocolError)"),
    (status(429, Retry_After="0"), "429: not now"),
    (status(408), "408: not now"),
    (status(503, "overloaded"), "503: overloaded"),
]  # fmt: skip


@pytest.mark.parametrize(("trouble", "problem"), BROKEN)
def test_a_failure_is_retried_and_reported_when_it_lasts(
    trouble: Callable[[Any], None], problem: str, server: Server
) -> None:
    server.script = [trouble, trouble]
    engine = model(server)
    assert engine.embed(["a", "bb"]) == [vector("a"), vector("bb")]
    assert server.asked == [["a", "bb"]] * 3
    server.script = [trouble] * 3
    with pytest.raises(ToolError) as error:
        engine.embed(["a", "cc", "dd"])
    assert not isinstance(error.value, RecordError)
    assert str(error.value) == f"{server.endpoint}: no answer after 3 tries; the last error: {problem}"
    assert engine.embed(["cc"]) == [vector("cc")], "not a part of it was kept"


def test_a_length_that_changes_between_answers_is_trouble(server: Server) -> None:
    engine = model(server, retries=0)
    engine.embed(["a"])
    server.script = [first(embedding=[1.0, 2.0])]
    with pytest.raises(ToolError) as error:
        engine.embed(["b"])
    assert str(error.value).endswith("the last error: embeddings of length 2, where earlier ones have 3")
    assert engine.embed(["b"]) == [vector("b")]


def test_retry_after_is_respected(server: Server) -> None:
    server.script = [status(429, Retry_After="1")]
    started = time.monotonic()
    assert model(server, backoff=0.0).embed(["a"]) == [vector("a")]
    assert time.monotonic() - started >= 1


def test_a_body_without_end_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 2**20)
    server.script = [lambda handler: send(handler, 200, b" " * (2**20 + 1))]
    with pytest.raises(ToolError) as error:
        model(server, retries=0).embed(["a"])
    assert str(error.value) == f"{server.endpoint}: no answer after 1 try; the last error: the body is larger than 1 MB"


@pytest.mark.parametrize(("code", "blames_texts"), [(400, True), (413, True), (422, True), (401, False), (404, False)])
def test_a_refusal_is_reported_without_a_retry(code: int, blames_texts: bool, server: Server) -> None:
    server.script = [status(code, "no such thing")]
    engine = model(server)
    with pytest.raises(ToolError) as error:
        engine.embed(["a"])
    assert isinstance(error.value, RecordError) == blames_texts
    keyless = NO_KEY if code == 401 else ""
    assert str(error.value) == f"{server.endpoint}: {code}: no such thing{keyless}"
    assert len(server.seen) == 1
    assert engine.embed(["a"]) == [vector("a")]


def test_the_key_is_sent_and_never_shown(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    (tmp_path / "key").write_text("sk-file\n")
    engine = open_embeddings("words", ServerOptions(server.url, key_file=str(tmp_path / "key"), retries=1))
    for code, message in ((401, "401: wrong key *** given"), (400, "400: wrong key *** given")):
        server.script = [status(code, "wrong key sk-file given")]
        with pytest.raises(ToolError) as error:
            engine.embed(["a"])
        assert str(error.value) == f"{server.endpoint}: {message}"
    server.script = [status(503, "sk-file", Retry_After="0")] * 2
    with pytest.raises(ToolError) as error:
        engine.embed(["a"])
    assert str(error.value).endswith("the last error: 503: ***")
    model(server).embed(["a"])
    model(server, url=server.url.replace("//", "//ann:secret%21@")).embed(["a"])
    assert [one["headers"]["Authorization"] for one in server.seen] == [
        *["Bearer sk-file"] * 4, "Bearer sk-environment", "Basic YW5uOnNlY3JldCE=",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        (
            "words",
            None,
            "words: an embedding model needs its server's address: give --embedding-url, --model-url or MLE_MODEL_URL",
        ),
        ("", "http://host", "no embedding model: name one that a server at --embedding-url serves"),
        ("words", "host", "--embedding-url: not the address of a server, e.g. http://localhost:8000/v1"),
    ],
)
def test_invalid_names_and_addresses_are_refused(name: str, url: str | None, message: str) -> None:
    with pytest.raises(ToolError) as error:
        open_embeddings(name, ServerOptions(url))
    assert str(error.value) == message


def test_an_answer_read_by_hand() -> None:
    body = b'{"data": [{"index": 1, "embedding": [0, 1e-3]}, {"index": 0, "embedding": [-2, 3]}]}'
    assert [list(one) for one in read_vectors(body, 2)] == [[-2.0, 3.0], [0.0, 0.001]]


# ---- threads


def test_many_threads_ask_for_each_text_once(server: Server) -> None:
    def late(handler: Any) -> None:
        time.sleep(0.05)
        send(handler, 200, listed(handler.body))

    server.always = late
    engine = model(server)
    barrier = threading.Barrier(32)

    def ask(index: int) -> list[list[float]]:
        barrier.wait()
        return engine.embed([f"own {index}", *(f"shared {at}" for at in range(index % 8, 20))])

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(ask, range(32)))
    for index, vectors in enumerate(found):
        assert vectors == [vector(f"own {index}"), *(vector(f"shared {at}") for at in range(index % 8, 20))]
    asked = [text for texts in server.asked for text in texts]
    assert len(asked) == len(set(asked)) == 32 + 20


def test_a_failure_of_one_thread_does_not_reach_the_others(server: Server) -> None:
    arrived, go = threading.Event(), threading.Event()

    def refuse(handler: Any) -> None:
        arrived.set()
        go.wait(20)
        status(400, "'bad' is bad")(handler)

    server.script = [refuse]
    engine = model(server)
    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(engine.embed, ["good", "bad"])
        assert arrived.wait(20)
        waiting = pool.submit(engine.embed, ["good", "own"])
        while ["own"] not in server.asked:  # now nothing is left to it but to wait for the other's text
            time.sleep(0.01)
        go.set()
        assert waiting.result(20) == [vector("good"), vector("own")]
        assert isinstance(failing.exception(20), RecordError)
    assert server.asked == [["good", "bad"], ["own"], ["good"]]


def test_closing_ends_every_wait(server: Server) -> None:
    server.always = status(503, "starting", Retry_After="50")
    engine = model(server)
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(engine.embed, ["same"]) for _ in range(2)]
        while not server.seen:
            time.sleep(0.01)
        engine.close()
        told = [str(one.exception(20)) for one in asking]
    assert told == [f"{server.endpoint}: closed while waiting for a retry; the last error: 503: starting"] * 2
