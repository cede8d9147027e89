"""Sampling with room in the cache and shared heads gives the logits of transformers' own cache and attention."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM  # noqa: E402
from transformers.cache_utils import DynamicCache  # noqa: E402

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


@pytest.mark.parametrize("kind", [(LlamaForCausalLM, LlamaConfig), (Qwen3ForCausalLM, Qwen3Config)])
def test_the_logits_are_those_of_transformers_own(kind, monkeypatch) -> None:
    torch.manual_seed(0)
    model = kind[0](kind[1](**SHAPE)).eval()
    ids = torch.randint(0, 50, (3, 20))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0  # padding on the left
    positions = (mask.cumsum(-1) - 1).clamp(min=0)

    def logits(prepare) -> torch.Tensor:
        cache = DynamicCache(config=model.config)
        assert decoding.keeps_all(cache)
        found = []
        for begin, end in [(0, 9), *((at, at + 1) for at in range(9, 20))]:
            with torch.inference_mode():
                output = model(
                    ids[:, begin:end], attention_mask=mask[:, :end], position_ids=positions[:, begin:end],
                    past_key_values=cache,
                )  # fmt: skip
            found.append(output.logits[:, -1])
            if begin == 0:
                cache = prepare(cache)
        return torch.stack(found)

    expected = logits(lambda cache: cache)
    monkeypatch.setattr(decoding, "ROOM", 3)
    decoding.share_heads(model)
    assert model.config._attn_implementation == decoding.NAME
    assert (logits(decoding.roomy) - expected).abs().max() < 1e-5


def test_room_grows_by_more_than_a_token() -> None:
    layer = decoding.DynamicLayer()
    layer.update(torch.zeros(2, 1, 5, 4), torch.zeros(2, 1, 5, 4))
    roomy, places = decoding.RoomyLayer(layer), set()
    for token in range(2 * decoding.ROOM):
        new = torch.full((2, 1, 1, 4), float(token))
        keys, values = roomy.update(new, -new)
        places.add((keys.data_ptr(), values.data_ptr()))
        assert keys.shape == values.shape == (2, 1, 6 + token, 4)
    assert len(places) == 2
    assert keys[1, 0, 5:, 0].tolist() == list(map(float, range(2 * decoding.ROOM)))
    assert torch.equal(values, -keys)


def test_other_attentions_stay_as_they_are() -> None:
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, attn_implementation="eager"))
    decoding.share_heads(model)
    assert model.config._attn_implementation == "eager"
