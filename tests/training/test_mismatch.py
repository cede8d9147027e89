"""Where the policy and its sampler disagree: what is corrected, what is said of it, which options go together."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mletools.base.errors import ToolError
from mletools.training.algorithms import ALGORITHMS, PRESETS, settle
from mletools.training.grpo import GrpoOptions, GrpoRun
from mletools.training.mismatch import Correction, clipped, effective_sample_size, terms
from mletools.training.samples import Sample, TokenSequence
from mletools.training.sft import SftOptions
from mletools.training.throughput import operations, throughput


def rollouts(torch, nano: Path, off: float, version: int = 0) -> list[Sample]:
    """Two of a group; `off`: nats by which the sampler's log-probabilities differ from the policy's, in turn up and down."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(nano)
    made = []
    for number in range(2):
        ids = torch.randint(10, 250, (12,), generator=torch.Generator().manual_seed(number)).tolist()
        with torch.no_grad():
            logps = torch.log_softmax(policy(torch.tensor([ids])).logits[0], dim=-1)
        own = [0.0] * 4 + [logps[i - 1, ids[i]].item() + off * (-1) ** i for i in range(4, 12)]
        sequence = TokenSequence(ids, [0] * 4 + [1] * 8, own)
        made.append(
            Sample(f"r{number}", "g", (sequence,), float(number), version, 1.0, 1.0, 1.0, group_size=2, members=2)
        )
    return made


def step_of(nano: Path, out: Path, samples: list[Sample], **options):
    run = GrpoRun(str(nano), out, GrpoOptions(lora_rank=2, **options))
    run.said = []
    run.say = run.said.append
    (step,) = run.train(samples)
    return step, run.said


def test_a_default_for_each_algorithm_and_preset() -> None:
    chosen = {name: GrpoOptions(**settle({"algorithm": name}, None)).mismatch for name in ALGORITHMS}
    assert chosen == {
        "grpo": "token-mask", "dapo": "clip", "dr-grpo": "token-mask", "reinforce": "token-mask", "rloo": "token-mask",
        "gspo": "clip",
    }  # fmt: skip
    presets = {name: GrpoOptions(**settle({}, name)) for name in PRESETS}
    assert {name: options.mismatch for name, options in presets.items()} == {
        "mle-ideator": "clip", "mle-rl": "off", "duration-aware": "clip", "sandmle": "clip",
    }  # fmt: skip
    assert GrpoOptions(epsilon=0.1).mismatch == "clip" and GrpoOptions(loss_type="cispo").mismatch == "clip"
    masked = GrpoOptions(**settle({"mismatch": "token-mask"}, "sandmle"))
    assert (masked.mismatch, masked.epsilon, masked.epsilon_high) == ("token-mask", None, None)


@pytest.mark.parametrize(
    ("given", "preset", "clips"),
    [
        ({}, "sandmle", (0.2, 0.28)),
        ({"algorithm": "rloo"}, "sandmle", (0.2, 0.28)),
        ({"algorithm": "gspo"}, "sandmle", (3e-4, 4e-4)),
        ({"algorithm": "gspo"}, "duration-aware", (3e-4, 4e-4)),
        ({"algorithm": "gspo", "epsilon": 0.1}, "sandmle", (0.1, 4e-4)),
        ({"algorithm": "dapo"}, "mle-rl", (None, None)),  # --mismatch off
        ({"loss_type": "cispo"}, "sandmle", (None, 0.28)),
        ({"loss_type": "sapo"}, "sandmle", (None, None)),
    ],
)
def test_clips_that_nobody_gave_are_the_algorithms_and_the_losss(given: dict, preset: str, clips: tuple) -> None:
    options = GrpoOptions(**settle(given, preset))
    assert (options.epsilon, options.epsilon_high) == clips


def test_the_rate_is_a_tenth_where_all_weights_are_trained() -> None:
    assert (GrpoOptions().learning_rate, GrpoOptions(lora_rank=0).learning_rate) == (1e-5, 1e-6)
    assert (SftOptions().learning_rate, SftOptions(lora_rank=0).learning_rate) == (1e-4, 1e-5)
    assert GrpoOptions(lora_rank=0, learning_rate=3e-4).learning_rate == 3e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mismatch": "token-mask", "epsilon_high": 0.3},
            r"^epsilon_high clips the ratio of mismatch clip, .* token-mask$",
        ),
        (
            {"mismatch": "sequence-mask", "loss_type": "sapo"},
            r"^loss_type sapo .* goes with mismatch clip, not sequence-mask$",
        ),
        ({"mismatch": "clip", "mismatch_bound": 2.0}, r"^mismatch clip has no mismatch_bound"),
        ({"mismatch": "sequence-mask", "mismatch_bound": 0.9}, r"is a ratio above 1"),
        ({"mismatch": "other"}, r"choose one of clip, token-mask"),
        ({"mismatch": "off", "delta": 2.0}, r"^delta clips the ratio of mismatch clip, .* off$"),
        ({"mismatch": "clip", "delta": 0.0}, r"^delta must be above 0, not 0\.0$"),
        ({"loss_type": "sapo", "epsilon": 0.1}, r"^epsilon has no effect on loss_type sapo: leave it out$"),
        ({"loss_type": "cispo", "epsilon": 0.1}, r"^epsilon has no effect on loss_type cispo: epsilon_high bounds"),
        ({"duration_of": "execution"}, r"^duration_of is about weights by duration: give a duration_weight, too$"),
        ({"duration_clip": 2.0}, r"^duration_clip is about"),
        ({"epsilon": 1.5}, r"epsilon must be below 1"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        GrpoOptions(**options)


def test_weights_worked_by_hand(torch) -> None:
    log = torch.log(torch.tensor([[2.0, 0.5, 4.0], [1.0, 1.0, 1.0]]))
    logps = torch.log(torch.tensor([[0.5, 0.1, 0.8], [0.2, 0.2, 0.2]]))  # the sampler's: .25, .2, .2
    mask = torch.ones(2, 3, dtype=torch.long)

    def weights(mode: str, bound: float, advantage: float = 1.0):
        found, _ = Correction(mode, bound).weights(log, logps, mask, torch.tensor([advantage, 1.0]))
        return found[0].tolist()

    assert weights("token-truncate", 3.0) == pytest.approx([2, 0.5, 3])
    assert weights("sequence-truncate", 3.0) == pytest.approx([3, 3, 3])
    assert weights("sequence-mask", 1.5) == [0, 0, 0]  # the third root of 4 is 1.587
    assert weights("sequence-mask", 1.6) == pytest.approx([2, 0.5, 3])
    # up by .25, down by .1, up by .6: an advantage pushes on where it is positive, back where it is negative
    assert weights("token-mask", 0.3) == pytest.approx([2, 0.5, 0])
    assert weights("token-mask", 0.3, -1.0) == pytest.approx([2, 0.5, 4])
    assert weights("token-mask", 0.05, -1.0) == pytest.approx([2, 0, 4])


@pytest.mark.parametrize(
    ("loss_type", "level", "advantage", "ratios", "bounds", "expected"),
    [
        ("grpo", "token", 1.0, (1.5, 0.5, 1.1), (0.2, 0.3), (1, 0, 0)),
        ("grpo", "token", -1.0, (1.5, 0.5, 1.1), (0.2, 0.3), (0, 1, 0)),
        ("grpo", "token", -1.0, (1.5, 4.0, 1.1), (0.2, 0.3, 2.0), (0, 1, 0)),  # delta
        ("grpo", "token", 1.0, (1.1, 1.0, 1.2), (0.2, 0.3, 1.05), (1, 0, 1)),  # a delta below the other bound
        ("grpo", "token", -1.0, (1.1, 1.0, 1.4), (0.2, 0.3, 1.05), (0, 0, 1)),
        ("grpo", "sequence", 1.0, (1.01, 1 / 1.01, 1.0), (3e-4, 4e-4), (0, 0, 0)),  # gspo: a mean of 1
        ("grpo", "sequence", 1.0, (1.01, 1.0, 1.0), (3e-4, 4e-4), (1, 1, 1)),
        ("luspo", "sequence", -1.0, (0.5, 1.0, 1.0), (0.1, 0.2), (1, 1, 1)),
        ("cispo", "token", -1.0, (1.5, 0.5, 1.1), (0.2, 1.2), (1, 0, 0)),
        ("sapo", "token", 1.0, (9.0, 0.1, 1.0), (0.2, 0.3), (0, 0, 0)),
    ],
)
def test_what_each_loss_clips(torch, loss_type, level, advantage, ratios, bounds, expected) -> None:
    log_ratio = torch.log(torch.tensor([[*ratios, 1.0]]))
    mask = torch.tensor([[1, 1, 1, 0]])
    found = clipped(log_ratio, mask, torch.tensor([advantage]), loss_type, level, *bounds)
    assert found[0, :3].tolist() == [bool(each) for each in expected]


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({}, 0.2),
        ({"epsilon_high": 0.28}, 0.28),
        ({"loss_type": "cispo"}, 1.2),
        ({"loss_type": "cispo", "epsilon_high": 4.0}, 5.0),
    ],
)
def test_the_upper_bound_is_one_plus_epsilon_for_every_loss(nano, tmp_path, monkeypatch, options, bound: float) -> None:
    """TRL adds the 1 itself, but for cispo."""
    monkeypatch.setattr("mletools.training.grpo.recorded_trainer", lambda **given: given["arguments"])
    run = GrpoRun(str(nano), tmp_path, GrpoOptions(lora_rank=2, **options))
    assert run._trainer(iter(()), 1.0)["epsilon_high"] == bound


@pytest.mark.slow
def test_what_is_said_of_the_distance(torch, nano, tmp_path) -> None:
    import math

    ratio = torch.tensor([[2.0, 0.5, 7.0]])
    mask = torch.tensor([[1, 1, 0]])
    summed = {name: float(value.sum()) for name, value in terms(torch.log(ratio), mask).items()}
    assert summed["k3"] == pytest.approx(2 - 1 - math.log(2) + 0.5 - 1 - math.log(0.5))
    assert effective_sample_size(summed["ratio"], summed["squared"], 2) == pytest.approx(2.5**2 / (2 * 4.25))

    step, _ = step_of(nano, tmp_path / "near", rollouts(torch, nano, 0.0), mismatch="token-truncate")
    assert step["sampler_kl"] == pytest.approx(0, abs=1e-9) and step["effective_sample_size"] == pytest.approx(1)
    assert step["largest_ratio"] == pytest.approx(1, abs=1e-4) and step["clipped_share"] == 0.0
    step, _ = step_of(nano, tmp_path / "far", rollouts(torch, nano, 2.0), mismatch="token-truncate")
    high, low = math.exp(2), math.exp(-2)
    assert step["sampler_kl"] == pytest.approx((high + low) / 2 - 1, rel=1e-4)
    assert step["effective_sample_size"] == pytest.approx((high + low) ** 2 / (2 * (high**2 + low**2)), rel=1e-4)
    assert (step["clipped_share"], step["masked_share"]) == (0.5, 0.0) and step["largest_ratio"] == pytest.approx(
        high, rel=1e-4
    )
    step, _ = step_of(nano, tmp_path / "masked", rollouts(torch, nano, 2.0), mismatch="token-mask", mismatch_bound=1e-9)
    assert (step["clipped_share"], step["masked_share"]) == (0.0, 0.5)
    # one of the two lies farther than 0.1 nat a token from its sampler and has a negative advantage
    shifted = [
        replace(s, sequences=(replace(s.sequences[0], logprobs=[each + 1.0 for each in s.sequences[0].logprobs]),))
        for s in rollouts(torch, nano, 0.0)
    ]
    step, _ = step_of(nano, tmp_path / "off", shifted, off_policy_mask_threshold=0.1)
    assert step["masked_share"] == pytest.approx(0.5)


def test_a_token_that_the_policy_all_but_excludes_leaves_numbers_in_the_record(torch, nano, tmp_path) -> None:
    import json

    step, _ = step_of(nano, tmp_path / "run", rollouts(torch, nano, 150.0), mismatch="token-truncate")
    assert json.loads(json.dumps(step, allow_nan=False))["largest_ratio"] > 1e30 and step["grad_norm"] < 1e3


@pytest.mark.parametrize("mismatch", ["off", "token-mask"])
def test_stale_rollouts_that_count_as_the_policys_own_are_said_once(torch, nano, tmp_path, mismatch: str) -> None:
    run = GrpoRun(str(nano), tmp_path / "run", GrpoOptions(lora_rank=2, mismatch=mismatch, epochs=3))
    said: list[str] = []
    run.say = said.append
    steps = list(run.train(rollouts(torch, nano, 0.0)))
    assert [step["staleness_max"] for step in steps] == [0, 1, 2]
    warning = "step 2: rollouts up to 1 updates old count as the policy's own (--mismatch off); --mismatch token-mask weights them by the ratio"
    assert said == ([warning] if mismatch == "off" else [])


def test_speed_is_that_of_all_tokens_and_of_the_weights_that_multiply(torch, nano, tmp_path, monkeypatch) -> None:
    from transformers import AutoModelForCausalLM

    step, _ = step_of(nano, tmp_path / "run", rollouts(torch, nano, 0.0))
    assert step["sequence_tokens"] == 24 and "mfu" not in step
    assert step["tokens_per_s"] == pytest.approx(24 / step["duration_s"])
    model = AutoModelForCausalLM.from_pretrained(nano)
    weights = sum(each.numel() for each in model.parameters())
    looked_up = 0 if model.config.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    assert operations(model) == 6 * (weights - looked_up)
    for each in model.parameters():
        each.requires_grad_(False)
    assert operations(model) == 4 * (weights - looked_up)
    trainer = SimpleNamespace(model=model, args=SimpleNamespace(device=torch.device("cuda:0"), world_size=2))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    found = throughput(trainer, 1000, 2.0)
    assert found == {"tokens_per_s": 500.0, "mfu": pytest.approx(500 * operations(model) / (2 * 989e12))}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA L40S")
    assert throughput(trainer, 1000, 2.0)["mfu"] == pytest.approx(500 * operations(model) / (2 * 362e12))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Another card")
    assert throughput(trainer, 1000, 2.0) == {"tokens_per_s": 500.0}
