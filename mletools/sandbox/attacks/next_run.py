"""Attacks on the next run: changed libraries, planted modules, settings, shared memory, keys.

Covered: two runs in sequence. The second one is honest, prints everything that a process can inherit and must give the
same outcome as always; or it looks for what the first one left. Not covered: timing and load side channels.
"""

from .attack import PARTS, Attack, next_run_unchanged, programs

_FOLLOWED_BY = {
    "shared memory and files left behind": PARTS["find shared"],
    "keys left in kernel keyrings": PARTS["find key"],
}
ATTACKS = tuple(
    Attack(name, "next run", code, followed_by=_FOLLOWED_BY[name])
    if name in _FOLLOWED_BY
    else Attack(name, "next run", code, next_run_unchanged, followed_by=PARTS["honest run"])
    for name, code in programs("next_run", PARTS).items()
)
