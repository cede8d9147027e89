"""The common prefix of a micro-batch's rows goes through the model once.

The rollouts of a group answer the same prompt. Their rows are packed into one: the prefix, then the rest of each row,
padded to the longest rest. A rest's positions go on where the prefix ends, and its attention sees the prefix and its own
earlier tokens. Log-probabilities and gradients are those of separate rows up to rounding; a trial of a few tokens before
training makes sure of it (`supported`).

Covered: PyTorch's scaled dot-product attention (`sdpa`) over all earlier positions. Not covered, computed as separate
rows: sliding windows, recurrent layers, flash attention, models that take no further arguments for their attention.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_shared_prefix"
LARGEST_MASK = 2**22  # entries, those of 2,048 tokens on 2,048
TOLERANCE = 1e-3  # largest difference of the trial's logits, relative to their spread
_packing = False


@dataclass(frozen=True)
class Packed:
    """Rows packed into one. input_ids, position_ids, labels: (1, prefix + rows * rest); a label is the next token, or -100.

    prefix: tokens that all rows begin with. rows, rest: number of rows, tokens of the longest rest.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    labels: torch.Tensor
    prefix: int
    rows: int
    rest: int


def pack(ids: torch.Tensor, labels: torch.Tensor, prefix: int) -> Packed:
    """The rows as one. ids, labels: (rows, length); `prefix` is at most microbatches.shared_length of the rows."""
    rows, rest = ids.size(0), ids.size(1) - prefix
    positions = torch.arange(ids.size(1), device=ids.device)
    return Packed(
        input_ids=torch.cat([ids[0, :prefix], ids[:, prefix:].reshape(-1)]).unsqueeze(0),
        position_ids=torch.cat([positions[:prefix], positions[prefix:].repeat(rows)]).unsqueeze(0),
        labels=torch.cat([labels[0, :prefix], labels[:, prefix:].reshape(-1)]).unsqueeze(0),
        prefix=prefix,
        rows=rows,
        rest=rest,
    )


def unpack(values: torch.Tensor, packed: Packed) -> torch.Tensor:
    """Values of the packed positions (1, prefix + rows * rest) as (rows, rest)."""
    return values[0, packed.prefix :].reshape(packed.rows, packed.rest)


def arguments(packed: Packed) -> dict[str, Any]:
    """The model's arguments for packed rows, apart from labels; call the model within `packing`."""
    return {
        "input_ids": packed.input_ids,
        "position_ids": packed.position_ids,
        "shared_prefix": (packed.prefix, packed.rows),
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
    shared_prefix: tuple[int, int] | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """sdpa, and for packed rows: the prefix on itself, each rest on the prefix and itself. Shapes as transformers has them."""
    if shared_prefix is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    settings.pop("is_causal", None)
    prefix, rows = shared_prefix

    def rests(states: torch.Tensor) -> torch.Tensor:
        heads, width = states.size(1), states.size(3)
        return states[0, :, prefix:].reshape(heads, rows, -1, width).transpose(0, 1)

    def whole(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :, :prefix].expand(rows, -1, -1, -1), rests(states)], dim=2)

    first, _ = sdpa_attention_forward(
        module, query[:, :, :prefix], key[:, :, :prefix], value[:, :, :prefix], None, is_causal=True, **settings
    )
    queries, keys, values = rests(query), whole(key), whole(value)
    rest = queries.size(2)
    if rest >= prefix or rest * keys.size(2) > LARGEST_MASK:
        # the prefix again with each row: less work than what a mask leaves out, and no mask in memory
        others, _ = sdpa_attention_forward(module, whole(query), keys, values, None, is_causal=True, **settings)
        others = others[:, prefix:]
    else:
        sees = torch.ones(rest, keys.size(2), dtype=torch.bool, device=query.device).tril(prefix)
        others, _ = sdpa_attention_forward(module, queries, keys, values, sees[None, None], is_causal=False, **settings)
    return torch.cat([first, others.reshape(1, -1, *others.shape[2:])], dim=1), None


def mask(*positional: Any, **settings: Any) -> Any:
    """transformers' mask for sdpa, none for packed rows."""
    return None if _packing else sdpa_mask(*positional, **settings)


def supported(model: Any) -> bool:
    """Set the model up for packed rows and try it on a few tokens; False, and the model as it was, where they differ."""
    text = model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    if text._attn_implementation != "sdpa" or kinds != {"full_attention"} or _sliding(text):
        return False
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)
    try:
        model.set_attn_implementation(NAME)
        if _same(model, text.vocab_size):
            return True
    except (TypeError, ValueError, RuntimeError):  # a model that does not pass arguments on to its attention
        pass
    model.set_attn_implementation("sdpa")
    return False


def _sliding(config: Any) -> bool:
    return getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)


def _same(model: Any, vocabulary: int) -> bool:
    """Whether three rows that share five of nine tokens get the same logits packed as separate."""
    device = next(model.parameters()).device
    ids = torch.arange(27, device=device).reshape(3, 9) * 7 % vocabulary
    ids[:, :5] = ids[0, :5]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            packed = pack(ids, torch.full_like(ids, -100), 5)
            with packing():
                logits = model(**arguments(packed)).logits[0, 5:].reshape(3, 4, -1).float()
            expected = model(input_ids=ids, use_cache=False).logits[:, 5:].float()
    finally:
        model.train(training)
    return bool((logits - expected).abs().max() <= TOLERANCE * expected.std())
