"""The command's side of a session on a node of a Ray cluster, where an actor holds an ordinary one (`on_node`).

Covered: cells there and back, an end that any thread may call for. Not covered: opening one (`on_ray`); limits, the box
and the truth about how a cell ended, which are the inner session's. A session that is lost with its node stays lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..records.errors import ToolError
from .interface import Cell

_SLACK_S = 200.0  # seconds beside those of a cell itself


class RaySession:
    """A session that an actor holds; see `interface.Session`."""

    def __init__(
        self,
        ray: Any,
        actor: Any,
        protections: dict[str, bool],
        backend: str,
        finish: Callable[[RaySession], None],
    ) -> None:
        """`actor` has opened a session of the backend; `finish` is called once at the end."""
        self.backend, self.protections = backend, protections
        self._ray, self._actor, self._finish = ray, actor, finish
        self._turn = threading.Lock()  # held by who waits for the actor
        self._over = self._closing = self._closed = False

    def python(self, code: str, wall_s: float) -> Cell:
        """See Session.python."""
        return self._do("python", code, wall_s)

    def bash(self, command: str, wall_s: float) -> Cell:
        """See Session.bash."""
        return self._do("bash", command, wall_s)

    def close(self) -> None:
        """See Session.close. While a cell runs its actor is killed."""
        self._closing = True
        if not self._turn.acquire(blocking=False):
            self._kill()
            self._turn.acquire()
        try:
            if self._closed:
                return
            self._closed = True
            with suppress(Exception):  # the node may be what has failed
                self._ray.get(self._actor.close.remote(), timeout=_SLACK_S)
            self._kill()
            self._finish(self)
        finally:
            self._turn.release()

    def _kill(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._actor)

    def _do(self, kind: str, text: str, wall_s: float) -> Cell:
        with self._turn:
            if self._closing or self._over:
                raise ToolError("this session is over: open another")
            began = time.monotonic()
            try:
                outcome, answer = self._ray.get(self._actor.cell.remote(kind, text, wall_s), timeout=wall_s + _SLACK_S)
            except (self._ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
                self._over = True
                if self._closing:
                    why = "the session was closed"
                    return Cell("killed", b"", time.monotonic() - began, False, None, why)
                raise ToolError(f"a session was lost with its Ray node or worker ({type(error).__name__})") from error
            if outcome == "trouble":
                self._over = True
                raise ToolError(answer)
            cell: Cell = answer
            self._over = not cell.alive
            return cell
