"""Runs untrusted solutions of machine-learning tasks and brings back what they printed and handed in.

Covered: the interface that every backend serves (`interface`), and the backend `local`, a warm fork server with
namespaces of its own for every run. Not covered: grading what comes back, and telling the agent anything about it.
Importing this package loads the standard library only.
"""

from mletools.sandbox.interface import BACKENDS, DEFAULT_PREIMPORT, Limits, Outcome, Sandbox, Setup, open_sandbox

__all__ = ["BACKENDS", "DEFAULT_PREIMPORT", "Limits", "Outcome", "Sandbox", "Setup", "open_sandbox"]
