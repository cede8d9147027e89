"""The table of backends on one machine; opening and choosing one.

Not covered: Ray clusters (`opening`), isolation.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module

from ..base.errors import ToolError
from .interface import Sandbox, Setup

BACKENDS: dict[str, str] = {
    "local": "mletools.sandbox.local:LocalSandbox",
    "docker": "mletools.sandbox.container:DockerSandbox",
}


def choose(setup: Setup) -> tuple[str, list[str]]:
    """The backend with the most active protections on this machine, and a line about each backend.

    ToolError: none of them works.
    """
    counts: dict[str, int] = {}
    descriptions = []
    for name in BACKENDS:
        try:
            with open_backend(name, replace(setup, slots=1, preimport=(), gpus=())) as sandbox:
                protections = sandbox.protections
        except ToolError as error:
            descriptions.append(f"{name}: {error}")
            continue
        counts[name] = sum(protections.values())
        descriptions.append(f"{name}: {counts[name]} of {len(protections)} protections active")
    if not counts:
        raise ToolError(f"no sandbox works on this machine: {'; '.join(descriptions)}")
    return max(counts, key=lambda name: counts[name]), descriptions


@contextmanager
def open_backend(backend: str, setup: Setup) -> Iterator[Sandbox]:
    """Open the sandbox named `backend` (or `auto`) for the with block. ToolError: see `open_sandbox`."""
    check_backend(backend, setup)
    module, name = BACKENDS[choose(setup)[0] if backend == "auto" else backend].split(":")
    sandbox: Sandbox = getattr(import_module(module), name)(setup)
    with closing(sandbox):
        yield sandbox


def check_backend(backend: str, setup: Setup) -> None:
    """ToolError: no such backend, or no slot."""
    if backend not in (*BACKENDS, "auto"):
        raise ToolError(f"no sandbox named {backend!r}: choose from {', '.join(sorted(BACKENDS))}")
    if setup.slots < 1:
        raise ToolError(f"a sandbox needs at least 1 slot, not {setup.slots}")
