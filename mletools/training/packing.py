"""The rows of a micro-batch go through the model as one, without most of their padding and with each prompt once.

Rows that answer the same prompt form a block: the prompt, then the rest of each row. Rests of like length form a group,
padded to its longest. Blocks lie one behind the other: all layers see one long row, and attention takes block by block. A
rest's positions go on where its prompt ends; it attends to the prompt and to its own earlier tokens. Log-probabilities and
gradients are those of separate rows up to rounding; a trial of a few tokens before training makes sure of it (`supported`).

On a CPU attention goes block by block, on a GPU in one call of PyTorch's kernel for sequences of various lengths, which wants
groups without padding (Layout.slack 0). Covered: models whose attention is PyTorch's (`sdpa`) over all earlier positions.
Not covered, computed as padded rows: sliding windows, recurrent layers, models that take no further arguments for their
attention.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .microbatches import Block

NAME = "sdpa_packed"
LARGEST_MASK = 2**22  # entries, those of 2,048 tokens on 2,048
# largest difference of the logits of the trial, relative to their spread; one step of bfloat16 is 0.004
TOLERANCE, HALF_TOLERANCE = 1e-3, 0.1
_packing = False


@dataclass(frozen=True)
class Packed:
    """Rows packed into one. input_ids, position_ids, labels: (1, positions); a label is the next token, or -100.

    length: tokens of a row before packing, padding included.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    labels: torch.Tensor
    blocks: tuple[Block, ...]
    length: int


def pack(ids: torch.Tensor, labels: torch.Tensor, blocks: Sequence[Block]) -> Packed:
    """The rows as one. ids, labels: (rows, length), padded right; blocks: of these rows, in their order."""
    positions = torch.arange(ids.size(1), device=ids.device)
    parts: list[tuple[torch.Tensor, ...]] = []
    row = 0
    for block in blocks:
        first, prefix = row, block.prefix
        parts.append((ids[first, :prefix], positions[:prefix], labels[first, :prefix]))
        for rows, rest in block.groups:
            cells = slice(row, row + rows), slice(prefix, prefix + rest)
            parts.append((ids[cells].reshape(-1), positions[cells[1]].repeat(rows), labels[cells].reshape(-1)))
            row += rows
    inputs, places, targets = (torch.cat(columns).unsqueeze(0) for columns in zip(*parts, strict=True))
    return Packed(inputs, places, targets, tuple(blocks), ids.size(1))


def unpack(values: torch.Tensor, packed: Packed) -> torch.Tensor:
    """Values of the packed positions (1, positions) as (rows, length); 0 in prefixes and padding."""
    found, at = [], 0
    for block in packed.blocks:
        at += block.prefix
        for rows, rest in block.groups:
            part = values[0, at : at + rows * rest].reshape(rows, rest)
            found.append(torch.nn.functional.pad(part, (block.prefix, packed.length - block.prefix - rest)))
            at += rows * rest
    return torch.cat(found)


def arguments(packed: Packed) -> dict[str, object]:
    """The model's arguments for packed rows, apart from labels; call the model within `packing`."""
    return {
        "input_ids": packed.input_ids,
        "position_ids": packed.position_ids,
        "packed_blocks": packed.blocks,
        "use_cache": False,
    }


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Models within make no attention mask: packed rows have none."""
    global _packing
    _packing = True
    try:
        yield
    finally:
        _packing = False


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packed_blocks: tuple[Block, ...] | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """sdpa, and for packed rows: each prefix on itself, each rest on its prefix and itself.

    Shapes as transformers has them: states (1, heads, positions, width), the result (1, positions, heads, width).
    """
    if packed_blocks is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    settings.pop("is_causal", None)
    if _on_gpu(query):
        return _varlen(query, key, value, packed_blocks, settings.get("scaling")), None

    def attend(queries: Any, keys: Any, values: Any, mask: Any = None) -> torch.Tensor:
        causal = mask is None
        result: torch.Tensor = sdpa_attention_forward(
            module, queries, keys, values, mask, is_causal=causal, **settings
        )[0]
        return result

    found, at = [], 0
    for block in packed_blocks:
        prefix = slice(at, at := at + block.prefix)
        before = [states[:, :, prefix] for states in (query, key, value)]
        if block.prefix:
            found.append(attend(*before))
        for rows, rest in block.groups:
            cells = slice(at, at := at + rows * rest)
            found.append(_rests(attend, [states[0, :, cells] for states in (query, key, value)], before, rows))
    return torch.cat(found, dim=1), None


def _on_gpu(states: torch.Tensor) -> bool:
    return states.is_cuda


@dataclass(frozen=True)
class _Sequences:
    """Queries and keys of all prefixes and rests, one sequence behind the other. keys: which positions they are, (keys,).

    query_ends, key_ends: (sequences + 1,), from 0.
    """

    keys: torch.Tensor
    query_ends: torch.Tensor
    key_ends: torch.Tensor
    longest_query: int
    longest_key: int


@functools.lru_cache(maxsize=2)  # every layer of a model asks
def _sequences(blocks: tuple[Block, ...], device: torch.device) -> _Sequences:
    """The sequences of blocks whose groups have no padding."""
    keys: list[torch.Tensor] = []
    queries: list[int] = []
    at = 0
    for block in blocks:
        prefix = torch.arange(at, at := at + block.prefix)
        if block.prefix:
            keys.append(prefix)
            queries.append(block.prefix)
        for rows, rest in block.groups:
            for _ in range(rows):
                keys.append(torch.cat([prefix, torch.arange(at, at := at + rest)]))
                queries.append(rest)
    lengths = [len(each) for each in keys]

    def ends(counts: list[int]) -> torch.Tensor:
        return torch.tensor([0, *counts]).cumsum(0).to(device, torch.int32)

    return _Sequences(torch.cat(keys).to(device), ends(queries), ends(lengths), max(queries), max(lengths))


@functools.cache
def _asks_for_groups(kernel: Callable[..., Any]) -> bool:
    """Whether the kernel wants to be told of fewer heads of keys than of queries; torch 2.11's takes them as they come."""
    return "enable_gqa" in inspect.signature(kernel).parameters


def _varlen(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, blocks: tuple[Block, ...], scale: float | None
) -> torch.Tensor:
    """Attention (1, positions, heads, width) by the kernel, whose causal mask is aligned at the ends of queries and keys."""
    from torch.nn.attention.varlen import varlen_attn

    found = _sequences(blocks, query.device)
    grouped: dict[str, Any] = {"enable_gqa": query.size(1) != key.size(1)} if _asks_for_groups(varlen_attn) else {}
    # norms of queries and keys leave autocast's type; the kernel wants one
    queries, keys, values = (part[0].transpose(0, 1).to(value.dtype) for part in (query, key, value))
    result = varlen_attn(
        queries.contiguous(), keys[found.keys], values[found.keys], found.query_ends, found.key_ends, found.longest_query,
        found.longest_key, scale=scale, window_size=(-1, 0), **grouped,
    )  # fmt: skip
    assert isinstance(result, torch.Tensor)
    return result.unsqueeze(0)


def _rests(
    attend: Callable[..., torch.Tensor], states: list[torch.Tensor], before: list[torch.Tensor], rows: int
) -> torch.Tensor:
    """Attention of a group's rests (heads, rows * rest, width) on the prefix (1, heads, prefix, width) and themselves."""
    queries, keys, values = (
        part.reshape(part.size(0), rows, -1, part.size(-1)).transpose(0, 1) for part in states
    )  # (rows, heads, rest, width)
    prefix, rest = before[0].size(2), queries.size(2)

    def whole(prefixes: torch.Tensor, rests: torch.Tensor) -> torch.Tensor:
        return torch.cat([prefixes.expand(rows, -1, -1, -1), rests], dim=2)

    if not prefix:
        result = attend(queries, keys, values)
    elif rest >= prefix or rest * (prefix + rest) > LARGEST_MASK:
        # the prefix again with each row: less work than what a mask leaves out, and no mask in memory
        result = attend(*(whole(*pair) for pair in zip(before, (queries, keys, values), strict=True)))[:, prefix:]
    else:
        sees = torch.ones(rest, prefix + rest, dtype=torch.bool, device=queries.device).tril(prefix)
        result = attend(queries, whole(before[1], keys), whole(before[2], values), sees[None, None])
    return result.reshape(1, -1, *result.shape[2:])


def mask(*positional: Any, **settings: Any) -> Any:
    """transformers' mask for sdpa, none for packed rows."""
    return None if _packing else sdpa_mask(*positional, **settings)


def refusal(model: Any, precision: str = "no") -> str | None:
    """Set the model up for packed rows and try it on a few tokens; why it cannot have them, and then it is as it was.

    precision: accelerate's mixed_precision, in which the model computes.
    """
    text = model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    if text._attn_implementation != "sdpa":
        return f"its attention is {text._attn_implementation}, not sdpa"
    if kinds != {"full_attention"} or _sliding(text):
        return "its layers do not all attend to all earlier tokens"
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)
    try:
        model.set_attn_implementation(NAME)
        why = (
            None if _same(model, text.vocab_size, precision == "bf16") else "a trial of packed rows gave other numbers"
        )
    except (ImportError, TypeError, ValueError, RuntimeError) as error:  # no such kernel; arguments are not passed on
        said = (str(error).strip() or "nothing said").splitlines()[0][:200]
        why = f"a trial of packed rows failed: {type(error).__name__}: {said}"
    if why is not None:
        model.set_attn_implementation("sdpa")
    return why


def _sliding(config: Any) -> bool:
    return getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)


def _same(model: Any, vocabulary: int, half: bool) -> bool:
    """Whether rows get the same logits packed as separate: three that share five tokens, two that share none."""
    device = next(model.parameters()).device
    ids = torch.arange(45, device=device).reshape(5, 9) * 7 % vocabulary
    ids[:3, :5] = ids[0, :5]
    blocks = (Block(5, ((2, 4), (1, 3))), Block(0, ((2, 9),)))
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
            packed = pack(ids, torch.full_like(ids, -100), blocks)
            with packing():
                logits = model(**arguments(packed)).logits[0]
            expected = model(input_ids=ids, use_cache=False).logits
    finally:
        model.train(training)
    rows = [expected[0, :5], *expected[:2, 5:], expected[2, 5:8], *expected[3:]]
    tolerance = HALF_TOLERANCE if logits.dtype == torch.bfloat16 else TOLERANCE
    return bool((logits - torch.cat(rows)).float().abs().max() <= tolerance * expected.float().std())
