"""A model at any server with OpenAI's chat protocol: vLLM, SGLang, llama.cpp, a provider.

Covered: requests to a server (embedding uses them too), retries with a backoff that depends only on the request's seed,
waits that a server states, a server that is still starting, a used-up quota, exact token ids and logprobs where a
server reports them (vLLM's `return_token_ids`), redirects, which are refused.
Not covered: other protocols, starting a server, connections and their bounds (wire), the fields of a request (dialect,
elimination), reading an answer (completion) or an error (server_errors).
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..base.errors import RecordError, ToolError
from ..base.visible import to_stderr
from . import ContextExceeded, Reply, Request, ServerOptions, server_errors, wire
from .address import CHAT, DEFAULT_KEY, read_address, read_key
from .completion import read_reply
from .dialect import Dialect
from .elimination import Elimination
from .server_errors import MESSAGE_CHARACTERS
from .streaming import error_event
from .waits import LONGEST_STATED_S, stated_wait_s, tokens_wait_s, wait_s

RETRIED = {408, 409, 429}  # and every 5xx
BUSY = {429, 503, 529}  # whose bodies may state a wait; another's may repeat the prompt
LONG_WAIT_S = 10.0  # a longer wait is announced
REFUSED = "connection failed: Connection refused"
NO_KEY = f" (no key was sent: it comes from {DEFAULT_KEY}, or from what a -key-env or -key-file option names)"
WAITS_LONGER = "--request-timeout S waits longer; fewer at once (-j) or shorter answers end sooner"
IS_IT_RUNNING = "is the server running? Tries again; --wait-for-server S waits longer"
Answer = TypeVar("Answer")


class Filtered(ToolError):
    """A content filter of the server refuses the prompt."""


@dataclass(frozen=True)
class Response:
    """A response; `status` is 0 where no complete one arrived, and `problem` says why."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str = ""


Amend = Callable[[Response], dict[str, object] | None]


class Served:
    """The model `name` of a server. `say` gets notices. Thread-safe.

    ToolError after all tries; neither rate limits with a stated wait count, nor the time in which the server is not ready.
    """

    path: str  # after /v1
    option: str  # of the address, for error messages

    def __init__(self, name: str, server: ServerOptions, say: Callable[[str], None] = to_stderr) -> None:
        self.name, self._server, self._say = name, server, say
        self._address = read_address(server.url, self.path, self.option)
        self.url = self._address.shown
        key_env = None if self._address.credentials and server.key_env == DEFAULT_KEY else server.key_env
        self._key = server.key or read_key(server.key_file, key_env)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._headers |= self._address.headers(self._key)
        self._pool = wire.pool(self._address.post, server.timeout)
        self._no_answer = f"no answer within {server.timeout:g} s"
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the following
        self._said: set[str] = set()
        self._limited_until = 0.0  # time.monotonic() until which a rate limit holds for all threads
        self._down_since: float | None = None

    def close(self) -> None:
        """Close idle connections and end all waits for a retry."""
        self._closed.set()
        self._pool.clear()

    def _request(
        self,
        fields: Mapping[str, object],
        read: Callable[[bytes], Answer],
        seed: int,
        amend: Amend = lambda response: None,
    ) -> Answer:
        """The result of `read` on the body of the answer to `fields`; on its ValueError the request is retried.

        `seed` determines the waits. amend(response) handles each error first: it may raise, or return other fields,
        which are sent at once. RecordError: the fields are at fault (400, 413, 422). ToolError: any other error, or no
        valid answer after all retries.
        """
        attempt, limited_s = 0, 0.0
        while True:
            if (held := self._limited_until - time.monotonic()) > 0:
                self._pause(held, "429: another request met a rate limit")
            response = self._post(fields)
            if response.status == 200:
                response = self._checked(response, read)
                if isinstance(response, _Result):
                    return response.value  # type: ignore[no-any-return]
            if response.status and (amended := amend(response)) is not None:
                fields = amended
                continue
            stated = self._refuse_for_good(response)
            if self._is_starting(response):
                self._pause(min(5.0, wait_s(attempt, seed, 1.0, stated)), response.problem)
                continue
            limited = response.status == 429 and stated and limited_s < LONGEST_STATED_S
            if attempt >= self._server.retries and not limited:
                tries = "1 try" if attempt == 0 else f"{attempt + 1} tries"
                raise ToolError(f"{self.url}: no answer after {tries}; the last error: {response.problem}")
            wait = wait_s(attempt, seed, self._server.backoff, stated)
            if response.status == 429 and not stated:
                wait = max(wait, tokens_wait_s(response.headers))
            if limited:
                limited_s += wait
                self._limited_until = max(self._limited_until, time.monotonic() + (stated or 0.0))
            if response.problem == self._no_answer:
                self._say_once("timeout", f"{self._no_answer}: asks again for all of it; {WAITS_LONGER}")
            if wait > LONG_WAIT_S:
                self._say_once("wait", f"waits {wait:.0f} s before it asks again: {response.problem}")
            self._pause(wait, response.problem)
            attempt += not limited

    def _checked(self, response: Response, read: Callable[[bytes], Answer]) -> Any:
        """The _Result of `read` on the body, or the response with the status and problem of the error in it."""
        try:
            result = _Result(read(response.body))
        except ValueError as error:
            body = error_event(response.body)
            status = server_errors.error_status(body)
            problem = str(error) if status is None else f"{status}: {self._error_message(body)}"
            return replace(response, status=status or 200, body=body, problem=problem)
        self._down_since = None
        return result

    def _refuse_for_good(self, response: Response) -> float | None:
        """Raise an error that no retry mends; else the seconds that the server asks to wait."""
        status, body = response.status, response.body
        if moved := wire.redirection(status, response.headers):
            raise ToolError(f"{self.url}: {self._without_key(moved)}")
        stated = stated_wait_s(response.headers, body, status in BUSY) if status else None
        if status in (0, 200):
            return stated
        if server_errors.is_spent(status, body, stated):
            raise ToolError(f"{self.url}: {response.problem} (the account's quota or credit is used up)")
        if server_errors.exceeds_rate(status, body):
            raise ContextExceeded(f"{self.url}: {response.problem}")
        if status not in RETRIED and status < 500:
            # These concern this request, other errors every request.
            kind = RecordError if status in (400, 413, 422) else ToolError
            keyless = status in (401, 403) and len(self._headers) == 2
            raise kind(f"{self.url}: {response.problem}{NO_KEY if keyless else ''}")
        return stated

    def _is_starting(self, response: Response) -> bool:
        """Whether the server is not ready yet, and is still to be waited for."""
        if response.status != 503 and response.problem != REFUSED:
            if response.status:
                self._down_since = None
            return False
        with self._lock:
            self._down_since = self._down_since or time.monotonic()
            down_s = time.monotonic() - self._down_since
        waiting = down_s < self._server.wait_for_server
        if response.problem == REFUSED or waiting:
            how = f"waits up to {self._server.wait_for_server:g} s for it" if waiting else IS_IT_RUNNING
            self._say_once("down", f"{response.problem}: {how}")
        return waiting

    def _pause(self, seconds: float, problem: str) -> None:
        """Wait; ToolError where the model is closed meanwhile."""
        self._closed.wait(seconds)
        if self._closed.is_set():
            raise ToolError(f"{self.url}: closed while waiting for a retry; the last error: {problem}")

    def _say_once(self, key: str, message: str) -> None:
        with self._lock:
            known = key in self._said
            self._said.add(key)
        if not known:
            self._say(f"{self.url}: {message}")

    def _error_message(self, body: bytes) -> str:
        """The server's error message, with the key masked."""
        message = self._without_key(server_errors.error_message(body))
        return wire.plain(message, MESSAGE_CHARACTERS) or "(no error message)"

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _post(self, fields: Mapping[str, object]) -> Response:
        import urllib3.exceptions

        content = json.dumps(fields).encode()
        try:
            once = {"retries": False, "redirect": False, "preload_content": False}
            answer = self._pool.request("POST", self._address.post, body=content, headers=self._headers, **once)
            status, headers, body = answer.status, answer.headers, wire.body(answer)
        except urllib3.exceptions.NewConnectionError as error:  # inherits from TimeoutError
            return Response(0, {}, b"", wire.failure(error))
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            return Response(0, {}, b"", self._no_answer)
        except OverflowError as error:
            return Response(0, {}, b"", str(error))
        except urllib3.exceptions.HTTPError as error:
            return Response(0, {}, b"", wire.failure(error))
        return Response(status, headers, body, "" if status == 200 else f"{status}: {self._error_message(body)}")


@dataclass(frozen=True)
class _Result:
    value: Any


class HttpModel(Served):
    """A model with OpenAI's chat protocol; for the connection, see Served.

    RecordError where the server rejects the request, ContextExceeded where it is too long: OpenAI's servers and older
    vLLM refuse a prompt that leaves no room for `max_tokens`, newer vLLM shortens the answer. A prompt that a filter
    refuses has an empty reply with finish_reason content_filter.
    """

    path, option = CHAT, "--model-url"
    batch, version = None, None

    def __init__(self, name: str, server: ServerOptions, say: Callable[[str], None] = to_stderr) -> None:
        super().__init__(name, server, say)
        self._dialect = Dialect(name, server.fields, self._say_of_server, server.structured)
        self._elimination = Elimination(self._dialect, self._request)

    def _say_of_server(self, message: str) -> None:
        self._say(f"{self.url}: {message}")

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, in order; the requests are sent one after the other."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        sent = self._dialect.fields(request)

        def amend(response: Response) -> dict[str, object] | None:
            nonlocal sent
            status, body = response.status, response.body
            if server_errors.exceeds_context(status, body):
                raise ContextExceeded(
                    f"{self.url}: {response.problem} (the prompt and up to {request.max_tokens}"
                    " tokens of answer share the model's context)"
                )
            if server_errors.is_filtered(status, body):
                raise Filtered(f"{self.url}: {response.problem}")
            refused = status in (400, 422) and not server_errors.is_spent(status, body, None)
            if refused and (self._dialect.learn(status, body, sent) or self._elimination.changes(request, sent)):
                sent = self._dialect.fields(request)
                return sent
            return None

        def read(body: bytes) -> Reply:
            reply = read_reply(
                body, self._server.processed_logprobs or (sent.get("temperature"), sent.get("top_p")) == (1, 1)
            )
            self._dialect.saw(body, reply)
            return reply

        try:
            reply = self._request(sent, read, request.seed, amend)
            if self._dialect.spoils(sent, reply):
                sent = self._dialect.fields(request)
                reply = self._request(sent, read, request.seed, amend)
        except Filtered:
            reply = Reply("", "content_filter", prompt_tokens=0, completion_tokens=0)
        for stop in request.stop if "stop" not in sent else ():
            reply = replace(reply, text=reply.text.split(stop)[0])
        return replace(reply, sampling=self._dialect.sampling(request, sent))
