"""The model over HTTP against a server that fails in every way: what is tried again, what is an error, what is read."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from model_server import BROKEN, RUBBISH, FaultyServer, completion, prompt_ids, token_ids

from mletools.base.errors import RecordError, ToolError
from mletools.models import ContextExceeded, Reply, Request, ServerOptions, ToolCall, wire
from mletools.models.completion import read_reply
from mletools.models.http import HttpModel, to_stderr
from mletools.models.server_errors import exceeds_context

ASK = Request([{"role": "user", "content": "say it twice"}], seed=11, training=True)
TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"code": "1 + 1"}'}}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def engine() -> Iterator[Callable[..., HttpModel]]:
    opened: list[HttpModel] = []

    def make(server: FaultyServer, say: Callable[[str], None] = to_stderr, **options: Any) -> HttpModel:
        settings = ServerOptions(server.url, **{"timeout": 20.0, "retries": 3, "backoff": 0.01, **options})
        opened.append(HttpModel("tiny", settings, say))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def echo(body: dict[str, Any]) -> str:
    return f"you said: {body['messages'][-1]['content']}"


GOOD = Reply(
    "you said: say it twice", "stop", [3, *token_ids("say it twice"), 1, 4], [*token_ids("you said: say it twice"), 1],
    [-(one % 7 + 1) / 8 for one in [*token_ids("you said: say it twice"), 1]], 6, 6,
)  # fmt: skip


# ---- trouble that passes


@pytest.mark.parametrize("fault", [*RUBBISH, *BROKEN, "408", "429", "429@0", "500", "502", "503@0", "529"])
def test_the_answer_after_trouble_is_the_right_one(
    fault: str, engine: Callable[..., HttpModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 3 * 2**20)
    with FaultyServer(echo, [fault, "", fault, fault]) as server:
        model = engine(server, timeout=0.5 if fault in ("hang", "drip") else 20.0)
        assert model.sample([ASK, ASK, ASK]) == [GOOD] * 3
    assert len(server.requests) == 6  # 2 for the first, 3 for the second, 1 for the third
    assert all(body == server.requests[0] for body in server.requests)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("html", "the body is no chat completion"),
        ("deep", "the body is no chat completion"),
        ("nan", "the body is no chat completion"),
        ("odd-text", "'content' in the answer is a list"),
        ("odd-usage", "'usage' in the answer is a list"),
        ("negative", "'prompt_tokens' in the answer is not a count"),
        ("odd-calls", "a tool call in the answer names no function"),
        ("fewer-logprobs", "the answer has 6 token ids and 99 logprobs"),
        ("error", "502: upstream failed"),
        ("reset", "connection failed: Connection reset by peer"),
        ("cut", "connection dropped (ProtocolError)"),
        ("cut-chunks", "connection dropped (ProtocolError)"),
        ("hang", "no answer within 0.5 s"),
        ("drip", "no answer within 0.5 s"),
        ("endless", "the body is larger than 3 MB"),
        ("503", "503: not now"),
    ],
)
def test_trouble_that_lasts_is_told(
    fault: str, problem: str, engine: Callable[..., HttpModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 3 * 2**20)
    with FaultyServer(echo, [fault] * 2) as server:
        model = engine(server, retries=1, timeout=0.5 if fault in ("hang", "drip") else 20.0)
        with pytest.raises(ToolError) as error:
            model.sample([ASK])
        assert not isinstance(error.value, RecordError)
        assert str(error.value) == f"{model.url}: no answer after 2 tries; the last error: {problem}"
        assert model.sample([ASK]) == [GOOD]
    assert len(server.requests) == 3


def test_an_answer_that_came_too_late_is_told_once(engine: Callable[..., HttpModel]) -> None:
    said: list[str] = []
    with FaultyServer(echo, ["hang", "", "hang"]) as server:
        model = engine(server, timeout=0.5, say=said.append)
        assert model.sample([ASK, ASK]) == [GOOD] * 2
    (message,) = said
    assert message.startswith(
        f"{model.url}: no answer within 0.5 s: asks again for all of it; --request-timeout S waits"
    )


@pytest.mark.slow
def test_a_mix_of_trouble_under_hundreds_of_requests_at_once(engine: Callable[..., HttpModel]) -> None:
    faults = ["503", "drop", "cut", "truncated", "429@0", "", "reset", "no-choices", "", "cut-chunks"] * 12
    with FaultyServer(echo, faults, latency_s=1.0) as server:
        model = engine(server, retries=20)
        barrier = threading.Barrier(300)

        def ask(index: int) -> Reply:
            barrier.wait()
            return model.sample([Request([{"role": "user", "content": f"number {index}"}], seed=index)])[0]

        with ThreadPoolExecutor(300) as pool:
            replies = list(pool.map(ask, range(300)))
    assert [reply.text for reply in replies] == [f"you said: number {index}" for index in range(300)]
    assert len(server.requests) == 300 + sum(1 for fault in faults if fault)
    assert server.most_at_once >= 100


def test_a_server_that_refuses_the_extras(engine: Callable[..., HttpModel]) -> None:
    with FaultyServer(echo, strict=True) as server:
        assert engine(server).sample([ASK, ASK]) == [Reply(GOOD.text, prompt_tokens=6, completion_tokens=6)] * 2
    assert ["top_k" in body for body in server.requests] == [True] * 4 + [False] * 2  # named one by one


# ---- what is sent and read


def test_a_conversation_with_tools(engine: Callable[..., HttpModel]) -> None:
    def agent(body: dict[str, Any]) -> str | dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return f"it is {body['messages'][-1]['content']}"
        return {"content": None, "tool_calls": [CALL], "reasoning_content": "let me run it"}

    with FaultyServer(agent) as server:
        model = engine(server)
        first = model.sample(
            [Request(ASK.messages, 1, tools=TOOLS, stop=("Observation:",), role="react", training=True)]
        )[0]
        assert first.tool_calls == (ToolCall("c1", "run", '{"code": "1 + 1"}'),)
        assert (first.text, first.finish_reason, first.reasoning) == ("", "stop", "let me run it")
        said = {"role": "assistant", "content": "", "tool_calls": [CALL], "loss": True, "token_ids": [4, 5]}
        heard = {"role": "tool", "content": "2", "tool_call_id": "c1", "name": "run", "duration_s": 0.1}
        second = model.sample([Request([*ASK.messages, said, heard], 2, tools=TOOLS, training=True)])[0]
        assert (second.text, second.tool_calls) == ("it is 2", ())
    assert server.requests[0]["tools"] == TOOLS and server.requests[0]["stop"] == ["Observation:"]
    assert "role" not in server.requests[0] and "stop" not in server.requests[1]
    assert server.requests[1]["messages"] == [
        *ASK.messages,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "2", "tool_call_id": "c1", "name": "run"},
    ]
    assert first.prompt_token_ids is not None and first.token_ids is not None and second.prompt_token_ids is not None
    sequence = first.prompt_token_ids + first.token_ids
    assert second.prompt_token_ids[: len(sequence)] == sequence


def test_answers_end_at_a_stop_text_or_at_max_tokens(engine: Callable[..., HttpModel]) -> None:
    with FaultyServer(lambda body: "one two three four") as server:
        model = engine(server)
        stopped, cut = model.sample(
            [Request(ASK.messages, 1, stop=(" three",)), Request(ASK.messages, 1, max_tokens=3)]
        )
    assert (stopped.text, stopped.finish_reason, stopped.completion_tokens) == ("one two", "stop", 3)
    assert (cut.text, cut.finish_reason, cut.completion_tokens) == ("one two three", "length", 3)


def body(message: dict[str, Any], **others: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}], **others}).encode()


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({"id": "x", "function": {"name": "run", "arguments": "{bad"}}, ToolCall("x", "run", "{bad")),
        ({"id": "", "function": {"name": "run", "arguments": {"ä": 1}}}, ToolCall("call_0", "run", '{"ä": 1}')),
        ({"id": None, "function": {"name": "run", "arguments": None}}, ToolCall("call_0", "run", "{}")),
        ({"function": {"name": "run"}}, ToolCall("call_0", "run", "{}")),
    ],
)
def test_calls_as_servers_write_them(given: dict[str, Any], call: ToolCall) -> None:
    assert read_reply(body({"tool_calls": [given]})) == Reply("", tool_calls=(call,))


@pytest.mark.parametrize(
    "given", [7, {}, {"function": {}}, {"function": {"name": 7}}, {"id": 7, "function": {"name": "run"}}]
)
def test_calls_that_are_none(given: Any) -> None:
    with pytest.raises(ValueError):
        read_reply(body({"tool_calls": [given]}))


def test_what_else_an_answer_may_tell() -> None:
    usage = {
        "prompt_tokens": 90, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }  # fmt: skip
    reply = read_reply(body({"content": "4\ud800", "reasoning": "2 + 2"}, usage=usage))
    assert reply == Reply(
        "4\ufffd", "stop", None, None, None, 90, 20, cached_tokens=64, reasoning_tokens=12, reasoning="2 + 2"
    )
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    assert read_reply(body({"content": "4", "reasoning_content": None}, usage=details)) == Reply("4")


# ---- a prompt that is too long


TOO_LONG = [
    # vLLM, newer and older
    "This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
    "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "This model's maximum context length is 8192 tokens. However, you requested 8203 tokens (7691 in the messages, "
    "512 in the completion). Please reduce the length of the messages or completion.",
    "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
    # SGLang
    "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    # llama.cpp and its Python server
    "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Requested tokens (2285) exceed context window of 2048",
    # others behind the same protocol
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "prompt is too long: 214850 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1024 `max_new_tokens`",
]  # fmt: skip
OTHERS = [
    "max_tokens=20000 cannot be greater than max_model_len=16384. Please request fewer output tokens.",
    "Unrecognized request argument: top_k",
    "Request Entity Too Large",
    "messages[1].content: text is too long",
    "1 validation error: {'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list'}",
    "x" * 500 + " exceeds the context length",  # what a server repeats of a prompt
]  # fmt: skip


@pytest.mark.parametrize(("words", "too_long"), [*((one, True) for one in TOO_LONG), *((one, False) for one in OTHERS)])
def test_complaints_about_the_context(words: str, too_long: bool) -> None:
    bodies = [{"error": {"message": words}}, {"object": "error", "message": words}, {"error": words}, {"detail": words}]
    for given in [*(json.dumps(one).encode() for one in bodies), words.encode()]:
        assert exceeds_context(400, given) == too_long
        assert not exceeds_context(503, given) and not exceeds_context(429, given)


def test_codes_about_the_context() -> None:
    code = b'{"error": {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}}'
    kind = b'{"error": {"message": "no", "type": "exceed_context_size_error", "code": 500, "n_ctx": 256}}'
    assert exceeds_context(400, code) and exceeds_context(500, kind)
    assert not exceeds_context(400, b'{"error": {"message": "no", "type": ["a"], "code": {}}}')


def test_a_prompt_that_is_too_long_is_an_error_of_its_own(engine: Callable[..., HttpModel]) -> None:
    with FaultyServer(echo, context=40) as server:
        model = engine(server)
        with pytest.raises(ContextExceeded) as error:
            model.sample([Request(ASK.messages, 1, max_tokens=35, training=True)])
        assert str(error.value) == (
            f"{model.url}: 400: This model's maximum context length is 40 tokens. However, you requested 41. (the prompt"
            " and up to 35 tokens of answer share the model's context)"
        )
        assert model.sample([Request(ASK.messages, 11, max_tokens=34, training=True)]) == [GOOD]
    assert len(server.requests) == 2  # nothing was asked again in vain
    assert isinstance(error.value, RecordError)


# ---- the server itself


def test_the_faulty_servers_tokens_continue_from_turn_to_turn() -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": ""}, {"role": "user", "content": " a\n b "}]
    asked = {"model": "m", "messages": messages, "max_tokens": 9, "logprobs": True, "return_token_ids": True}
    first = completion(asked, "one\n\n two ")
    sequence = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    following = [*messages, first["choices"][0]["message"], {"role": "user", "content": "on"}]
    assert prompt_ids(following)[: len(sequence)] == sequence


def test_a_fault_of_the_answering_function_is_told(engine: Callable[..., HttpModel]) -> None:
    with FaultyServer(lambda body: body["nothing"]) as server, pytest.raises(RecordError) as error:
        engine(server).sample([ASK])
    assert str(error.value).endswith("400: KeyError: 'nothing'")
