"""A command under FSDP on CPUs: `torchrun ... fsdp_on_cpus.py COMMAND ...`, with accelerate's FSDP variables set.

torch shards over gloo as it does over NCCL, but accelerate offers FSDP on accelerators alone. Here it is told otherwise; all else is
as it is on GPUs.
"""

import runpy
import sys
from typing import Any

from accelerate import state
from accelerate.utils import DistributedType

as_it_was = state.AcceleratorState.__init__


def sharding(self: Any, *arguments: Any, **named: Any) -> None:
    as_it_was(self, *arguments, **named)
    plugin = named.get("fsdp_plugin")
    if plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
        state.PartialState._shared_state["distributed_type"] = DistributedType.FSDP


if __name__ == "__main__":
    state.AcceleratorState.__init__ = sharding  # type: ignore[method-assign]
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
