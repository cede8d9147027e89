"""Opens a sandbox on this machine or on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .backends import check_backend, open_backend
from .interface import Sandbox, Setup


@contextmanager
def open_sandbox(
    backend: str, setup: Setup, on: str | None = None, said: Callable[[str], None] = lambda line: None
) -> Iterator[Sandbox]:
    """Open the sandbox named `backend`, or the one that `auto` chooses; close it when the with block ends.

    `on` names a Ray cluster (see on_ray) whose nodes open it instead of this machine; `said` receives messages for the
    user while runs go on, one line each. ToolError: no such backend, no slot, or the backend does not work here.
    """
    if on is None:
        with open_backend(backend, setup) as sandbox:
            yield sandbox
        return
    check_backend(backend, setup)
    from .on_ray import RaySandbox  # needed on clusters only

    cluster = RaySandbox(on, backend, setup, said)
    try:
        yield cluster
    finally:
        cluster.close()
