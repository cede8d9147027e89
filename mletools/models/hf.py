"""A model folder or a LoRA adapter folder, run in this process with transformers.

Each row of a batch is sampled by inverting its distribution with random numbers from the request's seed, so an answer
does not depend on the other requests in its batch (except for rounding).
Covered: CPU and one GPU, exact token ids and log-probabilities, prompts that reuse recorded token ids.
Not covered: speed on large models (serve them with vLLM), sharding over GPUs, tools in the chat template.
"""

import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..base.errors import ToolError
from ..base.hub import check_model
from ..records.rollout import Message
from . import DTYPES, Reply, Request
from .checkpoint import Checkpoint, check_context, find_checkpoint, prompt_ids
from .own_sampling import Distribution, distribution_of, stated


class HfModel:
    """The policy in `path`. `version` is the policy_version of the folder's state.json, None without one.

    batch: rows per generation. device: "cpu", "cuda" (default: cuda where there is one). threads: CPU
    threads for torch (default: torch's own). dtype: one of DTYPES, of the arithmetic on a CPU. Raises ToolError when the folder cannot be loaded.
    """

    def __init__(
        self,
        path: str | Path,
        batch: int = 64,
        device: str | None = None,
        threads: int | None = None,
        dtype: str = DTYPES[0],
    ) -> None:
        # Idle OpenMP threads spin by default: ten times slower when processes share the cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import torch
        import transformers

        from .decoding import pack, prepare

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        if threads:
            torch.set_num_threads(threads)
        self.name = str(path)
        self.batch = batch
        self._tokenizing = threading.Lock()  # the tokenizer is not thread-safe
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        checkpoint = find_checkpoint(str(path))
        check_model(checkpoint.base)
        self.version, self._base = checkpoint.version, checkpoint.base
        self._model, self._tokenizer = _load(
            str(path), checkpoint, "bfloat16" if self.device.startswith("cuda") else dtype
        )
        self._model = self._model.to(self.device).eval()
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._ends = _end_tokens(self._model, self._tokenizer)
        pack(self._model)
        self._prepared = prepare(self._model)
        # A model's own defaults (top_k, repetition penalties) would change the sampling distribution.
        self._model.generation_config = transformers.GenerationConfig()

    @property
    def context(self) -> int | None:
        """The longest sequence in tokens, prompt and answer together, or None where the model does not state it."""
        return getattr(self._model.config.get_text_config(), "max_position_embeddings", None)

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        """One reply per request, in order. Raises ContextExceeded, before any sampling, when a prompt is too long."""
        from .decoding import kept_memory

        if any(request.tools for request in requests):
            raise ToolError(
                f"hf:{self.name}: does not support tool calls: leave --tool-calls at tags, or serve the model"
            )
        with self._tokenizing:
            prompts = [prompt_ids(self._tokenizer, request.messages) for request in requests]
        check_context(prompts, requests, self.context)
        order = sorted(range(len(requests)), key=lambda index: len(prompts[index]))
        replies: dict[int, Reply] = {}
        with kept_memory() if self.device == "cpu" else nullcontext():
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                answers = self._generate([requests[i] for i in chosen], [prompts[i] for i in chosen])
                replies.update(zip(chosen, answers, strict=True))
        return [replies[index] for index in range(len(requests))]

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """See CountsTokens."""
        with self._tokenizing:
            return len(prompt_ids(self._tokenizer, messages))

    def close(self) -> None:
        """Free the model's memory."""
        self._model = None

    def _generate(self, requests: list[Request], prompts: list[list[int]]) -> list[Reply]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

        from .decoding import sample_rows

        width = max(len(prompt) for prompt in prompts)
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=self.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        asked = [distribution_of(request, self._base) for request in requests]
        sampler = RowSampler(requests, asked, [width - len(prompt) for prompt in prompts], self.device)
        limits = torch.tensor([request.max_tokens for request in requests], device=self.device)
        with torch.inference_mode():
            if self._prepared and width > 1:
                rows = sample_rows(self._model, ids, mask, sampler, self._ends, limits)
            else:
                output = self._model.generate(
                    ids,
                    attention_mask=mask,
                    logits_processor=LogitsProcessorList([sampler]),
                    stopping_criteria=StoppingCriteriaList([lambda done, scores: done.size(1) - width >= limits]),
                    generation_config=GenerationConfig(
                        do_sample=False,
                        max_new_tokens=int(limits.max()),
                        eos_token_id=sorted(self._ends),
                        pad_token_id=pad,
                    ),
                )
                of_rows = torch.stack(sampler.logprobs, dim=1).tolist()
                rows = list(zip(output[:, width:].tolist(), of_rows, strict=True))
        replies = [
            self._reply(request, prompt, tokens, logprobs)
            for request, prompt, (tokens, logprobs) in zip(requests, prompts, rows, strict=True)
        ]
        return [stated(*each) for each in zip(requests, replies, asked, strict=True)]

    def _reply(self, request: Request, prompt: list[int], row: list[int], logprobs: list[float]) -> Reply:
        tokens = row[: request.max_tokens]
        stop = next((index for index, token in enumerate(tokens) if token in self._ends), None)
        if stop is not None:
            tokens = tokens[: stop + 1]
        answer = tokens if stop is None else tokens[:-1]
        return Reply(
            text=self._tokenizer.decode(answer, skip_special_tokens=True),
            finish_reason="length" if stop is None else "stop",
            prompt_token_ids=prompt,
            token_ids=tokens,
            logprobs=[min(value, 0.0) for value in logprobs[: len(tokens)]],
            prompt_tokens=len(prompt),
            completion_tokens=len(tokens),
        )


class RowSampler:
    """Samples each row's next token from softmax(logits / temperature), cut to the nucleus `top_p` and renormalised.

    Temperature 0 is the argmax, with log-probability 0. A row begins behind its `padding` positions. As a logits
    processor it leaves only the sampled token to the argmax, and `logprobs` collects what `pick` tells.
    """

    def __init__(
        self, requests: Sequence[Request], asked: Sequence[Distribution], padding: Sequence[int], device: str
    ) -> None:
        import torch

        def column(values: Sequence[float], dtype: Any = torch.float64) -> Any:
            return torch.tensor([[value] for value in values], dtype=dtype, device=device)

        self.temperatures, self.top_p = column([a.temperature for a in asked]), column([a.top_p for a in asked])
        self.top_k = column([a.top_k for a in asked], torch.int64)
        self.penalties = column([a.repetition_penalty for a in asked])
        self.padding = column(padding, torch.int64)
        self.logprobs: list[Any] = []
        self.picked = 0  # tokens of each row
        # One double in [0, 1) per token, drawn for the whole row at once.
        draws = torch.zeros((len(requests), max(r.max_tokens for r in requests)), dtype=torch.float64)
        for index, request in enumerate(requests):
            generator = torch.Generator().manual_seed(request.seed)
            draws[index, : request.max_tokens] = torch.rand(
                request.max_tokens, generator=generator, dtype=torch.float64
            )
        self.draws = draws.to(device)

    def pick(self, input_ids: Any, scores: Any) -> tuple[Any, Any]:
        """The next tokens (rows, 1), and their natural log-probabilities (rows,) under the sampling distribution.

        input_ids: (rows, tokens) so far, padding and prompts in front. scores: logits (rows, vocabulary).
        """
        import torch

        if bool((self.penalties != 1).any()):
            places = torch.arange(input_ids.size(1), device=input_ids.device)
            seen = torch.where(places < self.padding, input_ids[:, -1:], input_ids)
            scores = penalised(scores.double(), seen, self.penalties)
        probabilities = distribution(scores, self.temperatures, self.top_p, self.top_k)
        # Rows past their own limit are finished; whatever they pick is thrown away.
        column = min(self.picked, self.draws.size(1) - 1)
        self.picked += 1
        tokens = invert(probabilities, self.draws[:, column : column + 1])
        return tokens, probabilities.gather(1, tokens).log().squeeze(1)

    def keep(self, rows: Any) -> None:
        """Go on with these rows, by their places, alone."""
        self.temperatures, self.top_p, self.top_k = self.temperatures[rows], self.top_p[rows], self.top_k[rows]
        self.penalties, self.padding, self.draws = self.penalties[rows], self.padding[rows], self.draws[rows]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        tokens, logprobs = self.pick(input_ids, scores)
        self.logprobs.append(logprobs)
        return torch.full_like(scores, float("-inf")).scatter_(1, tokens, 0.0)


def penalised(logits: Any, seen: Any, penalties: Any) -> Any:
    """Logits (rows, vocabulary) of which those of the tokens `seen` (rows, positions) are made less likely."""
    import torch

    of_seen = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(of_seen > 0, of_seen / penalties, of_seen * penalties))


def distribution(scores: Any, temperatures: Any, top_p: Any, top_k: Any = None) -> Any:
    """Probabilities (rows, vocabulary), float64, of logits at per-row temperatures and nucleus sizes, each (rows, 1).

    top_k (rows, 1): the most likely tokens alone, where it is above 0. The nucleus is the smallest set of most likely
    tokens whose probability reaches top_p (Holtzman et al. 2020).
    """
    import torch

    logits = scores.double()
    if top_k is not None and bool((top_k > 0).any()):
        ordered = logits.sort(dim=-1, descending=True).values
        last = ordered.gather(1, (top_k - 1).clamp(0, logits.size(1) - 1))
        logits = logits.masked_fill((logits < last) & (top_k > 0), float("-inf"))
    greedy = temperatures == 0
    probabilities = torch.softmax(logits / torch.where(greedy, 1.0, temperatures), dim=-1)
    if bool((top_p < 1).any()):
        ordered, index = probabilities.sort(dim=-1, descending=True, stable=True)
        mass_above = ordered.cumsum(dim=-1) - ordered
        kept = ordered.masked_fill((mass_above >= top_p) & (top_p < 1), 0.0)
        probabilities = torch.zeros_like(probabilities).scatter_(1, index, kept)
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    if bool(greedy.any()):
        best = torch.zeros_like(probabilities).scatter_(1, logits.argmax(dim=-1, keepdim=True), 1.0)
        probabilities = torch.where(greedy, best, probabilities)
    return probabilities


def invert(probabilities: Any, draws: Any) -> Any:
    """The tokens (rows, 1) at which the cumulated probabilities first exceed `draws` (rows, 1), uniform in [0, 1)."""
    import torch

    cumulated = probabilities.cumsum(dim=-1)
    total = cumulated[:, -1:]
    index = torch.searchsorted(cumulated, draws * total, right=True)
    # Rounding may lift draw * total to the total: then take the last token with any probability.
    last = (cumulated >= total).int().argmax(dim=-1, keepdim=True)
    return torch.minimum(index, last)


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """The ids that end an answer: the tokenizer's, and those in the model's generation settings."""
    configured = model.generation_config.eos_token_id
    ends = set(configured if isinstance(configured, list) else [configured])
    return {token for token in ends | {tokenizer.eos_token_id} if token is not None}


def _load(path: str, checkpoint: Checkpoint, dtype: str) -> tuple[Any, Any]:
    """(model, tokenizer) of the policy in `path`; an adapter is merged where exact."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model: Any = AutoModelForCausalLM.from_pretrained(checkpoint.base, dtype=getattr(torch, dtype))
        if checkpoint.adapter is not None:
            model = adapted(model, checkpoint.adapter)
            if dtype == "float32":
                model = model.merge_and_unload()
        tokenizer = AutoTokenizer.from_pretrained(checkpoint.tokenizer)
    except (OSError, ValueError) as error:
        raise ToolError(f"{path}: cannot be loaded as a language model: {error}") from error
    return model, tokenizer


def adapted(model: Any, path: str) -> Any:
    """`model` with the LoRA adapter in `path`. ToolError: peft is not installed."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise ToolError(f"{path}: an adapter needs peft: pip install 'mletools[train]'") from error
    return PeftModel.from_pretrained(model, path)
