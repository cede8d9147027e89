"""The command's side of the warm servers: starting them, giving one a run, following the run to its end.

Covered: wall time and output limits, a server that dies or hangs. Not covered: what happens inside (`server`, `job`),
and what a run's end means (`verdict`).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mletools

from ..records.errors import ToolError
from . import channel, mounts
from .interface import Limits
from .pool import ServerDied
from .server import BOOT, environment
from .verdict import Ending

_START_S, _SET_UP_S, _END_S, _CGROUP_S = 300.0, 60.0, 60.0, 5.0
_CHUNK = 1 << 16


class SetUpFailed(ToolError):
    """The box could not be made as wanted."""


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Template:
    """The process that has the libraries loaded and that servers are forked from. `server` and `close`: any thread."""

    def __init__(self, plan: mounts.MountPlan, preimport: Sequence[str], cgroup: bool) -> None:
        """Start the process and wait until it is warm. ToolError: it cannot be started, or a module fails to import."""
        self._control, other = channel.pair()
        self._lock = threading.Lock()
        package = str(Path(mletools.__file__).resolve().parent.parent)
        config: dict[str, Any] = {
            "path": [*(path for path in sys.path if path and os.path.isabs(path)), package],
            "command": os.getpid(),
            "preimport": list(preimport),
            "cgroup": cgroup,
            "binds": plan.binds,
            "links": plan.links,
            "import_path": plan.import_path,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
                cwd="/",
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
            channel.send(self._control, config)
        except OSError as error:
            self._control.close()
            raise ToolError(f"cannot start a warm server with {sys.executable}: {error}") from error
        finally:
            other.close()
        self.pid = self._process.pid
        message = None
        if _is_readable(self._control.fileno(), _START_S):
            message, _ = channel.receive(self._control)
        if message is None or message["event"] == "failed":
            self.close()
            code = self._process.poll()
            why = message["why"] if message else f"it ended with code {code} before it was ready"
            raise ToolError(f"the sandbox's warm server does not start: {why}")
        self.missing: list[str] = message["missing"]
        self.threaded: list[str] = message["threaded"]

    def server(self) -> WarmServer:
        """A new server. ServerDied: this template is gone."""
        control, other = channel.pair()
        try:
            with self._lock:
                channel.send(self._control, {}, [other.fileno()])
        except OSError as error:
            control.close()
            raise ServerDied from error
        finally:
            other.close()
        return WarmServer(control)

    def close(self) -> None:
        """End the template; its servers stay until they are closed. Safe to call twice."""
        with self._lock:
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._control.close()


class WarmServer:
    """One server process. Not for use by two threads at once, but for `close`, which any thread may call."""

    def __init__(self, control: socket.socket) -> None:
        """Wait until the server at the other end of `control` says that it is there. ServerDied: it never does."""
        self.control = control
        self._closed = False
        message, handles = None, list[int]()
        if _is_readable(control.fileno(), _START_S):
            message, handles = channel.receive(control)
        if message is None:
            control.close()
            raise ServerDied
        self.pid: int = message["pid"]
        self.cgroup: str | None = message["cgroup"]
        self._handle = handles[0]

    def run(self, code: bytes, request: dict[str, Any], limits: Limits, ending: Ending) -> dict[str, bool]:
        """Serve one run to its very end, told in `ending`, whose descriptors are the caller's to close.

        Returns the protections found where `request` asks for a probe. ServerDied: the server ended or hung.
        SetUpFailed: the box could not be made. OSError: this machine is short of descriptors or memory.
        """
        stdout, stdout_end = os.pipe()
        stderr, stderr_end = os.pipe()
        script = -1
        try:
            script = os.memfd_create("solution", os.MFD_CLOEXEC)
            with os.fdopen(os.dup(script), "wb") as file:
                file.write(code)
            if os.geteuid() == 0:
                for descriptor in (stdout_end, stderr_end):
                    os.fchown(descriptor, 65534, 65534)  # so that a solution may open /dev/stdout
            try:
                self.order({**request, "limits": asdict(limits)}, [script, stdout_end, stderr_end])
            except ServerDied:
                os.close(stdout)
                os.close(stderr)
                raise
        finally:
            for descriptor in (stdout_end, stderr_end, script):
                if descriptor >= 0:
                    os.close(descriptor)
        follower = _Follower(self.control, stdout, stderr, limits, ending)
        try:
            follower.follow()
            return follower.facts
        finally:
            follower.close()

    def order(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send `message`. ServerDied: nobody is there to read it."""
        try:
            channel.send(self.control, message, descriptors)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ServerDied from error

    def close(self) -> None:
        """End the server and what it runs; quick when it is idle, and safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        if not _is_readable(self._handle, 5.0):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            _is_readable(self._handle, _END_S)
        os.close(self._handle)
        self.control.close()
        self._remove_cgroup()

    def _remove_cgroup(self) -> None:
        # The server has removed it, unless it was killed; then its last run's processes take a moment to go.
        end = time.monotonic() + _CGROUP_S
        while self.cgroup is not None and os.path.isdir(self.cgroup) and time.monotonic() < end:
            with suppress(OSError):
                os.rmdir(self.cgroup)
            time.sleep(0.01)


class _Follower:
    """Reads a run's output and the server's events until the server says that all is over."""

    def __init__(self, control: Any, stdout: int, stderr: int, limits: Limits, ending: Ending) -> None:
        self._control = control
        self._limits = limits
        self._pieces: dict[int, bytearray] = {stdout: bytearray(), stderr: bytearray()}
        self._streams = (stdout, stderr)
        for stream in self._streams:
            os.set_blocking(stream, False)  # a solution can take away what poll has announced
        self._open = set(self._streams)
        self._deadline = time.monotonic() + _SET_UP_S
        self._failure: str | None = None
        self.ending = ending
        self.facts: dict[str, bool] = {}

    def follow(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        for stream in self._streams:
            poll.register(stream, select.POLLIN)
        over = False
        while not over:
            left = self._deadline - time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
            if not ready:
                self._out_of_time()
            for stream in self._open.intersection(ready):
                self._read(stream)
                if stream not in self._open:
                    poll.unregister(stream)
            if self._control.fileno() in ready:
                over = self._event()
        for stream in tuple(self._open):
            self._drain(stream)
        if self._failure is not None:
            raise SetUpFailed(f"cannot make a sandbox: {self._failure}")
        cap = self._limits.output_kb << 10
        self.ending.stdout, self.ending.stderr = (bytes(self._pieces[stream][:cap]) for stream in self._streams)

    def _event(self) -> bool:
        message, descriptors = channel.receive(self._control)
        if message is None:
            raise ServerDied
        event = message["event"]
        self.ending.note(message, descriptors)
        if event == "started":
            self.facts = message["facts"]
            self._deadline = message["at"] + self._limits.wall_s
        elif event == "exit":
            self._deadline = time.monotonic() + _END_S
        elif event == "failed":
            self._failure = message["why"]
        elif event == "ended":
            if self.ending.started is None and self._failure is None:
                self._failure = "its first process ended before the solution began"
            return True
        return False

    def _out_of_time(self) -> None:
        running = self.ending.started is not None and self.ending.code is None and self.ending.stopped_for is None
        if not running:
            raise ServerDied
        self._stop("timeout")

    def _stop(self, reason: str) -> None:
        if self.ending.stopped_for is None and self.ending.code is None:
            self.ending.stopped_for = reason
            self._deadline = time.monotonic() + _END_S
            with suppress(BrokenPipeError, ConnectionResetError):
                channel.send(self._control, {"kill": True})

    def _read(self, stream: int) -> None:
        try:
            piece = os.read(stream, _CHUNK)
        except BlockingIOError:
            return
        kept = self._pieces[stream]
        kept += piece
        too_much = len(kept) > self._limits.output_kb << 10
        if too_much:
            # The reader goes before the writer is killed: a full pipe must not hold anything up.
            if self.ending.code is not None and self.ending.stopped_for is None:
                self.ending.stopped_for = "output"
            self._stop("output")
        if too_much or not piece:
            os.close(stream)
            self._open.discard(stream)

    def _drain(self, stream: int) -> None:
        while stream in self._open and _is_readable(stream, 0):
            self._read(stream)

    def close(self) -> None:
        """Close the readers of the output."""
        for stream in tuple(self._open):
            os.close(stream)
            self._open.discard(stream)
