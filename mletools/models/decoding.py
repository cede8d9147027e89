"""What makes sampling token by token with transformers copy less: a cache with room ahead, and heads that are not repeated.

transformers writes the whole cache of keys and values anew for each token, and once more for each query head of a model whose
heads share keys (grouped-query attention, Ainslie et al. 2023). On a CPU both take more time than the arithmetic.
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_one_token"
ROOM = 256  # tokens by which a full layer grows


class RoomyLayer(DynamicLayer):
    """Keys and values, each (rows, heads, tokens, width), as views of larger tensors that new tokens are written into."""

    def __init__(self, layer: DynamicLayer) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = layer.dtype, layer.device, True
        self._wide = [layer.keys, layer.values]
        self.keys, self.values = layer.keys, layer.values

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        begin = self.keys.size(-2)
        end = begin + key_states.size(-2)
        if end > self._wide[0].size(-2):
            self._wide = [_grown(states, end + ROOM) for states in (self.keys, self.values)]
        for wide, new in zip(self._wide, (key_states, value_states), strict=True):
            wide[..., begin:end, :] = new
        self.keys, self.values = (wide[..., :end, :] for wide in self._wide)
        return self.keys, self.values


def roomy(cache: DynamicCache) -> DynamicCache:
    """The filled cache with room ahead. It must keep keys and values of all earlier tokens (`keeps_all`)."""
    cache.layers = [RoomyLayer(layer) for layer in cache.layers]
    return cache


def keeps_all(cache: DynamicCache) -> bool:
    """Whether every layer keeps keys and values of all earlier tokens, and nothing else."""
    return all(type(layer) is DynamicLayer for layer in cache.layers)


def share_heads(model: Any) -> None:
    """Let query heads that share keys read them once. For models with PyTorch's attention (`sdpa`); others stay as they are."""
    if model.config.get_text_config()._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' sdpa; a single new token's query heads that share keys are taken for as many tokens of one head."""
    rows, heads, tokens, width = query.shape
    shared = heads // key.size(1)
    by_head = attention_mask is not None and attention_mask.size(1) > 1
    if tokens > 1 or shared == 1 or by_head or settings.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **settings)
    if attention_mask is not None:
        attention_mask = attention_mask.expand(-1, -1, shared, -1)
    found = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, heads // shared, shared, width), key, value, attn_mask=attention_mask, scale=scaling
    )
    return found.reshape(rows, 1, heads, -1), None


def _grown(states: torch.Tensor, tokens: int) -> torch.Tensor:
    wide = states.new_empty(*states.shape[:-2], tokens, states.size(-1))
    wide[..., : states.size(-2), :] = states
    return wide
