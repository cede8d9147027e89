"""A command under FSDP on CPUs: `torchrun ... fsdp_on_cpus.py COMMAND ...`, with accelerate's FSDP variables set.

torch shards over gloo as it does over NCCL, but accelerate offers FSDP on accelerators alone. Here it is told otherwise; all else is
as it is on GPUs. FSDP_OBSERVED=PATH: each process appends a JSON line for each micro-batch to PATH and its rank.
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
    for part in model.modules():
        for group in part._get_fsdp_state()._fsdp_param_groups if isinstance(part, FSDPModule) else ():
            for weight in group.fsdp_params:
                whole = getattr(getattr(weight, "_unsharded_param", None), "grad", None)
                for gradient in (whole, weight.unsharded_accumulated_grad):
                    held["unsharded"] += 0 if gradient is None else gradient.nbytes
                if weight.sharded_param.grad is not None:
                    held["sharded"] += weight.sharded_param.grad.to_local().nbytes
    return held


def observed(self: Any, loss: Any, **named: Any) -> None:
    backward_as_it_was(self, loss, **named)
    seen = {"loss": str(loss.dtype), "gradients": held_gradients(self._models[0])}
    if trainer := sys.modules.get("mletools.training.trl_trainer"):
        seen["scores"] = trainer.seen
    with open(f"{os.environ['FSDP_OBSERVED']}.{self.process_index}", "a") as file:
        file.write(json.dumps(seen) + "\n")


def watch_scores() -> None:
    """Keep the dtypes of log-probabilities and entropies, as the loss gets them."""
    from mletools.training import trl_trainer

    scores = trl_trainer.RecordedTrainer._scores

    def watched(self: Any, *arguments: Any) -> Any:
        found = scores(self, *arguments)
        trl_trainer.seen = [str(each.dtype) for each in found if each is not None]  # type: ignore[attr-defined]
        return found

    trl_trainer.RecordedTrainer._scores = watched  # type: ignore[method-assign]


if __name__ == "__main__":
    state.AcceleratorState.__init__ = sharding  # type: ignore[method-assign]
    sys.argv = sys.argv[1:]
    if "FSDP_OBSERVED" in os.environ:
        Accelerator.backward = observed  # type: ignore[method-assign]
        if "grpo" in sys.argv[0]:
            watch_scores()
    runpy.run_path(sys.argv[0], run_name="__main__")
