"""The command's side of a session on a warm server: sends cells and receives their results.

Covered: wall time of a cell (an interrupt, then the end of the session), output limits, a session that dies or breaks
the protocol, reading the outputs after every cell. Not covered: the inside (`session_driver`), the sandbox (`job`).
The session's process is believed on three points only: a cell is done, ok or error, and its output. A lie about these
affects nothing but the session itself.
"""

import fcntl
import os
import select
import socket
import struct
import termios
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ..base.errors import ToolError
from . import channel
from .cgroup import memory_kills
from .interface import Cell, Status
from .outputs import read_outputs
from .pool import ServerDied
from .request import RunRequest
from .session_driver import BASH, DONE, ORDER, PYTHON
from .sessions import BaseSession
from .verdict import Observations, status_of
from .warm import SetUpFailed, WarmServer, memory_file, output_pipe

_SET_UP_S, _INTERRUPT_S, _END_S = 60.0, 5.0, 60.0
_OVER_LIMIT_S = 2.0  # a cell may go on so long once its output is over the limit
_CHUNK = 1 << 16


class _RunningCell:
    def __init__(self, number: int, kind: int, text: bytes, deadline: float) -> None:
        self.number = number
        self.to_send = ORDER.pack(number, kind, len(text)) + text
        self.deadline = deadline  # of the next step, on the monotonic clock
        self.output = bytearray()
        self.reply = b""
        self.ok: bool | None = None  # None while it runs
        self.stopped_for: Literal["timeout", "output"] | None = None
        self.steps = 0  # 1: interrupted, 2: killed
        self.interrupt_pending = False


class LocalSession(BaseSession):
    """A session on one warm server; see `interface.Session`."""

    def __init__(self, server: WarmServer, request: RunRequest, outputs: Sequence[str], *, exposed: bool) -> None:
        """Open it. `exposed`: a cell could kill its own server.

        ServerDied: the server ended or hung. SetUpFailed: the sandbox could not be set up. OSError: this machine is
        short of descriptors or memory.
        """
        super().__init__("local", {}, outputs)
        self._server, self._limits, self._exposed = server, request.limits, exposed
        self._killing = threading.Lock()
        self._ended = False  # set under _killing, because the server may soon have another session
        self._failure = "its first process ended before the session began"
        self._number = 0
        self._seen = Observations()
        self._output, self._cells = _send_request(server, request)
        self._output_open = self._cells_open = True
        try:
            self._wait_for_start()
            self._kills = memory_kills(server.cgroup)
        except BaseException:
            self._close_descriptors()
            raise
        self._deadline = (self._seen.started or 0.0) + request.limits.wall_s

    def _abort(self) -> None:
        with self._killing:
            if not self._ended:
                with suppress(ServerDied, OSError):
                    self._server.order({"kill": True})

    def _end(self) -> None:
        self._abort()
        try:
            end = time.monotonic() + _END_S
            while not self._ended and time.monotonic() < end:
                self._listen(end, None)
            self._fit = self._fit and self._ended
        except ServerDied:
            self._fit = False
        self._set_ended()
        self._close_descriptors()

    def _run(self, kind: str, text: str, wall_s: float) -> Cell:
        began = time.monotonic()
        self._number += 1
        content = text.encode("utf-8", "surrogatepass")
        deadline = min(began + wall_s, self._deadline)
        cell = _RunningCell(self._number, PYTHON if kind == "python" else BASH, content, deadline)
        try:
            while self._goes_on(cell):
                self._listen(cell.deadline, cell)
                if self._goes_on(cell) and time.monotonic() >= cell.deadline:
                    self._stop_harder(cell)
            self._drain(cell)
        except ServerDied:
            self._set_ended()
            self._fit = False
            if not (self._exposed or self._closing):
                raise ToolError("the sandbox's server died under a session: is this machine out of memory?") from None
        duration = time.monotonic() - began
        outputs = read_outputs(self._seen.work, self.declared, self._limits.submission_mb)
        return Cell(self._status(cell), bytes(cell.output), duration, not self._ended, *outputs)

    def _goes_on(self, cell: _RunningCell) -> bool:
        return not self._ended and (cell.ok is None or cell.interrupt_pending)

    def _status(self, cell: _RunningCell) -> Status:
        kills = memory_kills(self._server.cgroup)
        killed_for_memory, self._kills = kills > self._kills, kills
        if not self._ended:
            if cell.stopped_for is not None:
                return cell.stopped_for
            return "ok" if cell.ok else "memory" if killed_for_memory else "error"
        if not self._fit:
            return "killed"
        if killed_for_memory or (self._server.cgroup is None and self._seen.over_memory):
            return "memory"
        if cell.stopped_for is not None:
            return cell.stopped_for
        if (self._seen.ended or 0.0) >= self._deadline:
            return "timeout"
        status = status_of(self._seen, self._limits)
        return "error" if status == "ok" else status  # it ended itself, and took the session with it

    def _stop_harder(self, cell: _RunningCell) -> None:
        """Interrupt the cell; the second time kill the session; then give up the server."""
        cell.steps += 1
        cell.stopped_for = cell.stopped_for or "timeout"
        if cell.steps == 1:
            cell.interrupt_pending = True
            cell.deadline = time.monotonic() + _INTERRUPT_S
            self._server.order({"interrupt": True})
        elif cell.steps == 2:
            cell.deadline = time.monotonic() + _END_S
            self._abort()
        else:
            raise ServerDied

    def _break_off(self, cell: _RunningCell) -> None:
        """Kill a session that closed its socket or broke the protocol."""
        self._cells_open, cell.ok = False, None
        cell.steps, cell.deadline = 2, time.monotonic() + _END_S
        self._abort()

    def _set_ended(self) -> None:
        with self._killing:
            self._ended = True

    def _wait_for_start(self) -> None:
        end = time.monotonic() + _SET_UP_S
        while self._seen.started is None:
            if self._ended:
                raise SetUpFailed(f"cannot make a sandbox: {self._failure}")
            if not self._listen(end, None):
                raise ServerDied

    def _listen(self, until: float, cell: _RunningCell | None) -> bool:
        """Wait for the next message and process it; False: none came in time. ServerDied: the server has ended."""
        if self._server.control.fileno() < 0:  # closed with the whole sandbox
            raise ServerDied
        poll = select.poll()
        poll.register(self._server.control, select.POLLIN)
        if self._output_open:
            poll.register(self._output, select.POLLIN)
        if self._cells_open and cell is not None:
            poll.register(self._cells, select.POLLIN | (select.POLLOUT if cell.to_send else 0))
        ready = dict(poll.poll(channel.milliseconds(until - time.monotonic())))
        if cell is not None and self._cells.fileno() in ready:
            self._exchange(cell, ready[self._cells.fileno()])
        if self._output in ready:
            self._read(cell, _CHUNK)
        if self._server.control.fileno() in ready:
            self._note(cell)
        return bool(ready)

    def _note(self, cell: _RunningCell | None) -> None:
        message, descriptors = channel.receive(self._server.control)
        if message is None:
            raise ServerDied
        self._seen.note(message, descriptors)
        event = message["event"]
        if event == "failed":
            self._failure = message["why"]
        elif event == "interrupted" and cell is not None:
            cell.interrupt_pending = False
        elif event == "ended":
            self._set_ended()

    def _exchange(self, cell: _RunningCell, events: int) -> None:
        """Send a part of the cell, or receive a part of its reply."""
        piece = None
        try:
            if cell.to_send and events & select.POLLOUT:
                cell.to_send = cell.to_send[self._cells.send(cell.to_send[:_CHUNK]) :]
            if events & ~select.POLLOUT:
                piece = self._cells.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if piece is None:
            return
        cell.reply += piece
        if cell.reply in (DONE.pack(cell.number, 0), DONE.pack(cell.number, 1)) and piece and not cell.to_send:
            cell.ok = cell.reply == DONE.pack(cell.number, 0)
        elif not piece or cell.to_send or len(cell.reply) >= DONE.size:
            self._break_off(cell)

    def _read(self, cell: _RunningCell | None, most: int) -> int:
        try:
            piece = os.read(self._output, most)
        except BlockingIOError:
            return 0
        if not piece:
            self._output_open = False
        elif cell is not None:
            room = (self._limits.output_kb << 10) - len(cell.output)
            cell.output += piece[:room]
            if len(piece) > room and cell.stopped_for is None:
                cell.stopped_for = "output"
                cell.deadline = min(cell.deadline, time.monotonic() + _OVER_LIMIT_S)
        return len(piece)

    def _drain(self, cell: _RunningCell) -> None:
        """Read the output up to the end of the cell; a background process may write more."""
        waiting = struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, bytes(4)))[0]
        while waiting > 0 and self._output_open and (count := self._read(cell, min(waiting, _CHUNK))):
            waiting -= count

    def _close_descriptors(self) -> None:
        os.close(self._output)
        self._seen.close()
        self._cells.close()


def _send_request(server: WarmServer, request: RunRequest) -> tuple[int, socket.socket]:
    """Ask `server` for a session; the descriptor of its output, and the socket for its cells."""
    output, output_end = output_pipe()
    cells, cells_end = socket.socketpair()
    try:
        cells.setblocking(False)
        with memory_file("session", b"") as script:
            server.ask(request, [script, output_end, output_end, cells_end.fileno()])
    except BaseException:
        os.close(output)
        cells.close()
        raise
    finally:
        cells_end.close()
        os.close(output_end)
    return output, cells
