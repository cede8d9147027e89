"""Runs untrusted solutions of machine-learning tasks and returns their output and submission.

Covered: the interface of all backends (`interface`); the backend `local`, a warm fork server with new namespaces for
every run; `docker`, the same inside a container; both on the nodes of a Ray cluster; sessions, which run cells in turn
(`session`); attacks that test a sandbox (`attacks`, `selftest`). Not covered: grading, prompts. Importing this package
loads the standard library only.
"""

from .backends import BACKENDS, choose
from .interface import DEFAULT_IMAGE, DEFAULT_PREIMPORT, STARTS, Cell, Limits, Outcome, Sandbox, Session, Setup
from .opening import open_sandbox

__all__ = [
    "BACKENDS",
    "DEFAULT_IMAGE",
    "DEFAULT_PREIMPORT",
    "STARTS",
    "Cell",
    "Limits",
    "Outcome",
    "Sandbox",
    "Session",
    "Setup",
    "choose",
    "open_sandbox",
]
