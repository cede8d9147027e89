"""What servers write: waits, errors, streams, addresses; each read by hand."""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from urllib3 import HTTPHeaderDict

from mletools.base.errors import OptionError, ToolError
from mletools.models import Reply, Request, ServerOptions, ToolCall, server_errors
from mletools.models.address import read_address, same_server
from mletools.models.completion import read_reply
from mletools.models.dialect import Dialect
from mletools.models.options import ModelOptions, RoleOptions, read_field, role_declarations
from mletools.models.waits import stated_wait_s

# ---- waits


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "86400"}, 86400.0),
        ({"Retry-After": "86401"}, None),
        ({"Retry-After": "-1"}, None),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "12ms"}, 0.012),
        ({"x-ratelimit-reset": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "-1", "x-ratelimit-reset-tokens": "0"}, 0.0),  # Azure
        (
            {
                "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1m",
                "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s",
            },
            2.0,
        ),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}, 3.0),
        ({"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "2h24m0s"}, None),
        ({"x-ratelimit-reset-tokens": "9" * 5000}, None),
    ],
)  # fmt: skip
def test_waits_that_headers_state(headers: dict[str, str], seconds: float | None) -> None:
    assert stated_wait_s(HTTPHeaderDict(headers)) == seconds


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2h24m0s"}, "", None),
        ({}, "try again in 1.2s", None),
    ],
)
def test_a_server_that_is_not_busy_is_waited_for_by_retry_after_alone(
    headers: dict[str, str], body: str, seconds: float | None
) -> None:
    assert stated_wait_s(HTTPHeaderDict(headers), body.encode(), busy=False) == seconds


def test_waits_until_a_time() -> None:
    then = datetime.now(UTC) + timedelta(seconds=30)
    forms = [
        {"Retry-After": format_datetime(then, usegmt=True)},
        {"X-RateLimit-Reset": str(int(then.timestamp()))},
        {"X-RateLimit-Reset": str(int(then.timestamp() * 1000))},
        {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": then.isoformat()},
    ]
    waits = [stated_wait_s(HTTPHeaderDict(headers)) for headers in forms]
    assert all(wait is not None and 27 <= wait <= 30 for wait in waits), waits
    assert stated_wait_s(HTTPHeaderDict({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})) == 0


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.2s. Visit ...", 1.2),
        ("Please try again in 7m12s.", 432.0),
        ('{"details": [{"retryDelay": "34s"}]}', 34.0),
        ("try again in a while", None),
    ],
)
def test_waits_that_a_body_states(body: str, seconds: float | None) -> None:
    assert stated_wait_s({}, body.encode()) == seconds


# ---- errors


def body_of(message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


SENT = ["temperature", "top_p", "max_tokens", "seed", "tools", "stop", "logprobs", "top_k", "reasoning_effort"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (body_of("no", param="temperature"), ["temperature"]),
        (body_of("'stop' is not supported with this model."), ["stop"]),
        (body_of("please stop: the seed of doubt"), []),
        (body_of("Unsupported parameter: 'top_k'. Supported parameters: temperature, top_p, seed"), ["top_k"]),
        (body_of("Unrecognized request arguments supplied: logprobs, top_k"), ["logprobs", "top_k"]),
        (body_of("Use 'max_completion_tokens' instead of 'max_tokens'"), ["max_tokens"]),
        (json.dumps({"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}).encode(), ["seed"]),
        (json.dumps({"detail": [{"loc": ["body", "messages", 2, "x"], "msg": "seed"}]}).encode(), []),
        (b'[{"error": {"message": "Unknown name \\"seed\\": Cannot find field."}}]', ["seed"]),
        (b"<html><body>temperature is not supported</body></html>", ["temperature"]),
        (b"\xff\x00", []),
        (b"[]", []),
        (body_of("no", param=["temperature"]), []),
    ],
)
def test_parameters_that_an_error_names(body: bytes, names: list[str]) -> None:
    assert server_errors.refused_parameters(body, SENT) == names


def test_kinds_of_errors() -> None:
    quota, rate = body_of("no", code="insufficient_quota"), body_of("Rate limit reached", code="rate_limit_exceeded")
    google = body_of("You exceeded your current quota, please check your plan and billing details.")
    assert server_errors.is_spent(429, quota, 20.0) and not server_errors.is_spent(429, rate, None)
    assert server_errors.is_spent(429, google, None) and not server_errors.is_spent(429, google, 34.0)
    assert server_errors.is_spent(402, b"", None) and not server_errors.is_spent(500, google, None)
    large = body_of("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 90000.")
    assert server_errors.exceeds_rate(429, large) and not server_errors.exceeds_rate(429, rate)
    assert server_errors.is_filtered(
        400, body_of("Invalid prompt: it violates our usage policy", code="invalid_prompt")
    )
    assert server_errors.is_filtered(403, body_of("Your input was flagged for violence"))
    assert not server_errors.is_filtered(403, body_of("no access")) and not server_errors.is_filtered(500, quota)
    assert server_errors.exceeds_context(400, body_of("Your request exceeded model token limit: 262144"))
    assert server_errors.error_message(b"<html><title>502 Bad\nGateway</title><h1>no</h1>") == "502 Bad Gateway"
    assert server_errors.error_message(b"<html><h1>no</h1> more") == "no more"
    assert server_errors.error_status(b'[{"error": {"code": 503, "message": "overloaded"}}]') == 503


# ---- what a server is sent after its errors


def learning(**known: Any) -> tuple[Dialect, list[str]]:
    notices: list[str] = []
    return Dialect("m", known, notices.append), notices


ASK = Request([{"role": "user", "content": "hi"}], 5, 0.5, 0.9, training=True)


def test_many_threads_learn_once() -> None:
    dialect, notices = learning()
    body = body_of("'temperature' is not supported", param="temperature")
    barrier, retried = threading.Barrier(16), list[bool]()

    def learn() -> None:
        sent = dialect.fields(ASK)
        barrier.wait()
        retried.append(dialect.learn(400, body, sent))

    threads = [threading.Thread(target=learn) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert retried == [True] * 16 and notices == ["the server refuses temperature: not sent from now on"]
    assert "temperature" not in dialect.fields(ASK) and not dialect.learn(400, body, dialect.fields(ASK))


@pytest.mark.parametrize(
    "message", ["tools are not supported", "model 'm' is unknown", "max_tokens is too large: 9", ""]
)
def test_what_is_never_left_out(message: str) -> None:
    dialect, notices = learning()
    request = Request(ASK.messages, 5, tools=[{"type": "function"}])
    assert not dialect.learn(400, body_of(message), dialect.fields(request)) and notices == []


def test_messages_that_a_server_does_not_take() -> None:
    dialect, notices = learning()
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "", "loss": True},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "bad", "tool_call_id": "a"},
        {"role": "user", "content": "once more"},
    ]
    request = Request(messages, 1)
    assert dialect.learn(400, body_of("Unexpected role 'user' after role 'tool'"), dialect.fields(request))
    assert dialect.learn(400, body_of("messages.1: all messages must have non-empty content"), dialect.fields(request))
    assert dialect.fields(request)["messages"] == [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "(no answer)"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "bad\n\nonce more", "tool_call_id": "a"},
    ]
    assert len(notices) == 2 and messages[1]["content"] == ""


@pytest.mark.parametrize(
    "told",
    [
        "Assistant message must have either content or tool_calls, but not none.",  # Mistral
        "Invalid assistant message: content or tool_calls must be set",  # DeepSeek
        "message at position 1 with role 'assistant' must not be empty",  # Kimi
    ],
)
def test_an_empty_message_of_a_model_that_thought_too_long_is_filled(told: str) -> None:
    dialect, _ = learning()
    request = Request([{"role": "user", "content": "do it"}, {"role": "assistant", "content": ""}], 1)
    assert dialect.learn(400, body_of(told), dialect.fields(request))
    assert dialect.fields(request)["messages"][1] == {"role": "assistant", "content": "(no answer)"}


def test_the_users_fields_come_last() -> None:
    dialect, _ = learning(top_k=20, stream=True)
    fields = dialect.fields(ASK)
    assert (fields["top_k"], fields["min_p"], fields["stream"]) == (20, 0.0, True)
    assert dialect.sampling(ASK, fields) == {"temperature": 0.5, "top_p": 0.9, "options": {"top_k": 20}}


# ---- answers


def completion(message: Any, finish: Any = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (completion({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), Reply("ab")),
        (completion({"content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "b"}]}), Reply("b", reasoning="t")),
        (completion({"content": [{"type": "image_url"}, {"type": "text", "text": None}]}), Reply("")),
        (completion({"content": "", "reasoning_content": "all of it"}), Reply("", reasoning="all of it")),
        (completion({"content": None, "reasoning": "why</think>\n\nthe answer"}), Reply("the answer", reasoning="why")),
        (completion({"content": None, "reasoning": "why"}, "length"), Reply("", "length", reasoning="why")),
        (completion({"content": None, "refusal": "no"}), Reply("no", "refusal")),
        (completion({"content": "par"}, "content_filter"), Reply("par", "content_filter")),
        (completion({"content": "a"}, usage={"cost": 0.5}), Reply("a", usd=0.5)),
        (completion({"content": "a"}, usage={"cost": "free"}), Reply("a")),
        (completion({"content": "a"}, usage={"cost": -1}), Reply("a")),
        (completion({"content": "a"}, {"odd": 1}), Reply("a")),
    ],
)  # fmt: skip
def test_answers_in_other_forms(body: bytes, reply: Reply) -> None:
    assert read_reply(body) == reply


def stream(*chunks: Any, end: str = "data: [DONE]\n\n") -> bytes:
    return ("".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks) + end).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_a_stream_is_the_answer_that_it_spells() -> None:
    exact = {"token_ids": [7], "logprobs": {"content": [{"logprob": -0.5}]}}
    first, second = delta(role="assistant", content="a"), delta(content="b")
    first["prompt_token_ids"] = [1, 2]
    for chunk in (first, second):
        chunk["choices"][0] |= exact
    counts = {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2, "cost": 0.25}}
    body = b": wait\n\n" + stream(first, second, delta("length"), counts)
    assert read_reply(body) == Reply("ab", "length", [1, 2], [7, 7], [-0.5, -0.5], 2, 2, usd=0.25)


def test_calls_in_a_stream() -> None:
    def piece(**call: Any) -> dict[str, Any]:
        return delta(tool_calls=[call])

    indexed = stream(
        piece(index=0, id="x", function={"name": "run", "arguments": ""}),
        piece(index=1, id="y", function={"name": "stop", "arguments": '{"b"'}),
        piece(index=0, function={"name": "run", "arguments": '{"a": 1}'}),
        piece(index=1, function={"arguments": ": 2}"}),
        delta("tool_calls"),
    )
    calls = (ToolCall("x", "run", '{"a": 1}'), ToolCall("y", "stop", '{"b": 2}'))
    assert read_reply(indexed).tool_calls == calls
    whole = stream(
        piece(id="x", function={"name": "run", "arguments": '{"a": 1}'}),
        piece(id="y", function={"name": "stop", "arguments": '{"b": 2}'}),
        delta("stop"),
    )
    assert read_reply(whole).tool_calls == calls


@pytest.mark.parametrize(
    "body",
    [
        stream(delta(content="a")),  # no finish reason: it was cut
        stream(delta(content="a"), end=""),
        b"data: {\n\n",
        b"data: [DONE]\n\n",
        stream(delta("stop", content={"a": 1})),
        stream({"choices": "a"}),
        stream(delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}], finish="tool_calls")),
        b":",
    ],
)
def test_streams_that_are_no_answer(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_reply(body)


# ---- addresses and keys


def test_an_address_with_a_version_of_azures() -> None:
    address = read_address("https://me.azure.com/openai/deployments/g?api-version=2024-10-21", "/x", "--model-url")
    assert address.post == "https://me.azure.com/openai/deployments/g/x?api-version=2024-10-21"
    assert address.shown == "https://me.azure.com/openai/deployments/g/x"
    assert address.headers("k") == {"api-key": "k"}
    plain = read_address("https://me.azure.com/openai/v1", "/x", "--model-url")
    assert plain.post == "https://me.azure.com/openai/v1/x" and plain.headers("k") == {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://host:8000/v1", True),
        ("http://HOST:8000/other", True),
        ("http://user@host:8000", True),
        ("https://host:8000/v1", False),
        ("http://host/v1", False),
        ("http://host.other:8000", False),
        ("http://host@other:8000", False),
        (None, False),
    ],
)
def test_servers_that_are_the_same(url: str | None, same: bool) -> None:
    assert same_server(url, "http://host:8000") == same


KEYS: dict[str, tuple[Callable[[ModelOptions], Any], str | None]] = {
    "the policy": (lambda options: options.open(), "sk-policy"),
    "a role at its server": (lambda options: options.open_role("m", None, RoleOptions()), "sk-policy"),
    "a role at another path": (lambda options: options.open_role("m", "http://a/b/v1", RoleOptions()), "sk-policy"),
    "a role elsewhere": (lambda options: options.open_role("m", "http://b", RoleOptions()), None),
    "a role elsewhere with a key": (
        lambda options: options.open_role("m", "http://b", RoleOptions(key_env="ROLE_KEY")), "sk-role"
    ),
    "embeddings at its server": (lambda options: options.open_embeddings("e", None, RoleOptions()), "sk-policy"),
    "embeddings elsewhere": (lambda options: options.open_embeddings("e", "http://b", RoleOptions()), None),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_a_key_goes_to_the_server_that_it_is_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-policy")
    monkeypatch.setenv("ROLE_KEY", "sk-role")
    open_it, key = KEYS[name]
    assert open_it(ModelOptions("m", "http://a"))._headers.get("Authorization") == (key and f"Bearer {key}")


def test_two_keys_for_one_server(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as error:
        ModelOptions("m", "http://a", str(tmp_path), "KEY").open()
    assert str(error.value) == "a key file and a key variable of one server: give one of them"


def test_fields_from_the_command_line() -> None:
    given = ["reasoning_effort=low", "top_k=20", 'a={"b": [1, null]}', "c=true", 'd="x y"', "e=gpt-4.1", "f=-1"]
    assert [read_field(each) for each in given] == [
        {"reasoning_effort": "low"}, {"top_k": 20}, {"a": {"b": [1, None]}}, {"c": True}, {"d": "x y"}, {"e": "gpt-4.1"},
        {"f": -1},
    ]  # fmt: skip
    names = ["key_file", "key_env", "temperature", "top_p", "max_tokens", "price", "option"]
    assert list(role_declarations("ideator", "--ideator")) == [f"ideator_{name}" for name in names]


# ---- a rate limit


def test_a_rate_limit_holds_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from mletools.models.http import HttpModel, Response

    model = HttpModel("m", ServerOptions("http://a", key_env=None, retries=0))
    posted: list[float] = []
    good = completion({"content": "a"})

    def post(fields: dict[str, Any]) -> Response:
        posted.append(time.monotonic())
        if len(posted) == 1:
            return Response(429, HTTPHeaderDict({"retry-after-ms": "400"}), b"{}", "429: slowly")
        return Response(200, {}, good)

    monkeypatch.setattr(model, "_post", post)
    first = threading.Thread(target=model.sample, args=([ASK],))
    first.start()
    while not model._limited_until:
        time.sleep(0.005)
    assert model.sample([ASK])[0].text == "a"
    first.join()
    assert len(posted) == 3 and min(posted[1:]) - posted[0] >= 0.4


def test_tokens_that_are_left_may_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such wait is a try, because servers tell what is left of tokens in every answer, whatever they refuse it for."""
    from mletools.models.http import HttpModel, Response

    model = HttpModel("m", ServerOptions("http://a", key_env=None, retries=2, backoff=0.5))
    waits: list[float] = []
    monkeypatch.setattr(model, "_pause", lambda seconds, problem: waits.append(seconds))
    for left, reset, least in (("150", "45s", 45.0), ("149984", "6ms", 0.5), ("900000", "9h", 60.0)):
        headers = HTTPHeaderDict({"x-ratelimit-remaining-tokens": left, "x-ratelimit-reset-tokens": reset})
        monkeypatch.setattr(model, "_post", lambda fields, headers=headers: Response(429, headers, b"{}", "429: no"))
        waits.clear()
        with pytest.raises(ToolError, match="no answer after 3 tries; the last error: 429: no"):
            model.sample([ASK])
        assert len(waits) == 2 and all(least <= wait < least + 1.5 for wait in waits)
