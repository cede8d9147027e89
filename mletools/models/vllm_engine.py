"""A model folder or a LoRA adapter folder, run by vLLM without a server: its engine is a child process of the command.

vLLM puts requests together as they come. Agents in turns and single answers alike ask from as many threads as -j says,
and nobody waits for the slowest answer of a batch: hence its asynchronous engine, in an event loop of its own, and not
the one that takes a list and returns when all of it is done. A child's memory is free again once it has ended.
Covered: CPU and one GPU, exact token ids and log-probabilities, turns that go on from recorded token ids, stop texts,
adapters that are exchanged under a running engine. Not covered: several GPUs, sharing one with a trainer, tools in the
template (serve the model for these).
"""

import asyncio
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from . import Reply, Request
from .checkpoint import Checkpoint, check_context, find_checkpoint, prompt_ids

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has kernels for
AT_ONCE = 2  # adapters in one step: answers begun before an exchange go on while new ones begin
KEPT = 4  # adapters in memory: as many as a trainer keeps folders of, and one
SETTINGS = {
    "OMP_WAIT_POLICY": "PASSIVE",  # idle threads that spin take the cores that sandboxes want
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # two engines on one machine would be bound to the same cores
    "VLLM_CPU_KVCACHE_SPACE": "4",  # GiB; vLLM's own choice is nearly all memory, which sandboxes want, too
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork would hold this command's locks and its output open
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
# vLLM's processes do not notice that this one was killed: they would stay, and keep the GPU's memory.
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

    `batch` is 1: ask from as many threads as there are questions. Arithmetic is float32 on a CPU, bfloat16 on a GPU.
    Raises ToolError when the folder cannot be loaded.
    """

    batch = 1

    def __init__(self, path: str | Path) -> None:
        for key, value in SETTINGS.items():
            os.environ.setdefault(key, value)
        import vllm  # noqa: F401 who lacks vLLM is to be told of vLLM, not of transformers
        from transformers import AutoTokenizer

        self.name = str(path)
        self._checkpoint = find_checkpoint(self.name)
        self._rank = _rank(self._checkpoint)
        self._numbers = itertools.count(1)
        self._tokenizing = threading.Lock()  # a tokenizer serves one thread at a time
        self._engine: Any = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        others = {child.pid for child in multiprocessing.active_children()}
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(self._checkpoint.tokenizer)
            self._engine = self._wait(_start(self._checkpoint, self._rank))
            self._watch = watch([child.pid for child in multiprocessing.active_children() if child.pid not in others])
            self._lora = self._loaded(self._checkpoint)
        except Exception as error:  # whatever vLLM finds fault with, in types of its own and plain ones
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
            raise ToolError(f"vllm:{self.name}: is not told of tools: leave --tool-calls at tags, or serve the model")
        with self._tokenizing:
            prompts = [prompt_ids(self._tokenizer, request.messages) for request in requests]
        check_context(prompts, requests, self.context)
        try:
            replies: list[Reply] = self._wait(self._answers(requests, prompts, self._lora))
        except (EngineDeadError, EngineGenerateError) as error:
            raise ToolError(f"vllm:{self.name}: {error.__cause__ or error}") from error
        return replies

    def swap(self, path: str) -> bool:
        """Answer with the adapter in `path` from now on; answers that are begun go on with the one before.

        False, and nothing changed: it takes another engine (another base, a larger rank, no adapter).
        """
        found = find_checkpoint(path)
        rank = _rank(found)
        if rank is None or self._rank is None or rank > self._rank or found.base != self._checkpoint.base:
            return False
        try:
            lora = self._loaded(found)
        except Exception as error:  # as in the constructor
            raise ToolError(f"{path}: cannot be loaded by vLLM: {error}") from error
        self.name, self._checkpoint, self._lora = path, found, lora
        return True

    def close(self) -> None:
        """End the engine; whoever still waits for an answer gets a ToolError."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_stop(self._engine), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What `work` comes to in the engine's event loop."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except CancelledError as error:
            raise ToolError(f"vllm:{self.name}: closed before it had answered") from error

    def _loaded(self, checkpoint: Checkpoint) -> Any:
        """vLLM's handle of the checkpoint's adapter, which is in memory then; None where there is no adapter."""
        if checkpoint.adapter is None:
            return None
        from vllm.lora.request import LoRARequest

        # What is computed of a prompt is kept under the adapter's name: each gets a name of its own.
        number = next(self._numbers)
        lora = LoRARequest(f"adapter-{number}", number, str(Path(checkpoint.adapter).resolve()))
        self._wait(self._engine.add_lora(lora))
        return lora

    async def _answers(self, requests: Sequence[Request], prompts: list[list[int]], lora: Any) -> list[Reply]:
        asked = zip(requests, prompts, strict=True)
        return list(await asyncio.gather(*(self._answer(request, prompt, lora) for request, prompt in asked)))

    async def _answer(self, request: Request, prompt: list[int], lora: Any) -> Reply:
        # The type says that nothing is left to render; without it, newer versions look for text to tokenise.
        tokens, name = {"type": "token", "prompt_token_ids": prompt}, str(next(self._numbers))
        outputs = self._engine.generate(tokens, _sampling(request), name, lora_request=lora)
        (output,) = [output async for output in outputs]
        return _reply(request, prompt, output.outputs[0])


def watch(pids: Sequence[int | None]) -> subprocess.Popen[bytes]:
    """A process that ends those once this process has ended, however that came; kill it when it is no longer wanted."""
    command = [sys.executable, "-c", WATCH, str(os.getpid()), *map(str, pids)]
    silent = subprocess.DEVNULL  # whoever reads what the command prints must not wait for this process, too
    return subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)


def _sampling(request: Request) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=request.max_tokens,
        seed=request.seed,
        stop=list(request.stop),
        logprobs=0,  # of the sampled token alone
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _reply(request: Request, prompt: list[int], answer: Any) -> Reply:
    if answer.finish_reason not in ("stop", "length"):
        raise ToolError(f"vLLM ended an answer with {answer.finish_reason!r}")
    tokens = list(answer.token_ids)
    # Of a greedy answer, vLLM tells the model's probabilities; the distribution sampled from has all of it in one token.
    told = [
        0.0 if request.temperature == 0 else step[token].logprob
        for token, step in zip(tokens, answer.logprobs, strict=True)
    ]
    return Reply(
        text=answer.text,
        finish_reason=answer.finish_reason,
        prompt_token_ids=prompt,
        token_ids=tokens,
        logprobs=[min(value, 0.0) for value in told],
        prompt_tokens=len(prompt),
        completion_tokens=len(tokens),
    )


async def _start(checkpoint: Checkpoint, rank: int | None) -> Any:
    """The engine. It belongs to the event loop that it is made in."""
    from vllm import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    options: dict[str, Any] = {"dtype": "bfloat16"}
    if current_platform.is_cpu():
        # A seeded request whose prompt is read in several steps ends vLLM on CPUs (no offset of a generator).
        options = {"dtype": "float32", "enforce_eager": True, "enable_chunked_prefill": False}
    if rank is not None:
        options |= {"enable_lora": True, "max_lora_rank": rank, "max_loras": AT_ONCE, "max_cpu_loras": KEPT}
    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=checkpoint.base,
            tokenizer=checkpoint.tokenizer,
            logprobs_mode="processed_logprobs",  # at the request's temperature and within its nucleus
            disable_log_stats=True,
            use_tqdm_on_load=False,
            **options,
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
    """The rank that the engine has to provide for the checkpoint's adapter, None without one."""
    if checkpoint.adapter is None:
        return None
    config = json.loads((Path(checkpoint.adapter) / "adapter_config.json").read_text())
    own = max([config["r"], *(config.get("rank_pattern") or {}).values()])
    found = next((rank for rank in RANKS if rank >= own), None)
    if found is None:
        raise ToolError(f"{checkpoint.adapter}: vLLM takes adapters of a rank up to {RANKS[-1]}, this one has {own}")
    return found
