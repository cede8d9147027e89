"""A model folder or a LoRA adapter folder, run by vLLM in a child process of the command, without a server.

The -j threads of the command send requests to vLLM's asynchronous engine, in an event loop of its own, so that no
request waits for the slowest answer of a batch. The child process frees its memory when it ends.
Covered: CPU and GPUs (of several, and of a part of one, by arguments of vLLM's own; tried on one), exact token ids and
log-probabilities, prompts that reuse recorded token ids, stop texts, exchanging adapters while the engine answers, and all
weights while it is idle. Not covered: tools in the chat template (serve the model for these).
"""

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..base.errors import ToolError
from ..base.hub import check_model
from ..records.rollout import Message
from . import DTYPES, Reply, Request
from .checkpoint import Checkpoint, check_context, find_checkpoint, prompt_ids
from .own_sampling import Distribution, distribution_of, stated

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has kernels for
MAX_LORAS = 2  # adapters in one step: running answers keep theirs while new ones use the next
MAX_CPU_LORAS = 4  # adapters in memory: one more than a trainer keeps folders of
NOT_COMPARED = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}  # of two configurations
SETTINGS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # spinning idle threads slow down the sandboxes
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else two engines on one machine share the same cores
    "VLLM_CPU_KVCACHE_SPACE": "4",  # GiB; vLLM's default leaves the sandboxes too little memory
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork would hold this command's locks and its output open
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
# vLLM's processes outlive a killed parent and keep the GPU's memory: this script ends them.
WATCH = """
import contextlib, os, signal, sys, time
parent, *watched = map(int, sys.argv[1:])
while os.getppid() == parent:
    time.sleep(0.5)
for number in (signal.SIGTERM, signal.SIGKILL):
    for pid in watched:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    time.sleep(10)
"""


class VllmModel:
    """The policy in `path`. `version` is the policy_version of the folder's state.json, None without one.

    Use one thread per request. Arithmetic is bfloat16 on a GPU, `dtype` (one of DTYPES) on a CPU. merge: write an adapter and
    its base as one model, for the engine alone; None: on a CPU, where vLLM is slow with adapters and the sum is exact.
    arguments: of vLLM's engine, by name, e.g. {"tensor_parallel_size": 4}, in place of those that are set here.
    Raises ToolError when the folder cannot be loaded.
    """

    batch = None

    def __init__(
        self,
        path: str | Path,
        merge: bool | None = None,
        dtype: str = DTYPES[0],
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        for key, value in SETTINGS.items():
            os.environ.setdefault(key, value)
        import vllm  # noqa: F401 before transformers, for the error's message where both are missing
        from transformers import AutoTokenizer
        from transformers.utils import logging
        from vllm.platforms import current_platform

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.name = str(path)
        self._checkpoint = find_checkpoint(self.name)
        check_model(self._checkpoint.base)
        self._merge = current_platform.is_cpu() if merge is None else merge
        self._rank = None if self._merge else _rank(self._checkpoint)
        self._numbers = itertools.count(1)
        self._tokenizing = threading.Lock()  # the tokenizer is not thread-safe
        self._engine: Any = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        others = {child.pid for child in multiprocessing.active_children()}
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(self._checkpoint.tokenizer)
            with (
                _weights(self._checkpoint, self._rank) as model,
                _tokenizer(self._checkpoint, self._tokenizer) as tokenizer,
            ):
                self._engine = self._wait(_start(model, tokenizer, self._rank, dtype, arguments or {}))
            self._watch = watch([child.pid for child in multiprocessing.active_children() if child.pid not in others])
            self._lora = self._load_adapter(self._checkpoint)
        except Exception as error:  # vLLM raises many types
            self.close()
            raise ToolError(f"{path}: cannot be loaded by vLLM: {error}") from error
        self.context: int = self._engine.model_config.max_model_len

    @property
    def version(self) -> int | None:
        return self._checkpoint.version

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, in order. Raises ContextExceeded, before any sampling, when a prompt is too long."""
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        if any(request.tools for request in requests):
            raise ToolError(
                f"vllm:{self.name}: does not support tool calls: leave --tool-calls at tags, or serve the model"
            )
        with self._tokenizing:
            prompts = [prompt_ids(self._tokenizer, request.messages) for request in requests]
        check_context(prompts, requests, self.context)
        try:
            replies: list[Reply] = self._wait(self._answers(requests, prompts, self._lora))
        except (EngineDeadError, EngineGenerateError) as error:
            raise ToolError(f"vllm:{self.name}: {error.__cause__ or error}") from error
        return replies

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """See CountsTokens."""
        with self._tokenizing:
            return len(prompt_ids(self._tokenizer, messages))

    def swap(self, path: str, idle: bool) -> bool:
        """Use the policy in `path` from now on; running answers keep the previous adapter.

        idle: no answer runs, so that all weights may be exchanged. False, where this needs an idle engine or a new one (another
        architecture or base, a larger rank); after a False to an idle engine only close() may be called.
        """
        checkpoint = find_checkpoint(path)
        if self._rank is None:
            if not idle or (checkpoint.adapter and not self._merge):
                return False
            try:
                if not _alike(checkpoint, self._checkpoint):
                    return False
                with _weights(checkpoint, None) as model:
                    self._wait(_reload(self._engine, model))
            except Exception:  # some weights may be new: a new engine loads all of them, or tells what is wrong
                return False
        else:
            rank = _rank(checkpoint)
            if rank is None or rank > self._rank or checkpoint.base != self._checkpoint.base:
                return False
            try:
                self._lora = self._load_adapter(checkpoint)
            except Exception as error:  # as in the constructor
                raise ToolError(f"{path}: cannot be loaded by vLLM: {error}") from error
        self.name, self._checkpoint = path, checkpoint
        return True

    def close(self) -> None:
        """End the engine; calls that still wait for an answer raise ToolError."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_stop(self._engine), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The result of `coroutine` in the engine's event loop."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except CancelledError as error:
            raise ToolError(f"vllm:{self.name}: closed before the answer was complete") from error

    def _load_adapter(self, checkpoint: Checkpoint) -> Any:
        """Load the checkpoint's adapter and return vLLM's handle of it; None in an engine without adapters."""
        if self._rank is None or checkpoint.adapter is None:
            return None
        from vllm.lora.request import LoRARequest

        # The prefix cache goes by the adapter's name, so each adapter needs a new name.
        number = next(self._numbers)
        lora = LoRARequest(f"adapter-{number}", number, str(Path(checkpoint.adapter).resolve()))
        self._wait(self._engine.add_lora(lora))
        return lora

    async def _answers(self, requests: Sequence[Request], prompts: list[list[int]], lora: Any) -> list[Reply]:
        pairs = zip(requests, prompts, strict=True)
        return list(await asyncio.gather(*(self._answer(request, prompt, lora) for request, prompt in pairs)))

    async def _answer(self, request: Request, prompt: list[int], lora: Any) -> Reply:
        # Without the type, newer versions look for text to tokenise.
        tokens, name = {"type": "token", "prompt_token_ids": prompt}, str(next(self._numbers))
        asked = distribution_of(request, self._checkpoint.base)
        outputs = self._engine.generate(tokens, _sampling(request, asked), name, lora_request=lora)
        (output,) = [output async for output in outputs]
        return stated(request, _reply(prompt, asked, output.outputs[0]), asked)


class WorkerExtension:
    """What vLLM's worker, in whose process the weights are, can do beside its own methods."""

    def load_all(self, model: str) -> None:
        """Load all weights of the folder or hub name `model` in place of those that are there."""
        worker: Any = self
        worker.reload_weights(weights_path=model)
        # A head that shares the embedding's weights is not told of new ones: on CPUs it has a packed copy.
        head = getattr(worker.get_model(), "lm_head", None)
        if head is not None:
            head.quant_method.process_weights_after_loading(head)


def watch(pids: Sequence[int | None]) -> subprocess.Popen[bytes]:
    """Start a process that ends `pids` once this process has ended, even if killed. The caller kills it when done."""
    command = [sys.executable, "-c", WATCH, str(os.getpid()), *map(str, pids)]
    silent = subprocess.DEVNULL  # a reader of the command's output must not wait for this process
    return subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)


def _sampling(request: Request, asked: Distribution) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=asked.temperature,
        top_p=asked.top_p,
        top_k=asked.top_k,
        repetition_penalty=asked.repetition_penalty,
        max_tokens=request.max_tokens,
        seed=request.seed,
        stop=list(request.stop),
        logprobs=0,  # of the sampled token alone
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _reply(prompt: list[int], asked: Distribution, answer: Any) -> Reply:
    if answer.finish_reason not in ("stop", "length"):
        raise ToolError(f"vLLM ended an answer with {answer.finish_reason!r}")
    tokens = list(answer.token_ids)
    # At temperature 0 vLLM reports the model's probabilities; the sampling distribution has all its mass in one token.
    logprobs = [
        0.0 if asked.temperature == 0 else step[token].logprob
        for token, step in zip(tokens, answer.logprobs, strict=True)
    ]
    return Reply(
        text=answer.text,
        finish_reason=answer.finish_reason,
        prompt_token_ids=prompt,
        token_ids=tokens,
        logprobs=[min(value, 0.0) for value in logprobs],
        prompt_tokens=len(prompt),
        completion_tokens=len(tokens),
    )


@contextlib.contextmanager
def _weights(checkpoint: Checkpoint, rank: int | None) -> Iterator[str]:
    """The folder or hub name that vLLM is to load; without a rank a merged model, which is removed afterwards."""
    if checkpoint.adapter is None or rank is not None:
        yield checkpoint.base
        return
    import torch
    from transformers import AutoModelForCausalLM

    from .hf import adapted

    with tempfile.TemporaryDirectory(prefix="mle-merged-") as folder:
        model: Any = AutoModelForCausalLM.from_pretrained(checkpoint.base, dtype=torch.float32)
        adapted(model, checkpoint.adapter).merge_and_unload().save_pretrained(folder)
        yield folder


@contextlib.contextmanager
def _tokenizer(checkpoint: Checkpoint, tokenizer: Any) -> Iterator[str]:
    """The folder or hub name that vLLM is to load the tokenizer from: it wants a model's configuration beside it."""
    if checkpoint.tokenizer == checkpoint.base:
        yield checkpoint.base
        return
    from transformers import AutoConfig

    with tempfile.TemporaryDirectory(prefix="mle-tokenizer-") as folder:
        AutoConfig.from_pretrained(checkpoint.base).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield folder


def _alike(checkpoint: Checkpoint, other: Checkpoint) -> bool:
    """Whether the models have the same configuration, so that an engine of one can take the weights of the other."""
    from transformers import AutoConfig

    one, two = (AutoConfig.from_pretrained(each.base).to_dict() for each in (checkpoint, other))
    return all(one.get(key) == two.get(key) for key in (one.keys() | two.keys()) - NOT_COMPARED)


async def _reload(engine: Any, model: str) -> None:
    await engine.collective_rpc("load_all", args=(model,))
    if not await engine.reset_prefix_cache():
        raise ToolError("an answer still runs")


async def _start(model: str, tokenizer: str, rank: int | None, dtype: str, arguments: Mapping[str, object]) -> Any:
    """The engine, bound to the current event loop. ToolError: an argument that vLLM does not know."""
    from vllm import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    if unknown := arguments.keys() - {field.name for field in fields(AsyncEngineArgs)}:
        raise ToolError(f"its engine has no argument {', '.join(sorted(unknown))} (--engine-option)")
    options: dict[str, object] = {"dtype": "bfloat16", "disable_log_stats": True, "use_tqdm_on_load": False}
    if current_platform.is_cpu():
        # Chunked prefill of a seeded request crashes vLLM on CPUs (no generator offset).
        options |= {"dtype": dtype, "enforce_eager": True, "enable_chunked_prefill": False}
    if rank is not None:
        options |= {"enable_lora": True, "max_lora_rank": rank, "max_loras": MAX_LORAS, "max_cpu_loras": MAX_CPU_LORAS}
    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=model,
            tokenizer=tokenizer,
            logprobs_mode="processed_logprobs",  # after temperature and top_p
            worker_extension_cls=f"{__name__}.{WorkerExtension.__name__}",
            **(options | dict(arguments)),
        )
    )


async def _stop(engine: Any) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if engine is not None:
        engine.shutdown()


def _rank(checkpoint: Checkpoint) -> int | None:
    """The smallest supported rank that fits the checkpoint's adapter; None without one."""
    if checkpoint.adapter is None:
        return None
    config = json.loads((Path(checkpoint.adapter) / "adapter_config.json").read_text())
    adapter_rank = max([config["r"], *(config.get("rank_pattern") or {}).values()])
    engine_rank = next((rank for rank in RANKS if rank >= adapter_rank), None)
    if engine_rank is None:
        raise ToolError(
            f"{checkpoint.adapter}: vLLM supports adapters up to rank {RANKS[-1]}, this one has rank {adapter_rank}"
        )
    return engine_rank
