"""A command under FSDP on CPUs: `torchrun ... fsdp_on_cpus.py COMMAND ...`, with accelerate's FSDP variables set.

torch shards over gloo as it does over NCCL, but accelerate offers FSDP on accelerators alone. Here it is told otherwise; all else is
as it is on GPUs. FSDP_OBSERVED=PATH: each process appends JSON lines of its micro-batches and of what it gathers to PATH.RANK.
"""

import json
import os
import runpy
import sys
from typing import Any

from accelerate import Accelerator, state
from accelerate.utils import DistributedType

as_it_was, backward_as_it_was = state.AcceleratorState.__init__, Accelerator.backward


def sharding(self: Any, *arguments: Any, **named: Any) -> None:
    as_it_was(self, *arguments, **named)
    plugin = named.get("fsdp_plugin")
    if plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
        state.PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        if self._mixed_precision != "no":
            plugin.set_mixed_precision(self._mixed_precision)


def held_gradients(model: Any) -> dict[str, int]:
    """Bytes of the gradients that this process holds, of its shard and unsharded."""
    from torch.distributed.fsdp import FSDPModule

    held = {"sharded": 0, "unsharded": 0}
    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    groups = {group for part in parts for group in part._get_fsdp_state()._fsdp_param_groups}  # some parts share one
    for weight in [weight for group in groups for weight in group.fsdp_params]:
        whole = getattr(getattr(weight, "_unsharded_param", None), "grad", None)
        for gradient in (whole, weight.unsharded_accumulated_grad):
            held["unsharded"] += 0 if gradient is None else gradient.nbytes
        if weight.sharded_param.grad is not None:
            held["sharded"] += weight.sharded_param.grad.to_local().nbytes
    return held


def observed(self: Any, loss: Any, **named: Any) -> None:
    backward_as_it_was(self, loss, **named)
    precision = self.state.fsdp_plugin.mixed_precision_policy
    tell(loss=str(loss.dtype), reduced=str(precision and precision.reduce_dtype), **held_gradients(self._models[0]))


def tell(**seen: Any) -> None:
    with open(f"{os.environ['FSDP_OBSERVED']}.{os.environ['RANK']}", "a") as file:
        file.write(json.dumps(seen) + "\n")


def watch() -> None:
    """Tell of what the loss gets of the model, and of what is gathered to be written."""
    from mletools.training import shards, trl_trainer

    scores, gather = trl_trainer.RecordedTrainer._scores, shards.gather

    def watched_scores(self: Any, *arguments: Any) -> Any:
        found = scores(self, *arguments)
        tell(scores=[str(each.dtype) for each in found])
        return found

    def watched_gather(trainer: Any) -> Any:
        found = gather(trainer)
        tell(gathered=list(found))
        return found

    trl_trainer.RecordedTrainer._scores = watched_scores  # type: ignore[method-assign]
    shards.gather = watched_gather
    Accelerator.backward = observed  # type: ignore[method-assign]


if __name__ == "__main__":
    state.AcceleratorState.__init__ = sharding  # type: ignore[method-assign]
    sys.argv = sys.argv[1:]
    if "FSDP_OBSERVED" in os.environ:
        watch()
    runpy.run_path(sys.argv[0], run_name="__main__")
