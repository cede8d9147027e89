"""LoRA layers (Hu et al. 2021) in float32 on a CPU, in fewer passes over memory.

PEFT computes W x, B A x, its multiple and the sum as four tensors of the layer's width. Here A x is added to W x by the product with B
itself, which takes a quarter less memory of a step (benchmarks/train_speed.md); gradients are autograd's.

Covered: one adapter that is not merged, without dropout, bias or a variant such as DoRA. Others, autocast and GPUs: PEFT's own
way, and so several processes, which may share out the weights (ZeRO 3) and gather them as layers are called.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear


class AddedLinear(Linear):
    """A linear layer and its adapter: (..., in_features) to (..., out_features)."""

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        base: Any = self.base_layer
        plain = not (args or kwargs or self.disable_adapters or self.merged or torch.is_autocast_enabled(x.device.type))
        if not (plain and x.dtype == base.weight.dtype == torch.float32 and x.device.type == "cpu"):
            return super().forward(x, *args, **kwargs)
        ((name, down),), ((_, up),) = self.lora_A.items(), self.lora_B.items()
        rows = x.reshape(-1, x.size(-1))
        found: torch.Tensor = base(rows).addmm_(down(rows), up.weight.T, alpha=self.scaling[name])
        return found.view(*x.shape[:-1], found.size(-1))


def add_in_place(model: Any) -> None:
    """Have the model's LoRA layers compute as this module does, those that it covers."""
    for part in model.modules():
        if type(part) is Linear and _covered(part):
            part.__class__ = AddedLinear


def _covered(part: Any) -> bool:
    return (
        type(part.base_layer) is torch.nn.Linear
        and list(part.lora_A) == part.active_adapters
        and len(part.lora_A) == 1
        and not part.lora_variant
        and not any(part.lora_bias.values())
        and all(type(dropout) is torch.nn.Identity for dropout in part.lora_dropout.values())
    )
