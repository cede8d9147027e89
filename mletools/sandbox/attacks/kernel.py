"""Attacks on kernel interfaces that lead out of a sandbox, or once did.

Covered: whether the kernel refuses a call before it checks the arguments. The arguments are chosen so that a permitted
call changes nothing. Not covered: bugs in calls that every program needs.
"""

import re

from ..gpus import cards, find
from ..interface import Outcome
from .attack import PARTS, Attack, Verdict, programs, runs_to_end
from .targets import AttackTargets


def _devices_are_its_own(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when nothing was opened but what belongs to the lease; in a container, whose daemon numbers them, one card."""
    verdict = runs_to_end(outcome, targets)
    opened = re.findall(r"^opened (\S+)$", outcome.stdout.decode(errors="replace"), re.MULTILINE)
    if not verdict.sealed or not opened:
        return verdict
    if outcome.gpu is None:
        own = False
    elif outcome.backend == "local":
        own = set(opened) <= set(find(outcome.gpu, cards()).nodes)
    else:
        of_cards = [name for name in opened if not name.startswith("nvidia-caps/")]
        own = len(of_cards) == 1 and re.fullmatch("nvidia[0-9]+", of_cards[0]) is not None
    return Verdict(own, f"opened {', '.join(opened)}")


_RULES = {"devices of other runs": _devices_are_its_own}
_CONCURRENT = {"tracing and reading other processes"}
_SERIOUS = _CONCURRENT | {
    "capabilities and root",
    "setuid programs",
    "kernel devices and settings",
    "devices of other runs",
}
ATTACKS = tuple(
    Attack(
        name,
        "kernel",
        PARTS["system call numbers"] + code,
        _RULES.get(name, runs_to_end),
        concurrent=name in _CONCURRENT,
        serious=name in _SERIOUS,
    )
    for name, code in programs("kernel", PARTS).items()
)
