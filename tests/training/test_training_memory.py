"""What --dry-run of the trainers says of memory: beside the tensors that autograd keeps, and a process's measured peak."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, mostly_slow, run_command

pytest.importorskip("torch", reason="needs the [train] extra")

from mletools.base.errors import RecordError, ToolError
from mletools.training import dry_run, memory
from mletools.training.grpo import GrpoOptions
from mletools.training.memory import HELD, Shape, Sharding, StepSize, estimate, shape_of, shortage, step_size
from mletools.training.policy import keep_precision
from mletools.training.samples import check_sampling, shared_temperature
from mletools.training.sft import SftOptions

SIZES = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512}
PLAIN = Shape(
    weights=1000, adapter=0, layers=2, hidden=8, inner=16, heads=2, query=8, key_value=4, vocabulary=50, rank=0,
    dense=True, normed=False,
)  # fmt: skip


def kept_by_autograd(folder: Path, rank: int, rows: int, length: int, half: bool) -> int:
    """Bytes that the backward pass of a model's layers keeps of a batch with padding, weights left out."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    stored = torch.bfloat16 if half and rank else torch.float32
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=stored).train()
    if rank:
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM"))
        for weight in model.parameters():
            weight.data = weight.data.float() if weight.requires_grad else weight.data
        keep_precision(model)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage().data_ptr()
        if storage not in weights:
            kept.setdefault(storage, tensor)
        return tensor

    ids = torch.randint(5, 300, (rows, length))
    mask = torch.ones_like(ids)
    mask[0, -3:] = 0
    backbone = (model.get_base_model() if rank else model).model
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=half)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), autocast:
        result = backbone(input_ids=ids, attention_mask=mask)
    assert result.last_hidden_state.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize(("dtype", "exact"), [("float32", 0.01), ("bfloat16", 0.1)])
def test_activations_are_those_that_autograd_keeps(
    kind: str, rank: int, dtype: str, exact: float, tmp_path: Path
) -> None:
    from transformers import AutoConfig

    kept, estimated = [], []
    for layers in (1, 2):
        folder = tmp_path / str(layers)
        AutoConfig.for_model(kind, num_hidden_layers=layers, **SIZES).save_pretrained(folder)
        kept.append(kept_by_autograd(folder, rank, 2, 96, dtype == "bfloat16"))
        parts = estimate(shape_of(str(folder), rank), 2, 96, "CPU", dtype=dtype)
        estimated.append(parts["activations"] + parts.get("bfloat16 copies", 0))
    # of a layer; besides, the last norm keeps its input and result
    assert estimated[1] - estimated[0] == pytest.approx(kept[1] - kept[0], rel=exact)


def test_a_shape_is_read_from_the_configuration(tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model("llama", num_hidden_layers=2, **SIZES)
    config.save_pretrained(tmp_path)
    shape = shape_of(str(tmp_path), 4)
    made = AutoModelForCausalLM.from_config(config)
    assert shape.weights == sum(weight.numel() for weight in made.parameters())
    assert shape.adapter == 2 * 4 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 160)) and shape.dense
    AutoConfig.for_model("mixtral", num_hidden_layers=2, **SIZES).save_pretrained(tmp_path)
    experts = shape_of(str(tmp_path), 0)
    assert not experts.dense and "activations" not in estimate(experts, 1, 8, "GPU")


def test_states_are_counted_by_hand() -> None:
    parts = estimate(PLAIN, 2, 16, "CPU")
    assert (parts["weights"], parts["gradients"], parts["optimiser"]) == (4000, 4000, 8000)
    assert parts["activations"] == 4 * 32 * 2 * (6 * 8 + 2 + 4 * 8 + 2 + 4 * 16 + 16)
    assert parts["logits"] == 4 * 32 * 8 + 2 * 4 * 50 * 8 + 33 * 32 * 50
    gpu = estimate(PLAIN, 2, 16, "GPU", reference=True)
    assert (gpu["weights"], gpu["reference model"], gpu["bfloat16 copies"]) == (4000, 4000, 2000)
    assert gpu["activations"] < parts["activations"]


def test_what_processes_share() -> None:
    whole = estimate(PLAIN, 2, 16, "GPU")
    for stage, shared in {
        1: {"optimiser"},
        2: {"optimiser", "gradients"},
        3: {"optimiser", "gradients", "weights"},
    }.items():
        parts = estimate(PLAIN, 2, 16, "GPU", Sharding(4, stage))
        for name in ("optimiser", "gradients", "weights"):
            assert parts[name] == whole[name] / (4 if name in shared else 1)
        assert parts["communication"] > 0
        kept = (4 - 2) * 32 * PLAIN.hidden * PLAIN.layers if stage == 3 else 0  # layers hand on bfloat16
        assert parts["activations"] == whole["activations"] - kept
    assert "communication" not in whole


def test_gradients_are_counted_where_they_lie() -> None:
    """Copies: the sum, and buckets of it. Sharded weights: a shard of the sum, and those that are about to be reduced."""
    adapter = dataclasses.replace(PLAIN, adapter=100, rank=4)

    def counted(shape: Shape, spread: Sharding, device: str = "GPU") -> list[float]:
        parts = estimate(shape, 2, 16, device, spread)
        return [parts[name] for name in ("gradients", "communication")]

    in_flight = 50 * 8 + 2 * (1000 - 50 * 8) / 2  # the embeddings and two layers
    assert counted(PLAIN, Sharding(4)) == [4000, 4000]
    assert counted(PLAIN, Sharding(4, 2, "ZeRO 2")) == [1000, 4000]
    assert counted(PLAIN, Sharding(4, 3, "FSDP")) == [1000, in_flight * (2 + 4)]
    assert counted(PLAIN, Sharding(4, 3, "FSDP"), "CPU") == [1000, in_flight * (4 + 4)]
    assert counted(adapter, Sharding(4)) == [400, 400]
    assert counted(adapter, Sharding(4, 3, "FSDP")) == [100, in_flight * 2]
    # DeepSpeed keeps weights in both precisions; FSDP makes bfloat16 of them as it gathers
    assert estimate(PLAIN, 2, 16, "GPU", Sharding(4, 3, "ZeRO 3"))["bfloat16 copies"] == 500
    assert "bfloat16 copies" not in estimate(PLAIN, 2, 16, "GPU", Sharding(4, 3, "FSDP"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Sharding()),
        ({"WORLD_SIZE": "4"}, Sharding(4)),
        ({"WORLD_SIZE": "2", "ACCELERATE_USE_FSDP": "true"}, Sharding(2, 3, "FSDP")),
        (
            {"WORLD_SIZE": "2", "ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"},
            Sharding(2, 3, "ZeRO 3"),
        ),
    ],
)
def test_sharding_is_that_of_the_launch(
    variables: dict[str, str], expected: Sharding, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_DEEPSPEED_ZERO_STAGE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert memory.sharding() == expected


def test_the_largest_micro_batch_has_the_longest_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert step_size([5, 9, 7, 3], 3, 2) == memory.StepSize(3, 21, 2, 9)
    assert step_size([5, 9, 7, 3], 3, 8, micro_tokens=18).micro_rows == 2
    assert step_size([5, 9, 7, 3], 3, 8, micro_tokens=4).micro_rows == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert step_size([5, 9, 7], 3, 8).micro_rows == 2


@pytest.fixture
def model(tmp_path: Path) -> str:
    from transformers import AutoConfig

    AutoConfig.for_model("llama", num_hidden_layers=2, **SIZES).save_pretrained(tmp_path / "model")
    return "model"


@pytest.mark.parametrize("command", mostly_slow(["mle-train-grpo", "mle-train-sft"], 0))
def test_a_dry_run_needs_no_weights(command: str, model: str, tmp_path: Path) -> None:
    line = (ROOT / "examples" / "tasks" / "tasks.jsonl").read_bytes().split(b"\n")[0]
    task = json.loads(line)
    record = {
        "kind": "rollout", "version": 1, "id": "r", "lineage": [], "task": task, "group": "g", "sample": 0, "seed": 1,
        "scaffold": "single", "policy": {"model": "m", "version": 0, "sampling": {}}, "group_size": 2, "turns": [],
        "usage": {"prompt_tokens": 40, "completion_tokens": 24, "seconds": 1.0, "usd": 0.0}, "code": "", "stop_reason": "finished", "reward": 1.0,
        "messages": [{"role": "user", "content": "q", "token_ids": [5] * 40},
                     {"role": "assistant", "content": "a", "loss": True, "token_ids": [6] * 24, "logprobs": [0.0] * 24}],
    }  # fmt: skip
    played = "".join(json.dumps({**record, "id": f"r{n}", "sample": n}) + "\n" for n in range(2))
    done = run_command(command, "--model", model, "--run-dir", "run", "--dry-run", cwd=tmp_path, input=played.encode())
    said = done.stderr.decode()
    assert "a step: up to 2 sequences of 128 tokens; the largest micro-batch: 2 of 64 tokens\n" in said
    assert "GB, estimated         CPU      GPU\n" in said and "together" in said and not (tmp_path / "run").exists()
    empty = run_command(command, "--model", model, "--run-dir", "run", "--dry-run", cwd=tmp_path, input=b"")
    assert "of 512 tokens (no rollouts: each as long as the model's context)" in empty.stderr.decode()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"token_ids": [6, 10**6]}, "token id 1000000 is outside the model's vocabulary"),
        ({"logprobs": [0.0]}, "1 logprobs for 2 token_ids"),
        ({}, "sampled with top_p 0.9"),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses(model: str, tmp_path: Path, change: dict, reason: str) -> None:
    answer = {"role": "assistant", "content": "a", "loss": True, "token_ids": [6, 7], "logprobs": [0.0, 0.0], **change}
    record = {
        "id": "r", "group": "g", "messages": [{"role": "user", "content": "q", "token_ids": [5]}, answer], "turns": [],
        "policy": {"model": "m", "version": 0, "sampling": {"top_p": 0.9}}, "reward": 1.0,
    }  # fmt: skip

    def reject(line: Any, why: str) -> None:
        raise ToolError(f"x.jsonl:1: {why}")

    with pytest.raises(ToolError, match=rf"^x\.jsonl:1: .*{reason}"):
        dry_run.describe(
            str(tmp_path / model), GrpoOptions(), [SimpleNamespace(record=record)], reject, 2,
            check=partial(check_sampling, temperature=None, logprobs=True),
        )  # fmt: skip


def test_a_dry_run_looks_at_all_temperatures_together(model: str, tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "a", "loss": True, "token_ids": [6, 7], "logprobs": [0.0, 0.0]}
    lines = [
        SimpleNamespace(
            record={
                "id": f"{warmth}", "group": "g", "messages": [{"role": "user", "content": "q", "token_ids": [5]}, answer], "turns": [],
                "policy": {"model": "m", "version": 0, "sampling": {"temperature": warmth}}, "reward": 1.0,
            }
        )
        for warmth in (1.0, 0.7)
    ]  # fmt: skip
    for held, message in ((lines, "different temperatures"), (lines[:1], None)):
        expected = pytest.raises(RecordError, match=message) if message else nullcontext()
        with expected:
            dry_run.describe(str(tmp_path / model), GrpoOptions(), held, print, 2, together=shared_temperature)  # type: ignore[arg-type]


@pytest.mark.parametrize(("batch", "rows"), [(12, 6), (14, 7), (9, 3)])
def test_a_dry_run_tells_the_rows_that_imitation_takes(model: str, tmp_path: Path, batch: int, rows: int) -> None:
    said = dry_run.describe(str(tmp_path / model), SftOptions(batch=batch), [], print, batch)  # type: ignore[arg-type]
    assert f"the largest micro-batch: {rows} of " in said[0]


def test_a_step_that_does_not_fit_is_said(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, folder = StepSize(8, 4096, 4, 512), str(tmp_path / model)
    needed = HELD * sum(estimate(shape_of(folder, 16), 4, 512, "CPU").values())
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("mletools.training.memory.available", lambda: int(needed) - 10)
    said = shortage(folder, 16, size)
    assert said is not None and said.startswith("a micro-batch of 4 x 512 tokens needs about ")
    for free in (int(needed) + 10, None):
        monkeypatch.setattr("mletools.training.memory.available", lambda free=free: free)
        assert shortage(folder, 16, size) is None
    monkeypatch.undo()
    assert 10**8 < memory.available() < 10**14


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_estimate_is_near_the_measured_peak() -> None:
    script = [sys.executable, str(ROOT / "benchmarks" / "train_memory.py"), "--sizes", "25m", "--json"]
    done = subprocess.run(script, check=True, stdout=subprocess.PIPE)
    measured = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(measured) == 4
    for one in measured:
        assert one["estimate"] == pytest.approx(one["peak"], rel=0.2), one


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_benchmark_for_gpus_runs_on_a_cpu(tmp_path: Path) -> None:
    """All of its probes with tiny models; without a GPU the programs in the sandbox run on the CPU."""
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine may have a GPU: run benchmarks/gpu.sh itself")
    script, out = str(ROOT / "benchmarks" / "gpu.sh"), tmp_path / "out"
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run([script, "--smoke", str(out)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["commands.log", "results.jsonl"]
    results = {one["probe"]: one for one in map(json.loads, (out / "results.jsonl").read_text().splitlines())}
    assert [name for name, one in results.items() if one["status"] != "done"] == [] and len(results) == 13
    for side in ("shared", "separate", "masked"):
        assert results["lora"][side]["gradient_error"] < 1e-4 and results["lora"][side]["first_ratio"] < 1.001
    assert results["lora"]["shared"]["shared_share"] > 0.2
    assert results["head"]["float32"]["logprob_error"] < 1e-4
    assert results["resumed"]["resumed_difference"] == 0.0
    assert abs(results["sampled"]["first_kl"]) < 1e-4
    assert [results["leased"][name]["status"] for name in ("leased", "names_a_card", "no_lease")] == ["ok"] * 3
    assert results["validated"]["validation_reward"] == 0.5
    alone = subprocess.run([script, str(tmp_path / "none")], capture_output=True, text=True, env=environment)
    assert alone.returncode == 1 and "no GPU: torch sees none" in alone.stderr
