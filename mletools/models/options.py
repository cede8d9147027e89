"""The options that select a model and its server. Importing this module is fast."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..base.errors import OptionError
from ..base.options import Declaration, declarations, option
from . import DTYPES, ENGINE_ARGUMENTS, Model, ServerOptions, check_model, open_model
from .address import DEFAULT_KEY, provider_key, same_server
from .prices import Price, price_of, read_price
from .structured import CHOICES

if TYPE_CHECKING:
    from .embedding import HttpEmbeddings

PROCESSED = (
    "The server reports logprobs after temperature and top_p (vLLM's --logprobs-mode processed_logprobs); else they "
    "are kept only at temperature 1 and top_p 1."
)
SET_ELSEWHERE = ("model", "messages", "tools", "n", "max_tokens")
OF_THE_FOLDER = ("hf_overrides", "rope_scaling", "rope_theta")  # a trainer of the policy has to know them, too
Field = dict[str, Any]  # one field of a request, as JSON


def read_field(text: str) -> Field:
    """A field of a request from KEY=JSON; a bare word is a text. ValueError, in words, for anything else."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][\w.-]*", name):
        raise ValueError(f"{text!r} is not KEY=JSON, e.g. reasoning_effort=low or top_k=20")
    if name in SET_ELSEWHERE:
        raise ValueError(f"{name} is set by the command itself")
    if re.fullmatch(r"[A-Za-z][\w.-]*", value) and value not in ("true", "false", "null", "NaN", "Infinity"):
        return {name: value}
    try:
        return {name: json.loads(value, parse_constant=_refuse)}
    except ValueError:
        raise ValueError(f"{value!r} is not JSON, such as 20, true, text or '{{\"a\": 1}}'") from None


def read_engine_argument(text: str) -> Field:
    """An argument of vLLM's engine from KEY=JSON. ValueError, in words, for anything else, and for what has another place."""
    field = read_field(text)
    (name,) = field
    if name in ENGINE_ARGUMENTS:
        raise ValueError(f"{name} is set by the command itself")
    if name in OF_THE_FOLDER:
        raise ValueError(f"{name} belongs into the config.json of the model's folder, which its trainer reads, too")
    return field


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def joined(fields: Iterable[Field]) -> Field:
    """Several fields as one object; the last value of a name counts."""
    return {name: value for each in fields for name, value in each.items()}


@dataclass(frozen=True)
class KeyOptions:
    """The key for the server of one role of a run.

    The command line has these options once for each role, behind the role's name; see `role_declarations`.
    """

    key_file: str | None = option("File with the key for {url}.", kind="existing file", metavar="FILE", machine=True)
    key_env: str | None = option("Environment variable with that key.", metavar="NAME", machine=True)


@dataclass(frozen=True)
class RoleOptions(KeyOptions):
    """The same for a role whose model answers, with its price, its sampling and further fields of its requests."""

    temperature: float | None = option("Sampling temperature of {model} (default: --temperature).", at_least=0)
    top_p: float | None = option("Nucleus sampling of {model} (default: --top-p).", above=0, at_most=1)
    max_tokens: int | None = option("Maximum tokens per answer of {model} (default: as for the others).", at_least=1)
    price: tuple[float, float] | None = option(
        "USD per million tokens of {model} (default: the server's usage.cost, or the list price).",
        metavar="PROMPT,COMPLETION",
        read=read_price,
    )
    option: tuple[Field, ...] = option(
        "An additional field of requests to {model}. Repeatable.", default=(), metavar="KEY=JSON", read=read_field
    )

    @property
    def sampling(self) -> Field:
        """What the user set of the sampling and of further fields, by name."""
        own = {name: getattr(self, name) for name in ("temperature", "top_p", "max_tokens")}
        return {name: value for name, value in own.items() if value is not None} | joined(self.option)

    def price_of(self, model: str, url: str | None) -> Price | None:
        """The price that the user set, else the list price; None: it is not known."""
        return Price.of(*self.price) if self.price else price_of(model, url)


def role_declarations(prefix: str, model: str, options: type[KeyOptions] = RoleOptions) -> dict[str, Declaration]:
    """The options of a role by their names on the command line, e.g. ideator_key_env."""
    words = {"url": f"--{prefix}-url", "model": model}
    return {
        f"{prefix}_{name}": replace(each, help=each.help.format(**words))
        for name, each in declarations(options).items()
    }


@dataclass(frozen=True)
class ModelOptions:
    """The model and its server."""

    model: str | None = option(flags=("-m", "--model"))
    model_url: str | None = option(
        "An OpenAI-compatible server (vLLM, SGLang, ...).", kind="url", envvar="MLE_MODEL_URL", machine=True
    )
    model_key_file: str | None = option(
        "File with the key for --model-url (default: OPENAI_API_KEY).",
        kind="existing file",
        metavar="FILE",
        machine=True,
    )
    model_key_env: str | None = option("Environment variable with that key.", metavar="NAME", machine=True)
    model_option: tuple[Field, ...] = option(
        "An additional field of requests, e.g. reasoning_effort=low. Repeatable.",
        default=(),
        metavar="KEY=JSON",
        read=read_field,
    )
    request_timeout: float = option(
        "Time limit of one request to a server.", default=600.0, above=0, kind="seconds", machine=True
    )
    retries: int = option("Retries after a failed request.", default=6, at_least=0, machine=True)
    wait_for_server: float = option(
        "How long to wait for a server that refuses connections or is still loading (503).",
        default=0.0,
        at_least=0,
        kind="seconds",
        machine=True,
    )

    structured: str = option(
        "Request JSON answers by the server's response_format; auto: only from models that reason apart from their "
        "answer.",
        default=CHOICES[0],
        choices=CHOICES,
    )

    dtype: str = option(
        "Precision of hf: and vllm: on a CPU: float32 as in training, bfloat16 for processors with AMX.",
        default=DTYPES[0],
        choices=DTYPES,
    )

    engine_option: tuple[Field, ...] = option(
        "An argument of vLLM's engine, for vllm: models: tensor_parallel_size=4, gpu_memory_utilization=0.4, "
        "max_model_len=40960. Repeatable.",
        default=(),
        metavar="KEY=JSON",
        read=read_engine_argument,
        envvar="MLE_ENGINE_OPTION",
        machine=True,
    )

    @property
    def fields(self) -> Field:
        """The further fields of the model's requests."""
        return joined(self.model_option)

    def open(self, model: str | None = None, batch: int = 64) -> Model:
        """The model `model` (default: -m) at --model-url. ToolError: it cannot be opened."""
        return open_model(model or self.model or "", self.server(), batch, self.dtype, joined(self.engine_option))

    def server(self) -> ServerOptions:
        """The server of the model. OptionError: two keys."""
        return replace(self._server(self.model_key_file, self.model_key_env), fields=self.fields)

    def check(self) -> None:
        """ToolError for a model that `open` refuses before it loads a checkpoint or asks a server."""
        if self.model is not None:
            check_model(self.model, self.server())

    def check_role(self, model: str, url: str | None, role: RoleOptions) -> None:
        """The same for the model of another role; see `open_role`."""
        check_model(model, self._role_server(url, role))

    def open_role(self, model: str, url: str | None, role: RoleOptions) -> Model:
        """The model of another role, at `url` (default: --model-url). ToolError: it cannot be opened."""
        return open_model(model, self._role_server(url, role), dtype=self.dtype, engine=joined(self.engine_option))

    def open_embeddings(self, model: str, url: str | None, role: KeyOptions) -> "HttpEmbeddings":
        """The embedding model, at `url` (default: --model-url). ToolError: it cannot be opened."""
        from .embedding import open_embeddings

        return open_embeddings(model, self._server_of(url, role))

    def _role_server(self, url: str | None, role: RoleOptions) -> ServerOptions:
        return replace(self._server_of(url, role), fields=joined(role.option))

    def _server_of(self, url: str | None, role: KeyOptions) -> ServerOptions:
        """A role's server, with its own key, or that of --model-url where the two are one server."""
        if role.key_file or role.key_env:
            server = self._server(role.key_file, role.key_env)
        elif url is None or same_server(url, self.model_url):
            server = self._server(self.model_key_file, self.model_key_env)
        else:
            server = replace(self._server(None, None), key_env=provider_key(url))
        return replace(server, url=url or self.model_url or "")

    def _server(self, key_file: str | None, key_env: str | None) -> ServerOptions:
        if key_file and key_env:
            raise OptionError("a key file and a key variable of one server: give one of them")
        return ServerOptions(
            self.model_url or "",
            key_file,
            key_env or provider_key(self.model_url) or DEFAULT_KEY,
            timeout=self.request_timeout,
            retries=self.retries,
            wait_for_server=self.wait_for_server,
            structured=self.structured,
        )


@dataclass(frozen=True)
class JudgeOptions:
    """The sampling and the price of a model that works on records and is not trained."""

    temperature: float | None = option(
        "Sampling temperature; 0 is greedy (default: the server's default; 0 for a model on this machine).", at_least=0
    )
    top_p: float | None = option(
        "Nucleus sampling (default: the server's default; 1 for a model on this machine).", above=0, at_most=1
    )
    price: tuple[float, float] | None = option(
        "USD per million tokens (default: the server's usage.cost, or the list price).",
        read=read_price,
        metavar="PROMPT,COMPLETION",
    )

    def price_of(self, models: ModelOptions) -> Price | None:
        """The model's price; None: it is not known."""
        return Price.of(*self.price) if self.price else price_of(models.model or "", models.model_url)


@dataclass(frozen=True)
class SampledModelOptions(ModelOptions):
    """The same for a model whose messages may be trained on."""

    processed_logprobs: bool = option(PROCESSED, default=False)

    def server(self) -> ServerOptions:
        """See ModelOptions.server."""
        return replace(super().server(), processed_logprobs=self.processed_logprobs)
