"""Runs untrusted solutions of machine-learning tasks and brings back what they printed and handed in.

Covered: the interface that every backend serves (`interface`); the backend `local`, a warm fork server with namespaces
of its own for every run; `docker`, the same inside a container; both spread over the nodes of a Ray cluster; hostile
programs that try all this out (`attacks`, `selftest`); sessions, in which cells run one after another (`session`). Not
covered: grading what comes back, and telling the agent anything about it. Importing this package loads the standard
library only.
"""

from .backends import BACKENDS, choose
from .interface import (
    DEFAULT_IMAGE,
    DEFAULT_PREIMPORT,
    STARTS,
    Cell,
    Limits,
    Outcome,
    Sandbox,
    Session,
    Setup,
)
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
