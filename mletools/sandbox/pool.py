"""Servers that do one run at a time: taken for a run, given back, replaced when they die.

Covered: at most as many runs at once as there are slots, one more try when a server dies, an end that interrupts what
is under way. Not covered: what a server is (`warm`: a process, `container`: a container with one inside).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ..records.errors import ToolError


class ServerDied(Exception):
    """A server went away or stopped answering; the run that it had may be tried on another."""


class DiedTwice(ToolError):
    """Two servers in turn died of one run."""


class Server(Protocol):
    """What a pool holds. `close` may be called from any thread, also during a run, which then ends in ServerDied."""

    def close(self) -> None:
        """End the server and what it runs."""


S = TypeVar("S", bound=Server)
T = TypeVar("T")


class ServerPool(Generic[S]):
    """Up to `slots` servers, made by `start` as they are wanted. Its methods may be called from any thread."""

    def __init__(self, slots: int, start: Callable[[Hashable], S]) -> None:
        """`start` takes the kind of server that a run asks for; servers of another kind make room for it."""
        self._start = start
        self._slots = threading.BoundedSemaphore(slots)
        self._most = slots
        self._lock = threading.Lock()
        self.idle: list[tuple[Hashable, S]] = []
        self.busy: list[S] = []
        self.closed = False

    def serve(self, work: Callable[[S], T], kind: Hashable = None) -> T:
        """What `work` returns for a server of this kind; waits while every slot is taken.

        DiedTwice: two servers in turn died of this work. ToolError: the pool is closed. Any other error of `work`
        passes, and costs its server.
        """
        with self._slots:
            server, result = self._try_twice(work, kind)
            self._give_back(server, kind)
            return result

    def keep(self, begin: Callable[[S], T], kind: Hashable = None) -> tuple[T, Callable[[bool], None]]:
        """Like `serve`, but the server stays taken until the returned function is called, once.

        It is told whether the server is fit for more work.
        """
        self._slots.acquire()
        try:
            server, result = self._try_twice(begin, kind)
        except BaseException:
            self._slots.release()
            raise

        def release(fit: bool) -> None:
            try:
                if fit:
                    self._give_back(server, kind)
                else:
                    self._drop(server)
            finally:
                self._slots.release()

        return result, release

    def _try_twice(self, work: Callable[[S], T], kind: Hashable) -> tuple[S, T]:
        for _ in range(2):
            try:
                server = self._take(kind)
            except ServerDied:
                continue
            try:
                return server, work(server)
            except ServerDied:
                self._drop(server)
                if self.closed:
                    raise ToolError("the sandbox was closed during a run") from None
            except BaseException:
                self._drop(server)
                raise
        raise DiedTwice("the sandbox's warm server died twice on one run: is this machine out of memory?")

    def close(self) -> None:
        """End every server, also those at work. Later calls of `serve` raise ToolError."""
        with self._lock:
            self.closed = True
            servers = [*(server for _, server in self.idle), *self.busy]
            self.idle.clear()
        for server in servers:
            server.close()

    def _take(self, kind: Hashable) -> S:
        spare = None
        with self._lock:
            if self.closed:
                raise ToolError("the sandbox is closed")
            for at in reversed(range(len(self.idle))):
                if self.idle[at][0] == kind:
                    server = self.idle.pop(at)[1]
                    self.busy.append(server)
                    return server
            if self.idle and len(self.idle) + len(self.busy) >= self._most:
                spare = self.idle.pop(0)[1]
        if spare is not None:
            spare.close()
        server = self._start(kind)
        with self._lock:
            if not self.closed:
                self.busy.append(server)
                return server
        server.close()
        raise ToolError("the sandbox is closed")

    def _give_back(self, server: S, kind: Hashable) -> None:
        with self._lock:
            if not self.closed:
                self.busy.remove(server)
                self.idle.append((kind, server))

    def _drop(self, server: S) -> None:
        with self._lock:
            if server in self.busy:
                self.busy.remove(server)
        server.close()
