"""Attacks on files, memory and environment: reading secrets, and writing outside the work folder.

Covered: paths, links, /proc, descriptors, mounts, memory, other runs. Not covered: the content of the interpreter's
folders (`tables`).
"""

from .attack import PARTS, Attack, programs

_CONCURRENT = {"files of a concurrent run", "memory of a concurrent run"}
ATTACKS = tuple(
    Attack(name, "files", code, concurrent=name in _CONCURRENT) for name, code in programs("reading", PARTS).items()
)
