"""How fast a step was: tokens a second, and of a GPU's arithmetic the share that the model's weights account for."""

import re
from typing import Any

# FLOP a second of bfloat16 with dense matrices, as NVIDIA's data sheets have them; the first name that fits counts.
PEAKS = {
    "H100 PCIe": 756e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12,
    "RTX 4090": 165e12,
}  # fmt: skip
FORWARD = BACK = GRADIENT = 2  # operations of a weight and token: a multiplication and an addition each


def throughput(trainer: Any, tokens: float, seconds: float) -> dict[str, float]:
    """`tokens_per_s` of a step of all processes, and on a GPU whose peak is known `mfu`, the model FLOPs utilisation.

    tokens: of its sequences, prompts and all. What gradient checkpointing computes again and the products of attention with
    itself are not counted. No mfu of a model of experts, which uses a part of its weights for a token.
    """
    rate = tokens / seconds
    peak = _peak(trainer.args.device)
    if peak is None or getattr(trainer.model.config, "num_experts_per_tok", None):
        return {"tokens_per_s": rate}
    return {"tokens_per_s": rate, "mfu": rate * operations(trainer.model) / (peak * trainer.args.world_size)}


def operations(model: Any) -> int:
    """Of a token, forward and back: 6 for a weight that is trained, 4 for one that is frozen, 0 for one that is looked up."""
    looked_up = model.get_input_embeddings().weight
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is looked_up
    weights = [each for each in model.parameters() if tied or each is not looked_up]
    return sum(_count(each) * (FORWARD + BACK + GRADIENT * each.requires_grad) for each in weights)


def _count(weight: Any) -> int:
    return int(getattr(weight, "ds_numel", None) or weight.numel())  # ZeRO 3 leaves an empty one in its place


def _peak(device: Any) -> float | None:
    import torch

    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for known, peak in PEAKS.items() if re.search(rf"\b{known}\b", name)), None)
