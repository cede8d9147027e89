"""Sampling token by token with transformers, without its copies.

transformers writes the whole cache of keys and values anew for each token, and once more for each query head of a model whose
heads share keys (grouped-query attention, Ainslie et al. 2023). On a CPU both take more time than the arithmetic. Its batches go on
with all rows until the last has ended. Here a cache has room ahead, heads that share keys read them once, and rows that have ended
leave. PyTorch's products of a CPU are slow where a large matrix meets few rows; with packed weights they are faster: benchmarks/sampling_speed.md.

Rows with the same prompt could also keep and read its keys once. With PyTorch's public operations, prompt by prompt, that took
9.6 ms a layer on two cores, and 2.8 ms without (32 rows, eight prompts of 1,350 tokens).

Covered: PyTorch's scaled dot-product attention (`sdpa`) over all earlier positions. Others: transformers' own way.
"""

import contextlib
import ctypes
from collections.abc import Collection, Iterator
from typing import Any, Protocol

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_one_token"
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # parameters of glibc's mallopt
PREFILLED = 8192  # tokens of prompts
ROOM = 256  # tokens by which a full layer grows
LEAVING = 0.75  # share of a batch that has ended before it leaves; earlier it took longer: benchmarks/sampling_speed.md
TOKENS = 32  # of a product that weights are packed for; those of others are as right
TOLERANCE = 1e-3  # largest difference of the logits of the trial, relative to their spread


class RoomyLayer(DynamicLayer):
    """Keys and values, each (rows, heads, tokens, width), as views of larger tensors that new tokens are written into."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self._wide = [keys, values]
        self.keys, self.values = keys, values

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        held: Any = (self.keys, self.values)
        begin = held[0].size(-2)
        end = begin + key_states.size(-2)
        if end > self._wide[0].size(-2):
            self._wide = [_grown(states, end + ROOM) for states in held]
        for wide, new in zip(self._wide, (key_states, value_states), strict=True):
            wide[..., begin:end, :] = new
        self.keys, self.values = (wide[..., :end, :] for wide in self._wide)
        return self.keys, self.values

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows, by their places, alone."""
        held: Any = self.keys
        end = held.size(-2)
        self._wide = [wide[rows] for wide in self._wide]
        self.keys, self.values = (wide[..., :end, :] for wide in self._wide)


class Sampler(Protocol):
    """Picks the next tokens of rows."""

    def pick(self, input_ids: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens (rows, 1) and their log-probabilities (rows,) behind the tokens so far, from logits (rows, vocabulary)."""

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows, by their places, alone."""


class PackedLinear(torch.nn.Module):
    """A linear layer in float32 on a CPU, whose weights lie as oneDNN's kernels read them; PyTorch's lay them out anew for each product."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), TOKENS)

    @property
    def weight(self) -> torch.Tensor:
        """A copy of the weights (out_features, in_features), for models that look at them."""
        weight: torch.Tensor = self._packed.to_dense()
        return weight

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, self._packed, self.bias, "none", [], "")
        return found


def pack(model: Any) -> None:
    """Pack the model's linear layers in float32 on a CPU, where this PyTorch can, and give up their own copies."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for name, module in list(model.named_modules()):
        if (
            type(module) is torch.nn.Linear
            and module.weight.dtype == torch.float32
            and module.weight.device.type == "cpu"
        ):
            try:
                packed = PackedLinear(module)
            except (AttributeError, RuntimeError):  # a PyTorch with other operations: they are not public
                return
            model.set_submodule(name, packed)


def prepare(model: Any) -> bool:
    """Set the model up for this module, and try it on a few tokens; False, and the model as it was, where they differ."""
    text = model.config.get_text_config()
    cache = DynamicCache(config=model.config)
    if text._attn_implementation != "sdpa" or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return False
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    try:
        with torch.inference_mode():
            if _same(model, text.vocab_size):
                return True
    except (TypeError, ValueError, RuntimeError, AttributeError):  # a model that handles its attention in another way
        pass
    model.set_attn_implementation("sdpa")
    return False


def positions(mask: torch.Tensor) -> torch.Tensor:
    """The positions (rows, tokens) of tokens behind padding on the left."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def prefill(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
    """A cache, with room ahead, of the tokens (rows, tokens), padded on the left. A row that comes twice is computed once, and
    rows of like length together, at most PREFILLED tokens at once: what is computed of them is many times what is kept.
    """
    distinct, where = torch.unique(torch.cat([ids, mask], dim=1), dim=0, return_inverse=True)
    ids, mask = distinct.chunk(2, dim=1)
    count, width = ids.shape
    cache: Any = DynamicCache(config=model.config)
    wide: list[list[torch.Tensor]] = []  # by layer, keys and values of all rows
    for rows in _alike(mask.sum(dim=1).tolist()):
        own = slice(width - max(1, int(mask[rows].sum(dim=1).max())), None)
        part: Any = DynamicCache(config=model.config)
        some = mask[rows, own]
        model(ids[rows, own], attention_mask=some, position_ids=positions(some), past_key_values=part, logits_to_keep=1)
        for at, layer in enumerate(part.layers):
            if at == len(wide):
                wide.append(
                    [each.new_zeros(count, each.size(1), width, each.size(3)) for each in (layer.keys, layer.values)]
                )
            for whole, states in zip(wide[at], (layer.keys, layer.values), strict=True):
                whole[rows, :, own] = states
    cache.layers = [RoomyLayer(keys[where], values[where]) for keys, values in wide]
    return cache


def _alike(lengths: list[int]) -> Iterator[list[int]]:
    """Rows by rising length, as many at once as have PREFILLED tokens with their padding."""
    some: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if some and (len(some) + 1) * lengths[row] > PREFILLED:
            yield some
            some = []
        some.append(row)
    yield some


def sample_rows(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, sampler: Sampler, ends: Collection[int], limits: torch.Tensor
) -> list[tuple[list[int], list[float]]]:
    """For each row of `ids` (rows, at least two tokens, padded on the left) the tokens that follow, and their log-probabilities.

    A row ends with one of `ends`, which is kept, or after as many tokens as its entry of `limits` (rows,).
    """
    count, width = ids.shape
    most = int(limits.max())
    cache = prefill(model, ids[:, :-1], mask[:, :-1])
    ids = torch.cat([ids, ids.new_zeros(count, most)], dim=1)
    mask = torch.cat([mask, mask.new_ones(count, most)], dim=1)
    places, last = positions(mask), torch.tensor(sorted(ends), device=ids.device)
    rows = torch.arange(count, device=ids.device)
    going = torch.ones_like(rows, dtype=torch.bool)
    written: list[tuple[list[int], list[float]]] = [([], []) for _ in range(count)]
    for at in range(width, width + most):
        before = slice(at - 1, at)
        scores = model(
            ids[:, before], attention_mask=mask[:, :at], position_ids=places[:, before], past_key_values=cache
        ).logits[:, -1]
        tokens, logprobs = sampler.pick(ids[:, :at], scores)
        ids[:, at : at + 1] = tokens
        for row, goes, token, logprob in zip(
            rows.tolist(), going.tolist(), tokens[:, 0].tolist(), logprobs.tolist(), strict=True
        ):
            if goes:
                written[row][0].append(token)
                written[row][1].append(logprob)
        going = going & ~torch.isin(tokens[:, 0], last) & (limits > at + 1 - width)
        left = int(going.sum())
        if not left:
            break
        if len(rows) - left >= LEAVING * len(rows):
            stay = going.nonzero()[:, 0]
            rows, going, limits, ids, mask, places = (each[stay] for each in (rows, going, limits, ids, mask, places))
            sampler.keep(stay)
            for layer in cache.layers:
                layer.keep(stay)
    return written


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
    by_head = attention_mask is not None and attention_mask.size(1) > 1
    if tokens > 1 or shared == 1 or by_head or settings.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **settings)
    if attention_mask is not None:
        attention_mask = attention_mask.expand(-1, -1, shared, -1)
    found = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, heads // shared, shared, width), key, value, attn_mask=attention_mask, scale=scaling
    )
    return found.reshape(rows, 1, heads, -1), None


def _same(model: Any, vocabulary: int) -> bool:
    """Whether two tokens behind a prompt of three get the logits of a fresh pass, with a prompt that comes twice and with padding."""
    device = next(model.parameters()).device
    ids = torch.arange(15, device=device).reshape(3, 5) * 7 % vocabulary
    ids[1, :3] = ids[0, :3]
    mask = torch.ones_like(ids)
    mask[2, 0] = 0
    places = positions(mask)
    expected = model(ids, attention_mask=mask, position_ids=places).logits[:, 3:].float()
    model.set_attn_implementation(NAME)
    cache, found = prefill(model, ids[:, :3], mask[:, :3]), []
    for at in (3, 4):
        one = slice(at, at + 1)
        given = {"attention_mask": mask[:, : at + 1], "position_ids": places[:, one], "past_key_values": cache}
        found.append(model(ids[:, one], **given).logits.float())
    return bool((torch.cat(found, dim=1) - expected).abs().max() <= TOLERANCE * expected.std())


def _grown(states: torch.Tensor, tokens: int) -> torch.Tensor:
    wide = states.new_empty(*states.shape[:-2], tokens, states.size(-1))
    wide[..., : states.size(-2), :] = states
    return wide


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Within it glibc keeps what this process frees, for its next tensors; at the end it is given back.

    Else each large tensor begins on new pages that the kernel clears first: a fifth of the time on a CPU. The setting stays:
    glibc has no way back to its own.
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError):  # another C library
        yield
        return
    for parameter, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**26)):
        mallopt(parameter, value)
    try:
        yield
    finally:
        trim(0)
