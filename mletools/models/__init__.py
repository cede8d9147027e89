"""Who answers a prompt: one interface, and a table of engines that are imported only when one is picked.

Covered: a request and its reply, calls of tools, the interface of a model, choosing an engine from what `-m` says.
Not covered: what the messages say (scaffolds), how many requests run at once (the command: one thread per request
where `batch` is 1, `batch` requests per call otherwise).
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..records.errors import RecordError, ToolError

ENGINES = {
    "scripted": "mletools.models.scripted:ScriptedModel",
    "hf": "mletools.models.hf:HfModel",
    "vllm": "mletools.models.vllm_engine:VllmModel",
    "http": "mletools.models.http:HttpModel",
}

# Which extra of the package brings an engine's libraries: (names of the libraries, extra).
EXTRAS = {"hf": (("torch", "transformers"), "train"), "vllm": (("vllm",), "vllm")}


class ContextExceeded(RecordError):
    """This prompt, or the prompt and `max_tokens` together, is longer than the model's context; a shorter one is not.

    index: of the request among those that were asked together.
    """

    index: int = 0


@dataclass(frozen=True)
class Request:
    """One question to a model: `messages` as of the chat protocol, and how to sample the answer.

    A message has "role" and "content"; one of the assistant's may have "tool_calls" ({"id", "type": "function",
    "function": {"name", "arguments"}}) and one of a tool's "tool_call_id" and "name". `max_tokens` bounds the answer,
    not the prompt. `tools` are definitions as of OpenAI's protocol. A text in `stop` ends the answer and is left out of
    it. `task`, the task record behind the question, and `role`, the protocol that the question is part of ("react"),
    matter to the scripted model only.
    """

    messages: list[dict[str, Any]]
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    task: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    role: str = ""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for. `arguments` is its own text, unparsed: JSON if the model kept to the protocol."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """One answer. `finish_reason` is "stop" (the model ended it, or calls tools) or "length" (cut at `max_tokens`).

    `prompt_token_ids` and `token_ids` are what the model really saw and wrote (its end token included where it wrote
    one); `logprobs` are natural logarithms of the distribution sampled from, as many as `token_ids`. None: the engine
    does not tell. The counts are None where nobody counted; `cached_tokens` are among `prompt_tokens`,
    `reasoning_tokens` among `completion_tokens`. `reasoning` is what a server split off `text` as thought.
    """

    text: str
    finish_reason: str = "stop"
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


class Model(Protocol):
    """An engine. `name` and `version` name the policy in records; `batch` is how many requests one call should get.

    `sample` returns one reply per request, in order. It may be called from several threads where `batch` is 1. A model
    that cannot answer raises ToolError; there is no reply for "failed".
    """

    name: str
    batch: int

    @property
    def version(self) -> str | int | None: ...

    def sample(self, requests: Sequence[Request]) -> list[Reply]: ...

    def close(self) -> None: ...


def open_model(
    spec: str,
    *,
    url: str | None = None,
    key_file: str | None = None,
    timeout: float = 600.0,
    retries: int = 6,
    batch: int = 64,
    processed_logprobs: bool = False,
) -> Model:
    """The model that `spec` names: `scripted[:LEVEL,...]`, `hf:PATH`, `vllm:PATH`, or a name at the server behind `url`.

    `key_file`, `timeout` (seconds for one request), `retries` and `processed_logprobs` (the server gives them after
    temperature and top_p) matter to a server only, `batch` (sequences at once) to `hf` only. Raises ToolError: no `url` for a server's model, an unknown level, a library that is not installed.
    """
    kind, _, rest = spec.partition(":")
    if kind == "scripted":
        return _engine("scripted", rest)
    if kind in ("hf", "vllm"):
        if not rest:
            raise ToolError(f"{spec}: {kind} needs a folder or a model's name, e.g. {kind}:runs/policy")
        return _engine(kind, rest, **({"batch": batch} if kind == "hf" else {}))
    if not spec:
        raise ToolError("no model: name one, e.g. scripted, hf:PATH, or a model that a server at --model-url serves")
    if not url:
        raise ToolError(
            f"{spec}: a server's model needs its address: give --model-url or MLE_MODEL_URL"
            " (or name scripted or hf:PATH, which need none)"
        )
    options: dict[str, Any] = {"url": url, "key_file": key_file, "timeout": timeout, "retries": retries}
    return _engine("http", spec, **options, processed_logprobs=processed_logprobs)


def _engine(kind: str, *args: Any, **options: Any) -> Model:
    module, _, name = ENGINES[kind].partition(":")
    libraries, extra = EXTRAS.get(kind, ((), ""))
    try:
        model: Model = getattr(importlib.import_module(module), name)(*args, **options)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in libraries:
            raise
        needed = " and ".join(libraries)
        raise ToolError(f"{kind}: needs {needed}: pip install 'mletools[{extra}]'") from error
    return model
