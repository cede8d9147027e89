"""The command's side of a session in a warm server's box: cells in, what came of them out.

Covered: wall time of a cell (an interrupt, then the end of the session), bounds on output, a session that dies or
speaks out of turn, taking submission.csv out after every cell. Not covered: what happens inside (`session_driver`), the
box (`job`), opening one (`local`). Of what the session's process says only three things are taken: that a cell is done,
whether well, and its output; a lie there changes nothing but the session's own story.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from ..records.errors import ToolError
from . import channel
from .cgroup import kills_for_memory
from .interface import Cell, Limits
from .job import NOBODY
from .pool import ServerDied
from .session_driver import BASH, DONE, ORDER, PYTHON
from .verdict import Ending, status_of, take_submission
from .warm import SetUpFailed, WarmServer

_SET_UP_S, _INTERRUPT_S, _END_S = 60.0, 5.0, 60.0
_TALKATIVE_S = 2.0  # how long a cell may go on once its output is over the limit
_CHUNK = 1 << 16


class _Task:
    """One cell under way."""

    def __init__(self, number: int, kind: int, text: bytes, ends: float) -> None:
        self.number = number
        self.to_send = ORDER.pack(number, kind, len(text)) + text
        self.ends = ends  # the next deadline, on the monotonic clock: an interrupt, then a kill
        self.output = bytearray()
        self.answer = b""
        self.good: bool | None = None  # None while it runs
        self.stopped_for: str | None = None
        self.steps = 0  # taken to end it: 1 interrupted, 2 killed
        self.owed = False  # an interrupt may still be on its way to it


class LocalSession:
    """A session in the box of one warm server; see `interface.Session`."""

    def __init__(self, server: WarmServer, request: dict[str, Any], limits: Limits, *, exposed: bool) -> None:
        """Open it. `exposed`: what runs inside could kill its own server.

        ServerDied: the server ended or hung. SetUpFailed: the box could not be made. OSError: this machine is short of
        descriptors or memory.
        """
        self.backend = "local"
        self.protections: dict[str, bool] = {}
        self.finish: Callable[[bool], None] = lambda fit: None  # called once at the end: is the server fit for more?
        self._server, self._limits, self._exposed = server, limits, exposed
        self._turn = threading.Lock()  # held by who listens to the session
        self._killing = threading.Lock()
        self._over = False  # the box is gone; set under _killing, for its server may soon have another
        self._told = False  # the caller knows that it is over
        self._closing = self._closed = False
        self._fit = True
        self._failure = "its first process ended before the session began"
        self._number = 0
        self._ending = Ending()
        self._output, self._cells = _send_request(server, {**request, "limits": asdict(limits)})
        self._hears_output = self._hears_cells = True
        try:
            self._wait_for_start()
            self._kills = kills_for_memory(server.cgroup)
        except BaseException:
            self._close_descriptors()
            raise
        self._ends = (self._ending.started or 0.0) + limits.wall_s

    def python(self, code: str, wall_s: float) -> Cell:
        """See Session.python."""
        return self._do(PYTHON, code, wall_s)

    def bash(self, command: str, wall_s: float) -> Cell:
        """See Session.bash."""
        return self._do(BASH, command, wall_s)

    def close(self) -> None:
        """See Session.close."""
        self._closing = True
        self._kill()
        with self._turn:
            if self._closed:
                return
            self._closed = True
            try:
                end = time.monotonic() + _END_S
                while not self._over and time.monotonic() < end:
                    self._listen(end, None)
                self._fit = self._fit and self._over
            except ServerDied:
                self._fit = False
            self._end()
            self._close_descriptors()
            self.finish(self._fit)

    def _do(self, kind: int, text: str, wall_s: float) -> Cell:
        with self._turn:
            if self._closing or self._told:
                raise ToolError("this session is over: open another")
            began = time.monotonic()
            self._number += 1
            content = text.encode("utf-8", "surrogatepass")
            task = _Task(self._number, kind, content, min(began + wall_s, self._ends))
            try:
                while not self._over and (task.good is None or task.owed):
                    self._listen(task.ends, task)
                    if time.monotonic() >= task.ends:
                        self._press(task)
                self._drain(task)
            except ServerDied:
                self._end()
                self._told, self._fit = True, False
                if not (self._exposed or self._closing):
                    raise ToolError(
                        "the sandbox's server died under a session: is this machine out of memory?"
                    ) from None
            duration = time.monotonic() - began
            self._told = self._over
            submission = take_submission(self._ending.work, self._limits.submission_mb)
            return Cell(self._status(task), bytes(task.output), duration, not self._over, *submission)

    def _status(self, task: _Task) -> str:
        kills = kills_for_memory(self._server.cgroup)
        killed_for_memory, self._kills = kills > self._kills, kills
        if not self._over:
            if task.stopped_for is not None:
                return task.stopped_for
            return "ok" if task.good else "memory" if killed_for_memory else "error"
        if self._closing or not self._fit:
            return "killed"
        if killed_for_memory or (self._server.cgroup is None and self._ending.over_memory):
            return "memory"
        if task.stopped_for is not None:
            return task.stopped_for
        if (self._ending.ended or 0.0) >= self._ends:
            return "timeout"
        status = status_of(self._ending, self._limits)
        return "killed" if status in ("ok", "error") else status

    def _press(self, task: _Task) -> None:
        """Go on to the next means of ending a cell."""
        task.steps += 1
        task.stopped_for = task.stopped_for or "timeout"
        if task.steps == 1:
            task.owed = True
            task.ends = time.monotonic() + _INTERRUPT_S
            self._server.order({"interrupt": True})
        elif task.steps == 2:
            task.ends = time.monotonic() + _END_S
            self._kill()
        else:
            raise ServerDied

    def _kill(self) -> None:
        with self._killing:
            if not self._over:
                with suppress(ServerDied, OSError):
                    self._server.order({"kill": True})

    def _break_off(self, task: _Task) -> None:
        """End a session that is gone, or speaks out of turn."""
        self._hears_cells, task.good = False, None
        task.steps, task.ends = 2, time.monotonic() + _END_S
        self._kill()

    def _end(self) -> None:
        with self._killing:
            self._over = True

    def _wait_for_start(self) -> None:
        end = time.monotonic() + _SET_UP_S
        while self._ending.started is None:
            if self._over:
                raise SetUpFailed(f"cannot make a sandbox: {self._failure}")
            if not self._listen(end, None):
                raise ServerDied

    def _listen(self, until: float, task: _Task | None) -> bool:
        """Wait for what comes next and take it in; False: nothing came until then. ServerDied: the server is gone."""
        if self._server.control.fileno() < 0:  # closed with the whole sandbox
            raise ServerDied
        poll = select.poll()
        poll.register(self._server.control, select.POLLIN)
        if self._hears_output:
            poll.register(self._output, select.POLLIN)
        if self._hears_cells and task is not None:
            poll.register(self._cells, select.POLLIN | (select.POLLOUT if task.to_send else 0))
        ready = dict(poll.poll(max(0.0, until - time.monotonic()) * 1000))
        if task is not None and self._cells.fileno() in ready:
            self._talk(task, ready[self._cells.fileno()])
        if self._output in ready:
            self._read(task, _CHUNK)
        if self._server.control.fileno() in ready:
            self._note(task)
        return bool(ready)

    def _note(self, task: _Task | None) -> None:
        message, descriptors = channel.receive(self._server.control)
        if message is None:
            raise ServerDied
        self._ending.note(message, descriptors)
        event = message["event"]
        if event == "failed":
            self._failure = message["why"]
        elif event == "interrupted" and task is not None:
            task.owed = False
        elif event == "ended":
            self._end()

    def _talk(self, task: _Task, events: int) -> None:
        piece = None
        try:
            if task.to_send and events & select.POLLOUT:
                task.to_send = task.to_send[self._cells.send(task.to_send[:_CHUNK]) :]
            if events & ~select.POLLOUT:
                piece = self._cells.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece is None:
            return
        task.answer += piece
        if task.answer in (DONE.pack(task.number, 0), DONE.pack(task.number, 1)) and piece and not task.to_send:
            task.good = task.answer == DONE.pack(task.number, 0)
        elif not piece or task.to_send or len(task.answer) >= DONE.size:
            self._break_off(task)

    def _read(self, task: _Task | None, most: int) -> int:
        try:
            piece = os.read(self._output, most)
        except BlockingIOError:
            return 0
        if not piece:
            self._hears_output = False
        elif task is not None:
            room = (self._limits.output_kb << 10) - len(task.output)
            task.output += piece[:room]
            if len(piece) > room and task.stopped_for is None:
                task.stopped_for = "output"
                task.ends = min(task.ends, time.monotonic() + _TALKATIVE_S)
        return len(piece)

    def _drain(self, task: _Task) -> None:
        """Take in what was written before the cell was done; a process in the background may go on writing."""
        waiting = struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, bytes(4)))[0]
        while waiting > 0 and self._hears_output and (got := self._read(task, min(waiting, _CHUNK))):
            waiting -= got

    def _close_descriptors(self) -> None:
        for descriptor in (self._output, self._ending.work, self._ending.disk):
            if descriptor >= 0:
                os.close(descriptor)
        self._cells.close()


def _send_request(server: WarmServer, message: dict[str, Any]) -> tuple[int, socket.socket]:
    """Ask `server` for a session; where its output can be read, and the socket of its cells."""
    script = os.memfd_create("session", os.MFD_CLOEXEC)
    output, output_end = os.pipe()
    cells, cells_end = socket.socketpair()
    try:
        if os.geteuid() == 0:
            os.fchown(output_end, NOBODY, NOBODY)  # so that a cell may open /dev/stdout
        # Who holds the other end can take away what poll has announced.
        os.set_blocking(output, False)
        cells.setblocking(False)
        server.order(message, [script, output_end, output_end, cells_end.fileno()])
    except BaseException:
        os.close(output)
        cells.close()
        raise
    finally:
        cells_end.close()
        os.close(output_end)
        os.close(script)
    return output, cells
