"""--sampling model: what a model's generation_config.json asks for, beside transformers' own processors."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, records, run_command

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mletools.base.errors import ToolError  # noqa: E402
from mletools.models import Request, open_model  # noqa: E402
from mletools.models.hf import HfModel, RowSampler, distribution, penalised  # noqa: E402
from mletools.models.own_sampling import Distribution, distribution_of, own_distribution  # noqa: E402
from mletools.training.tiny import make_tiny  # noqa: E402

QWEN = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "tiny"
    return make_tiny([{"messages": [{"role": "user", "content": "a few words, and a few more of them"}]}], out, "nano")


def with_card(tiny: Path, out: Path, **card: Any) -> Path:
    shutil.copytree(tiny, out)
    (out / "generation_config.json").write_text(json.dumps(card))
    return out


def asked(count: int, **changes: Any) -> list[Request]:
    return [
        Request([{"role": "user", "content": "a few words"}], seed=at, max_tokens=12, model_sampling=True, **changes)
        for at in range(count)
    ]


def test_what_a_card_says(tiny: Path, tmp_path: Path) -> None:
    assert own_distribution(str(with_card(tiny, tmp_path / "qwen", **QWEN))) == Distribution(0.7, 0.8, 20, 1.1)
    assert own_distribution(str(with_card(tiny, tmp_path / "greedy", temperature=0.7))) == Distribution(0.0)
    assert own_distribution(str(with_card(tiny, tmp_path / "plain", do_sample=True))).temperature == 1.0
    shutil.copytree(tiny, tmp_path / "none")
    (tmp_path / "none" / "generation_config.json").unlink(missing_ok=True)
    with pytest.raises(ToolError, match="has no generation_config"):
        own_distribution(str(tmp_path / "none"))
    with pytest.raises(ToolError, match="asks for min_p, no_repeat_ngram_size, which engines in this process do not"):
        own_distribution(str(with_card(tiny, tmp_path / "odd", do_sample=True, min_p=0.1, no_repeat_ngram_size=3)))


def test_options_come_before_the_card(tiny: Path, tmp_path: Path) -> None:
    folder = str(with_card(tiny, tmp_path / "qwen", **QWEN))
    (request,) = asked(1, temperature=0.2)
    assert distribution_of(request, folder) == Distribution(0.2, 0.8, 20, 1.1)
    assert distribution_of(request, folder).sampling == {
        "temperature": 0.2, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1,
    }  # fmt: skip
    assert distribution_of(replace(request, model_sampling=False), folder) == Distribution(0.2, 1.0)


@pytest.mark.parametrize("padding", [0, 3])
def test_the_distribution_is_that_of_transformers(padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn((4, 60), generator=generator)
    ids = torch.randint(0, 60, (4, 9), generator=generator)
    ids[:, :padding] = 59  # padding, which is not penalised
    own = Distribution(**{name: value for name, value in QWEN.items() if name != "do_sample"})
    processors = transformers.LogitsProcessorList([
        transformers.RepetitionPenaltyLogitsProcessor(own.repetition_penalty),
        transformers.TemperatureLogitsWarper(own.temperature),
        transformers.TopKLogitsWarper(own.top_k),
        transformers.TopPLogitsWarper(own.top_p),
    ])  # fmt: skip
    expected = torch.softmax(processors(ids[:, padding:], logits.double()), -1)
    columns = [
        torch.tensor([[value]] * 4, dtype=torch.float64)
        for value in (own.repetition_penalty, own.temperature, own.top_p)
    ]
    found = distribution(
        penalised(logits.double(), ids[:, padding:], columns[0]), *columns[1:], torch.tensor([[own.top_k]] * 4)
    )
    assert torch.allclose(found, expected, atol=1e-12)
    sampler = RowSampler(asked(4), [own] * 4, [padding] * 4, "cpu")
    picked = sampler(ids, logits).argmax(-1, keepdim=True)
    assert torch.allclose(sampler.logprobs[0], expected.gather(1, picked).log().squeeze(1), atol=1e-12)


def test_a_model_is_sampled_as_its_card_has_it(tiny: Path, tmp_path: Path) -> None:
    model = open_model(f"hf:{with_card(tiny, tmp_path / 'greedy', do_sample=False)}")
    assert isinstance(model, HfModel)
    found = model.sample(asked(3))
    (greedy,) = model.sample([Request([{"role": "user", "content": "a few words"}], 0, 0.0, max_tokens=12)])
    assert {reply.text for reply in found} == {greedy.text}
    assert found[0].sampling == {"temperature": 0.0, "top_p": 1.0} and greedy.sampling is None
    assert found[0].logprobs is None and greedy.logprobs is not None  # nobody trains on them


def test_a_record_says_how_it_was_sampled(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("say a few words")
    first = (ROOT / "examples" / "tasks" / "tasks.jsonl").read_text().partition("\n")[0]
    (tmp_path / "tasks.jsonl").write_text(first + "\n")
    line = ["mle-rollout", "-q", "-m", f"hf:{with_card(tiny, tmp_path / 'qwen', **QWEN)}", "--prompt", "p.md"]
    line += ["--data", str(ROOT / "examples"), "--max-tokens", "5", "--sampling", "model", "tasks.jsonl"]
    (record,) = records(run_command(*line, cwd=tmp_path).stdout)
    assert record["policy"]["sampling"] == {
        "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1, "max_tokens": 5,
    }  # fmt: skip
    assert "logprobs" not in record["messages"][-1] or record["messages"][-1]["logprobs"] is None
