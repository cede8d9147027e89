"""The weights that are trained: loading a model folder or an adapter, putting LoRA on it, writing and restoring it.

Covered: full fine-tuning, a fresh LoRA adapter, going on with an adapter that exists, CPU and one or more GPUs of one
kind. Not covered: quantised bases, several adapters at once, adapters on the output layer (TRL refuses them).
"""

import contextlib
import importlib.util
import json
import os
import shutil
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import ToolError, filling
from ..base.hub import check_model, check_weights, damaged_weights
from ..base.jsonl import Line
from ..models.checkpoint import base_of
from ..records.rollout import Rollout
from . import checkpoints
from .step_loader import processes

if TYPE_CHECKING:
    import torch

ADAPTER = "default"
TRL = "trl>=1.16,<1.17"
LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def preload() -> None:
    """Import the heavy libraries now (several seconds), e.g. while a pipe is still silent. ToolError names a gap."""
    # Idle OpenMP threads spin by default: ten times slower as soon as another process wants the same cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import peft  # noqa: F401
        import torch
        import transformers
        from trl import GRPOTrainer, SFTTrainer  # noqa: F401
    except ImportError as error:
        raise ToolError(
            f"training needs a library that is not here ({error}): pip install 'mletools[train]'"
        ) from error
    # cuDNN builds a plan for each new shape of a micro-batch, a tenth of a second and more; the flash kernel does not.
    torch.backends.cuda.enable_cudnn_sdp(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # TRL still uses the names that transformers 5 is about to retire; the reader can do nothing about it.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def require_of_trl(owner: Any, names: Iterable[str]) -> None:
    """ToolError where `owner` lacks what is overridden or set here: under another name that would change nothing, in silence."""
    import trl

    if missing := [name for name in names if not hasattr(owner, name)]:
        raise ToolError(
            f"trl {trl.__version__} has no {', '.join(missing)} in {getattr(owner, '__name__', type(owner).__name__)}: "
            f"this trainer runs with {TRL}: pip install '{TRL}'"
        )


def require_libraries() -> None:
    """ToolError that names the extra to install where a library that training needs is missing."""
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise ToolError(f"needs {', '.join(missing)}: pip install 'mletools[train]'")


def hold(lines: Iterable[Line[Rollout]]) -> list[Line[Rollout]]:
    """All of the lines, which are read while the heavy libraries are imported."""
    imports = threading.Thread(target=preload, daemon=True)
    imports.start()
    held = list(lines)
    imports.join()  # two threads must not import the same library at once
    return held


def resolve_model(model: str) -> str:
    """A folder as an absolute path, symbolic links followed (`latest` moves on while a run goes); else a hub name.

    ToolError: no such folder, and no hub's name either (those have one slash at most).
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ToolError(f"{model}: no such folder")
    return model


def adapter_base(folder: str | Path) -> str | None:
    """The base model of an adapter folder, or None when `folder` holds no adapter.

    A relative path in its adapter_config.json is looked for beside the adapter first, then from the current directory;
    what is no folder is taken for a hub name.
    """
    config = Path(folder) / "adapter_config.json"
    return base_of(config) if config.is_file() else None


def keep_to_one_gpu(config: Any) -> None:
    """One process trains on one GPU: of several that it sees, transformers would copy the model to each (DataParallel)."""
    if config.n_gpu > 1:
        config._n_gpu = 1


def unused_gpus(command: str) -> str | None:
    """What to say where this process, which no launcher started, sees several GPUs."""
    import torch

    count = torch.cuda.device_count()
    if processes() > 1 or count < 2:
        return None
    return f"trains on the first of {count} GPUs; all of them: accelerate launch --num-processes {count} $(which {command}) ..."


def halves(dtype: str) -> bool:
    """Whether a trainer with this --dtype computes in bfloat16: on a CPU where asked to, on a GPU always."""
    import torch

    return torch.cuda.is_available() or dtype == "bfloat16"


def device_settings(dtype: str) -> dict[str, bool]:
    """Arguments for transformers' TrainingArguments that depend on the machine."""
    import torch

    cuda = torch.cuda.is_available()
    return {"use_cpu": not cuda, "bf16": halves(dtype), "gradient_checkpointing": cuda, "dataloader_pin_memory": cuda}


class Loaded(NamedTuple):
    """A model to train, the PEFT config of a fresh adapter or None, and whether it is an adapter that was merged into its base."""

    model: Any
    adapter: Any
    merged: bool = False


def load_policy(model: str, lora_rank: int, lora_alpha: int, dtype: str = "float32") -> Loaded:
    """The policy in a folder, or of a hub name. rank 0 trains every weight.

    An adapter folder is continued (its rank must be `lora_rank`), or merged into its base at rank 0. Weights that are
    trained are float32; a frozen base is bfloat16 where the trainer computes in it (`halves`).
    """
    import torch
    from peft import LoraConfig, PeftModel
    from transformers import AutoModelForCausalLM

    frozen = torch.bfloat16 if lora_rank and halves(dtype) else torch.float32
    base = adapter_base(model)
    check_model(base or model)
    check_weights(Path(model))
    try:
        loaded = AutoModelForCausalLM.from_pretrained(base or model, dtype=frozen)
    except (OSError, ValueError) as error:
        raise ToolError(f"{base or model}: cannot be loaded as a language model: {error}") from error
    if base is None:
        if lora_rank == 0:
            return Loaded(loaded, None)
        fresh = LoraConfig(
            r=lora_rank, lora_alpha=lora_alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        return Loaded(loaded, fresh)
    adapted: Any = PeftModel.from_pretrained(loaded, model, is_trainable=lora_rank > 0)
    rank = adapted.peft_config[ADAPTER].r
    if lora_rank == 0:
        return Loaded(adapted.merge_and_unload().requires_grad_(True), None, merged=True)  # PEFT froze the base
    if rank != lora_rank:
        raise ToolError(f"{model}: is an adapter of rank {rank}: go on with --lora-rank {rank}, or 0 for all weights")
    return Loaded(adapted, None)


def keep_precision(model: Any) -> None:
    """Have adapters take their inputs as they are: autocast computes in bfloat16, and PEFT would copy them to float32 first."""
    for part in model.modules():
        if hasattr(part, "cast_input_dtype_enabled"):
            part.cast_input_dtype_enabled = False


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a model or adapter folder (an adapter without one uses its base's)."""
    from transformers import AutoTokenizer

    base = adapter_base(model)
    own = Path(model) / "tokenizer_config.json"
    source = model if base is None or own.is_file() else base
    check_model(source)
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ToolError(f"{source}: its tokenizer cannot be loaded: {error}") from error


def text_config(model: str) -> Any:
    """The configuration of the language model in a model or adapter folder."""
    from transformers import AutoConfig

    base = adapter_base(model) or model
    try:
        return AutoConfig.from_pretrained(base).get_text_config()
    except (OSError, ValueError) as error:
        raise ToolError(f"{base}: its configuration cannot be loaded: {error}") from error


def vocabulary_size(model: str) -> int:
    """Rows of the model's embedding: ids at or above it are another model's."""
    return int(text_config(model).vocab_size)


def context_length(model: str) -> int | None:
    """The longest sequence in tokens that the model was made for, or None where its configuration does not say."""
    length = getattr(text_config(model), "max_position_embeddings", None)
    return int(length) if length else None


def write_weights(
    model: Any, base: str, folder: Path, weights: "dict[str, torch.Tensor] | None" = None, dtype: Any = None
) -> None:
    """Save the adapter (naming `base`) or the full model into `folder`, in the formats of peft and transformers.

    weights: the state dict of a model whose own is sharded over processes. dtype: of a full model's weights in the folder;
    None: as they are.
    """
    if hasattr(model, "peft_config"):
        if model.peft_config[ADAPTER].base_model_name_or_path:
            model.peft_config[ADAPTER].base_model_name_or_path = base
        model.save_pretrained(folder, selected_adapters=[ADAPTER], save_embedding_layers=False, state_dict=weights)
    else:
        if dtype is not None:
            own = model.state_dict() if weights is None else weights
            weights = {
                name: value.to("cpu", dtype) if value.is_floating_point() else value for name, value in own.items()
            }
        if weights is not None:  # once gathered, a tied weight shares no memory with its copy, and would be saved twice
            tied = model.all_tied_weights_keys or {}
            weights = {name: value for name, value in weights.items() if name not in tied}
        model.save_pretrained(folder, state_dict=weights)
        if dtype is not None:  # transformers wrote the model's own
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            config["dtype"] = str(dtype).removeprefix("torch.")
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def write_config(model: str, folder: Path) -> None:
    """Save the configuration of a model folder or hub name into `folder`, beside weights that came without."""
    from transformers import AutoConfig, GenerationConfig

    AutoConfig.from_pretrained(model).save_pretrained(folder)
    with contextlib.suppress(OSError):  # a model may have none
        GenerationConfig.from_pretrained(model).save_pretrained(folder)


def export_merged(folder: Path, out: Path) -> Path:
    """The policy in `folder` as one full model with its tokenizer in `out`, which appears when it is whole."""
    model = load_policy(str(folder), 0, 0).model
    unfinished = out.with_name(out.name + ".partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    with filling(unfinished):
        model.save_pretrained(unfinished)
        load_tokenizer(str(folder)).save_pretrained(unfinished)
        shutil.copy(folder / "state.json", unfinished / "state.json")
    if out.exists():
        old = out.with_name(out.name + ".old.partial")
        shutil.rmtree(old, ignore_errors=True)
        os.rename(out, old)
        shutil.rmtree(old)
    os.rename(unfinished, out)
    return out


def restore_weights(model: Any, folder: Path) -> None:
    """Put the weights of a checkpoint into `model`, which was built as at the beginning of the run. ToolError."""
    if found := damaged_weights(folder):
        raise checkpoints.broken(*found) from found[1]
    if hasattr(model, "peft_config"):
        from peft import load_peft_weights, set_peft_model_state_dict

        weights = load_peft_weights(str(folder), device="cpu")
        result: Any = set_peft_model_state_dict(model, weights, adapter_name=ADAPTER)
        if result.unexpected_keys:
            raise ToolError(f"{folder}: holds weights that the model does not have: {result.unexpected_keys[:3]}")
    else:
        from transformers import AutoModelForCausalLM

        saved = AutoModelForCausalLM.from_pretrained(folder, dtype=model.dtype)
        model.load_state_dict(saved.state_dict())
