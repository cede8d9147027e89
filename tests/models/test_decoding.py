"""Sampling with room in the cache and shared heads gives the logits of a fresh pass."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM  # noqa: E402

from mletools.models import decoding  # noqa: E402

SHAPE = {
    "vocab_size": 50,
    "hidden_size": 48,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}


def logits(model, ids: torch.Tensor, mask: torch.Tensor, begin: int, cache) -> torch.Tensor:
    """Those of the tokens from `begin` on, one at a time."""
    places, found = decoding.positions(mask), []
    for at in range(begin, ids.size(1)):
        output = model(
            ids[:, at : at + 1], attention_mask=mask[:, : at + 1], position_ids=places[:, at : at + 1],
            past_key_values=cache,
        )  # fmt: skip
        found.append(output.logits[:, 0])
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("kind", [(LlamaForCausalLM, LlamaConfig), (Qwen3ForCausalLM, Qwen3Config)])
@pytest.mark.parametrize("at_once", [8192, 20, 1])
@torch.inference_mode()
def test_the_logits_are_those_of_a_fresh_pass(kind, at_once: int, monkeypatch) -> None:
    torch.manual_seed(0)
    model = kind[0](kind[1](**SHAPE)).eval()
    ids = torch.randint(0, 50, (6, 20))
    mask = torch.ones_like(ids)
    mask[0, :4] = mask[3, :4] = 0  # padding on the left
    mask[4, :8] = 0
    monkeypatch.setattr(decoding, "PREFILLED", at_once)
    ids[3, :9], ids[5, :9], ids[2, :9] = ids[0, :9], ids[1, :9], ids[1, :9]
    expected = model(ids, attention_mask=mask, position_ids=decoding.positions(mask)).logits[:, 9:]
    monkeypatch.setattr(decoding, "ROOM", 3)
    assert decoding.prepare(model)
    cache = decoding.prefill(model, ids[:, :9], mask[:, :9])
    assert (logits(model, ids, mask, 9, cache) - expected).abs().max() < 1e-5


def test_room_grows_by_more_than_a_token() -> None:
    roomy, places = decoding.RoomyLayer(torch.zeros(2, 1, 5, 4), torch.zeros(2, 1, 5, 4)), set()
    for token in range(2 * decoding.ROOM):
        new = torch.full((2, 1, 1, 4), float(token))
        keys, values = roomy.update(new, -new)
        places.add((keys.data_ptr(), values.data_ptr()))
        assert keys.shape == values.shape == (2, 1, 6 + token, 4)
    assert len(places) == 2
    assert keys[1, 0, 5:, 0].tolist() == list(map(float, range(2 * decoding.ROOM)))
    assert torch.equal(values, -keys)


def test_other_attentions_stay_as_they_are(monkeypatch) -> None:
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, attn_implementation="eager")).eval()
    assert not decoding.prepare(model) and model.config._attn_implementation == "eager"
    wrong = LlamaForCausalLM(LlamaConfig(**SHAPE)).eval()
    monkeypatch.setattr(decoding, "attention", lambda *given, **settings: (given[1].transpose(1, 2), None))
    assert not decoding.prepare(wrong) and wrong.config._attn_implementation == "sdpa"


MEMORY = """
import os, torch
from mletools.models.decoding import kept_memory
def held() -> float:
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
torch.zeros(1)
before = held()
with kept_memory():
    for megabytes in (200, 300):
        made = [torch.ones(2**18) for _ in range(megabytes)]
        del made
    within = held()
print(before, within, held())
"""


@pytest.mark.slow
def test_freed_memory_is_kept_within_and_given_back_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=60, check=True)
    before, within, after = map(float, done.stdout.split())
    assert within > before + 250 and after < before + 100


@pytest.mark.parametrize("bias", [True, False])
def test_packed_layers_compute_what_they_did(bias: bool) -> None:
    layer, other = torch.nn.Linear(6, 5, bias=bias), torch.nn.Linear(5, 4, dtype=torch.float64)
    model = torch.nn.Sequential(layer, torch.nn.Sequential(other))
    decoding.pack(model)
    packed = model[0]
    assert type(packed) is decoding.PackedLinear and model[1][0] is other
    assert torch.equal(packed.weight, layer.weight)
    for shape in ((1, 6), (2, 6), (3, 4, 6), (300, 6), (0, 6)):
        given = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape).sin()
        found = packed(given)
        assert found.shape == layer(given).shape and torch.allclose(found, layer(given), atol=1e-5)
        turned = given.transpose(0, -2) if given.dim() > 2 else given
        assert torch.allclose(packed(turned), layer(turned), atol=1e-5)


def test_layers_stay_where_this_torch_packs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(weight: torch.Tensor, tokens: int) -> torch.Tensor:
        raise NotImplementedError("no such operation")

    model = torch.nn.Sequential(torch.nn.Linear(6, 5))
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    decoding.pack(model)
    assert type(model[0]) is torch.nn.Linear
    monkeypatch.undo()
    decoding.pack(model)
    assert type(model[0]) is decoding.PackedLinear
