"""Sampling token by token with transformers, without its copies.

transformers writes the whole cache of keys and values anew for each token, and once more for each query head of a model whose
heads share keys (grouped-query attention, Ainslie et al. 2023). On a CPU both take more time than the arithmetic. Here a cache
has room ahead, heads that share keys read them once, and rows with the same prompt keep and read its keys and values once.

Covered: PyTorch's scaled dot-product attention (`sdpa`) over all earlier positions. Others: transformers' own way.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_one_token"
ROOM = 256  # tokens by which a full layer grows
TOLERANCE = 1e-3  # largest difference of the logits of the trial, relative to their spread


class RoomyLayer(DynamicLayer):
    """Keys and values, each (rows, heads, tokens, width), as views of larger tensors that new tokens are written into."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self._wide = [keys, values]
        self.keys, self.values = keys, values

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        begin = self.keys.size(-2)
        end = begin + key_states.size(-2)
        if end > self._wide[0].size(-2):
            self._wide = [_grown(states, end + ROOM) for states in (self.keys, self.values)]
        for wide, new in zip(self._wide, (key_states, value_states), strict=True):
            wide[..., begin:end, :] = new
        self.keys, self.values = (wide[..., :end, :] for wide in self._wide)
        return self.keys, self.values


class SharingLayer(RoomyLayer):
    """A layer of rows that share prompts: the prompts' keys and values once each, and the rows' own.

    prompts: for each prompt its rows, its keys and its values, (heads, tokens, width). The prompts are padded to `padded` tokens
    where positions are counted.
    """

    def __init__(self, layer: DynamicLayer, rows: Sequence[torch.Tensor], begins: Sequence[int]) -> None:
        count = sum(map(len, rows))
        own = [layer.keys.new_empty(count, states.size(1), 0, states.size(3)) for states in (layer.keys, layer.values)]
        super().__init__(*own)
        self.padded = layer.keys.size(-2)
        self.prompts = [
            (members, layer.keys[at, :, begin:], layer.values[at, :, begin:])
            for at, (members, begin) in enumerate(zip(rows, begins, strict=True))
        ]

    def get_seq_length(self) -> int:
        return self.padded + self.keys.size(-2)

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        keys, values = super().update(key_states, value_states)
        keys.layer = self  # `attention` needs the prompts
        return keys, values


def prepare(model: Any) -> bool:
    """Set the model up for this module's attention and try it on a few tokens; False, and the model as it was, where they differ."""
    if model.config.get_text_config()._attn_implementation != "sdpa" or not keeps_all(DynamicCache(config=model.config)):
        return False
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    device = next(model.parameters()).device
    ids = torch.arange(15, device=device).reshape(3, 5) * 7 % model.config.get_text_config().vocab_size
    ids[1, :3] = ids[0, :3]
    mask = torch.ones_like(ids)
    mask[2, 0] = 0
    with torch.inference_mode():
        expected = model(ids, attention_mask=mask, position_ids=positions(mask)).logits[:, 3:].float()
        model.set_attn_implementation(NAME)
        try:
            cache, found = prefill(model, ids[:, :3], mask[:, :3], share=True), []
            for at in (3, 4):
                output = model(
                    ids[:, at : at + 1],
                    attention_mask=mask[:, : at + 1],
                    position_ids=positions(mask)[:, at : at + 1],
                    past_key_values=cache,
                )
                found.append(output.logits)
            if (torch.cat(found, dim=1).float() - expected).abs().max() <= TOLERANCE * expected.std():
                return True
        except (TypeError, ValueError, RuntimeError, AttributeError):  # a model that handles its keys in another way
            pass
    model.set_attn_implementation("sdpa")
    return False


def keeps_all(cache: DynamicCache) -> bool:
    """Whether every layer keeps keys and values of all earlier tokens, and nothing else."""
    return all(type(layer) is DynamicLayer for layer in cache.layers)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """The positions (rows, tokens) of tokens behind padding on the left."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def prefill(model: Any, ids: torch.Tensor, mask: torch.Tensor, share: bool) -> DynamicCache:
    """A cache of the tokens (rows, tokens), each distinct row computed once, and with `share` kept once, too.

    For a model that is prepared. The rows are padded on the left. A shared cache takes one more token for each row at a time.
    """
    cache = DynamicCache(config=model.config)
    distinct, where = torch.unique(torch.cat([ids, mask], dim=1), dim=0, return_inverse=True)
    ids, mask = distinct.chunk(2, dim=1)
    model(ids, attention_mask=mask, position_ids=positions(mask), past_key_values=cache, logits_to_keep=1)
    if share:
        rows = [(where == at).nonzero().squeeze(1) for at in range(len(distinct))]
        begins = (mask == 0).sum(dim=1).tolist()
        cache.layers = [SharingLayer(layer, rows, begins) for layer in cache.layers]
    else:
        cache.layers = [RoomyLayer(layer.keys[where], layer.values[where]) for layer in cache.layers]
    return cache


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' sdpa; of a single new token the query heads that share keys are taken for as many tokens of one head."""
    rows, heads, tokens, width = query.shape
    shared = heads // key.size(1)
    layer = getattr(key, "layer", None)
    if layer is not None:
        found = _behind_prompts(query.reshape(rows, heads // shared, shared, width), key, value, layer, scaling)
        return found.reshape(rows, 1, heads, -1), None
    by_head = attention_mask is not None and attention_mask.size(1) > 1
    if tokens > 1 or shared == 1 or by_head or settings.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **settings)
    if attention_mask is not None:
        attention_mask = attention_mask.expand(-1, -1, shared, -1)
    found = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, heads // shared, shared, width), key, value, attn_mask=attention_mask, scale=scaling
    )
    return found.reshape(rows, 1, heads, -1), None


def _behind_prompts(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: SharingLayer, scaling: float | None
) -> torch.Tensor:
    """Attention of one token a row, (rows, heads, shared, width), on its row's prompt and its row's own tokens.

    The two parts are joined by the sums of their exponentials, as flash attention joins blocks (Dao et al. 2022).
    """
    query = query * (query.size(-1) ** -0.5 if scaling is None else scaling)
    own, total = _part(query, key, value)
    found = torch.empty_like(own)
    for members, keys, values in layer.prompts:
        queries = query[members].transpose(0, 1)  # (heads, members, shared, width)
        first, sums = _part(queries.flatten(1, 2), keys, values)
        shape = queries.shape[:3]
        first, sums = (part.reshape(*shape, -1).transpose(0, 1) for part in (first, sums))
        found[members] = torch.lerp(own[members], first, torch.sigmoid(sums - total[members]).to(first.dtype))
    return found


def _part(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention on these keys alone, and the logarithm of the sum of its exponentials, (..., 1)."""
    scores = (query @ key.transpose(-1, -2)).float()
    sums = scores.logsumexp(dim=-1, keepdim=True)
    return (scores - sums).exp().to(value.dtype) @ value, sums


def _grown(states: torch.Tensor, tokens: int) -> torch.Tensor:
    wide = states.new_empty(*states.shape[:-2], tokens, states.size(-1))
    wide[..., : states.size(-2), :] = states
    return wide
