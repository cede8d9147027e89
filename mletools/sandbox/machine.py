"""The machine that programs run on, as records keep it: processor, cores, memory, GPU.

Covered: Linux, as /proc tells of it; in a container that is the machine around it. Not covered: what a container, a cgroup
or a sandbox grants of it (`Limits` say what a run may use).
"""

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..records.rollout import Machine

_ROOT = Path("/")  # of /proc


def this_machine(gpu: str | None = None) -> "Machine":
    """This machine. `gpu`: the model of the card that a run has to itself."""
    cpu, memory_gb = _processor_and_memory()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gb": memory_gb, "gpu": gpu}


@cache
def _processor_and_memory() -> tuple[str, int | None]:
    """The processor's model, or its architecture where the kernel names no model; GB of memory.

    Kernels of machines of one kind keep different megabytes for themselves, so GB are whole.
    """
    model = _told("cpuinfo", r"^model name\s*:\s*(.*?)\s*$")
    total = _told("meminfo", r"^MemTotal:\s*([0-9]+) kB")
    return model or platform.machine(), None if total is None else round(int(total) / 2**20)


def _told(file: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, (_ROOT / "proc" / file).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None
