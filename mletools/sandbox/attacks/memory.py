"""Attacks on the memory limit: in one process, in many, and in memory that no process shows as its own.

Covered: unnamed files, shared segments, pipes, sockets, page tables, dropped shared pages, arguments, orphans. Where
nothing stops them they take a few hundred MB more than allowed. The verdict comes from the machine's memory in use
during the run, not from the program's claims. Not covered: how fast a limit acts.
"""

from dataclasses import replace

from ..interface import Outcome
from .attack import PARTS, Attack, Verdict, ends_with, programs, status_and_error
from .processes import SMALL
from .targets import AttackTargets

_SUSTAINED_S = 0.6  # an excess must last so long: a watcher may be late, other processes need memory too
_MARGIN_MB = 300


def _within_limit(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when the machine did not use much more than the limit for long, however the run ended."""
    used = targets.memory.sustained_mb(_SUSTAINED_S)
    seen = f"{max(0.0, used):.0f} MB where {SMALL.memory_mb} are allowed, status {outcome.status}"
    return Verdict(used <= SMALL.memory_mb + _MARGIN_MB, seen)


def _ended_or_refused(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when the limit ended the run, or when there was no room for the processes that would exceed it."""
    refused = outcome.status == "error" and b"OPEN" not in outcome.stdout
    return Verdict(outcome.status == "memory" or refused, f"status {status_and_error(outcome)}")


_LIMITS = {
    "memory in program arguments": replace(SMALL, processes=250),
    "memory in file locks": replace(SMALL, disk_mb=250),
}
_RULES = {
    "memory bomb": ends_with("memory"),
    "memory of many processes": _ended_or_refused,
    "memory in memfd files": ends_with("memory", "disk", "error"),
    "memory in System V segments": ends_with("memory", "error"),
}
_CONCURRENT = {"memory bomb", "memory of many processes"}
ATTACKS = tuple(
    Attack(name, "memory", code, _RULES[name], SMALL, concurrent=name in _CONCURRENT)
    if name in _RULES
    else Attack(name, "memory", PARTS["kept memory"] + code, _within_limit, _LIMITS.get(name, SMALL), measured=True)
    for name, code in programs("memory", PARTS).items()
)
