"""A pool of servers that handle one run at a time and are replaced when they die.

Covered: at most one run per slot, one retry when a server dies, closing while runs are active. Not covered: the servers
(`warm`: a process, `container`: a container with such a process).
"""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ..base.errors import ToolError


class ServerDied(Exception):
    """A server ended or stopped answering; its run may be tried on another."""


class DiedTwice(ToolError):
    """Two servers in turn died during one run."""


class Server(Protocol):
    """A server of a pool. `close` may be called from any thread; a run on it then ends in ServerDied."""

    def close(self) -> None:
        """End the server and its run."""


S = TypeVar("S", bound=Server)
T = TypeVar("T")


class ServerPool(Generic[S]):
    """Up to `slots` servers, started by `start` on demand. Methods may be called from any thread."""

    def __init__(self, slots: int, start: Callable[[Hashable], S]) -> None:
        """`start` receives the kind of server that a run needs; idle servers of another kind are closed for it."""
        self._start = start
        self._slots = threading.BoundedSemaphore(slots)
        self._most = slots
        self._lock = threading.Lock()
        self.idle: list[tuple[Hashable, S]] = []
        self.busy: list[S] = []
        self.closed = False

    def serve(self, work: Callable[[S], T], kind: Hashable = None) -> T:
        """The result of `work` on a server of this kind; waits while every slot is taken.

        DiedTwice: two servers in turn died of this work. ToolError: the pool is closed. Any other error of `work`
        propagates, and its server is dropped.
        """
        result, release = self.keep(work, kind)
        release(True)
        return result

    def keep(self, begin: Callable[[S], T], kind: Hashable = None) -> tuple[T, Callable[[bool], None]]:
        """Like `serve`, but the server stays taken until the returned function is called, once.

        Its argument says whether the server can be reused.
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
        """End every server, including busy ones. Later calls of `serve` raise ToolError."""
        with self._lock:
            self.closed = True
            servers = [*(server for _, server in self.idle), *self.busy]
            self.idle.clear()
        for server in servers:
            server.close()

    def _take(self, kind: Hashable) -> S:
        surplus = None
        with self._lock:
            if self.closed:
                raise ToolError("the sandbox is closed")
            for index in reversed(range(len(self.idle))):
                if self.idle[index][0] == kind:
                    server = self.idle.pop(index)[1]
                    self.busy.append(server)
                    return server
            if self.idle and len(self.idle) + len(self.busy) >= self._most:
                surplus = self.idle.pop(0)[1]
        if surplus is not None:
            surplus.close()
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
