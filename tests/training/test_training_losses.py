"""Every algorithm's loss and gradient against its equations, written out in float64, row by row, without a trainer."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import mostly_nightly, mostly_slow

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mletools.training.algorithms import ALGORITHMS, LOSS_TYPES, PRESETS, settle
from mletools.training.grpo import GrpoOptions, GrpoRun
from mletools.training.samples import Sample, TokenSequence
from mletools.training.tiny import make_tiny

T = 0.8  # the sampling temperature
CONSTANT = 50  # max_completion_length, dr_grpo's divisor
REWARDS = {"a": [0.0, 1.0, 0.4], "b": [-1.0, 2.0]}
SECONDS = {"a": [1.0, 4.0, 2.0], "b": [2.0, 1.0]}


@pytest.fixture(scope="module")
def model(torch, tmp_path_factory) -> Path:
    """A tiny model; both sides take it in float64, so that what is compared is the equation and not the arithmetic."""

    folder = tmp_path_factory.mktemp("model") / "nano"
    text = [{"messages": [{"role": "user", "content": "a forest of 100 trees, a linear model, boosting"}]}]
    make_tiny(text, folder, "nano", seed=0)
    return folder


@pytest.fixture(scope="module")
def samples(torch, model) -> list[Sample]:
    """Five ragged rollouts in two groups; the third in two sequences, the last without recorded log-probabilities."""
    return drawn(torch, model)


def drawn(torch, model: Path, shared: int = 0) -> list[Sample]:
    """shared: tokens of the prompt of a group; 0: each sequence has one of its own."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model)
    draw = torch.Generator().manual_seed(5)
    made = []
    places = [(name, at) for name in REWARDS for at in range(len(REWARDS[name]))]
    for number, (group, at) in enumerate(places):
        sequences = []
        for part in range(2 if number == 2 else 1):
            lengths = [0 if shared else 3 + number, 6 - part, 4, 5 + 2 * number]  # read, written, read, written
            ids = torch.randint(10, 250, (sum(lengths),), generator=draw).tolist()
            mask = [int(turn % 2) for turn, length in enumerate(lengths) for _ in range(length)]
            ids, mask = [ord(group)] * shared + ids, [0] * shared + mask
            with torch.no_grad():
                logps = torch.log_softmax(policy(torch.tensor([ids])).logits[0] / T, dim=-1)
            off = (torch.rand(len(ids), generator=draw) * 0.8 - 0.4).tolist()
            logprobs = [min(logps[i - 1, ids[i]].item() + off[i], 0.0) * mask[i] for i in range(len(ids))]
            sequences.append(TokenSequence(ids, mask, None if number == 4 else logprobs))
        made.append(
            Sample(
                f"r{number}", group, tuple(sequences), REWARDS[group][at], 0, SECONDS[group][at], T, 1.0,
                group_size=len(REWARDS[group]), members=len(REWARDS[group]),
            )
        )  # fmt: skip
    return made


def reference(torch, folder: Path, samples: list[Sample], options: GrpoOptions, weights: list[float]):
    """(loss, gradient norm) of the options' objective, from its equation."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).double()
    given = given_advantages(samples, options)
    epsilon = 0.2 if options.epsilon is None else options.epsilon
    low, high = 1 - epsilon, 1 + (epsilon if options.epsilon_high is None else options.epsilon_high)
    per_rollout, everything, count, entropies = [], [], 0, []
    for sample, advantage, weight in zip(samples, given, weights, strict=True):
        tokens, scores = [], []
        for sequence in sample.sequences:
            logits = model(torch.tensor([sequence.input_ids])).logits[0, :-1] / T
            logs = torch.log_softmax(logits, dim=-1)
            mask = torch.tensor(sequence.loss_mask[1:]).bool()
            tokens.append(logs.gather(1, torch.tensor(sequence.input_ids[1:])[:, None]).squeeze(1)[mask])
            entropies.append(-(logs.exp() * logs).sum(-1)[mask])
            own = tokens[-1].detach()
            scores.append(
                own if sequence.logprobs is None else torch.tensor(sequence.logprobs[1:], dtype=own.dtype)[mask]
            )
        logps, sampled = torch.cat(tokens), torch.cat(scores)  # a rollout is one, of whatever number of sequences
        own = logps.detach()
        factor = torch.full_like(own, advantage * weight)
        if options.mismatch not in ("clip", "off"):
            factor = factor * importance(torch, own, sampled, advantage, options)
        old = sampled if options.mismatch == "clip" else own
        log_ratio = logps - old
        if options.importance_sampling_level == "sequence":
            log_ratio = log_ratio.mean().expand_as(logps)
        ratio = torch.exp(log_ratio)
        if options.loss_type == "cispo":
            term = -ratio.clamp(max=high).detach() * factor * logps
        elif options.loss_type == "sapo":
            tau = 1.0 if advantage > 0 else 1.05
            term = -4 / tau * torch.sigmoid(tau * (ratio - 1)) * factor
        else:
            kept = ratio if options.delta is None else ratio.clamp(max=options.delta)
            term = -torch.minimum(kept * factor, ratio.clamp(low, high) * factor)
        if options.off_policy_mask_threshold is not None:
            far = advantage < 0 and (sampled - own).mean() > options.off_policy_mask_threshold
            term = term * (0.0 if far else 1.0)
        if options.beta:  # against what sampled, see `ours`; k3 of Schulman's three estimators
            behind = torch.zeros_like(sampled) if any(each.logprobs is None for each in sample.sequences) else sampled
            term = term + options.beta * (torch.exp(behind - logps) - (behind - logps) - 1)
        per_rollout.append(term)
        everything.append(term)
        count += len(term)
    if options.loss_type in ("grpo", "sapo"):
        loss = torch.stack([terms.mean() for terms in per_rollout]).mean()
    elif options.loss_type in ("dapo", "cispo"):
        loss = torch.cat(everything).sum() / count
    elif options.loss_type == "luspo":
        loss = torch.stack([terms.sum() for terms in per_rollout]).mean()
    else:
        loss = torch.cat(everything).sum() / (len(per_rollout) * CONSTANT)
    loss = loss - options.entropy_coef * torch.cat(entropies).mean()
    loss.backward()
    return loss.item(), math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))


def given_advantages(samples: list[Sample], options: GrpoOptions) -> list[float]:
    rewards = [float(sample.reward) for sample in samples]
    found = []
    for sample in samples:
        group = REWARDS[sample.group]
        mean = sum(group) / len(group)
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / (len(group) - 1))
        batch = sum(rewards) / len(rewards)
        batch_std = math.sqrt(sum((r - batch) ** 2 for r in rewards) / (len(rewards) - 1))
        base = {
            "group": mean,
            "leave-one-out": (sum(group) - sample.reward) / (len(group) - 1),
            "batch": batch,
            "none": 0.0,
        }[options.baseline]
        scale = {"group": std + 1e-4, "batch": batch_std + 1e-4, "none": 1.0}[options.scale_rewards]
        found.append((sample.reward - base) / scale)
    return found


def importance(torch, own, sampled, advantage: float, options: GrpoOptions):
    log_ratio, bound = own - sampled, options.mismatch_bound
    if options.mismatch == "token-truncate":
        return torch.exp(log_ratio).clamp(max=bound)
    if options.mismatch == "sequence-truncate":
        return torch.prod(torch.exp(log_ratio)).clamp(max=bound).expand_as(log_ratio)
    if options.mismatch == "sequence-mask":
        far = not 1 / bound <= math.prod(torch.exp(log_ratio).tolist()) ** (1 / len(log_ratio)) <= bound
        return torch.zeros_like(log_ratio) if far else torch.exp(log_ratio).clamp(max=3.0)
    change = torch.exp(own) - torch.exp(sampled)
    bound = 0.2 if bound is None else bound
    out = change > bound if advantage > 0 else change < -bound
    return torch.where(out, torch.zeros_like(own), torch.exp(log_ratio))


def ours(torch, model: Path, samples: list[Sample], out: Path, options: GrpoOptions):
    """(loss, gradient norm) of one step of the real run, in float64."""
    run = GrpoRun(str(model), out, options)
    load = __import__("mletools.training.policy", fromlist=["policy"])
    real = load.load_policy
    load.load_policy = lambda *given: (found := real(*given))._replace(model=found.model.double())
    trainer = __import__("mletools.training.trl_trainer", fromlist=["RecordedTrainer"]).RecordedTrainer
    reference = trainer._reference
    # A run's first policy is its reference, from which nothing has departed yet: here the sampler's numbers stand in.
    trainer._reference = lambda self: self._inputs["recorded_logps"].double()
    try:
        (step,) = run.train(samples)
    finally:
        load.load_policy, trainer._reference = real, reference
    return step["loss"], step["grad_norm"], step


WITHIN = {"token-mask": 5e-4, "sequence-mask": 1.05, "token-truncate": 1.1, "sequence-truncate": 1.1}
CASES = {
    **{name: settle({"algorithm": name}, None) for name in ALGORITHMS},
    **{f"loss {kind}": {"loss_type": kind} for kind in LOSS_TYPES if kind not in ("cispo", "luspo")},
    "loss cispo": {"loss_type": "cispo", "epsilon_high": 0.1},
    "loss luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "delta": {"delta": 1.05},
    "batch baseline and spread": {"baseline": "batch", "scale_rewards": "batch"},
    "no baseline": {"baseline": "none", "scale_rewards": "none"},
    "entropy": {"loss_type": "dapo", "entropy_coef": 0.01},
    "off-policy mask": {"off_policy_mask_threshold": 0.01},
    **{f"distance of {kind}": {"loss_type": kind, "beta": 0.2} for kind in ("grpo", "sapo", "dapo", "dr_grpo")},
    "sequence level": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "clip": {"mismatch": "clip"},
    "off": {"mismatch": "off"},
    **{f"mismatch {mode}": {"mismatch": mode, "mismatch_bound": bound} for mode, bound in WITHIN.items()},
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.slow
def test_loss_and_gradient_equal_the_equation(torch, model, samples, tmp_path, case: str, weighted: bool) -> None:
    settings = {
        "lora_rank": 0, "micro_batch": 2, "max_completion_length": CONSTANT, **CASES[case],
        **({"duration_weight": "mean", "duration_clip": 1.5} if weighted else {}),
    }  # fmt: skip
    options = GrpoOptions(**settings)
    # the mean of 1, 4, 2, 2, 1 is 2; the second would count double and is brought to 1.5
    weights = [0.5, 1.5, 1.0, 1.0, 0.5] if weighted else [1.0] * 5
    loss, norm, step = ours(torch, model, samples, tmp_path / "run", options)
    expected, expected_norm = reference(torch, model, samples, options, weights)
    # luspo sums tokens where the others average: so do the roundings of advantages and logprobs, which are kept in float32
    assert loss == pytest.approx(expected, abs=3e-6 if "luspo" in case else 1e-6, rel=1e-6)
    assert norm == pytest.approx(expected_norm, rel=1e-6)
    assert step["weighted"] is weighted and step["retokenized"] == 0
    assert (step["rollouts"], step["groups"], step["lost"]) == (5, 2, 0)
    if "mismatch" in CASES[case] and options.mismatch not in ("clip", "off"):  # bounds that split the tokens
        share = step["masked_share" if options.mismatch.endswith("mask") else "clipped_share"]
        assert 0.05 < share < 0.95


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        ("distance of grpo", 1),
        *(
            pytest.param(case, rows, marks=pytest.mark.slow)
            for case, rows in (
                ("grpo", 8), ("grpo", 1), ("distance of sapo", 1), ("distance of dapo", 1), ("distance of dr_grpo", 1),
                ("loss luspo", 8), ("mismatch sequence-mask", 8), ("off-policy mask", 8), ("sequence level", 8),
            )
        ),
    ],
)  # fmt: skip
def test_a_rollout_told_anew_in_each_turn_counts_as_the_same_tokens_in_one_sequence(
    torch, model, tmp_path, case: str, rows: int
) -> None:
    """Each turn in a sequence of its own, behind all that came before; of one row, the rollout has several micro-batches."""

    def told_anew(sequence: TokenSequence) -> tuple[TokenSequence, ...]:
        mask = sequence.loss_mask
        ends = [at + 1 for at in range(len(mask)) if mask[at] and (at + 1 == len(mask) or not mask[at + 1])]
        logprobs = sequence.logprobs
        return tuple(
            TokenSequence(
                sequence.input_ids[:end],
                [int(bool(loss) and at >= begin) for at, loss in enumerate(mask[:end])],
                None if logprobs is None else [each if at >= begin else 0.0 for at, each in enumerate(logprobs[:end])],
            )
            for begin, end in zip([0, *ends], ends, strict=False)
        )

    whole = [sample for sample in drawn(torch, model) if len(sample.sequences) == 1]
    split = [replace(sample, sequences=told_anew(sample.sequences[0])) for sample in whole]
    assert all(len(sample.sequences) == 2 for sample in split)
    settings = {"lora_rank": 0, "max_completion_length": CONSTANT, "micro_batch": rows, **CASES[case]}
    one = ours(torch, model, whole, tmp_path / "one", GrpoOptions(**settings))
    several = ours(torch, model, split, tmp_path / "several", GrpoOptions(**settings))
    assert several[:2] == pytest.approx(one[:2], abs=1e-6, rel=1e-6)
    assert (one[2]["sequences"], several[2]["sequences"]) == (4, 8)


@pytest.mark.parametrize("case", mostly_slow(["entropy", "grpo", "delta", "mismatch sequence-mask"], 1))
@pytest.mark.parametrize("masked", [True, False])
def test_loss_and_gradient_are_the_same_where_a_prompt_is_computed_once(
    torch, model, tmp_path, monkeypatch, case: str, masked: bool
) -> None:
    monkeypatch.setattr("mletools.training.packing.LARGEST_MASK", 10**9 if masked else 0)
    samples = drawn(torch, model, shared=40)
    shared = sum(40 * (len(row) - 1) for row in ([0, 1, 2, 2], [3, 4]))
    settings = {"lora_rank": 0, "max_completion_length": CONSTANT, **CASES[case]}
    separate = ours(torch, model, samples, tmp_path / "separate", GrpoOptions(**settings, share_prefix=False))
    once = ours(torch, model, samples, tmp_path / "once", GrpoOptions(**settings))
    assert once[:2] == pytest.approx(separate[:2], rel=1e-7, abs=1e-7)  # the head adds in float32
    assert separate[2]["shared_share"] == 0.0
    assert once[2]["shared_share"] > 0.5 * shared / sum(len(s.input_ids) for one in samples for s in one.sequences)
    assert once[:2] == pytest.approx(
        reference(torch, model, samples, GrpoOptions(**settings), [1.0] * 5), abs=1e-6, rel=1e-6
    )


@pytest.mark.parametrize("share", [True, False])
def test_attention_in_one_call_without_padding_gives_the_same_loss_and_gradient(
    torch, model, tmp_path, monkeypatch, share: bool
) -> None:
    """What a GPU does with --varlen; in the kernel's place its definition, with the arguments of torch 2.11 and of 2.13."""
    from mletools.training import packing
    from mletools.training.microbatches import Layout

    calls = []

    def attended(query, key, value, query_ends, key_ends, longest_query, longest_key, *, scale, window_size):
        assert query.dtype == key.dtype == value.dtype and query.is_contiguous() and query_ends.dtype == torch.int32
        assert window_size == (-1, 0) and len(query_ends) == len(key_ends) and query_ends[-1] == len(query)
        assert longest_query == query_ends.diff().max() and longest_key == key_ends.diff().max()
        calls.append((len(query), len(key)))
        times = query.size(1) // key.size(1)
        found = []
        for i in range(len(query_ends) - 1):
            q = query[query_ends[i] : query_ends[i + 1]].transpose(0, 1)
            k, v = (
                part[key_ends[i] : key_ends[i + 1]].transpose(0, 1).repeat_interleave(times, 0) for part in (key, value)
            )
            scores = q @ k.transpose(1, 2) * scale
            sees = torch.ones(scores.shape[1:], dtype=torch.bool).tril(k.size(1) - q.size(1))  # aligned at the ends
            found.append((scores.masked_fill(~sees, -math.inf).softmax(-1) @ v).transpose(0, 1))
        return torch.cat(found)

    def attended_in_groups(query, key, *others, enable_gqa, **settings):
        assert enable_gqa == (query.size(1) > key.size(1))
        return attended(query, key, *others, **settings)

    samples = drawn(torch, model, shared=40)
    settings = {"lora_rank": 0, "max_completion_length": CONSTANT}
    expected = ours(torch, model, samples, tmp_path / "padded", GrpoOptions(**settings, share_prefix=False))
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", attended if share else attended_in_groups)
    monkeypatch.setattr(packing, "_on_gpu", lambda states: True)
    monkeypatch.setattr(GrpoRun, "_layout", lambda self: Layout(8, None, True, share, 0.0))
    found = ours(torch, model, samples, tmp_path / "packed", GrpoOptions(**settings))
    assert found[:2] == pytest.approx(expected[:2], rel=1e-6, abs=1e-7)
    assert found[2]["padding_share"] == 0.0 and (found[2]["shared_share"] > 0.0) is share
    queries, keys = calls[-1]
    assert (queries < keys) is share  # of a prompt that is shared, the keys of each row


def test_a_model_that_attends_to_a_window_shares_no_prompt(torch) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    from mletools.training import packing

    small = {
        "vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }  # fmt: skip
    window = MistralForCausalLM(MistralConfig(**small, sliding_window=4))
    assert packing.refusal(window) == "its layers do not all attend to all earlier tokens"
    assert window.config._attn_implementation == "sdpa"
    everything = MistralForCausalLM(MistralConfig(**small, sliding_window=None))
    assert packing.refusal(everything) is None
    eager = MistralForCausalLM(MistralConfig(**small, sliding_window=None, attn_implementation="eager"))
    assert packing.refusal(eager) == "its attention is eager, not sdpa"


def test_a_kernel_that_fails_is_told_of(torch, model, tmp_path, monkeypatch) -> None:
    from mletools.training import packing
    from mletools.training.microbatches import Layout

    def varlen_attn(*given, **settings):
        raise TypeError("no such argument\nand more")

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    monkeypatch.setattr(packing, "_on_gpu", lambda states: True)
    monkeypatch.setattr(GrpoRun, "_layout", lambda self: Layout(8, None, True, True, 0.0))
    said: list[str] = []
    run = GrpoRun(str(model), tmp_path / "run", GrpoOptions(lora_rank=0))
    run.say = said.append
    (step,) = run.train(drawn(torch, model, shared=40))
    assert said == [
        "this model's rows are padded, and each computes its prompt anew: a trial of packed rows failed: "
        "TypeError: no such argument"
    ]
    assert step["shared_share"] == 0.0


def test_the_float32_head_is_the_trainers_and_adapters_take_their_inputs_as_they_are(torch, model, tmp_path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from mletools.training.adapters import AddedLinear
    from mletools.training.grpo import GrpoRun
    from mletools.training.policy import keep_precision

    for asked in (True, False):
        run = GrpoRun(str(model), tmp_path / f"run-{asked}", GrpoOptions(lora_rank=2, fp32_head=asked))
        trainer = run._trainer(iter(()), 1.0)
        assert trainer.args.cast_lm_head_to_fp32 is asked
        assert any(type(part) is AddedLinear for part in trainer.model.modules())
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    seen: list[set] = []
    for name, part in adapted.named_modules():
        if name.endswith("lora_A.default"):
            assert part.weight.dtype == torch.float32
            part.register_forward_pre_hook(lambda _, given: seen[-1].add(given[0].dtype))
    for prepare in (lambda _: None, keep_precision):
        prepare(adapted)
        seen.append(set())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            adapted(torch.arange(5)[None])
    assert seen == [{torch.float32}, {torch.bfloat16}]  # PEFT's own way, and ours


def test_tiles_of_logits_stay_within_their_memory(torch, monkeypatch) -> None:
    import trl.kernels.chunked_logprob as kernel
    import trl.trainer.utils as head
    from transformers import LlamaConfig, LlamaForCausalLM

    from mletools.training import logits

    assert logits.tile(64, gpu=False)[0] * logits.tile(64, gpu=False)[1] * 33 <= 64e6
    assert logits.tile(1e-4, gpu=False) == (1, 3)
    for module, name in ((kernel, "TOKEN_CHUNK_SIZE"), (head, "_CHUNKED_LOGPROB_CHUNK_SIZE"), (head, "_use_triton")):
        monkeypatch.setattr(module, name, getattr(module, name))  # puts them back afterwards
    sizes, fold = [], kernel._forward_tile
    monkeypatch.setattr(
        kernel, "_forward_tile", lambda tile, *given, **named: (sizes.append(tile.shape), fold(tile, *given, **named))
    )
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=5000, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    head.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    ids = torch.arange(80).reshape(2, 40)
    targets = torch.full_like(ids, -100)
    targets[0, 10:20] = ids[0, 11:21]
    logits.set_tiles(0.5)  # 7 tokens x 2,048 entries
    scores = model(input_ids=ids, shift_labels=targets, fused_lm_head=True).log_probs
    assert set(sizes) == {(7, 2048), (7, 904), (3, 2048), (3, 904)}  # ten tokens with loss, none of the others
    expected = torch.log_softmax(model(input_ids=ids[:1]).logits[0], -1)[range(10, 20), range(11, 21)]
    assert torch.allclose(scores[0, 10:20], expected, atol=1e-5) and not scores[1].any()


@pytest.mark.parametrize("preset", list(PRESETS))
def test_presets_make_options(preset: str) -> None:
    found = settle({}, preset)
    found.pop("publish_steps", None)
    options = GrpoOptions(**found)
    assert options.beta == PRESETS[preset]["beta"]


@pytest.mark.parametrize("kind", mostly_slow(["grpo", "dapo", "dr_grpo", "sapo"], 1))
def test_without_weights_and_masks_a_step_equals_trls_own(torch, model, tmp_path, kind: str) -> None:
    """The same two groups of four through TRL's own batches, advantages and padding, and through ours."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    draw = torch.Generator().manual_seed(7)
    made = []
    for number in range(8):
        ids = torch.randint(10, 250, (9 + number,), generator=draw).tolist()
        mask = [0] * (3 + number // 4) + [1] * (len(ids) - 3 - number // 4)
        mask[-3] = 0  # something that was read in between
        made.append((ids, mask, float((number * 3) % 5)))
    samples = [
        Sample(f"r{n}", f"g{n // 4}", (TokenSequence(ids, mask),), reward, 0, group_size=4, members=4)
        for n, (ids, mask, reward) in enumerate(made)
    ]

    def recorded(prompts: list, trainer) -> dict:
        splits = [mask.index(1) for _, mask, _ in made]
        return {
            "prompt_ids": [ids[:split] for (ids, _, _), split in zip(made, splits, strict=True)],
            "completion_ids": [ids[split:] for (ids, _, _), split in zip(made, splits, strict=True)],
            "env_mask": [mask[split:] for (_, mask, _), split in zip(made, splits, strict=True)],
            "logprobs": None,
            "paid": [reward for _, _, reward in made],
        }

    def pay(completions, paid, **kwargs):
        return paid

    config = GRPOConfig(
        output_dir=str(tmp_path / "trl"), per_device_train_batch_size=8, num_generations=4, loss_type=kind, max_steps=1,
        temperature=1.0, max_completion_length=CONSTANT, epsilon=0.2, epsilon_high=0.28, beta=0.0, learning_rate=1e-5,
        max_grad_norm=1e9, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no",
        logging_steps=1, shuffle_dataset=False, disable_dropout=True, scale_rewards="group",
    )  # fmt: skip
    theirs = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model), args=config, reward_funcs=[pay], rollout_func=recorded,
        train_dataset=Dataset.from_list([{"prompt": "a"}, {"prompt": "b"}]), processing_class=AutoTokenizer.from_pretrained(model),
    )  # fmt: skip
    theirs.train()
    logged = next(entry for entry in theirs.state.log_history if "grad_norm" in entry)
    options = GrpoOptions(
        lora_rank=0,
        loss_type=kind,
        mismatch="off",
        max_completion_length=CONSTANT,
        max_grad_norm=1e9,
    )
    (step,) = GrpoRun(str(model), tmp_path / "ours", options).train(samples)
    assert step["loss"] == pytest.approx(logged["loss"], abs=1e-6)
    assert step["grad_norm"] == pytest.approx(float(logged["grad_norm"]), rel=1e-5)


TWO = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from mletools.training.grpo import GrpoOptions, GrpoRun
from mletools.training.stream import from_line
model, out, records, options, stream = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), sys.argv[5]
samples = [from_line(line) for line in open(records)]
run = GrpoRun(model, out, GrpoOptions(**options))
for step in run.train_stream(samples) if stream == "stream" else run.train(samples):
    print("STEP", json.dumps(step), flush=True)
"""


SFT = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from mletools.training.sft import SftOptions, SftRun
from mletools.training.stream import from_line
model, out, records, options, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]), sys.argv[5]
from mletools.training.step_loader import leads
samples = [from_line(line) for line in open(records)] if leads() else []
for step in SftRun(model, out, SftOptions(**options)).train(samples):
    print("STEP", json.dumps(step), flush=True)
"""


@pytest.mark.parametrize("how", mostly_nightly(["stream", "file", "sft"], 1))
def test_two_processes_equal_one(torch, model, samples, tmp_path, how: str) -> None:
    """Groups split over processes, an odd number of rows, some of them without gradient: the same losses and weights."""
    import json
    import subprocess
    import sys

    from safetensors.torch import load_file

    from mletools.training.stream import as_line

    (tmp_path / "script.py").write_text(SFT if how == "sft" else TWO)
    (tmp_path / "samples").write_text("".join(map(as_line, samples)))
    options = {
        "lora_rank": 4,
        "micro_batch": 1,
        "groups_per_step": 1,
        "learning_rate": 1e-2,
        "temperature": T,
        "loss_type": "dapo",
    }
    if how == "sft":  # six rows in steps of four: the last step is filled up
        options = {"lora_rank": 4, "micro_batch": 1, "batch": 4, "learning_rate": 1e-2, "max_seconds": 1000.0}
    found = {}
    for processes in (1, 2):
        out = tmp_path / str(processes)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        arguments = [
            str(tmp_path / "script.py"),
            str(model),
            str(out),
            str(tmp_path / "samples"),
            json.dumps(options),
            how,
        ]
        done = subprocess.run(
            [*launch, *arguments], check=False, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        steps = [
            json.loads(line.removeprefix("STEP ")) for line in done.stdout.splitlines() if line.startswith("STEP ")
        ]
        assert [step["step"] for step in steps] == [1, 2]
        found[processes] = (steps, load_file(out / "latest" / "adapter_model.safetensors"))
    for one, two in zip(found[1][0], found[2][0], strict=True):
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-7)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-6)
        assert two.get("entropy", 0.0) == pytest.approx(one.get("entropy", 0.0), rel=1e-6)
    # Adam blows rounding up to whole steps where a gradient is next to nothing; those entries are few
    apart = torch.cat([(found[1][1][name] - found[2][1][name]).abs().flatten() for name in found[1][1]])
    assert (apart > 1e-6).float().mean() < 0.01, (apart > 1e-6).float().mean()
