"""The attacks on a sandbox, one table for `mle-sandbox --selftest` and for the tests.

Covered: a hostile program for everything that a solution must not do, and how to tell from outside whether it could.
Not covered: flaws of the kernel and of the container engine, and channels in time and load.
"""

from __future__ import annotations

from . import handing_in, kernel, memory, network, next_run, processes, reading
from .attack import Attack, Judged, program
from .world import AttackWorld

ATTACKS: tuple[Attack, ...] = (
    *reading.ATTACKS,
    *network.ATTACKS,
    *processes.ATTACKS,
    *memory.ATTACKS,
    *handing_in.ATTACKS,
    *next_run.ATTACKS,
    *kernel.ATTACKS,
)

__all__ = ["ATTACKS", "Attack", "AttackWorld", "Judged", "program"]
