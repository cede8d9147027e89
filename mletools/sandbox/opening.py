"""Opens a sandbox on this machine or on the nodes of a Ray cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .backends import check_backend, open_backend
from .interface import Sandbox, Setup


@contextmanager
def open_sandbox(
    backend: str, setup: Setup, on: str | None = None, notify: Callable[[str], None] = lambda line: None
) -> Iterator[Sandbox]:
    """Open the sandbox named `backend` (or `auto`) for the with block.

    `on` is a Ray cluster (see on_ray) whose nodes open it instead of this machine; `notify` receives messages for the
    user during runs, one line each. ToolError: no such backend, no slot, or the backend does not work here.
    """
    if on is None:
        with open_backend(backend, setup) as sandbox:
            yield sandbox
        return
    check_backend(backend, setup)
    from .on_ray import RaySandbox  # imports Ray

    with RaySandbox(on, backend, setup, notify) as cluster:
        yield cluster
