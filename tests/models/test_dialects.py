"""Servers of chat completions as they really behave, each met by the command as a user runs it.

A server here is a function of a request's body and its number, from 0; it answers with a status, a body and headers.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow, records, run_command
from model_server import completion
from played import FINISHES, HELP, IDEA, call, cell, command, fenced, program, write_tasks

Answer = tuple[int, Any, dict[str, str]]
Behaviour = Callable[[dict[str, Any], int], Answer]
ANSWER = fenced(program(2.5))
PLAIN = {"model", "messages", "max_tokens"}
TRAINED = {"temperature", "top_p", "seed"}
PURE = {"logprobs", "return_token_ids", "top_k", "min_p", "repetition_penalty"}


class Provider:
    """Serves a behaviour; `seen` are the requests: {"path", "headers", "body"}, in order of arrival."""

    def __init__(self, behave: Behaviour, port: int = 0):
        self.seen: list[dict[str, Any]] = []
        provider, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(provider.seen)
                    provider.seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
                status, answer, headers = behave(body, number)
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [each["body"] for each in self.seen]


@pytest.fixture
def serve() -> Iterator[Callable[..., Provider]]:
    opened: list[Provider] = []

    def make(behave: Behaviour, port: int = 0) -> Provider:
        opened.append(Provider(behave, port))
        return opened[-1]

    yield make
    for each in opened:
        each.http.shutdown()
        each.http.server_close()


# ---- what servers say


def ok(message: dict[str, Any] | str = ANSWER, finish: str = "stop", **usage: Any) -> Answer:
    message = {"content": message} if isinstance(message, str) else message
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    counts = {"prompt_tokens": 100, "completion_tokens": 20, **usage}
    return 200, {"object": "chat.completion", "choices": [choice], "usage": counts}, {}


def error(status: int, message: str, /, **more: Any) -> Answer:
    return status, {"error": {"message": message, **more}}, {}


def openai_refusal(name: str, message: str, code: str = "unsupported_parameter") -> Answer:
    return error(400, message, type="invalid_request_error", param=name, code=code)


def extra_forbidden(names: set[str]) -> Answer:
    """A validator's complaint about unknown fields: Mistral, and others that are made with pydantic."""
    detail = [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 1}
        for name in sorted(names)
    ]
    return 422, {"object": "error", "message": {"detail": detail}, "detail": detail, "type": "invalid_request"}, {}


def reasoning_model(body: dict[str, Any], number: int) -> Answer:
    """OpenAI's o-series and GPT-5."""
    known = PLAIN | {"max_completion_tokens", "temperature", "seed", "tools", "stream", "reasoning_effort"}
    if unknown := sorted(body.keys() - known - {"top_p", "logprobs", "stop"}):
        return openai_refusal(unknown[0], f"Unrecognized request argument supplied: {unknown[0]}", "unknown_parameter")
    if "max_tokens" in body:
        return openai_refusal(
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
    if body.get("temperature", 1) != 1:
        return openai_refusal(
            "temperature",
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.",
            "unsupported_value",
        )
    for name in ("top_p", "logprobs", "stop"):
        if name in body:
            return openai_refusal(name, f"Unsupported parameter: '{name}' is not supported with this model.")
    return ok()


def older_openai(body: dict[str, Any], number: int) -> Answer:
    if "reasoning_effort" in body:
        return openai_refusal("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort")
    return ok()


def claude(body: dict[str, Any], number: int) -> Answer:
    """Claude 4.5 behind Anthropic's compatible endpoint."""
    if "temperature" in body and "top_p" in body:
        words = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        return error(400, words, type="invalid_request_error")
    return ok()


def newer_claude(body: dict[str, Any], number: int) -> Answer:
    for name in ("temperature", "top_p"):
        if name in body:
            return error(400, f"`{name}` is deprecated for this model.", type="invalid_request_error")
    return ok()


def mistral(body: dict[str, Any], number: int) -> Answer:
    if unknown := body.keys() - PLAIN - {"temperature", "top_p", "random_seed", "tools", "stop"}:
        return extra_forbidden(unknown)
    thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": "a line "}, {"type": "text", "text": "fits"}]}
    return ok({"content": [thoughts, {"type": "text", "text": ANSWER}]})


def gemini(body: dict[str, Any], number: int) -> Answer:
    if unknown := sorted(body.keys() - PLAIN - {"temperature", "top_p", "stop", "tools"}):
        lines = "\n".join(
            f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in unknown
        )
        return 400, [{"error": {"code": 400, "message": lines, "status": "INVALID_ARGUMENT"}}], {}
    return ok({"content": None}, "MALFORMED_FUNCTION_CALL") if number < 2 else ok()


def events(*pieces: Any) -> bytes:
    lines = [": keep-alive", "", *(f"data: {json.dumps(piece)}\n" for piece in pieces), "data: [DONE]", "", ""]
    return "\n".join(lines).encode()


def qwen(body: dict[str, Any], number: int) -> Answer:
    """A hosted Qwen that thinks only in streams. The second stream is cut off."""
    if not body.get("stream"):
        words = "parameter.enable_thinking must be set to false for non-streaming calls"
        return error(400, words, code="invalid_parameter_error", type="invalid_request_error")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "reasoning_content": "a line "}]
    deltas += [{"content": None, "reasoning_content": "fits"}, {"content": ANSWER[:30]}, {"content": ANSWER[30:]}]
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if number == 1:
        return 200, events(*chunks).replace(b"data: [DONE]", b""), {"Content-Type": "text/event-stream"}
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}})
    return 200, events(*chunks), {"Content-Type": "text/event-stream"}


def azure(body: dict[str, Any], number: int) -> Answer:
    words = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    inner = {"code": "ResponsibleAIPolicyViolation"}
    return error(400, words, code="content_filter", param="prompt", status=400, innererror=inner)


def deepseek(body: dict[str, Any], number: int) -> Answer:
    if "logprobs" in body:
        return error(400, "deepseek-reasoner does not support the parameter `logprobs`", code="invalid_request_error")
    return ok({"content": ANSWER, "reasoning_content": "a line fits"})


def kimi(body: dict[str, Any], number: int) -> Answer:
    for name, allowed in (("temperature", 1), ("top_p", 0.95)):
        if body.get(name, allowed) != allowed:
            return error(400, f"invalid {name}: only {allowed} is allowed for this model", type="invalid_request_error")
    return ok({"content": ANSWER, "reasoning_content": "a line fits"})


def openrouter(body: dict[str, Any], number: int) -> Answer:
    if number == 0:  # an error of the provider behind it, with status 200
        return 200, {"error": {"message": "Provider returned error", "code": 502}}, {}
    return ok({"content": ANSWER, "reasoning": "a line fits"}, cost=0.0125)


def moderated(body: dict[str, Any], number: int) -> Answer:
    words = 'openai/gpt-4o requires moderation on OpenRouter. Your input was flagged for "violence".'
    return error(403, words, code=403, metadata={"reasons": ["violence"]})


def vllm(body: dict[str, Any], number: int) -> Answer:
    return 200, completion(body, {"content": ANSWER, "reasoning": "a line fits"}), {}


def sglang(body: dict[str, Any], number: int) -> Answer:
    answer = completion(body, ANSWER)
    answer["choices"][0]["prompt_token_ids"] = answer.pop("prompt_token_ids", None)
    return 200, answer, {}


def llama_cpp(body: dict[str, Any], number: int) -> Answer:
    """It loads its model, and then takes the whole answer for reasoning."""
    if number < 3:
        return error(503, "Loading model", type="unavailable_error", code=503)
    return ok({"content": "", "reasoning_content": f"a line fits</think>\n{ANSWER}"})


def cut_in_thought(body: dict[str, Any], number: int) -> Answer:
    return ok({"content": None, "reasoning_content": f"a line fits {ANSWER}"}, "length")


def refusing(body: dict[str, Any], number: int) -> Answer:
    return ok({"content": None, "refusal": "I can't help with that."})


def then_ok(*first: Answer) -> Behaviour:
    return lambda body, number: first[number] if number < len(first) else ok()


def always(answer: Answer) -> Behaviour:
    return lambda body, number: answer


def limited(words: str = "Rate limit reached", body: dict[str, Any] | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return 429, {"error": {"message": words, "code": "rate_limit_exceeded", **(body or {})}}, named


HTML = (200, b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>", {"Content-Type": "text/html"})
OVERLOADED = (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, {})
NO_QUOTA = error(429, "You exceeded your current quota, please check your plan.", code="insufficient_quota")
SPENT = error(400, "Your credit balance is too low to access the Anthropic API.", type="invalid_request_error")


@dataclass(frozen=True)
class Case:
    """A behaviour, further options, and what is to come of them: of the last request, of the records, of stderr."""

    behave: Behaviour
    options: tuple[str, ...] = ()
    asked: int = 2  # requests for the two rollouts
    sent: set[str] = field(default_factory=lambda: PLAIN | TRAINED | PURE)
    sampling: dict[str, Any] = field(default_factory=dict)
    answer: str = ANSWER
    reasoning: str | None = None
    stop_reason: str = "finished"
    declined: str | None = None
    notices: tuple[str, ...] = ()
    usd: float | None = None


EVALUATION = ("--defaults", "evaluation")
LACKS_IDS = "refuses return_token_ids: not sent from now on"
COMPLETION = "refuses max_tokens: sent as max_completion_tokens from now on"
CASES = {
    "o-series": Case(
        reasoning_model,
        ("--temperature", "0.7"),
        asked=9,
        sent={"model", "messages", "max_completion_tokens", "seed"},
        sampling={"temperature": None, "top_p": None},
        notices=(LACKS_IDS, "refuses top_k: not", COMPLETION, "refuses temperature: not sent", "refuses top_p: not sent"),
    ),
    "gpt-5, for evaluation": Case(
        reasoning_model,
        (*EVALUATION, "--model-option", "reasoning_effort=minimal"),
        asked=3,
        sent={"model", "messages", "max_completion_tokens", "reasoning_effort"},
        sampling={"temperature": None, "top_p": None, "options": {"reasoning_effort": "minimal"}},
        notices=(COMPLETION,),
    ),
    "gpt-5, for evaluation, with a temperature of the user's": Case(
        reasoning_model,
        (*EVALUATION, "--temperature", "0.7", "--seed", "3"),
        asked=4,
        sent={"model", "messages", "max_completion_tokens", "seed"},
        sampling={"temperature": None, "top_p": None},
        notices=(COMPLETION, "refuses temperature: not sent"),
    ),
    "an older model": Case(
        older_openai,
        ("--model-option", 'reasoning_effort="low"', "--model-option", "user=me", *EVALUATION),
        asked=3,
        sent=PLAIN | {"user"},
        sampling={"options": {"reasoning_effort": None, "user": "me"}},
        notices=("refuses reasoning_effort: not sent",),
    ),
    "claude 4.5": Case(
        claude, asked=3, sent=(PLAIN | TRAINED | PURE) - {"top_p"}, sampling={"temperature": 1.0, "top_p": None}
    ),
    "claude opus 4.7": Case(
        newer_claude,
        asked=4,
        sent=PLAIN | PURE | {"seed"},
        sampling={"temperature": None, "top_p": None},
    ),
    "mistral": Case(
        mistral,
        asked=4,
        sent=PLAIN | {"temperature", "top_p", "random_seed"},
        reasoning="a line fits",
        notices=("refuses seed: sent as random_seed",),
    ),
    "gemini": Case(
        gemini,
        asked=4,
        sent=PLAIN | {"temperature", "top_p"},
        notices=("refuses seed, logprobs, return_token_ids, top_k, min_p, repetition_penalty: not sent",),
    ),
    "qwen, in streams alone": Case(
        qwen,
        (*EVALUATION, "--retries", "1"),
        asked=4,
        sent=PLAIN | {"stream", "stream_options"},
        reasoning="a line fits",
        notices=("the server answers as a stream only",),
    ),
    "azure's filter": Case(azure, answer="", stop_reason="format", declined="content_filter"),
    "deepseek": Case(
        deepseek, asked=3, sent=(PLAIN | TRAINED | PURE) - {"logprobs"}, reasoning="a line fits"
    ),
    "kimi": Case(
        kimi,
        ("--temperature", "0.6"),
        asked=4,
        sent=PLAIN | PURE | {"seed"},
        sampling={"temperature": None, "top_p": None},
        reasoning="a line fits",
    ),
    "openrouter": Case(
        openrouter,
        (*EVALUATION, "--model-option", 'provider={"require_parameters": true}'),
        asked=3,
        sent=PLAIN | {"provider"},
        reasoning="a line fits",
        usd=0.0125,
        sampling={"options": {"provider": {"require_parameters": True}}},
    ),
    "openrouter's moderation": Case(moderated, answer="", stop_reason="format", declined="content_filter"),
    "vllm": Case(vllm, reasoning="a line fits", sampling={"temperature": 1.0, "top_p": 1.0}),
    "sglang": Case(sglang, ("--temperature", "0.5"), sampling={"temperature": 0.5, "top_p": 1.0}),
    "llama.cpp, loading, with the answer as reasoning": Case(
        llama_cpp,
        reasoning="a line fits",
        options= ("--wait-for-server", "30", "--retries", "0", *EVALUATION), asked=5, sent=PLAIN,
        notices=("503: Loading model: waits up to 30 s for it",),
    ),
    "an answer cut in its reasoning": Case(
        cut_in_thought, answer="", reasoning=f"a line fits {ANSWER}", stop_reason="length"
    ),
    "a refusal": Case(refusing, answer="I can't help with that.", stop_reason="format", declined="refusal"),
    "an overloaded server": Case(then_ok(OVERLOADED, OVERLOADED), asked=4),
    "a gateway's page": Case(then_ok(HTML), asked=3),
    "a list of errors": Case(then_ok((500, [{"error": {"code": 500, "message": "internal"}}], {})), asked=3),
    "a limit in milliseconds": Case(
        then_ok(*[limited(retry_after_ms="20")] * 3), ("--retries", "0"), asked=5
    ),
    "a limit with a reset": Case(
        then_ok(*[limited(x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="30ms")] * 2),
        ("--retries", "0"),
        asked=4,
    ),
    "a limit that its message states": Case(
        then_ok(limited("You exceeded your current quota. Please retry in 40ms.")), ("--retries", "0"), asked=3
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(CASES, 10))
def test_each_server_is_met_as_it_is(name: str, serve: Callable[..., Provider], tmp_path: Path) -> None:
    case = CASES[name]
    write_tasks(tmp_path)
    server = serve(case.behave)
    url = f"{server.url}/openai/deployments/played?api-version=2024-10-21" if name == "azure's filter" else server.url
    args = ["mle-rollout", "-m", "played", "--model-url", url, "--data", ".", "-q", "-g", "2", "-j", "1", *case.options]
    done = run_command(*args, "tasks.jsonl", cwd=tmp_path, OPENAI_API_KEY="sk-mine")
    rollouts = records(done.stdout)
    told = done.stderr.decode()
    assert len(server.seen) == case.asked, told
    assert set(server.bodies[-1]) == case.sent
    assert all(told.count(notice) == 1 for notice in case.notices), told
    assert len(rollouts) == 2 and rollouts[0]["group"] == rollouts[1]["group"]
    for rollout in rollouts:
        message = rollout["messages"][-1]
        assert (message["content"], message.get("reasoning")) == (case.answer, case.reasoning)
        assert rollout["stop_reason"] == case.stop_reason and rollout["usage"]["usd"] == case.usd
        assert rollout["turns"][0].get("finish_reason") == case.declined
        sampling = rollout["policy"]["sampling"]
        assert {key: sampling[key] for key in case.sampling} == case.sampling and sampling["max_tokens"] == 4096
        assert ("options" in sampling) == ("options" in case.sampling)
        assert ("token_ids" in message) == (name in ("vllm", "sglang"))
        assert ("logprobs" in message) == (name == "vllm")  # the other's are not known to be after the temperature
    if name == "azure's filter":
        assert server.seen[0]["path"] == "/openai/deployments/played/chat/completions?api-version=2024-10-21"
        assert server.seen[0]["headers"]["api-key"] == "sk-mine" and "Authorization" not in server.seen[0]["headers"]
    else:
        assert server.seen[0]["headers"]["Authorization"] == "Bearer sk-mine"


FATAL = {
    "a used-up quota": (NO_QUOTA, "429: You exceeded your current quota, please check your plan. (the account's"),
    "no credit": (error(402, "Insufficient credits"), "402: Insufficient credits (the account's quota or credit is"),
    "no credit, with status 400": (SPENT, "400: Your credit balance is too low to access the Anthropic API. (the"),
    "a wrong key": (
        error(401, "Incorrect API key provided"),
        "401: Incorrect API key provided (no key was sent: it comes from OPENAI_API_KEY",
    ),
}


@pytest.mark.parametrize("name", FATAL)
def test_what_no_retry_mends_ends_the_run_at_once(name: str, serve: Callable[..., Provider], tmp_path: Path) -> None:
    answer, words = FATAL[name]
    write_tasks(tmp_path)
    server = serve(always(answer))
    done = run_command(*command(server.url, "single", "-j", "1"), cwd=tmp_path, check=False)
    assert done.returncode == 1 and records(done.stdout) == [] and len(server.seen) == 1
    assert f"mle-rollout: {server.url}/v1/chat/completions: {words}" in done.stderr.decode()


def test_ids_do_not_depend_on_what_a_server_drops(serve: Callable[..., Provider], tmp_path: Path) -> None:
    write_tasks(tmp_path)

    def ids(behave: Behaviour, *options: str) -> list[str]:
        done = run_command(*command(serve(behave).url, "single", "-g", "2", *options), cwd=tmp_path)
        return sorted(record["id"] for record in records(done.stdout))

    assert ids(reasoning_model) == ids(always(ok())) == ids(always(ok()), *EVALUATION)
    assert ids(always(ok()), "--model-option", "effort=low") != ids(always(ok()))


# ---- conversations with tools


def tools_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The assistant's messages of a request."""
    return [message for message in body["messages"] if message["role"] == "assistant"]


def works(body: dict[str, Any], more: dict[str, Any], call_more: dict[str, Any]) -> Answer:
    """Run a program, then hand in, both as tool calls."""
    message = call("answer") if tools_of(body) else call("PythonInterpreter", code=program(2.5))
    calls = [{**each, "id": "abcdefghi", **call_more} for each in message["tool_calls"]]
    return ok({**message, **more, "tool_calls": calls}, "tool_calls")


def demands_reasoning(body: dict[str, Any], number: int) -> Answer:
    """DeepSeek V4 and Kimi: of every message with tool calls."""
    if any("reasoning_content" not in message for message in tools_of(body)):
        return error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    return works(body, {"reasoning_content": "so far"}, {})


def refuses_reasoning(body: dict[str, Any], number: int) -> Answer:
    """Mistral."""
    for at, message in enumerate(body["messages"]):
        if message.keys() & {"reasoning_content", "reasoning"}:
            place = ["body", "messages", at, "assistant", "reasoning"]
            words = "Extra inputs are not permitted: messages.1.assistant.reasoning_content"
            return 422, {"message": words, "detail": [{"type": "extra_forbidden", "loc": place, "msg": words}]}, {}
    return works(body, {"reasoning_content": "so far"}, {})


def names_it_reasoning(body: dict[str, Any], number: int) -> Answer:
    """gpt-oss behind vLLM: answers go on from the reasoning of the calls before."""
    if tools_of(body) and tools_of(body)[-1].get("reasoning") != "so far":
        return error(400, "no reasoning came back")
    return works(body, {"reasoning": "so far"}, {})


def signs_calls(body: dict[str, Any], number: int) -> Answer:
    """Gemini 3."""
    signature = {"google": {"thought_signature": "c2ln"}}
    calls = [each for message in tools_of(body) for each in message["tool_calls"]]
    if any(each.get("extra_content") != signature for each in calls):
        return 400, [{"error": {"code": 400, "message": "Function call is missing a thought_signature."}}], {}
    return works(body, {}, {"extra_content": signature})


def fills_up(body: dict[str, Any], number: int) -> Answer:
    if tools_of(body):
        return error(400, "Your request exceeded model token limit: 2048", type="invalid_request_error")
    return works(body, {}, {})


def streams_calls(body: dict[str, Any], number: int) -> Answer:
    """Gemini's streams: a call has no index."""
    if not body.get("stream"):
        return error(400, "This model only support stream mode, please enable the stream parameter.")
    _, answer, _ = works(body, {}, {})
    made = answer["choices"][0]["message"]["tool_calls"][0]
    arguments = made["function"]["arguments"]
    first = {**made, "function": {**made["function"], "arguments": arguments[:9]}}
    deltas = [{"tool_calls": [first]}, {"tool_calls": [{"function": {"arguments": arguments[9:]}}]}]
    chunks: list[Any] = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "usage": answer["usage"]})
    return 200, events(*chunks), {"Content-Type": "text/event-stream"}


LOOPS: dict[str, tuple[Behaviour, int, str]] = {
    "reasoning that is demanded": (demands_reasoning, 2, "finished"),
    "reasoning that is refused": (refuses_reasoning, 3, "finished"),
    "reasoning by another name": (names_it_reasoning, 2, "finished"),
    "signatures": (signs_calls, 2, "finished"),
    "calls in pieces": (streams_calls, 3, "finished"),
    "a context that is full": (fills_up, 2, "context"),
}


@pytest.mark.parametrize("name", mostly_slow(LOOPS))
def test_tool_calls_go_back_as_their_server_wants_them(
    name: str, serve: Callable[..., Provider], tmp_path: Path
) -> None:
    behave, asked, stop_reason = LOOPS[name]
    write_tasks(tmp_path)
    server = serve(behave)
    options = ("--tool-calls", "openai", "--max-turns", "4", *EVALUATION)
    done = run_command(*command(server.url, "react", *options), cwd=tmp_path)
    (record,) = records(done.stdout)
    assert (len(server.seen), record["stop_reason"]) == (asked, stop_reason), done.stderr.decode()
    assert record["code"] == program(2.5)


def test_a_filtered_turn_is_a_turn_without_an_answer(serve: Callable[..., Provider], tmp_path: Path) -> None:
    write_tasks(tmp_path)
    server = serve(lambda body, number: azure(body, number) if number == 0 else ok("<answer>submission</answer>"))
    done = run_command(*command(server.url, "react", "--max-turns", "2"), cwd=tmp_path)
    (record,) = records(done.stdout)
    assert [turn.get("finish_reason") for turn in record["turns"]] == ["content_filter", None]
    assert record["turns"][0]["problem"] == "missing" and record["usage"]["completion_tokens"] == 20


# ---- keys


def adviser(body: dict[str, Any], number: int) -> Answer:
    return ok(IDEA)


def asks_once(body: dict[str, Any], number: int) -> Answer:
    said = len(tools_of(body))
    return ok([HELP, cell(program(2.5)), FINISHES][min(said, 2)])


def test_each_server_gets_its_own_key_and_no_other(serve: Callable[..., Provider], tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "key").write_text("sk-of-the-file\n")
    policy, trusted, stranger = serve(asks_once), serve(adviser), serve(adviser)
    keys = {"OPENAI_API_KEY": "sk-default", "POLICY_KEY": "sk-of-the-policy", "ADVISER_KEY": "sk-of-the-adviser"}

    def play(*options: str) -> None:
        args = command(policy.url, "codeact", "--ideator", "adviser", *options)
        (record,) = records(run_command(*args, cwd=tmp_path, **keys).stdout)
        assert record["stop_reason"] == "finished"

    def authorizations(server: Provider) -> set[str | None]:
        seen = {each["headers"].get("Authorization") for each in server.seen}
        server.seen.clear()
        return seen

    play("--model-key-env", "POLICY_KEY", "--ideator-url", trusted.url, "--ideator-key-env", "ADVISER_KEY")
    assert authorizations(policy) == {"Bearer sk-of-the-policy"}
    assert authorizations(trusted) == {"Bearer sk-of-the-adviser"}
    play("--ideator-url", stranger.url, "--model-key-file", "key")  # nobody gave a key for it
    assert authorizations(policy) == {"Bearer sk-of-the-file"} and authorizations(stranger) == {None}
    play("--ideator-url", stranger.url)
    assert authorizations(policy) == {"Bearer sk-default"} and authorizations(stranger) == {None}
    own = ("--ideator-temperature", "0", "--ideator-top-p", "0.9", "--ideator-max-tokens", "50")
    play("--ideator-url", stranger.url, "--temperature", "0.7", *own)
    sent = [[body.get(name) for name in ("temperature", "top_p", "max_tokens")] for body in stranger.bodies]
    assert sent[-1] == [0, 0.9, 50] and policy.bodies[-1]["temperature"] == 0.7
    policy.seen.clear()
    play("--ideator-option", "user=me", "--ideator-key-file", "key")  # at the policy's own server
    sent = [(each["body"].get("user"), each["headers"]["Authorization"]) for each in policy.seen]
    assert set(sent) >= {(None, "Bearer sk-default"), ("me", "Bearer sk-of-the-file")}


def test_a_key_variable_that_is_not_set(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    done = run_command(*command("http://host", "single", "--model-key-env", "NO_KEY"), cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == "mle-rollout: NO_KEY: this environment variable is to hold a key and is not set\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("top_k", "'top_k' is not KEY=JSON, e.g. reasoning_effort=low or top_k=20"),
        ("a={b", "'{b' is not JSON, such as 20, true, text or '{\"a\": 1}'"),
        ("a=NaN", "'NaN' is not JSON, such as 20, true, text or '{\"a\": 1}'"),
        ("messages=[]", "messages is set by the command itself"),
    ],
)
def test_options_that_are_none(given: str, words: str, tmp_path: Path) -> None:
    done = run_command(*command("http://host", "single", "--model-option", given), cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert words in re.sub(r"\s+", " ", done.stderr.decode())


def test_a_server_that_refuses_what_it_demands_is_not_asked_on_and_on(
    serve: Callable[..., Provider], tmp_path: Path
) -> None:
    write_tasks(tmp_path)

    def answers(body: dict[str, Any], number: int) -> Answer:
        sent = any("reasoning_content" in message for message in body["messages"])
        if number == 0 or number > 9:
            return works(body, {"reasoning_content": "so far"}, {})
        return error(400, f"reasoning_content: {'Extra inputs are not permitted' if sent else 'is missing'}")

    line = command(serve(answers).url, "react", "--tool-calls", "openai")
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and b"400: reasoning_content: " in done.stderr


@pytest.mark.parametrize("model", ["scripted", "hf:policy", "vllm:policy", "llama:policy.gguf"])
def test_fields_of_requests_are_for_servers(model: str, tmp_path: Path) -> None:
    line = [*command("http://host", "single", "--model-option", "top_k=20"), "-m", model, "--dry-run"]
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1] == (
        f"Error: {model}: there are no requests to add top_k to: --model-option and the --ROLE-option of other models are for "
        "those of servers"
    )


def test_fields_of_a_role_are_for_servers(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    own = ("--ideator", "scripted", "--ideator-option", "top_k=20")
    done = run_command(*command("http://host", "codeact", *own), cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"scripted: there are no requests to add top_k to" in done.stderr


@pytest.mark.parametrize("flag", ["--model-url", "--ideator-url"])
def test_an_address_that_is_none(flag: str, tmp_path: Path) -> None:
    line = command("http://host", "codeact", "--ideator", "adviser", "-m", "scripted", flag, "http://[::1")
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"'http://[::1' is no URL such as http://localhost:8000/v1" in done.stderr


def test_a_stream_with_an_event_that_is_no_json_is_asked_for_again(
    serve: Callable[..., Provider], tmp_path: Path
) -> None:
    write_tasks(tmp_path)

    def answers(body: dict[str, Any], number: int) -> Answer:
        if number > 0:
            return ok()
        return 200, b"data: {}\n\ndata: upstream connect error\n\n", {"Content-Type": "text/event-stream"}

    server = serve(answers)
    done = run_command(*command(server.url, "single", "--retries", "1"), cwd=tmp_path)
    assert len(records(done.stdout)) == 1 and len(server.bodies) == 2


# ---- servers that are not there yet


def test_a_server_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    args = command("http://127.0.0.1:9", "single", "-g", "4", "--retries", "1", "--request-timeout", "5")
    done = run_command(*args, cwd=tmp_path, check=False)
    told = done.stderr.decode()
    assert done.returncode == 1
    assert told.count("connection failed: Connection refused: is the server running? Tries again") == 1
    assert "--wait-for-server S waits longer" in told


@pytest.mark.slow
def test_a_server_that_starts_late_is_waited_for(serve: Callable[..., Provider], tmp_path: Path) -> None:
    write_tasks(tmp_path)
    reserved = Provider(always(ok()))
    port = reserved.http.server_port
    reserved.http.shutdown()
    reserved.http.server_close()
    threading.Timer(4.0, lambda: serve(always(ok()), port)).start()
    started = time.monotonic()
    args = command(f"http://127.0.0.1:{port}", "single", "--retries", "0", "--wait-for-server", "60")
    done = run_command(*args, cwd=tmp_path)
    assert len(records(done.stdout)) == 1 and time.monotonic() - started > 3
    assert done.stderr.decode().count("Connection refused: waits up to 60 s for it") == 1
