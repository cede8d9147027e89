"""The command's side of a session in a container, where a local session does the work (`agent`).

Covered: cells there and back, an end that any thread may call for. Not covered: limits, the box and the truth about how
a cell ended, which are the local session's (`session`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..records.errors import ToolError
from .agent import read_result
from .engine import Container
from .interface import Cell
from .pool import ServerDied

_SLACK_S = 200.0  # seconds beside those of a cell itself


class DockerSession:
    """A session in a container of its own; see `interface.Session`."""

    def __init__(self, container: Container, protections: dict[str, bool]) -> None:
        """`container` has opened a session."""
        self.backend = "docker"
        self.protections = protections
        self.finish: Callable[[bool], None] = lambda fit: None  # called once at the end: is the container fit for more?
        self._container = container
        self._turn = threading.Lock()  # held by who talks to the container
        self._over = self._closing = self._closed = False
        self._fit = True

    def python(self, code: str, wall_s: float) -> Cell:
        """See Session.python."""
        return self._do("python", code, wall_s)

    def bash(self, command: str, wall_s: float) -> Cell:
        """See Session.bash."""
        return self._do("bash", command, wall_s)

    def close(self) -> None:
        """See Session.close. While a cell runs it takes the whole container."""
        self._closing = True
        if not self._turn.acquire(blocking=False):
            self._fit = False
            self._container.close()
            self._turn.acquire()
        try:
            if self._closed:
                return
            self._closed = True
            try:
                if self._fit:
                    self._container.ask({"do": "close"}, seconds=_SLACK_S)
            except (ServerDied, ToolError):
                self._fit = False
            self.finish(self._fit)
        finally:
            self._turn.release()

    def _do(self, kind: str, text: str, wall_s: float) -> Cell:
        with self._turn:
            if self._closing or self._over:
                raise ToolError("this session is over: open another")
            began = time.monotonic()
            order = {"do": kind, "text": text, "wall_s": wall_s}
            try:
                reply, content = self._container.ask(order, seconds=wall_s + _SLACK_S)
            except (ServerDied, ToolError) as error:
                self._over, self._fit = True, False
                if self._closing:
                    why = "the session was closed"
                    return Cell("killed", b"", time.monotonic() - began, False, None, why)
                if isinstance(error, ToolError):
                    raise
                raise ToolError("the container of a session went away") from None
            cell = read_result(Cell, reply, content)
            self._over = not cell.alive
            return cell
