"""A GGUF file, run by llama.cpp's server in a child process of the command: a laptop needs nothing else.

Prompts are made as for the other engines of this machine (checkpoint), with the server's own template and tokens.
Covered: CPUs and what else the installed build of xllamacpp uses, several answers at once, cached prompts, exact token
ids and log-probabilities, answers in JSON by a grammar. Not covered: tools in the chat template (serve the model for
these), loading other weights while it runs, equal answers from equal seeds where several are asked at the same time.
"""

import contextlib
import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

from ..base import jsonl
from ..base.errors import RecordError, ToolError
from ..records.rollout import Message
from . import Reply, Request, ServerOptions
from .checkpoint import check_context, prompt_ids
from .gguf_header import CONTROL, USER_DEFINED, Header, read_header
from .http import Served
from .structured import reasoned, told

SLOTS = 4  # answers at once; each has a context of its own
LONGEST_CONTEXT = 32_768  # tokens of a slot: beyond it memory goes to what few conversations reach
LEAST_CONTEXT = 2048
PROMPT_CACHE_MB = 1024
END_S = 10.0
WHOLE_DAY_S = 86_400.0  # an engine of one's own is waited for


@dataclass(frozen=True)
class Settings:
    """What the child process needs to know: the file, cores, answers at once, tokens of each, the key for requests."""

    file: str
    threads: int
    slots: int
    context: int
    key: str
    cache_mb: int = PROMPT_CACHE_MB


class LlamaModel:
    """The model in a GGUF file. Use one thread per request, and take a `slot` first: SLOTS of them are answered at once.

    Temperature and top_p are 1 where none is set, and nothing else cuts the distribution. `logprobs` are under it, and
    None where a character spreads over several tokens. structured: one of structured.CHOICES; but for "off", a question
    for JSON is answered under its grammar.
    ToolError: no such file, it has no chat template, or it cannot be loaded.
    """

    batch, version = None, None

    def __init__(self, file: str, structured: str = "auto") -> None:
        import xllamacpp  # noqa: F401 for the error's message where it is missing

        self.name, self._json = file, structured != "off"
        header = read_header(file)
        if not header.get("tokenizer.chat_template"):
            raise ToolError(f"llama:{file}: has no chat template: only models that were trained to chat can be asked")
        self.context = context_of(header)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 it stays open
        key = secrets.token_urlsafe(24)
        threads = len(os.sched_getaffinity(0))
        self._child = _start(Settings(str(Path(file).resolve()), threads, SLOTS, self.context, key), self._log)
        try:
            server = ServerOptions(self._listening(), key=key, timeout=WHOLE_DAY_S, retries=0)
            self._completion = _Endpoint("/completion", server)
            self._tokenizer = _Tokenizer(header, _Endpoint("/apply-template", server), _Endpoint("/tokenize", server))
        except BaseException:
            _end(self._child)
            raise
        self.slot = threading.BoundedSemaphore(SLOTS)

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, in order. Raises ContextExceeded, before any sampling, when a prompt is too long."""
        if any(request.tools for request in requests):
            raise ToolError(
                f"llama:{self.name}: does not support tool calls: leave --tool-calls at tags, or serve the model"
            )
        if any(request.model_sampling for request in requests):
            raise ToolError(
                f"--sampling model: llama:{self.name} states no sampling of its own: give --temperature and --top-p"
            )
        try:
            prompts = [prompt_ids(self._tokenizer, self._told(request)) for request in requests]
            check_context(prompts, requests, self.context)
            return [self._reply(request, prompt) for request, prompt in zip(requests, prompts, strict=True)]
        except RecordError:
            raise
        except ToolError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1)
                raise ToolError(f"llama:{self.name}: the engine has ended: {self._why()}") from error
            raise

    def close(self) -> None:
        """End the child process, and all answers that are on their way."""
        self._completion.close()
        _end(self._child)
        self._log.close()

    def _schema(self, request: Request) -> Mapping[str, object] | None:
        """The schema that the answer is kept to. What is trained on is drawn without constraint; so is an object whose fields
        no schema names, since a small model ends it behind the reasoning.
        """
        return request.schema or None if self._json and not request.training else None

    def _told(self, request: Request) -> list[Message]:
        """The messages, with what the model has to know of the form of its answer."""
        schema = self._schema(request)
        if schema is None:
            return request.messages
        *before, last = request.messages
        return [*before, {**last, "content": told(last["content"], schema)}]

    def _reply(self, request: Request, prompt: list[int]) -> Reply:
        fields = {
            "prompt": prompt,
            "n_predict": request.max_tokens,
            "temperature": request.local_temperature,
            "top_p": request.local_top_p,
            "samplers": ["temperature", "top_p"],  # in this order, as elsewhere; nothing else
            "seed": request.seed % 2**31,
            "stop": list(request.stop),
            "return_tokens": True,
            "n_probs": 1,
            "post_sampling_probs": True,
        }
        if (schema := self._schema(request)) is not None:
            fields["json_schema"] = reasoned(schema)
        reply: Reply = self._completion.ask(fields, lambda body: _read(body, prompt))
        return reply

    def _listening(self) -> str:
        """The server's address, once the file is loaded."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            raise ToolError(f"llama:{self.name}: cannot be loaded: {self._why()}")
        return str(json.loads(line)["address"]) + "/v1"

    def _why(self) -> str:
        """How the child process ended: the last line that tells an error, else its exit status."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower() or "failed" in line.lower()]
        status = self._child.returncode
        how = f"killed by signal {-status}: is there memory for it?" if status < 0 else f"exit status {status}"
        return f"{errors[-1].strip()[:300]} ({how})" if errors else how


class _Endpoint(Served):
    """One path of the child's server."""

    option = "llama:"

    def __init__(self, path: str, server: ServerOptions) -> None:
        self.path = path
        super().__init__("llama", server)

    def ask(self, fields: Mapping[str, object], read: Callable[[bytes], Any]) -> Any:
        """What `read` makes of the body of the answer. ToolError: there is none."""
        return self._request(fields, read, 0)


class _Tokenizer:
    """Of transformers' tokenizers what checkpoint.prompt_ids asks, answered by the file's head and by the server."""

    def __init__(self, header: Header, template: _Endpoint, tokenize: _Endpoint) -> None:
        self._template, self._tokenize = template, tokenize
        tokens: Sequence[str] = header["tokenizer.ggml.tokens"]
        types: Sequence[int] = header.get("tokenizer.ggml.token_type", ())
        self.added_tokens_decoder = {
            number: SimpleNamespace(content=tokens[number], special=kind == CONTROL)
            for number, kind in enumerate(types)
            if kind in (CONTROL, USER_DEFINED)
        }
        self._numbers = {token.content: number for number, token in self.added_tokens_decoder.items()}
        self.all_special_tokens = [token.content for token in self.added_tokens_decoder.values() if token.special]
        end = header.get("tokenizer.ggml.eos_token_id")
        self.eos_token = tokens[end] if end is not None else None
        self.unk_token_id = header.get("tokenizer.ggml.unknown_token_id")
        self._tokens = tokens

    def apply_chat_template(self, messages: Sequence[Any], tokenize: bool, add_generation_prompt: bool) -> str:
        """The conversation as text."""
        fields = {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        return str(self._template.ask(fields, lambda body: jsonl.loads(body)["prompt"]))

    def __call__(
        self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False
    ) -> dict[str, list[int]]:
        """The token ids of a text; with `split_special_tokens`, no mark in it is one."""
        fields = {"content": text, "add_special": add_special_tokens, "parse_special": not split_special_tokens}
        return {"input_ids": self._tokenize.ask(fields, lambda body: list(jsonl.loads(body)["tokens"]))}

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of marks."""
        return [self._numbers[token] for token in tokens]

    def convert_ids_to_tokens(self, number: int) -> str:
        """The token of an id."""
        return self._tokens[number]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of marks."""
        return "".join(self._tokens[number] for number in numbers)


def context_of(header: Header) -> int:
    """Tokens of a slot: those that the model was trained with, and no more than LONGEST_CONTEXT, nor than fit.

    The keys and values of all slots, in float16, take at most a quarter of the machine's memory.
    """
    architecture = header.get("general.architecture")

    def number(name: str, default: int) -> int:
        value = cast("int | list[int]", header.get(f"{architecture}.{name}", default))
        return max(value) if isinstance(value, list) else int(value)

    heads = number("attention.head_count", 1)
    width = number("embedding_length", 1) // heads
    pair = number("attention.key_length", width) + number("attention.value_length", width)
    token_bytes = 2 * number("block_count", 1) * number("attention.head_count_kv", heads) * pair
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    context = min(number("context_length", 4096), LONGEST_CONTEXT)
    while context > LEAST_CONTEXT and context * SLOTS * token_bytes > memory:
        context //= 2
    return context


def _read(body: bytes, prompt: list[int]) -> Reply:
    """The reply in an answer of /completion; ValueError where it is none."""
    answer = jsonl.loads(body)
    tokens, drawn = answer["tokens"], answer.get("completion_probabilities", [])
    logprobs = [math.log(max(each["prob"], sys.float_info.min)) for each in drawn]
    return Reply(
        text=answer["content"],
        finish_reason="length" if answer["stop_type"] == "limit" else "stop",
        prompt_token_ids=prompt,
        token_ids=tokens,
        logprobs=logprobs if len(logprobs) == len(tokens) else None,
        prompt_tokens=len(prompt),
        completion_tokens=len(tokens),
        cached_tokens=answer.get("timings", {}).get("cache_n"),
    )


def _start(settings: Settings, log: IO[bytes]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.llama_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the command, which ends its work first
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # its exit status tells
        child.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        child.stdin.flush()
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait(END_S)
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
