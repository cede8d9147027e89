"""Products of matrices in float32 on a CPU, at the rate of its widest instructions.

PyTorch leaves them to MKL, which gives processors that are not Intel's half of their AVX-512. oneDNN, a part of PyTorch, gives
them all: twice the rate, and the same at AVX2 (benchmarks/train_speed.md). Covered: one process alone; several may share out a matrix.
"""

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .step_loader import processes

CPUINFO = Path("/proc/cpuinfo")
LEAST = 32  # rows, columns and common entries of a product that is worth it
aten = torch.ops.aten


class OneDNN(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it this thread's products, those of backward passes too, are oneDNN's where they are in float32 and not narrow."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if types:  # tensors of another kind
            return func(*args, **given)
        if func is aten.mm.default and _covered(*args):
            return _product(*args)
        if func is aten.mm.out and _covered(*args) and given["out"].shape == _shape(*args):
            return given["out"].copy_(_product(*args))
        if func is aten.addmm.default and not given and _covered(*args[1:]) and args[0].shape == args[2].shape[1:]:
            return _product(args[1], args[2], args[0])
        if func is aten.addmm_.default and not given and _covered(*args[1:]) and args[0].shape == _shape(*args[1:]):
            return args[0].add_(_product(*args[1:]))
        return func(*args, **given)


def on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context for training on this device: OneDNN where it is faster, else one that changes nothing."""
    faster = device.type == "cpu" and processes() == 1 and _faster()
    return OneDNN() if faster else contextlib.nullcontext()  # type: ignore[no-untyped-call]


def _faster() -> bool:
    try:
        with CPUINFO.open() as file:
            vendor = next((line for line in file if line.startswith("vendor_id")), "")
    except OSError:  # not Linux
        return False
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise")  # it is not public: another PyTorch may lack it
    return known and "AMD" in vendor and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _covered(left: torch.Tensor, right: torch.Tensor) -> bool:
    (rows, inner), (common, columns) = left.shape, right.shape
    plain = left.dtype == right.dtype == torch.float32 and left.is_cpu and right.is_cpu
    return plain and inner == common and min(rows, inner, columns) >= LEAST


def _shape(left: torch.Tensor, right: torch.Tensor) -> tuple[int, int]:
    return left.size(0), right.size(1)


def _product(left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(left, right.t(), bias, "none", [], "")
    return found
