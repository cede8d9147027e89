"""The size of the pieces in which both trainers compute logits.

TRL's language-model head never holds all logits: it computes log-probabilities and entropies tile by tile, tokens by
vocabulary entries, and computes each tile again in the backward pass. Here the tiles get a size that a number of megabytes
bounds, and on a CPU, too, tokens without loss have none.
"""

from typing import Any

from .policy import require_of_trl

# bytes of an entry: a half on a GPU; on a CPU eight copies in float32 and one of bools while its gradient is computed
GPU_BYTES, CPU_BYTES = 2, 33
GPU_WIDTH, CPU_WIDTH = 32768, 2048  # vocabulary entries of a tile
GPU_MEGABYTES, CPU_MEGABYTES = 268.5, 64  # 4,096 tokens on a GPU: rows of whole blocks


def tile(megabytes: float | None, gpu: bool) -> tuple[int, int]:
    """(tokens, vocabulary entries) of a tile that takes at most so many megabytes (1e6 bytes); None: the default."""
    width, size = (GPU_WIDTH, GPU_BYTES) if gpu else (CPU_WIDTH, CPU_BYTES)
    if megabytes is None:
        megabytes = GPU_MEGABYTES if gpu else CPU_MEGABYTES
    rows = int(megabytes * 1e6 // (width * size))
    return (rows, width) if rows else (1, max(1, int(megabytes * 1e6 // size)))


def set_tiles(megabytes: float | None) -> None:
    """Have TRL's head compute so, in this process, from now on."""
    import torch
    import trl.kernels.chunked_logprob as kernel
    import trl.trainer.utils as head

    require_of_trl(kernel, ["TOKEN_CHUNK_SIZE"])
    require_of_trl(head, ["_CHUNKED_LOGPROB_CHUNK_SIZE", "_use_triton"])
    kernel.TOKEN_CHUNK_SIZE, head._CHUNKED_LOGPROB_CHUNK_SIZE = tile(megabytes, torch.cuda.is_available())
    head._use_triton = _tokens_with_loss_only  # what it decides there is whether the others are left out


def _tokens_with_loss_only(device: Any) -> bool:
    return True
