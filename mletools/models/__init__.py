"""Language models: one interface, and a table of engines that are imported only when selected.

Covered: requests, replies, tool calls, the interface of a model, selecting an engine from the value of `-m`.
Not covered: the content of messages (scaffolds), concurrency (rollout: who is sampled with whom).
"""

import importlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict, runtime_checkable

from ..base.errors import OptionError, RecordError, ToolError
from ..base.hub import model_folder
from ..base.words import did_you_mean
from ..records.rollout import Message
from ..records.task import Task
from .address import CHAT, DEFAULT_KEY, read_address, read_key

ENGINES = {
    "scripted": "mletools.simulated:ScriptedModel",
    "hf": "mletools.models.hf:HfModel",
    "vllm": "mletools.models.vllm_engine:VllmModel",
    "llama": "mletools.models.llama:LlamaModel",
    "http": "mletools.models.http:HttpModel",
}

# The libraries that an engine needs, and the package extra that installs them.
EXTRAS = {
    "hf": (("torch", "transformers"), "train"),
    "vllm": (("vllm",), "vllm"),
    "llama": (("xllamacpp",), "local"),
}


DTYPES = ("float32", "bfloat16")  # of hf: and vllm: on a CPU
# Arguments of vLLM's engine that are ours to set: what is loaded, and that records are true.
ENGINE_ARGUMENTS = (
    "tokenizer",
    "dtype",
    "seed",
    "logprobs_mode",
    "worker_extension_cls",
    "enable_lora",
    "max_lora_rank",
    "max_loras",
    "max_cpu_loras",
)


class ContextExceeded(RecordError):
    """The prompt, or the prompt and `max_tokens` together, exceeds the model's context.

    index: of the request in its batch.
    """

    index: int = 0


class Parameters(TypedDict, total=False):
    """The parameters of a tool, a JSON Schema of an object."""

    type: str
    properties: dict[str, object]
    required: list[str]


class OfferedFunction(TypedDict, total=False):
    name: str
    description: str
    parameters: Parameters


class OfferedTool(TypedDict):
    """A tool that a model may call, as OpenAI's protocol defines one; its name is always there."""

    type: str
    function: OfferedFunction


@dataclass(frozen=True)
class Request:
    """One chat completion request: `messages` in OpenAI's format, and the sampling parameters.

    A message has "role" and "content"; an assistant's may have "tool_calls" ({"id", "type": "function",
    "function": {"name", "arguments"}}) and a tool's "tool_call_id" and "name". `max_tokens` bounds the answer, not the
    prompt. A `stop` text ends the answer and is not part of it.
    Only the scripted model reads `task`, the task record, and `role`, the protocol of the conversation ("react").

    What is None here is not sent to a server, which then takes its own value; an engine in this process takes
    `own_temperature` and a `top_p` of 1. `training`: the answer may be trained on, so a server is sent the whole
    sampling distribution (temperature and top_p of 1 where they are None) and asked for token ids and logprobs.
    `send_seed`: a server is sent the seed without `training`, too. `schema` is the JSON Schema of an answer in JSON, {}
    for any object, None for text: a server may be asked to keep to it, without `training` (see structured). `cache_salt`
    names the weights that a server has now, where they change: it must not answer from what others computed.
    `model_sampling`: an engine in this process samples what is None here as the model's own card has it (own_sampling).
    """

    messages: list[Message]
    seed: int
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 1024
    task: Task | None = None
    tools: list[OfferedTool] | None = None
    role: str = ""
    stop: tuple[str, ...] = ()
    training: bool = False
    send_seed: bool = False
    own_temperature: float = 1.0
    schema: Mapping[str, object] | None = None
    cache_salt: str | None = None
    model_sampling: bool = False

    @property
    def local_temperature(self) -> float:
        """The temperature for an engine in this process."""
        return self.own_temperature if self.temperature is None else self.temperature

    @property
    def local_top_p(self) -> float:
        """The top_p for an engine in this process."""
        return 1.0 if self.top_p is None else self.top_p


@dataclass(frozen=True)
class ToolCall:
    """A tool call in a reply. `arguments` is unparsed text: JSON if the model follows the protocol.

    `extra_content` is to be sent back with the call (Gemini's thought signature).
    """

    id: str
    name: str
    arguments: str
    extra_content: dict[str, object] | None = None


@dataclass(frozen=True)
class Reply:
    """One answer. `finish_reason` is "stop" (the model ended it, or calls tools), "length" (cut at `max_tokens`),
    "content_filter" (the server's filter refused the prompt or cut the answer) or "refusal" (the model declined).

    `prompt_token_ids` and `token_ids` are the exact tokens of prompt and answer, with the end token where there is one;
    `logprobs` are natural logarithms under the sampling distribution, one per entry of `token_ids`. A value that the
    engine does not report is None. `prompt_tokens` include `cached_tokens`, `completion_tokens` include
    `reasoning_tokens`. `reasoning` is the reasoning text, where a server separates it from `text`. `usd` is the cost,
    where a server states it. `sampling` is what a server was really sent: temperature and top_p (None: not sent), and
    the user's `options` where there are any (None: refused), and for a request with a schema the type of its
    `response_format` (None: not sent); of an engine in this process the model's own, where that was asked for, else None.
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
    usd: float | None = None
    sampling: dict[str, object] | None = field(default=None, compare=False)


class Model(Protocol):
    """An engine. `name` and `version` identify the policy in records.

    `sample` returns one reply per request, in order. `batch` is how many requests it takes together, one call at a time;
    None: its calls have one request each, and may come from several threads at once. A model that cannot answer raises ToolError.
    """

    name: str
    batch: int | None

    @property
    def version(self) -> str | int | None: ...

    def sample(self, requests: Sequence[Request]) -> list[Reply]: ...

    def close(self) -> None: ...


@runtime_checkable
class CountsTokens(Protocol):
    """A model whose tokenizer is in this process. count_tokens: of messages as a prompt, with the template's own tokens;
    None: of a model that is followed, where the tokenizer is the server's. Thread-safe.
    """

    def count_tokens(self, messages: Sequence[Message]) -> int | None: ...


@runtime_checkable
class HasSlots(Protocol):
    """A model that answers so many requests at once. slot: held while it does; the wait for one is no time of an answer."""

    slot: threading.BoundedSemaphore


@dataclass(frozen=True)
class ServerOptions:
    """A server, and how it is asked."""

    url: str = ""  # with or without /v1; user:password@ is sent, never shown; "": no server
    key_file: str | None = None  # comes before key_env
    key_env: str | None = DEFAULT_KEY  # the variable with the key; None: no key is sent
    key: str | None = None  # the key itself, before both
    timeout: float = 600.0  # seconds for one answer
    retries: int = 6  # further tries
    backoff: float = 0.5  # seconds before the first of them; each next comes after twice the time
    wait_for_server: float = 0.0  # seconds in which a server that is not ready costs no try
    fields: Mapping[str, object] = field(default_factory=dict)  # the user's own, of each request to a model
    processed_logprobs: bool = False  # the server reports logprobs after temperature and top_p
    structured: str = "auto"  # one of structured.CHOICES


def open_model(
    spec: str,
    server: ServerOptions | None = None,
    batch: int = 64,
    dtype: str = DTYPES[0],
    engine: Mapping[str, object] | None = None,
) -> Model:
    """The model of `spec`: `scripted[:LEVEL,...]`, `hf:PATH`, `vllm:PATH`, `llama:FILE`, or the name of a model at the
    `server`.

    `batch` is how many sequences `hf` samples at once, `dtype` (of DTYPES) what `hf` and `vllm` compute in on a CPU, `engine`
    further arguments of vLLM's engine. ToolError: no `server` for a server's model, an unknown level, a library that is not
    installed.
    """
    kind, rest = _kind(spec, server)
    if kind == "http":
        return _engine(kind, spec, server)
    match kind:
        case "hf":
            return _engine(kind, rest, batch=batch, dtype=dtype)
        case "vllm":
            return _engine(kind, rest, dtype=dtype, **({"arguments": engine} if engine else {}))
        case "llama":
            return _engine(kind, rest, *([server.structured] if server else []))
    return _engine(kind, rest)


def check_model(spec: str, server: ServerOptions) -> None:
    """Check the arguments of `open_model` without loading a checkpoint and without a server. ToolError as there."""
    kind, rest = _kind(spec, server)
    if kind == "scripted":
        _engine("scripted", rest).close()
    elif kind == "llama":
        from .gguf_header import read_header

        read_header(rest)
    elif kind == "http":
        read_address(server.url, CHAT, "--model-url")
        read_key(server.key_file, server.key_env)


def _kind(spec: str, server: ServerOptions | None) -> tuple[str, str]:
    """(the name in ENGINES, what the engine opens). ToolError: the name or the address is missing, or it cannot take the
    fields of requests that the user set.
    """
    kind, _, rest = spec.partition(":")
    if kind in ENGINES and kind != "http" and server is not None and server.fields:
        raise OptionError(
            f"{spec}: there are no requests to add {', '.join(server.fields)} to: --model-option and the --ROLE-option of other "
            "models are for those of servers"
        )
    if kind == "scripted":
        return kind, rest
    if kind in ("hf", "vllm"):
        if not rest:
            raise ToolError(f"{spec}: {kind} needs a folder or a model's name, e.g. {kind}:runs/policy")
        return kind, rest
    if kind == "llama":
        if not rest:
            raise ToolError(f"{spec}: llama needs a GGUF file, e.g. llama:qwen2.5-coder-0.5b.gguf")
        return kind, rest
    if not spec:
        raise ToolError("no model: name one, e.g. scripted, hf:PATH, or a model that a server at --model-url serves")
    if server is None or not server.url:
        if spec.endswith(".gguf"):
            raise ToolError(f"{spec}: a GGUF file is run as llama:{spec}")
        if (folder := model_folder(Path(spec))) is not None:
            raise ToolError(f"{spec}: a folder is sampled as hf:{folder} (or vllm:{folder})")
        near = did_you_mean(kind, [each for each in ENGINES if each != "http"])
        raise ToolError(
            f"{spec}: a server's model needs its address: give --model-url or MLE_MODEL_URL"
            f" (or name scripted or hf:PATH, which need none){near}"
        )
    return "http", spec


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
