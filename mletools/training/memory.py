"""Memory of a training process, estimated from the model's configuration: what --dry-run of the trainers prints.

Tensors alone, in bytes: weights, gradients and Adam's two moments by their number; activations by the tensors that
autograd keeps of a layer, counted on the transformer with RMSNorm and a gated MLP (Llama, Mistral, Qwen2, Qwen3) as
Korthikanti et al. (2022), "Reducing activation recomputation in large transformer models", section 4, count GPT's;
logits by the tiles of TRL's chunked language-model head. benchmarks/train_memory.py measures it on a CPU.

Covered: float32 and, within a tenth, bfloat16 autocast on a CPU; bfloat16 autocast with gradient checkpointing on a GPU; copies, FSDP and ZeRO over several
processes. Not covered: activations of other architectures (experts, state spaces), what an allocator holds beyond the
tensors, the libraries themselves, offloading to the CPU.
"""

import bisect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ToolError
from . import logits, policy
from .step_loader import processes

FLOAT, HALF = 4, 2
MICRO_BATCH = 8  # rows, where neither they nor tokens are bounded
USED = 0.85  # of a GPU's free memory, by the estimate
ENOUGH = 65_536  # tokens of a micro-batch, of which more make no step faster
HELD = 1.5  # memory of the process to that of its tensors, because glibc keeps freed blocks (docs/gpu.md)
DEVICES = ("CPU", "GPU")
FSDP = "FSDP"


@dataclass(frozen=True)
class Shape:
    """Sizes of a language model. query, key_value: width of all heads; adapter: weights of its LoRA adapter, 0 without.

    dense: whether its layers are attention with a gated MLP, whose activations are known. normed: queries and keys are
    normalised (Qwen3).
    """

    weights: int
    adapter: int
    layers: int
    hidden: int
    inner: int
    heads: int
    query: int
    key_value: int
    vocabulary: int
    rank: int
    dense: bool
    normed: bool

    @property
    def trained(self) -> int:
        return self.adapter or self.weights


@dataclass(frozen=True)
class Sharding:
    """Number of processes and what each holds only a part of: optimiser (ZeRO 1), gradients (2), weights (3, FSDP)."""

    processes: int = 1
    stage: int = 0
    name: str = "copies"

    @property
    def fsdp(self) -> bool:
        return self.name == FSDP


def sharding() -> Sharding:
    """That of the accelerate configuration that this process was launched with."""
    count = processes()
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":
        return Sharding(count, 3, FSDP)
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        stage = int(os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2"))
        return Sharding(count, stage, f"ZeRO {stage}")
    return Sharding(count)


def shape_of(model: str, lora_rank: int) -> Shape:
    """The sizes of the model in a folder, an adapter's folder or at the hub; of its configuration, no weights are read.

    ToolError: the configuration cannot be loaded.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = policy.text_config(model)
    whole = AutoConfig.from_pretrained(policy.adapter_base(model) or model)
    try:
        with torch.device("meta"):
            made = AutoModelForCausalLM.from_config(whole)
    except ValueError as error:
        raise ToolError(f"{model}: no language model can be made of its configuration: {error}") from error
    head = made.get_output_embeddings()
    linear = [part for part in made.modules() if isinstance(part, torch.nn.Linear) and part is not head]
    heads, hidden = int(config.num_attention_heads), int(config.hidden_size)
    width = int(getattr(config, "head_dim", None) or hidden // heads)
    query = heads * width
    key_value = int(getattr(config, "num_key_value_heads", None) or heads) * width
    inner, layers = int(getattr(config, "intermediate_size", None) or 0), int(config.num_hidden_layers)
    expected = layers * hidden * (2 * query + 2 * key_value + 3 * inner)
    return Shape(
        weights=sum(weight.numel() for weight in made.parameters()),
        adapter=lora_rank * sum(part.in_features + part.out_features for part in linear),
        layers=layers,
        hidden=hidden,
        inner=inner,
        heads=heads,
        query=query,
        key_value=key_value,
        vocabulary=int(config.vocab_size),
        rank=lora_rank,
        dense=expected == sum(part.weight.numel() for part in linear),
        normed=any(name.endswith(".q_norm") for name, _ in made.named_modules()),
    )


def estimate(
    shape: Shape,
    rows: int,
    length: int,
    device: str,
    spread: Sharding = Sharding(),
    reference: bool = False,
    logits_memory: float | None = None,
    dtype: str = "float32",
) -> dict[str, float]:
    """Bytes of one process by what they hold, at the peak of a step of several micro-batches.

    rows, length: of the largest micro-batch, as if no prefix were shared. reference: a second model for the KL term,
    where all weights are trained. logits_memory: megabytes for a tile of logits, None for the default.
    dtype: what a CPU computes in; a GPU does in bfloat16.
    """
    gpu, full = device == "GPU", not shape.adapter
    half = gpu or dtype == "bfloat16"
    parts = [spread.processes if spread.stage >= stage else 1 for stage in (1, 2, 3)]
    optimiser, gradients, weights = parts
    stored = HALF if half and not full else FLOAT
    bytes_of = {
        "weights": shape.weights * stored / weights,
        "adapter": shape.adapter * FLOAT / weights,
        "reference model": shape.weights * FLOAT / weights if reference and full else 0,
        "gradients": shape.trained * FLOAT / gradients,
        "optimiser": 2 * shape.trained * FLOAT / optimiser,
        "communication": _communication(shape, spread, half),
        "bfloat16 copies": shape.weights * HALF / weights if half and full and not spread.fsdp else 0,
    }
    if shape.dense:
        bytes_of["activations"] = _activations(shape, rows, length, gpu, half, spread.stage == 3)
    bytes_of["logits"] = _logits(shape, rows * length, gpu, logits_memory)
    return {name: size for name, size in bytes_of.items() if size}


def _communication(shape: Shape, spread: Sharding, half: bool) -> float:
    """What processes exchange: all gradients once more, in buckets (copies); of two layers and the embeddings, where weights
    are sharded, the gathered weights in the precision that is computed in, and until they are reduced the gradients of those
    that are trained.
    """
    if spread.processes == 1:
        return 0
    if spread.stage < 3:
        return shape.trained * FLOAT
    embeddings = shape.vocabulary * shape.hidden
    gathered = embeddings + 2 * max(0, shape.weights - embeddings) / shape.layers
    return gathered * (HALF if half else FLOAT) + (0 if shape.adapter else gathered * FLOAT)


def _activations(shape: Shape, rows: int, length: int, gpu: bool, half: bool, sharded: bool) -> float:
    """What autograd keeps for the backward pass of a micro-batch.

    A layer keeps, of each position: the inputs of both norms, of the projections behind them and of two residual sums
    (6 hidden; 4 with frozen norms), queries, repeated keys and values, and attention's result (4 query), the gate, its
    activation, the other half and their product (4 inner), the log sums (heads), two roots, and on a CPU a row of a mask
    (length).
    """
    positions = rows * length
    hidden = (4.0 if shape.adapter else 6.0) * shape.hidden + 2
    heads = 4 * shape.query + shape.heads
    if shape.normed:
        each = shape.query + shape.key_value
        hidden += (1 if shape.adapter else 2) * each + shape.heads * (1 + shape.key_value / shape.query)
    narrow = 7 * shape.rank if shape.adapter else 0
    if not gpu:
        others = (HALF if half else FLOAT) * (heads + 4 * shape.inner + length + narrow)
        return positions * shape.layers * (FLOAT * hidden + others)
    # the input of each layer, and all of the one that is computed anew, with its norms in float32; layers whose weights are
    # bfloat16 hand on bfloat16
    kept = (HALF if shape.adapter or sharded else FLOAT) * shape.hidden * shape.layers
    one = FLOAT * hidden + HALF * (heads + 4 * shape.inner + narrow)
    return positions * (kept + one)


def _logits(shape: Shape, positions: int, gpu: bool, megabytes: float | None) -> float:
    """A tile of logits, and the gradient of the head and of the embedding where all weights are trained."""
    rows, width = logits.tile(megabytes, gpu)
    entries = min(positions, rows) * (width if gpu else min(shape.vocabulary, width))
    gradients = 0 if shape.adapter else 2 * FLOAT * shape.vocabulary * shape.hidden
    states = FLOAT * positions * shape.hidden
    return states + gradients + entries * (logits.GPU_BYTES if gpu else logits.CPU_BYTES)


@dataclass(frozen=True)
class StepSize:
    """An optimiser step. rows, tokens: of the whole step; micro_rows, length: of a process's largest micro-batch."""

    rows: int
    tokens: int
    micro_rows: int
    length: int


def row_bound(micro_batch: int | None, micro_tokens: int | None) -> int:
    """Rows of a micro-batch, at most: as asked for; else any number where tokens are bounded."""
    return micro_batch or (MICRO_BATCH if micro_tokens is None else sys.maxsize)


def tokens_that_fit(
    model: str, lora_rank: int, free: int, reference: bool = False, logits_memory: float | None = None
) -> int | None:
    """Tokens of the largest micro-batch for which `free` bytes of a GPU suffice, 1 at least; None where they are not known."""
    shape = shape_of(model, lora_rank)
    if not shape.dense:
        return None

    def fits(tokens: int) -> bool:
        needed = estimate(shape, 1, tokens, "GPU", sharding(), reference, logits_memory)
        return sum(needed.values()) <= USED * free

    return max(1, bisect.bisect_left(range(1, ENOUGH + 1), True, key=lambda tokens: not fits(tokens)))


def free_on_gpu() -> int:
    """Bytes that are free on the GPU of this process."""
    import torch

    return int(torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", "0")))[0])


def step_size(lengths: Sequence[int], rows: int, micro_batch: int | None, micro_tokens: int | None = None) -> StepSize:
    """The largest step that `rows` of the input's sequences, of these lengths in tokens, can make."""
    longest = sorted(lengths, reverse=True)[:rows]
    count = min(row_bound(micro_batch, micro_tokens), -(-len(longest) // processes()))
    if micro_tokens is not None:
        count = max(1, min(count, micro_tokens // longest[0]))
    return StepSize(len(longest), sum(longest), count, longest[0])


def shortage(
    model: str, lora_rank: int, size: StepSize, logits_memory: float | None = None, dtype: str = "float32"
) -> str | None:
    """A warning where a step on this machine's CPU needs more memory than is free; None where it fits or is not known."""
    import torch

    if torch.cuda.is_available():
        return None
    try:
        shape = shape_of(model, lora_rank)
    except ToolError:
        return None
    parts = estimate(shape, size.micro_rows, size.length, "CPU", sharding(), False, logits_memory, dtype)
    needed = HELD * sum(parts.values())
    free = available()
    if not shape.dense or free is None or needed <= free:
        return None
    return (
        f"a micro-batch of {size.micro_rows} x {size.length:,} tokens needs about {needed / 1e9:.0f} GB, {free / 1e9:.0f} are "
        "free: a smaller --micro-batch needs less"
    )


def available() -> int | None:
    """Bytes of memory that processes can still take without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def report(
    model: str,
    lora_rank: int,
    size: StepSize,
    reference: bool = False,
    logits_memory: float | None = None,
    dtype: str = "float32",
) -> list[str]:
    """Human-readable lines: memory of one process on a CPU and on a GPU, in GB (1e9 bytes), by what it is for."""
    shape, spread = shape_of(model, lora_rank), sharding()
    by_device = [
        estimate(shape, size.micro_rows, size.length, device, spread, reference, logits_memory, dtype)
        for device in DEVICES
    ]
    names = dict.fromkeys(name for parts in by_device for name in parts)
    lines = [
        "{:<16} {:>8} {:>8}".format("GB, estimated", *DEVICES),
        *(_line(name, [parts.get(name, 0) for parts in by_device]) for name in names),
        _line("together", [sum(parts.values()) for parts in by_device]),
    ]
    if spread.processes > 1:
        lines.append(f"in each of {spread.processes} processes ({spread.name})")
    if not shape.dense:
        lines.append("without activations, which are known for attention with a gated MLP alone")
    return lines


def _line(name: str, sizes: Sequence[float]) -> str:
    return f"{name:<16} {' '.join(f'{size / 1e9:8.2f}' for size in sizes)}"
