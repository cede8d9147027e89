"""What the trainers do about GPUs, seen on a machine that has none."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("trl", reason="trl is not installed: training is not tested")

from mletools.training import session
from mletools.training.samples import Sample, TokenSequence
from mletools.training.steps import Row
from mletools.training.validation import validation_reward


def test_the_thread_that_trains_uses_the_gpu_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[Any, int]] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.append((device, threading.get_ident())))
    trained: list[int] = []

    def train() -> None:
        assert chosen, "the first tensor may go to another process's GPU"
        trained.append(threading.get_ident())

    for device in ("cuda:1", "cpu"):
        trainer = SimpleNamespace(args=SimpleNamespace(device=torch.device(device)), train=train)
        given = SimpleNamespace(trainer=trainer, end=lambda: None)
        done: list[Any] = []
        thread = threading.Thread(target=session.walk, args=(given, done.append))
        thread.start()
        thread.join()
        assert done == [None]
    assert chosen == [(torch.device("cuda:1"), trained[0])]
    assert trained[0] != threading.get_ident()


def test_one_process_trains_on_one_gpu_and_names_the_launcher_for_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trl import GRPOConfig, SFTConfig

    from mletools.training import policy
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.sft import SftOptions, SftRun
    from mletools.training.tiny import make_tiny

    def two_gpus(config: Any) -> Any:
        config._n_gpu = 2
        return config

    model = make_tiny([{"messages": [{"content": "a linear model"}]}], tmp_path / "nano", "nano")
    for kind in (GRPOConfig, SFTConfig):
        made = kind.__post_init__
        monkeypatch.setattr(kind, "__post_init__", lambda self, made=made: (made(self), two_gpus(self))[0])
    assert two_gpus(SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)).n_gpu == 2
    grpo, sft = GrpoRun(str(model), tmp_path / "a", GrpoOptions()), SftRun(str(model), tmp_path / "b", SftOptions())
    assert grpo._trainer(iter(()), 1.0).args.n_gpu == 1
    row = Row(TokenSequence([1, 2], [0, 1]), 1.0, Sample("a", "a", (), 1.0))
    assert sft._trainer([row]).args.n_gpu == 1
    assert policy.unused_gpus("mle-train-sft") is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert policy.unused_gpus("mle-train-sft") == (
        "trains on the first of 2 GPUs; all of them: accelerate launch --num-processes 2 $(which mle-train-sft) ..."
    )
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert policy.unused_gpus("mle-train-sft") is None


def test_the_command_that_validates_is_told_nothing_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = (
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
        "TORCHELASTIC_USE_AGENT_STORE", "ACCELERATE_USE_FSDP", "FSDP_VERSION",
    )  # fmt: skip
    for name in told:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    command = f"env > {tmp_path}/told; echo '{{\"reward\": 0.5}}'"
    assert validation_reward(command, tmp_path) == 0.5
    names = {line.split("=")[0] for line in (tmp_path / "told").read_text().splitlines()}
    assert names.isdisjoint(told) and {"CUDA_VISIBLE_DEVICES", "MLE_POLICY", "PATH"} <= names


def test_micro_batches_fill_the_memory_that_is_free_on_a_gpu(monkeypatch, tmp_path) -> None:
    from mletools.training import memory
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.tiny import make_tiny

    model = tmp_path / "nano"
    make_tiny([{"messages": [{"role": "user", "content": "a forest of 100 trees"}]}], model, "nano", seed=0)
    shape = memory.shape_of(str(model), 16)

    def needed(tokens: int) -> float:
        return sum(memory.estimate(shape, 1, tokens, "GPU").values())

    free = int(needed(3000) / memory.USED)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * free))

    def layout(name: str, **options):
        run = GrpoRun(str(model), tmp_path / name, GrpoOptions(**options))
        said: list[str] = []
        run.say = said.append
        return run._layout(), said

    found, said = layout("free")
    assert needed(found.tokens) <= memory.USED * free < needed(found.tokens + 1) and found.rows > 10**6
    assert said == [f"micro-batches of up to {found.tokens:,} tokens, for which the GPU's free memory should do"]
    assert not found.pack
    found, said = layout("rows", micro_batch=4)
    assert (found.rows, found.tokens, said) == (4, None, [])
    found, said = layout("tokens", micro_tokens=500, varlen=True)
    assert (found.tokens, found.pack, found.share, found.slack, said) == (500, True, True, 0.0, [])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**15, 10**15))
    assert layout("large")[0].tokens == memory.ENOUGH
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1, 1))
    assert layout("none")[0].tokens == 1
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    found, said = layout("sharded", micro_tokens=500, varlen=True)
    assert not found.pack and said == ["weights are sharded: rows are padded, and each computes its prompt anew"]


def test_what_trl_has_renamed_is_an_error_with_the_versions_that_fit(monkeypatch) -> None:
    from mletools.base.errors import ToolError
    from mletools.training import logits, trl_trainer
    from mletools.training.policy import require_of_trl

    require_of_trl(trl_trainer.GRPOTrainer, trl_trainer._METHODS)
    monkeypatch.delattr("trl.trainer.utils._use_triton")
    with pytest.raises(
        ToolError, match=r"^trl \S+ has no _use_triton in trl\.trainer\.utils: this trainer runs with trl>="
    ):
        logits.set_tiles(None)
    monkeypatch.setattr(trl_trainer, "_METHODS", (*trl_trainer._METHODS, "_renamed"))
    with pytest.raises(ToolError, match=r"has no _renamed in GRPOTrainer: .*pip install 'trl>=1\.16,<1\.17'$"):
        require_of_trl(trl_trainer.GRPOTrainer, trl_trainer._METHODS)


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_gpu_is_given_back_before_the_command_that_validates(
    device: str, rank: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[str] = []
    monkeypatch.setattr(session.gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("empty"))
    monkeypatch.setattr(session, "validation_reward", lambda *_: (done.append("command"), 0.5)[1])
    monkeypatch.setattr(session, "long_timeout_group", lambda: "group")
    monkeypatch.setattr(session, "broadcast", lambda value, group: done.append("wait for the command"))
    trainer = SimpleNamespace(
        args=SimpleNamespace(device=torch.device(device), process_index=rank, world_size=2),
        accelerator=SimpleNamespace(wait_for_everyone=lambda: done.append("wait for all")),
    )
    run = SimpleNamespace(
        step=1, out=tmp_path, policy_version=1, state={}, write_policy=lambda *_: done.append("write")
    )
    made = session.Session(run, trainer, dict, float, bool, print)
    assert made._validate("line") == (None if rank else 0.5)
    given_back = ["collect", "empty", "wait for all"] if device == "cuda:0" else []
    command = [] if rank else ["command"]
    assert done == ["write", *given_back, *command, "wait for the command"]


def test_what_is_published_is_in_the_precision_that_is_computed_in(tmp_path: Path) -> None:
    """Checkpoints, and policies of a run in float32, are not rounded; adapters never are."""
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from mletools.training import policy
    from mletools.training.grpo import GrpoOptions, GrpoRun
    from mletools.training.tiny import make_tiny

    base = make_tiny([{"messages": [{"content": "a linear model"}]}], tmp_path / "nano", "nano")
    run = GrpoRun(str(base), tmp_path / "run", GrpoOptions())
    model, adapter, _ = policy.load_policy(str(base), 0, 0)

    def trainer(model: Any, precision: str) -> Any:
        accelerator = SimpleNamespace(mixed_precision=precision, unwrap_model=lambda model: model)
        return SimpleNamespace(
            model=model, accelerator=accelerator, args=SimpleNamespace(process_index=0),
            is_fsdp_enabled=False, is_deepspeed_enabled=False,
        )  # fmt: skip

    def written(name: str, model: Any, precision: str, resumable: bool) -> dict[str, torch.Tensor]:
        run.write_policy(tmp_path / name, trainer(model, precision), resumable)
        (file,) = (tmp_path / name).glob("*.safetensors")
        return load_file(file)

    whole = written("whole", model, "no", False)
    assert {value.dtype for value in whole.values()} == {torch.float32}
    kept, halved = written("kept", model, "bf16", True), written("halved", model, "bf16", False)
    assert set(kept) == set(halved) == set(whole)
    assert all(kept[name].equal(value) and halved[name].equal(value.bfloat16()) for name, value in whole.items())
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "halved", dtype="auto")
    assert loaded.dtype == torch.bfloat16 and all(
        value.equal(model.state_dict()[name].bfloat16()) for name, value in loaded.state_dict().items()
    )
    assert model.dtype == torch.float32  # the model that is trained is left alone
    model, adapter, _ = policy.load_policy(str(base), 4, 8)
    from peft import get_peft_model

    adapters = written("adapter", get_peft_model(model, adapter), "bf16", False)
    assert {value.dtype for value in adapters.values()} == {torch.float32}


def test_fsdp_sums_in_float32_whatever_it_computes_in() -> None:
    from accelerate.utils import FullyShardedDataParallelPlugin

    from mletools.training import shards

    for version, rounded in ((1, "buffer_dtype"), (2, "output_dtype")):
        plugin = FullyShardedDataParallelPlugin(fsdp_version=version)
        plugin.set_mixed_precision("bf16")
        given = getattr(plugin.mixed_precision_policy, rounded)
        gradients = SimpleNamespace(plugin_kwargs={})
        shards.settle(SimpleNamespace(state=SimpleNamespace(fsdp_plugin=plugin), gradient_state=gradients))
        chosen = plugin.mixed_precision_policy
        assert (chosen.param_dtype, chosen.reduce_dtype) == (torch.bfloat16, torch.float32)
        assert getattr(chosen, rounded) == (given if version == 1 else None)
        assert gradients.plugin_kwargs == {"sync_each_batch": True}
    for state in (SimpleNamespace(), SimpleNamespace(fsdp_plugin=None)):
        gradients = SimpleNamespace(plugin_kwargs={})
        shards.settle(SimpleNamespace(state=state, gradient_state=gradients))
        assert gradients.plugin_kwargs == {}  # copies hold the whole gradient anyway


def test_of_a_tied_embedding_that_is_frozen_neither_name_is_gathered() -> None:
    from mletools.training import shards

    model = torch.nn.ModuleDict({"embedding": torch.nn.Linear(2, 2, False), "adapter": torch.nn.Linear(2, 2, False)})
    model["head"] = torch.nn.Linear(2, 2, False)
    model["head"].weight = model["embedding"].weight
    model["embedding"].requires_grad_(False)
    for leads in (True, False):
        accelerator = SimpleNamespace(is_fsdp2=True, is_main_process=leads, device=torch.device("cpu"))
        trainer = SimpleNamespace(accelerator=accelerator, model=model, model_wrapped=model)
        assert list(shards.gather(trainer)) == (["adapter.weight"] if leads else [])
