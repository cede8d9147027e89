"""A model at any server with OpenAI's chat protocol: vLLM, SGLang, llama.cpp, a provider.

Covered: requests to a server (embedding uses them too), retries with a backoff that depends only on the request's seed,
Retry-After, exact token ids and logprobs where a server reports them (vLLM's `return_token_ids`), servers that reject
unknown fields, redirects, which are refused.
Not covered: streaming, other protocols, starting a server, connections and their bounds (wire), reading the body of an
answer (completion).
"""

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from ..records.errors import RecordError, ToolError
from ..records.ids import derive_seed
from . import ContextExceeded, Reply, Request, wire
from .completion import MESSAGE_CHARACTERS, error_message, error_status, exceeds_context, read_reply

RETRIED = {408, 409, 429}  # and every 5xx
LONGEST_WAIT_S = 60.0
CHAT = "/chat/completions"
Answer = TypeVar("Answer")
MESSAGE_KEYS = ("tool_calls", "tool_call_id", "name")  # sent of a message, beside role and content

# Servers take omitted fields from the model's generation_config.json (vLLM: top_k 20 for Qwen3); the sampling
# distribution would then differ from the one in the record.
EXTRAS = {"logprobs": True, "return_token_ids": True, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


class Served:
    """The model `name` of the server at `url` (with or without /v1; user:password@ is sent, never shown).

    The key comes from `key_file`, else from OPENAI_API_KEY. `timeout` bounds the seconds for one answer. ToolError
    after `retries` further tries, the first `backoff` seconds later, each next after twice the time. Thread-safe.
    """

    path: str  # after /v1
    option: str  # of the address, for error messages

    def __init__(
        self,
        name: str,
        *,
        url: str,
        key_file: str | None = None,
        timeout: float = 600.0,
        retries: int = 6,
        backoff: float = 0.5,
    ) -> None:
        self.name, self.timeout, self.retries, self.backoff = name, timeout, retries, backoff
        self.url, credentials = _address(url, self.path, self.option)
        self._key = _read_key(key_file) or (None if credentials else _environment_key())
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"
        elif credentials:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        self._pool = wire.pool(self.url, timeout)
        self._closed = threading.Event()

    def close(self) -> None:
        """Close idle connections and end all waits for a retry."""
        self._closed.set()
        self._pool.clear()

    def _request(
        self,
        fields: dict[str, Any],
        read: Callable[[bytes], Answer],
        seed: int,
        amend: Callable[[int, bytes], dict[str, Any] | None] = lambda status, body: None,
    ) -> Answer:
        """The result of `read` on the body of the answer to `fields`; on its ValueError the request is retried.

        `seed` determines the waits. amend(status, body) handles each error first: it may raise, or return other fields,
        which are sent at once. RecordError: the fields are at fault (400, 413, 422). ToolError: any other error, or no
        valid answer after all retries.
        """
        attempt = 0
        while True:
            status, headers, body, problem = self._post(fields)
            if status == 200:
                try:
                    return read(body)
                except ValueError as error:
                    status, problem = error_status(body) or 200, str(error)
            if status and (amended := amend(status, body)) is not None:
                fields = amended
                continue
            if moved := wire.redirection(status, headers):
                raise ToolError(f"{self.url}: {self._without_key(moved)}")
            if status not in (0, 200):
                problem = f"{status}: {self._error_message(body)}"
                if status not in RETRIED and status < 500:
                    # These concern this request, other errors every request.
                    kind = RecordError if status in (400, 413, 422) else ToolError
                    raise kind(f"{self.url}: {problem}")
            if attempt == self.retries:
                tries = "1 try" if attempt == 0 else f"{attempt + 1} tries"
                raise ToolError(f"{self.url}: no answer after {tries}; the last error: {problem}")
            self._closed.wait(wait_s(attempt, seed, self.backoff, headers.get("Retry-After")))
            if self._closed.is_set():
                raise ToolError(f"{self.url}: closed while waiting for a retry; the last error: {problem}")
            attempt += 1

    def _error_message(self, body: bytes) -> str:
        """The server's error message, with the key masked."""
        return wire.plain(self._without_key(error_message(body)), MESSAGE_CHARACTERS) or "(no error message)"

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _post(self, fields: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes, str]:
        """(status, headers, body, problem); status 0 where no complete answer arrived."""
        import urllib3.exceptions

        content = json.dumps(fields).encode()
        try:
            once: dict[str, Any] = {"retries": False, "redirect": False, "preload_content": False}
            answer = self._pool.request("POST", self.url, body=content, headers=self._headers, **once)
            return answer.status, answer.headers, wire.body(answer), ""
        except urllib3.exceptions.NewConnectionError as error:  # inherits from TimeoutError
            return 0, {}, b"", _why(error)
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            return 0, {}, b"", f"no answer within {self.timeout:g} s"
        except OverflowError as error:
            return 0, {}, b"", str(error)
        except urllib3.exceptions.HTTPError as error:
            return 0, {}, b"", _why(error)


class HttpModel(Served):
    """A model with OpenAI's chat protocol; for the connection, see Served.

    RecordError where the server rejects the request, ContextExceeded where it is too long: OpenAI's servers and older
    vLLM refuse a prompt that leaves no room for `max_tokens`, newer vLLM shortens the answer.
    processed_logprobs: the server reports logprobs after temperature and top_p.
    """

    path, option = CHAT, "--model-url"
    batch, version = 1, None
    _plain = False  # whether the server rejects EXTRAS

    def __init__(self, name: str, *, processed_logprobs: bool = False, **options: Any) -> None:
        super().__init__(name, **options)
        self.processed_logprobs = processed_logprobs

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, in order; the requests are sent one after the other."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        fields, plain = request_fields(self.name, request), self._plain

        def amend(status: int, body: bytes) -> dict[str, Any] | None:
            nonlocal plain
            if exceeds_context(status, body):
                raise ContextExceeded(
                    f"{self.url}: {status}: {self._error_message(body)} (the prompt and up to {request.max_tokens}"
                    " tokens of answer share the model's context)"
                )
            if status not in (400, 422) or plain:
                return None
            plain = True  # EXTRAS may be the cause: retry without them
            return fields

        exact = self.processed_logprobs or (request.temperature == 1 and request.top_p == 1)
        first = fields if plain else fields | EXTRAS
        reply = self._request(first, lambda body: read_reply(body, exact), request.seed, amend)
        self._plain |= plain
        return reply


def request_fields(name: str, request: Request) -> dict[str, Any]:
    """The JSON fields of a request to the model `name`; message keys outside the protocol are dropped."""
    fields = {
        "model": name,
        "messages": [
            {"role": message["role"], "content": message["content"]}
            | {key: message[key] for key in MESSAGE_KEYS if message.get(key)}
            for message in request.messages
        ],
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "seed": request.seed % 2**31,  # some servers keep no more bits
    }
    optional = {"tools": request.tools, "stop": list(request.stop)}
    return fields | {key: value for key, value in optional.items() if value}


def wait_s(attempt: int, seed: int, backoff: float, retry_after: str | None = None) -> float:
    """Seconds between try `attempt` (from 0) and the next: the server's Retry-After, else backoff * 2^attempt.

    Adds a jitter of up to half the backoff, which depends only on `seed` and `attempt`. At most LONGEST_WAIT_S.
    """
    step = backoff * 2.0**attempt
    jitter = step / 2 * derive_seed(seed, "retry", attempt) / 2**62
    return min(LONGEST_WAIT_S, (wire.retry_after_s(retry_after) or step) + jitter)


def _address(url: str, end: str, option: str) -> tuple[str, str | None]:
    """(the address for POST, which ends in `end`; "user:password" or None)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ToolError(f"{option}: not the address of a server, e.g. http://localhost:8000/v1")
    path = parts.path.rstrip("/")
    path = path.removesuffix(end if path.endswith(end) else CHAT)
    if not re.search(r"/v\d", path):
        path += "/v1"
    authority = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return f"{parts.scheme}://{authority}{path}{end}", credentials


def _read_key(key_file: str | None) -> str | None:
    if key_file is None:
        return None
    try:
        with open(key_file, encoding="utf-8") as file:
            key = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{key_file}: cannot read the key: {getattr(error, 'strerror', None) or error}") from error
    return _sendable(key, key_file)


def _environment_key() -> str | None:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    return _sendable(key, "OPENAI_API_KEY") if key else None


def _sendable(key: str, source: str) -> str:
    # http.client quotes a header that it rejects, so an invalid key must not reach it.
    if not re.fullmatch(r"[!-~]+", key):
        raise ToolError(f"{source}: holds no key: one line of printable ASCII without spaces is needed")
    return key


def _why(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"connection failed: {cause.strerror}"
        reason = getattr(cause, "reason", None)
        cause = reason if isinstance(reason, BaseException) else cause.__cause__ or cause.__context__
    return f"connection dropped ({type(error).__name__})"
