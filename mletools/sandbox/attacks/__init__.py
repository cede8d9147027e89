"""The attacks on a sandbox, one table for `mle-sandbox --selftest` and for the tests.

Covered: a hostile program for each thing that a solution must not do, and a rule that decides from outside whether it
succeeded. Not covered: bugs of the kernel and the container engine; timing and load side channels.
"""

from . import kernel, memory, network, next_run, other_runs, processes, reading, submissions, tables
from .attack import Attack, Verdict, program
from .targets import AttackTargets

ATTACKS: tuple[Attack, ...] = (
    *reading.ATTACKS,
    *tables.ATTACKS,
    *network.ATTACKS,
    *processes.ATTACKS,
    *memory.ATTACKS,
    *submissions.ATTACKS,
    *next_run.ATTACKS,
    *other_runs.ATTACKS,
    *kernel.ATTACKS,
)

__all__ = ["ATTACKS", "Attack", "AttackTargets", "Verdict", "program"]
