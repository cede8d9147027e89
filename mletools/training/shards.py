"""A model that FSDP or DeepSpeed shards over processes: how it computes, its weights as a whole, its shards on the disk.

Only weights that are trained are gathered and saved: the base of an adapter may be a hundred times as large, and is on the disk
already. Covered: FSDP2, FSDP1 and DeepSpeed's ZeRO as accelerate sets them up; FSDP1 gathers frozen weights, too.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def sharded(trainer: Any) -> bool:
    """True if FSDP or DeepSpeed holds the weights."""
    return bool(trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled)


def settle(accelerator: Any) -> None:
    """Let FSDP sum gradients in float32 and round no output; call it before a model is sharded.

    accelerate's policy for bfloat16 rounds both, a log-probability of -10 by up to 0.03. Without a policy for outputs, layers
    hand on what they computed, and accelerate makes float32 of what the model returns. Each micro-batch's gradient is
    reduced at once: held back until the last one, that of all weights would lie unsharded in every process.
    """
    import torch

    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    if plugin is None:
        return
    accelerator.gradient_state.plugin_kwargs["sync_each_batch"] = True
    precision = plugin.mixed_precision_policy
    if precision is not None:
        outputs = {"output_dtype": None} if hasattr(precision, "output_dtype") else {}  # FSDP1 rounds none
        plugin.mixed_precision_policy = replace(precision, reduce_dtype=torch.float32, **outputs)


def gather(trainer: Any) -> "dict[str, torch.Tensor]":
    """The trained weights, whole, on the CPU, by name; all processes come here, and the others than the first may get none."""
    accelerator, model, frozen = trainer.accelerator, trainer.model_wrapped, _frozen(trainer)
    if accelerator.is_fsdp2:
        return _gather_fsdp2(model, frozen, accelerator)
    if frozen and trainer.is_deepspeed_enabled:
        if model.zero_optimization_stage() == 3:
            return model._consolidated_16bit_state_dict(exclude_frozen_parameters=True) or {}
        state = trainer.model.state_dict()  # views of one long tensor
        return {name: value.detach().cpu().clone() for name, value in state.items() if name not in frozen}
    return accelerator.get_state_dict(model) or {}


def _frozen(trainer: Any) -> set[str]:
    # with both names of a tied weight, which a state dict has, too
    named = trainer.model.named_parameters(remove_duplicate=False)
    return {name for name, weight in named if not weight.requires_grad}


def _gather_fsdp2(model: Any, frozen: set[str], accelerator: Any) -> "dict[str, torch.Tensor]":
    """Tensor by tensor, into the first process's memory."""
    whole = {}
    for name, value in model.state_dict().items():
        if name not in frozen:
            full = value.to(accelerator.device).full_tensor() if hasattr(value, "full_tensor") else value
            if accelerator.is_main_process:
                whole[name] = full.cpu()
    return whole


def save(trainer: Any, folder: Path) -> None:
    """Write this process's shards of trained weights and of the optimiser; all processes call it together."""
    from accelerate.utils import save_fsdp_model, save_fsdp_optimizer

    accelerator, model = trainer.accelerator, trainer.model_wrapped
    accelerator.wait_for_everyone()
    if trainer.is_fsdp_enabled:
        plugin = accelerator.state.fsdp_plugin
        save_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)
        save_fsdp_optimizer(plugin, accelerator, trainer.optimizer, model, str(folder))
    else:
        accelerator.save_state(str(folder), exclude_frozen_parameters=True)
    accelerator.wait_for_everyone()


def load(trainer: Any, folder: Path) -> None:
    """Put what `save` wrote, with as many processes, into a model and an optimiser built afresh."""
    from accelerate.utils import load_fsdp_model, load_fsdp_optimizer

    accelerator, model = trainer.accelerator, trainer.model_wrapped
    if trainer.is_fsdp_enabled:
        plugin = accelerator.state.fsdp_plugin
        load_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)
        load_fsdp_optimizer(plugin, accelerator, trainer.optimizer, model, str(folder))
    else:
        accelerator.load_state(str(folder), load_module_strict=not _frozen(trainer))
