"""Attacks on what runs share beside answers: bytes from one run to another, and limits that all runs of a user share.

Covered: locks, opened files and counters of a concurrent run; the machine's memory of a library file, for the next run;
queued signals, locked memory, and writes to the disk; settings of the process that reports the run. Not covered: what
timing, load, free memory and inode numbers tell (docs/security.md has their rates).
"""

from .attack import PARTS, Attack, programs

_CONCURRENT = {"locks of a concurrent run", "files that a concurrent run opens"}
_FOLLOWED_BY = {"library files in the machine's memory": PARTS["find cached"]}
ATTACKS = tuple(
    Attack(name, "other runs", code, concurrent=name in _CONCURRENT, followed_by=_FOLLOWED_BY.get(name))
    for name, code in programs("other_runs", PARTS).items()
)
