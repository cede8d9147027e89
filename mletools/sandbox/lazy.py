"""A sandbox that is opened when it is first needed, for what runs now and then."""

import threading
from contextlib import ExitStack

from .interface import Sandbox, Setup
from .opening import open_sandbox


class LazySandbox:
    """A sandbox with one slot: `open` opens it, the end of the with block closes it. Users hold `lock` meanwhile.

    It can be pickled: a worker process opens a sandbox of its own, which ends with the process.
    """

    def __init__(self, backend: str):
        self.backend, self.lock = backend, threading.Lock()
        self._stack = ExitStack()
        self._sandbox: Sandbox | None = None

    def __reduce__(self) -> tuple[type["LazySandbox"], tuple[str]]:
        return LazySandbox, (self.backend,)

    def open(self) -> Sandbox:
        """The sandbox, opened by the first call. ToolError: it cannot be opened."""
        if self._sandbox is None:
            self._sandbox = self._stack.enter_context(open_sandbox(self.backend, Setup(1)))
        return self._sandbox

    def __enter__(self) -> "LazySandbox":
        return self

    def __exit__(self, *error: object) -> None:
        self._sandbox = None
        self._stack.close()
