"""The parts that the sandboxes and sessions of all backends share.

Covered: one cell at a time, `close` from any thread, sessions that end with their sandbox. Not covered: running a cell.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from ..base.errors import ToolError
from .interface import Cell

if TYPE_CHECKING:
    from ..records.rollout import Machine

REPLY_S = 200.0  # seconds that a remote session may take in addition to those of a cell


class BaseSession:
    """See `interface.Session`. A subclass runs cells, aborts the running cell, and ends the session."""

    def __init__(self, backend: str, protections: dict[str, bool], outputs: Sequence[str]) -> None:
        self.backend, self.protections, self.declared = backend, protections, outputs
        self.machine: Machine | None = None  # set by the sandbox that opens it, as is its device
        self.gpu: str | None = None
        self.finish: Callable[[bool], None] = lambda fit: None  # called once at the end; fit: the server is reusable
        self._turn = threading.Lock()  # held while a cell runs or the session ends
        self._over = self._closing = self._closed = False
        self._fit = True

    def python(self, code: str, wall_s: float) -> Cell:
        """See Session.python."""
        return self._cell("python", code, wall_s)

    def bash(self, command: str, wall_s: float) -> Cell:
        """See Session.bash."""
        return self._cell("bash", command, wall_s)

    def close(self) -> None:
        """See Session.close."""
        self._closing = True
        if not self._turn.acquire(blocking=False):
            self._abort()
            self._turn.acquire()
        try:
            if not self._closed:
                self._closed = True
                self._end()
                self.finish(self._fit)
        finally:
            self._turn.release()

    def _cell(self, kind: str, text: str, wall_s: float) -> Cell:
        with self._turn:
            if self._closing or self._over:
                raise ToolError("this session is over: open another")
            try:
                cell = self._run(kind, text, wall_s)
            except ToolError:
                self._over, self._fit = True, False
                if not self._closing:
                    raise
            if self._closing:  # whatever came of the cell, it was not left alone to its end
                raise ToolError("the session was closed while a cell ran")
            self._over = not cell.alive
            return cell

    def _run(self, kind: str, text: str, wall_s: float) -> Cell:
        """Run one cell. ToolError: the session is lost."""
        raise NotImplementedError

    def _abort(self) -> None:
        """End the cell that another thread runs."""
        raise NotImplementedError

    def _end(self) -> None:
        """End the session; sets `_fit` to False if its server cannot be reused."""
        raise NotImplementedError


S = TypeVar("S", bound=BaseSession)
B = TypeVar("B", bound="BaseSandbox")


class BaseSandbox:
    """The sessions of a sandbox, and its with block."""

    def __init__(self) -> None:
        self._sessions: set[BaseSession] = set()
        self._closed = False

    def close(self) -> None:
        """See Sandbox.close."""
        raise NotImplementedError

    def __enter__(self: B) -> B:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_session(self, session: S, release: Callable[[bool], None], resources: ExitStack) -> S:
        """At the end of `session`, calls `release` and closes `resources`. ToolError: the sandbox is closed."""

        def finish(fit: bool) -> None:
            self._sessions.discard(session)
            with resources:
                release(fit)

        session.finish = finish
        self._sessions.add(session)
        if self._closed:
            session.close()
            raise ToolError("the sandbox is closed")
        return session

    def _close_sessions(self) -> None:
        self._closed = True
        for session in tuple(self._sessions):
            session.close()
