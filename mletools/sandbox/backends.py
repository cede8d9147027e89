"""The table of backends on one machine, and how one is opened or chosen.

Not covered: Ray clusters (opening), how a backend isolates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

from ..records.errors import ToolError
from .interface import Sandbox, Setup

BACKENDS: dict[str, str] = {
    "local": "mletools.sandbox.local:LocalSandbox",
    "docker": "mletools.sandbox.container:DockerSandbox",
}


def choose(setup: Setup) -> tuple[str, list[str]]:
    """The backend with the most protections active on this machine, and a line about each backend.

    ToolError: none of them works.
    """
    active_counts: dict[str, int] = {}
    descriptions = []
    for name in BACKENDS:
        try:
            with open_backend(name, replace(setup, slots=1, preimport=(), gpus=())) as sandbox:
                protections = sandbox.protections
        except ToolError as error:
            descriptions.append(f"{name}: {error}")
            continue
        active_counts[name] = sum(protections.values())
        descriptions.append(f"{name}: {active_counts[name]} of {len(protections)} protections active")
    if not active_counts:
        raise ToolError(f"no sandbox works on this machine: {'; '.join(descriptions)}")
    return max(active_counts, key=lambda name: active_counts[name]), descriptions


@contextmanager
def open_backend(backend: str, setup: Setup) -> Iterator[Sandbox]:
    """Open the sandbox named `backend`, or the one that `auto` chooses; close it when the with block ends.

    ToolError: no such backend, no slot, or the backend does not work here.
    """
    check_backend(backend, setup)
    name = choose(setup)[0] if backend == "auto" else backend
    module, kind = BACKENDS[name].split(":")
    sandbox: Sandbox = getattr(import_module(module), kind)(setup)
    try:
        yield sandbox
    finally:
        sandbox.close()


def check_backend(backend: str, setup: Setup) -> None:
    """ToolError: no such backend, or no slot."""
    if backend not in (*BACKENDS, "auto"):
        raise ToolError(f"no sandbox named {backend!r}: choose from {', '.join(sorted(BACKENDS))}")
    if setup.slots < 1:
        raise ToolError(f"a sandbox needs at least 1 slot, not {setup.slots}")
